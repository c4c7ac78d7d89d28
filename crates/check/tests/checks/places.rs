//! What lies at an address, in programs of others: the names of their variables and parameters.

use warpwright_check::FindingKind::{Race, Uninitialized};

use crate::checks::harness::{ONE, found};

#[test]
fn shared_addresses_are_named_by_the_variable() {
    let finding = found("ld.shared.u32 %r1, [tile+128];", ONE, Uninitialized, ["ld.shared"]);
    assert_eq!(finding.notes[1], "shared address 0x80 is `tile`+0x80");
    assert!(finding.memory.is_empty());
    let second = found("ld.shared.u32 %r1, [barrier+8];", ONE, Uninitialized, ["ld.shared"]);
    assert_eq!(second.notes[1], "shared address 0x1008 is `barrier`+0x8");
}

#[test]
fn global_addresses_are_named_by_the_parameter() {
    let finding = found("st.global.u32 [%buffer+132], %tid;", ONE, Race, ["st.global", "st.global"]);
    assert!(finding.notes[1].ends_with("is 132 bytes past where `buffer` points"), "{finding}");
}

#[test]
fn a_comment_tells_the_element_and_its_line() {
    let body = "//@ tile+64: 16-bit bf16 in Swizzle<1,3,3> o 0 o (4,16):(16,1) at 7 41 20
        //@ buffer: 16-bit bf16
        st.shared.u16 [tile+98], %h; st.global.u32 [%buffer+132], %tid;";
    let body = format!(".reg .b16 %h; cvt.u16.u32 %h, %tid;\n{body}");
    let finding = found(&body, ONE, Race, ["st.shared", "st.shared"]);
    let label = &finding.memory[0];
    assert_eq!(label.text, "shared address 0x62 is element (1, 1) of this tensor of bf16");
    assert_eq!(label.source.as_ref().map(ToString::to_string), Some("file 7:41:20".to_owned()));
    assert!(label.ptx_text.starts_with(".shared .align 128 .b8 tile[4096]"));
    let finding = found(&body, ONE, Race, ["st.global", "st.global"]);
    assert!(finding.notes[1].ends_with("is element 66 of `buffer`"), "{finding}");
}

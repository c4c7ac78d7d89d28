//! Whatever the text, the parser answers: a tree or an error, never a panic.

use std::sync::OnceLock;

use proptest::prelude::*;
use warpwright_ptx::{parse, print};
use warpwright_testing::corpus;

/// PTX that nvcc's compiler wrote, and a page of ours with every construct.
fn texts() -> &'static [String] {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        // The first pages are enough, and keep a case quick.
        let first_pages = |text: String| -> String { text.chars().take(6000).collect() };
        std::iter::once(EVERYTHING.to_owned())
            .chain(corpus::texts().into_iter().map(|(_, text)| first_pages(text)))
            .collect()
    })
}

const EVERYTHING: &str = "\
.version 9.0
.target sm_90a, debug
.address_size 64
.file 1 \"a.cu\", 1, 2
.pragma \"x\";
.extern .shared .align 16 .b8 dynamic[];
.global .attribute(.managed) .align 4 .u32 grid[3][2] = {{1}, {(1<<3)+2, 0x1F}};
.const .v4 .f32 v = {1.0, 0f3F800000, -2e-3, 0d3FF0000000000000};
.global .u64 table[] = {generic(grid)+8, grid, 0xff(grid+4)};
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b) ;
.func die() .noreturn { exit; }
.visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 m[128]) .maxntid 256, 1, 1 .pragma \"p\";
{ .reg .b32 %r<10>, t; .reg .pred p; // comment
$L_1: @!%p1 bra.uni $L_1; /* another */
.loc 1 5 3, function_name $L__info_string0+4, inlined_at 1 9 1
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3, -4}], [%r5+-8];
{ call.uni (retval0), f, (param0, 3); setp.lt.s32 %p1|_, %r1, WARP_SZ; }
proto: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;
list: .calltargets f, g; table: .branchtargets $L1, $L2;
mov.b64 {%r1, _}, 1 ? ~2 : !3; ld.global.u32 %r1, [%rd1].unified; mov.u64 %rd1, m[1]; lop3.b32 a, b, c, d, 0b1; ret; }
.alias other, die;
.section .debug_str { $L: .b8 \"}\" }
";

/// Words and marks of PTX, in any order.
fn soup() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        ".version 9.0\n",
        ".target sm_80\n",
        ".entry k",
        ".func",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        ";",
        ":",
        "::",
        "+",
        "-",
        "|",
        "!",
        "@",
        "%r1",
        "%p<3>",
        "mov.u32",
        "call",
        "_",
        "0x",
        "0f3F",
        "1.5e",
        "9999999999999999999",
        "?",
        ".reg",
        ".b32",
        ".param",
        ".align",
        ".loc 1 2 3",
        ".section x",
        "\"",
        "/*",
        "*/",
        "//",
        "\n",
        " ",
        ".callprototype",
        ".branchtargets",
        "<<",
        ">>",
        "~",
        "WARP_SZ",
        "generic(",
        "é",
        "\u{0}",
        ".",
        "..",
    ]);
    prop::collection::vec(token, 0..80)
        .prop_map(|tokens| format!(".version 9.0\n.target sm_80\n{}", tokens.concat()))
}

/// A real text with a few places changed: cut, doubled, overwritten, swapped.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0..5u8);
    (any::<prop::sample::Index>(), prop::collection::vec(edit, 1..8)).prop_map(|(which, edits)| {
        let mut bytes = which.get(texts()).clone().into_bytes();
        for (from, to, byte, kind) in edits {
            if bytes.is_empty() {
                break;
            }
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            match kind {
                0 => bytes.truncate(from),
                1 => bytes[from] = byte,
                2 => bytes.swap(from, to),
                3 => bytes.insert(from, byte),
                _ => {
                    let piece: Vec<u8> =
                        bytes[from.min(to)..from.max(to)].iter().take(200).copied().collect();
                    bytes.splice(to..to, piece);
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Parses, and checks what can be said of either answer.
fn check(text: &str) {
    match parse(text) {
        Ok(mut module) => {
            let printed = print(&module);
            let mut again =
                parse(&printed).unwrap_or_else(|error| panic!("{error}\nin what was printed of {text}"));
            module.erase_lines();
            again.erase_lines();
            assert_eq!(format!("{module:?}"), format!("{again:?}"), "{text}");
        }
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1 && !error.expected.is_empty());
            assert!(error.line as usize <= text.matches('\n').count() + 1, "{error}");
            assert!(error.to_string().lines().count() >= 3, "{error}");
        }
    }
}

#[test]
fn the_seeds_parse() {
    for text in &texts()[..1] {
        parse(text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_truncation_is_answered() {
    for end in (0..EVERYTHING.len()).filter(|end| EVERYTHING.is_char_boundary(*end)) {
        check(&EVERYTHING[..end]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_bytes_after_a_header_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&format!(".version 9.0\n.target sm_80\n.entry k() {{ {}", String::from_utf8_lossy(&bytes)));
    }

    #[test]
    fn any_words_are_answered(text in soup()) {
        check(&text);
    }

    #[test]
    fn mutated_text_is_answered(text in mutated()) {
        check(&text);
    }
}

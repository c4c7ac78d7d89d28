//! Loads, stores, atomics and asynchronous copies.

use crate::golden::case::{Buffer, Case, Width};
use crate::golden::inputs::{ELEMENTS, Input, Kind};
use crate::golden::scalar::width;

pub(crate) fn cases() -> Vec<Case> {
    [atomics(), loads(), asynchronous(), matrices()].concat()
}

fn input(kind: Kind, arity: usize, position: usize) -> Input {
    Input { kind, arity, position, elements: ELEMENTS }
}

/// Every thread has a cell of its own, in global and then in shared memory: old and new values of
/// both.
fn atomics() -> Vec<Case> {
    let mut cases = Vec::new();
    let own_cell = |operation: &str, kind: Kind, sources: usize, target: &'static str| {
        let width = width(kind);
        let (bytes, bits) = (width.bytes(), 8 * width.bytes());
        let case = Case::new("atomic", format!("atom.{operation}")).target(target).operand(
            'a',
            width,
            1,
            Buffer::RawInOut(input(kind, sources + 1, 0)),
        );
        let case = (1..=sources).fold(case, |case, position| {
            case.input((b'a' + position as u8) as char, width, input(kind, sources + 1, position))
        });
        let operands: String =
            (1..=sources).map(|position| format!(", %{}0", (b'a' + position as u8) as char)).collect();
        case.output(width, 3).body(format!(
            ".shared .align 8 .b8 cells[{}];\n.reg .b32 %cell, %local;\n.reg .b{bits} %start;\nmov.u32 %local, %tid.x;\n\
             mov.u32 %cell, cells;\nmad.lo.u32 %cell, %local, {bytes}, %cell;\nmad.wide.u32 %at, %thread, {bytes}, %base_a;\n\
             ld.global.b{bits} %start, [%at];\nst.shared.b{bits} [%cell], %start;\natom.global.{operation} %d0, [%at]{operands};\n\
             atom.shared.{operation} %d1, [%cell]{operands};\nld.shared.b{bits} %d2, [%cell];",
            128 * bytes
        ))
    };
    for operation in ["add", "min", "max", "inc", "dec"] {
        cases.push(own_cell(&format!("{operation}.u32"), Kind::U32, 1, "sm_80"));
    }
    for operation in ["add.s32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32", "exch.b32"] {
        cases.push(own_cell(operation, Kind::U32, 1, "sm_80"));
    }
    for operation in
        ["add.u64", "min.u64", "max.u64", "min.s64", "max.s64", "and.b64", "or.b64", "xor.b64", "exch.b64"]
    {
        cases.push(own_cell(operation, Kind::U64, 1, "sm_80"));
    }
    for (operation, kind) in [("cas.b16", Kind::U16), ("cas.b32", Kind::U32), ("cas.b64", Kind::U64)] {
        cases.push(own_cell(operation, kind, 2, "sm_80"));
    }
    for (operation, kind) in [
        ("add.f32", Kind::F32),
        ("add.f64", Kind::F64),
        ("add.noftz.f16", Kind::F16),
        ("add.noftz.f16x2", Kind::F16x2),
        ("add.noftz.bf16", Kind::Bf16),
        ("add.noftz.bf16x2", Kind::Bf16x2),
    ] {
        cases.push(own_cell(operation, kind, 1, "sm_90"));
    }
    // All threads of a CTA meet in one cell; only the final value is kept.
    for (operation, register) in
        [("add.u32", "b32"), ("max.s32", "b32"), ("xor.b32", "b32"), ("min.u64", "b64"), ("and.b64", "b64")]
    {
        let kind = if register == "b64" { Kind::U64 } else { Kind::U32 };
        let bytes = width(kind).bytes();
        cases.push(
            Case::new("atomic", format!("red.{operation}"))
                .input('a', width(kind), input(kind, 1, 0))
                .operand('d', width(kind), 0, Buffer::RawOutput(ELEMENTS / 128))
                .body(format!(
                    "mad.wide.u32 %at, %block, {bytes}, %base_d;\nred.relaxed.gpu.global.{operation} [%at], %a0;"
                )),
        );
    }
    for (ty, kind) in [("f32", Kind::F32), ("f16", Kind::F16), ("bf16", Kind::Bf16)] {
        let (lanes, modifier) = if ty == "f32" { (2, "") } else { (4, ".noftz") };
        let list = |name: char| (0..lanes).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ");
        let count = ELEMENTS * lanes;
        let part = |position| Input { kind, arity: 2, position, elements: count };
        cases.push(
            Case::new("atomic", format!("atom.v{lanes}.{ty}"))
                .target("sm_90")
                .operand('a', width(kind), 0, Buffer::RawInOut(part(0)))
                .operand('b', width(kind), lanes, Buffer::Input(part(1)))
                .output(width(kind), lanes)
                .body(format!(
                    "mad.wide.u32 %at, %thread, {}, %base_a;\natom.global.v{lanes}.{ty}.add{modifier} {{{}}}, [%at], {{{}}};",
                    lanes * width(kind).bytes(),
                    list('d'),
                    list('b')
                )),
        );
    }
    cases
}

fn loads() -> Vec<Case> {
    let mut cases = Vec::new();
    // Narrow loads extend into the register, whatever its width.
    for (ty, bytes) in [("u8", 1), ("s8", 1), ("b8", 1), ("u16", 2), ("s16", 2), ("u32", 4), ("s32", 4)] {
        cases.push(
            Case::new("memory", format!("ld.extend.{ty}"))
                .operand('a', Width::B64, 0, Buffer::RawInput(input(Kind::U64, 1, 0)))
                .output(Width::B64, 1)
                .body(format!(
                    "mad.wide.u32 %at, %thread, {bytes}, %base_a;\nld.global.{ty} %d0, [%at+{}];",
                    3 * bytes
                )),
        );
        cases.push(
            Case::new("memory", format!("st.truncate.{ty}"))
                .input('a', Width::B64, input(Kind::U64, 1, 0))
                .operand('d', Width::B64, 0, Buffer::RawOutput(ELEMENTS))
                .body(format!("mad.wide.u32 %at, %thread, 8, %base_d;\nst.global.{ty} [%at+{bytes}], %a0;")),
        );
    }
    for (ty, width, lanes) in [
        ("v2.u16", Width::B16, 2),
        ("v4.u16", Width::B16, 4),
        ("v2.u32", Width::B32, 2),
        ("v4.u32", Width::B32, 4),
        ("v2.u64", Width::B64, 2),
        ("v4.u8", Width::B16, 4),
    ] {
        let bytes = if ty.ends_with("u8") { 1 } else { width.bytes() };
        let list: Vec<String> = (0..lanes).map(|i| format!("%d{i}")).collect();
        let back: Vec<String> = (0..lanes).rev().map(|i| format!("%d{i}")).collect();
        cases.push(
            Case::new("memory", format!("ld.{ty}"))
                .operand('a', Width::B64, 0, Buffer::RawInput(Input { elements: 2 * ELEMENTS, ..input(Kind::U64, 1, 0) }))
                .operand('e', Width::B64, 0, Buffer::RawOutput(2 * ELEMENTS))
                .output(width, lanes)
                .body(format!(
                    "mad.wide.u32 %at, %thread, {stride}, %base_a;\nld.global.{ty} {{{}}}, [%at];\nmad.wide.u32 %at, %thread, {stride}, %base_e;\n\
                     st.global.{ty} [%at], {{{}}};",
                    list.join(", "),
                    back.join(", "),
                    stride = bytes * lanes
                )),
        );
    }
    // One address, named as shared, as generic, and as local memory indexed at run time.
    cases.push(
        Case::new("memory", "generic")
            .input('a', Width::B32, input(Kind::U32, 1, 0))
            .output(Width::B32, 5)
            .body(
                ".shared .align 4 .b32 here[128];\n.local .align 4 .b32 mine[4];\n.reg .b64 %generic;\n.reg .b32 %local, %cell, %index;\n.reg .pred %p;\n\
                 mov.u32 %local, %tid.x;\nmov.u32 %cell, here;\nmad.lo.u32 %cell, %local, 4, %cell;\nst.shared.u32 [%cell], %a0;\n\
                 cvt.u64.u32 %generic, %cell;\ncvta.shared.u64 %generic, %generic;\nld.u32 %d0, [%generic];\nisspacep.shared %p, %generic;\n\
                 selp.u32 %d1, 1, 0, %p;\nisspacep.global %p, %generic;\nselp.u32 %d2, 1, 0, %p;\nmov.u64 %generic, mine;\n\
                 cvta.local.u64 %generic, %generic;\nst.u32 [%generic], %a0;\nst.u32 [%generic+4], %local;\nst.u32 [%generic+8], 7;\n\
                 st.u32 [%generic+12], 9;\nand.b32 %index, %a0, 3;\nmad.wide.u32 %generic, %index, 4, %generic;\nld.u32 %d3, [%generic];\n\
                 isspacep.local %p, %generic;\nselp.u32 %d4, 1, 0, %p;",
            ),
    );
    cases
}

/// `cp.async`: every size, with fewer source bytes than it fills, and with the ignored source.
fn asynchronous() -> Vec<Case> {
    let mut cases = Vec::new();
    let copy = |name: String, size: usize, copy: String| {
        Case::new("memory", name)
            .operand('a', Width::B32, 0, Buffer::RawInput(Input { elements: 4 * ELEMENTS, ..input(Kind::U32, 1, 0) }))
            .output(Width::B32, size / 4)
            .body(format!(
                ".shared .align 16 .b8 tile[2048];\n.reg .b32 %local, %cell, %bytes;\n.reg .pred %ignore;\nmov.u32 %local, %tid.x;\n\
                 mov.u32 %cell, tile;\nmad.lo.u32 %cell, %local, 16, %cell;\nst.shared.v4.u32 [%cell], {{%local, %local, %local, %local}};\n\
                 mad.wide.u32 %at, %thread, 16, %base_a;\nand.b32 %bytes, %local, {mask};\nsetp.eq.u32 %ignore, %bytes, 0;\n{copy}\n\
                 cp.async.commit_group;\ncp.async.wait_group 0;\n{}",
                (0..size / 4).map(|i| format!("ld.shared.u32 %d{i}, [%cell+{}];\n", 4 * i)).collect::<String>(),
                mask = size - 1,
            ))
    };
    for size in [4, 8, 16] {
        cases.push(copy(
            format!("cp.async.ca.{size}"),
            size,
            format!("cp.async.ca.shared.global [%cell], [%at], {size};"),
        ));
        cases.push(copy(
            format!("cp.async.ca.{size}.fill"),
            size,
            format!("cp.async.ca.shared.global [%cell], [%at], {size}, %bytes;"),
        ));
        cases.push(copy(
            format!("cp.async.ca.{size}.ignore"),
            size,
            format!("cp.async.ca.shared.global [%cell], [%at], {size}, %ignore;"),
        ));
    }
    cases.push(copy(
        "cp.async.cg.16.fill".into(),
        16,
        "cp.async.cg.shared.global [%cell], [%at], 16, %bytes;".into(),
    ));
    cases.push(copy(
        "cp.async.wait_all".into(),
        16,
        "cp.async.cg.shared.global.L2::128B [%cell], [%at], 16;\ncp.async.wait_all;".into(),
    ));
    cases
}

/// `ldmatrix`, `stmatrix` and `movmatrix`: the memory holds numbered halves, so the registers name
/// their owners.
fn matrices() -> Vec<Case> {
    let mut cases = Vec::new();
    for (count, letter) in [(1, "x1"), (2, "x2"), (4, "x4")] {
        for transposed in ["", ".trans"] {
            let registers: Vec<String> = (0..count).map(|i| format!("%d{i}")).collect();
            let registers = registers.join(", ");
            cases.push(
                Case::new("matrix_move", format!("ldmatrix.{letter}{transposed}"))
                    .warps(1)
                    .operand('a', Width::B16, 0, Buffer::RawInput(Input { kind: Kind::U16, arity: 1, position: 0, elements: 256 }))
                    .output(Width::B32, count)
                    .body(format!(
                        ".shared .align 16 .b8 tile[512];\n.reg .b32 %cell, %v<4>;\nmov.u32 %cell, tile;\nmad.lo.u32 %cell, %lane, 16, %cell;\n\
                         mad.wide.u32 %at, %lane, 16, %base_a;\nld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%at];\n\
                         st.shared.v4.u32 [%cell], {{%v0, %v1, %v2, %v3}};\nbar.warp.sync 0xffffffff;\n\
                         ldmatrix.sync.aligned.m8n8.{letter}{transposed}.shared.b16 {{{registers}}}, [%cell];"
                    )),
            );
            let sources: Vec<String> = (0..count).map(|i| format!("%a{i}")).collect();
            let sources = sources.join(", ");
            cases.push(
                Case::new("matrix_move", format!("stmatrix.{letter}{transposed}"))
                    .target("sm_90")
                    .warps(1)
                    .operand('a', Width::B32, count, Buffer::Input(Input { kind: Kind::U32, arity: 1, position: 0, elements: 32 * count }))
                    .output(Width::B32, 4)
                    .body(format!(
                        ".shared .align 16 .b8 tile[512];\n.reg .b32 %cell;\nmov.u32 %cell, tile;\nmad.lo.u32 %cell, %lane, 16, %cell;\n\
                         st.shared.v4.u32 [%cell], {{%lane, %lane, %lane, %lane}};\nbar.warp.sync 0xffffffff;\n\
                         stmatrix.sync.aligned.m8n8.{letter}{transposed}.shared.b16 [%cell], {{{sources}}};\nbar.warp.sync 0xffffffff;\n\
                         ld.shared.v4.u32 {{%d0, %d1, %d2, %d3}}, [%cell];"
                    )),
            );
        }
    }
    cases.push(
        Case::new("matrix_move", "movmatrix")
            .operand('a', Width::B32, 1, Buffer::Input(input(Kind::U32, 1, 0)))
            .output(Width::B32, 1)
            .body("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;"),
    );
    cases
}

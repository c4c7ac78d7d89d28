//! Instructions that the lanes of a warp or the warps of a CTA execute together, and special
//! registers.

use crate::golden::case::{Buffer, Case, Width};
use crate::golden::inputs::{ELEMENTS, Input, Kind};
use crate::golden::scalar::operands;

pub(crate) fn cases() -> Vec<Case> {
    [shuffles(), votes(), reductions(), barriers(), registers(), control()].concat()
}

fn warp(
    name: impl Into<String>,
    kinds: &[Kind],
    result: Width,
    results: usize,
    body: impl Into<String>,
) -> Case {
    operands(Case::new("warp", name), kinds, result, results).body(body)
}

fn shuffles() -> Vec<Case> {
    let mut cases = Vec::new();
    for mode in ["up", "down", "bfly", "idx"] {
        // The clamp and the segment mask: whole warps, then segments of 16, 8, 4.
        let limits =
            if mode == "up" { [0u32, 0x1000, 0x1800, 0x1c00] } else { [0x1f, 0x101f, 0x181f, 0x1c1f] };
        let mut body = String::from(".reg .pred %p;\n.reg .b32 %bit;\n");
        for (i, limit) in limits.iter().enumerate() {
            for (j, source) in ["%b0", "1", "3", "16"].iter().enumerate() {
                let d = 2 * (4 * i + j);
                body += &format!(
                    "shfl.sync.{mode}.b32 %d{d}|%p, %a0, {source}, {limit}, 0xffffffff;\nselp.b32 %d{}, 1, 0, %p;\n",
                    d + 1
                );
            }
        }
        cases.push(warp(format!("shfl.{mode}"), &[Kind::U32; 2], Width::B32, 32, body));
        cases.push(warp(
            format!("shfl.{mode}.register"),
            &[Kind::U32; 3],
            Width::B32,
            1,
            format!("shfl.sync.{mode}.b32 %d0, %a0, %b0, %c0, 0xffffffff;"),
        ));
        let body = format!(
            ".reg .pred %even;\n.reg .b32 %bit;\nmov.b32 %d0, 77;\nand.b32 %bit, %lane, 1;\nsetp.eq.u32 %even, %bit, 0;\n\
             @%even shfl.sync.{mode}.b32 %d0, %a0, 2, {}, 0x55555555;",
            limits[0]
        );
        cases.push(warp(format!("shfl.{mode}.partial"), &[Kind::U32], Width::B32, 1, body));
    }
    cases
}

fn votes() -> Vec<Case> {
    let mut cases = Vec::new();
    // A predicate of the lane's number and value, chosen so that all, some and none hold in
    // different warps.
    let condition = ".reg .pred %p, %q, %odd;\n.reg .b32 %bit, %limit;\nshr.u32 %limit, %thread, 5;\nsetp.le.u32 %p, %lane, %limit;\n\
                     and.b32 %bit, %lane, 1;\nsetp.eq.u32 %odd, %bit, 1;\n";
    for mode in ["all", "any", "uni"] {
        cases.push(warp(
            format!("vote.{mode}"),
            &[Kind::U32],
            Width::B32,
            3,
            format!(
                "{condition}vote.sync.{mode}.pred %q, %p, 0xffffffff;\nselp.b32 %d0, 1, 0, %q;\n\
                 vote.sync.{mode}.pred %q, !%p, 0xffffffff;\nselp.b32 %d1, 1, 0, %q;\nmov.b32 %d2, 5;\n\
                 @%odd vote.sync.{mode}.pred %q, %p, 0xaaaaaaaa;\n@%odd selp.b32 %d2, 1, 0, %q;"
            ),
        ));
    }
    cases.push(warp(
        "vote.ballot",
        &[Kind::U32],
        Width::B32,
        3,
        format!(
            "{condition}vote.sync.ballot.b32 %d0, %p, 0xffffffff;\nvote.sync.ballot.b32 %d1, !%p, 0xffffffff;\n\
             mov.b32 %d2, 5;\n@%odd vote.sync.ballot.b32 %d2, %p, 0xaaaaaaaa;"
        ),
    ));
    for (ty, kind) in [("b32", Kind::U32), ("b64", Kind::U64)] {
        let narrow = if ty == "b32" { "and.b32 %a0, %a0, 3;" } else { "and.b64 %a0, %a0, 3;" };
        cases.push(warp(
            format!("match.any.{ty}"),
            &[kind],
            Width::B32,
            2,
            format!("{condition}{narrow}\nmatch.any.sync.{ty} %d0, %a0, 0xffffffff;\nmov.b32 %d1, 5;\n@%odd match.any.sync.{ty} %d1, %a0, 0xaaaaaaaa;"),
        ));
        let same = if ty == "b32" { "and.b32 %a0, %limit, 3;" } else { "cvt.u64.u32 %a0, %limit;" };
        cases.push(warp(
            format!("match.all.{ty}"),
            &[kind],
            Width::B32,
            4,
            format!(
                "{condition}mov.b64 %at, 0;\nmatch.all.sync.{ty} %d0|%p, %a0, 0xffffffff;\nselp.b32 %d1, 1, 0, %p;\n{same}\n\
                 match.all.sync.{ty} %d2|%p, %a0, 0xffffffff;\nselp.b32 %d3, 1, 0, %p;"
            ),
        ));
    }
    cases.push(
        warp(
            "elect",
            &[Kind::U32],
            Width::B32,
            4,
            format!(
                "{condition}elect.sync %d0|%p, 0xffffffff;\nselp.b32 %d1, 1, 0, %p;\nmov.b32 %d2, 5;\nmov.b32 %d3, 6;\n\
                 @%odd elect.sync %d2|%p, 0xaaaaaaaa;\n@%odd selp.b32 %d3, 1, 0, %p;"
            ),
        )
        .target("sm_90"),
    );
    cases
}

fn reductions() -> Vec<Case> {
    let mut cases = Vec::new();
    for operation in
        ["add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"]
    {
        cases.push(warp(
            format!("redux.{operation}"),
            &[Kind::U32],
            Width::B32,
            2,
            format!(
                ".reg .pred %low;\nredux.sync.{operation} %d0, %a0, 0xffffffff;\nmov.b32 %d1, 5;\n\
                 setp.lt.u32 %low, %lane, 11;\n@%low redux.sync.{operation} %d1, %a0, 0x7ff;"
            ),
        ));
    }
    cases
}

fn barriers() -> Vec<Case> {
    let mut cases = Vec::new();
    let condition = ".reg .pred %p, %q;\n.reg .b32 %bit;\nand.b32 %bit, %a0, 1;\nsetp.eq.u32 %p, %bit, 1;\n";
    cases.push(warp(
        "bar.red",
        &[Kind::U32],
        Width::B32,
        4,
        format!(
            "{condition}barrier.cta.red.popc.u32 %d0, 0, %p;\nbar.red.popc.u32 %d1, 1, 128, !%p;\nbar.red.and.pred %q, 2, %p;\n\
             selp.b32 %d2, 1, 0, %q;\nbar.red.or.pred %q, 3, %p;\nselp.b32 %d3, 1, 0, %q;"
        ),
    ));
    // Two warps meet at barrier 1, the other two at barrier 2, and pass values through shared
    // memory.
    cases.push(warp(
        "barrier.partial",
        &[Kind::U32],
        Width::B32,
        1,
        ".shared .align 4 .b32 exchange[128];\n.reg .b32 %local, %mine, %other, %group;\nmov.u32 %local, %tid.x;\n\
         mov.u32 %mine, exchange;\nmad.lo.u32 %mine, %local, 4, %mine;\nst.shared.u32 [%mine], %a0;\nshr.u32 %group, %local, 6;\n\
         add.u32 %group, %group, 1;\nbarrier.sync %group, 64;\nxor.b32 %other, %local, 32;\nmov.u32 %mine, exchange;\n\
         mad.lo.u32 %mine, %other, 4, %mine;\nld.shared.u32 %d0, [%mine];",
    ));
    // Producers arrive without waiting.
    cases.push(warp(
        "barrier.arrive",
        &[Kind::U32],
        Width::B32,
        1,
        ".shared .align 4 .b32 exchange[128];\n.reg .pred %producer;\n.reg .b32 %local, %mine, %other;\nmov.u32 %local, %tid.x;\n\
         mov.u32 %mine, exchange;\nmad.lo.u32 %mine, %local, 4, %mine;\nmov.b32 %d0, %a0;\nsetp.lt.u32 %producer, %local, 64;\n\
         @!%producer bra consume;\nst.shared.u32 [%mine], %a0;\nbarrier.arrive 5, 128;\nbra done;\nconsume:\nbarrier.sync 5, 128;\n\
         sub.u32 %other, %local, 64;\nmov.u32 %mine, exchange;\nmad.lo.u32 %mine, %other, 4, %mine;\nld.shared.u32 %d0, [%mine];\ndone:",
    ));
    cases.push(warp(
        "bar.warp.exchange",
        &[Kind::U32],
        Width::B32,
        1,
        ".shared .align 4 .b32 exchange[128];\n.reg .b32 %local, %mine, %other;\nmov.u32 %local, %tid.x;\nmov.u32 %mine, exchange;\n\
         mad.lo.u32 %mine, %local, 4, %mine;\nst.shared.u32 [%mine], %a0;\nbar.warp.sync 0xffffffff;\nxor.b32 %other, %local, 5;\n\
         mov.u32 %mine, exchange;\nmad.lo.u32 %mine, %other, 4, %mine;\nld.shared.u32 %d0, [%mine];",
    ));
    cases
}

fn registers() -> Vec<Case> {
    let mut cases = Vec::new();
    let named = [
        "%tid.x",
        "%tid.y",
        "%tid.z",
        "%ntid.x",
        "%ntid.y",
        "%ntid.z",
        "%ctaid.x",
        "%ctaid.y",
        "%ctaid.z",
        "%nctaid.x",
        "%nctaid.y",
        "%nctaid.z",
        "%laneid",
        "%lanemask_eq",
        "%lanemask_le",
        "%lanemask_lt",
        "%lanemask_ge",
        "%lanemask_gt",
        "%total_smem_size",
        "%dynamic_smem_size",
    ];
    let body: String =
        named.iter().enumerate().map(|(i, name)| format!("mov.u32 %d{i}, {name};\n")).collect();
    cases.push(warp("special.registers", &[], Width::B32, named.len(), body));
    let named = [
        "%clusterid.x",
        "%nclusterid.x",
        "%cluster_ctaid.x",
        "%cluster_nctaid.x",
        "%cluster_ctarank",
        "%cluster_nctarank",
    ];
    let body: String =
        named.iter().enumerate().map(|(i, name)| format!("mov.u32 %d{i}, {name};\n")).collect();
    cases.push(warp("special.cluster.registers", &[], Width::B32, named.len(), body).target("sm_90"));
    cases.push(warp(
        "activemask",
        &[],
        Width::B32,
        2,
        ".reg .pred %low;\nmov.b32 %d1, 0;\nactivemask.b32 %d0;\nsetp.lt.u32 %low, %lane, 9;\n@%low activemask.b32 %d1;",
    ));
    // Constants that the assembler computes.
    cases.push(warp(
        "mov.immediate",
        &[],
        Width::B32,
        12,
        "mov.b32 %d0, 0xdeadbeef;\nmov.b32 %d1, -1;\nmov.u32 %d2, 017;\nmov.u32 %d3, 0b101;\nmov.s32 %d4, (7+3)*-2;\n\
         mov.f32 %d5, 0f3F800001;\nmov.f32 %d6, 1.5;\nmov.f32 %d7, -2.5e-3;\nmov.u32 %d8, 1<<5|3;\nmov.u32 %d9, 7>3?10:20;\n\
         mov.u32 %d10, ~0x55;\nmov.u32 %d11, 100 % 7;",
    ));
    cases
}

fn control() -> Vec<Case> {
    vec![
        // Each lane loops its own number of times (Collatz), so the lanes of a warp diverge and
        // meet again.
        warp(
            "loop.divergent",
            &[Kind::U32],
            Width::B32,
            2,
            ".reg .pred %more, %odd;\n.reg .b32 %n, %bit;\nand.b32 %n, %a0, 1023;\nor.b32 %n, %n, 1;\nmov.u32 %d0, 0;\nagain:\n\
             setp.eq.u32 %more, %n, 1;\n@%more bra out;\nand.b32 %bit, %n, 1;\nsetp.eq.u32 %odd, %bit, 1;\n\
             @%odd mad.lo.u32 %n, %n, 3, 1;\n@!%odd shr.u32 %n, %n, 1;\nadd.u32 %d0, %d0, 1;\nbra again;\nout:\n\
             vote.sync.ballot.b32 %d1, !%more, 0xffffffff;",
        ),
        warp(
            "branch.indexed",
            &[Kind::U32],
            Width::B32,
            1,
            ".reg .b32 %index;\nand.b32 %index, %a0, 3;\ntable: .branchtargets zero, one, two, three;\nbrx.idx %index, table;\n\
             zero:\nmov.u32 %d0, 10;\nbra join;\none:\nadd.u32 %d0, %a0, 1;\nbra join;\ntwo:\nmul.lo.u32 %d0, %a0, %a0;\nbra join;\n\
             three:\nnot.b32 %d0, %a0;\njoin:",
        ),
        warp(
            "selp.mixed",
            &[Kind::U32, Kind::U32],
            Width::B32,
            3,
            ".reg .pred %p, %q, %r;\nsetp.lt.s32 %p, %a0, %b0;\nsetp.lo.u32 %q, %a0, %b0;\nselp.b32 %d0, %a0, %b0, %p;\n\
             xor.pred %r, %p, %q;\nselp.u32 %d1, 1, 0, %r;\nnot.pred %r, %r;\nand.pred %r, %r, %p;\nselp.s32 %d2, -1, 2, %r;",
        ),
        Case::new("warp", "mov.vectors")
            .operand('a', Width::B64, 1, Buffer::Input(Input { kind: Kind::U64, arity: 1, position: 0, elements: ELEMENTS }))
            .output(Width::B64, 3)
            .body(
                ".reg .b32 %low, %high;\n.reg .b16 %w<4>;\nmov.b64 {%low, %high}, %a0;\nmov.b64 %d0, {%high, %low};\n\
                 mov.b64 {%w0, %w1, %w2, %w3}, %a0;\nmov.b64 %d1, {%w3, %w1, %w0, %w2};\nmov.b32 {%w0, %w1}, %high;\n\
                 mov.b32 %low, {%w1, %w0};\nmov.b64 %d2, {%low, %low};",
            ),
    ]
}

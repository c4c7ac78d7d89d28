//! The instructions of the arithmetic units and of a warp.

use warpwright_arch::instructions::Class;

use super::steps::{Inputs, Steps};

/// The family's name.
const FAMILY: &str = "instruction";

/// A name, a class, and the step.
type Row = (&'static str, Class, &'static str);

/// Steps of one register of 32 bits, by what it holds.
const STEPS: &[(Inputs, &[Row])] = &[
    (
        Inputs::Integers,
        &[
            ("add.s32", Class::Integer, "add.s32 $a, $a, $b;"),
            ("min.s32", Class::Integer, "min.s32 $a, $a, $b;"),
            ("mul.lo.s32", Class::IntegerMultiply, "mul.lo.s32 $a, $a, $b;"),
            ("mul.hi.u32", Class::IntegerMultiply, "mul.hi.u32 $a, $a, $b;"),
            ("mad.lo.s32", Class::IntegerMultiply, "mad.lo.s32 $a, $a, $c, $b;"),
            ("dp4a.s32.s32", Class::IntegerMultiply, "dp4a.s32.s32 $a, $a, $c, $b;"),
            ("div.u32", Class::IntegerDivide, "div.u32 $a, $r, $a;"),
            ("shl.b32", Class::Logic, "shl.b32 $a, $a, $c;"),
            ("shr.u32", Class::Logic, "shr.u32 $a, $a, $c;"),
            ("shf.l.wrap.b32", Class::Logic, "shf.l.wrap.b32 $a, $a, $b, $c;"),
            ("lop3.b32", Class::Logic, "lop3.b32 $a, $a, $b, $r, 0x96;"),
            ("prmt.b32", Class::Logic, "prmt.b32 $a, $a, $b, $e;"),
            ("bfe.u32", Class::Logic, "bfe.u32 $a, $a, $c, $d;"),
            ("bfi.b32", Class::Logic, "bfi.b32 $a, $a, $b, $c, $d;"),
            ("popc.b32", Class::BitCount, "popc.b32 $a, $a;"),
            ("clz.b32", Class::BitCount, "clz.b32 $a, $a;"),
            ("brev.b32 add.s32", Class::BitCount, "brev.b32 $a, $a; add.s32 $a, $a, $b;"),
            (
                "setp.lt.s32 selp.b32",
                Class::Compare,
                "{ .reg .pred %p; setp.lt.s32 %p, $a, $b; selp.b32 $a, $c, $d, %p; }",
            ),
            ("cvt.rn.f32.s32", Class::Conversion, "cvt.rn.f32.s32 $a, $a;"),
            ("cvt.rzi.s32.f32", Class::Conversion, "cvt.rzi.s32.f32 $a, $a;"),
            ("shfl.sync.bfly.b32", Class::Exchange, "shfl.sync.bfly.b32 $a, $a, 1, 31, -1;"),
            ("shfl.sync.idx.b32", Class::Exchange, "shfl.sync.idx.b32 $a, $a, $c, 31, -1;"),
            (
                "setp.ne.s32 vote.sync.ballot.b32",
                Class::Vote,
                "{ .reg .pred %p; setp.ne.s32 %p, $a, $b; vote.sync.ballot.b32 $a, %p, -1; }",
            ),
            ("bar.warp.sync", Class::WarpBarrier, "bar.warp.sync -1;"),
            ("match.any.sync.b32", Class::Match, "match.any.sync.b32 $a, $a, -1;"),
            ("redux.sync.add.s32", Class::WarpReduction, "redux.sync.add.s32 $a, $a, -1;"),
            (
                "mov.u32 %clock add.s32",
                Class::Move,
                "{ .reg .b32 %m; mov.u32 %m, %clock; add.s32 $a, $a, %m; }",
            ),
            (
                "mov.u32 %smid add.s32",
                Class::Move,
                "{ .reg .b32 %m; mov.u32 %m, %smid; add.s32 $a, $a, %m; }",
            ),
            (
                "mov.u32 %globaltimer_lo add.s32",
                Class::Move,
                "{ .reg .b32 %m; mov.u32 %m, %globaltimer_lo; add.s32 $a, $a, %m; }",
            ),
        ],
    ),
    (
        Inputs::F32,
        &[
            ("fma.rn.f32", Class::Float, "fma.rn.f32 $a, $a, $c, $b;"),
            ("add.f32", Class::Float, "add.f32 $a, $a, $b;"),
            ("mul.f32", Class::Float, "mul.f32 $a, $a, $b;"),
            ("min.f32", Class::FloatCompare, "min.f32 $a, $a, $r;"),
            ("rcp.approx.ftz.f32 add.f32", Class::Special, "rcp.approx.ftz.f32 $a, $a; add.f32 $a, $a, $b;"),
            ("rsqrt.approx.ftz.f32", Class::Special, "rsqrt.approx.ftz.f32 $a, $a;"),
            ("sqrt.approx.ftz.f32", Class::Special, "sqrt.approx.ftz.f32 $a, $a;"),
            ("ex2.approx.ftz.f32", Class::Special, "ex2.approx.ftz.f32 $a, $a;"),
            ("lg2.approx.ftz.f32", Class::Special, "lg2.approx.ftz.f32 $a, $a;"),
            ("sin.approx.ftz.f32", Class::Special, "sin.approx.ftz.f32 $a, $a;"),
            ("tanh.approx.f32", Class::Special, "tanh.approx.f32 $a, $a;"),
            ("rcp.rn.f32", Class::FloatDivide, "rcp.rn.f32 $a, $a;"),
            ("div.rn.f32", Class::FloatDivide, "div.rn.f32 $a, $c, $a;"),
            ("div.approx.ftz.f32", Class::FloatDivide, "div.approx.ftz.f32 $a, $r, $a;"),
            ("sqrt.rn.f32", Class::Special, "sqrt.rn.f32 $a, $a;"),
            (
                "cvt.rn.f16.f32 cvt.f32.f16",
                Class::Conversion,
                "{ .reg .b16 %m; cvt.rn.f16.f32 %m, $a; cvt.f32.f16 $a, %m; }",
            ),
            (
                "cvt.rn.bf16.f32 cvt.f32.bf16",
                Class::Conversion,
                "{ .reg .b16 %m; cvt.rn.bf16.f32 %m, $a; cvt.f32.bf16 $a, %m; }",
            ),
            ("cvt.rn.f16x2.f32", Class::Conversion, "cvt.rn.f16x2.f32 $a, $a, $b;"),
            ("cvt.rn.bf16x2.f32", Class::Conversion, "cvt.rn.bf16x2.f32 $a, $a, $b;"),
            (
                "cvt.rn.satfinite.e4m3x2.f32 mov.b32",
                Class::Conversion,
                "{ .reg .b16 %m; cvt.rn.satfinite.e4m3x2.f32 %m, $a, $b; mov.b32 $a, {%m, %m}; }",
            ),
            ("cvt.rni.f32.f32 add.f32", Class::Conversion, "cvt.rni.f32.f32 $a, $a; add.f32 $a, $a, $b;"),
        ],
    ),
    (
        Inputs::F16x2,
        &[
            ("fma.rn.f16x2", Class::Float, "fma.rn.f16x2 $a, $a, $c, $b;"),
            ("add.f16x2", Class::Float, "add.f16x2 $a, $a, $b;"),
            ("ex2.approx.f16x2", Class::Special, "ex2.approx.f16x2 $a, $a;"),
        ],
    ),
    (Inputs::Bf16x2, &[("fma.rn.bf16x2", Class::Float, "fma.rn.bf16x2 $a, $a, $c, $b;")]),
];

/// Steps of one register of 64 bits.
const WIDE_STEPS: &[(Inputs, &[Row])] = &[
    (
        Inputs::Integers,
        &[
            ("add.s64", Class::Integer, "add.s64 $a, $a, $b;"),
            (
                "mad.wide.u32",
                Class::IntegerMultiply,
                "{ .reg .b32 %m, %n; mov.b64 {%m, %n}, $a; mad.wide.u32 $a, %m, %n, $d; }",
            ),
            ("mul.lo.s64", Class::IntegerMultiply, "mul.lo.s64 $a, $a, $b;"),
        ],
    ),
    (
        Inputs::F64,
        &[
            ("fma.rn.f64", Class::Float, "fma.rn.f64 $a, $a, $c, $b;"),
            ("add.f64", Class::Float, "add.f64 $a, $a, $b;"),
            ("mul.f64", Class::Float, "mul.f64 $a, $a, $b;"),
            (
                "cvt.rn.f32.f64 cvt.f64.f32",
                Class::Conversion,
                "{ .reg .b32 %m; cvt.rn.f32.f64 %m, $a; cvt.f64.f32 $a, %m; }",
            ),
        ],
    ),
];

/// A trip of a loop, with its counter, comparison and branch.
fn trip() -> Steps {
    Steps {
        counts: [1, 1],
        trips: [32, 64],
        threads: vec![32, 128, 256, 512],
        ..Steps::new(FAMILY, "add.s32 sub.u32 setp.ne.u32 bra", Class::Branch, "add.s32 $a, $a, $b;")
    }
}

/// The steps, once for their latency and once for their interval.
pub(super) fn steps() -> Vec<Steps> {
    let narrow = STEPS.iter().map(|(inputs, rows)| (32, *inputs, *rows));
    let wide = WIDE_STEPS.iter().map(|(inputs, rows)| (64, *inputs, *rows));
    let mut all = vec![trip()];
    for (width, inputs, rows) in narrow.chain(wide) {
        for (name, class, step) in rows {
            let latency = Steps { width, inputs, ..Steps::new(FAMILY, name, *class, step) };
            let [few, many] = latency.interval();
            // A sequence of instructions that is repeated as often would not stay in the caches near by.
            let is_sequence =
                matches!(class, Class::IntegerDivide | Class::FloatDivide) || step.contains("sqrt.rn");
            let many = if is_sequence { Steps { counts: [32, 32], ..many } } else { many };
            all.extend([few, many]);
            all.push(latency);
        }
    }
    all
}

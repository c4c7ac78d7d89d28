//! Floating-point arithmetic.

use crate::golden::case::{Case, Width};
use crate::golden::inputs::Kind;
use crate::golden::scalar::{operands, predicates, several, simple};

const COMPARISONS: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

pub(crate) fn cases() -> Vec<Case> {
    [single(), double(), halves(), approximate(), compare()].concat()
}

fn single() -> Vec<Case> {
    use Kind::F32;
    let mut cases = Vec::new();
    for modifiers in ["rn", "rz", "rm", "rp", "rn.ftz", "rn.sat", "rn.ftz.sat", "rz.ftz", "rp.ftz", "rm.sat"]
    {
        for (operation, arity) in [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)] {
            cases.push(simple(
                "f32",
                &format!("{operation}.{modifiers}.f32"),
                &[F32; 3][..arity],
                Width::B32,
            ));
        }
    }
    for modifiers in ["rn", "rz", "rm", "rp", "rn.ftz", "rz.ftz"] {
        for (operation, arity) in [("div", 2), ("rcp", 1), ("sqrt", 1)] {
            cases.push(simple(
                "f32",
                &format!("{operation}.{modifiers}.f32"),
                &[F32; 2][..arity],
                Width::B32,
            ));
        }
    }
    for operation in ["abs", "abs.ftz", "neg", "neg.ftz"] {
        cases.push(simple("f32", &format!("{operation}.f32"), &[F32], Width::B32));
    }
    cases.push(simple("f32", "copysign.f32", &[F32; 2], Width::B32));
    cases
}

fn double() -> Vec<Case> {
    use Kind::F64;
    let mut cases = Vec::new();
    for rounding in ["rn", "rz", "rm", "rp"] {
        for (operation, arity) in
            [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)]
        {
            cases.push(simple("f64", &format!("{operation}.{rounding}.f64"), &[F64; 3][..arity], Width::B64));
        }
    }
    for (operation, arity) in [("abs", 1), ("neg", 1), ("copysign", 2), ("min", 2), ("max", 2)] {
        cases.push(simple("f64", &format!("{operation}.f64"), &[F64; 3][..arity], Width::B64));
    }
    cases
}

fn halves() -> Vec<Case> {
    use Kind::{Bf16, Bf16x2, F16, F16x2};
    let mut cases = Vec::new();
    let formats = [
        ("f16", F16, Width::B16),
        ("f16x2", F16x2, Width::B32),
        ("bf16", Bf16, Width::B16),
        ("bf16x2", Bf16x2, Width::B32),
    ];
    for (ty, kind, width) in formats {
        let brain = ty.starts_with('b');
        let mut push = |instruction: &str, arity: usize| {
            cases.push(
                simple("half", &format!("{instruction}.{ty}"), &[kind; 3][..arity], width).target("sm_90"),
            );
        };
        for operation in ["add", "sub", "mul"] {
            push(&format!("{operation}.rn"), 2);
            if !brain {
                for modifiers in ["ftz", "sat", "ftz.sat"] {
                    push(&format!("{operation}.rn.{modifiers}"), 2);
                }
            }
        }
        for modifiers in ["rn", "rn.relu", "rn.oob", "rn.oob.relu"] {
            push(&format!("fma.{modifiers}"), 3);
        }
        if !brain {
            for modifiers in ["rn.ftz", "rn.sat", "rn.ftz.sat", "rn.ftz.relu"] {
                push(&format!("fma.{modifiers}"), 3);
            }
        }
        for operation in ["min", "max"] {
            for modifiers in ["", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"] {
                push(&format!("{operation}{modifiers}"), 2);
            }
            if !brain {
                push(&format!("{operation}.ftz"), 2);
                push(&format!("{operation}.ftz.NaN"), 2);
            }
        }
        push("abs", 1);
        push("neg", 1);
        if !brain {
            push("abs.ftz", 1);
            push("neg.ftz", 1);
        }
    }
    cases
}

fn approximate() -> Vec<Case> {
    use Kind::{Bf16, Bf16x2, F16, F16x2, F32, F64};
    let mut cases = Vec::new();
    for operation in ["rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"] {
        for flush in ["", ".ftz"] {
            cases.push(simple("approximate", &format!("{operation}.approx{flush}.f32"), &[F32], Width::B32));
        }
    }
    for instruction in ["div.approx", "div.approx.ftz", "div.full", "div.full.ftz"] {
        cases.push(simple("approximate", &format!("{instruction}.f32"), &[F32; 2], Width::B32));
    }
    cases.push(simple("approximate", "tanh.approx.f32", &[F32], Width::B32));
    for instruction in ["rcp.approx.ftz.f64", "rsqrt.approx.f64", "rsqrt.approx.ftz.f64"] {
        cases.push(simple("approximate", instruction, &[F64], Width::B64));
    }
    for (instruction, kind, width) in [
        ("ex2.approx.f16", F16, Width::B16),
        ("ex2.approx.f16x2", F16x2, Width::B32),
        ("ex2.approx.ftz.bf16", Bf16, Width::B16),
        ("ex2.approx.ftz.bf16x2", Bf16x2, Width::B32),
        ("tanh.approx.f16", F16, Width::B16),
        ("tanh.approx.f16x2", F16x2, Width::B32),
        ("tanh.approx.bf16", Bf16, Width::B16),
        ("tanh.approx.bf16x2", Bf16x2, Width::B32),
    ] {
        cases.push(simple("approximate", instruction, &[kind], width).target("sm_90"));
    }
    cases
}

fn compare() -> Vec<Case> {
    use Kind::{Bf16, Bf16x2, F16, F16x2, F32, F64};
    let mut cases = Vec::new();
    let all = |prefix: &str, suffix: &str| -> Vec<String> {
        COMPARISONS.iter().map(|comparison| format!("{prefix}.{comparison}{suffix}")).collect()
    };
    for (name, kind) in [("f32", F32), ("f64", F64), ("f16", F16), ("bf16", Bf16)] {
        let suffix = format!(".{name}");
        cases.push(
            predicates("compare", &format!("setp.{name}"), &all("setp", &suffix), &[kind; 2]).target("sm_90"),
        );
    }
    for (name, kind) in [("f32", F32), ("f16", F16)] {
        let suffix = format!(".ftz.{name}");
        cases.push(predicates("compare", &format!("setp.ftz.{name}"), &all("setp", &suffix), &[kind; 2]));
    }
    for (name, kind) in [("f32", F32), ("f64", F64)] {
        let tests: Vec<String> = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]
            .map(|class| format!("testp.{class}.{name}"))
            .to_vec();
        cases.push(predicates("compare", &format!("testp.{name}"), &tests, &[kind]));
    }
    for (ty, kind) in [("f16x2", F16x2), ("bf16x2", Bf16x2)] {
        let body: String = COMPARISONS
            .iter()
            .enumerate()
            .map(|(i, comparison)| {
                format!(
                    "setp.{comparison}.{ty} %p|%q, %a0, %b0;\nselp.b32 %bit, {}, 0, %p;\nor.b32 %d0, %d0, %bit;\n\
                     selp.b32 %bit, {}, 0, %q;\nor.b32 %d0, %d0, %bit;\n",
                    1u32 << i,
                    1u32 << (16 + i)
                )
            })
            .collect();
        let body = format!(".reg .pred %p, %q;\n.reg .b32 %bit;\nmov.b32 %d0, 0;\n{body}");
        cases.push(
            operands(Case::new("compare", format!("setp.{ty}")), &[kind; 2], Width::B32, 1)
                .body(body)
                .target("sm_90"),
        );
        cases.push(
            several(
                "compare",
                &format!("set.{ty}"),
                &all("set", &format!(".{ty}.{ty}")),
                &[kind; 2],
                Width::B32,
            )
            .target("sm_90"),
        );
    }
    for (result, source, kind) in [
        ("u32", "f32", F32),
        ("s32", "f32", F32),
        ("f32", "f32", F32),
        ("f32", "f64", F64),
        ("u32", "f16", F16),
    ] {
        let suffix = format!(".{result}.{source}");
        cases.push(several(
            "compare",
            &format!("set.{result}.{source}"),
            &all("set", &suffix),
            &[kind; 2],
            Width::B32,
        ));
    }
    for operation in ["and", "or", "xor"] {
        let body = format!(
            ".reg .pred %c, %p, %q;\n.reg .b32 %bit;\nsetp.eq.f32 %c, %a0, 0f3F800000;\n\
             setp.lt.{operation}.f32 %p|%q, %a0, %b0, %c;\nselp.b32 %d0, 1, 0, %p;\nselp.b32 %d1, 1, 0, %q;\n\
             setp.geu.{operation}.ftz.f32 %p|%q, %a0, %b0, !%c;\nselp.b32 %d2, 1, 0, %p;\nselp.b32 %d3, 1, 0, %q;"
        );
        cases.push(
            operands(Case::new("compare", format!("setp.{operation}.f32")), &[F32; 2], Width::B32, 4)
                .body(body),
        );
    }
    for operation in ["min", "max"] {
        for modifiers in
            ["", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs", ".ftz.NaN.xorsign.abs"]
        {
            cases.push(
                simple("compare", &format!("{operation}{modifiers}.f32"), &[F32; 2], Width::B32)
                    .target("sm_86"),
            );
        }
    }
    cases.push(simple("compare", "slct.f32.f32", &[F32; 3], Width::B32));
    cases.push(simple("compare", "slct.ftz.f32.f32", &[F32; 3], Width::B32));
    cases.push(simple("compare", "slct.u32.s32", &[Kind::U32; 3], Width::B32));
    cases.push(simple("compare", "slct.f64.s32", &[F64, F64, Kind::U32], Width::B64));
    cases
}

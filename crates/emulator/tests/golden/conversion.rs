//! `cvt` and `cvt.pack`.

use crate::golden::case::{Case, Width};
use crate::golden::inputs::Kind;
use crate::golden::scalar::{operands, several, simple};

const FLOATS: [(&str, Kind); 4] =
    [("f16", Kind::F16), ("bf16", Kind::Bf16), ("f32", Kind::F32), ("f64", Kind::F64)];
const INTEGERS: [(&str, Kind); 8] = [
    ("u8", Kind::U8),
    ("s8", Kind::U8),
    ("u16", Kind::U16),
    ("s16", Kind::U16),
    ("u32", Kind::U32),
    ("s32", Kind::U32),
    ("u64", Kind::U64),
    ("s64", Kind::U64),
];

fn roundings(modes: &[&str], suffix: &str) -> Vec<String> {
    modes.iter().map(|mode| format!("cvt.{mode}{suffix}")).collect()
}

/// The register that holds a result: integers narrower than 32 bits are extended into 32.
fn result(ty: &str) -> Width {
    match ty {
        "f16" | "bf16" => Width::B16,
        "f64" | "u64" | "s64" => Width::B64,
        _ => Width::B32,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    [float_to_float(), float_to_integer(), integer_to_float(), integer_to_integer(), narrow(), pack()]
        .concat()
}

fn float_to_float() -> Vec<Case> {
    let mut cases = Vec::new();
    for (to, from, kind) in [("f16", "f32", Kind::F32), ("f16", "f64", Kind::F64), ("f32", "f64", Kind::F64)]
    {
        for modifier in ["", ".sat"] {
            let name = format!("cvt{modifier}.{to}.{from}");
            let list = roundings(&["rn", "rz", "rm", "rp"], &format!("{modifier}.{to}.{from}"));
            cases.push(several("convert", &name, &list, &[kind], result(to)));
        }
    }
    cases.push(several(
        "convert",
        "cvt.ftz.f32.f64",
        &roundings(&["rn", "rz", "rm", "rp"], ".ftz.f32.f64"),
        &[Kind::F64],
        Width::B32,
    ));
    cases.push(simple("convert", "cvt.rn.ftz.f16.f32", &[Kind::F32], Width::B16));
    for (instruction, kind) in [
        ("cvt.f32.f16", Kind::F16),
        ("cvt.ftz.f32.f16", Kind::F16),
        ("cvt.sat.f32.f16", Kind::F16),
        ("cvt.f64.f16", Kind::F16),
        ("cvt.f64.f32", Kind::F32),
        ("cvt.ftz.f64.f32", Kind::F32),
        ("cvt.sat.f64.f32", Kind::F32),
        ("cvt.f32.bf16", Kind::Bf16),
        ("cvt.f64.bf16", Kind::Bf16),
        ("cvt.rn.bf16.f16", Kind::F16),
        ("cvt.rz.bf16.f16", Kind::F16),
        ("cvt.rn.f16.bf16", Kind::Bf16),
        ("cvt.rz.f16.bf16", Kind::Bf16),
        ("cvt.rn.bf16.f32", Kind::F32),
        ("cvt.rz.bf16.f32", Kind::F32),
        ("cvt.rm.bf16.f32", Kind::F32),
        ("cvt.rp.bf16.f32", Kind::F32),
        ("cvt.rn.relu.bf16.f32", Kind::F32),
        ("cvt.rz.relu.bf16.f32", Kind::F32),
        ("cvt.rn.relu.f16.f32", Kind::F32),
        ("cvt.rn.satfinite.bf16.f32", Kind::F32),
        ("cvt.rn.satfinite.f16.f32", Kind::F32),
        ("cvt.rn.bf16.f64", Kind::F64),
        ("cvt.rz.bf16.f64", Kind::F64),
        ("cvt.sat.f32.f32", Kind::F32),
        ("cvt.ftz.sat.f32.f32", Kind::F32),
        ("cvt.ftz.f32.f32", Kind::F32),
        ("cvt.sat.f16.f16", Kind::F16),
        ("cvt.sat.f64.f64", Kind::F64),
    ] {
        let to = instruction.split('.').rev().nth(1).expect("a target type");
        cases.push(simple("convert", instruction, &[kind], result(to)).target("sm_90"));
    }
    for (ty, kind) in FLOATS {
        let list = roundings(&["rni", "rzi", "rmi", "rpi"], &format!(".{ty}.{ty}"));
        cases.push(
            several("convert", &format!("cvt.integral.{ty}"), &list, &[kind], result(ty)).target("sm_90"),
        );
    }
    let list = roundings(&["rni", "rzi", "rmi", "rpi"], ".ftz.f32.f32");
    cases.push(several("convert", "cvt.integral.ftz.f32", &list, &[Kind::F32], Width::B32));
    cases
}

fn float_to_integer() -> Vec<Case> {
    let mut cases = Vec::new();
    for (from, kind) in FLOATS {
        for (to, _) in INTEGERS {
            // bf16 converts to and from no 8-bit integer, and into registers of the target's own
            // width only.
            let width = if from == "bf16" && to.ends_with("16") { Width::B16 } else { result(to) };
            if from == "bf16" && to.ends_with('8') {
                continue;
            }
            let list = roundings(&["rni", "rzi", "rmi", "rpi"], &format!(".{to}.{from}"));
            let name = format!("cvt.{to}.{from}");
            cases.push(several("convert_to_integer", &name, &list, &[kind], width).target("sm_90"));
        }
    }
    for instruction in
        ["cvt.rzi.ftz.s32.f32", "cvt.rpi.ftz.u32.f32", "cvt.rmi.sat.s32.f32", "cvt.rni.sat.u8.f32"]
    {
        cases.push(simple("convert_to_integer", instruction, &[Kind::F32], Width::B32));
    }
    cases
}

fn integer_to_float() -> Vec<Case> {
    let mut cases = Vec::new();
    for (to, _) in FLOATS {
        for (from, kind) in INTEGERS {
            if to == "bf16" && from.ends_with('8') {
                continue;
            }
            let list = roundings(&["rn", "rz", "rm", "rp"], &format!(".{to}.{from}"));
            let name = format!("cvt.{to}.{from}");
            cases.push(several("convert_from_integer", &name, &list, &[kind], result(to)).target("sm_90"));
        }
    }
    cases.push(simple("convert_from_integer", "cvt.rn.sat.f32.s32", &[Kind::U32], Width::B32));
    cases
}

/// Each source type into every integer type, in 64-bit registers.
fn integer_to_integer() -> Vec<Case> {
    let mut cases = Vec::new();
    for (from, kind) in INTEGERS {
        for modifier in ["", ".sat"] {
            let targets: Vec<&str> = INTEGERS
                .iter()
                .map(|&(to, _)| to)
                .filter(|to| modifier.is_empty() || can_saturate(from, to))
                .collect();
            let body: String = targets
                .iter()
                .enumerate()
                .map(|(i, to)| format!("cvt{modifier}.{to}.{from} %d{i}, %a0;\n"))
                .collect();
            let case = Case::new("convert_integer", format!("cvt{modifier}.{from}"));
            cases.push(operands(case, &[kind], Width::B64, targets.len()).body(body));
        }
    }
    cases
}

/// PTX allows `.sat` only where the target cannot hold every value of the source.
fn can_saturate(from: &str, to: &str) -> bool {
    let (from_signed, to_signed) = (from.starts_with('s'), to.starts_with('s'));
    let bits = |ty: &str| ty[1..].parse::<u32>().expect("an integer type names its width");
    match (from_signed, to_signed) {
        (true, false) => true,
        (false, true) => bits(from) >= bits(to),
        _ => bits(from) > bits(to),
    }
}

fn narrow() -> Vec<Case> {
    let mut cases = Vec::new();
    for instruction in [
        "cvt.rna.tf32.f32",
        "cvt.rna.satfinite.tf32.f32",
        "cvt.rn.tf32.f32",
        "cvt.rz.tf32.f32",
        "cvt.rn.relu.tf32.f32",
        "cvt.rz.relu.tf32.f32",
    ] {
        cases.push(simple("convert_narrow", instruction, &[Kind::F32], Width::B32).target("sm_90"));
    }
    for instruction in [
        "cvt.rn.f16x2.f32",
        "cvt.rz.f16x2.f32",
        "cvt.rn.relu.f16x2.f32",
        "cvt.rz.relu.f16x2.f32",
        "cvt.rn.satfinite.f16x2.f32",
        "cvt.rn.bf16x2.f32",
        "cvt.rz.bf16x2.f32",
        "cvt.rn.relu.bf16x2.f32",
        "cvt.rz.relu.bf16x2.f32",
        "cvt.rn.satfinite.bf16x2.f32",
    ] {
        cases.push(simple("convert_narrow", instruction, &[Kind::F32; 2], Width::B32).target("sm_90"));
    }
    for to in ["e4m3x2", "e5m2x2"] {
        for relu in ["", ".relu"] {
            let single = format!("cvt.rn.satfinite{relu}.{to}.f32");
            cases.push(simple("convert_narrow", &single, &[Kind::F32; 2], Width::B16).target("sm_90"));
            let pair = format!("cvt.rn.satfinite{relu}.{to}.f16x2");
            cases.push(simple("convert_narrow", &pair, &[Kind::F16x2], Width::B16).target("sm_90"));
            let back = format!("cvt.rn{relu}.f16x2.{to}");
            cases.push(simple("convert_narrow", &back, &[Kind::U16], Width::B32).target("sm_90"));
        }
    }
    // Every e4m3 and e5m2 value.
    for from in ["e4m3x2", "e5m2x2"] {
        let body = format!("mul.lo.u16 %a0, %a0, 257;\ncvt.rn.f16x2.{from} %d0, %a0;");
        let case = Case::new("convert_narrow", format!("every.{from}")).target("sm_90");
        cases.push(operands(case, &[Kind::Bytes], Width::B32, 1).body(body));
    }
    cases
}

fn pack() -> Vec<Case> {
    let mut cases = Vec::new();
    for to in ["u16", "s16"] {
        cases.push(simple("convert_integer", &format!("cvt.pack.sat.{to}.s32"), &[Kind::U32; 2], Width::B32));
    }
    for to in ["u8", "s8", "u4", "s4", "u2", "s2"] {
        let instruction = format!("cvt.pack.sat.{to}.s32.b32");
        cases.push(simple("convert_integer", &instruction, &[Kind::U32; 3], Width::B32));
    }
    cases
}

//! `cvt` in every combination of rounding, `.ftz`, `.sat` and types: the instruction table has
//! those that ptxas assembles, which `conversions.txt` records, and no others.

use std::collections::BTreeSet;

use crate::instructions::refused;
use warpwright_arch::instructions::forms_of;
use warpwright_testing::ptxas::Assembler;

const ROUNDINGS: [&str; 10] = ["", ".rn", ".rz", ".rm", ".rp", ".rni", ".rzi", ".rmi", ".rpi", ".rna"];
const TYPES: [&str; 12] = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32", "f64"];
const TARGET: &str = "sm_90a";

/// The names of all combinations, each with its types.
fn combinations() -> Vec<(String, &'static str, &'static str)> {
    let mut names = Vec::new();
    for rounding in ROUNDINGS {
        for flush in ["", ".ftz"] {
            for saturation in ["", ".sat"] {
                for to in TYPES {
                    for from in TYPES {
                        names.push((format!("cvt{rounding}{flush}{saturation}.{to}.{from}"), to, from));
                    }
                }
            }
        }
    }
    names
}

/// The names that `conversions.txt` lists.
fn recorded() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in include_str!("conversions.txt").lines().filter(|line| !line.starts_with('#')) {
        let (modifiers, types) = line.split_once(": ").expect("modifiers: types");
        for modifiers in modifiers.split(' ') {
            names.extend(types.split(' ').map(|types| format!("cvt{}.{types}", modifiers.trim_matches('-'))));
        }
    }
    names
}

#[test]
fn the_table_has_the_conversions_that_assemble() {
    let recorded = recorded();
    let combinations = combinations();
    assert_eq!((combinations.len(), recorded.len()), (5760, 810));
    for (name, ..) in &combinations {
        let forms = forms_of(name);
        let is_in_table = forms.iter().any(|(form, _)| form.availability(name).exists_on((9, 0), TARGET));
        assert_eq!(is_in_table, recorded.contains(name), "{name}");
    }
}

#[test]
fn the_recording_is_what_the_assembler_accepts() {
    let Some(assembler) = Assembler::from_environment() else { return };
    let register = |ty: &str| match ty {
        "u64" | "s64" | "f64" => "%rd1",
        "u32" | "s32" | "f32" => "%r1",
        _ => "%rs1",
    };
    // Between bf16 and 8 bits, ptxas takes a register of 8 bits only.
    let beside = |ty, other| match (ty, other) {
        ("u8" | "s8", "bf16") => "%rb1",
        _ => register(ty),
    };
    let line = |name: &str, to, from| format!("{name} {}, {};", beside(to, from), beside(from, to));
    let names = combinations();
    let lines: Vec<String> = names.iter().map(|(name, to, from)| line(name, to, from)).collect();
    let refused = refused(&assembler, TARGET, (9, 0), &lines);
    let recorded = recorded();
    for ((name, ..), line) in names.iter().zip(&lines) {
        assert_eq!(!refused.contains_key(line), recorded.contains(name), "{name}");
    }
}

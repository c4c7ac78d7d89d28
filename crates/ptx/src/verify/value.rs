//! Literals that an instruction takes only within limits.

use std::ops::RangeInclusive;

use crate::syntax::{Instruction, Number, Operand};

/// The first words of instructions, the index of an operand, and the literals that it may be.
type Limit = (&'static [&'static str], usize, RangeInclusive<i64>);

/// Source: PTX ISA, each instruction, and ptxas 13.0.
const LIMITS: &[Limit] = &[
    (&["bar.sync", "bar.arrive", "bar.cta.sync", "bar.cta.arrive"], 0, BARRIERS),
    (&["barrier.sync", "barrier.arrive", "barrier.cta.sync", "barrier.cta.arrive"], 0, BARRIERS),
    (&["bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red"], 1, BARRIERS),
    (&["bfe"], 2, 0..=255),
    (&["bfe"], 3, 0..=255),
    (&["bfi"], 3, 0..=255),
    (&["bfi"], 4, 0..=255),
    (&["pmevent.mask"], 0, 0..=0xffff),
    (&["pmevent"], 0, 0..=15),
    (&["discard"], 1, 128..=128),
    (&["mbarrier.arrive.expect_tx", "mbarrier.arrive_drop.expect_tx"], 2, 0..=i64::MAX),
    (&["mbarrier.arrive", "mbarrier.arrive_drop"], 2, 1..=i64::MAX),
];

/// Named barriers of a CTA.
const BARRIERS: RangeInclusive<i64> = 0..=15;

/// Instructions with a number of threads, and the index of that operand.
const THREADS: &[(&[&str], usize)] = &[
    (&["bar.sync", "bar.arrive", "bar.cta.sync", "bar.cta.arrive"], 1),
    (&["barrier.sync", "barrier.arrive", "barrier.cta.sync", "barrier.cta.arrive"], 1),
    (&["bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red"], 2),
];

const WARP_THREADS: i64 = 32;

/// Checks the literals of an instruction.
pub(super) fn check(i: &Instruction) -> Result<(), String> {
    let opcode = i.opcode.as_str();
    let begins = |names: &[&str]| {
        names.iter().any(|name| {
            opcode.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let literal = |index: usize| match i.operands.get(index) {
        Some(Operand::Number(Number::Integer(value))) => Some(*value),
        _ => None,
    };
    let mut met: Vec<usize> = Vec::new();
    for (names, index, limits) in LIMITS {
        // The first row that has the operand decides.
        if begins(names) && !met.contains(index) {
            met.push(*index);
            within(opcode, *index, literal(*index), limits)?;
        }
    }
    for (names, index) in THREADS {
        match literal(*index) {
            Some(threads) if begins(names) && threads % WARP_THREADS != 0 => {
                return Err(format!(
                    "`{opcode}` has {threads} threads: a barrier takes a multiple of {WARP_THREADS}."
                ));
            }
            Some(0) if begins(names) && opcode.contains("arrive") => {
                return Err(format!("`{opcode}` has no threads: write how many take part in the barrier."));
            }
            _ => {}
        }
    }
    match (opcode.starts_with("cp.async.c"), literal(2)) {
        (true, Some(size)) => within(opcode, 3, literal(3), &(0..=size)),
        _ => Ok(()),
    }
}

fn within(
    opcode: &str,
    index: usize,
    value: Option<i64>,
    limits: &RangeInclusive<i64>,
) -> Result<(), String> {
    match value {
        Some(value) if !limits.contains(&value) => {
            let (least, most) = (limits.start(), limits.end());
            let limits = match *most {
                i64::MAX => format!("{least} or more"),
                most if most == *least => most.to_string(),
                most => format!("{least} to {most}"),
            };
            Err(format!("Operand {} of `{opcode}` is {value}; it may be {limits}.", index + 1))
        }
        _ => Ok(()),
    }
}

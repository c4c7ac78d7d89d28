//! Loads that take what they find: `ld.volatile` and `ld.relaxed` whose value decides nothing.
//!
//! Strong accesses of the same bytes are no race, whatever orders them, but they may miss what was written. A thread that tests what it
//! has loaded can bear that: it polls, or takes either value. One that adds it up or passes it on relies on an order. Where it has
//! heard of the write from something that was written later, and the writer had no fence between the two, it may find what was there
//! before (CUDA C++ Programming Guide, "Memory Fence Functions").
//!
//! A fence of the reader is not asked for: that example does without.

use std::collections::HashSet;

use crate::program::Kernel;

/// The registers that a text names, in order, with its guard left out.
fn registers(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_alphanumeric() || "%_$".contains(c);
    let operands = text.split_once(char::is_whitespace).map_or("", |(_, operands)| operands);
    operands.split(move |c: char| !is_name(c)).filter(|word| word.starts_with('%'))
}

/// An instruction without the predicate that guards it.
fn unguarded(text: &str) -> &str {
    match text.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start()),
        None => text,
    }
}

/// The instructions of a kernel that load so. A value is tested if it gets into a comparison or the operand of an atomic operation,
/// through whatever arithmetic.
pub(super) fn trusting_loads(kernel: &Kernel) -> HashSet<u32> {
    let texts: Vec<&str> = kernel.origins.iter().map(|origin| unguarded(&origin.text)).collect();
    let loads_so = |text: &str| text.starts_with("ld.volatile") || text.starts_with("ld.relaxed");
    if !texts.iter().any(|text| loads_so(text)) {
        return HashSet::new();
    }
    let is_memory = |text: &str| ["ld", "st.", "red", "atom"].iter().any(|opcode| text.starts_with(opcode));
    let mut tested: HashSet<&str> = HashSet::new();
    for text in &texts {
        if text.starts_with("set") || text.starts_with("atom") {
            tested.extend(registers(text).skip(1));
        }
    }
    loop {
        let before = tested.len();
        for text in texts.iter().filter(|text| !is_memory(text)) {
            // Where a number is taken apart, several destinations come first.
            let operands = text.split_once(char::is_whitespace).map_or("", |(_, operands)| operands);
            let destinations = if operands.trim_start().starts_with('{') { usize::MAX } else { 1 };
            if registers(text).take(destinations).any(|name| tested.contains(name)) {
                tested.extend(registers(text));
            }
        }
        if tested.len() == before {
            break;
        }
    }
    let trusts = |text: &&str| {
        // What stands in brackets is the address.
        let loaded = text.split('[').next().unwrap_or("");
        loads_so(text) && !registers(loaded).any(|name| tested.contains(name))
    };
    (0..).zip(&texts).filter(|(_, text)| trusts(text)).map(|(pc, _)| pc).collect()
}

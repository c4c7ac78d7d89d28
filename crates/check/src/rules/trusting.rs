//! Loads that take what they find: `ld.volatile` and `ld.relaxed` whose value decides nothing.
//!
//! Strong accesses of the same bytes are no race, whatever orders them, but they may miss what was written. A thread that tests what it
//! has loaded can bear that: it polls, or takes either value. One that adds it up or passes it on relies on an order. Where it has
//! heard of the write from something that was written later, and the writer had no fence between the two, it may find what was there
//! before (CUDA C++ Programming Guide, "Memory Fence Functions").
//!
//! A fence of the reader is not asked for: that example does without.

use std::collections::HashSet;

use warpwright_events::{Class, Code, Instruction, Register};

/// The instructions of a kernel that load so. A value is tested if it gets into a comparison or the operand of an atomic operation,
/// through whatever arithmetic.
pub(crate) fn trusting_loads(code: &Code) -> HashSet<u32> {
    let is_relaxed = |instruction: &Instruction| instruction.class == Class::Load { relaxed: true };
    if !code.instructions.iter().any(is_relaxed) {
        return HashSet::new();
    }
    let mut tested: HashSet<Register> = HashSet::new();
    for instruction in &code.instructions {
        if matches!(instruction.class, Class::Compare | Class::Atomic) {
            tested.extend(&instruction.reads);
        }
    }
    let is_memory =
        |class: Class| matches!(class, Class::Load { .. } | Class::Store | Class::Atomic | Class::Reduction);
    loop {
        let before = tested.len();
        for instruction in code.instructions.iter().filter(|instruction| !is_memory(instruction.class)) {
            if instruction.writes.iter().any(|register| tested.contains(register)) {
                tested.extend(&instruction.reads);
                tested.extend(&instruction.writes);
            }
        }
        if tested.len() == before {
            break;
        }
    }
    let trusts = |pc: &u32| {
        let instruction = code.instruction(*pc);
        is_relaxed(instruction) && !instruction.writes.iter().any(|register| tested.contains(register))
    };
    (0..code.of_operation.len() as u32).filter(trusts).collect()
}

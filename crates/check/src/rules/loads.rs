//! Loads that rely on more than an order of their own.
//!
//! **`ld.nc`** relies on bytes that do not change while the kernel runs (PTX ISA, "ld.global.nc"). It
//! may read a cache that holds what a write has replaced, and ptxas moves it across barriers and
//! `griddepcontrol.wait`: no synchronization makes a write visible to it.
//!
//! **`ld.volatile` and `ld.relaxed` whose value is never compared** rely on an order. Strong accesses
//! to the same bytes never race, but a load may return an old value. A thread that compares the
//! value tolerates that: it polls, or accepts either value. A thread that uses the value
//! unconditionally relies on an order. If it knows of the write only through a later write,
//! and the writer executed no fence between the two, the load may return the old value (CUDA C++
//! Programming Guide, "Memory Fence Functions").
//!
//! No fence of the reader is required: the guide's example has none.

use std::collections::HashSet;

use warpwright_events::{Class, Code, Instruction, LoadPath, Register};

/// The instructions of a kernel that load through the read-only path.
pub(crate) fn non_coherent_loads(code: &Code) -> HashSet<u32> {
    let is_non_coherent = |pc: &u32| code.instruction(*pc).class == Class::Load(LoadPath::NonCoherent);
    (0..code.of_operation.len() as u32).filter(is_non_coherent).collect()
}

/// The strong loads of a kernel that rely on an order. A value is tested if it reaches a comparison
/// or the operand of an atomic operation, through any arithmetic.
pub(crate) fn trusting_loads(code: &Code) -> HashSet<u32> {
    let is_relaxed = |instruction: &Instruction| instruction.class == Class::Load(LoadPath::Relaxed);
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
        |class: Class| matches!(class, Class::Load(_) | Class::Store | Class::Atomic | Class::Reduction);
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

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

//!
//! A load that races with the stores of its own CTA uses its value whatever it is: another thread may
//! or may not have stored by then. A load that waits for a value is repeated by a loop, which its
//! value ends.

use std::collections::{HashMap, HashSet};

use warpwright_events::{Branch, Class, Code, Instruction, LoadPath, Register};

/// The instructions of a kernel that load through the read-only path.
pub(crate) fn non_coherent_loads(code: &Code) -> HashSet<u32> {
    let is_non_coherent = |pc: &u32| code.instruction(*pc).class == Class::Load(LoadPath::NonCoherent);
    (0..code.of_operation.len() as u32).filter(is_non_coherent).collect()
}

/// The strong loads of a kernel that rely on an order. A value is tested if it reaches a comparison
/// or the operand of an atomic operation, through any arithmetic.
pub(crate) fn trusting_loads(code: &Code) -> HashSet<u32> {
    if !code.instructions.iter().any(is_relaxed) {
        return HashSet::new();
    }
    let is_test = |instruction: &&Instruction| matches!(instruction.class, Class::Compare(_) | Class::Atomic);
    let tested = sources(&code.instructions, reads(code.instructions.iter().filter(is_test)));
    let trusts = |pc: &u32| {
        let instruction = code.instruction(*pc);
        is_relaxed(instruction) && !writes_any(instruction, &tested)
    };
    (0..code.of_operation.len() as u32).filter(trusts).collect()
}

/// `.relaxed` and `.volatile` loads.
fn is_relaxed(instruction: &Instruction) -> bool {
    instruction.class == Class::Load(LoadPath::Relaxed)
}

fn reads<'c>(instructions: impl Iterator<Item = &'c Instruction>) -> HashSet<Register> {
    instructions.flat_map(|instruction| instruction.reads.iter().copied()).collect()
}

fn writes_any(instruction: &Instruction, registers: &HashSet<Register>) -> bool {
    instruction.writes.iter().any(|register| registers.contains(register))
}

/// The registers from whose values instructions compute those of `registers`.
fn sources(instructions: &[Instruction], mut registers: HashSet<Register>) -> HashSet<Register> {
    let is_memory =
        |class: Class| matches!(class, Class::Load(_) | Class::Store | Class::Atomic | Class::Reduction);
    loop {
        let before = registers.len();
        for instruction in instructions.iter().filter(|instruction| !is_memory(instruction.class)) {
            if writes_any(instruction, &registers) {
                registers.extend(&instruction.reads);
                registers.extend(&instruction.writes);
            }
        }
        if registers.len() == before {
            return registers;
        }
    }
}

/// The threads with whose plain strong stores a strong load races.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rivals {
    /// Other lanes of its warp.
    Lanes,
    /// All other threads of its CTA.
    Cta,
}

/// The strong loads of a kernel whose values are data whether or not another thread has stored yet.
/// Lanes of one warp: those that no loop repeats until their value ends it; of relaxed ones, which may
/// be meant to take any value, those whose value is also never tested. Other threads: volatile loads
/// whose value is never tested.
pub(crate) fn racing_loads(code: &Code) -> HashMap<u32, Rivals> {
    let loads: Vec<u32> =
        (0..code.of_operation.len() as u32).filter(|pc| is_relaxed(code.instruction(*pc))).collect();
    if loads.is_empty() {
        return HashMap::new();
    }
    // What becomes of a value in local memory, or in the caller of a function, is not known.
    let leaves_registers =
        |instruction: &&Instruction| instruction.is_parameter_access || instruction.name().contains(".local");
    // A compare-and-swap confirms the value that it takes.
    let is_update = |instruction: &&Instruction| matches!(instruction.class, Class::Store | Class::Reduction);
    let updates = || code.instructions.iter().filter(is_update);
    let unknown = sources(&code.instructions, reads(updates().filter(leaves_registers)));
    let used = sources(&code.instructions, reads(updates()));
    let trusting = trusting_loads(code);
    let waiting = waiting_loads(code, &loads);
    let rivals = |pc: u32| {
        let instruction = code.instruction(pc);
        let is_waiting = waiting.contains(&pc)
            || waiting.iter().any(|other| {
                let other = code.instruction(*other);
                // The first round of a loop, before it.
                bracket(&other.text) == bracket(&instruction.text)
                    || other.source.is_some() && other.source == instruction.source
            });
        if is_waiting || !writes_any(instruction, &used) || writes_any(instruction, &unknown) {
            return None;
        }
        let is_volatile = instruction.name().contains(".volatile");
        match (is_volatile, trusting.contains(&pc)) {
            (true, true) => Some((pc, Rivals::Cta)),
            (false, false) => None,
            _ => Some((pc, Rivals::Lanes)),
        }
    };
    loads.into_iter().filter_map(rivals).collect()
}

/// The address of a load, as it is written.
fn bracket(text: &str) -> Option<&str> {
    text.split_once('[').map(|(_, rest)| rest)
}

/// The loads whose values decide whether a loop around them ends.
fn waiting_loads(code: &Code, loads: &[u32]) -> HashSet<u32> {
    let mut waiting = HashSet::new();
    for branch in code.branches.iter().filter(|branch| branch.target <= branch.operation) {
        let is_inside = |pc: u32| (branch.target..=branch.operation).contains(&pc);
        let inside: Vec<u32> = loads.iter().copied().filter(|pc| is_inside(*pc)).collect();
        if inside.is_empty() {
            continue;
        }
        let [first, last] =
            [branch.target, branch.operation].map(|pc| code.of_operation[pc as usize] as usize);
        let instructions = &code.instructions[first..=last];
        let ends = |instruction: &&Instruction| ["ret", "exit"].contains(&instruction.name());
        let leaves = |other: &&Branch| {
            is_inside(other.operation) && (!is_inside(other.target) || other.operation == branch.operation)
        };
        let leaving = code.branches.iter().filter(leaves).map(|leaving| code.instruction(leaving.operation));
        let decide = leaving.chain(instructions.iter().filter(ends));
        let decide =
            decide.flat_map(|instruction| instruction.guard.iter().chain(&instruction.reads).copied());
        let deciding = sources(instructions, decide.collect());
        waiting.extend(inside.into_iter().filter(|pc| writes_any(code.instruction(*pc), &deciding)));
    }
    waiting
}

//! The operations of a kernel as the model executes them.

use std::ops::Range;

use warpwright_arch::Arch;
use warpwright_arch::instructions::{Class, Pipe};
use warpwright_arch::timing::BRANCH;
use warpwright_events::{AsyncKind, Code, Instruction, Unit};

use crate::merging::merge;
use crate::model::code_cache::{INSTRUCTION_BYTES, LINE_BYTES};
use crate::predication::Predication;
use crate::schedule::Schedule;

/// Registers of an operation: its own part of the program's list.
pub(crate) type Registers = Range<u32>;

/// What an operation does beside its writes of registers, as far as its name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    Compute,
    /// A move that ptxas removes: the result is there when the source is.
    Rename,
    /// A load, whose result comes from memory.
    Load,
    /// A branch, a call or a return, after which the warp fetches instructions.
    Branch,
    /// A warp's part of a `wgmma`: cycles of its tensor core, and passes of shared memory.
    WarpgroupMma { cycles: u32, passes: u32 },
    /// A warp's `mma`, in cycles of its tensor core.
    Mma { cycles: u32 },
    /// The work that the lanes have issued becomes a group.
    Commit(AsyncKind),
    /// The lanes wait until at most `latest` groups are in flight.
    WaitGroups { kind: AsyncKind, latest: u32 },
    /// The lanes wait for all their loads or stores of tensor memory.
    WaitTensorMemory,
    /// A load or store of tensor memory of these bytes.
    TensorMemory { bytes: u32, loads: bool },
    /// `nanosleep`, in nanoseconds.
    Sleep(u32),
    /// A fence of memory at a scope wider than the CTA.
    Fence,
    /// An exchange between lanes, which takes a pass of shared memory.
    Exchange,
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Slots of its scheduler.
    pub(crate) slots: u32,
    pub(crate) pipe: Pipe,
    /// Cycles of the pipe in all.
    pub(crate) interval: u32,
    pub(crate) latency: u32,
    pub(crate) action: Action,
    /// It releases the lanes' earlier accesses to other CTAs.
    pub(crate) releases: bool,
    /// The kind of barrier that it may wait at.
    pub(crate) waits: Option<Class>,
    /// Multiply-adds of an SM in a cycle, of its unit.
    pub(crate) tensor_rate: u32,
    /// It has the tensor cores of two SMs.
    pub(crate) is_of_pair: bool,
    /// The registers that it reads, with its guard.
    pub(crate) reads: Registers,
    pub(crate) writes: Registers,
}

/// A kernel.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) operations: Vec<Operation>,
    /// The registers of all operations.
    pub(crate) registers: Vec<u32>,
    /// The number of registers.
    pub(crate) register_count: usize,
    /// The order in which operations issue.
    pub(crate) schedule: Schedule,
    /// The line of the instruction cache of each position in that order.
    pub(crate) code_lines: Vec<u32>,
}

impl Program {
    pub(crate) fn new(code: &Code, predication: &Predication, arch: &Arch) -> Self {
        let mut program = Self {
            operations: Vec::with_capacity(code.of_operation.len()),
            registers: Vec::new(),
            register_count: code.register_words.len(),
            schedule: Schedule::default(),
            code_lines: Vec::new(),
        };
        let mut before = None;
        for &index in &code.of_operation {
            let instruction = &code.instructions[index as usize];
            let mut operation = program.operation(instruction, arch);
            // An instruction may be decoded to several operations.
            if before == Some(index) {
                (operation.slots, operation.interval) = (0, 0);
            }
            before = Some(index);
            program.operations.push(operation);
        }
        merge(code, &mut program.operations);
        for &(branch, target) in predication.branches() {
            program.predicate(code, branch, target);
        }
        program.schedule = Schedule::new(&program, predication, code, arch);
        let whole = (0, program.operations.len() as u32);
        let mut instructions = 0;
        for position in 0..whole.1 {
            program.code_lines.push(instructions * INSTRUCTION_BYTES / LINE_BYTES);
            instructions += program.operations[program.schedule.at(position, whole) as usize].slots;
        }
        program
    }

    /// Operations that a branch skips have its predicate instead.
    fn predicate(&mut self, code: &Code, branch: u32, target: u32) {
        let guard = code.instruction(branch).guard.map(|register| register.0);
        let operation = &mut self.operations[branch as usize];
        (operation.slots, operation.interval, operation.action) = (0, 0, Action::Rename);
        for pc in branch + 1..target {
            let reads = self.of(&self.operations[pc as usize].reads).to_vec();
            self.operations[pc as usize].reads = self.add(reads.into_iter().chain(guard));
        }
    }

    fn operation(&mut self, instruction: &Instruction, arch: &Arch) -> Operation {
        let name = instruction.name();
        let reads = self.add(instruction.reads.iter().chain(&instruction.guard).map(|register| register.0));
        let writes = self.add(instruction.writes.iter().map(|register| register.0));
        let Some(form) = instruction.form else {
            let (execution, action) = (BRANCH, Action::Branch);
            let (slots, interval, latency) = (execution.instructions, execution.interval, execution.latency);
            return Operation {
                slots,
                pipe: Pipe::Cbu,
                interval,
                latency,
                action,
                releases: false,
                waits: None,
                tensor_rate: 1,
                is_of_pair: false,
                reads,
                writes,
            };
        };
        let execution = form.execution(name);
        let is_of_pair = name.contains("cta_group::2");
        let mut slots = execution.instructions;
        let action = match form.class {
            Class::Load if instruction.is_parameter_access => Action::Rename,
            Class::Move if !instruction.text.contains('%') || reads.is_empty() => Action::Rename,
            Class::Move | Class::Address => Action::Rename,
            Class::Load | Class::MatrixLoad | Class::FragmentLoad | Class::Atomic => Action::Load,
            Class::Branch => Action::Branch,
            Class::WarpgroupMma => warpgroup_mma(instruction, arch),
            Class::Mma => Action::Mma { cycles: mma_cycles(instruction, arch) },
            Class::WarpgroupSync if name.contains("commit_group") => Action::Commit(AsyncKind::Multiply),
            Class::WarpgroupSync if name.contains("wait_group") => {
                Action::WaitGroups { kind: AsyncKind::Multiply, latest: literal(&instruction.text) }
            }
            Class::AsyncCopy | Class::BulkCopy | Class::TensorCopy => {
                let kind = if form.class == Class::AsyncCopy { AsyncKind::Copy } else { AsyncKind::Bulk };
                match name {
                    _ if name.contains("commit_group") => Action::Commit(kind),
                    _ if name.contains("wait_group") => {
                        Action::WaitGroups { kind, latest: literal(&instruction.text) }
                    }
                    _ if name.contains("wait_all") => Action::WaitGroups { kind, latest: 0 },
                    _ => Action::Compute,
                }
            }
            Class::TensorMemoryLoad => {
                Action::TensorMemory { bytes: 128 * instruction.writes.len() as u32, loads: true }
            }
            Class::TensorMemoryStore => {
                Action::TensorMemory { bytes: 128 * instruction.reads.len() as u32, loads: false }
            }
            Class::TensorMemorySync if name.contains("wait") => Action::WaitTensorMemory,
            Class::Fence if !name.contains("cta") && !name.contains("proxy") => Action::Fence,
            Class::Exchange => Action::Exchange,
            _ if name.starts_with("nanosleep") => Action::Sleep(match instruction.reads.is_empty() {
                true => literal(&instruction.text),
                false => SLEEP,
            }),
            _ => Action::Compute,
        };
        if action == Action::Rename {
            slots = 0;
        }
        Operation {
            slots,
            pipe: form.pipe,
            interval: slots * execution.interval,
            latency: execution.latency,
            action,
            releases: matches!(form.class, Class::Store | Class::Atomic | Class::Reduction)
                && [".release", ".acq_rel"].iter().any(|word| name.contains(word))
                && [".gpu", ".sys"].iter().any(|scope| name.contains(scope)),
            waits: matches!(form.class, Class::CtaBarrier | Class::ClusterBarrier | Class::Mbarrier)
                .then_some(form.class),
            // The tensor cores of two SMs share the work of a pair.
            tensor_rate: instruction.work.unit.tensor_rate(arch).max(1) * if is_of_pair { 2 } else { 1 },
            is_of_pair,
            reads,
            writes,
        }
    }

    fn add(&mut self, registers: impl Iterator<Item = u32>) -> Registers {
        let start = self.registers.len() as u32;
        self.registers.extend(registers);
        start..self.registers.len() as u32
    }

    pub(crate) fn of(&self, registers: &Registers) -> &[u32] {
        &self.registers[registers.start as usize..registers.end as usize]
    }
}

/// Nanoseconds of a `nanosleep` whose operand is a register.
const SLEEP: u32 = 100;

/// The last integer of a text, 0 without one.
fn literal(text: &str) -> u32 {
    let end = text.trim_end_matches([';', ' ']);
    let digits = end.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// Cycles of a tensor core for a warp's multiply-adds at the full rate.
fn tensor_cycles(instruction: &Instruction, arch: &Arch) -> f64 {
    let each = f64::from(instruction.work.unit.tensor_rate(arch).max(1))
        / f64::from(arch.capability.partitions_per_sm);
    f64::from(instruction.work.by_warp) / 2.0 / each
}

/// Cycles that an `mma` of Hopper takes beside those at the rate of `wgmma` (H200,
/// docs/results/2026-11-28-probe-h200.md).
const MMA_OVERHEAD: f64 = 2.0;
/// Hopper has no `mma` of 8-bit floats: ptxas converts them and multiplies in f16 (the same).
const CONVERTED_MMA: u32 = 28;

fn mma_cycles(instruction: &Instruction, arch: &Arch) -> u32 {
    let full = tensor_cycles(instruction, arch);
    match (arch.capability.compute_capability.0, instruction.work.unit) {
        (9, Unit::TensorFp8) => CONVERTED_MMA,
        (9.., _) => (full + MMA_OVERHEAD).ceil() as u32,
        _ => full.ceil().max(1.0) as u32,
    }
}

/// A `wgmma` reads B, and A unless it is in registers, from shared memory. Each warp is charged a quarter.
fn warpgroup_mma(instruction: &Instruction, arch: &Arch) -> Action {
    let cycles = tensor_cycles(instruction, arch).ceil() as u32;
    let name = instruction.name();
    let shape = name.split('.').find_map(|word| {
        let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some((m.parse::<u32>().ok()?, n.parse::<u32>().ok()?, k.parse::<u32>().ok()?))
    });
    let (m, n, k) = shape.unwrap_or((64, 8, 16));
    // An instruction multiplies 256 bits of a row.
    let bits = 256u32.checked_div(k).unwrap_or(16);
    let from_registers = instruction.text.matches('{').count() > 1;
    let bytes = (n + if from_registers { 0 } else { m }) * k * bits / 8;
    Action::WarpgroupMma { cycles, passes: bytes.div_ceil(128 * 4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_from_the_text() {
        assert_eq!(literal("wgmma.wait_group.sync.aligned 3;"), 3);
        assert_eq!(literal("cp.async.wait_all;"), 0);
    }
}

//! Instructions of PTX that ptxas makes cheaper together than one by one: 64-bit arithmetic on extended 32-bit values, most of
//! it addresses, and a remainder beside its quotient (SASS that ptxas 13.0 makes of the library's kernels for sm_90a).

use std::collections::{HashMap, HashSet};

use warpwright_arch::instructions::{Pipe, forms_of};
use warpwright_events::{Code, Instruction};

use crate::program::{Action, Operation};

/// Gives the operations of merged instructions what these cost.
pub(crate) fn merge(code: &Code, operations: &mut [Operation]) {
    let mut uses: HashMap<u32, u32> = HashMap::new();
    for register in code.instructions.iter().flat_map(|instruction| &instruction.reads) {
        *uses.entry(register.0).or_default() += 1;
    }
    let mut known = Known::default();
    for (operation, &index) in operations.iter_mut().zip(&code.of_operation) {
        let instruction = &code.instructions[index as usize];
        match known.merged(instruction, &uses) {
            Some(Merged::Away) => {
                (operation.slots, operation.interval, operation.action) = (0, 0, Action::Rename);
            }
            Some(Merged::As(name)) => take(operation, name),
            Some(Merged::Shift) => {
                take(operation, "add.s64");
                operation.pipe = Pipe::Alu;
            }
            None => {}
        }
    }
}

/// The operation costs as much as this instruction.
fn take(operation: &mut Operation, name: &str) {
    let (form, _) = forms_of(name)[0];
    let execution = form.execution(name);
    operation.slots = execution.instructions;
    operation.interval = operation.slots * execution.interval;
    operation.latency = execution.latency;
}

/// What becomes of an instruction.
enum Merged {
    /// It is a part of another instruction.
    Away,
    /// It costs as much as this one.
    As(&'static str),
    /// A shift and an addition of 64 bits (`LEA`).
    Shift,
}

/// The values of a kernel so far.
#[derive(Default)]
struct Known {
    /// Registers of 64 bits that hold extended values of 32 bits.
    extended: HashSet<u32>,
    /// Products of 64 bits, to which their instruction can add.
    products: HashSet<u32>,
    /// Operands of the quotients so far.
    quotients: HashSet<Vec<u32>>,
}

impl Known {
    fn merged(&mut self, instruction: &Instruction, uses: &HashMap<u32, u32>) -> Option<Merged> {
        let name = instruction.name();
        let reads: Vec<u32> = instruction.reads.iter().map(|register| register.0).collect();
        let writes = instruction.writes.iter().map(|register| register.0);
        match name {
            "cvt.u64.u32" | "cvt.s64.s32" => {
                self.extended.extend(writes);
                Some(Merged::Away)
            }
            "mul.wide.u32" | "mul.wide.s32" => {
                self.products.extend(writes);
                None
            }
            "mul.lo.u64" | "mul.lo.s64" if reads.iter().all(|read| self.extended.contains(read)) => {
                self.products.extend(writes);
                Some(Merged::As("mul.wide.u32"))
            }
            "mad.lo.u64" | "mad.lo.s64" => {
                let multiplier = instruction.text.split(',').nth(2)?.trim().parse::<u64>();
                if multiplier.is_ok_and(u64::is_power_of_two) {
                    return Some(Merged::Shift);
                }
                let factors = &reads[..reads.len().saturating_sub(1)];
                factors.iter().all(|read| self.extended.contains(read)).then_some(Merged::As("mul.wide.u32"))
            }
            "add.u64" | "add.s64" => {
                let is_product = |read: &u32| self.products.contains(read) && uses.get(read) == Some(&1);
                reads.iter().any(is_product).then_some(Merged::Away)
            }
            "div.u32" | "div.s32" => {
                self.quotients.insert(reads);
                None
            }
            "rem.u32" | "rem.s32" if self.quotients.contains(&reads) => Some(Merged::As("mad.lo.s32")),
            _ => None,
        }
    }
}

//! Which registers an instruction reads and which it writes.

use crate::kernel::{Instruction, Operand, Register};

/// Every register of `operand`, in order.
pub(crate) fn registers(operand: &Operand) -> Vec<Register> {
    match operand {
        Operand::Register(register) | Operand::Not(register) => vec![*register],
        Operand::Pair(first, second) => vec![*first, *second],
        Operand::Vector(elements) => elements.iter().flat_map(registers).collect(),
        Operand::Address { base, rest, .. } => {
            std::iter::once(&**base).chain(rest).flat_map(registers).collect()
        }
        Operand::Integer(_)
        | Operand::F32(_)
        | Operand::F64(_)
        | Operand::Special(_)
        | Operand::Symbol(_)
        | Operand::Sink => Vec::new(),
    }
}

/// Every register that `instruction` names in its operands.
pub(crate) fn mentioned(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    instruction.operands.iter().flat_map(registers)
}

/// Whether the instruction reads what it writes: the accumulator of `wgmma`.
pub(crate) fn accumulates(instruction: &Instruction) -> bool {
    instruction.opcode.starts_with("wgmma.mma_async")
}

/// The registers whose values the operands take, the guard apart.
pub(crate) fn reads(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    let first = if accumulates(instruction) { 0 } else { instruction.destinations };
    instruction.operands.iter().skip(first).flat_map(registers)
}

/// The registers that get a value.
pub(crate) fn writes(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    instruction.operands.iter().take(instruction.destinations).flat_map(registers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Location;
    use warpwright_arch::instructions::forms;

    #[test]
    fn accumulators_are_those_of_the_table() {
        let location = Location { file: "", line: 0, column: 0 };
        for form in forms() {
            for (name, signature) in form.instances(4) {
                let opcode = name.clone().into();
                let instruction =
                    Instruction { guard: None, opcode, destinations: 1, operands: vec![], location };
                assert_eq!(accumulates(&instruction), signature.accumulates, "{name}");
            }
        }
    }
}

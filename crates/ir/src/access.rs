//! The registers that instructions read and write.

use smallvec::{SmallVec, smallvec};

use crate::kernel::{Instruction, Operand, Register, Statement};

/// Every register of `operand`, in order.
pub(crate) fn registers(operand: &Operand) -> SmallVec<[Register; 4]> {
    match operand {
        Operand::Register(register) | Operand::Not(register) => smallvec![*register],
        Operand::Pair(first, second) => smallvec![*first, *second],
        Operand::Vector(elements) => elements.iter().flat_map(registers).collect(),
        Operand::Address { base, rest, .. } => {
            std::iter::once(&**base).chain(rest).flat_map(registers).collect()
        }
        Operand::Integer(_)
        | Operand::F32(_)
        | Operand::F64(_)
        | Operand::Special(_)
        | Operand::Symbol(_)
        | Operand::Sink => SmallVec::new(),
    }
}

/// Every register that `instruction` names in its operands.
pub(crate) fn mentioned(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    instruction.operands.iter().flat_map(registers)
}

/// Whether the instruction also reads its destination: the accumulator of `wgmma`.
pub(crate) fn accumulates(instruction: &Instruction) -> bool {
    instruction.opcode.starts_with("wgmma.mma_async")
}

/// The registers whose values the operands take, the guard apart.
pub(crate) fn reads(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    let first = if accumulates(instruction) { 0 } else { instruction.destinations };
    instruction.operands.iter().skip(first).flat_map(registers)
}

/// The registers written.
pub(crate) fn writes(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    instruction.operands.iter().take(instruction.destinations).flat_map(registers)
}

/// First words of the instructions that compute their results from their operands and do nothing
/// else.
const PURE: [&str; 54] = [
    "abs", "add", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos", "cvt",
    "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "isspacep", "lg2", "lop3", "mad", "mad24", "mapa",
    "max", "min", "mov", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad",
    "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt", "sub", "szext", "tanh", "testp",
    "xor",
];

/// Whether the instruction can be removed if its results are unused.
///
/// Loads are not pure, so that a wrong address is still found; the carry of `.cc` is a result that
/// no operand shows; and clocks and the like differ from read to read.
pub(crate) fn is_pure(instruction: &Instruction) -> bool {
    let opcode = instruction.opcode.as_ref();
    let base = opcode.split('.').next().unwrap_or("");
    let is_volatile = |operand: &Operand| match operand {
        Operand::Special(name) => name.contains("clock") || name.contains("timer") || name.starts_with("%pm"),
        _ => false,
    };
    (PURE.contains(&base) || opcode.starts_with("ld.param"))
        && !opcode.split('.').any(|word| word == "cc")
        && !instruction.operands.iter().any(is_volatile)
}

/// Whether the instruction is a plain copy between two registers, and if so which: (to, from).
pub(crate) fn copy(instruction: &Instruction) -> Option<(Register, Register)> {
    match (instruction.opcode.strip_prefix("mov."), instruction.guard, &instruction.operands[..]) {
        (Some(_), None, [Operand::Register(to), Operand::Register(from)]) => Some((*to, *from)),
        _ => None,
    }
}

/// Whether the instruction may still read its registers after the next one has run (PTX ISA,
/// "Asynchronous Operations"): another register of the same value will not do, for that one may
/// change meanwhile.
fn reads_late(instruction: &Instruction) -> bool {
    accumulates(instruction) || instruction.opcode.starts_with("tcgen05.st")
}

/// Whether the instruction waits for those that [read late](reads_late), so that their registers
/// may be written after it, not before.
pub(crate) fn ends_late_reads(instruction: &Instruction) -> bool {
    instruction.opcode.starts_with("wgmma.wait_group") || instruction.opcode.starts_with("tcgen05.wait")
}

/// Calls `visit` with every register that the instruction reads at once and that another of the
/// same value can stand in for, the guard included.
pub(crate) fn for_each_read_mut(instruction: &mut Instruction, visit: &mut dyn FnMut(&mut Register)) {
    if let Some((guard, _)) = &mut instruction.guard {
        visit(guard);
    }
    if reads_late(instruction) {
        return;
    }
    for operand in instruction.operands.iter_mut().skip(instruction.destinations) {
        for_each_register_mut(operand, visit);
    }
}

/// Calls `visit` with every register of `operand`, to be replaced.
pub(crate) fn for_each_register_mut(operand: &mut Operand, visit: &mut dyn FnMut(&mut Register)) {
    match operand {
        Operand::Register(register) | Operand::Not(register) => visit(register),
        Operand::Pair(first, second) => {
            visit(first);
            visit(second);
        }
        Operand::Vector(elements) => {
            elements.iter_mut().for_each(|element| for_each_register_mut(element, visit));
        }
        Operand::Address { base, rest, .. } => {
            for_each_register_mut(base, visit);
            rest.iter_mut().for_each(|operand| for_each_register_mut(operand, visit));
        }
        Operand::Integer(_)
        | Operand::F32(_)
        | Operand::F64(_)
        | Operand::Special(_)
        | Operand::Symbol(_)
        | Operand::Sink => {}
    }
}

/// The bytes that a vector load or store moves.
pub(crate) fn vector_bytes(opcode: &str) -> Option<u32> {
    let mut words = opcode.split('.');
    let count: u32 = match words.next()? {
        "ld" | "st" => words.find_map(|word| word.strip_prefix('v')?.parse().ok())?,
        _ => return None,
    };
    let bits = words.next_back()?.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    Some(count * bits.parse::<u32>().ok()? / 8)
}

/// Calls `visit` with every register that `body` writes.
pub(crate) fn for_each_write(body: &[Statement], visit: &mut dyn FnMut(Register)) {
    for statement in body {
        match statement {
            Statement::Instruction(instruction) => writes(instruction).for_each(&mut *visit),
            Statement::If { then, otherwise, .. } => {
                for_each_write(then, visit);
                for_each_write(otherwise, visit);
            }
            Statement::Loop { body, step, .. } => {
                for_each_write(body, visit);
                for_each_write(step, visit);
            }
            Statement::Block { body, .. } => for_each_write(body, visit),
            _ => {}
        }
    }
}

/// Adds to `mentions`, by register, how often each occurs in `body`.
pub(crate) fn count_mentions(body: &[Statement], mentions: &mut [u32]) {
    for statement in body {
        let mut mention = |register: &Register| mentions[register.0 as usize] += 1;
        match statement {
            Statement::Instruction(instruction) => {
                mentioned(instruction).for_each(|register| mention(&register));
                instruction.guard.iter().for_each(|(guard, _)| mention(guard));
            }
            Statement::If { condition, then, otherwise, .. } => {
                mention(condition);
                count_mentions(then, mentions);
                count_mentions(otherwise, mentions);
            }
            Statement::Loop { body, step, .. } => {
                count_mentions(body, mentions);
                count_mentions(step, mentions);
            }
            Statement::Block { body, .. } => count_mentions(body, mentions),
            Statement::Print { arguments, .. } => {
                arguments.iter().for_each(|(register, _)| mention(register))
            }
            Statement::Assert { condition, .. } => mention(condition),
            Statement::Break(..) | Statement::Continue(..) | Statement::Return(_) => {}
        }
    }
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

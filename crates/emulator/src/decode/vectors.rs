//! Vectors of registers, which stand for their registers in braces.

use std::borrow::Cow;

use warpwright_ptx::syntax::{Address, Instruction, Operand};

use super::decoder::FunctionDecoder;
use super::names::Symbol;
use crate::kernel::special::Special;

/// The components of a vector, by position.
const AXES: [&str; 4] = ["x", "y", "z", "w"];

impl<'m> FunctionDecoder<'_, 'm> {
    /// The instruction with its vectors of registers, and special registers that are vectors, as
    /// braces: `mov.v4.u32 v, %tid` is `mov.v4.u32 {v.x, v.y, v.z, v.w}, {%tid.x, %tid.y, ...}`.
    pub(crate) fn expanded(&mut self, instruction: &'m Instruction) -> Cow<'m, Instruction> {
        let moves_vector = instruction.opcode.base() == "mov" && instruction.opcode.has("v4");
        if !self.has_vectors && !moves_vector {
            return Cow::Borrowed(instruction);
        }
        let operands = instruction.operands.iter().map(|operand| self.in_braces(operand)).collect();
        Cow::Owned(Instruction { operands, ..instruction.clone() })
    }

    fn in_braces(&mut self, operand: &Operand) -> Operand {
        match operand {
            Operand::Name(name) => match self.vector_length(name) {
                None => operand.clone(),
                Some(length) => {
                    let element = |axis: &&str| Operand::Name(format!("{name}.{axis}"));
                    Operand::Vector(AXES[..length].iter().map(element).collect())
                }
            },
            Operand::List(values) => Operand::List(self.all_in_braces(values)),
            Operand::Pair(first, second) => {
                Operand::Pair(Box::new(self.in_braces(first)), Box::new(self.in_braces(second)))
            }
            Operand::Address(address) => {
                let rest = self.all_in_braces(&address.rest);
                Operand::Address(Address { rest, ..address.clone() })
            }
            other => other.clone(),
        }
    }

    fn all_in_braces(&mut self, operands: &[Operand]) -> Vec<Operand> {
        operands.iter().map(|operand| self.in_braces(operand)).collect()
    }

    fn vector_length(&mut self, name: &str) -> Option<usize> {
        if Special::is_vector(name) {
            return Some(AXES.len());
        }
        match self.symbol(name) {
            Ok(Symbol::Vector(registers)) => Some(registers.len().min(AXES.len())),
            _ => None,
        }
    }
}

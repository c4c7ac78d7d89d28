//! The row of the instruction table that an instruction is: what its name and its operands mean.

use std::ops::Deref;
use std::rc::Rc;

use warpwright_arch::instructions::{self, Form, Operand as Pattern, Scalar, Signature};
use warpwright_ptx::syntax::{Instruction, Number, Operand, Type};

use super::error::DecodeError;

/// The rows that a name has, each with its operands.
pub(crate) type Rows = Rc<[(&'static Form, Signature)]>;

/// An instruction and its row. The verifier has compared the two: each modifier is one that the row has,
/// and the operands are as many and of the kinds that the row has.
pub(crate) struct Row<'a> {
    instruction: &'a Instruction,
    rows: Rows,
    index: usize,
}

impl Deref for Row<'_> {
    type Target = Instruction;

    fn deref(&self) -> &Instruction {
        self.instruction
    }
}

impl<'a> Row<'a> {
    /// The row of an instruction among those that its name has. Rows that only the types of registers
    /// distinguish are decoded alike.
    pub(crate) fn of(instruction: &'a Instruction, rows: Rows) -> Option<Self> {
        let fits = |(_, signature): &(&Form, Signature)| {
            let (own, all) = (instruction.operands.len(), &signature.operands);
            (signature.required..=all.len()).contains(&own)
                && instruction.operands.iter().zip(all).all(|(operand, pattern)| has_shape(operand, pattern))
        };
        let index = rows.iter().position(fits)?;
        Some(Self { instruction, rows, index })
    }

    pub(crate) fn form(&self) -> &'static Form {
        self.rows[self.index].0
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.rows[self.index].1
    }

    pub(crate) fn base(&self) -> &'a str {
        self.instruction.opcode.base()
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.opcode.has(word)
    }

    /// The values of the modifiers that a function recognizes, in order.
    pub(crate) fn all<T>(&self, recognize: impl Fn(&str) -> Option<T>) -> impl Iterator<Item = T> {
        self.instruction.opcode.modifiers().filter_map(recognize)
    }

    /// The value of the first modifier that a function recognizes.
    pub(crate) fn find<T>(&self, recognize: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.all(recognize).next()
    }

    /// The value of the first modifier that a table has.
    pub(crate) fn choose<T: Copy>(&self, table: &[(&str, T)]) -> Option<T> {
        self.find(|word| table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value))
    }

    /// The same of a row that must have such a modifier. `what` it names is for the error.
    pub(crate) fn must<T: Copy>(&self, what: &str, table: &[(&str, T)]) -> Result<T, DecodeError> {
        self.choose(table).ok_or_else(|| self.names_no(what))
    }

    /// The error of an instruction that leaves its meaning open.
    pub(crate) fn names_no(&self, what: &str) -> DecodeError {
        DecodeError::unsupported(format!("`{}` names no {what}.", self.opcode.as_str()))
    }

    /// The types that the name has, in order.
    pub(crate) fn types(&self) -> impl Iterator<Item = Type> {
        self.all(Type::from_word)
    }

    /// The first type that the name has.
    pub(crate) fn ty(&self) -> Result<Type, DecodeError> {
        self.types().next().ok_or_else(|| self.names_no("type"))
    }

    /// The first two types that the name has.
    pub(crate) fn two_types(&self) -> Result<(Type, Type), DecodeError> {
        let mut types = self.types();
        types.next().zip(types.next()).ok_or_else(|| self.names_no("second type"))
    }

    /// The error of a row that nothing executes.
    pub(crate) fn unsupported(&self) -> DecodeError {
        DecodeError::unsupported(format!("The emulator does not support `{}`.", self.opcode.as_str()))
    }

    /// An operand, by position.
    pub(crate) fn operand(&self, index: usize) -> Result<&'a Operand, DecodeError> {
        self.instruction.operands.get(index).ok_or_else(|| {
            DecodeError::new(format!("`{}` needs more than {index} operands.", self.opcode.as_str()))
        })
    }

    /// A literal operand, by position.
    pub(crate) fn literal(&self, index: usize) -> Result<i64, DecodeError> {
        match self.operand(index)? {
            Operand::Number(Number::Integer(value)) => Ok(*value),
            other => Err(DecodeError::new(format!("`{other}` is not an integer constant."))),
        }
    }

    /// The register types of an operand that is a pair.
    pub(crate) fn pair_types(&self, index: usize) -> [Type; 2] {
        match &self.signature().operands[index] {
            Pattern::Pair { first, second, .. } => [register_type(first), register_type(second)],
            _ => [Type::B32, Type::Pred],
        }
    }

    /// The register type of an operand, by position: for its width, and for literals.
    pub(crate) fn operand_type(&self, index: usize) -> Option<Type> {
        match self.signature().operands.get(index)? {
            Pattern::Scalar(scalar)
            | Pattern::Pair { first: scalar, .. }
            | Pattern::Vector { element: scalar, .. } => Some(register_type(scalar)),
            _ => None,
        }
    }
}

/// A type of the width of a register, and of a float if a literal is one.
fn register_type(scalar: &Scalar) -> Type {
    match (scalar.bits, scalar.kind) {
        (1, _) => Type::Pred,
        (8, _) => Type::B8,
        (16, _) => Type::B16,
        (32, instructions::Kind::Float) => Type::F32,
        (32, _) => Type::B32,
        (64, instructions::Kind::Float) => Type::F64,
        (64, _) => Type::B64,
        _ => Type::B128,
    }
}

/// Whether an operand may stand where a row has a pattern, as far as its shape shows.
fn has_shape(operand: &Operand, pattern: &Pattern) -> bool {
    match (pattern, operand) {
        (Pattern::Pair { .. }, Operand::Pair(..)) => true,
        (Pattern::Pair { optional, .. }, operand) => *optional && !matches!(operand, Operand::Vector(_)),
        (Pattern::Vector { count, .. }, Operand::Vector(elements)) => elements.len() == *count,
        (Pattern::Vector { .. }, _) => false,
        // Compilers write a vector of one element for a scalar.
        (Pattern::Scalar(_), Operand::Vector(elements)) => elements.len() == 1,
        (Pattern::Address(_), operand) => matches!(operand, Operand::Address(_)),
        (Pattern::Literal, operand) => matches!(operand, Operand::Number(_)),
        (Pattern::Sink, operand) => *operand == Operand::Sink,
        (Pattern::Scalar(_) | Pattern::Symbol, operand) => {
            !matches!(operand, Operand::Address(_) | Operand::Pair(..) | Operand::List(_))
        }
    }
}

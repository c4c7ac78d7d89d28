//! Errors in instructions and declarations.

use warpwright_ptx::syntax::{Instruction, Type};

use crate::program::LoadError;

/// An error in an instruction or a declaration, before its position is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodeError(String);

impl DecodeError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub(crate) fn at(self, function: Option<&str>, line: u32, text: String) -> LoadError {
        LoadError { function: function.map(str::to_owned), line, text, message: self.0 }
    }
}

/// Refuses a combination of opcode and type that PTX does not have.
pub(crate) fn unsupported(i: &Instruction, ty: Type) -> DecodeError {
    DecodeError::new(format!("`{}` does not exist for the type .{}.", i.opcode.base(), ty.word()))
}

//! Errors in instructions and declarations.

use crate::load_error::LoadError;

/// Whether an instruction could be decoded. What appends an operation returns it too, so that a decoder ends
/// with that.
pub(crate) type Decoded = Result<(), DecodeError>;

/// An error in an instruction or a declaration, before its position is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodeError {
    message: String,
    is_unsupported: bool,
}

impl DecodeError {
    /// An error of the program.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_unsupported: false }
    }

    /// A limitation of the emulator. The module loads, and executing the instruction is a fault.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_unsupported: true }
    }

    /// A function without a body that the emulator does not provide.
    pub(crate) fn undefined(function: &str) -> Self {
        Self::unsupported(format!(
            "`{function}` is declared but not defined in this module, and the emulator does not provide it."
        ))
    }

    /// Whether it is a limitation of the emulator.
    pub(crate) fn is_unsupported(&self) -> bool {
        self.is_unsupported
    }

    pub(crate) fn at(self, function: Option<&str>, line: u32, text: String) -> LoadError {
        LoadError { function: function.map(str::to_owned), line, text, message: self.message }
    }
}

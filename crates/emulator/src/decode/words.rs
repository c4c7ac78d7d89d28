//! The modifiers of an opcode, taken one by one. Remaining ones are not supported.

use warpwright_arch::instructions;
use warpwright_ptx::syntax::{Opcode, Type};

use super::error::DecodeError;

/// The modifiers of an instruction.
pub(crate) struct Words<'a> {
    left: Vec<Option<&'a str>>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(opcode: &'a Opcode) -> Self {
        Self { left: opcode.modifiers().map(Some).collect() }
    }

    /// Takes a modifier if it is present.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        match self.left.iter_mut().find(|left| **left == Some(word)) {
            Some(found) => {
                *found = None;
                true
            }
            None => false,
        }
    }

    /// Takes the first modifier that a function accepts.
    pub(crate) fn take_first<T>(&mut self, recognize: impl Fn(&str) -> Option<T>) -> Option<T> {
        for left in &mut self.left {
            if let Some(found) = left.and_then(&recognize) {
                *left = None;
                return Some(found);
            }
        }
        None
    }

    /// Takes the first modifier of a table, and returns its value.
    pub(crate) fn choose<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        self.take_first(|word| table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value))
    }

    /// Takes the first type.
    pub(crate) fn ty(&mut self) -> Result<Type, DecodeError> {
        self.optional_ty().ok_or_else(|| DecodeError::new("The instruction names no type."))
    }

    pub(crate) fn optional_ty(&mut self) -> Option<Type> {
        self.take_first(Type::from_word)
    }

    /// Takes all modifiers: those of an instruction that is not supported do not matter.
    pub(crate) fn ignore(&mut self) {
        self.left.clear();
    }

    /// Fails if modifiers remain.
    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        let left: Vec<String> = self.left.iter().flatten().map(|word| format!("`.{word}`")).collect();
        let plural = if left.len() > 1 { "s" } else { "" };
        match left.as_slice() {
            [] => Ok(()),
            left => Err(DecodeError::unsupported(format!(
                "The emulator does not support the modifier{plural} {} of this instruction.",
                left.join(", ")
            ))),
        }
    }

    /// The cause of an error in an instruction `base` with these modifiers: a remaining one that
    /// the instruction table does not have, if there is one, and otherwise the error itself.
    pub(crate) fn cause(&self, base: &str, error: DecodeError) -> DecodeError {
        let is_unknown = |word: &&&str| instructions::is_known(base) && !instructions::has_word(base, word);
        match self.left.iter().flatten().find(is_unknown) {
            Some(word) => DecodeError::unsupported(format!(
                "The emulator does not know the modifier `.{word}` of `{base}`."
            )),
            None => error,
        }
    }
}

//! What is wrong, and where.

use std::fmt;

/// An error in a module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct VerifyError {
    /// The function it is in, if it is in one.
    pub function: Option<String>,
    /// The line of the text, from 1; 0 where unknown.
    pub line: u32,
    /// The instruction or declaration.
    pub text: String,
    /// The error, as a sentence.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} {}", self.line, self.message, self.text)
    }
}

/// The function that is checked, if it is in one.
#[derive(Clone, Copy, Default)]
pub(super) struct Subject<'m>(pub(super) Option<&'m str>);

impl Subject<'_> {
    pub(super) fn error(self, line: u32, text: String, message: String) -> VerifyError {
        VerifyError { function: self.0.map(str::to_owned), line, text, message }
    }
}

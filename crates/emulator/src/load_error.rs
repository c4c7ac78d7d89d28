//! Why a module, or an instruction of it, cannot be loaded.

/// Why a module could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct LoadError {
    /// The function it is in, if it is in one.
    pub function: Option<String>,
    /// The line of the PTX text.
    pub line: u32,
    /// The instruction or declaration.
    pub text: String,
    /// The error, as a sentence.
    pub message: String,
}

impl LoadError {
    fn sentence(&self) -> String {
        let mut sentence = self.message.clone();
        if let Some(function) = &self.function {
            sentence += &format!("\n  in `{function}`");
        }
        if self.line > 0 {
            sentence += &format!("\n  at PTX line {}", self.line);
            if !self.text.is_empty() {
                sentence += &format!(": {}", self.text);
            }
        }
        sentence
    }
}

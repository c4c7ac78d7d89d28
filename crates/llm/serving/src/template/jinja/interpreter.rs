//! A run of a template, within bounds of time and memory.

use super::error::{Error, Result};
use super::value::{Key, Value};

/// A run of a template.
pub(super) struct Interpreter {
    /// Steps that are left. A step is an expression, or some bytes of text.
    steps: u64,
    /// The most bytes of a text.
    longest: usize,
    depth: usize,
    pub(super) line: usize,
}

/// Steps that a round of a loop counts as, for its scope.
pub(super) const STEPS_PER_ROUND: usize = 10;
/// Bytes that count as a step.
pub(super) const BYTES_PER_STEP: usize = 16;
/// How deep expressions, blocks and macros are nested at most.
const DEEPEST: usize = 1000;

impl Interpreter {
    pub(super) fn new(steps: u64, longest: usize) -> Interpreter {
        Interpreter { steps, longest, depth: 0, line: 1 }
    }

    /// Counts work.
    pub(super) fn spend(&mut self, steps: usize) -> Result<()> {
        match self.steps.checked_sub(steps as u64) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(Error::TooLong),
        }
    }

    /// Counts bytes of a text that is about to be made.
    pub(super) fn room(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.longest {
            return Err(Error::Failed(format!("it makes a text of more than {} bytes", self.longest)));
        }
        self.spend(bytes / BYTES_PER_STEP + 1)
    }

    pub(super) fn made(&mut self, text: String) -> Result<Value> {
        self.room(text.len())?;
        Ok(Value::text(text))
    }

    pub(super) fn nested<T>(&mut self, run: impl FnOnce(&mut Interpreter) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::Failed("it calls itself without end".to_owned()));
        }
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// The values that iteration gives.
    pub(super) fn items(&mut self, value: &Value) -> Result<Vec<Value>> {
        let items = match value {
            Value::List(items) | Value::Tuple(items) | Value::View(_, items) => items.items.clone(),
            Value::Generator(items) => items.take().into(),
            Value::Dict(dict) => dict.map.keys().map(Key::value).collect(),
            Value::Text(text) => {
                self.spend(text.text.len())?;
                text.text.chars().map(|character| Value::text(character.to_string())).collect()
            }
            Value::Undefined => Vec::new(),
            other => return Err(Error::Failed(format!("{} cannot be iterated", other.kind()))),
        };
        self.spend(items.len())?;
        Ok(items)
    }

    /// Adds a text to the output.
    pub(super) fn put(&mut self, text: &str, out: &mut String) -> Result<()> {
        if out.len() + text.len() > self.longest {
            self.room(out.len() + text.len())?;
        }
        self.spend(text.len() / BYTES_PER_STEP + 1)?;
        out.push_str(text);
        Ok(())
    }
}

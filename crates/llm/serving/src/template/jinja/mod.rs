//! Jinja as transformers runs it for chat templates: jinja2's immutable sandbox, over values that behave like Python's.
//!
//! A run has bounds of steps and of bytes, because a template comes with a model that somebody else made.

mod attributes;
mod callable;
mod error;
mod expressions;
mod filters;
mod format;
mod functions;
mod interpreter;
mod json;
mod lexer;
mod methods;
mod operators;
mod parser;
mod statements;
mod syntax;
mod tests;
mod value;
mod write;

use callable::Scope;
use error::Result;
pub(super) use error::{Error, Wrong};
use interpreter::Interpreter;
use value::Value;

/// A template that was read.
#[derive(Debug)]
pub(super) struct Template {
    body: syntax::Body,
}

/// Steps of a run, and those for each byte of its variables.
const STEPS: u64 = 10_000_000;
const STEPS_PER_BYTE: u64 = 30;
/// Bytes of a text, and those for each byte of the variables.
const LONGEST: usize = 16 << 20;
const LONGEST_PER_BYTE: usize = 4;

impl Template {
    /// Reads a template.
    pub(super) fn new(source: &str) -> std::result::Result<Template, Wrong> {
        Ok(Template { body: parser::parse(lexer::tokens(source)?)? })
    }

    /// Runs the template with variables, whose JSON has about this number of bytes.
    pub(super) fn render(
        &self,
        variables: &serde_json::Map<String, serde_json::Value>,
        bytes: usize,
    ) -> Result<String> {
        let scope = Scope::new(None);
        for (name, value) in variables {
            scope.set(name, Value::from_json(value).map_err(Error::Failed)?);
        }
        let steps = STEPS + STEPS_PER_BYTE * bytes as u64;
        let mut run = Interpreter::new(steps, LONGEST + LONGEST_PER_BYTE * bytes);
        let mut out = String::new();
        match run.run(&self.body, &scope, &mut out) {
            Ok(()) => Ok(out),
            Err(Error::Failed(message)) => Err(Error::Failed(format!("line {}: {message}", run.line))),
            Err(raised) => Err(raised),
        }
    }
}

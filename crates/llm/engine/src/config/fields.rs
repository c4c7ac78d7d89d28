//! Fields of a JSON object, and what is refused of them.

use serde_json::Value;

use crate::error::{EngineError, Result};

/// Fields of a JSON object.
#[derive(Clone, Copy)]
pub(super) struct Fields<'l>(pub(super) &'l Value);

impl<'l> Fields<'l> {
    pub(super) fn optional(&self, name: &str) -> Option<&'l Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn number(&self, name: &str) -> Result<u32> {
        self.number_or(name, None)
    }

    /// A number from 1 to [`MOST`].
    pub(super) fn number_or(&self, name: &str, default: Option<u32>) -> Result<u32> {
        let Some(value) = self.optional(name) else {
            return default.ok_or_else(|| EngineError::Config(format!("{name} is missing")));
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| (1..=MOST).contains(number)).ok_or_else(|| unexpected(name, value, NUMBERS))
    }

    /// A number above 0.
    pub(super) fn float_or(&self, name: &str, default: f64) -> Result<f64> {
        let Some(value) = self.optional(name) else { return Ok(default) };
        let number = value.as_f64().filter(|number| *number > 0.0 && number.is_finite());
        number.ok_or_else(|| unexpected(name, value, "a number above 0"))
    }

    pub(super) fn flag_or(&self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.optional(name) else { return Ok(default) };
        value.as_bool().ok_or_else(|| unexpected(name, value, "true or false"))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'l str>> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| unexpected(name, value, "a text"))
    }

    /// A value that is read from an object of the configuration.
    pub(super) fn fields(&self, name: &str) -> Result<Option<Self>> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        if value.is_object() { Ok(Some(Fields(value))) } else { Err(unexpected(name, value, "an object")) }
    }
}

/// The largest extent. Products of two stay within what tensors are indexed by on the host.
pub(super) const MOST: u32 = 1 << 24;
const NUMBERS: &str = "a number from 1 to 16777216";
pub(super) fn unexpected(name: &str, value: &Value, expected: &str) -> EngineError {
    let mut found = value.to_string();
    if let Some((end, _)) = found.char_indices().nth(40) {
        found.replace_range(end.., "...");
    }
    EngineError::Config(format!("{name} is {found}; expected {expected}"))
}

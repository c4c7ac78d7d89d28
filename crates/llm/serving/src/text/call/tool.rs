//! Tools, and the tags around their calls.

use serde_json::Value;

/// A tool that the model may call.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The name of the function.
    pub name: String,
    /// The JSON schema of its parameters.
    pub parameters: Value,
}

/// A call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// The name of the function.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// The tag before a call.
pub(crate) const CALL: &str = "<tool_call>";
/// The tag after a call.
pub(crate) const CALL_END: &str = "</tool_call>";
/// The beginning of a call of Qwen 3.5, in `<tool_call>`.
pub(crate) const FUNCTION: &str = "<function=";
/// Its end.
pub(crate) const FUNCTION_END: &str = "</function>";

/// Whether a call is complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Progress {
    /// More text is needed.
    Open,
    /// The text that follows is none of the call.
    Complete,
}

/// Whether a parameter of this schema is text and nothing else, which is written without quotes.
pub(crate) fn is_text(schema: &Value) -> bool {
    schema["type"] == "string" || (schema.get("type").is_none() && schema["enum"][0].is_string())
}

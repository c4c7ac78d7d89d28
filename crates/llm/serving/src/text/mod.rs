//! From generated tokens to what a client reads: text, stops, reasoning and tool calls.

mod call;
mod parser;
mod stop;

pub use call::{CallForm, JsonForm, PythonForm, TagForm, Tool, ToolCall};
pub(crate) use call::{ID, is_text};
pub use parser::{Parser, ParserOptions, Part, Place};
pub use stop::StopStrings;

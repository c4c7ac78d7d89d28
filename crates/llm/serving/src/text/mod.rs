//! From generated tokens to what a client reads: text, stops, reasoning and tool calls.

mod parser;
mod stop;
mod tools;

pub use parser::{Parser, ParserOptions, Part};
pub use stop::StopStrings;
pub(crate) use tools::is_text;
pub use tools::{Tool, ToolCall};

//! From generated tokens to what a client reads: text, stops, reasoning and tool calls.

mod call;
mod parser;
mod stop;

pub(crate) use call::is_text;
pub use call::{Tool, ToolCall};
pub use parser::{Parser, ParserOptions, Part, Place};
pub use stop::StopStrings;

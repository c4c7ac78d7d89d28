//! PTX as text: a writer from IR and a parser into a typed syntax tree.

mod error;
mod parser;
mod print;
pub mod syntax;

pub use error::ParseError;
pub use parser::parse;
pub use print::print;

//! PTX as text: a writer from IR and a parser into a typed syntax tree.
//!
//! [`parse`] reads what nvcc, NVRTC, Triton and [`write()`] produce into a [`syntax::Module`];
//! [`verify()`] checks one as ptxas does, and [`print()`] turns it back into text. [`write()`] is [`lower`], which makes the tree of an
//! [`ir::Module`](warpwright_ir::Module), and [`print()`].

mod error;
mod ignored_guard;
mod lower;
mod parser;
mod print;
pub mod syntax;
mod verify;

pub use error::ParseError;
pub use ignored_guard::{IgnoredGuard, ignored_guards};
pub use lower::{lower, write};
pub use parser::parse;
pub use print::print;
pub use verify::{VerifyError, rows, verify};

//! Kernel IR: typed virtual registers, structured control flow, source locations, and a verifier.
//!
//! A leaf of the IR **is** a PTX instruction: its dotted opcode and its operands. PTX is the one
//! contract of the system, so the IR adds to it only what PTX lacks and a compiler needs:
//! structured control flow in place of labels, register classes in place of declarations, and the
//! author's source position on everything.

mod access;
mod contract;
pub mod kernel;
pub mod module;
mod optimize;
mod register_set;
pub mod verify;

pub use contract::contract;
pub use kernel::*;
pub use module::Module;
pub use optimize::optimize;
pub use verify::{Accumulator, Fault, Unwritten, VerifyError, verify};

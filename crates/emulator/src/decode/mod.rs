//! From the syntax tree to operations that are ready to execute.
//!
//! Names become register slots, offsets and addresses. Immediates and special registers become
//! columns that are filled when a warp starts, so an operation reads only registers. Every kernel
//! is decoded with copies of the functions it may call, so that its shared memory is laid out for
//! it alone.

pub(crate) mod decoder;
pub(crate) mod description;
pub(crate) mod error;
pub(crate) mod grid_workspace;
pub(crate) mod implicit;
pub(crate) mod kernel_scope;
pub(crate) mod names;
pub(crate) mod operand;
pub(crate) mod row;
pub(crate) mod variables;
pub(crate) mod vectors;

pub(crate) use decoder::Decoder;
pub(crate) use error::{DecodeError, Decoded};
pub(crate) use names::{File, Register, Symbol};
pub(crate) use operand::elements;
pub(crate) use row::Row;

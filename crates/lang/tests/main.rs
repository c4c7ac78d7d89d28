//! The tests of the crate, in one program.

#![allow(unreachable_pub, reason = "the modules of a test are its own")]

mod hopper;
mod instruction;
mod interpreter;
mod memory;
mod mistakes;
mod misuse;
mod narrow;
mod operations;
mod semantics;
mod tensor_gemm;
mod twin;

//! The tests of the crate, in one program.

#![allow(unreachable_pub, reason = "the modules of a test are its own")]

mod agreement;
mod collective;
mod emulated;
mod hopper;
mod instruction;
mod integers;
mod interpreter;
mod limits;
mod math;
mod memory;
// One mistake is to index a vector by a device value.
#[allow(clippy::useless_vec)]
mod mistakes;
mod misuse;
mod narrow;
mod operations;
// What the body of a twin means is the point, not how it reads.
#[allow(clippy::blocks_in_conditions)]
mod semantics;
mod tensor_gemm;
mod twin;

//! B = Aᵀ, from one thread per element to the library's kernel, which uses only 16-byte accesses.

pub mod tile;
mod workload;

pub(crate) use workload::TransposeLadder;

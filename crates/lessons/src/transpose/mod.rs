//! B = Aᵀ, from a thread an element to the library's kernel, which makes only 16-byte accesses.

pub mod tile;
mod workload;

pub(crate) use workload::TransposeLadder;

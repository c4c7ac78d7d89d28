//! B = Aᵀ, from a thread an element to the library's kernel, which makes only 16-byte accesses.

mod library;
pub mod tile;

pub(crate) use library::Library;

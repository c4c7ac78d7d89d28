//! B = Aᵀ.
//!
//! [`BlockTranspose`] moves whole 16-byte vectors and is chosen where the shape allows it.
//! [`TileTranspose`], an element per thread and step through a swizzled tile, takes every other
//! shape. The steps that lead to them are lessons: `warpwright_lessons::transpose`.

mod blocks;
mod operations;
pub mod tile;

pub use blocks::BlockTranspose;
pub use operations::Method;
pub use tile::TileTranspose;

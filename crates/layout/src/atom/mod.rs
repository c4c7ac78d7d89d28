//! Atoms: single instructions that copy or multiply, with the elements that each thread holds.
//!
//! The thread-value layout of an atom maps (thread, value) to an element of the atom's tile,
//! counted column-major. Two tables list all atoms: [`MMA_TABLE`](warpwright_arch::mma::MMA_TABLE)
//! and [`COPY_TABLE`].

mod copy;
mod descriptor;
mod mma;
mod scale_tile;
mod shared_tile;

pub use copy::{COPY_TABLE, CopyAtom, CopyRow, TmaBox};
pub use descriptor::SharedDescriptor;
pub use mma::{Metadata, MmaAtom};
pub use scale_tile::scale_tile;
pub use shared_tile::{Major, SharedSwizzle, SharedTile};
pub use warpwright_arch::mma::{Family, Operand, Types};

//! Atoms: what one instruction of the hardware moves or multiplies, and which thread holds what.
//!
//! An atom's thread-value layouts map (thread, value) to an element of the atom's tile, counted column-major. All of them
//! are data: [`MMA_TABLE`](warpwright_arch::mma::MMA_TABLE) and [`COPY_TABLE`] list the instructions, and tests walk the
//! tables.

mod copy;
mod descriptor;
mod mma;
mod shared_tile;

pub use copy::{COPY_TABLE, CopyAtom, CopyRow, TmaBox};
pub use descriptor::SharedDescriptor;
pub use mma::{Metadata, MmaAtom};
pub use shared_tile::{Major, SharedSwizzle, SharedTile};
pub use warpwright_arch::mma::{Family, Operand, Types};

//! Tensors: memory or registers read through a layout.
//!
//! A [`Tensor`] is a pointer and a layout whose leaves may be device values; a [`Fragment`] is a
//! thread's registers and a layout. Tiling, partitioning and slicing act on the layout at build
//! time. The remaining coordinate becomes address arithmetic: constants go into the instruction's
//! immediate offset, and the device part is computed once.

mod accumulate;
mod address;
mod agreement;
mod block_scaled_multiply;
mod coordinates;
mod copy;
mod fragment;
mod index;
mod legal;
mod multiply;
mod staged;
mod tensor_core;
mod tensor_memory_copy;
mod tiled_mma;
mod tma_tile;
mod view;
mod warpgroup;
mod warpgroup_multiply;

pub use accumulate::Accumulate;
pub use block_scaled_multiply::{BlockScaledMma, gemm_block_scaled};
pub use coordinates::Coordinates;
pub use copy::{CopyAtom, ThreadCopy, TiledCopy};
pub use fragment::Fragment;
pub use multiply::{ThreadMma, gemm};
pub use staged::{MappedMatrix, StagedOperand, StoreBuffers, TileLoad};
pub use tensor_core::{BlockScales, TensorCoreLeft, TensorCoreMma, TensorCoreTypes};
pub use tensor_memory_copy::{SCALE_BYTES, TensorMemoryCopy};
pub use tiled_mma::{IntoMmaAtom, TiledMma};
pub use tma_tile::TmaTile;
pub use view::{Tensor, multiple_of};
pub use warpgroup::MatrixOperand;
pub use warpgroup_multiply::{
    LeftOperand, Sparse, commit_multiplications, fence_multiplications, issue_multiplications, multiply,
    wait_multiplications,
};

//! From operands to accumulators: the loop over k.

pub mod mma_sync;
pub mod mma_sync_promotion;
mod mma_sync_scales;
pub mod promotion;
pub mod tcgen05;
pub mod tma;
pub(crate) mod vector_scales;
pub mod wgmma;

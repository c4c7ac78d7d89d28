//! From operands to accumulators: the loop over k.

pub(crate) mod block_scaled;
pub mod blockwise;
pub mod mma_sync;
mod mma_sync_block_scaled;
pub mod mma_sync_blockwise;
pub mod tcgen05;
pub mod tma;
pub mod wgmma;

//! From operands to accumulators: the loop over k.

pub mod mma_sync;
pub mod promotion;
pub mod tcgen05;
pub mod tma;
pub(crate) mod vector_scales;
pub mod wgmma;

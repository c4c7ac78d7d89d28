//! Reduction: all elements of a buffer combined into one, in steps toward DRAM bandwidth.
//!
//! | File | What it teaches |
//! |---|---|
//! | [`interleaved`] | a tree in shared memory; most of each warp idles, and lanes conflict in banks |
//! | [`sequential`] | the same tree with the working threads side by side |
//! | [`reduce_block`](warpwright_kernels::collective::reduce_block) | the tree in registers, by warp shuffles |
//! | [`stepwise`] | threads that combine many elements before the tree begins |
//! | [`single_pass`](warpwright_kernels::reduce::single_pass) | the library's: 16 bytes a load, and one launch |

pub mod interleaved;
pub mod sequential;
pub mod stepwise;
mod workload;

pub(crate) use workload::ReduceLadder;

//! Scans of a section in shared memory, and the scan in three kernels that uses them. Each file is
//! an algorithm and its cost:
//!
//! | File | Combinations | Barriers | What it teaches |
//! |---|---|---|---|
//! | [`kogge_stone`] | n log2(n) | 2 log2(n) | few steps, much work |
//! | [`brent_kung`] | 2n | 2 log2(n) | a tree up and down; bank conflicts, and padding against them |
//! | [`blelloch`] | 2n | 2 log2(n) | the same tree, handing prefixes down: exclusive |
//! | [`warp`] | 6n | 2 | registers instead of shared memory, by the thread hierarchy |
//! | [`coarsened`] | 2n | 2 | runs of elements for each thread |
//!
//! [`segmented`] uses any of them in three kernels. The library's
//! [`single_pass`](warpwright_kernels::scan::single_pass) reads and writes every element
//! once.

pub mod blelloch;
pub mod brent_kung;
pub mod coarsened;
pub mod kogge_stone;
pub mod section;
pub mod segmented;
pub mod warp;
mod workload;

pub(crate) use workload::ScanLadder;

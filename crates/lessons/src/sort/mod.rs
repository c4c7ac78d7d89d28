//! Comparison sorts: [`bitonic`] and [`merge`]. The library's
//! [`radix`](warpwright_kernels::sort::radix) sorts by digits.

pub mod bitonic;
pub mod merge;
mod pairs;
mod workload;

pub(crate) use workload::SortLadder;

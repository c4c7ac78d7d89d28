//! Sorts that compare keys: [`bitonic`] and [`merge`]. The library's
//! [`radix`](warpwright_kernels::sort::radix) looks at their digits.

pub mod bitonic;
pub mod merge;
mod pairs;
mod workload;

pub(crate) use workload::SortLadder;

//! Sorts that compare keys: [`bitonic`] and [`merge`]. The library's [`radix`](warpwright_kernels::sort::radix) looks at their digits.

pub mod bitonic;
mod library;
pub mod merge;
mod pairs;

pub(crate) use library::Library;

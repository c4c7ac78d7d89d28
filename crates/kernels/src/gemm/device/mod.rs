//! The kernels. Imports the problem's floor and nothing above.

pub(crate) mod cluster_split;
pub mod epilogue;
pub(crate) mod grouped_kernel;
pub mod kernel;
pub mod mainloop;
pub(crate) mod mma_sync_kernel;
pub mod problems;
pub mod quantize;
pub(crate) mod reduction;
pub mod schedule;
pub(crate) mod scheduler;
pub mod staging;
pub(crate) mod store;
pub(crate) mod unpack;

//! The operations, the configuration and launch of radix sort, the reference and the workload.

mod operations;
pub mod radix;
pub mod reference;
pub(crate) mod workload;

//! What runs on the host: the heuristic and the operations.

mod heuristic;
mod operations;
pub(super) mod workload;

pub use operations::MatrixShape;

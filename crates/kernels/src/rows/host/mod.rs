//! What runs on the host: the heuristic and the operations.

mod heuristic;
mod operations;

pub use operations::{MAX_COLUMNS, MatrixShape, launch};

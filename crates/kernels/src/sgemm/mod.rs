//! SGEMM without tensor cores: C = alpha · A·B + beta · C in f32; A is (m, k), B is (k, n), C is
//! (m, n), all row-major.
//!
//! [`tma`](device::tma) is the kernel for GPUs with TMA,
//! [`double_buffered`](device::double_buffered) that for the others and for rows that TMA cannot
//! read. Both take any m, n and k, and [`plan`](host::plan) chooses. The steps that lead to them
//! are lessons: `warpwright_lessons::sgemm`.
//!
//! Every accumulator adds k products in order, fused, from k = 0 on (of each split with split-K),
//! so that its error is at most k u Σ|a b| with u = 2^-24.

pub mod device;
pub mod host;
mod problem;
pub mod tiles;

pub use host::plan::{Method, Tile};
pub use problem::{Matrices, Product, Scale};

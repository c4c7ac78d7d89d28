//! SGEMM without tensor cores: C = alpha · A·B + beta · C in f32; A is (m, k), B is (k, n), C is (m, n), all row-major.
//!
//! [`tma`] is the kernel of GPUs with TMA, [`double_buffered`] that of the others and of rows that TMA cannot read. The steps that
//! lead to them are lessons: `warpwright_lessons::sgemm`.
//!
//! Both kernels take any m, n and k. [`plan`] chooses what [`Operations::sgemm`](crate::operations::Operations::sgemm) runs. Every sum is
//! that of k products in order, fused, from k = 0 on (of each split, where k is split), so that its error is at most k u Σ|a b| with u = 2^-24.

pub mod combine;
pub mod copies;
pub mod double_buffered;
pub mod fragments;
mod operation;
pub mod plan;
pub mod product;
pub mod reference;
pub mod tiles;
pub mod tma;
pub mod workload;

pub use copies::Spread;
pub use operation::{Matrices, Method, Scale};
pub use product::Product;
pub(crate) use workload::SgemmWorkload;

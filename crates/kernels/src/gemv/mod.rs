//! Products of a matrix with a few vectors: y (rows, n) = x (rows, k) · Wᵀ with W (n, k), with what surrounds a product in
//! a decode step:
//!
//! ```text
//! norm          x is normalized first: every warp reads whole rows, and adds up their squares
//! activation    rows of W are gates and values in turns: y = silu(gate) · value
//! residual      y is added to what it holds
//! experts       each row of x has a matrix of its own
//! ```
//!
//! The time is that of reading W, which is read once for up to 8 rows.

mod kernel;
mod operations;
mod problem;

pub use problem::{Epilogue, GemvShape, InputNorm, MAX_ROWS, TURN, has_few_results};

//! SwiGLU, the gate of a feed-forward layer: y = silu(gate) · value, elementwise, where silu(x) =
//! x / (1 + e^-x).
//!
//! ```text
//! one matrix (rows, 2 columns) of a fused projection   | gates | values |
//! or two matrices (rows, columns)                      | gates |   | values |
//! ```

mod kernel;
mod operations;

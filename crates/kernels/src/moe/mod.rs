//! The routing of a mixture of experts: what surrounds the grouped products of its layers.
//!
//! ```text
//! route     logits (tokens, experts)    the k experts of each token, and their weights
//! permute   experts (tokens, k)         rows in the order of experts: offsets of each expert's rows,
//!                                       the token of each row, the row of each choice
//! gather    tokens (tokens, columns)    one row for each choice       crate::gather
//! products  of the rows of each expert  Gemm::along_m(offsets)        crate::gemm
//! combine   results (rows, columns)     the weighted sum of each token's rows
//! sum       both (tokens, columns)      with the gated shared expert, added to the residual
//! ```
//!
//! Everything that depends on the tokens stays on the device.

mod device;
mod host;
mod problem;

pub use problem::{ExpertRows, Routing, Scoring};

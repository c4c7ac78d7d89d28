//! Operations on tensors of the host: results and refusals.

mod operations;
mod refusals;

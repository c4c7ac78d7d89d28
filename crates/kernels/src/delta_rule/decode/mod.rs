//! One token, or a few, of each of many sequences, whose states are in slots: the causal convolution, the
//! gated delta rule, the norm of its output and the gate z, in one kernel, for any head.
//!
//! ```text
//! q, k, v = silu(conv(columns of the projection))
//! S ← e^g S;  δ = β (v - Sᵀ k);  S ← S + k δᵀ;  o = Sᵀ q      q, k normalized, q / sqrt(key_dim)
//! y = norm(o) · silu(z)
//! ```

mod device;
mod host;
mod problem;

pub use host::operations::Algorithm;
pub use problem::{DecodeBuffers, DecodeShape, Sequences};

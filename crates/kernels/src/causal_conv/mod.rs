//! A causal convolution of each channel along the tokens of a sequence, then silu: what comes
//! before the gated delta rule in Qwen 3.5.
//!
//! ```text
//! y[t] = silu(bias + w[0] x[t - 3] + w[1] x[t - 2] + w[2] x[t - 1] + w[3] x[t])      per channel, width 4
//! state (sequences, width - 1, channels): the last x of each sequence, the oldest first
//! ```
//!
//! A decode convolves in the kernel of the delta rule (`crate::delta_rule::decode`).

mod device;
mod operations;

pub use operations::{CausalConv, ConvSequences, RUN};

//! RMSNorm of each head, times a gate: what follows the gated delta rule in Qwen 3.5.
//!
//! ```text
//! y = x / sqrt(mean(x²) + epsilon) · g · silu(z)      the mean is over a head; g = w or 1 + w, one w for all heads
//! ```

mod kernel;
mod operations;

pub use operations::GatedNorm;

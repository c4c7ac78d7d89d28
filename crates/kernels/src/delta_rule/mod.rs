//! The gated delta rule, the linear attention of Qwen 3.5: a state per head and sequence, which every token
//! decays, corrects and reads.
//!
//! ```text
//! S ← e^g S                        decay, g ≤ 0
//! S ← S + k (β (v - Sᵀ k))ᵀ        what the key recalls is replaced by the value, in part β
//! o = Sᵀ q                         what the query reads
//! ```
//!
//! `decode` computes a token, or a few, of each sequence, with what surrounds the rule in a layer. The two
//! kernels of a prefill compute 64 tokens at a time, for heads of 128 elements: `device/chunk_factors.rs` in
//! parallel over the chunks, `device/chunk_recurrence.rs` from chunk to chunk.

pub mod decode;
pub mod device;
pub mod host;
mod problem;

pub use host::{DeltaRuleInputs, InitialState, Prefill};
pub use problem::{CHUNK, EPSILON, HEAD, Heads, Precision};

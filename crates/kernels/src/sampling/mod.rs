//! Sampling: a token for each row of logits.
//!
//! ```text
//! logits   penalties of earlier tokens, then temperature
//!          min-p, top-k, top-p: the tokens that are left are those of the highest logits
//! masses   floor(2^40 e^((logit - maximum) / temperature)), integers: no sum depends on an order
//! token    with top-k, the tokens that are left in descending order, else in their own, side by side,
//!          each as wide as its mass; a random number points at one
//!          without filters, it points at a segment of 256 tokens, and a second number at one of them
//! ```
//!
//! Everything that decides about a token is exact: the same seed and position give the same token
//! on every device, for every number of CTAs, and in [`mod@reference`].
//!
//! A row is shared by a cluster of CTAs, which read it once and keep it in shared memory. `device`
//! has the kernel.

mod device;
mod host;
mod problem;
pub mod reference;

pub(crate) use device::{key_of, logit_of};
pub use host::SamplingTuning;
pub use problem::{NO_TOKEN, PARAMETER_WORDS, SamplingBuffers, SamplingHistory, SamplingParameters};

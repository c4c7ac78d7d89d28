//! What happens to queries, keys and values between their projections and attention, in one pass:
//! RMSNorm of each head, rotary position embedding, and the write to the cache.
//!
//! ```text
//! q   RMSNorm of the head (or not) | rotation of the first columns by the position | output
//! k   the same                                                                      | cache of K
//! v   a copy                                                                        | cache of V
//! ```
//!
//! `kernel` reads and writes everything once, by vectors of 8 columns; `scalar` takes heads that are no whole vectors.

mod kernel;
mod operations;
mod problem;
mod scalar;

pub use problem::{HeadNorm, HeadRows, NO_SLOT, Pairing, RopeBuffers, RopeShape, rotations};

//! What happens to queries, keys and values between their projections and attention, in one pass:
//! RMSNorm of each head, rotary position embedding, and the write to the cache.
//!
//! ```text
//! q   RMSNorm of the head (or not) | rotation of the first columns by the position | output
//! k   the same                                                                      | cache of K
//! v   a copy                                                                        | cache of V
//! ```
//!
//! Everything is read once and written once.

mod kernel;
mod operations;
mod problem;

pub use problem::{HeadNorm, HeadRows, NO_SLOT, Pairing, RopeBuffers, RopeShape, rotations};

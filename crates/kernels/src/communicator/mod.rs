//! Collective operations of devices of one host, in one step: every rank writes its part to all ranks,
//! and reads what it received.
//!
//! ```text
//! workspace of a rank     a slot for each CTA, parity and rank; a flag for each CTA and rank
//!
//! CTA c of rank r, its round n:
//!   part of r      -> slot (c, n % 2, r) of every rank
//!   n, release.sys -> flag (c, r) of every rank
//!   waits until its own flags (c, 0), (c, 1), .. are n or more, acquire.sys
//!   all-reduce     y = (slot of rank 0 + slot of rank 1 + ..), in f32 and in this order, on every rank
//!   all-gather     y = [slot of rank 0 | slot of rank 1 | ..]
//! ```
//!
//! A message crosses NVLink once, by stores, which nobody waits for; loads of a peer's memory would
//! take a round trip. All ranks add the same numbers in the same order, so their results are equal bit
//! by bit.
//!
//! Rounds are counted for each CTA in device memory and never begin again, so a launch has the same
//! arguments each time, as a graph needs it. A rank overwrites a slot of round n in round n + 2. It
//! has then seen the flags of round n + 1, which a CTA of a peer sets after it has read its slots of
//! round n. CTAs wait only for those of their own number, so that not all need to be resident.

mod kernel;
mod operations;

pub use operations::Communicator;

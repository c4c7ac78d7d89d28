//! Speculative decoding on the device: tokens that slots sampled last, the tokens to verify, those that count, and where
//! drafts go.
//!
//! ```text
//! rows (sequences, each)     last | drafts ..
//! sampled after each row     t1   | t2 ..        t1 counts; t2 counts if t1 is the first draft, and so on
//! ```

mod drafts;
mod last_tokens;
mod operations;
mod problem;

pub use problem::{Accepted, LAST, NextRows, PADDING, Rows, Sequences, SlotTokens, Speculation};

//! Predicts how long a launch takes on a GPU, and what its warps wait for.
//!
//! [`LaunchTiming`] observes a launch of the emulator and records a trace of each warp: the operations
//! that it executes, the lines of memory that it accesses, and the moments of barriers that it waits for.
//! [`LaunchTiming::prediction`] then simulates the SMs, the caches and the memory of a GPU on these traces.
//! `docs/timing.md` says what is modelled, with the source of each figure.

mod gpu;
mod merging;
mod model;
mod predication;
mod prediction;
mod program;
mod recorder;
mod schedule;
mod source;
mod stall;
mod timeline;
mod trace;

pub use gpu::Assumption;
pub use prediction::{LaunchTiming, Prediction, TimedInstruction, transfer_microseconds};
pub use stall::Stall;
pub use timeline::{Slice, Track};

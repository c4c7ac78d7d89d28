//! Finds data races and misuse of barriers, asynchronous copies and memory in the events of a launch,
//! in the terms of the PTX memory model.
//!
//! [`LaunchChecks`] observes a launch. Its checkers hold that asynchronous work may access its bytes at
//! any moment until the program has observed its completion, whatever the schedule of the emulator.
//! `docs/checking.md` gives the rules.

mod agents;
mod checker;
mod clock;
mod explain;
mod finding;
mod firsts;
mod guess;
mod launch;
mod locations;
mod mbarrier;
mod memory;
mod misuse;
mod observer;
mod overlap;
mod race;
mod registers;
mod render;
mod report;
mod shadow;
mod tensor_memory;
mod trusting;
mod unwritten;
mod warp;

pub use explain::{codes, explain};
pub use finding::{Finding, FindingKind};
pub use observer::LaunchChecks;
pub use overlap::PreviousLaunch;
pub use render::{SourceFiles, render};
pub use warpwright_events::{FaultKind, Label, Source};

//! Counts what a launch does, by instruction: not wrong, but slow.
//!
//! [`LaunchCounting`] observes a launch and adds up the tables of its clusters. Executions are not
//! counted one by one: a path reports the stretch of code that it has run, and both ends of the
//! stretch are noted; a running sum over the code gives the executions of each instruction.
//! `docs/report.md` gives the rules and what they do not model.

mod banks;
mod barriers;
mod counter;
mod counters;
mod narrow;
mod sectors;

pub use counter::LaunchCounting;
pub use counters::{CopyCounts, Counters, Counts, InstructionCounts, LineCounts, SectorCounts, SharedCounts};
pub use warpwright_events::{Unit, Work};

//! Counts the work of a launch by instruction, to find what is slow.
//!
//! [`LaunchCounting`] observes a launch and adds up the tables of its clusters. Executions are not
//! counted one by one: a path reports the range of code that it has run, and both ends of the range
//! are noted; a running sum over the code gives the executions of each instruction.
//! `docs/report.md` gives the rules and their limits.

mod banks;
mod barriers;
mod counter;
mod counters;
mod narrow;
mod sectors;

pub use banks::{Passes, Sharing, passes};
pub use counter::LaunchCounting;
pub use counters::{CopyCounts, Counters, Counts, InstructionCounts, LineCounts, SectorCounts, SharedCounts};
pub use sectors::{interleaved, ranges};
pub use warpwright_events::{Unit, Work};

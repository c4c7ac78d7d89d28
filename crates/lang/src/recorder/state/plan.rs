//! Threads that take their parts in a plan.

use warpwright_ir::{Location, Register};

/// A thread takes its part in a plan.
pub(in crate::recorder) struct PlanIndex {
    /// The start of a sentence: `the MMA has`.
    pub(in crate::recorder) plan: &'static str,
    pub(in crate::recorder) threads: u32,
    pub(in crate::recorder) index: Register,
    /// The conditions around it, and whether each holds there.
    pub(in crate::recorder) conditions: Vec<(Register, bool)>,
    pub(in crate::recorder) location: Location,
}

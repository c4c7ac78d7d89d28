//! What an emulated device observes of launches, beside the three seams.

use warpwright_check::Finding;
use warpwright_count::Counters;
use warpwright_emulator::Limit;
use warpwright_time::{Assumption, Prediction};

/// What the checkers assume of the predecessor that a launch may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predecessor {
    /// It is the launch in front, if there is one.
    AsLaunched,
    /// Where there is none: a kernel that writes all of global memory.
    WritesEverything,
}

/// Receives what kernels print.
pub(crate) struct Printer(pub(crate) Box<dyn FnMut(&str) + Send>);

/// Checks, counts, times, limits, interrupts and prints. Each setting holds for all later launches.
pub(crate) trait Observation: Send + Sync {
    /// Turns on checking.
    fn check_launches(&self, predecessor: Predecessor);
    /// The remarks of the checkers since the previous call.
    fn take_remarks(&self) -> Vec<Finding>;
    /// Passes what kernels print to a function.
    fn print_to(&self, printer: Printer);
    /// Turns on counting.
    fn count_launches(&self);
    /// The counters of the launches since the previous call. Launches of one kernel with the same
    /// extents are added up.
    fn take_counters(&self) -> Vec<Counters>;
    /// Turns on the prediction of times, with the timelines of this many CTAs.
    fn time_launches(&self, traced_ctas: u32);
    /// The predictions of the launches since the previous call, in their order.
    /// Predictions assume changes of the GPU.
    fn assume(&self, assumptions: &[Assumption]);

    fn take_predictions(&self) -> Vec<Prediction>;
    /// Sets how much each launch may execute.
    fn limit_launches(&self, limit: Limit);
    /// Stops the launches that run.
    fn interrupt_launches(&self);
}

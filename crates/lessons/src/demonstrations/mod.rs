//! Small kernels that each demonstrate one property of the hardware.
//! `warpwright ptx KERNEL --annotate` prints what each line compiles to, and
//! `warpwright bench KERNEL` its cost.

mod bank_conflicts;
mod coalescing;
mod divergence;
mod hardware_demonstration;
mod mem_walkthrough;
mod occupancy;

pub use bank_conflicts::BankConflicts;
pub(crate) use bank_conflicts::BankConflictsWorkload;
pub use coalescing::Coalescing;
pub(crate) use coalescing::CoalescingWorkload;
pub use divergence::Divergence;
pub(crate) use divergence::DivergenceWorkload;
pub use hardware_demonstration::HardwareDemonstration;
pub(crate) use hardware_demonstration::HardwareDemonstrationWorkload;
pub use mem_walkthrough::MemWalkthrough;
pub(crate) use mem_walkthrough::MemWalkthroughWorkload;
pub use occupancy::Occupancy;
pub(crate) use occupancy::OccupancyWorkload;

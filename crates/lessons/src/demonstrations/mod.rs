//! Small kernels that each show one thing about the machine. `warpwright ptx KERNEL --annotate` prints what each line becomes;
//! `warpwright bench KERNEL` what it costs.

mod bank_conflicts;
mod coalescing;
mod divergence;
mod hardware_demonstration;
mod mem_walkthrough;
mod occupancy;

pub use bank_conflicts::BankConflicts;
pub(crate) use bank_conflicts::Library as BankConflictsLibrary;
pub use coalescing::Coalescing;
pub(crate) use coalescing::Library as CoalescingLibrary;
pub use divergence::Divergence;
pub(crate) use divergence::Library as DivergenceLibrary;
pub use hardware_demonstration::HardwareDemonstration;
pub(crate) use hardware_demonstration::Library as HardwareDemonstrationLibrary;
pub(crate) use mem_walkthrough::Library as MemWalkthroughLibrary;
pub use mem_walkthrough::MemWalkthrough;
pub(crate) use occupancy::Library as OccupancyLibrary;
pub use occupancy::Occupancy;

use warpwright_kernels::registry::{Element, Result, Verified, compare};

/// Every element exactly as expected.
fn exactly<T: Copy + Into<f64>>(found: &[T], expected: impl Fn(usize) -> f64) -> Result<Verified> {
    let elements = found.iter().enumerate().map(|(index, found)| Element {
        found: (*found).into(),
        expected: expected(index),
        tolerance: 0.0,
    });
    Ok(compare(elements, |index| vec![index as usize])?)
}

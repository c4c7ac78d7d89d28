//! Lessons and demonstrations: ladders that lead from the simplest kernel to the library's, one
//! step per file.

pub mod blackwell;
pub mod demonstrations;
pub mod error;
pub mod hopper;
mod library;
pub mod map2d;
pub mod matrix_add;
mod operands;
pub mod reduce;
mod rules;
pub mod scan;
pub mod sgemm;
pub mod sort;
pub mod transpose;
pub mod vector_add;

use warpwright_harness::{Entry, Refused};

/// The sources of the lessons, as they were compiled.
pub const SOURCES: warpwright::Sources = warpwright::Sources::new(warpwright::sources!());

/// Every lesson, in reading order.
pub const WORKLOADS: &[Entry] = &[
    Entry::of::<vector_add::VectorAddWorkload>(),
    Entry::of::<map2d::Map2dWorkload>(),
    Entry::of::<matrix_add::MatrixAddWorkload>(),
    Entry::of::<demonstrations::DivergenceWorkload>(),
    Entry::of::<demonstrations::CoalescingWorkload>(),
    Entry::of::<demonstrations::BankConflictsWorkload>(),
    Entry::of::<demonstrations::OccupancyWorkload>(),
    Entry::of::<demonstrations::MemWalkthroughWorkload>(),
    Entry::of::<demonstrations::HardwareDemonstrationWorkload>(),
    Entry::of::<transpose::TransposeLadder>(),
    Entry::of::<reduce::ReduceLadder>(),
    Entry::of::<scan::ScanLadder>(),
    Entry::of::<sort::SortLadder>(),
    Entry::of::<sgemm::SgemmLadder>(),
    Entry::of::<hopper::HopperLadder>(),
    Entry::of::<blackwell::BlackwellLadder>(),
    Entry::of::<blackwell::BlackwellNvfp4>(),
];

/// Elements of a matrix whose elements the kernel indexes with 32 bits.
///
/// # Errors
/// There are more.
pub(crate) fn elements(m: u32, n: u32) -> Result<usize, Refused> {
    m.checked_mul(n).map(|count| count as usize).ok_or_else(|| {
        Refused::new(format!(
            "{m} x {n} is more elements than this kernel indexes, {}: choose a smaller `--m` or `--n`",
            u32::MAX
        ))
    })
}

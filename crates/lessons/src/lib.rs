//! Lessons and demonstrations: ladders whose first step is the simplest kernel and whose last is the library's, one step a file.

pub mod demonstrations;
pub mod hopper;
pub mod map2d;
pub mod matrix_add;
mod product;
pub mod reduce;
pub mod scan;
pub mod sgemm;
pub mod sort;
pub mod transpose;
pub mod vector_add;

use warpwright_kernels::registry::LibraryKernel;

/// Every lesson, in the order in which a reader best meets them.
pub fn all() -> &'static [&'static dyn LibraryKernel] {
    &[
        &vector_add::Library,
        &map2d::Library,
        &matrix_add::Library,
        &demonstrations::DivergenceLibrary,
        &demonstrations::CoalescingLibrary,
        &demonstrations::BankConflictsLibrary,
        &demonstrations::OccupancyLibrary,
        &demonstrations::MemWalkthroughLibrary,
        &demonstrations::HardwareDemonstrationLibrary,
        &transpose::Library,
        &reduce::Library,
        &scan::Library,
        &sort::Library,
        &sgemm::Library,
        &hopper::Library,
    ]
}

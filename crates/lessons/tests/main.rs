//! The tests of the crate, in one program.

mod clean;
mod counters;
mod hopper;
mod lengths;
mod lessons;
mod refusals;
mod sgemm;
mod sort;
#[path = "../../kernels/tests/sort_cases.rs"]
mod sort_cases;
mod steps;
#[path = "../../kernels/tests/walk.rs"]
mod walk;

use warpwright_harness::Entry;

/// The lesson of that name.
fn named(name: &str) -> &'static Entry {
    let found = warpwright_lessons::WORKLOADS.iter().find(|kernel| kernel.name() == name);
    found.unwrap_or_else(|| panic!("there is no lesson {name}"))
}

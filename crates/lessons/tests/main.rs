//! The tests of the crate, in one program.

mod blackwell;
mod clean;
mod counters;
mod expected_refusals;
mod hopper;
mod lengths;
mod lessons;
mod refusals;
#[path = "../../kernels/tests/refused.rs"]
mod refused;
mod sgemm;
mod sort;
#[path = "../../kernels/tests/sort_cases.rs"]
mod sort_cases;
mod steps;
#[path = "../../kernels/tests/walk.rs"]
mod walk;

use warpwright_harness::Entry;
use warpwright_lessons::error::LessonError;

/// The lessons.
const SUITE: walk::Suite = walk::Suite {
    kernels: warpwright_lessons::WORKLOADS,
    refusals: expected_refusals::REFUSALS,
    is_refusal: |error| walk::is_library_refusal(error) || error.is::<LessonError>(),
};

/// The lesson of that name.
fn named(name: &str) -> &'static Entry {
    SUITE.named(name)
}

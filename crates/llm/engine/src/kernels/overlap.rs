//! Programmatic dependent launch: a kernel starts before its predecessor ends, and waits for it where
//! it reads what the predecessor wrote.

use warpwright::prelude::*;
use warpwright::runtime::Launch;
use warpwright_kernels::operations::Operations;

/// Whether the device has it.
pub(super) fn overlaps(operations: &Operations) -> bool {
    operations.device().properties().capability.compute_capability >= (9, 0)
}

/// Waits for the predecessor.
#[track_caller]
pub(super) fn wait(overlaps: bool) {
    if overlaps {
        launch::grid_dependency_wait();
    }
}

/// Lets the successor start.
#[track_caller]
pub(super) fn launch(overlaps: bool) {
    if overlaps {
        launch::grid_dependency_launch();
    }
}

/// A launch that overlaps its predecessor.
pub(super) fn shape(launch: Launch, overlaps: bool) -> Launch {
    if overlaps { launch.overlapping() } else { launch }
}

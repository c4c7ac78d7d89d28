//! Programmatic dependent launch: a kernel starts before its predecessor ends, and waits for it where
//! it reads what the predecessor wrote.
//!
//! Such reads are coherent: `ld.global.nc` is for data
//! that nothing writes while the kernel runs, and ptxas moves it to before the wait (ptxas 13.0,
//! sm_90a).

use warpwright::prelude::*;
use warpwright::runtime::Launch;

use crate::operations::Operations;
use crate::vector;

/// Whether the device has it.
pub fn overlaps(operations: &Operations) -> bool {
    operations.device().properties().capability.compute_capability >= (9, 0)
}

/// Waits for the predecessor, in a kernel that overlaps it.
#[track_caller]
pub fn wait(overlaps: bool) {
    if overlaps {
        launch::grid_dependency_wait();
    }
}

/// The access of what the predecessor may write, if it is read once.
pub fn read_once(overlaps: bool) -> Access {
    if overlaps { Access::new() } else { vector::read_once() }
}

/// Lets the successor start, in a kernel that overlaps its predecessor.
#[track_caller]
pub fn launch(overlaps: bool) {
    if overlaps {
        launch::grid_dependency_launch();
    }
}

/// A launch that overlaps its predecessor.
pub fn shape(launch: Launch, overlaps: bool) -> Launch {
    if overlaps { launch.overlapping() } else { launch }
}

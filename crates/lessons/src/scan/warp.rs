//! The hierarchical scan: each warp scans its elements in registers, and the first warp scans the
//! totals of the warps.
//!
//! ```text
//! warps       0: a ab abc ..      1: p pq pqr ..      2: ..        five shuffles, no barrier
//! first warp  scans the last lane of each                          in shared memory, one element a warp
//! warps       1: combine what the warps before have together
//! ```
//!
//! Two barriers, and no bank conflicts.

use warpwright::prelude::*;

use super::section::Section;
use warpwright_kernels::collective::scan_warp;
use warpwright_kernels::monoid::InPlace;

/// Scans a section of one element per thread.
#[device]
pub fn scan<T: Element, M: InPlace<T>>(monoid: &M, section: &Section<T>) {
    sync_threads();
    let mine = section.at(thread_idx().x);
    mine.store(scan_threads(monoid, mine.load(), section.threads));
    sync_threads();
}

/// One element per thread, each combined with those of all earlier threads.
#[device]
pub fn scan_threads<T: Element, M: InPlace<T>>(monoid: &M, element: Reg<T>, threads: u32) -> Reg<T> {
    let (thread, lane) = (thread_idx().x, lane_id());
    let (warp, warps) = (thread / 32, threads / 32);
    let scanned = scan_warp(monoid, element);
    let ends = shared_array::<T>(warps);
    if lane == 31 {
        ends.at(warp).store(scanned);
    }
    sync_threads();
    if warp == 0 {
        let mut end = monoid.identity();
        if lane < warps {
            end = ends.at(lane).load();
        }
        let scanned_ends = scan_warp(monoid, end);
        if lane < warps {
            ends.at(lane).store(scanned_ends);
        }
    }
    sync_threads();
    let mut before = monoid.identity();
    if warp > 0 {
        before = ends.at(warp - 1).load();
    }
    monoid.combine(before, scanned)
}

//! Reductions and scans of the states of a warp's or a CTA's threads, in the order of the threads.

use warpwright::prelude::*;

use crate::monoid::Monoid;

/// The states of a warp's lanes combined, lane 0's first; only lane 0 has the result.
///
/// In each step a lane combines its state with that of the lane d above. With d growing from 1,
/// each state covers a run of neighbors, so nothing but the order of the lanes is asked of the
/// operation:
///
/// ```text
/// d = 1     0+1   1+2   2+3   3+4 ..
/// d = 2     0..3  1..4  2..5  ..
/// d = 4     0..7  1..8  ..
/// ```
#[track_caller]
pub fn reduce_warp<T: Element, M: Monoid<T>>(monoid: &M, state: M::State) -> M::State {
    let mut combined = state;
    for distance in [1, 2, 4, 8, 16] {
        combined = monoid.combine(combined, shuffle_value_down(combined, distance));
    }
    combined
}

/// The states of a CTA's `threads` threads combined, in their order; only thread 0 has the result.
///
/// Every warp reduces its own by shuffles and leaves one state in shared memory; the first warp
/// reduces those.
#[device]
pub fn reduce_block<T: Element, M: Monoid<T>>(monoid: &M, state: M::State, threads: u32) -> M::State {
    let mine = reduce_warp(monoid, state);
    let warps = threads / 32;
    if warps == 1 {
        return mine;
    }
    let thread = thread_idx().x;
    let (warp, lane) = (thread / 32, thread % 32);
    let of_warps = ValueArray::shared(monoid.identity(), warps);
    if lane == 0 {
        of_warps.set(warp, mine);
    }
    sync_threads();
    let mut result = mine;
    if warp == 0 {
        let mut last = monoid.identity();
        if lane < warps {
            last = of_warps.get(lane);
        }
        result = reduce_warp(monoid, last);
    }
    result
}

/// The sum over each group of `lanes` neighboring lanes, a power of two; every lane has it.
#[track_caller]
pub fn sum_group(value: Reg<f32>, lanes: u32) -> Reg<f32> {
    let mut sum = value;
    let mut distance = lanes / 2;
    while distance > 0 {
        sum = sum + sum.shuffle_xor(distance);
        distance /= 2;
    }
    sum
}

/// Each lane's state combined with those of all lanes below it, by Kogge and Stone's steps in
/// registers:
///
/// ```text
/// distance 1    a  ab  bc  cd  ..
/// distance 2    a  ab  abc abcd ..      lane i takes what lane i - distance has, if there is one
/// ```
#[device]
pub fn scan_warp<T: Element, M: Monoid<T>>(monoid: &M, state: M::State) -> M::State {
    let lane = lane_id();
    let mut scanned = state;
    for distance in [1u32, 2, 4, 8, 16] {
        let below = shuffle_value_up(scanned, distance);
        scanned = select_value(lane >= distance, monoid.combine(below, scanned), scanned);
    }
    scanned
}

/// What [`scan_warp`] left in the lane below; the identity in lane 0.
#[device]
pub fn before_lane<T: Element, M: Monoid<T>>(monoid: &M, scanned: M::State) -> M::State {
    select_value(lane_id() == 0, monoid.identity(), shuffle_value_up(scanned, 1))
}

//! Scans of a warp's states.

use warpwright::prelude::*;

use crate::monoid::Monoid;

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

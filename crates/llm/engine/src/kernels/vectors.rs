//! Vectors of numbers, computed in f32.

use warpwright::prelude::*;
use warpwright_kernels::vector;

use crate::number::Number;

/// Loads `lanes` neighboring elements, aligned to their total size.
#[track_caller]
pub(super) fn load<T: Number>(from: Global<T>, lanes: u32) -> Vec<Reg<f32>> {
    if lanes * T::BYTES < 4 {
        return vec![from.load_with(vector::read_once()).convert()];
    }
    let words = lanes * T::BYTES / 4;
    vector::load_lanes(from.cast::<u32>(), words, vector::read_once())
        .into_iter()
        .flat_map(|word| T::widen(word))
        .collect()
}

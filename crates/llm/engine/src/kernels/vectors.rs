//! Vectors of numbers, computed in f32.
//!
//! The loads are coherent, also those of weights. `ld.global.nc` is for data that nothing writes while
//! the kernel runs: ptxas moves it across `griddepcontrol.wait`, from where the predecessor's results
//! are complete to where they are not. It also moves such loads of weights after the wait. (ptxas 13.0,
//! sm_90a.)

use warpwright::prelude::*;
use warpwright_kernels::vector;

use crate::number::Number;

/// Loads `lanes` neighboring elements, aligned to their total size.
#[track_caller]
pub(super) fn load<T: Number>(from: Global<T>, lanes: u32) -> Vec<Reg<f32>> {
    if lanes * T::BYTES < 4 {
        return vec![from.load().convert()];
    }
    let words = lanes * T::BYTES / 4;
    vector::load_lanes(from.cast::<u32>(), words, Access::new())
        .into_iter()
        .flat_map(|word| T::widen(word))
        .collect()
}

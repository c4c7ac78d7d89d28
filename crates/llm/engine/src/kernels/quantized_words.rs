//! Words of quantized weights, as kernels read them.

use warpwright::lang::element::e4m3;
use warpwright::lang::index::Index;
use warpwright::prelude::*;

use crate::weights::Format;

impl Format {
    /// Weights of a word of 32 bits.
    pub(super) fn per_word(self) -> u32 {
        match self {
            Format::Fp8 => 4,
            Format::Int4 => 8,
        }
    }

    /// The zero point of a group; fp8 has none.
    #[track_caller]
    pub(super) fn zero_point(self, zero_points: Global<u8>, group: impl Index) -> Option<Reg<f32>> {
        match self {
            Format::Fp8 => None,
            Format::Int4 => Some(zero_points.at(group).load().convert::<u32>().convert::<f32>()),
        }
    }

    /// The weights of a word less their zero point, without their scale.
    #[track_caller]
    pub(super) fn numbers(self, word: Reg<u32>, zero: Option<Reg<f32>>) -> Vec<Reg<f32>> {
        let bits = 32 / self.per_word();
        let stored = (0..self.per_word()).map(|at| (word >> (bits * at)) & ((1u32 << bits) - 1));
        let number = |stored: Reg<u32>| match self {
            Format::Fp8 => stored.convert::<u8>().bit_cast::<e4m3>().convert::<f32>(),
            Format::Int4 => stored.convert::<f32>(),
        };
        stored.map(number).map(|number| zero.map_or(number, |zero| number - zero)).collect()
    }
}

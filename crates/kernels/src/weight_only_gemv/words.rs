//! Words of quantized weights as numbers, for kernels without tensor cores.

use warpwright::lang::index::Index;
use warpwright::prelude::*;

use super::problem::WeightFormat;

impl WeightFormat {
    /// The zero point of a group, if the weights have any.
    #[track_caller]
    pub(super) fn zero_of_group(
        self,
        zero_points: Option<Global<u8>>,
        group: impl Index,
    ) -> Option<Reg<f32>> {
        let load = |zero_points: Global<u8>| zero_points.at(group).load();
        match self {
            WeightFormat::E4m3 => None,
            WeightFormat::Int4 => Some(
                zero_points.map_or(constant(8f32), |zeros| load(zeros).convert::<u32>().convert::<f32>()),
            ),
            WeightFormat::Int8 => zero_points.map(|zeros| load(zeros).bit_cast::<i8>().convert::<f32>()),
        }
    }

    /// The weights of a word less their zero point, without their scale.
    #[track_caller]
    pub(super) fn numbers(self, word: Reg<u32>, zero: Option<Reg<f32>>) -> Vec<Reg<f32>> {
        let bits = 32 / self.per_word();
        let stored = (0..self.per_word()).map(|at| (word >> (bits * at)) & ((1u32 << bits) - 1));
        let number = |stored: Reg<u32>| match self {
            WeightFormat::Int4 => stored.convert::<f32>(),
            WeightFormat::Int8 => stored.convert::<u8>().bit_cast::<i8>().convert::<f32>(),
            WeightFormat::E4m3 => stored.convert::<u8>().bit_cast::<e4m3>().convert::<f32>(),
        };
        stored.map(number).map(|number| zero.map_or(number, |zero| number - zero)).collect()
    }
}

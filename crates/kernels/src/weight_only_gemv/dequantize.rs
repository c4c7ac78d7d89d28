//! From stored weights to pairs of f16, exactly, and the order of a vector's elements that matches.
//!
//! ```text
//! int4    0x6400 | q is the f16 1024 + q, and 0x6400 | 16 q is 1024 + 16 q
//!                                                     pairs (0, 4) (1, 5) (2, 6) (3, 7) of a word
//! int8    0x6400 | q + 128 is the f16 1152 + q        pairs (0, 1) (2, 3)
//! e4m3    its bits, shifted, are an f16 times 2^-8    pairs (0, 2) (1, 3)
//! ```

use warpwright::prelude::*;

use super::problem::WeightFormat;

/// The table of `lop3` of (a & b) | c: written as two operations, ptxas keeps two where both constants
/// are immediates.
const AND_OR: u8 = 0xea;

/// A byte of `low` below one of `high`, twice. Two bytes are joined at a time: instructions of f16x2
/// take one half of an operand for both.
#[track_caller]
fn doubled(low: Reg<u32>, high: u32, byte: u32) -> Reg<u32> {
    let selector = if byte < 2 { 0x4140u32 } else { 0x4342 };
    let halves = low.prmt(high, selector).bit_cast::<f16x2>().unpack();
    let half = halves[byte as usize % 2];
    Reg::<f16x2>::pack(half, half).bit_cast()
}

/// What is subtracted from the weights of a group, as a format needs it: pairs of f16.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct ZeroPoint {
    /// 1024 + z of int4, 1152 + z of int8.
    offset: Reg<u32>,
    /// -64 - z of int4.
    sixteenth: Reg<u32>,
}

impl WeightFormat {
    /// The zero point that is a byte of a word, or that of a format without.
    #[track_caller]
    pub(super) fn zero_point(self, stored: Option<(Reg<u32>, u32)>) -> ZeroPoint {
        let (offset, sixteenth) = match (self, stored) {
            (WeightFormat::Int4, Some((word, byte))) => {
                (doubled(word, 0x6464_6464, byte), doubled(word << 4u32, 0xd4d4_d4d4, byte))
            }
            (WeightFormat::Int4, None) => (constant(0x6408_6408u32), constant(0xd480_d480u32)),
            (WeightFormat::Int8, Some((word, byte))) => {
                let word = word ^ 0x8080_8080u32;
                (word.prmt(0x6464_6464u32, 0x4040u32 + byte * 0x0101), constant(0u32))
            }
            (WeightFormat::Int8, None) => (constant(0x6480_6480u32), constant(0u32)),
            (WeightFormat::E4m3, _) => (constant(0u32), constant(0u32)),
        };
        ZeroPoint { offset, sixteenth }
    }

    /// The weights of a word, less the zero point: pairs of f16, times 2^-[`Self::scaled_down`].
    #[track_caller]
    pub(super) fn pairs(self, word: Reg<u32>, zero: ZeroPoint) -> Vec<Reg<u32>> {
        let less = |pair: Reg<u32>| pair.bit_cast::<f16x2>() - zero.offset.bit_cast::<f16x2>();
        let pairs = match self {
            WeightFormat::Int4 => [word, word >> 8u32]
                .into_iter()
                .flat_map(|word| {
                    let nibbles = |mask: u32| word.lop3(mask, 0x6400_6400u32, AND_OR);
                    let (low, high) = (nibbles(0x000f_000f), nibbles(0x00f0_00f0).bit_cast::<f16x2>());
                    let sixteenth = constant(0x2c00_2c00u32).bit_cast::<f16x2>();
                    [less(low), high.mul_add(sixteenth, zero.sixteenth.bit_cast::<f16x2>())]
                })
                .collect(),
            WeightFormat::Int8 => {
                let word = word ^ 0x8080_8080u32;
                // Each byte below a byte 0x64.
                [0x4140u32, 0x4342].map(|selector| less(word.prmt(0x6464_6464u32, selector))).to_vec()
            }
            WeightFormat::E4m3 => [(word << 7u32, word << 8u32), (word >> 1u32, word)]
                .map(|(magnitudes, signs)| {
                    let magnitudes = magnitudes & 0x3f80_3f80u32;
                    signs.lop3(0x8000_8000u32, magnitudes, AND_OR).bit_cast::<f16x2>()
                })
                .to_vec(),
        };
        pairs.into_iter().map(|pair| pair.bit_cast()).collect()
    }

    /// The power of two by which [`Self::pairs`] are too small: the exponents of f16 are biased by
    /// 15, those of e4m3 by 7.
    pub(super) fn scaled_down(self) -> u32 {
        if self == WeightFormat::E4m3 { 8 } else { 0 }
    }

    /// The order in which eight consecutive elements of a vector meet the pairs of their weights.
    pub(super) fn order(self) -> [usize; 8] {
        match self {
            WeightFormat::Int4 => [0, 4, 1, 5, 2, 6, 3, 7],
            WeightFormat::Int8 => [0, 1, 2, 3, 4, 5, 6, 7],
            WeightFormat::E4m3 => [0, 2, 1, 3, 4, 6, 5, 7],
        }
    }
}

//! From stored weights to pairs of bf16, exactly, and the elements of x in the order of the pairs.
//!
//! ```text
//! int4    0x4300 | q is the bf16 128 + q              pairs (0, 4) (1, 5) (2, 6) (3, 7) of a word
//! int8    0x4b0000 and q + 128 is the f32 2^23 + ..   pairs (0, 1) (2, 3)
//! e4m3    its bits, shifted, are a bf16 times 2^-120  pairs (0, 2) (1, 3)
//! ```

use warpwright::prelude::*;

use super::problem::WeightFormat;

/// What is subtracted from the weights of a group, as a format needs it.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct ZeroPoint(Reg<u32>);

impl WeightFormat {
    /// The zero point that is stored as `byte`, or that of a format without.
    #[track_caller]
    pub(super) fn zero_point(self, byte: Option<Reg<u32>>) -> ZeroPoint {
        ZeroPoint(match self {
            // Twice the bf16 128 + z.
            WeightFormat::Int4 => match byte {
                Some(byte) => byte * 0x0001_0001u32 + 0x4300_4300u32,
                None => constant(0x4308_4308u32),
            },
            // The f32 2^23 + 128 + z, of a signed byte.
            WeightFormat::Int8 => match byte {
                Some(byte) => (byte ^ 0x80u32) + 0x4b00_0000u32,
                None => constant(0x4b00_0080u32),
            },
            WeightFormat::E4m3 => constant(0u32),
        })
    }

    /// The weights of a word, less the zero point: pairs of bf16.
    #[track_caller]
    pub(super) fn pairs(self, word: Reg<u32>, zero: ZeroPoint) -> Vec<Reg<u32>> {
        match self {
            WeightFormat::Int4 => (0..4u32)
                .map(|index| {
                    let pair = ((word >> (4 * index)) & 0x000f_000fu32) | 0x4300_4300u32;
                    let difference = pair.bit_cast::<bf16x2>() - zero.0.bit_cast::<bf16x2>();
                    difference.bit_cast::<u32>()
                })
                .collect(),
            WeightFormat::Int8 => {
                let (word, zero) = (word ^ 0x8080_8080u32, zero.0.bit_cast::<f32>());
                // Byte i of the word below the bytes 0x4b0000.
                let value = |index: u32| word.prmt(0x4b00_0000u32, 0x7540 + index).bit_cast::<f32>() - zero;
                [0, 2].map(|index| value(index).pack_bf16x2(value(index + 1)).bit_cast::<u32>()).to_vec()
            }
            WeightFormat::E4m3 => [word << 8u32, word]
                .map(|bytes| {
                    let bits = ((bytes & 0x7f00_7f00u32) >> 4u32) | (bytes & 0x8000_8000u32);
                    // The exponents of bf16 are biased by 127, those of e4m3 by 7.
                    let scale = constant(0x7b80_7b80u32).bit_cast::<bf16x2>();
                    (bits.bit_cast::<bf16x2>() * scale).bit_cast::<u32>()
                })
                .to_vec(),
        }
    }

    /// Consecutive elements of x, in words of two, in the order of the pairs.
    #[track_caller]
    pub(super) fn in_order(self, x: &[Reg<u32>]) -> Vec<Reg<u32>> {
        let pair = |low: usize, high: usize| {
            // The lower halves of two words, then the upper ones.
            [0x5410u32, 0x7632].map(|selector| x[low].prmt(x[high], selector))
        };
        match self {
            WeightFormat::Int4 => [pair(0, 2), pair(1, 3)].concat(),
            WeightFormat::Int8 => x.to_vec(),
            WeightFormat::E4m3 => pair(0, 1).to_vec(),
        }
    }
}

//! Weights in fewer bits, made on the host.
//!
//! ```text
//! fp8     e4m3 with a scale for each 128 x 128: w = scale q
//! int4    0 to 15 with a scale and a zero point for each 32 of a row: w = scale (q - zero)
//! ```
//!
//! Scales are numbers of bf16, rounded up, so that no weight exceeds the range.

use half::bf16;
use rayon::prelude::*;

use crate::data_type::DataType;

/// How weights are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    Fp8,
    Int4,
}

/// The extents of a block of fp8.
pub(crate) const BLOCK: usize = 128;
/// Weights of a row that share a scale of int4.
const INT4_GROUP: usize = 32;
/// The largest e4m3.
const LARGEST: f32 = 448.0;

/// A quantized matrix (n, k).
#[derive(Default)]
pub(crate) struct QuantizedNumbers {
    pub(crate) weights: Vec<u8>,
    /// (n, k / group).
    pub(crate) scales: Vec<bf16>,
    /// (n, k / group); none of fp8.
    pub(crate) zero_points: Vec<u8>,
    /// (n / 128, k / 128), rounded up: the scales of blocks; none of int4.
    pub(crate) blocks: Vec<f32>,
}

impl Format {
    /// How weights of the type are quantized.
    pub(crate) fn of(data_type: DataType) -> Option<Self> {
        match data_type {
            DataType::Fp8 => Some(Self::Fp8),
            DataType::Int4 => Some(Self::Int4),
            DataType::F32 | DataType::Bf16 => None,
        }
    }

    /// Weights of a row that share a scale, if rows of `k` weights have groups.
    pub(crate) fn group(self, k: usize) -> Option<usize> {
        let groups: &[usize] = if self == Self::Fp8 { &[BLOCK, 64, 32] } else { &[INT4_GROUP] };
        groups.iter().copied().find(|group| k.is_multiple_of(*group))
    }

    /// Quantizes rows of `k` weights, in panels of 128 rows that `panel` gives.
    pub(crate) fn quantize(
        self,
        (n, k): (usize, usize),
        panel: impl Fn(std::ops::Range<usize>) -> Vec<f32> + Sync,
    ) -> QuantizedNumbers {
        let starts: Vec<usize> = (0..n).step_by(BLOCK).collect();
        let group = self.group(k).unwrap_or(k);
        let of_panel = |start: &usize| {
            let rows = panel(*start..n.min(start + BLOCK));
            match self {
                Self::Fp8 => fp8(&rows, k, group),
                Self::Int4 => int4(&rows, group),
            }
        };
        let panels: Vec<QuantizedNumbers> = starts.par_iter().map(of_panel).collect();
        let mut all = QuantizedNumbers::default();
        for panel in panels {
            all.weights.extend(panel.weights);
            all.scales.extend(panel.scales);
            all.zero_points.extend(panel.zero_points);
            all.blocks.extend(panel.blocks);
        }
        all
    }
}

/// The least number of bf16 that is not less; 1 for 0.
fn scale_of(value: f32) -> f32 {
    let bits = value.to_bits();
    let up = f32::from_bits(bits.wrapping_add(0xffff) & 0xffff_0000);
    if value > 0.0 && up.is_finite() { up } else { 1.0 }
}

/// Rows of one panel.
fn fp8(rows: &[f32], k: usize, group: usize) -> QuantizedNumbers {
    let largest = |block: usize| {
        let columns = block * BLOCK..k.min((block + 1) * BLOCK);
        let of_row = |row: &[f32]| row[columns.clone()].iter().fold(0f32, |most, w| most.max(w.abs()));
        rows.chunks(k).map(of_row).fold(0f32, f32::max)
    };
    let blocks: Vec<f32> = (0..k.div_ceil(BLOCK)).map(|block| scale_of(largest(block) / LARGEST)).collect();
    let mut weights = Vec::with_capacity(rows.len());
    for row in rows.chunks(k) {
        for (of_block, scale) in row.chunks(BLOCK).zip(&blocks) {
            weights.extend(of_block.iter().map(|w| e4m3_bits(w / scale)));
        }
    }
    let scale = |at: usize| bf16::from_f32(blocks[at * group % k / BLOCK]);
    QuantizedNumbers {
        weights,
        scales: (0..rows.len() / group).map(scale).collect(),
        zero_points: vec![],
        blocks,
    }
}

/// The nearest e4m3 of a number that is at most the largest, ties to even; no branches, so that the compiler makes
/// vectors of it.
fn e4m3_bits(x: f32) -> u8 {
    /// The least normal e4m3, 2^-6, as an f32.
    const LEAST_NORMAL: u32 = 0x3c80_0000;
    /// Its last place is that of subnormal e4m3, 2^-9.
    const OF_SUBNORMALS: f32 = 16384.0;
    let (bits, sign) = (x.to_bits() & 0x7fff_ffff, x.to_bits() >> 24 & 0x80);
    // 20 of 23 fraction bits go, and 120 of the exponent's bias.
    let normal = (bits.wrapping_add(0x7_ffff + (bits >> 20 & 1)) >> 20).wrapping_sub(120 << 3);
    let subnormal = (x.abs() + OF_SUBNORMALS).to_bits() - OF_SUBNORMALS.to_bits();
    (sign | if bits < LEAST_NORMAL { subnormal } else { normal }) as u8
}

/// Rows of one panel. Zero is a number of each group.
fn int4(rows: &[f32], group: usize) -> QuantizedNumbers {
    let mut numbers = QuantizedNumbers::default();
    for group in rows.chunks(group) {
        let least = group.iter().fold(0f32, |least, w| least.min(*w));
        let most = group.iter().fold(0f32, |most, w| most.max(*w));
        let scale = scale_of((most - least) / 15.0);
        let zero = (-least / scale).round().min(15.0);
        let nibble = |w: f32| ((w / scale).round() + zero).clamp(0.0, 15.0) as u8;
        numbers.weights.extend(group.chunks(2).map(|pair| nibble(pair[0]) | nibble(pair[1]) << 4));
        numbers.scales.push(bf16::from_f32(scale));
        numbers.zero_points.push(zero as u8);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use warpwright::lang::element::e4m3;

    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest_e4m3() {
        let all = (0..=LARGEST.to_bits()).step_by(4099);
        let near = (0..=0x7eu8).flat_map(|bits| {
            let (a, b) = (e4m3::from_bits(bits).to_f32(), e4m3::from_bits(bits.saturating_sub(1)).to_f32());
            [a, b, (a + b) / 2.0]
                .map(f32::to_bits)
                .into_iter()
                .flat_map(|bits| [bits.saturating_sub(1), bits])
        });
        for bits in all.chain(near) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                assert_eq!(e4m3_bits(x), e4m3::from_f32(x).to_bits(), "{x}");
            }
        }
    }
}

//! The kernels: a warp quantizes 128 elements of a row.

use warpwright::lang::element::e4m3;
use warpwright::prelude::*;

use crate::collective::sum_group;
use crate::overlap;
use crate::rows::{Gain, RowElement};
use crate::vector;

/// Elements of a lane: a warp quantizes 128 of a row.
pub(super) const LANES: u32 = 4;
/// The largest e4m3.
const LARGEST: f32 = 448.0;

/// Where a warp writes what it quantizes.
#[derive(Clone, Copy, DeviceValue)]
struct Destination {
    values: Global<e4m3>,
    scales: Global<f32>,
    padded: Reg<u32>,
    columns: u32,
}

#[device]
impl Destination {
    /// The first column of this lane in a block of a row.
    fn column(&self, block: Reg<u32>) -> Reg<u32> {
        block * (32 * LANES) + lane_id() * LANES
    }

    /// Quantizes a block of a row: the numbers of a lane, zeros past the row's end.
    fn store(&self, (row, block): (Reg<u32>, Reg<u32>), numbers: &[Reg<f32>]) {
        let column = self.column(block);
        let of_lane = numbers.iter().fold(constant(0f32), |most, number| most.max(number.abs()));
        let largest = warp::reduce_max(of_lane);
        let scale = largest.gt(0f32).select(largest * (1.0 / LARGEST), 1f32);
        if column < self.columns {
            let inverse = constant(1f32) / scale;
            let halves: Vec<Reg<u32>> = numbers
                .chunks(2)
                .map(|pair| {
                    (pair[0] * inverse).pack_e4m3x2(pair[1] * inverse).bit_cast::<u16>().convert::<u32>()
                })
                .collect();
            let to = self.values.at(row.mul_wide(self.columns)).at(column);
            to.cast::<u32>().store(halves[0] | (halves[1] << 16u32));
        }
        if lane_id() == 0 && block * (32 * LANES) < self.columns {
            self.scales.at(block.mul_wide(self.padded)).at(row).store(scale);
        }
    }
}

/// This lane's numbers from `from` on, or zeros.
#[track_caller]
fn numbers(from: Global<bf16>, is_inside: Reg<bool>) -> Vec<Reg<f32>> {
    vector::load_widened(from, LANES).into_iter().map(|number| is_inside.select(number, 0f32)).collect()
}

/// silu(gate) · value.
#[track_caller]
fn swiglu(gates: &[Reg<f32>], values: &[Reg<f32>]) -> Vec<Reg<f32>> {
    gates.iter().zip(values).map(|(gate, value)| gate.silu() * *value).collect()
}

/// Rows of bf16, or SwiGLU of rows of gates and as many values: a warp for each 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuantizeRows {
    pub(super) columns: u32,
    /// Elements from row to row.
    pub(super) stride: u32,
    pub(super) is_swiglu: bool,
    pub(super) overlaps: bool,
}

/// Warps of a CTA.
pub(super) const WARPS: u32 = 4;

impl QuantizeRows {
    #[kernel]
    pub(super) fn run(
        &self,
        x: &Global<bf16>,
        values: &mut Global<e4m3>,
        scales: &mut Global<f32>,
        rows: u32,
        padded: u32,
    ) {
        launch::threads(32 * WARPS);
        overlap::launch(self.overlaps);
        overlap::wait(self.overlaps);
        let row = block_idx().x * WARPS + thread_idx().x / 32;
        let block = block_idx().y;
        let to = Destination { values: *values, scales: *scales, padded, columns: self.columns };
        let column = to.column(block);
        if row < rows {
            let is_inside = column.lt(self.columns);
            let from = x.at(row.mul_wide(self.stride)).at(is_inside.select(column, 0u32));
            let quantized = match self.is_swiglu {
                false => numbers(from, is_inside),
                true => swiglu(&numbers(from, is_inside), &numbers(from.at(self.columns), is_inside)),
            };
            to.store((row, block), &quantized);
        }
    }
}

/// RMSNorm of rows of bf16: a CTA for each row, whose warps have every eighth 128 of it in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuantizeNormalized {
    pub(super) columns: u32,
    pub(super) gain: Gain,
    /// Whether the normalized rows are also stored as they are.
    pub(super) is_kept: bool,
    pub(super) overlaps: bool,
}

/// Warps of a row.
const ROW_WARPS: u32 = 8;

impl QuantizeNormalized {
    #[kernel]
    pub(super) fn run(
        &self,
        x: &Global<bf16>,
        gains: &Global<bf16>,
        values: &mut Global<e4m3>,
        scales: &mut Global<f32>,
        kept: &mut Global<bf16>,
        padded: u32,
        epsilon: f32,
    ) {
        launch::threads(32 * ROW_WARPS);
        overlap::launch(self.overlaps);
        let (row, warp) = (block_idx().x, thread_idx().x / 32);
        let to = Destination { values: *values, scales: *scales, padded, columns: self.columns };
        let blocks: Vec<Reg<u32>> =
            (0..self.columns.div_ceil(32 * LANES * ROW_WARPS)).map(|step| warp + step * ROW_WARPS).collect();
        let part = |vector: Global<bf16>, block: Reg<u32>| {
            let column = to.column(block);
            let is_inside = column.lt(self.columns);
            numbers(vector.at(is_inside.select(column, 0u32)), is_inside)
        };
        // Gains are weights, which no kernel writes.
        let gains: Vec<_> = blocks.iter().map(|block| part(*gains, *block)).collect();
        overlap::wait(self.overlaps);
        let of_row = x.at(row.mul_wide(self.columns));
        let parts: Vec<_> = blocks.iter().map(|block| part(of_row, *block)).collect();
        let squares = parts.iter().flatten().fold(constant(0f32), |sum, x| x.mul_add(*x, sum));
        let of_warps = shared_array::<f32>(ROW_WARPS);
        let of_warp = sum_group(squares, 32);
        if lane_id() == 0 {
            of_warps.at(warp).store(of_warp);
        }
        sync_threads();
        let squares = (1..ROW_WARPS).fold(of_warps.load(), |sum, warp| sum + of_warps.at(warp).load());
        let root = (squares * (1.0 / self.columns as f32) + epsilon).rsqrt_approx();
        for (block, (part, gains)) in blocks.iter().zip(parts.into_iter().zip(gains)) {
            let normalized: Vec<Reg<f32>> =
                part.into_iter().zip(gains).map(|(x, gain)| self.gain.times(x * root, gain)).collect();
            to.store((row, *block), &normalized);
            let column = to.column(*block);
            if self.is_kept {
                if column < self.columns {
                    let pairs: Vec<Reg<u32>> =
                        normalized.chunks(2).map(|values| bf16::narrow(values)).collect();
                    let kept = kept.at(row.mul_wide(self.columns)).at(column).cast::<u32>();
                    vector::store_lanes(kept, &pairs, Access::new());
                }
            }
        }
    }
}

//! To and from fewer bits on the device.

use warpwright::lang::element::e4m3;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::collective::sum_group;
use warpwright_kernels::gemm::problem::scales::Granularity;
use warpwright_kernels::operations::{Operations, Result, expect_length};
use warpwright_kernels::overlap::{self, overlaps};
use warpwright_kernels::rows::{Gain, RowElement};
use warpwright_kernels::vector::{self, load_widened as load};

use super::product::InputNorm;
use crate::weights::Format;

/// Rows of e4m3 with a scale for each 128 of a row, as the GEMM takes them.
pub(crate) struct QuantizedRows<'l> {
    pub(crate) values: &'l mut Buffer<e4m3>,
    /// (blocks of k, padded rows).
    pub(crate) scales: &'l mut Buffer<f32>,
}

impl QuantizedRows<'_> {
    /// Refuses buffers of other lengths than those of (rows, columns). Returns the padded rows.
    fn check(&self, (rows, columns): (u32, u32)) -> Result<u32> {
        let (blocks, padded) = Granularity::Row.extents((rows, columns));
        expect_length("quantized rows", rows as usize * columns as usize, self.values.len())?;
        expect_length("the scales of rows", blocks as usize * padded as usize, self.scales.len())?;
        Ok(padded)
    }
}

/// Elements of a lane: a warp quantizes 128 of a row.
const LANES: u32 = 4;
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
    load(from, LANES).into_iter().map(|number| is_inside.select(number, 0f32)).collect()
}

/// silu(gate) · value.
#[track_caller]
fn swiglu(gates: &[Reg<f32>], values: &[Reg<f32>]) -> Vec<Reg<f32>> {
    gates.iter().zip(values).map(|(gate, value)| gate.silu() * *value).collect()
}

/// Rows of bf16, or SwiGLU of rows of gates and as many values: a warp for each 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuantizeRows {
    columns: u32,
    /// Elements from row to row.
    stride: u32,
    is_swiglu: bool,
    overlaps: bool,
}

/// Warps of a CTA.
const WARPS: u32 = 4;

impl QuantizeRows {
    #[kernel]
    fn run(
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

    /// The kernel for rows of that many columns.
    pub(crate) fn new(operations: &Operations, columns: u32) -> Self {
        Self { columns, stride: columns, is_swiglu: false, overlaps: overlaps(operations) }
    }

    /// The kernel for SwiGLU of rows of `stride` elements, that many gates and as many values first.
    pub(crate) fn of_swiglu(operations: &Operations, columns: u32, stride: u32) -> Self {
        Self { stride, is_swiglu: true, ..Self::new(operations, columns) }
    }

    /// Quantizes all rows.
    pub(crate) fn launch(
        self,
        (operations, stream): (&Operations, &Stream),
        x: &Buffer<bf16>,
        to: QuantizedRows<'_>,
    ) -> Result<()> {
        let rows = (x.len() / self.stride as usize) as u32;
        let padded = to.check((rows, self.columns))?;
        let kernel = operations.kernel(self, Self::run)?;
        let grid = (rows.div_ceil(WARPS), self.columns.div_ceil(32 * LANES));
        let shape = overlap::shape(kernel.shape(grid), self.overlaps);
        kernel.launch(stream, shape, (x, to.values, to.scales, rows, padded))?;
        Ok(())
    }
}

/// RMSNorm of rows of bf16: a CTA for each row, whose warps have every eighth 128 of it in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuantizeNormalized {
    columns: u32,
    gain: Gain,
    /// Whether the normalized rows are also stored as they are.
    is_kept: bool,
    overlaps: bool,
}

/// Warps of a row.
const ROW_WARPS: u32 = 8;

impl QuantizeNormalized {
    #[kernel]
    fn run(
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
                    let pairs: Vec<Reg<u32>> = normalized.chunks(2).map(bf16::narrow).collect();
                    let kept = kept.at(row.mul_wide(self.columns)).at(column).cast::<u32>();
                    vector::store_lanes(kept, &pairs, Access::new());
                }
            }
        }
    }

    /// Normalizes and quantizes all rows of `x`; `kept` has the normalized rows, or nothing if it is
    /// shorter.
    pub(crate) fn launch(
        (operations, stream): (&Operations, &Stream),
        x: &Buffer<bf16>,
        InputNorm { gains, gain, epsilon }: InputNorm<'_, bf16>,
        QuantizedRows { values, scales }: QuantizedRows<'_>,
        kept: &mut Buffer<bf16>,
    ) -> Result<()> {
        let (columns, rows) = (gains.len() as u32, (x.len() / gains.len()) as u32);
        let padded = QuantizedRows { values, scales }.check((rows, columns))?;
        let (is_kept, overlaps) = (kept.len() == x.len(), overlaps(operations));
        let kernel = operations.kernel(Self { columns, gain, is_kept, overlaps }, Self::run)?;
        let shape = overlap::shape(kernel.shape(rows), overlaps);
        kernel.launch(stream, shape, (x, gains, values, scales, kept, padded, epsilon))?;
        Ok(())
    }
}

/// Quantized weights as bf16: a thread for each word of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Dequantize {
    pub(crate) format: Format,
    /// Weights that share a scale.
    pub(crate) group: u32,
}

/// Threads of a CTA.
const THREADS: u32 = 256;

impl Dequantize {
    #[kernel]
    fn run(
        &self,
        weights: &Global<u8>,
        scales: &Global<bf16>,
        zero_points: &Global<u8>,
        numbers: &mut Global<bf16>,
        words: u32,
    ) {
        launch::threads(THREADS);
        let at = block_idx().x * THREADS + thread_idx().x;
        if at < words {
            let word = weights.cast::<u32>().at(at).load();
            let per_word = self.format.per_word();
            let group = at / (self.group / per_word);
            let scale = scales.at(group).load().convert::<f32>();
            let zero = self.format.zero_point(*zero_points, group);
            let values = self.format.numbers(word, zero);
            let scaled: Vec<Reg<f32>> = values.iter().map(|value| *value * scale).collect();
            let pairs: Vec<Reg<u32>> = scaled.chunks(2).map(bf16::narrow).collect();
            let to = numbers.at(at.mul_wide(per_word)).cast::<u32>();
            vector::store_lanes(to, &pairs, Access::new());
        }
    }

    /// Dequantizes all weights.
    pub(crate) fn launch(
        self,
        (operations, stream): (&Operations, &Stream),
        (weights, scales, zero_points): (&Buffer<u8>, &Buffer<bf16>, &Buffer<u8>),
        numbers: &mut Buffer<bf16>,
    ) -> Result<()> {
        expect_length(
            "dequantized weights",
            weights.len() / 4 * self.format.per_word() as usize,
            numbers.len(),
        )?;
        let words = weights.len() as u64 / 4;
        let zero_points = if zero_points.is_empty() { weights } else { zero_points };
        let kernel = operations.kernel(self, Self::run)?;
        let grid = operations.grid("dequantized weights", words.div_ceil(THREADS.into()))?;
        kernel.launch(stream, grid, (weights, scales, zero_points, numbers, words as u32))?;
        Ok(())
    }
}

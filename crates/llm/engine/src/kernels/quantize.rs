//! To and from fewer bits on the device.

use warpwright::lang::element::e4m3;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::gemm::problem::scales::Granularity;
use warpwright_kernels::operations::{Operations, Result, expect_length};
use warpwright_kernels::overlap::{self, overlaps};
use warpwright_kernels::rows::RowElement;
use warpwright_kernels::vector;

use crate::weights::Format;

/// Rows of bf16 as e4m3 with a scale for each 128 of a row, as the GEMM takes them: a warp for each 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuantizeRows {
    columns: u32,
    overlaps: bool,
}

/// Warps of a CTA.
const WARPS: u32 = 4;
/// Elements of a lane.
const LANES: u32 = 4;
/// The largest e4m3.
const LARGEST: f32 = 448.0;

impl QuantizeRows {
    /// `scales` is (blocks of k, padded rows).
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
        let column = block * (32 * LANES) + lane_id() * LANES;
        if row < rows {
            let is_inside = column.lt(self.columns);
            let from = x.at(row.mul_wide(self.columns)).at(is_inside.select(column, 0u32));
            let access = overlap::read_once(self.overlaps);
            let words = vector::load_lanes(from.cast::<u32>(), LANES / 2, access);
            let numbers: Vec<Reg<f32>> = words
                .into_iter()
                .flat_map(|word| {
                    [(word << 16u32).bit_cast::<f32>(), (word & 0xffff_0000u32).bit_cast::<f32>()]
                })
                .map(|number| is_inside.select(number, 0f32))
                .collect();
            let of_lane = numbers.iter().fold(constant(0f32), |most, number| most.max(number.abs()));
            let largest = warp::reduce_max(of_lane);
            let scale = largest.gt(0f32).select(largest * (1.0 / LARGEST), 1f32);
            if is_inside {
                let inverse = constant(1f32) / scale;
                let halves: Vec<Reg<u32>> = numbers
                    .chunks(2)
                    .map(|pair| {
                        (pair[0] * inverse).pack_e4m3x2(pair[1] * inverse).bit_cast::<u16>().convert::<u32>()
                    })
                    .collect();
                let to = values.at(row.mul_wide(self.columns)).at(column);
                to.cast::<u32>().store(halves[0] | (halves[1] << 16u32));
            }
            if lane_id() == 0 {
                scales.at(block.mul_wide(padded)).at(row).store(scale);
            }
        }
    }

    /// The kernel for rows of that many columns.
    pub(crate) fn new(operations: &Operations, columns: u32) -> Self {
        Self { columns, overlaps: overlaps(operations) }
    }

    /// Quantizes all rows.
    pub(crate) fn launch(
        self,
        (operations, stream): (&Operations, &Stream),
        x: &Buffer<bf16>,
        (values, scales): (&mut Buffer<e4m3>, &mut Buffer<f32>),
    ) -> Result<()> {
        let rows = (x.len() / self.columns as usize) as u32;
        let (blocks, padded) = Granularity::Row.extents((rows, self.columns));
        expect_length("quantized rows", x.len(), values.len())?;
        expect_length("the scales of rows", blocks as usize * padded as usize, scales.len())?;
        let kernel = operations.kernel(self, Self::run)?;
        let shape = overlap::shape(kernel.shape((rows.div_ceil(WARPS), blocks)), self.overlaps);
        kernel.launch(stream, shape, (x, values, scales, rows, padded))?;
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

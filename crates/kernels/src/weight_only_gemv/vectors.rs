//! The vectors in shared memory: f16, scaled, in the order in which lanes multiply them.
//!
//! A power of two brings the largest magnitude of 256 elements to 2^14 or just above. Elements down to
//! 2^-28 of it are exact in f16, and the others lose less than 2^-38 of it.
//!
//! ```text
//! unit               eight consecutive elements, in the order of `WeightFormat::order`: 16 bytes
//! chunk of a warp    32 units, which share a scale
//! piece of a lane    the units of its words of weights that share a scale with those of the others
//! units of 4 pieces  0 of each lane t, then 1 of each lane t, ..
//! ```

use warpwright::prelude::*;

use super::kernel::{Gemv, GemvInputs, Part, first_vector};
use super::problem::MAX_BATCH;
use crate::rows::RowElement;

/// Elements and words of a unit.
pub(super) const UNIT: u32 = 8;
pub(super) const UNIT_WORDS: u32 = 4;
/// Units and elements of a chunk.
const CHUNK_UNITS: u32 = 32;
const CHUNK_ELEMENTS: u32 = CHUNK_UNITS * UNIT;
/// Units that put the vectors' lanes on other banks: 64 bytes.
const PADDING: u32 = 4;
/// Chunks of a warp that are loaded before the weights.
const FIRST_CHUNKS: u32 = 16;

/// The vectors of a CTA, for a part of k.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Vectors {
    pub(super) units: Shared<u32>,
    /// What the sums of a chunk are multiplied with: (chunks, vectors).
    pub(super) scales: Shared<f32>,
}

impl Gemv {
    /// Chunks of a vector.
    fn chunks(&self) -> u32 {
        (self.part_blocks() * self.block_elements()).div_ceil(CHUNK_ELEMENTS)
    }

    /// Chunks of a warp.
    fn chunks_of_warp(&self) -> u32 {
        (self.batch * self.chunks()).div_ceil(self.warps)
    }

    /// Words from one vector to the next.
    pub(super) fn vector_words(&self) -> u32 {
        (self.chunks() * CHUNK_UNITS + PADDING) * UNIT_WORDS
    }

    /// Words of all scales.
    pub(super) fn words_of_scales(&self) -> u32 {
        self.chunks() * MAX_BATCH
    }

    /// k-blocks of a chunk.
    fn chunk_blocks(&self) -> u32 {
        CHUNK_ELEMENTS / self.block_elements()
    }

    /// Where the first lane's unit `unit` of the pieces `quad` is.
    pub(super) fn unit_words(&self, quad: u32, unit: u32) -> u32 {
        (quad * self.piece_units() + unit) * 4 * UNIT_WORDS
    }
}

#[device]
impl Gemv {
    /// Loads the first units of this lane. They come before the weights, behind which they would wait.
    pub(super) fn load_units<S: RowElement>(
        &self,
        inputs: GemvInputs<S>,
        part: Part,
        warp: Reg<u32>,
    ) -> Vec<[Reg<u32>; 4]> {
        (0..self.chunks_of_warp().min(FIRST_CHUNKS))
            .map(|index| self.load_unit(inputs, part, warp + index * self.warps))
            .collect()
    }

    /// Stores a part of the vectors, whose first units are given. All threads call it, and
    /// synchronize after it.
    pub(super) fn store_units<S: RowElement>(
        &self,
        inputs: GemvInputs<S>,
        (part, warp): (Part, Reg<u32>),
        first: &[[Reg<u32>; 4]],
        vectors: Vectors,
    ) {
        for (index, words) in (0..).zip(first) {
            self.store_unit(part, warp + index * self.warps, *words, vectors);
        }
        if self.chunks_of_warp() > FIRST_CHUNKS {
            for index in constant(FIRST_CHUNKS)..self.chunks_of_warp() {
                let chunk = warp + index * self.warps;
                self.store_unit(part, chunk, self.load_unit(inputs, part, chunk), vectors);
            }
        }
    }

    /// This lane's unit of a chunk of all vectors; the last one past the end of k and of the chunks.
    fn load_unit<S: RowElement>(&self, inputs: GemvInputs<S>, part: Part, chunk: Reg<u32>) -> [Reg<u32>; 4] {
        let vector = (first_vector() + chunk / self.chunks()).min(inputs.batch - 1);
        let unit = self.unit(part, chunk).min(self.k / UNIT - 1);
        let from = inputs.x.cast::<u8>().at(vector.mul_wide(2 * self.k)).cast::<u32>();
        from.at(unit * UNIT_WORDS).load_vector::<4>()
    }

    /// The index in a vector of this lane's unit of a chunk.
    fn unit(&self, part: Part, chunk: Reg<u32>) -> Reg<u32> {
        part.first * (self.block_elements() / UNIT) + chunk % self.chunks() * CHUNK_UNITS + lane_id()
    }

    /// Scales a chunk and stores it, zeros past the end of k. A warp makes the call.
    fn store_unit(&self, part: Part, chunk: Reg<u32>, words: [Reg<u32>; 4], vectors: Vectors) {
        if chunk < self.batch * self.chunks() {
            let is_inside = self.unit(part, chunk).lt(self.k / UNIT);
            let pairs = words.map(|word| is_inside.select(word, 0u32).bit_cast::<bf16x2>());
            let largest = pairs.map(|pair| (pair.bit_cast::<u32>() & 0x7fff_7fffu32).bit_cast::<bf16x2>());
            let largest = largest[0].max(largest[1]).max(largest[2].max(largest[3])).bit_cast::<u32>();
            let largest = warp::reduce_max((largest & 0xffffu32).max(largest >> 16u32));
            let exponent = scale_exponent(largest);
            let scale = (exponent * 0x0080_0080u32).bit_cast::<bf16x2>();
            let values: Vec<Reg<f32>> =
                pairs.into_iter().flat_map(|pair| bf16::widen((pair * scale).bit_cast())).collect();
            let order = self.format.order();
            let scaled: [Reg<u32>; 4] = std::array::from_fn(|index| {
                f16::narrow(&[values[order[2 * index]], values[order[2 * index + 1]]])
            });
            let (vector, of_vector) = (chunk / self.chunks(), chunk % self.chunks());
            let unit = of_vector * CHUNK_UNITS + lane_id();
            let to = vectors.units.at(vector * self.vector_words());
            to.at(self.place(unit) * UNIT_WORDS).store_vector(scaled);
            // Vectors past the batch have the last one's, which nobody stores the products of.
            let is_last = vector.eq(self.batch - 1);
            let lane = lane_id();
            if lane == vector || (is_last & lane.gt(vector) & lane.lt(MAX_BATCH)) {
                let inverse = (constant(254u32 + self.format.scaled_down()) - exponent) << 23u32;
                vectors.scales.at(of_vector * MAX_BATCH + lane).store(inverse.bit_cast::<f32>());
            }
        }
    }

    /// Where a unit is: units of four pieces are transposed.
    fn place(&self, unit: Reg<u32>) -> Reg<u32> {
        let of_piece = self.piece_units();
        let (piece, inside) = (unit / of_piece, unit % of_piece);
        (piece / 4 * of_piece + inside) * 4 + piece % 4
    }

    /// What the sums of a k-block of the part are multiplied with, to undo the scales of its two
    /// vectors of a lane and that of the weights.
    pub(super) fn scales(&self, vectors: Vectors, block: Reg<u32>) -> [Reg<f32>; 2] {
        let chunk = block / self.chunk_blocks();
        vectors.scales.at(chunk * MAX_BATCH + lane_id() % 4 * 2).load_vector::<2>()
    }
}

/// The biased exponent of the power of two that brings a magnitude of these bits of bf16 to 2^14 or
/// just above; of magnitudes under 2^-112, 2^126. Its inverse is a normal number.
#[track_caller]
fn scale_exponent(largest: Reg<u32>) -> Reg<u32> {
    (constant(268u32) - (largest >> 7u32)).min(253u32)
}

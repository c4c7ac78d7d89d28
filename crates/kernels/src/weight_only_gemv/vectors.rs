//! The vectors in shared memory: f16, scaled, in the order in which lanes multiply them.
//!
//! A power of two brings the largest magnitude of a vector to 2^14 or just above. Elements down to
//! 2^-28 of it are exact in f16, and the others lose less than 2^-38 of it.
//!
//! ```text
//! unit               eight consecutive elements, in the order of `WeightFormat::order`: 16 bytes
//! piece of a lane    the units of its words of weights that share a scale with those of the others
//! units of 4 pieces  0 of each lane t, then 1 of each lane t, ..
//! ```

use warpwright::prelude::*;

use super::kernel::{Gemv, GemvInputs, Part, first_vector};
use crate::rows::RowElement;
use crate::vector;

/// Elements and words of a unit.
pub(super) const UNIT: u32 = 8;
pub(super) const UNIT_WORDS: u32 = 4;
/// Units that put the vectors' lanes on other banks: 64 bytes.
const PADDING: u32 = 4;
/// Loads of a thread in flight.
const AT_ONCE: u32 = 4;

/// The vectors of a CTA, for a part of k.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Vectors {
    pub(super) units: Shared<u32>,
    /// The bits of the largest magnitude of each.
    pub(super) maxima: Shared<u32>,
}

impl Gemv {
    /// Words from one vector to the next.
    pub(super) fn vector_words(&self) -> u32 {
        (self.part_blocks() * self.block_elements() / UNIT + PADDING) * UNIT_WORDS
    }

    /// Where the first lane's unit `unit` of the pieces `quad` is.
    pub(super) fn unit_words(&self, quad: u32, unit: u32) -> u32 {
        (quad * self.piece_units() + unit) * 4 * UNIT_WORDS
    }
}

#[device]
impl Gemv {
    /// Loads a part of the vectors twice: for the maxima, then to convert them. Past the batch they
    /// are the last vector, past k zeros. All threads call it.
    pub(super) fn load_vectors<S: RowElement>(&self, inputs: GemvInputs<S>, part: Part, vectors: Vectors) {
        let (thread, lane) = (thread_idx().x, lane_id());
        let warp = warp::broadcast(thread / 32, 0);
        // Warps of a vector, and vectors at once.
        let sharing = (self.warps / self.batch).max(1);
        let at_once = self.warps / sharing;
        let (first, step) = ((warp % sharing) * 32 + lane, 32 * sharing);
        let units = (part.end - part.first) * (self.block_elements() / UNIT);
        let first_unit = part.first * (self.block_elements() / UNIT);

        if thread < self.batch {
            vectors.maxima.at(thread).store(0u32);
        }
        sync_threads();
        for vector in (warp / sharing..self.batch).step_by(at_once) {
            let from = self.vector(inputs, vector);
            let mut largest = constant(0u32).bit_cast::<bf16x2>();
            for unit in (first..units).step_by(AT_ONCE * step) {
                let loaded: Vec<_> = (0..AT_ONCE)
                    .map(|index| {
                        let unit = (unit + index * step).min(units - 1) + first_unit;
                        let unit = unit.min(self.k / UNIT - 1);
                        from.at(unit * UNIT_WORDS).load_vector_with::<4>(vector::read_once())
                    })
                    .collect();
                for word in loaded.into_iter().flatten() {
                    largest = largest.max((word & 0x7fff_7fffu32).bit_cast::<bf16x2>());
                }
            }
            let bits = largest.bit_cast::<u32>();
            let bits = warp::reduce_max((bits & 0xffffu32).max(bits >> 16u32));
            if lane == 0 {
                vectors.maxima.at(vector).reduce_max(bits);
            }
        }
        sync_threads();
        for vector in (warp / sharing..self.batch).step_by(at_once) {
            let from = self.vector(inputs, vector);
            let to = vectors.units.at(vector * self.vector_words());
            let scale = scale_exponent(vectors.maxima.at(vector).load()) * 0x0080_0080u32;
            let scale = scale.bit_cast::<bf16x2>();
            for unit in (first..units).step_by(AT_ONCE * step) {
                let loaded: Vec<_> = (0..AT_ONCE)
                    .map(|index| {
                        let unit = (unit + index * step + first_unit).min(self.k / UNIT - 1);
                        from.at(unit * UNIT_WORDS).load_vector_with::<4>(vector::read_once())
                    })
                    .collect();
                for (index, words) in (0..AT_ONCE).zip(loaded) {
                    let unit = unit + index * step;
                    if unit < units {
                        let is_inside = (unit + first_unit).lt(self.k / UNIT);
                        let scaled =
                            words.map(|word| is_inside.select(word, 0u32).bit_cast::<bf16x2>() * scale);
                        let values: Vec<Reg<f32>> =
                            scaled.into_iter().flat_map(|pair| bf16::widen(pair.bit_cast())).collect();
                        let order = self.format.order();
                        let pairs: [Reg<u32>; 4] = std::array::from_fn(|index| {
                            f16::narrow(&[values[order[2 * index]], values[order[2 * index + 1]]])
                        });
                        to.at(self.place(unit) * UNIT_WORDS).store_vector(pairs);
                    }
                }
            }
        }
        sync_threads();
    }

    /// A vector of the CTA.
    fn vector<S: RowElement>(&self, inputs: GemvInputs<S>, vector: Reg<u32>) -> Global<u32> {
        let vector = (first_vector() + vector).min(inputs.batch - 1);
        inputs.x.cast::<u32>().at(vector.mul_wide(self.k / 2))
    }

    /// Where a unit is: units of four pieces are transposed.
    fn place(&self, unit: Reg<u32>) -> Reg<u32> {
        let of_piece = self.piece_units();
        let (piece, inside) = (unit / of_piece, unit % of_piece);
        (piece / 4 * of_piece + inside) * 4 + piece % 4
    }

    /// What the sums of a vector are multiplied with, to undo its scale and that of the weights.
    pub(super) fn unscale(&self, largest: Reg<u32>) -> Reg<f32> {
        let exponent = constant(254u32 + self.format.scaled_down()) - scale_exponent(largest);
        (exponent << 23u32).bit_cast()
    }
}

/// The biased exponent of the power of two that brings a magnitude of these bits of bf16 to 2^14 or
/// just above; of magnitudes under 2^-112, 2^126. Its inverse is a normal number.
#[track_caller]
fn scale_exponent(largest: Reg<u32>) -> Reg<u32> {
    (constant(268u32) - (largest >> 7u32)).min(253u32)
}

//! One pass over a row that nothing keeps: its highest logit, and the candidates of top-k.
//!
//! ```text
//! tiles 1 to 4          the k-th highest of the threads' highest keys bounds the k-th highest key of the row
//! after 8, 16, 32 ..    the bound rises
//! each tile             keys from the bound on are candidates; the next four are being loaded
//! ```
//!
//! (H200: shared memory holds 24 to 30 rows of 1 MiB at a time, each for 14 to 19 us, which is longer
//! than its load. This pass needs no shared memory for the row: 128 rows take 49 us instead of 98.)

use warpwright::prelude::*;

use super::candidates::Candidates;
use super::kernel::Sample;
use super::mass::{NEGATIVE_INFINITY, key_of, logit_of};
use super::search::{Keys, KeysOfLogits};
use crate::rows::{Chunk, RowElement};

/// Bytes of a tile that a thread loads.
const THREAD_BYTES: u32 = 32;
/// Vectors of a tile that a thread loads, at most.
const MAX_VECTORS: u32 = 8;
/// Tiles that are loaded ahead.
const AHEAD: u32 = 4;

#[device]
impl Sample {
    /// This thread's highest key and the lowest column that has it. With `wanted` above 0, all keys
    /// that are among the `wanted` highest of the row, and some more, are sent to the candidates.
    pub(super) fn stream<T: RowElement>(
        &self,
        keys: &Keys<KeysOfLogits<T>>,
        candidates: &Candidates,
        wanted: Reg<u32>,
    ) -> (Reg<u32>, Reg<u32>) {
        let (lanes, stride) = (self.lanes, self.threads * self.lanes);
        let vectors = (THREAD_BYTES / (lanes * T::BYTES)).clamp(1, MAX_VECTORS);
        let tile = stride * vectors;
        let load = |first: Reg<u32>| -> Vec<Chunk<T>> {
            (0..vectors).map(|vector| keys.memory.load(first + vector * stride, lanes)).collect()
        };
        // The highest logit of a vector; past the end of the row, minus infinity.
        let highest_of = |column: Reg<u32>, logits: &[Reg<f32>]| {
            let highest = logits.iter().copied().reduce(|a, b| a.max_nan(b)).expect("a vector has elements");
            column.lt(self.vocabulary).select(highest, f32::NEG_INFINITY)
        };
        let mut first = thread_idx().x * lanes;
        let mut ahead: Vec<Vec<Chunk<T>>> = (0..AHEAD).map(|at| load(first + at * tile)).collect();
        // A logit of NaN is none's bound.
        let mut bound = constant(f32::NAN);
        if wanted > 0 {
            let mut highest = constant(f32::NEG_INFINITY);
            for (at, chunks) in (0..).zip(&ahead) {
                for (vector, chunk) in (0..).zip(chunks) {
                    let column = first + (at * tile + vector * stride);
                    highest = highest.max_nan(highest_of(column, &chunk.values()));
                }
            }
            bound = self.bound(candidates, highest, wanted);
        }
        let (mut highest, mut lowest) = (constant(f32::NEG_INFINITY), constant(0u32));
        for number in constant(0u32)..self.vocabulary.div_ceil(AHEAD * tile) {
            if wanted > 0 && number > 1 && (number & (number - 1)) == 0 {
                bound = self.bound(candidates, highest, wanted);
            }
            for at in 0..AHEAD as usize {
                let here: Vec<Chunk<T>> = ahead[at].iter().map(|chunk| chunk.duplicate()).collect();
                ahead[at] = load(first + AHEAD * tile);
                for (vector, chunk) in (0..).zip(&here) {
                    let (column, logits) = (first + vector * stride, chunk.values());
                    let most = highest_of(column, &logits);
                    if most > highest {
                        for (lane, logit) in logits.iter().enumerate().rev() {
                            lowest = logit.eq(most).select(column + lane as u32, lowest);
                        }
                    }
                    highest = highest.max_nan(most);
                    if most >= bound && column < self.vocabulary {
                        for (lane, logit) in (0..).zip(&logits) {
                            candidates.send(keys, logit.ge(bound), key_of(*logit), column + lane);
                        }
                    }
                }
                first = first + tile;
            }
        }
        sync_threads();
        (key_of(highest), lowest)
    }

    /// A logit that `wanted` of the threads' highest ones reach.
    fn bound(&self, candidates: &Candidates, highest: Reg<f32>, wanted: Reg<u32>) -> Reg<f32> {
        logit_of(candidates.bound(key_of(highest), wanted).max(NEGATIVE_INFINITY))
    }
}

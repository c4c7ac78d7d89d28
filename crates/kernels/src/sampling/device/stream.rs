//! One pass over a row that nothing keeps: its highest logit, and the candidates of top-k.
//!
//! ```text
//! tile 1          the k-th highest of the threads' highest keys bounds the k-th highest key of the row
//! tile 2, 4, 8 .. the bound rises
//! each tile       keys from the bound on are candidates; the next tile is being loaded
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
const THREAD_BYTES: u32 = 128;
/// Vectors of a tile that a thread loads, at most.
const MAX_VECTORS: u32 = 32;

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
        let vectors = (THREAD_BYTES / (lanes * T::BYTES)).min(MAX_VECTORS);
        let tile = stride * vectors;
        let load = |first: Reg<u32>| -> Vec<Chunk<T>> {
            (0..vectors).map(|vector| keys.memory.load(first + vector * stride, lanes)).collect()
        };
        let (mut highest, mut lowest) = (constant(f32::NEG_INFINITY), constant(0u32));
        // A logit of NaN is none's bound.
        let mut bound = constant(f32::NAN);
        let mut first = thread_idx().x * lanes;
        let mut next = load(first);
        for number in constant(1u32)..=self.vocabulary.div_ceil(tile) {
            let here: Vec<Chunk<T>> = next.iter().map(|chunk| chunk.duplicate()).collect();
            next = load(first + tile);
            for (vector, chunk) in here.iter().enumerate() {
                let column = (first + vector as u32 * stride).min(self.vocabulary - lanes);
                for (lane, logit) in chunk.values().into_iter().enumerate() {
                    lowest = logit.gt(highest).select(column + lane as u32, lowest);
                    highest = highest.max_nan(logit);
                }
            }
            if wanted > 0 && (number & (number - 1)) == 0 {
                let key = candidates.bound(key_of(highest), wanted);
                bound = logit_of(key.max(NEGATIVE_INFINITY));
            }
            for (vector, chunk) in here.iter().enumerate() {
                let (column, logits) = (first + vector as u32 * stride, chunk.values());
                let most = logits.iter().fold(constant(f32::NEG_INFINITY), |most, logit| most.max(*logit));
                if most >= bound && column < self.vocabulary {
                    for (lane, logit) in logits.iter().enumerate() {
                        candidates.send(keys, logit.ge(bound), key_of(*logit), column + lane as u32);
                    }
                }
            }
            first = first + tile;
        }
        sync_threads();
        (key_of(highest), lowest)
    }
}

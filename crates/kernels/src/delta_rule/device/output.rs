//! The output of the recurrence: accumulators (v, token) become rows (token, v) in global memory.

use warpwright::prelude::*;

use super::chunk::pair;
use crate::delta_rule::problem::CHUNK;

/// Elements from token to token of a warp's part in shared memory: 16, and 8 so that 8 tokens are
/// in different banks.
const PITCH: u32 = 24;

/// A warp's part of the output: 16 columns of v of each token.
#[derive(Clone, Copy)]
pub(super) struct Output {
    /// (64 tokens, 16 columns) in shared memory.
    staged: Shared<bf16>,
    lane: Reg<u32>,
    /// Elements from token to token.
    row: u32,
}

#[device]
impl Output {
    pub(super) fn of_warp(warps: u32, warp: Reg<u32>, lane: Reg<u32>, row: u32) -> Self {
        let staged = dynamic_shared_aligned::<bf16>(warps * CHUNK * PITCH, 16);
        Self { staged: staged.at(warp * (CHUNK * PITCH)), lane, row }
    }

    /// The words of an accumulator (v, token).
    pub(super) fn round(read: &Fragment<f32>) -> Vec<Reg<u32>> {
        (0..read.len()).step_by(2).map(|i| pair(read.get(i), read.get(i + 1))).collect()
    }

    /// Transposes them into shared memory.
    pub(super) fn stage(&self, words: &[Reg<u32>]) {
        let lane = self.lane;
        let own = self.staged.at((lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8);
        for block in 0..4 {
            let matrices = [0, 1, 2, 3].map(|word| words[4 * block as usize + word]);
            stmatrix_transposed(own.at(block * (16 * PITCH)), matrices);
        }
        sync_warp(ALL_LANES);
    }

    /// The token, of the first 16, and the column of this lane's pieces.
    fn piece(&self) -> (Reg<u32>, Reg<u32>) {
        (self.lane / 2, self.lane % 2 * 8)
    }

    /// This lane's pieces of what is staged, one of every 16 tokens.
    pub(super) fn load(&self) -> [[Reg<u32>; 4]; 4] {
        let (token, column) = self.piece();
        let own = self.staged.at(token * PITCH + column).cast::<u32>();
        let pieces = [0, 16, 32, 48].map(|first| own.at(first * PITCH / 2).load_vector::<4>());
        sync_warp(ALL_LANES);
        pieces
    }

    /// Stores the pieces of the first `length` tokens, from `to` on.
    pub(super) fn store(&self, pieces: &[[Reg<u32>; 4]; 4], to: Global<bf16>, length: Reg<u32>) {
        let (token, column) = self.piece();
        let own = to.at(token * self.row + column).cast::<u32>();
        for (piece, first) in pieces.iter().zip([0, 16, 32, 48]) {
            if token + first < length {
                own.at(first * self.row / 2).store_vector(*piece);
            }
        }
    }
}

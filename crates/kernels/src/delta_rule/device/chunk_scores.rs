//! P of a chunk, by the warpgroup that starts the copies of the recurrence: what the queries of the
//! chunk read of its tokens' replacements.
//!
//! ```text
//! P(i, j) = (q_i·k_j) e^(G_i - G_j) / (|q_i| |k_j| sqrt(128))       i ≥ j
//!
//! Q Kᵀ      (64, 64) by wgmma; a warp has 16 rows of it     Q and K are in shared memory for the recurrence
//! |q|²      the diagonal of Q Qᵀ, 16 rows of a warp
//! ```
//!
//! P is then never in global memory, and the recurrence alone reads the queries. Of 8,192 tokens of 32
//! value heads, the two kernels of a prefill move 302 MB in place of 402.

use warpwright::prelude::*;

use super::chunk::{BLOCK, BOXES, FACTORS, Factor, SQUARE, key_tile, pair, squares, swizzled, tiles, zeros};
use crate::delta_rule::problem::{CHUNK, EPSILON, HEAD};

/// The scores of the chunks in a pipeline, and the warpgroup that computes them.
pub(super) struct Scores {
    mma: TiledMma,
    queries: MatrixOperand,
    keys: MatrixOperand,
    /// Tiles of queries, by stage.
    q: Shared<bf16>,
    /// [`FACTORS`] by stage.
    factors: Shared<f32>,
    /// P as a tile, by stage.
    scores: Shared<bf16>,
    /// What a query reads of the state before the chunk, e^G / |q| / sqrt(128): 64 by stage.
    reads: Shared<f32>,
    thread: Reg<u32>,
}

#[device]
impl Scores {
    /// From the keys and queries and factors of `stages` stages to scores and reads.
    pub(super) fn new(
        (k, q, factors): (Shared<bf16>, Shared<bf16>, Shared<f32>),
        (scores, reads): (Shared<bf16>, Shared<f32>),
        (thread, stages): (Reg<u32>, u32),
    ) -> Self {
        let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
        let queries = mma.a_operand(&tiles(q, key_tile(), stages), constant(0u32));
        let keys = mma.b_operand(&tiles(k, key_tile(), stages));
        Self { mma, queries, keys, q, factors, scores, reads, thread }
    }

    /// Those of the chunk in `stage`. Rows past the end of a sequence are of no token, and nothing of
    /// them reaches the others.
    pub(super) fn compute(&self, stage: Reg<u32>) {
        let (warp, lane) = (self.thread / 32, self.thread % 32);
        let mut products: Fragment<f32> = self.mma.thread(self.thread).c_fragment((CHUNK, CHUNK));
        let at = (All, All, stage);
        let (queries, keys) = (self.queries.slice(at), self.keys.slice(at));
        multiply(&self.mma, &mut products, &queries, &keys, Accumulate::No);

        let squares = squares(self.q.at(stage * (BOXES * SQUARE)), (warp, lane));
        let scale = 1.0 / (HEAD as f32).sqrt();
        let of_row = lane / 4 * 4 + lane / 8;
        let norms = squares.map(|sum| ((sum + EPSILON).rsqrt() * scale).shuffle(of_row));
        let factors = self.factors.at(stage * FACTORS);
        let rows = [0, 8].map(|half| warp * BLOCK + lane / 4 + half);
        let sums = rows.map(|row| factors.at(Factor::Sum.start()).at(row).load());
        if lane % 4 == 0 {
            for (index, row) in rows.into_iter().enumerate() {
                self.reads.at(stage * CHUNK + row).store(norms[index] * fast::exp2(sums[index]));
            }
        }

        wait_multiplications(0);
        // Row and column of the matrix that this lane gives the address of.
        let at = (warp * BLOCK + lane % 16, lane / 16 * 8);
        for block in 0..CHUNK / BLOCK {
            let mut words = zeros::<u32, 4>();
            if warp.ge(block) {
                for part in 0..4 {
                    let (half, row) = (part / 2, part as usize % 2);
                    let j = lane % 4 * 2 + (block * BLOCK + half * 8);
                    let columns = factors.at(Factor::Column.start()).at(j).load_vector::<2>();
                    let weights = [0u32, 1].map(|e| {
                        let product = products.get(4 * (2 * block + half) + 2 * row as u32 + e);
                        let decay = fast::exp2(sums[row] - columns[e as usize]);
                        (j + e).le(rows[row]).select(product * (norms[row] * decay), 0f32)
                    });
                    words[part as usize] = pair(weights[0], weights[1]);
                }
            }
            let to = swizzled(at.0, at.1 + block * BLOCK);
            stmatrix(self.scores.at(stage * SQUARE).at(to), words);
        }
        fence_proxy_async_shared();
        sync_warp(ALL_LANES);
    }
}

//! A consumer warpgroup's part: S, P and O of 64 queries.
//!
//! ```text
//! a step:   start S of block n + 1       tensor cores   | S n+1 | P·V n |
//!           start O += P·V of block n    this warpgroup          | softmax of n+1 | rescale O |
//!           softmax of S, rescale O      the other      its own step, half a step later
//! ```

use warpwright::arch::limits::WARPGROUP_SIZE;
use warpwright::prelude::*;

use super::Results;
use super::configuration::{ForwardKernel, WARPGROUP_ROWS};
use super::scheduler::{ForwardProblem, Tile, TileScheduler};
use super::softmax::{OnlineSoftmax, rescale};
use crate::attention::accumulator::{column_of, row_of};
use crate::attention::problem::AttentionElement;
use crate::attention::score::{Pair, ScoreOp};

/// What a consumer multiplies.
pub(super) struct Products {
    pub(super) scores: TiledMma,
    pub(super) out: TiledMma,
    pub(super) q: MatrixOperand,
    pub(super) k: MatrixOperand,
    pub(super) v: MatrixOperand,
}

/// A thread's scores of a block, their weights as operand A of P·V, and its part of O.
pub(super) struct Registers<T> {
    pub(super) scores: Fragment<f32>,
    pub(super) weights: Fragment<T>,
    pub(super) out: Fragment<f32>,
}

/// The consumer's ends of the pipelines.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Stages {
    pub(super) q: Consumer,
    pub(super) k: Consumer,
    pub(super) v: Consumer,
}

/// A thread's part of a tile.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Part {
    pub(super) tile: Tile,
    /// Its two rows, and its first column.
    pub(super) rows: [Reg<u32>; 2],
    pub(super) column: Reg<i32>,
    /// The keys that the rows see: from the first to before the second.
    pub(super) visible: [(Reg<i32>, Reg<i32>); 2],
    /// The blocks that all rows of the warpgroup see whole.
    pub(super) whole: (Reg<u32>, Reg<u32>),
}

/// What a consumer knows.
pub(super) struct Warpgroup<'k> {
    pub(super) kernel: ForwardKernel,
    pub(super) role: Role,
    pub(super) products: &'k Products,
    pub(super) scheduler: &'k TileScheduler,
    pub(super) problem: ForwardProblem,
    pub(super) score: Option<&'k dyn ScoreOp>,
}

#[device]
impl Warpgroup<'_> {
    pub(super) fn begin_turns(&self) {
        if self.kernel.consumers > 1 {
            self.role.begin_turns();
        }
    }

    pub(super) fn wait_turn(&self) {
        if self.kernel.consumers > 1 {
            self.role.wait_turn();
        }
    }

    pub(super) fn pass_turn(&self) {
        if self.kernel.consumers > 1 {
            self.role.pass_turn();
        }
    }

    /// Waits for the next tile of Q, and returns its number.
    pub(super) fn next_number(&self, q: &mut Consumer, numbers: Shared<u32>) -> Reg<u32> {
        let number = numbers.at(q.wait().index()).load();
        // One thread releases the stage: all have read the number.
        self.role.sync_warpgroup();
        // The broadcast makes the number warp-uniform for the compiler.
        warp::broadcast(number, 0)
    }

    /// This thread's part of a tile.
    pub(super) fn part(&self, number: Reg<u32>) -> Part {
        let (thread, tile) = (self.role.thread(), self.scheduler.tile(number));
        let row = tile.first_row + thread / 32 * 16 + thread % 32 / 4;
        let rows = [row, row + 8u32];
        let first_row = tile.first_row + self.role.warpgroup() * WARPGROUP_ROWS;
        let blocks = (tile.begin, tile.end);
        Part {
            tile,
            rows,
            column: (thread % 4 * 2) as i32,
            visible: rows.map(|row| self.scheduler.visible(&tile.sequence, row)),
            whole: self.scheduler.whole_blocks(&tile.sequence, (first_row, WARPGROUP_ROWS), blocks),
        }
    }

    /// The softmax of a tile before its first block.
    pub(super) fn softmax(&self, part: &Part) -> OnlineSoftmax {
        // A function of the scores gets them scaled.
        let scale = if self.score.is_some() { constant(1.0f32) } else { self.problem.scale };
        let softmax = OnlineSoftmax::new(scale);
        if self.kernel.sinks {
            softmax.with_sink(self.problem.sinks.at(part.tile.head).load())
        } else {
            softmax
        }
    }

    /// Starts S of the next block.
    pub(super) fn start_scores<T: AttentionElement>(
        &self,
        registers: &mut Registers<T>,
        stages: &mut Stages,
    ) {
        let q = self.products.q.slice((All, All, stages.q.oldest()));
        let k = self.products.k.slice((All, All, stages.k.wait()));
        multiply(&self.products.scores, &mut registers.scores, &q, &k, Accumulate::No);
    }

    /// Starts O += P·V of the oldest block.
    pub(super) fn start_out<T: AttentionElement>(&self, registers: &mut Registers<T>, stages: &mut Stages) {
        let v = self.products.v.slice((All, All, stages.v.wait()));
        multiply(&self.products.out, &mut registers.out, &registers.weights, &v, Accumulate::Yes);
    }

    /// S of a tile's first block becomes P, and O zero.
    pub(super) fn finish_first_scores<T: AttentionElement>(
        &self,
        part: &Part,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        softmax: &mut OnlineSoftmax,
        values: &Tensor<T, SharedSpace>,
    ) {
        wait_multiplications(0);
        stages.k.release();
        let block = (part, part.tile.end - 1u32, true);
        self.map_scores(block, self.problem.scale, &mut registers.scores);
        softmax.update(&mut registers.scores);
        weights_as_a(registers);
        registers.out.clear();
        if self.kernel.packed {
            self.clear_absent_values(part, stages, values);
        }
    }

    /// Zeros for the values past the end of a sequence, in the tile's last block: there are those of
    /// the next sequence, or anything in a page, also NaN, which a weight of 0 does not hide. (Past the
    /// end of sequences that are not packed, the copies give zeros.) `values` is the memory of V: (d,
    /// key, stage).
    fn clear_absent_values<T: AttentionElement>(
        &self,
        part: &Part,
        stages: &Stages,
        values: &Tensor<T, SharedSpace>,
    ) {
        let first = (part.tile.end - 1u32) * self.kernel.block;
        let present = part.tile.sequence.lengths[1] - first;
        if present < self.kernel.block {
            let values = values.slice((All, All, stages.v.peek()));
            let vectors = self.kernel.value_dim / 4;
            let begin = present * vectors + self.role.thread();
            for vector in (begin..self.kernel.block * vectors).step_by(self.role.threads()) {
                values.set_vector((vector % vectors * 4, vector / vectors), [constant(T::ZERO); 4]);
            }
            fence_proxy_async_shared();
            self.role.sync();
        }
    }

    /// S of a block becomes P, beside P·V of the block before. `masked`: some row of the warpgroup
    /// does not see all its keys.
    pub(super) fn step<T: AttentionElement>(
        &self,
        block: (&Part, Reg<u32>, bool),
        registers: &mut Registers<T>,
        stages: &mut Stages,
        softmax: &mut OnlineSoftmax,
    ) {
        self.wait_turn();
        self.start_scores(registers, stages);
        self.start_out(registers, stages);
        self.pass_turn();
        wait_multiplications(1);
        stages.k.release();
        self.map_scores(block, self.problem.scale, &mut registers.scores);
        let factors = softmax.update(&mut registers.scores);
        wait_multiplications(0);
        stages.v.release();
        rescale(&mut registers.out, factors);
        weights_as_a(registers);
    }

    /// The scores of a block, scaled, through the function of scores; minus infinity where the key
    /// is not seen. Without a function they stay as they are.
    pub(super) fn map_scores(
        &self,
        (part, block, masked): (&Part, Reg<u32>, bool),
        scale: Reg<f32>,
        scores: &mut Fragment<f32>,
    ) {
        let first = (block * self.kernel.block) as i32 + part.column;
        if let Some(score) = self.score {
            let [queries, keys] = part.tile.sequence.lengths;
            for i in 0..scores.len() {
                let (key, query) = (first + column_of(i) as i32, part.rows[row_of(i)]);
                let position = query as i32 + keys as i32 - queries as i32;
                let (sequence, head) = (part.tile.sequence.number, part.tile.head);
                let pair = Pair { sequence, head, query, key, position };
                scores.set(i, score.apply(scores.get(i) * scale, pair));
            }
        }
        if masked {
            let visible = part.visible.map(|(begin, end)| (begin - first, end - first));
            for i in 0..scores.len() {
                let ((begin, end), column) = (visible[row_of(i)], column_of(i) as i32);
                let mut sees = end.gt(column);
                if self.kernel.mask.left {
                    sees &= begin.le(column);
                }
                scores.set(i, sees.select(scores.get(i), f32::NEG_INFINITY));
            }
        }
    }

    /// Stores a thread's part of O, fragments of neighboring columns, and the logarithms.
    pub(super) fn store<T: AttentionElement>(
        &self,
        part: &Part,
        logarithms: [Reg<f32>; 2],
        out: &[Fragment<f32>],
        results: Results<T>,
    ) {
        let (head, heads, sequence) = (part.tile.head, self.problem.heads[0], part.tile.sequence);
        let [origin, o_sequence, o_row, o_head] = self.problem.o_strides;
        let ([queries, _], [most, _]) = (sequence.lengths, self.problem.lengths);
        for half in 0..2 {
            let row = part.rows[half];
            if row < queries {
                // Rows of all sequences: packed ones have all in one matrix of `most` rows.
                let (matrix, row) = match self.kernel.packed {
                    true => (constant(0u32), sequence.starts[0] + row),
                    false => (sequence.number, row),
                };
                let rows = if self.kernel.packed { self.problem.packed_rows() } else { most };
                let start = origin + matrix as u64 * o_sequence + row as u64 * o_row + head as u64 * o_head;
                let words = results.o.at(start + part.column as u64).cast::<u32>();
                for (first, out) in (0u32..).zip(out) {
                    let first = first * columns_of(out);
                    let mine = (0..out.len()).step_by(2).filter(|i| row_of(*i) == half);
                    for i in mine.filter(|i| first + column_of(*i) < self.kernel.value_dim) {
                        words.at((first + column_of(i)) / 2).store(T::pack(out.get(i), out.get(i + 1)));
                    }
                }
                if part.column == 0 {
                    let first = (matrix * heads + head) as u64 * rows as u64;
                    results.lse.at(first + row as u64).store(logarithms[half]);
                }
            }
        }
    }
}

/// The columns of an accumulator of a warpgroup's rows.
fn columns_of(accumulator: &Fragment<f32>) -> u32 {
    accumulator.len() * WARPGROUP_SIZE / WARPGROUP_ROWS
}

/// The weights as operand A of P·V: a thread has the same elements of an accumulator (m, n) and of
/// an operand A (m, k) with k = n, in the same order.
#[device]
fn weights_as_a<T: AttentionElement>(registers: &mut Registers<T>) {
    for i in (0..registers.scores.len()).step_by(2) {
        let word = T::pack(registers.scores.get(i), registers.scores.get(i + 1));
        registers.weights.set_word(i, word);
    }
}

//! What the backward kernel needs of each row, before and after: delta and lse in powers of two;
//! dQ in its type and its order, and the gradients of sinks.

use warpwright::layout::Error;
use warpwright::prelude::*;

use super::range::element;
use crate::attention::packed_blocks::PackedBlocks;
use crate::attention::problem::AttentionElement;

/// Threads of a row, and of a CTA.
const ROW_THREADS: u32 = 16;
const THREADS: u32 = 256;

/// A block of lse or delta in shared memory.
pub(crate) fn row_tile(rows: u32) -> Result<TmaTile, Error> {
    TmaTile::dense::<f32>((rows, 1), Major::Mn)
}

/// The blocks of `rows` queries of all sequences: (sequence, head, block), of packed sequences (head,
/// block).
#[derive(Clone, Copy, DeviceValue)]
struct QueryBlocks {
    queries: Reg<u32>,
    rows: u32,
    packed: Option<PackedBlocks>,
}

/// Where a block is: its line, (sequence, head) or a head; its first query in the matrix of the line's
/// sequences; how many it has.
#[derive(Clone, Copy, DeviceValue)]
struct Block {
    line: Reg<u32>,
    first: Reg<u32>,
    queries: Reg<u32>,
}

#[device]
impl QueryBlocks {
    /// `queries` are those of a sequence; of packed sequences all, with their offsets.
    fn new(
        packed: bool,
        rows: u32,
        queries: Reg<u32>,
        (offsets, sequences): (Global<u32>, Reg<u32>),
    ) -> QueryBlocks {
        QueryBlocks { queries, rows, packed: packed.then_some(PackedBlocks { offsets, sequences, rows }) }
    }

    fn block(self, number: Reg<u32>) -> Block {
        let Some(packed) = self.packed else {
            let blocks = self.queries.div_ceil(self.rows);
            let first = number % blocks * self.rows;
            return Block { line: number / blocks, first, queries: self.queries - first };
        };
        let blocks = packed.count(self.queries);
        let (block, line) = (number % blocks, number / blocks);
        let sequence = packed.sequence_of(block);
        let before = (block - sequence.first_block) * self.rows;
        Block { line, first: sequence.first + before, queries: sequence.count.max(before) - before }
    }
}

/// lse and delta of each row, and zeros for dQ and its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PrepareRows {
    /// Columns of dQ in f32.
    pub(crate) columns: u32,
    pub(crate) value_dim: u32,
    /// Queries of a block.
    pub(crate) rows: u32,
    /// Counters of turns for each block.
    pub(crate) turns: u32,
    pub(crate) packed: bool,
}

impl PrepareRows {
    /// Rows of a CTA.
    pub(crate) const ROWS: u32 = THREADS / ROW_THREADS;

    /// `powers` is lse · log2(e), and `delta` is the sum of dO O; both are of whole blocks. Past the last
    /// query, and for a query that sees no key, `powers` is infinite: its weights are 0. `strides` are those
    /// of O and dO: [`element`].
    #[kernel]
    pub(crate) fn prepare<T: AttentionElement>(
        &self,
        o: &Global<T>,
        gradient: &Global<T>,
        lse: &Global<f32>,
        powers: &mut Global<f32>,
        delta: &mut Global<f32>,
        dq: &mut Global<f32>,
        turns: &mut Global<u32>,
        queries: u32,
        heads: u32,
        offsets: &Global<u32>,
        sequences: u32,
        strides: [u64; 4],
    ) {
        launch::threads(THREADS);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        let lane = thread_idx().x % ROW_THREADS;
        let number = block_idx().x * Self::ROWS + thread_idx().x / ROW_THREADS;
        let blocks = QueryBlocks::new(self.packed, self.rows, queries, (*offsets, sequences));
        let block = blocks.block(number / self.rows);
        let (line, row) = (block.line, block.first + number % self.rows);
        let (head, sequence) = (line % heads, line / heads);
        let mut sum = constant(0.0f32);
        let mut power = constant(f32::INFINITY);
        if number % self.rows < block.queries {
            let start = element(strides, [sequence, row, head]);
            for step in (0..self.value_dim).step_by(8 * ROW_THREADS as usize) {
                let column = lane * 8u32 + step;
                if column < self.value_dim {
                    let at = start + column as u64;
                    let o = o.at(at).cast::<u32>().load_vector::<4>();
                    let gradient = gradient.at(at).cast::<u32>().load_vector::<4>();
                    for word in 0..4 {
                        let (o, gradient) = (T::unpack(o[word]), T::unpack(gradient[word]));
                        sum += o[0] * gradient[0];
                        sum += o[1] * gradient[1];
                    }
                }
            }
            let lse = lse.at(line as u64 * queries as u64 + row as u64).load();
            power = lse.eq(f32::NEG_INFINITY).select(f32::INFINITY, lse * std::f32::consts::LOG2_E);
        }
        for mask in [1, 2, 4, 8] {
            sum += sum.shuffle_xor(mask);
        }
        if lane == 0 {
            powers.at(number).store(power);
            delta.at(number).store(sum);
        }
        if self.turns > 0 && number % self.rows == 0 && lane < self.turns {
            turns.at(number / self.rows * self.turns + lane).store(0u32);
        }
        let zeros = dq.at(number as u64 * u64::from(self.columns));
        for step in (0..self.columns).step_by(4 * ROW_THREADS as usize) {
            let column = lane * 4u32 + step;
            if column < self.columns {
                zeros.at(column).store_vector([constant(0.0f32); 4]);
            }
        }
    }
}

/// dQ in its type, times the scale of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FinishGradient {
    pub(crate) head_dim: u32,
    /// Columns of dQ in f32, and those of them that a warpgroup has of a block.
    pub(crate) columns: u32,
    pub(crate) part: u32,
    /// Queries of a block.
    pub(crate) rows: u32,
    pub(crate) packed: bool,
}

impl FinishGradient {
    /// A CTA converts one block, which it reads in the order of the backward kernel's registers: a
    /// thread has two neighboring columns of 8, of two rows. Of two groups of 8 columns, threads
    /// exchange a half with their neighbors, so that four store a sector of 32 bytes. `strides` are those
    /// of dQ: [`element`].
    #[kernel]
    pub(crate) fn finish<T: AttentionElement>(
        &self,
        sums: &Global<f32>,
        dq: &mut Global<T>,
        queries: u32,
        heads: u32,
        scale: f32,
        offsets: &Global<u32>,
        sequences: u32,
        strides: [u64; 4],
    ) {
        launch::threads(THREADS);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        let blocks = QueryBlocks::new(self.packed, self.rows, queries, (*offsets, sequences));
        let block = blocks.block(block_idx().x);
        let (head, sequence) = (block.line % heads, block.line / heads);
        let sums = sums.at(block_idx().x as u64 * u64::from(self.rows * self.columns));
        // Warpgroups of the backward kernel that had the block: each had `part` columns of 64 rows.
        let parts = self.columns / self.part;
        let threads = 128 * (self.rows / 64) * parts;
        for first in (0..threads).step_by(THREADS as usize) {
            let thread = thread_idx().x + first;
            let warpgroup = thread / 128;
            let row = warpgroup / parts * 64 + thread % 128 / 32 * 16 + thread % 32 / 4;
            let is_odd = (thread % 2).eq(1u32);
            for group in (0..self.part / 8).step_by(2) {
                let [left, right] = [group, group + 1].map(|group: u32| {
                    let values = sums.at(thread * 4 + group * 4 * threads).load_vector::<4>();
                    let [a, b, c, d] = values.map(|value| value * scale);
                    [T::pack(a, b), T::pack(c, d)]
                });
                let column = warpgroup % parts * self.part + is_odd.to_u32() * 8 + thread % 4 / 2 * 4;
                let column = column + group * 8;
                for half in 0..2 {
                    let row = row + half as u32 * 8;
                    let (kept, sent) =
                        (is_odd.select(right[half], left[half]), is_odd.select(left[half], right[half]));
                    let received = sent.shuffle_xor(1);
                    let words = [is_odd.select(received, kept), is_odd.select(kept, received)];
                    if row.lt(block.queries) & column.lt(self.head_dim) {
                        let at = element(strides, [sequence, block.first + row, head]) + column as u64;
                        dq.at(at).cast::<u32>().store_vector(words);
                    }
                }
            }
        }
    }
}

/// Threads of a CTA that sums the gradient of a sink.
const SINK_THREADS: u32 = 1024;

/// The gradient of the sink of each head: minus the sum over all queries of its weight times delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SinkGradients;

impl SinkGradients {
    /// A CTA sums over the `lines` lines of its head, of `rows` rows each, in a fixed order. `powers` and
    /// `delta` are as [`PrepareRows::prepare`] makes them.
    #[kernel]
    pub(crate) fn sum(
        &self,
        powers: &Global<f32>,
        delta: &Global<f32>,
        sinks: &Global<f32>,
        gradients: &mut Global<f32>,
        rows: u32,
        lines: u32,
    ) {
        launch::threads(SINK_THREADS);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        let head = block_idx().x;
        let sink = sinks[head] * std::f32::consts::LOG2_E;
        let mut sum = constant(0.0f32);
        for line in 0..lines {
            let start = (line * grid_dim().x + head) as u64 * rows as u64;
            for row in (thread_idx().x..rows).step_by(SINK_THREADS) {
                // The weight of a row past the last, or without a logarithm, is 0.
                let weight = fast::exp2(sink - powers.at(start + row as u64).load());
                sum -= weight * delta.at(start + row as u64).load();
            }
        }
        let sum = block::reduce_sum(sum);
        if thread_idx().x == 0 {
            gradients.at(head).store(sum);
        }
    }
}

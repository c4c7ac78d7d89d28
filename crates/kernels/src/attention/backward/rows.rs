//! What the backward kernel needs of each row, before and after: delta and lse in powers of two;
//! dQ in its type and its order.

use warpwright::layout::Error;
use warpwright::prelude::*;

use crate::attention::problem::AttentionElement;

/// Threads of a row, and of a CTA.
const ROW_THREADS: u32 = 16;
const THREADS: u32 = 256;

/// A block of lse or delta in shared memory.
pub(crate) fn row_tile(rows: u32) -> Result<TmaTile, Error> {
    TmaTile::dense::<f32>((rows, 1), Major::Mn)
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
}

impl PrepareRows {
    /// Rows of a CTA.
    pub(crate) const ROWS: u32 = THREADS / ROW_THREADS;

    /// `powers` is lse · log2(e), and `delta` is the sum of dO O; both (batch, head, query) of whole
    /// blocks. Past the last query, and for a query that sees no key, `powers` is infinite: its
    /// weights are 0.
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
    ) {
        launch::threads(THREADS);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        let lane = thread_idx().x % ROW_THREADS;
        let padded = queries.div_ceil(self.rows) * self.rows;
        let number = block_idx().x * Self::ROWS + thread_idx().x / ROW_THREADS;
        let (row, line) = (number % padded, number / padded);
        let (head, sequence) = (line % heads, line / heads);
        let mut sum = constant(0.0f32);
        let mut power = constant(f32::INFINITY);
        if row < queries {
            let start = ((sequence as u64 * queries as u64 + row as u64) * heads as u64 + head as u64)
                * u64::from(self.value_dim);
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

/// dQ in its type, (batch, query, head, d), times the scale of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FinishGradient {
    pub(crate) head_dim: u32,
    /// Columns of dQ in f32, and those of them that a warpgroup has of a block.
    pub(crate) columns: u32,
    pub(crate) part: u32,
    /// Queries of a block.
    pub(crate) rows: u32,
}

impl FinishGradient {
    /// A CTA converts one block, which it reads in the order of the backward kernel's registers.
    #[kernel]
    pub(crate) fn finish<T: AttentionElement>(
        &self,
        sums: &Global<f32>,
        dq: &mut Global<T>,
        queries: u32,
        heads: u32,
        scale: f32,
    ) {
        launch::threads(THREADS);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        let blocks = queries.div_ceil(self.rows);
        let (block, line) = (block_idx().x % blocks, block_idx().x / blocks);
        let (head, sequence) = (line % heads, line / heads);
        let sums = sums.at(block_idx().x as u64 * u64::from(self.rows * self.columns));
        let chunks = self.head_dim / 8;
        for step in (0..self.rows * chunks).step_by(THREADS as usize) {
            // A row's 8 neighboring columns: two of each lane of a quad.
            let chunk = thread_idx().x + step;
            let (row, column) = (chunk / chunks, chunk % chunks);
            let (part, group) = (column / (self.part / 8), column % (self.part / 8));
            let threads = 128 * (self.rows / 64) * (self.columns / self.part);
            let thread = (part + row / 64) * 128 + row % 64 / 16 * 32 + row % 8 * 4;
            let values = sums.at(group * (4 * threads) + thread * 4 + row % 16 / 8 * 2);
            let row = block * self.rows + row;
            if row < queries {
                let words = [0, 1, 2, 3].map(|lane: u32| {
                    let [low, high] = values.at(lane * 4).load_vector::<2>().map(|value| value * scale);
                    T::pack(low, high)
                });
                let position = (sequence as u64 * queries as u64 + row as u64) * heads as u64 + head as u64;
                let at = position * u64::from(self.head_dim) + (column * 8) as u64;
                dq.at(at).cast::<u32>().store_vector(words);
            }
        }
    }
}

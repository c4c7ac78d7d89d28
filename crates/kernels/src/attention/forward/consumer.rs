//! A consumer warpgroup's part of a tile, as it is for every type of Q, K and V.

use warpwright::arch::limits::WARPGROUP_SIZE;
use warpwright::prelude::*;

use super::configuration::{ForwardKernel, WARPGROUP_ROWS};
use super::scheduler::{ForwardProblem, Tile, TileScheduler};
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

/// The consumer's ends of the pipelines.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Stages {
    pub(super) q: Consumer,
    pub(super) k: Consumer,
    pub(super) v: Consumer,
    /// If the kernel transposes V.
    pub(super) transposed: Option<Consumer>,
}

/// A thread's scores of a block, their weights as operand A of P·V, products that are computed apart from O,
/// and parts of O: fragments of neighboring columns.
pub(super) struct Registers<E> {
    /// The stages of V as copies fill them.
    pub(super) values: Tensor<E, SharedSpace>,
    pub(super) scores: Fragment<f32>,
    pub(super) weights: Fragment<E>,
    pub(super) products: Vec<Fragment<f32>>,
    pub(super) out: Vec<Fragment<f32>>,
}

/// Where the results go, and the counter of tiles.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Results<O> {
    pub(super) o: Global<O>,
    pub(super) lse: Global<f32>,
    pub(super) taken: Global<u32>,
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

/// A block of keys of a thread's part, with the scales of the tile's heads. `masked`: some row of the
/// warpgroup does not see all its keys.
#[derive(Clone, Copy)]
pub(super) struct Block<'p, S> {
    pub(super) part: &'p Part,
    pub(super) scales: &'p S,
    pub(super) number: Reg<u32>,
    pub(super) masked: bool,
}

impl<'p, S> Block<'p, S> {
    pub(super) fn new((part, scales): &'p (Part, S), number: Reg<u32>, masked: bool) -> Self {
        Self { part, scales, number, masked }
    }
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

    /// Starts S of the next block.
    pub(super) fn start_scores<E: Element>(&self, registers: &mut Registers<E>, stages: &mut Stages) {
        let q = self.products.q.slice((All, All, stages.q.oldest()));
        let k = self.products.k.slice((All, All, stages.k.wait()));
        multiply(&self.products.scores, &mut registers.scores, &q, &k, Accumulate::No);
    }

    /// The scores of a block, scaled, through the function of scores; minus infinity where the key
    /// is not seen. Without a function they stay as they are.
    pub(super) fn map_scores<S>(
        &self,
        Block { part, number, masked, .. }: Block<'_, S>,
        scale: Reg<f32>,
        scores: &mut Fragment<f32>,
    ) {
        let first = (number * self.kernel.block) as i32 + part.column;
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
    pub(super) fn store<O: AttentionElement>(
        &self,
        part: &Part,
        logarithms: [Reg<f32>; 2],
        out: &[Fragment<f32>],
        results: Results<O>,
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
                        words.at((first + column_of(i)) / 2).store(O::pack(out.get(i), out.get(i + 1)));
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

//! The kernel: a thread has a vector of channels of a run of tokens.
//!
//! ```text
//! run of a thread      x[first - 3] ..  x[first] x[first + 1] ..
//!                      before the run   all loads are in flight at once
//! ```
//!
//! Where a sequence begins in a run or just before it, the columns before its first token are those of
//! its state, and each token of the run loads its columns.

use warpwright::prelude::*;

use crate::columns::{VectorGrid, VectorPosition};
use crate::overlap;
use crate::rows::{Chunk, RowElement};

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConvKernel {
    /// Of the channels.
    pub(super) grid: VectorGrid,
    /// Columns that a result depends on: 2 or 4.
    pub(super) width: u32,
    pub(super) has_bias: bool,
    /// Whether sequences begin with a state; else with zeros.
    pub(super) has_initial: bool,
    /// Tokens of a thread.
    pub(super) run: u32,
    /// Whether the launch overlaps its predecessor.
    pub(super) overlaps: bool,
}

/// The weights and the bias of a thread's channels.
struct Filter {
    /// By lane, then by column.
    weights: Vec<Reg<f32>>,
    bias: Vec<Reg<f32>>,
}

/// Where the columns of a sequence are.
#[derive(Clone, Copy, DeviceValue)]
struct Columns<T> {
    x: Global<T>,
    of_x: [Reg<u32>; 2],
    /// (sequences, width - 1, channels).
    initial: Global<T>,
}

/// A sequence, and the token that is past its end.
#[derive(Clone, Copy, DeviceValue)]
struct Sequence {
    number: Reg<u32>,
    start: Reg<u32>,
    end: Reg<u32>,
}

impl ConvKernel {
    /// The tokens of packed sequences: sequence i has those from `starts[i]` to `starts[i + 1]`.
    /// `x` is a matrix of `tokens` rows, `y` (tokens, channels); `initial` and `last` are states.
    /// The rows of the grid are the sequences, for their last states, and then the runs.
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        weights: &Global<T>,
        bias: &Global<T>,
        starts: &Global<u32>,
        initial: &Global<T>,
        last: &mut Global<T>,
        y: &mut Global<T>,
        of_x: [u32; 2],
        tokens: u32,
        sequences: u32,
    ) {
        overlap::launch(self.overlaps);
        overlap::wait(self.overlaps);
        let columns = Columns { x: *x, of_x, initial: *initial };
        for at in self.grid.positions(sequences + tokens.div_ceil(self.run)) {
            if at.is_inside {
                if at.row < sequences {
                    let (start, end) = (starts[at.row], starts[at.row + 1]);
                    let sequence = Sequence { number: at.row, start, end };
                    let columns = self.before(&columns, &sequence, end, at.column);
                    for (index, column) in columns.iter().enumerate() {
                        column.store(self.state_row(*last, at, constant(index as u32)), Access::new());
                    }
                } else {
                    let first = (at.row - sequences) * self.run;
                    let filter = self.filter(*weights, *bias, at.column);
                    self.run_of(&columns, (*starts, sequences), (first, tokens), at.column, &filter, *y);
                }
            }
        }
    }
}

impl Filter {
    /// The result of the columns, the oldest first, each a vector of channels.
    #[track_caller]
    fn apply<T: RowElement>(&self, columns: &[Chunk<T>]) -> Chunk<T> {
        let width = columns.len();
        let columns: Vec<_> = columns.iter().map(Chunk::values).collect();
        let result = |lane: usize| {
            let sum = (0..width).fold(self.bias[lane], |sum, column| {
                columns[column][lane].mul_add(self.weights[lane * width + column], sum)
            });
            silu::<T>(sum)
        };
        Chunk::of(&(0..self.bias.len()).map(result).collect::<Vec<_>>())
    }
}

/// x · sigmoid(x), which is rounded to `T`. The special function units are exact enough for 16 bits:
/// relative error below 2^-21 + |x| 2^-23, in half of the instructions.
#[track_caller]
fn silu<T: RowElement>(x: Reg<f32>) -> Reg<f32> {
    if T::BYTES == 4 {
        return x.silu();
    }
    // Minus infinity times zero would be NaN.
    let x = x.max_nan(-200.0);
    x * fast::recip(fast::exp(-x) + 1.0)
}

impl ConvKernel {
    #[track_caller]
    fn load<T: RowElement>(&self, from: Global<T>) -> Chunk<T> {
        Chunk::load(from, self.grid.lanes, Access::new())
    }

    /// A row of the state of sequence `at.row`.
    #[track_caller]
    fn state_row<T: RowElement>(&self, state: Global<T>, at: VectorPosition, index: Reg<u32>) -> Global<T> {
        let row = at.row * (self.width - 1) + index;
        VectorPosition { row, ..at }.of(state, constant(self.grid.columns))
    }

    #[track_caller]
    fn filter<T: RowElement>(&self, weights: Global<T>, bias: Global<T>, channel: Reg<u32>) -> Filter {
        let VectorGrid { lanes, .. } = self.grid;
        let load = |from, lanes| Chunk::load(from, lanes, overlap::read_once(self.overlaps)).values();
        let bias = match self.has_bias {
            true => load(bias.at(channel), lanes),
            false => vec![constant(0f32); lanes as usize],
        };
        Filter { weights: load(weights.at(channel.mul_wide(self.width)), lanes * self.width), bias }
    }
}

#[device]
impl ConvKernel {
    /// A column of a sequence: of its state where `token` is before its start. Differences of
    /// tokens wrap.
    fn column<T: RowElement>(
        &self,
        columns: &Columns<T>,
        sequence: &Sequence,
        token: Reg<u32>,
        channel: Reg<u32>,
    ) -> Chunk<T> {
        let missing = (sequence.start - token).bit_cast::<i32>();
        let mut chunk = Chunk::<T>::filled(0, self.grid.lanes);
        if missing <= 0 {
            let at = VectorPosition { is_inside: constant(true), row: token, column: channel };
            chunk = self.load(at.of_columns(columns.x, columns.of_x));
        } else if self.has_initial {
            let row = self.width - 1 - missing.bit_cast::<u32>();
            let at = VectorPosition { is_inside: constant(true), row: sequence.number, column: channel };
            chunk = self.load(self.state_row(columns.initial, at, row));
        }
        chunk
    }

    /// The columns of a sequence before `token`, the oldest first.
    fn before<T: RowElement>(
        &self,
        columns: &Columns<T>,
        sequence: &Sequence,
        token: Reg<u32>,
        channel: Reg<u32>,
    ) -> Vec<Chunk<T>> {
        let mut before = vec![];
        for distance in (1..self.width).rev() {
            before.push(self.column(columns, sequence, token - distance, channel));
        }
        before
    }

    /// The results of the run that begins at token `first`.
    fn run_of<T: RowElement>(
        &self,
        columns: &Columns<T>,
        (starts, sequences): (Global<u32>, Reg<u32>),
        (first, tokens): (Reg<u32>, Reg<u32>),
        channel: Reg<u32>,
        filter: &Filter,
        y: Global<T>,
    ) {
        let at = |token: Reg<u32>| VectorPosition { is_inside: constant(true), row: token, column: channel };
        // Of tokens that are none, another one's column, which no result depends on.
        let before = self.width - 1;
        let all: Vec<Chunk<T>> = (0..before + self.run)
            .map(|index| ((first + index).max(before) - before).min(tokens - 1))
            .map(|token| self.load(at(token).of_columns(columns.x, columns.of_x)))
            .collect();
        let number = last_at_most(starts, sequences, first);
        let mut sequence = Sequence { number, start: starts[number], end: starts[number + 1] };
        if first + self.run <= sequence.end && first >= sequence.start + before {
            for (index, columns) in all.windows(self.width as usize).enumerate() {
                let result = filter.apply(columns);
                result.store(at(first + index as u32).of(y, constant(self.grid.columns)), Access::new());
            }
        } else {
            for token in first..(first + self.run).min(tokens) {
                while token >= sequence.end && sequence.number + 1 < sequences {
                    let number = sequence.number + 1;
                    sequence = Sequence { number, start: sequence.end, end: starts[number + 1] };
                }
                let mut all = self.before(columns, &sequence, token, channel);
                all.push(self.load(at(token).of_columns(columns.x, columns.of_x)));
                filter.apply(&all).store(at(token).of(y, constant(self.grid.columns)), Access::new());
            }
        }
    }
}

/// The index of the last of `count` ascending numbers that is at most `value`; 0 if none is.
#[device]
fn last_at_most(numbers: Global<u32>, count: Reg<u32>, value: Reg<u32>) -> Reg<u32> {
    let (mut low, mut high) = (constant(0u32), count);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if numbers[middle] <= value {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

//! The second kernel of a prefill: the state of a head from chunk to chunk.
//!
//! ```text
//! producer, one thread   K, Q, V -> stage     chunk_factors ends   T, P, factors -> stage   ..
//! warpgroup 0            | Y, Z | X, Δ, S, O       | Y, Z | ..     64 columns of v
//! warpgroup 1                   | Y, Z | X, Δ, S, O       | ..     the other 64
//! ```
//!
//! `head_state` has the products of a chunk, and `stages` the shared memory of three of them. A CTA has
//! a head of a sequence, and both warpgroups share what is copied; with fewer heads than half of the
//! SMs, a CTA has one warpgroup, and a head two CTAs.
//!
//! Estimate for an H200: a warpgroup alone takes 1.17 us for a chunk, of which the products are 0.52
//! (32,768 tokens: 0.6 ms). Of 8 sequences of 1,024 tokens and 32 heads, a chunk and head moves 67 KiB
//! from and to DRAM where the heads of a key are on SMs at the same time: 1.9 us on 132 SMs, and two
//! warpgroups in turns take less. That is 243 MB, 58 us.

use warpwright::prelude::*;

use super::chunk::{Columns, first_chunk, square_tile};
use super::head_state::{COLUMNS, HeadState, round};
use super::output::Output;
use super::stages::{STAGES, Stages, Turn};
use crate::delta_rule::problem::{CHUNK, HEAD, Heads, StateElement};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkRecurrence {
    /// The heads.
    pub heads: Heads,
    /// Warpgroups that multiply, of 64 columns of v each: 1 or 2.
    pub consumers: u32,
    /// Whether `state` has initial states; otherwise they are zero.
    pub has_initial: bool,
}

impl ChunkRecurrence {
    /// CTAs along the columns of v of a head.
    pub fn splits(&self) -> u32 {
        HEAD / (self.consumers * COLUMNS)
    }

    /// `qkv` is (tokens, [`Heads::columns`]). Sequence i has the tokens from `sequence_starts[i]` to
    /// `sequence_starts[i + 1]`. `inverses`, `scores` and `factors` are from
    /// [`ChunkFactors`](super::chunk_factors::ChunkFactors). `state` is (sequences, value heads, 128
    /// k, 128 v), and `o` (tokens, value heads, 128).
    #[kernel]
    pub fn run<S: StateElement>(
        &self,
        qkv: &TensorMap,
        inverses: &Global<bf16>,
        scores: &Global<bf16>,
        factors: &Global<f32>,
        sequence_starts: &Global<u32>,
        state: &mut Global<S>,
        o: &mut Global<bf16>,
    ) {
        let (consumers, columns) = (self.consumers, self.consumers * COLUMNS);
        let [producer, consumer] = roles(self.role_sizes());
        qkv.boxes(square_tile());
        let stages = Stages::new(consumers);
        let (warp, lane) = (consumer.thread() / 32, consumer.thread() % 32);
        let output = Output::of_warp(consumers * 4, warp, lane, self.heads.values * HEAD);
        stages.begin();
        launch::grid_dependency_launch();
        sync_threads();

        // The last sequences first: their factors are in L2.
        let sequence = grid_dim().y - 1 - block_idx().y;
        let head_index = block_idx().x / self.splits();
        let first_column = block_idx().x % self.splits() * columns;
        let (start, end) = (sequence_starts[sequence], sequence_starts[sequence + 1]);
        let chunks = (end - start).div_ceil(CHUNK);

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let at = Columns::of(self.heads, head_index);
                let at = Columns { v: at.v + first_column, ..at };
                // `chunk_factors` lets this kernel begin when its own inputs are complete, and `qkv` is
                // one of them.
                for chunk in 0..chunks.min(STAGES) {
                    stages.load_tokens(qkv, at, start + chunk * CHUNK, Turn::of(chunk));
                }
                launch::grid_dependency_wait();
                let first_unit = first_chunk(start, sequence) * self.heads.values + head_index;
                for chunk in 0..chunks {
                    let turn = Turn::of(chunk);
                    if chunk >= STAGES {
                        stages.empty.at(turn.stage).wait_parity(turn.parity ^ 1);
                        stages.load_tokens(qkv, at, start + chunk * CHUNK, turn);
                    }
                    let unit = (first_unit + chunk * self.heads.values).convert::<u64>();
                    stages.load_factors((*inverses, *scores, *factors), unit, turn);
                }
            }
        } else {
            consumer.begin();
            launch::grid_dependency_wait();
            let row = self.heads.values * HEAD;
            let mut head = HeadState::new(stages, consumer);
            let o = o
                .at(start.convert::<u64>() * u64::from(row))
                .at(head_index * HEAD + first_column + warp * 16);

            // This thread's elements of the state: (v, k).
            let at = head.update.thread(consumer.thread()).c_coordinates((columns, HEAD));
            let states =
                (sequence * self.heads.values + head_index).convert::<u64>() * u64::from(HEAD * HEAD);
            let state = state.at(states).at(first_column);
            head.s.clear();
            if self.has_initial {
                for i in 0..head.s.len() {
                    head.s.set(i, state.at(at.column(i) * HEAD + at.row(i)).load().convert::<f32>());
                }
            }

            if chunks > 0 {
                let length_of = |chunk: Reg<u32>| (end - start - chunk * CHUNK).min(CHUNK);
                let o_of = |chunk: Reg<u32>| o.at(chunk.convert::<u64>() * u64::from(CHUNK * row));
                let first = constant(0u32);
                head.begin_turns();
                round(&mut head.s_rounded, &head.s);
                stages.full.at(0).wait_parity(0);
                let mut keep = head.replace(first, length_of(first), None);
                for chunk in 1..chunks {
                    let turn = Turn::of(chunk);
                    let before = Turn::of(chunk - 1).stage;
                    head.advance(before, &keep);
                    stages.full.at(turn.stage).wait_parity(turn.parity);
                    let output = (stages.empty.at(before), output, o_of(chunk - 1));
                    keep = head.replace(turn.stage, length_of(chunk), Some(output));
                }
                let last = chunks - 1;
                head.advance(Turn::of(last).stage, &keep);
                wait_multiplications(0);
                output.stage(&Output::round(&head.read));
                output.store(&output.load(), o_of(last), length_of(last));
            }
            for i in 0..head.s.len() {
                state.at(at.column(i) * HEAD + at.row(i)).store(head.s.get(i).convert::<S>());
            }
        }
    }

    /// The producer and the consumers. One consumer may use 256 registers per thread without `setmaxnreg`.
    fn role_sizes(&self) -> [RoleSize; 2] {
        match self.consumers {
            1 => [warpgroups(1), warpgroups(1)],
            consumers => [warpgroups(1).registers(40), warpgroups(consumers).registers(232)],
        }
    }
}

//! The second kernel of a prefill: the state of a head from chunk to chunk.
//!
//! ```text
//! producer, one thread   K, Q, V -> stage     chunk_factors ends   T, P, factors -> stage   ..
//! warpgroup 0            | Y, Z | X, Δ, S, O       | Y, Z | ..     64 columns of v
//! warpgroup 1                   | Y, Z | X, Δ, S, O       | ..     the other 64
//! ```
//!
//! `head_state` has the products of a chunk, and `stages` the shared memory of two or three of them. A CTA has
//! a head of a sequence, and both warpgroups share what is copied; with fewer heads than half of the
//! SMs, a CTA has one warpgroup, and a head two CTAs.
//!
//! Estimate for an H200: a warpgroup alone takes 1.17 us for a chunk, of which the products are 0.52
//! (32,768 tokens: 0.6 ms). Of 8 sequences of 1,024 tokens and 32 heads, a chunk and head moves 67 KiB
//! from and to DRAM where the heads of a key are on SMs at the same time: 1.9 us on 132 SMs.
//! That is 243 MB, 58 us.

use warpwright::prelude::*;

use super::chunk::{Columns, first_chunk, square_tile};
use super::head_state::{COLUMNS, HeadState};
use super::output::Output;
use super::parts::round;
use super::stages::Stages;
use crate::delta_rule::problem::{CHUNK, HEAD, Heads, Precision};
use crate::rows::RowElement;

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkRecurrence {
    /// The heads.
    pub heads: Heads,
    /// Warpgroups that multiply, of 64 columns of v each: 1 or 2.
    pub consumers: u32,
    /// Whether `state` has initial states; otherwise they are zero.
    pub has_initial: bool,
    /// What the products multiply.
    pub precision: Precision,
}

impl ChunkRecurrence {
    /// CTAs along the columns of v of a head.
    fn splits(&self) -> u32 {
        HEAD / (self.consumers * COLUMNS)
    }

    /// `qkv` is (tokens, [`Heads::columns`]). Sequence i has the tokens from `sequence_starts[i]` to
    /// `sequence_starts[i + 1]`. `inverses`, `scores` and `factors` are from
    /// [`ChunkFactors`](super::chunk_factors::ChunkFactors) of the same precision. `state` is (sequences, value heads, 128
    /// k, 128 v), and `o` (tokens, value heads, 128).
    #[kernel]
    pub fn run<S: RowElement>(
        &self,
        qkv: &TensorMap,
        inverses: &Global<bf16>,
        scores: &Global<bf16>,
        factors: &Global<f32>,
        sequence_starts: &Global<u32>,
        state: &mut Global<S>,
        o: &mut Global<bf16>,
        sequences: u32,
    ) {
        let [producer, consumer] = roles(self.role_sizes());
        qkv.boxes(square_tile());
        let stages = Stages::new(self.consumers, self.precision);
        let (warp, lane) = (consumer.thread() / 32, consumer.thread() % 32);
        let output = Output::of_warp(self.consumers * 4, warp, lane, self.heads.values * HEAD);
        stages.begin();
        launch::grid_dependency_launch();
        sync_threads();
        let (chains, step) = (sequences * self.chains_of_sequence(), grid_dim().x);

        // Chunks of the chains before.
        let mut passed = constant(0u32);
        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                for index in (block_idx().x..chains).step_by(step) {
                    let chain = self.chain(index, *sequence_starts, sequences);
                    // `chunk_factors` lets this kernel begin when its own inputs are complete, and
                    // `qkv` is one of them.
                    let early = passed.eq(0).select(chain.chunks.min(stages.count()), 0u32);
                    for chunk in 0..early {
                        let stage = stages.state(chunk).stage();
                        stages.load_tokens(qkv, chain.columns, chain.token(chunk), stage);
                    }
                    launch::grid_dependency_wait();
                    for chunk in 0..chain.chunks {
                        let next = stages.state(passed + chunk);
                        if chunk >= early {
                            stages.pipeline.acquire(next);
                            stages.load_tokens(qkv, chain.columns, chain.token(chunk), next.stage());
                        }
                        let unit = (chain.first_unit + chunk * self.heads.values).convert::<u64>();
                        stages.load_factors((*inverses, *scores, *factors), unit, next.stage());
                    }
                    passed += chain.chunks;
                }
            }
        } else {
            consumer.begin();
            launch::grid_dependency_wait();
            let row = self.heads.values * HEAD;
            let mut head = HeadState::new(stages, consumer);
            head.begin_turns();
            // This thread's elements of the state: (v, k).
            let columns = self.consumers * COLUMNS;
            let at = head.update.thread(consumer.thread()).c_coordinates((columns, HEAD));
            for index in (block_idx().x..chains).step_by(step) {
                let chain = self.chain(index, *sequence_starts, sequences);
                let state = state.at(chain.state());
                head.s.clear();
                if self.has_initial {
                    for i in 0..head.s.len() {
                        head.s.set(i, state.at(at.column(i) * HEAD + at.row(i)).load().convert::<f32>());
                    }
                }
                let o = o.at(chain.start.convert::<u64>() * u64::from(row)).at(chain.column + warp * 16);
                if chain.chunks > 0 {
                    let o_of = |chunk: Reg<u32>| o.at(chunk.convert::<u64>() * u64::from(CHUNK * row));
                    round(&mut head.s_rounded, &head.s);
                    let next = stages.state(passed);
                    stages.pipeline.wait(next);
                    let mut keep = head.replace(next.stage(), chain.length(constant(0u32)), None);
                    let mut before = next.stage();
                    for chunk in 1..chain.chunks {
                        let next = stages.state(passed + chunk);
                        head.advance(before, &keep);
                        stages.pipeline.wait(next);
                        let output = (before, output, o_of(chunk - 1));
                        keep = head.replace(next.stage(), chain.length(chunk), Some(output));
                        before = next.stage();
                    }
                    let last = chain.chunks - 1;
                    head.advance(before, &keep);
                    wait_multiplications(0);
                    stages.pipeline.release(before, lane);
                    output.stage(&Output::round(&head.read));
                    output.store(&output.load(), o_of(last), chain.length(last));
                    passed += chain.chunks;
                }
                for i in 0..head.s.len() {
                    state.at(at.column(i) * HEAD + at.row(i)).store(head.s.get(i).convert::<S>());
                }
            }
        }
    }

    /// The chains of a sequence: one for each head and part of its columns of v.
    pub fn chains_of_sequence(&self) -> u32 {
        self.heads.values * self.splits()
    }

    /// The chain of that index: the last sequences are the first, for their factors are in L2.
    #[track_caller]
    fn chain(&self, index: Reg<u32>, sequence_starts: Global<u32>, sequences: Reg<u32>) -> Chain {
        let of_sequence = self.chains_of_sequence();
        let sequence = sequences - 1 - index / of_sequence;
        let (start, end) = (sequence_starts[sequence], sequence_starts[sequence + 1]);
        let head = index % of_sequence / self.splits();
        let first_column = index % self.splits() * (self.consumers * COLUMNS);
        let columns = Columns::of(self.heads, head);
        Chain {
            start,
            end,
            chunks: (end - start).div_ceil(CHUNK),
            columns: Columns { v: columns.v + first_column, ..columns },
            column: head * HEAD + first_column,
            first_unit: first_chunk(start, sequence) * self.heads.values + head,
            head: sequence * self.heads.values + head,
            first_column,
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

/// The chunks of a sequence and a head, for one CTA.
#[derive(Clone, Copy, DeviceValue)]
struct Chain {
    /// The sequence's first token.
    start: Reg<u32>,
    /// The token past its last.
    end: Reg<u32>,
    chunks: Reg<u32>,
    /// Where the CTA's vectors begin in `qkv`.
    columns: Columns,
    /// The head among those of all sequences.
    head: Reg<u32>,
    /// The CTA's first column of v in the head.
    first_column: Reg<u32>,
    /// The same in a row of the output.
    column: Reg<u32>,
    /// The first chunk among the chunks and heads of all.
    first_unit: Reg<u32>,
}

impl Chain {
    /// The first token of a chunk.
    #[track_caller]
    fn token(&self, chunk: Reg<u32>) -> Reg<u32> {
        self.start + chunk * CHUNK
    }

    /// The tokens of a chunk.
    #[track_caller]
    fn length(&self, chunk: Reg<u32>) -> Reg<u32> {
        (self.end - self.token(chunk)).min(CHUNK)
    }

    /// The first element of the state, (128 k, 128 v), that the CTA has.
    #[track_caller]
    fn state(&self) -> Reg<u64> {
        self.head.convert::<u64>() * u64::from(HEAD * HEAD) + self.first_column.convert::<u64>()
    }
}

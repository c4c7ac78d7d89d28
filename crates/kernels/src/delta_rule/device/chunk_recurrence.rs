//! The second kernel of a prefill: the state of a head from chunk to chunk.
//!
//! With T, P and the factors of `chunk_factors`, a chunk takes five products. All are computed
//! transposed, 64 columns of v to a warpgroup: S is then operand A from registers, so is every
//! intermediate, and nothing but the output is written to shared memory.
//!
//! ```text
//! rows of v           product                    operand A, registers   operand B, shared memory
//! Yᵀ = Sᵀ Kᵀ          (64 v, 64 tokens)          S in bf16              K   (token, 128)
//! Zᵀ = Sᵀ Qᵀ          (64 v, 64 tokens)          S in bf16              Q   (token, 128)
//! Xᵀ = β Vᵀ - β e^G Yᵀ / |k|                     registers, f32; Vᵀ by `ldmatrix` transposed
//! Δᵀ = Xᵀ + Xᵀ (T - I)ᵀ                          X in bf16              T - I (token, token)
//! Sᵀ = e^(G_64) Sᵀ + (e^(G_64 - G) Δ / |k|)ᵀ K   Δ in bf16              K   (128, token): transposed by its descriptor
//! Oᵀ = e^G Zᵀ / |q| + Δᵀ Pᵀ                      Δ in bf16              P   (token, token)
//! ```
//!
//! S is f32 in registers from the first chunk to the last (64 of them a thread). Its rounding to
//! bf16 affects what a chunk reads of it; what stays is summed in f32.
//!
//! Estimate for an H200: the products take 1,024 cycles of the tensor cores, and four of them depend on
//! one another with about 130 cycles each of latency and conversion in between: 0.85 us a chunk, 27 us
//! for 2,048 tokens, 0.44 ms for 32,768. One sequence of 32 heads has 64 warpgroups of work, each on
//! an SM of its own; with more sequences than SMs, a CTA has two warpgroups that share K, Q, T and
//! P, and the copies of a chunk are 57 to 65 KiB in 1 us: 6 TB/s from L2 over 100 SMs at most, so
//! that two or three stages suffice.

use warpwright::prelude::*;

use super::chunk::{
    BOXES, Columns, FACTORS, Factor, SQUARE, first_chunk, key_tile, key_tile_over_tokens, load_boxes, pair,
    square_tile, swizzled, tiles,
};
use crate::delta_rule::problem::StateElement;
use crate::delta_rule::problem::{CHUNK, HEAD, Heads};
use crate::rows::RowElement;

/// Columns of v of a warpgroup.
const COLUMNS: u32 = 64;
/// Chunks that shared memory holds.
const STAGES: u32 = 3;
/// Elements from token to token of a warp's part of the output in shared memory: 16, and 8 so that
/// 8 tokens are in different banks.
const PITCH: u32 = 24;

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
        let allocate = |boxes: u32| dynamic_shared_aligned::<bf16>(STAGES * boxes * SQUARE, 1024);
        let (k_memory, q_memory, v_memory) = (allocate(BOXES), allocate(BOXES), allocate(consumers));
        let (inverse_memory, score_memory) = (allocate(1), allocate(1));
        let factor_memory = dynamic_shared_aligned::<f32>(STAGES * FACTORS, 16);

        // A warp arrives at `empty` when it has read the stage.
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        if thread_idx().x == 0 {
            for stage in 0..STAGES {
                full.at(stage).init(1);
                empty.at(stage).init(consumers * 4);
            }
            fence_mbarrier_init();
        }
        launch::grid_dependency_launch();
        launch::grid_dependency_wait();
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
                for chunk in 0..chunks {
                    let (stage, parity) = (chunk % STAGES, chunk / STAGES % 2);
                    let (token, barrier) = (start + chunk * CHUNK, full.at(stage));
                    let unit = (first_chunk(start, sequence) + chunk) * self.heads.values + head_index;
                    let unit = unit.convert::<u64>();
                    empty.at(stage).wait_parity(parity ^ 1);
                    barrier.arrive_and_expect((2 * BOXES + consumers + 2) * SQUARE * 2 + FACTORS * 4);
                    let of = |memory: Shared<bf16>, boxes: u32| memory.at(stage * (boxes * SQUARE));
                    load_boxes(qkv, (at.k, token), BOXES, of(k_memory, BOXES), barrier);
                    load_boxes(qkv, (at.q, token), BOXES, of(q_memory, BOXES), barrier);
                    load_boxes(
                        qkv,
                        (at.v + first_column, token),
                        consumers,
                        of(v_memory, consumers),
                        barrier,
                    );
                    let square = unit * u64::from(SQUARE);
                    bulk::load(inverses.at(square), SQUARE, of(inverse_memory, 1), barrier);
                    bulk::load(scores.at(square), SQUARE, of(score_memory, 1), barrier);
                    let from = factors.at(unit * u64::from(FACTORS));
                    bulk::load(from, FACTORS, factor_memory.at(stage * FACTORS), barrier);
                }
            }
        } else {
            consumer.begin();
            let (thread, row) = (consumer.thread(), self.heads.values * HEAD);
            let (warp, lane) = (thread / 32, thread % 32);
            let (memory, consumer) = ((k_memory, q_memory, v_memory), (consumer, consumers));
            let mut head = HeadState::new(memory, (inverse_memory, score_memory, factor_memory), consumer);
            let output = Output::of_warp(consumers * 4, warp, lane, row);
            let o = o
                .at(start.convert::<u64>() * u64::from(row))
                .at(head_index * HEAD + first_column + warp * 16);

            // This thread's elements of the state: (v, k).
            let at = head.update.thread(thread).c_coordinates((columns, HEAD));
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
                round(&mut head.s_rounded, &head.s);
                full.at(0).wait_parity(0);
                let mut keep = head.replace(first, length_of(first), None);
                for chunk in 1..chunks {
                    let (stage, parity) = (chunk % STAGES, chunk / STAGES % 2);
                    head.advance((chunk - 1) % STAGES, &keep);
                    full.at(stage).wait_parity(parity);
                    let (o, before) = (o_of(chunk - 1), empty.at((chunk - 1) % STAGES));
                    keep = head.replace(stage, length_of(chunk), Some((before, output, o)));
                }
                let last = chunks - 1;
                head.advance(last % STAGES, &keep);
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

/// A head's columns of v as a warpgroup has them, and the operands of the chunks.
struct HeadState {
    over_v: TiledMma,
    update: TiledMma,
    /// Operands B by stage.
    k: MatrixOperand,
    q: MatrixOperand,
    inverse: MatrixOperand,
    score: MatrixOperand,
    k_over_tokens: MatrixOperand,
    memory: (Shared<bf16>, Shared<bf16>),
    factors: Shared<f32>,
    thread: Reg<u32>,
    warpgroup: Reg<u32>,
    consumers: u32,
    /// The state, (v, k), and rounded as operand A.
    s: Fragment<f32>,
    s_rounded: Fragment<bf16>,
    /// X, then Δ, of a chunk: (v, token).
    delta: Fragment<f32>,
    delta_rounded: Fragment<bf16>,
    delta_kept: Fragment<bf16>,
    /// Z, then O, of a chunk: (v, token).
    read: Fragment<f32>,
}

#[device]
impl HeadState {
    fn new(
        (k, q, v): (Shared<bf16>, Shared<bf16>, Shared<bf16>),
        (inverse, score, factors): (Shared<bf16>, Shared<bf16>, Shared<f32>),
        (consumer, consumers): (Role, u32),
    ) -> Self {
        let over_v = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_RS", consumers);
        let update = TiledMma::warpgroups("SM90_64x128x16_F32BF16BF16_RS", consumers);
        let (rows, thread) = (consumers * COLUMNS, consumer.thread());
        let (of_v, of_update) = (over_v.thread(thread), update.thread(thread));
        Self {
            k: over_v.b_operand(&tiles(k, key_tile(), STAGES)),
            q: over_v.b_operand(&tiles(q, key_tile(), STAGES)),
            inverse: over_v.b_operand(&tiles(inverse, square_tile(), STAGES)),
            score: over_v.b_operand(&tiles(score, square_tile(), STAGES)),
            k_over_tokens: update.b_operand(&tiles(k, key_tile_over_tokens(), STAGES)),
            memory: (k, v),
            factors,
            warpgroup: consumer.warpgroup(),
            thread,
            consumers,
            s: of_update.c_fragment((rows, HEAD)),
            s_rounded: of_v.a_fragment((rows, HEAD)),
            delta: of_v.c_fragment((rows, CHUNK)),
            delta_rounded: of_v.a_fragment((rows, CHUNK)),
            delta_kept: of_update.a_fragment((rows, CHUNK)),
            read: of_v.c_fragment((rows, CHUNK)),
            over_v,
            update,
        }
    }

    /// Δ and Z of the chunk in `stage`, and its `Factor::Keep`. Beside the first product, the output of
    /// the chunk before leaves its registers, and its stage is released. It is stored beside the last
    /// product: Δ depends on all that comes before, and nothing on the store. What is loaded then comes
    /// before the store, whose accesses to shared memory would delay it.
    fn replace(
        &mut self,
        stage: Reg<u32>,
        length: Reg<u32>,
        before: Option<(Mbarrier, Output, Global<bf16>)>,
    ) -> [Reg<f32>; TOKENS] {
        let (b, lane) = ((All, All, stage), self.thread % 32);
        if length < CHUNK {
            self.clear_rows(stage, length);
        }
        multiply(&self.over_v, &mut self.delta, &self.s_rounded, &self.k.slice(b), Accumulate::No);
        let words = before.as_ref().map(|_| {
            wait_multiplications(1);
            Output::round(&self.read)
        });
        multiply(&self.over_v, &mut self.read, &self.s_rounded, &self.q.slice(b), Accumulate::No);
        if let (Some((empty, output, _)), Some(words)) = (&before, &words) {
            sync_warp(ALL_LANES);
            if lane == 0 {
                empty.arrive();
            }
            output.stage(words);
        }
        let factors = TokenFactors::of(self.factors.at(stage * FACTORS), lane);
        let v_box = self.memory.1.at((stage * self.consumers + self.warpgroup) * SQUARE);
        let v = transposed_values(v_box, self.thread / 32 % 4 * 16, lane);
        let (beta, recall) = (factors.load(Factor::Beta), factors.load(Factor::Recall));
        wait_multiplications(1);
        for i in 0..self.delta.len() {
            let replaced = beta[token(i)] * value(&v, i) - recall[token(i)] * self.delta.get(i);
            self.delta.set(i, replaced);
        }
        round(&mut self.delta_rounded, &self.delta);
        let inverse = self.inverse.slice(b);
        multiply(&self.over_v, &mut self.delta, &self.delta_rounded, &inverse, Accumulate::Yes);
        let decay = factors.decay();
        let keep = factors.load(Factor::Keep);
        let stored = before.map(|(_, output, o)| (output, output.load(), o));
        for i in 0..self.s.len() {
            self.s.set(i, self.s.get(i) * decay);
        }
        if let Some((output, pieces, o)) = stored {
            output.store(&pieces, o, constant(CHUNK));
        }
        wait_multiplications(0);
        keep
    }

    /// The state after the chunk in `stage`, and its output: this product may be in flight.
    fn advance(&mut self, stage: Reg<u32>, keep: &[Reg<f32>; TOKENS]) {
        let b = (All, All, stage);
        let factors = TokenFactors::of(self.factors.at(stage * FACTORS), self.thread % 32);
        let read = factors.load(Factor::Read);
        for i in (0..self.delta.len()).step_by(2) {
            let kept = [i, i + 1].map(|i| self.delta.get(i) * keep[token(i)]);
            self.delta_kept.set_word(i, pair(kept[0], kept[1]));
        }
        let k = self.k_over_tokens.slice(b);
        multiply(&self.update, &mut self.s, &self.delta_kept, &k, Accumulate::Yes);
        round(&mut self.delta_rounded, &self.delta);
        for i in 0..self.read.len() {
            self.read.set(i, self.read.get(i) * read[token(i)]);
        }
        multiply(&self.over_v, &mut self.read, &self.delta_rounded, &self.score.slice(b), Accumulate::Yes);
        wait_multiplications(1);
        round(&mut self.s_rounded, &self.s);
    }

    /// Zeros for the rows of K and V past the end of a sequence: TMA has copied those of the next
    /// one, which may be infinite or NaN. All consumers make the call.
    fn clear_rows(&self, stage: Reg<u32>, length: Reg<u32>) {
        let k = self.memory.0.at(stage * (BOXES * SQUARE));
        let v = self.memory.1.at(stage * (self.consumers * SQUARE));
        // A warp has a box; a row of it is 32 words, whatever their order.
        let (index, word) = (self.thread / 32, self.thread % 32);
        for row in length..CHUNK {
            let at = row * (CHUNK / 2) + word;
            if index < BOXES {
                k.cast::<u32>().at(index * (SQUARE / 2) + at).store(0u32);
            } else if index < BOXES + self.consumers {
                v.cast::<u32>().at((index - BOXES) * (SQUARE / 2) + at).store(0u32);
            }
        }
        fence_proxy_async_shared();
        NamedBarrier::new(1, self.consumers * 128).sync();
    }
}

/// The index of element `i` of an accumulator among its thread's 16 tokens: pairs of neighbors, in
/// turn of one row and of another.
fn token(i: u32) -> usize {
    (i / 4 * 2 + i % 2) as usize
}

/// An accumulator (m, n) as operand A (m, k) with k = n: a thread has the same elements of both, in
/// the same order.
#[track_caller]
fn round(to: &mut Fragment<bf16>, from: &Fragment<f32>) {
    for i in (0..from.len()).step_by(2) {
        to.set_word(i, pair(from.get(i), from.get(i + 1)));
    }
}

/// Tokens of a thread.
const TOKENS: usize = 16;

/// The factors of a chunk in shared memory, as a thread needs them: those of its 16 tokens.
#[derive(Clone, Copy)]
struct TokenFactors {
    chunk: Shared<f32>,
    own: Shared<f32>,
}

impl TokenFactors {
    #[track_caller]
    fn of(chunk: Shared<f32>, lane: Reg<u32>) -> Self {
        Self { chunk, own: chunk.at(lane % 4 * 2) }
    }

    #[track_caller]
    fn load(&self, factor: Factor) -> [Reg<f32>; TOKENS] {
        let mut pairs =
            (0..CHUNK).step_by(8).flat_map(|block| self.own.at(factor.start() + block).load_vector::<2>());
        [(); TOKENS].map(|()| pairs.next().expect("a pair for every 8 tokens"))
    }

    #[track_caller]
    fn decay(&self) -> Reg<f32> {
        self.chunk.at(Factor::Decay.start()).load()
    }
}

/// Element `i` of an accumulator among words of two.
#[track_caller]
fn value(words: &[Reg<u32>], i: u32) -> Reg<f32> {
    bf16::widen(words[i as usize / 2])[i as usize % 2]
}

/// Vᵀ of 16 columns, from `column` of a box on, in the order of an accumulator (v, token).
#[device]
fn transposed_values(box_of_v: Shared<bf16>, column: Reg<u32>, lane: Reg<u32>) -> Vec<Reg<u32>> {
    let mut values = vec![];
    for block in 0..4 {
        let row = block * 16 + lane / 16 * 8 + lane % 8;
        let at = swizzled(row, column + lane / 8 % 2 * 8);
        values.extend(ldmatrix_transposed::<_, 4>(box_of_v.at(at)));
    }
    values
}

/// A warp's part of the output: 16 columns of v of each token.
#[derive(Clone, Copy)]
struct Output {
    /// (64 tokens, 16 columns) in shared memory.
    staged: Shared<bf16>,
    lane: Reg<u32>,
    /// Elements from token to token.
    row: u32,
}

#[device]
impl Output {
    fn of_warp(warps: u32, warp: Reg<u32>, lane: Reg<u32>, row: u32) -> Self {
        let staged = dynamic_shared_aligned::<bf16>(warps * CHUNK * PITCH, 16);
        Self { staged: staged.at(warp * (CHUNK * PITCH)), lane, row }
    }

    /// The words of an accumulator (v, token).
    fn round(read: &Fragment<f32>) -> Vec<Reg<u32>> {
        (0..read.len()).step_by(2).map(|i| pair(read.get(i), read.get(i + 1))).collect()
    }

    /// Transposes them into shared memory.
    fn stage(&self, words: &[Reg<u32>]) {
        let lane = self.lane;
        for block in 0..4 {
            let row = block * 16 + lane / 16 * 8 + lane % 8;
            let matrices = [0, 1, 2, 3].map(|word| words[4 * block as usize + word]);
            stmatrix_transposed(self.staged.at(row * PITCH + lane / 8 % 2 * 8), matrices);
        }
        sync_warp(ALL_LANES);
    }

    /// The token, of the first 16, and the column of this lane's pieces.
    fn piece(&self) -> (Reg<u32>, Reg<u32>) {
        (self.lane / 2, self.lane % 2 * 8)
    }

    /// This lane's pieces of what is staged, one of every 16 tokens.
    fn load(&self) -> [[Reg<u32>; 4]; 4] {
        let (token, column) = self.piece();
        let pieces = [0, 16, 32, 48]
            .map(|first| self.staged.at((token + first) * PITCH + column).cast::<u32>().load_vector::<4>());
        sync_warp(ALL_LANES);
        pieces
    }

    /// Stores the pieces of the first `length` tokens, from `to` on.
    fn store(&self, pieces: &[[Reg<u32>; 4]; 4], to: Global<bf16>, length: Reg<u32>) {
        let (token, column) = self.piece();
        for (piece, first) in pieces.iter().zip([0, 16, 32, 48]) {
            let token = token + first;
            if token < length {
                to.at(token * self.row + column).cast::<u32>().store_vector(*piece);
            }
        }
    }
}

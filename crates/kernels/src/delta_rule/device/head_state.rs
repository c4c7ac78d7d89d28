//! A chunk's five products, and the state of a head between them.
//!
//! All are computed transposed, 64 columns of v to a warpgroup: S is then operand A from registers, so
//! is every intermediate, and nothing but the output is written to shared memory.
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
//! In [`Precision::F32`] every operand that bf16 rounds is in two parts (see `parts`): these are 12 products
//! of a chunk in place of 5. The parts of S, of X and of Δ take the same registers in turn, because the state,
//! two accumulators and one operand in parts are 160 of the 232 that a thread has; what is multiplied next is
//! therefore split after the products before it have completed.
//!
//! A warp that issues a `wgmma` with A in registers waits for the one before it, so that a warpgroup's
//! products and its own arithmetic hardly overlap: alone on an SM, it takes 2,320 cycles for a chunk, of
//! which the products are 1,024. Two warpgroups therefore take turns at Y and Z: the one converts and
//! scales while the other multiplies. (H200, 8 x 1024 tokens: 3.5 us of 139. Waits for shared memory are
//! more of a chunk's time.)

use std::slice::from_mut;

use warpwright::prelude::*;

use super::chunk::{BOXES, SQUARE, key_tile, key_tile_over_tokens, square_tile_over_tokens, swizzled, tiles};
use super::output::Output;
use super::parts::{lost, multiply_parts, round, split};
use super::stages::Stages;
use super::token_factors::{FACTORS, Factor, TOKENS, TokenFactors, token};
use super::triangle::triangle_tile;
use crate::delta_rule::problem::{CHUNK, HEAD, Precision};
use crate::rows::RowElement;

/// Columns of v of a warpgroup.
pub(super) const COLUMNS: u32 = 64;

/// A head's columns of v as a warpgroup has them, and the operands of the chunks.
pub(super) struct HeadState {
    over_v: TiledMma,
    pub(super) update: TiledMma,
    /// Operands B by stage. T - I and P are in parts.
    k: MatrixOperand,
    q: MatrixOperand,
    inverse: Vec<MatrixOperand>,
    score: Vec<MatrixOperand>,
    k_over_tokens: MatrixOperand,
    stages: Stages,
    consumer: Role,
    /// The state, (v, k), and rounded as operand A.
    pub(super) s: Fragment<f32>,
    pub(super) s_rounded: Fragment<bf16>,
    /// X, then Δ, of a chunk: (v, token).
    delta: Fragment<f32>,
    /// The same as operand A, in parts.
    delta_parts: Vec<Fragment<bf16>>,
    /// Δ less what decays, in bf16. In f32 it takes the registers of Δ.
    delta_kept: Fragment<bf16>,
    /// Z, then O, of a chunk: (v, token).
    pub(super) read: Fragment<f32>,
}

/// The chunk before: its stage, and where its output goes.
type Before = (Reg<u32>, Output, Global<bf16>);

#[device]
impl HeadState {
    pub(super) fn new(stages: Stages, consumer: Role) -> Self {
        let consumers = consumer.warpgroups();
        let over_v = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_RS", consumers);
        // In f32, the products of an update have registers of their own, for half of the state at a time.
        let (atom, tile, per_stage) = match stages.precision {
            Precision::Bf16 => ("SM90_64x128x16_F32BF16BF16_RS", key_tile_over_tokens(), 1),
            Precision::F32 => ("SM90_64x64x16_F32BF16BF16_RS", square_tile_over_tokens(), BOXES),
        };
        let update = TiledMma::warpgroups(atom, consumers);
        let (rows, thread) = (consumers * COLUMNS, consumer.thread());
        let (of_v, of_update) = (over_v.thread(thread), update.thread(thread));
        let (count, parts) = (stages.count(), 0..stages.precision.parts());
        let triangles = |memory: Shared<bf16>| {
            let tiles = stages.parts(memory).into_iter().map(|part| tiles(part, triangle_tile(), count));
            tiles.map(|tiles| over_v.b_operand(&tiles)).collect()
        };
        Self {
            k: over_v.b_operand(&tiles(stages.k, key_tile(), count)),
            q: over_v.b_operand(&tiles(stages.q, key_tile(), count)),
            inverse: triangles(stages.inverse),
            score: triangles(stages.score),
            k_over_tokens: update.b_operand(&tiles(stages.k, tile, count * per_stage)),
            stages,
            consumer,
            s: of_update.c_fragment((rows, HEAD)),
            s_rounded: of_v.a_fragment((rows, HEAD)),
            delta: of_v.c_fragment((rows, CHUNK)),
            delta_parts: parts.map(|_| of_v.a_fragment((rows, CHUNK))).collect(),
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
    pub(super) fn replace(
        &mut self,
        stage: Reg<u32>,
        length: Reg<u32>,
        before: Option<Before>,
    ) -> [Reg<f32>; TOKENS] {
        let (b, lane) = ((All, All, stage), self.consumer.thread() % 32);
        if length < CHUNK {
            self.clear_rows(stage, length);
        }
        let is_f32 = self.stages.precision == Precision::F32;
        if let (Some(before), true) = (&before, is_f32) {
            // No product is in flight.
            self.stage_output(before, &Output::round(&self.read), lane);
        }
        self.wait_turn();
        multiply(&self.over_v, &mut self.delta, &self.s_rounded, &self.k.slice(b), Accumulate::No);
        let words = before.as_ref().filter(|_| !is_f32).map(|_| {
            wait_multiplications(1);
            Output::round(&self.read)
        });
        multiply(&self.over_v, &mut self.read, &self.s_rounded, &self.q.slice(b), Accumulate::No);
        if is_f32 {
            self.multiply_lost(stage, length);
        }
        self.pass_turn();
        if let (Some(before), Some(words)) = (&before, &words) {
            self.stage_output(before, words, lane);
        }
        let factors = TokenFactors::of(self.stages.factors.at(stage * FACTORS), lane);
        let v_box = stage * self.consumer.warpgroups() + self.consumer.warpgroup();
        let warp = self.consumer.thread() / 32;
        let v = transposed_values(self.stages.v.at(v_box * SQUARE), warp % 4 * 16, lane);
        let (beta, recall) = (factors.load(Factor::Beta), factors.load(Factor::Recall));
        // The parts of X take the registers of those of S.
        wait_multiplications(if is_f32 { 0 } else { 1 });
        for i in 0..self.delta.len() {
            let replaced = beta[token(i)] * value(&v, i) - recall[token(i)] * self.delta.get(i);
            self.delta.set(i, replaced);
        }
        split(&mut self.delta_parts, |i| self.delta.get(i));
        multiply_parts(&self.over_v, &mut self.delta, &self.delta_parts, &self.inverse, stage);
        let decay = (!is_f32).then(|| factors.decay());
        let keep = factors.load(Factor::Keep);
        let stored = before.map(|(_, output, o)| (output, output.load(), o));
        if let Some(decay) = decay {
            for i in 0..self.s.len() {
                self.s.set(i, self.s.get(i) * decay);
            }
        }
        if let Some((output, pieces, o)) = stored {
            output.store(&pieces, o, constant(CHUNK));
        }
        wait_multiplications(0);
        keep
    }

    /// Releases the stage of a chunk that has been read, and stages its output.
    fn stage_output(&self, (stage, output, _): &Before, words: &[Reg<u32>], lane: Reg<u32>) {
        self.stages.pipeline.release(*stage, lane);
        output.stage(words);
    }

    /// Adds to Y and Z the products with what rounding S lost, which takes the registers of the rounded S.
    fn multiply_lost(&mut self, stage: Reg<u32>, length: Reg<u32>) {
        wait_multiplications(0);
        // Every chunk has tokens. Without a branch, `ptxas` computes what is lost before the products with the
        // rounded S have completed, in 32 more registers.
        if length > 0 {
            for i in (0..self.s.len()).step_by(2) {
                let word = lost([self.s.get(i), self.s.get(i + 1)], self.s_rounded.get_word(i));
                self.s_rounded.set_word(i, word);
            }
        }
        for (to, b) in [(&mut self.delta, &self.k), (&mut self.read, &self.q)] {
            multiply(&self.over_v, to, &self.s_rounded, &b.slice((All, All, stage)), Accumulate::Yes);
        }
    }

    /// The state after the chunk in `stage`, and its output: this product may be in flight.
    pub(super) fn advance(&mut self, stage: Reg<u32>, keep: &[Reg<f32>; TOKENS]) {
        match self.stages.precision {
            Precision::Bf16 => self.advance_in_bf16(stage, keep),
            Precision::F32 => self.advance_in_f32(stage, keep),
        }
    }

    fn advance_in_bf16(&mut self, stage: Reg<u32>, keep: &[Reg<f32>; TOKENS]) {
        let read = self.factors(stage).load(Factor::Read);
        split(from_mut(&mut self.delta_kept), |i| self.delta.get(i) * keep[token(i)]);
        let k = self.k_over_tokens.slice((All, All, stage));
        multiply(&self.update, &mut self.s, &self.delta_kept, &k, Accumulate::Yes);
        split(&mut self.delta_parts, |i| self.delta.get(i));
        self.scale_read(&read);
        multiply_parts(&self.over_v, &mut self.read, &self.delta_parts, &self.score, stage);
        wait_multiplications(1);
        round(&mut self.s_rounded, &self.s);
    }

    /// The output comes first, because the parts of its Δ and those of the state's do not fit into registers
    /// at the same time.
    ///
    /// The state's products have registers of their own, for 64 rows of k at a time, and are added in f32.
    /// Tensor cores round sums toward zero (`docs/emulator-numerics.md`): over the chunks of a state that decays
    /// slowly, that adds up.
    fn advance_in_f32(&mut self, stage: Reg<u32>, keep: &[Reg<f32>; TOKENS]) {
        let factors = self.factors(stage);
        let (read, decay) = (factors.load(Factor::Read), factors.decay());
        self.scale_read(&read);
        split(&mut self.delta_parts, |i| self.delta.get(i));
        multiply_parts(&self.over_v, &mut self.read, &self.delta_parts, &self.score, stage);
        wait_multiplications(0);
        split(&mut self.delta_parts, |i| self.delta.get(i) * keep[token(i)]);
        let thread = self.update.thread(self.consumer.thread());
        let mut half: Fragment<f32> = thread.c_fragment((self.consumer.warpgroups() * COLUMNS, CHUNK));
        for index in 0..BOXES {
            let k = self.k_over_tokens.slice((All, All, stage * BOXES + index));
            for (part, accumulate) in self.delta_parts.iter().zip([Accumulate::No, Accumulate::Yes]) {
                multiply(&self.update, &mut half, part, &k, accumulate);
            }
            wait_multiplications(0);
            for i in 0..half.len() {
                let at = index * half.len() + i;
                self.s.set(at, self.s.get(at).mul_add(decay, half.get(i)));
            }
        }
        round(&mut self.s_rounded, &self.s);
    }

    /// The factors of the tokens in `stage`.
    fn factors(&self, stage: Reg<u32>) -> TokenFactors {
        TokenFactors::of(self.stages.factors.at(stage * FACTORS), self.consumer.thread() % 32)
    }

    fn scale_read(&mut self, read: &[Reg<f32>; TOKENS]) {
        for i in 0..self.read.len() {
            self.read.set(i, self.read.get(i) * read[token(i)]);
        }
    }

    /// Zeros for the rows of K and V past the end of a sequence: TMA has copied those of the next
    /// one, which may be infinite or NaN. All consumers make the call.
    fn clear_rows(&self, stage: Reg<u32>, length: Reg<u32>) {
        let (thread, consumers) = (self.consumer.thread(), self.consumer.warpgroups());
        let k = self.stages.k.at(stage * (BOXES * SQUARE));
        let v = self.stages.v.at(stage * (consumers * SQUARE));
        // A warp has a box; a row of it is 32 words, whatever their order.
        let (index, word) = (thread / 32, thread % 32);
        for row in length..CHUNK {
            let at = row * (CHUNK / 2) + word;
            if index < BOXES {
                k.cast::<u32>().at(index * (SQUARE / 2) + at).store(0u32);
            } else if index < BOXES + consumers {
                v.cast::<u32>().at((index - BOXES) * (SQUARE / 2) + at).store(0u32);
            }
        }
        fence_proxy_async_shared();
        self.consumer.sync();
    }

    pub(super) fn begin_turns(&self) {
        if self.consumer.warpgroups() > 1 {
            self.consumer.begin_turns();
        }
    }

    fn wait_turn(&self) {
        if self.consumer.warpgroups() > 1 {
            self.consumer.wait_turn();
        }
    }

    fn pass_turn(&self) {
        if self.consumer.warpgroups() > 1 {
            self.consumer.pass_turn();
        }
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
    let own = box_of_v.at(swizzled(lane / 16 * 8 + lane % 8, column + lane / 8 % 2 * 8));
    (0..4u32).flat_map(|block| ldmatrix_transposed::<_, 4>(own.at(block * (16 * CHUNK)))).collect()
}

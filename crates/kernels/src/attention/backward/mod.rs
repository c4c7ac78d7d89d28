//! Attention's backward kernel on Hopper's tensor cores: dQ, dK and dV from dO.
//!
//! ```text
//! P = exp(S - lse)        dV = Pᵀ·dO
//! dP = dO·Vᵀ              dS = P (dP - delta), where delta is the sum of dO O of a row
//! dQ = dS·K               dK = dSᵀ·Q
//!
//! a CTA: 128 keys         K, V stay; Q and dO come in blocks of queries, with lse and delta
//! producer (1 thread)     TMA
//! consumers (2 warpgroups, 64 keys each)
//!     Sᵀ = K·Qᵀ, dPᵀ = V·dOᵀ       in registers, keys are the rows
//!     dV += Pᵀ·dO, dK += dSᵀ·Q     Pᵀ and dSᵀ are operand A from registers
//!     dQ = dS·K                    over all 128 keys: dSᵀ goes through shared memory; each warpgroup
//!                                  computes half of dQ, and adds it to f32 in global memory
//! ```
//!
//! Sᵀ of the next block is started before dQ and dK of this one: its exponentials run beside them.

mod configuration;
mod consumer;
mod query_stages;
mod range;
mod results;
mod rows;
mod scores;
mod unit;
mod wide;

use warpwright::prelude::*;

use super::accumulator::atom;
use super::problem::AttentionElement;
use super::score::{AttentionKernel, DifferentiableScoreOp};
pub(crate) use configuration::{BackwardKernel, GradientForm, KEYS};
use configuration::{CONSUMERS, Maps, WARPGROUP_KEYS};
use consumer::{Products, Registers, Warpgroup};
use query_stages::{QueryStages, transposed};
pub(crate) use range::BackwardProblem;
use range::{Keys, Range};
use results::{KeyRows, QuerySums, Results};
pub(crate) use rows::{FinishGradient, PrepareRows, SinkGradients, row_tile};
use scores::{QueryBlock, Weighting};
use unit::Unit;
pub(crate) use wide::WideBackwardKernel;

impl<S: DifferentiableScoreOp> AttentionKernel<BackwardKernel, S> {
    /// dK and dV, (batch, key, kv_head, d), and dQ added to zeros: (batch, head, block of queries),
    /// in each block in the order of the threads' registers, 4 of a thread next to each other.
    ///
    /// `lse` (in powers of two) and `delta` are (batch, head, query) of whole blocks. `turns` are
    /// zeros, if the order of additions is fixed.
    #[kernel]
    pub(crate) fn backward<T: AttentionElement>(
        &self,
        q: &TensorMap,
        k: &TensorMap,
        v: &TensorMap,
        gradient: &TensorMap,
        lse: &TensorMap,
        delta: &TensorMap,
        dq: &mut Global<f32>,
        turns: &mut Global<u32>,
        dk: &mut Global<T>,
        dv: &mut Global<T>,
        problem: BackwardProblem,
    ) {
        let results = Results { dq: *dq, turns: *turns, dk: *dk, dv: *dv };
        let of_attention = self.kernel.form.function(problem);
        let function = self.differentiable_or(of_attention.as_deref());
        self.kernel.compute([q, k, v, gradient, lse, delta], results, problem, function);
    }
}

#[device]
impl BackwardKernel {
    /// The CTA's unit, each score through `function`.
    fn compute<T: AttentionElement>(
        &self,
        [q, k, v, gradient, lse, delta]: Maps<'_>,
        results: Results<T>,
        problem: BackwardProblem,
        function: Option<&dyn DifferentiableScoreOp>,
    ) {
        let [producer, consumer] = roles([warpgroups(1).registers(24), warpgroups(CONSUMERS).registers(240)]);
        let alone = ClusterGrid::new((1, 1));
        let mut kv_stages = Pipeline::stages(1);
        let k_tiles = kv_stages.operand::<T>(self.k_tile::<T>());
        let v_tiles = kv_stages.operand::<T>(self.v_tile::<T>());
        let kv_pipeline = kv_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        let tiles = [self.q_tile::<T>(), self.gradient_tile::<T>()];
        let queries = QueryStages::<T>::new(tiles, [self.q_stages, self.stages], self.rows, consumer, alone);
        // Two: one is written while the products of the block before still read the other.
        let ds_tiles = StoreBuffers::<T>::new(self.scores_tile::<T>(), 2);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();

        let form = self.form;
        let unit = Unit::new(block_idx().x, problem, (form.packed, form.deterministic), self.rows);
        let (problem, all) = (unit.problem, unit.keys());
        let ([_, group], first_key) = (problem.heads, all.first);

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut kv_stage = kv_pipeline.producer();
                let range = Range::new(problem, form.mask, self.rows, all, all);
                let (k, v) = (unit.matrix(k, unit.kv_head), unit.matrix(v, unit.kv_head));
                let row = unit.starts[1] + first_key;
                kv_stage.load([
                    k_tiles.load(k, (row, constant(0)), None),
                    v_tiles.load(v, (row, constant(0)), None),
                ]);
                queries.load([q, gradient, lse, delta], unit, range);
            }
        } else {
            consumer.begin();
            let thread = consumer.thread();
            let warpgroup = consumer.warpgroup();
            let scores = TiledMma::warpgroups(atom::<T>(self.rows, true), CONSUMERS);
            let dv_mma = TiledMma::warpgroups(atom::<T>(self.value_dim, false), CONSUMERS);
            let dk_mma = TiledMma::warpgroups(atom::<T>(self.head_dim, false), CONSUMERS);
            let dq_warpgroups = self.rows / WARPGROUP_KEYS;
            let dq_mma = TiledMma::warpgroups(atom::<T>(self.dq_columns(), true), dq_warpgroups);
            let (dq_part, dq_rank) = match dq_warpgroups {
                1 => (thread % 128, constant(0u32)),
                _ => (thread, warpgroup),
            };
            let score_registers: Fragment<f32> = scores.thread(thread).c_fragment((KEYS, self.rows));
            let dp = match self.keeps_scores() {
                true => scores.thread(thread).c_fragment((KEYS, self.rows)),
                // The same registers: P is kept in 16 bits only.
                false => score_registers.clone(),
            };
            let mut registers = Registers::<T> {
                scores: score_registers,
                dp,
                weights: dv_mma.thread(thread).a_fragment((KEYS, self.rows)),
                slopes: function.map(|_| dv_mma.thread(thread).a_fragment((KEYS, self.rows))),
                ds: dk_mma.thread(thread).a_fragment((KEYS, self.rows)),
                dq: dq_mma.thread(dq_part).c_fragment((self.rows, self.dq_columns())),
                dk: dk_mma.thread(thread).c_fragment((KEYS, self.head_dim)),
                dv: dv_mma.thread(thread).c_fragment((KEYS, self.value_dim)),
            };
            let k_whole = k_tiles.tensor().map(transposed).slice((All, All, 0));
            // The halves of d, of which each warpgroup has one; or d, which both have.
            let halves = dq_mma.b_operand(&k_whole.local_tile((self.dq_columns(), KEYS), (All, 0)));
            let half = if dq_warpgroups == 1 { warpgroup } else { constant(0u32) };
            let products = Products {
                k: scores.a_operand(k_tiles.tensor(), warpgroup).slice((All, All, 0)),
                v: scores.a_operand(v_tiles.tensor(), warpgroup).slice((All, All, 0)),
                queries: queries.operands(&scores, &dk_mma, &dv_mma),
                ds: dq_mma.a_operand(&ds_tiles.tensor().map(transposed), dq_rank),
                k_transposed: halves.slice((All, All, half)),
                scores,
                dv: dv_mma,
                dk: dk_mma,
                dq: dq_mma,
            };
            let mut stages = queries.consumer();
            let mut kv_stage = kv_pipeline.consumer();
            registers.dk.clear();
            registers.dv.clear();
            let first_key = first_key + warpgroup * WARPGROUP_KEYS;
            let mine = Warpgroup {
                kernel: *self,
                role: consumer,
                products: &products,
                weighting: Weighting { function, mask: form.mask, rows: self.rows, unit, first_key },
                lse: queries.lse_tiles.tensor(),
                delta: queries.delta_tiles.tensor(),
                ds: ds_tiles.tensor(),
            };
            let own = Keys { first: first_key, count: WARPGROUP_KEYS };
            let range = Range::new(problem, form.mask, self.rows, all, own);
            kv_stage.wait();
            let tile = (self.rows, self.head_dim);
            let sums = QuerySums::new(results, (unit, form), tile, CONSUMERS);
            let left = (range.end - range.begin) * group;
            if left > 0u32 {
                let head = unit.kv_head * group;
                let block = QueryBlock { in_head: range.begin, number: range.begin, head };
                let mut progress = mine.begin(block, &mut registers, &mut stages);
                for number in 0..group {
                    let (first, head) = (number * unit.line_blocks, head + number);
                    let query_block = |in_head| QueryBlock { in_head, number: first + in_head, head };
                    let begin = range.begin + number.eq(0u32).to_u32();
                    let whole_begin = range.whole.0.max(begin);
                    let whole_end = range.whole.1.max(whole_begin);
                    for block in begin..whole_begin {
                        let block = (query_block(block), true);
                        mine.step(block, &mut registers, &mut stages, &mut progress, sums);
                    }
                    for block in whole_begin..whole_end {
                        let block = (query_block(block), false);
                        mine.step(block, &mut registers, &mut stages, &mut progress, sums);
                    }
                    for block in whole_end..range.end {
                        let block = (query_block(block), true);
                        mine.step(block, &mut registers, &mut stages, &mut progress, sums);
                    }
                }
                mine.start_key_products(&mut registers, &progress);
                wait_multiplications(1);
                mine.add_dq(&registers, progress.number, sums);
                wait_multiplications(0);
                stages.q.release();
            }
            kv_stage.release();
            let rows = KeyRows { unit, first: first_key, thread: thread % 128 };
            let [d, value_d] = self.stored;
            rows.store(&registers.dk, problem.scale, (results.dk, problem.dk_strides, d));
            rows.store(&registers.dv, constant(1.0f32), (results.dv, problem.dv_strides, value_d));
        }
    }
}

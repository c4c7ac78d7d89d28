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
mod loads;
mod range;
mod results;
mod rows;
mod scores;
mod wide;

use warpwright::layout::{ComposedLayout, Error, Layout};
use warpwright::prelude::*;

use super::accumulator::atom;
use super::problem::AttentionElement;
pub(crate) use configuration::{BackwardKernel, KEYS};
use configuration::{CONSUMERS, WARPGROUP_KEYS};
use consumer::{Products, Registers, Stages, Warpgroup};
use loads::QueryLoads;
pub(crate) use range::BackwardProblem;
use range::{Keys, Range};
use results::{KeyRows, QuerySums, Turns};
pub(crate) use rows::{FinishGradient, PrepareRows, row_tile};
pub(crate) use wide::WideBackwardKernel;

/// A tile with its first two modes exchanged.
fn transposed(layout: &ComposedLayout) -> Result<ComposedLayout, Error> {
    layout.map_inner(|tile| Ok(Layout::of_modes([tile.mode(1)?, tile.mode(0)?, tile.mode(2)?])))
}

#[device]
impl BackwardKernel {
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
        let [producer, consumer] = roles([warpgroups(1).registers(24), warpgroups(CONSUMERS).registers(240)]);
        let alone = ClusterGrid::new((1, 1));
        let mut kv_stages = Pipeline::stages(1);
        let k_tiles = kv_stages.operand::<T>(self.k_tile::<T>());
        let v_tiles = kv_stages.operand::<T>(self.v_tile::<T>());
        let kv_pipeline = kv_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        let mut q_stages = Pipeline::stages(self.q_stages);
        let q_tiles = q_stages.operand::<T>(self.q_tile::<T>());
        let lse_tiles = q_stages.operand::<f32>(row_tile(self.rows));
        let q_pipeline = q_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        let mut gradient_stages = Pipeline::stages(self.stages);
        let gradient_tiles = gradient_stages.operand::<T>(self.gradient_tile::<T>());
        let delta_tiles = gradient_stages.operand::<f32>(row_tile(self.rows));
        let gradient_pipeline = gradient_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        // Two: one is written while the products of the block before still read the other.
        let ds_tiles = StoreBuffers::<T>::new(self.scores_tile::<T>(), 2);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();

        // The unit: 128 keys of a head of K and V. Of a causal mask the first keys have most queries.
        let [queries, keys] = problem.lengths;
        let [kv_heads, group] = problem.heads;
        let blocks = keys.div_ceil(KEYS);
        let matrix = block_idx().x / blocks;
        let block = Range::key_block(block_idx().x % blocks, blocks, self.deterministic);
        let first_key = block * KEYS;
        let (kv_head, sequence) = (matrix % kv_heads, matrix / kv_heads);
        let row_blocks = queries.div_ceil(self.rows);
        let all = Keys { first: first_key, count: KEYS };

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut kv_stage = kv_pipeline.producer();
                let range = Range::new(problem, self.mask, self.rows, all, all);
                let k = MappedMatrix::from(k).batch(kv_head).batch(sequence);
                let v = MappedMatrix::from(v).batch(kv_head).batch(sequence);
                kv_stage.load([
                    k_tiles.load(k, (first_key, constant(0)), None),
                    v_tiles.load(v, (first_key, constant(0)), None),
                ]);
                let loads = QueryLoads {
                    maps: [q, gradient, lse, delta],
                    q: &q_tiles,
                    gradient: &gradient_tiles,
                    lse: &lse_tiles,
                    delta: &delta_tiles,
                    cluster: alone,
                    rows: self.rows,
                };
                let (q_stage, gradient_stage) = (q_pipeline.producer(), gradient_pipeline.producer());
                loads.load(q_stage, gradient_stage, problem, (sequence, kv_head), range);
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
                q: scores.b_operand(q_tiles.tensor()),
                gradient: scores.b_operand(gradient_tiles.tensor()),
                q_transposed: dk_mma.b_operand(&q_tiles.tensor().map(transposed)),
                gradient_transposed: dv_mma.b_operand(&gradient_tiles.tensor().map(transposed)),
                ds: dq_mma.a_operand(&ds_tiles.tensor().map(transposed), dq_rank),
                k_transposed: halves.slice((All, All, half)),
                scores,
                dv: dv_mma,
                dk: dk_mma,
                dq: dq_mma,
            };
            let mut stages = Stages { q: q_pipeline.consumer(), gradient: gradient_pipeline.consumer() };
            let mut kv_stage = kv_pipeline.consumer();
            registers.dk.clear();
            registers.dv.clear();
            let mine = Warpgroup {
                kernel: *self,
                role: consumer,
                products: &products,
                problem,
                first_key: first_key + warpgroup * WARPGROUP_KEYS,
                lse: lse_tiles.tensor(),
                delta: delta_tiles.tensor(),
                ds: ds_tiles.tensor(),
            };
            let own = Keys { first: mine.first_key, count: WARPGROUP_KEYS };
            let range = Range::new(problem, self.mask, self.rows, all, own);
            kv_stage.wait();
            let first_block = (sequence * kv_heads + kv_head) * group * row_blocks;
            let sums = QuerySums {
                sums: dq.at(first_block as u64 * u64::from(self.rows * self.head_dim)),
                elements: self.rows * self.head_dim,
                threads: CONSUMERS * 128,
                turns: self.deterministic.then(|| Turns {
                    counters: turns.at(first_block * CONSUMERS),
                    parts: CONSUMERS,
                    rows: self.rows,
                    row_blocks,
                    unit: block,
                    problem,
                    mask: self.mask,
                }),
            };
            let left = (range.end - range.begin) * group;
            if left > 0u32 {
                let mut progress = mine.begin(range.begin, &mut registers, &mut stages);
                for number in 0..group {
                    let first = number * row_blocks;
                    let begin = range.begin + number.eq(0u32).to_u32();
                    let whole_begin = range.whole.0.max(begin);
                    let whole_end = range.whole.1.max(whole_begin);
                    for block in begin..whole_begin {
                        let block = (block, first + block);
                        mine.step(block, true, &mut registers, &mut stages, &mut progress, sums);
                    }
                    for block in whole_begin..whole_end {
                        let block = (block, first + block);
                        mine.step(block, false, &mut registers, &mut stages, &mut progress, sums);
                    }
                    for block in whole_end..range.end {
                        let block = (block, first + block);
                        mine.step(block, true, &mut registers, &mut stages, &mut progress, sums);
                    }
                }
                mine.start_key_products(&mut registers, &progress);
                wait_multiplications(1);
                mine.add_dq(&registers, progress.number, sums);
                wait_multiplications(0);
                stages.q.release();
            }
            kv_stage.release();
            let (first, thread) = (mine.first_key, thread % 128);
            let rows = KeyRows { sequence, kv_head, kv_heads, keys, first, thread };
            let [d, value_d] = self.stored;
            rows.store(&registers.dk, problem.scale, d, *dk);
            rows.store(&registers.dv, constant(1.0f32), value_d, *dv);
        }
    }
}

//! The backward kernel for wide heads: up to 256 elements.
//!
//! ```text
//! a cluster: 128 keys     two CTAs; each has 64 keys, and half of the columns of dQ
//! producer (1 thread)     TMA: K, V stay; Q and dO, multicast, in blocks of 64 queries
//! consumers               warpgroup 0                     warpgroup 1
//!     the next block      Sᵀ = K·Qᵀ, P = exp(S - lse)     dPᵀ = V·dOᵀ, dS = P (dP - delta)
//!     this block          dV += Pᵀ·dO                     dK += dSᵀ·Q
//!                         dQ = dS·K: a quarter of the columns each, over the keys of both CTAs
//! ```
//!
//! The other CTA's dSᵀ comes through shared memory of the cluster, so that dQ is added to global
//! memory once for 128 keys.
//!
//! The budget for d = 256, of a block of 64 queries by 64 keys:
//!
//! | | |
//! |---|---|
//! | tensor cores | 512 cycles for each of the five products |
//! | shared memory | K, V 64 KB; half of the other K 16; two stages of Q and dO 128; dS 16: 224 of 227 |
//! | shared-memory cycles | S, dP, dQ 512 each; dV, dK 256 each; TMA 512; P and dS 350: 2,900 |
//! | registers of a thread | dK or dV 128; S or dP 32; a quarter of dQ 32; P or dS as operand A 16 |
//! | L2 | Q and dO 32 KB, dQ 32 KB |

mod configuration;
mod consumer;
mod exchange;

use warpwright::prelude::*;

pub(crate) use self::configuration::WideBackwardKernel;
use self::configuration::{CTAS, KEYS, PARTS, ROWS};
use self::consumer::{Consumers, Products, Registers};
use self::exchange::Exchange;
use super::configuration::Maps;
use super::query_stages::{QueryStages, transposed};
use super::range::{BackwardProblem, Keys, Range};
use super::results::{KeyRows, QuerySums, Results};
use super::scores::Weighting;
use super::unit::Unit;
use crate::attention::accumulator::atom;
use crate::attention::problem::AttentionElement;
use crate::attention::score::{AttentionKernel, DifferentiableScoreOp};

impl<S: DifferentiableScoreOp> AttentionKernel<WideBackwardKernel, S> {
    /// As `backward` of [`BackwardKernel`](super::BackwardKernel).
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
impl WideBackwardKernel {
    /// The cluster's unit, each score through `function`.
    fn compute<T: AttentionElement>(
        &self,
        [q, k, v, gradient, lse, delta]: Maps<'_>,
        results: Results<T>,
        problem: BackwardProblem,
        function: Option<&dyn DifferentiableScoreOp>,
    ) {
        let [producer, consumer] = roles([warpgroups(1).registers(24), warpgroups(2).registers(240)]);
        let (cluster, alone) = (ClusterGrid::new((CTAS, 1)), ClusterGrid::new((1, 1)));
        let rank = cluster_rank();
        let mut kv_stages = Pipeline::stages(1);
        let k_tiles = kv_stages.operand::<T>(self.k_tile::<T>());
        let peer_k_tiles = kv_stages.operand::<T>(self.peer_k_tile::<T>());
        let v_tiles = kv_stages.operand::<T>(self.v_tile::<T>());
        let kv_pipeline = kv_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        let exchange = Exchange::<T>::new(rank ^ 1u32);
        let tiles = [self.q_tile::<T>(), self.gradient_tile::<T>()];
        let queries = QueryStages::<T>::new(tiles, [2, 2], ROWS, consumer, cluster);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();

        let form = self.form;
        let unit = Unit::new(block_idx().x / CTAS, problem, (form.packed, form.deterministic), ROWS);
        let (problem, all) = (unit.problem, unit.keys());
        let first_key = all.first + rank * KEYS;
        // Both CTAs go through the same blocks: those that see some of the cluster's keys.
        let own = Keys { first: first_key, count: KEYS };
        let range = Range::new(problem, form.mask, ROWS, all, own);

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut kv_stage = kv_pipeline.producer();
                let (k, v) = (unit.matrix(k, unit.kv_head), unit.matrix(v, unit.kv_head));
                let row = unit.starts[1] + first_key;
                let peer_row = unit.starts[1] + all.first + (rank ^ 1u32) * KEYS;
                kv_stage.load([
                    k_tiles.load(k, (row, constant(0)), None),
                    peer_k_tiles.load(k, (peer_row, rank * (self.head_dim / CTAS)), None),
                    v_tiles.load(v, (row, constant(0)), None),
                ]);
                queries.load([q, gradient, lse, delta], unit, range);
            }
        } else {
            consumer.begin();
            let (thread, warpgroup) = (consumer.thread() % 128, consumer.warpgroup());
            let columns = self.dq_columns();
            let scores = TiledMma::warpgroups(atom::<T>(ROWS, true), 1);
            let dv_mma = TiledMma::warpgroups(atom::<T>(self.value_dim, false), 1);
            let dk_mma = TiledMma::warpgroups(atom::<T>(self.head_dim, false), 1);
            let dq_mma = TiledMma::warpgroups(atom::<T>(columns, true), 1);
            let mut registers = Registers::<T> {
                scores: scores.thread(thread).c_fragment((KEYS, ROWS)),
                operand: dk_mma.thread(thread).a_fragment((KEYS, ROWS)),
                slopes: Fragment::like(scores.thread(thread).c_fragment::<f32>((KEYS, ROWS)).layout()),
                dq: dq_mma.thread(thread).c_fragment((ROWS, columns)),
                dk: dk_mma.thread(thread).c_fragment((KEYS, self.head_dim)),
                dv: dv_mma.thread(thread).c_fragment((KEYS, self.value_dim)),
            };
            let part = rank * 2u32 + warpgroup;
            // The columns of K that one warpgroup multiplies, as (d, key).
            let columns_of = |tiles: &Tensor<T, SharedSpace>, part: Reg<u32>| {
                let tile = tiles.map(transposed).slice((All, All, 0));
                let parts = dq_mma.b_operand(&tile.local_tile((columns, KEYS), (All, 0)));
                parts.slice((All, All, part))
            };
            let ds = dq_mma.a_operand(&exchange.tiles.map(transposed), 0);
            let products = Products {
                k: scores.a_operand(k_tiles.tensor(), 0).slice((All, All, 0)),
                v: scores.a_operand(v_tiles.tensor(), 0).slice((All, All, 0)),
                queries: queries.operands(&scores, &dk_mma, &dv_mma),
                ds: [ds.slice((All, All, 0)), ds.slice((All, All, 1))],
                k_columns: [columns_of(k_tiles.tensor(), part), columns_of(peer_k_tiles.tensor(), warpgroup)],
                scores,
                dv: dv_mma,
                dk: dk_mma,
                dq: dq_mma,
            };
            let stages = queries.consumer();
            let mut kv_stage = kv_pipeline.consumer();
            let sums = QuerySums::new(results, (unit, form), (ROWS, self.head_dim), PARTS);
            let consumers = Consumers {
                role: consumer,
                products: &products,
                exchange: &exchange,
                weighting: Weighting { function, mask: form.mask, rows: ROWS, unit, first_key },
                lse: queries.lse_tiles.tensor(),
                delta: queries.delta_tiles.tensor(),
                sums,
                part,
                range,
            };
            kv_stage.wait();
            let works = range.begin < range.end && problem.heads[1] > 0u32;
            let rows = KeyRows { unit, first: first_key, thread };
            let [d, value_d] = self.stored;
            if warpgroup == 0 {
                registers.dv.clear();
                if works {
                    consumers.weights_of_all(&mut registers, stages);
                }
                rows.store(&registers.dv, constant(1.0f32), (results.dv, problem.dv_strides, value_d));
            } else {
                registers.dk.clear();
                if works {
                    consumers.gradients_of_all(&mut registers, stages);
                }
                rows.store(&registers.dk, problem.scale, (results.dk, problem.dk_strides, d));
            }
            kv_stage.release();
        }
    }
}

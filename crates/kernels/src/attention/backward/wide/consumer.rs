//! The two consumer warpgroups: one computes P and dV, the other dS and dK, and both a part of dQ.
//!
//! ```text
//! warpgroup 0, block n            warpgroup 1, block n
//!     start Sᵀ n+1, dV n, dQ n        start dPᵀ n+1, dK n, dQ n
//!     P n+1
//!     add dQ n                        add dQ n
//!     P n+1 to shared memory     ->   dS n+1 from P n+1, to shared memory of both CTAs
//! ```
//!
//! P and dS are operand A of dV and dK where they are, in registers; P passes through the tile that
//! dS takes. The exponentials take the time of dV and of the other warpgroup's products, dS that of
//! the next Sᵀ and dV. Nothing is in flight at the end of a step: ptxas serializes `wgmma` that are
//! in flight across the edge of a loop.

use warpwright::prelude::*;

use super::exchange::Exchange;
use super::{GRADIENTS_BARRIER, WEIGHTS_BARRIER};
use crate::attention::backward::consumer::Stages;
use crate::attention::backward::range::Range;
use crate::attention::backward::results::QuerySums;
use crate::attention::backward::scores::{
    QueryBlock, Weighting, as_accumulator, pair_of, score_gradients, store_scores,
};
use crate::attention::problem::AttentionElement;

/// Threads of the consumers.
const THREADS: u32 = 256;

/// What the consumers multiply.
pub(super) struct Products {
    pub(super) scores: TiledMma,
    pub(super) dv: TiledMma,
    pub(super) dk: TiledMma,
    pub(super) dq: TiledMma,
    pub(super) k: MatrixOperand,
    pub(super) v: MatrixOperand,
    /// Q and dO as (query, d), and as (d, query).
    pub(super) q: MatrixOperand,
    pub(super) gradient: MatrixOperand,
    pub(super) q_transposed: MatrixOperand,
    pub(super) gradient_transposed: MatrixOperand,
    /// dS as (query, key), and the warpgroup's columns of K as (d, key): of this CTA's keys, and of
    /// the other's.
    pub(super) ds: [MatrixOperand; 2],
    pub(super) k_columns: [MatrixOperand; 2],
}

/// A thread's parts of Sᵀ or dPᵀ, of P or dSᵀ as operand A, and of dQ, dK and dV.
pub(super) struct Registers<T> {
    pub(super) scores: Fragment<f32>,
    pub(super) operand: Fragment<T>,
    pub(super) dq: Fragment<f32>,
    pub(super) dk: Fragment<f32>,
    pub(super) dv: Fragment<f32>,
}

/// The block of queries whose P or dS the warpgroup has computed: its number, and the parity of how
/// many there were before.
#[derive(Clone, Copy, DeviceValue)]
struct Progress {
    number: Reg<u32>,
    parity: Reg<u32>,
}

/// What a consumer knows.
pub(super) struct Consumers<'k, T: AttentionElement> {
    pub(super) role: Role,
    pub(super) products: &'k Products,
    pub(super) exchange: &'k Exchange<T>,
    pub(super) weighting: Weighting<'k>,
    pub(super) lse: &'k Tensor<f32, SharedSpace>,
    pub(super) delta: &'k Tensor<f32, SharedSpace>,
    /// dQ, and the warpgroup's part of its columns.
    pub(super) sums: QuerySums,
    pub(super) part: Reg<u32>,
    pub(super) range: Range,
}

/// P of a block; and, of scores with a function, P times its derivative.
struct Weights<T> {
    weights: Fragment<T>,
    slopes: Option<Fragment<T>>,
}

#[device]
impl<T: AttentionElement> Consumers<'_, T> {
    /// Warpgroup 0: P and dV of every block, and its part of dQ.
    pub(super) fn weights_of_all(&self, registers: &mut Registers<T>, mut stages: Stages) {
        let (range, unit) = (self.range, self.weighting.unit);
        let [_, group] = unit.problem.heads;
        let head = unit.kv_head * group;
        let stage = stages.q.wait();
        self.start_scores(registers, stage);
        wait_multiplications(0);
        let block = QueryBlock { in_head: range.begin, number: range.begin, head };
        let weights = self.weights(registers, stage, (block, true));
        self.take(registers, &weights.weights);
        self.store_weights(&weights);
        let mut progress = Progress { number: range.begin, parity: constant(0) };
        for number in 0..group {
            let (first, head) = (number * unit.line_blocks, head + number);
            let query_block = |in_head| QueryBlock { in_head, number: first + in_head, head };
            let begin = range.begin + number.eq(0u32).to_u32();
            let whole_begin = range.whole.0.max(begin);
            let whole_end = range.whole.1.max(whole_begin);
            for block in begin..whole_begin {
                self.weights_step((query_block(block), true), registers, &mut stages, &mut progress);
            }
            for block in whole_begin..whole_end {
                self.weights_step((query_block(block), false), registers, &mut stages, &mut progress);
            }
            for block in whole_end..range.end {
                self.weights_step((query_block(block), true), registers, &mut stages, &mut progress);
            }
        }
        self.start_weight_products(registers, &mut stages, progress);
        wait_multiplications(0);
        stages.gradient.release();
        self.release_tiles(true);
        // The other CTA has read what this one sent: it may exit.
        self.exchange.wait_until_free(progress.parity);
        self.add_dq(registers, progress);
    }

    /// Warpgroup 1: dS and dK of every block, and its part of dQ.
    pub(super) fn gradients_of_all(&self, registers: &mut Registers<T>, mut stages: Stages) {
        let range = self.range;
        let stage = stages.gradient.wait();
        self.start_dp(registers, stage);
        wait_multiplications(0);
        self.gradients(registers, stage, &mut stages);
        let unit = self.weighting.unit;
        let mut progress = Progress { number: range.begin, parity: constant(0) };
        for number in 0..unit.problem.heads[1] {
            let begin = range.begin + number.eq(0u32).to_u32();
            for block in begin..range.end {
                self.gradients_step(number * unit.line_blocks + block, registers, &mut stages, &mut progress);
            }
        }
        self.start_gradient_products(registers, &mut stages, progress);
        wait_multiplications(0);
        stages.q.release();
        self.release_tiles(false);
        self.add_dq(registers, progress);
    }

    /// P of a block; the products of the block before. `masked`: some query does not see all keys.
    fn weights_step(
        &self,
        (block, masked): (QueryBlock, bool),
        registers: &mut Registers<T>,
        stages: &mut Stages,
        progress: &mut Progress,
    ) {
        let next = stages.q.wait();
        self.start_scores(registers, next);
        self.start_weight_products(registers, stages, *progress);
        wait_multiplications(2);
        let weights = self.weights(registers, next, (block, masked));
        wait_multiplications(1);
        stages.gradient.release();
        self.take(registers, &weights.weights);
        wait_multiplications(0);
        self.release_tiles(true);
        // Beside the other warpgroups' last reads of the tile.
        self.add_dq(registers, *progress);
        self.exchange.wait_until_free(progress.parity);
        self.store_weights(&weights);
        progress.number = block.number;
        progress.parity = progress.parity ^ 1u32;
    }

    /// dS of block `number`; the products of the block before.
    fn gradients_step(
        &self,
        number: Reg<u32>,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        progress: &mut Progress,
    ) {
        let next = stages.gradient.wait();
        self.start_dp(registers, next);
        self.start_gradient_products(registers, stages, *progress);
        wait_multiplications(1);
        stages.q.release();
        wait_multiplications(0);
        self.release_tiles(false);
        self.add_dq(registers, *progress);
        self.gradients(registers, next, stages);
        progress.number = number;
        progress.parity = progress.parity ^ 1u32;
    }

    /// P of a block is in shared memory.
    fn weights_barrier(&self) -> NamedBarrier {
        NamedBarrier::new(WEIGHTS_BARRIER, THREADS)
    }

    /// dS of a block is in shared memory.
    fn gradients_barrier(&self) -> NamedBarrier {
        NamedBarrier::new(GRADIENTS_BARRIER, THREADS)
    }

    fn start_scores(&self, registers: &mut Registers<T>, stage: Stage) {
        let products = self.products;
        let q = products.q.slice((All, All, stage));
        multiply(&products.scores, &mut registers.scores, &products.k, &q, Accumulate::No);
    }

    fn start_dp(&self, registers: &mut Registers<T>, stage: Stage) {
        let products = self.products;
        let gradient = products.gradient.slice((All, All, stage));
        multiply(&products.scores, &mut registers.scores, &products.v, &gradient, Accumulate::No);
    }

    /// Starts dV and dQ of the block whose P there is.
    fn start_weight_products(&self, registers: &mut Registers<T>, stages: &mut Stages, progress: Progress) {
        let products = self.products;
        let stage = stages.gradient.wait();
        let gradient = products.gradient_transposed.slice((All, All, stage));
        multiply(&products.dv, &mut registers.dv, &registers.operand, &gradient, Accumulate::Yes);
        self.gradients_barrier().sync();
        // All threads have read lse of the block.
        stages.q.release();
        self.start_dq(registers, progress);
    }

    /// Starts dK and dQ of the block whose dS there is.
    fn start_gradient_products(&self, registers: &mut Registers<T>, stages: &mut Stages, progress: Progress) {
        let products = self.products;
        let stage = stages.q.wait();
        let q = products.q_transposed.slice((All, All, stage));
        multiply(&products.dk, &mut registers.dk, &registers.operand, &q, Accumulate::Yes);
        self.start_dq(registers, progress);
    }

    fn start_dq(&self, registers: &mut Registers<T>, progress: Progress) {
        let Products { dq, ds: [own, peer], k_columns: [own_k, peer_k], .. } = self.products;
        self.exchange.wait_for_peer(progress.parity);
        fence_multiplications();
        issue_multiplications(dq, &mut registers.dq, own, own_k, Accumulate::No);
        issue_multiplications(dq, &mut registers.dq, peer, peer_k, Accumulate::Yes);
        commit_multiplications();
    }

    /// The warpgroup has read dS of both CTAs.
    fn release_tiles(&self, waits_itself: bool) {
        if self.role.leads_warpgroup() {
            self.exchange.release(waits_itself);
        }
    }

    /// Adds the warpgroup's part of a block of dQ.
    fn add_dq(&self, registers: &Registers<T>, progress: Progress) {
        let thread = self.part * 128u32 + self.thread();
        self.sums.add(&registers.dq, progress.number, thread, self.role);
    }

    fn thread(&self) -> Reg<u32> {
        self.role.thread() % 128
    }

    /// P of a block, from Sᵀ.
    fn weights(
        &self,
        registers: &mut Registers<T>,
        stage: Stage,
        (block, masked): (QueryBlock, bool),
    ) -> Weights<T> {
        let (thread, scores) = (self.thread(), &mut registers.scores);
        let (weighting, part) = (self.weighting, self.weighting.part(thread, block));
        let lse = |i| pair_of(self.lse, stage, thread, i);
        if let Some(function) = weighting.function {
            let [mut weights, mut slopes] = [(); 2].map(|()| Fragment::like(scores.layout()));
            weighting.weights_by(function, scores, (part, masked), lse, (&mut weights, &mut slopes));
            return Weights { weights, slopes: Some(slopes) };
        }
        if masked {
            part.mask(scores);
        }
        let scale = weighting.unit.problem.scale * std::f32::consts::LOG2_E;
        for i in (0..scores.len()).step_by(4) {
            let lse = lse(i);
            for j in 0..4 {
                let score = scores.get(i + j);
                scores.set(i + j, fast::exp2(score * scale - lse[(j % 2) as usize]));
            }
        }
        Weights { weights: scores.packed::<T>(T::pack), slopes: None }
    }

    /// P as operand A of dV.
    fn take(&self, registers: &mut Registers<T>, weights: &Fragment<T>) {
        for i in (0..weights.len()).step_by(2) {
            registers.operand.set_word(i, weights.get_word(i));
        }
    }

    /// Stores P to the CTA's tile, for dS; times the derivative of the function of scores.
    fn store_weights(&self, weights: &Weights<T>) {
        self.store(weights.slopes.as_ref().unwrap_or(&weights.weights));
        self.weights_barrier().arrive();
    }

    /// dPᵀ becomes dSᵀ, as operand A of dK, and in shared memory of both CTAs.
    fn gradients(&self, registers: &mut Registers<T>, stage: Stage, stages: &mut Stages) {
        let copy = TiledCopy::from_c::<T>("SM75_U32x4_LDSM_N", &self.products.scores).thread(self.thread());
        let weights = Fragment::<T>::like(registers.scores.layout());
        self.weights_barrier().sync();
        let own = self.exchange.tiles.slice((All, All, 0));
        copy.load_matrix(&copy.retile(&weights), &copy.source(&own));
        let thread = self.thread();
        let delta = |i| pair_of(self.delta, stage, thread, i);
        score_gradients(&registers.scores, (None, &weights), delta, &mut registers.operand);
        // All threads have read P and delta.
        self.role.sync_warpgroup();
        stages.gradient.release();
        self.store(&as_accumulator(&registers.operand, &registers.scores));
        fence_proxy_async_shared();
        self.role.sync_warpgroup();
        if self.role.leads_warpgroup() {
            self.exchange.send();
        }
        self.gradients_barrier().arrive();
    }

    /// Stores P or dSᵀ to the CTA's tile.
    fn store(&self, values: &Fragment<T>) {
        let own = self.exchange.tiles.slice((All, All, 0));
        store_scores(&self.products.scores, self.thread(), values, &own);
    }
}

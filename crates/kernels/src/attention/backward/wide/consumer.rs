//! The two consumer warpgroups: one computes P and dV, the other dS and dK, and both a part of dQ.
//!
//! ```text
//! warpgroup 0, block n            warpgroup 1, block n
//!     start dV n
//!     P n to shared memory    ->      dS n from P n, to shared memory of both CTAs
//!     start Sᵀ n+1                    start dK n, dPᵀ n+1
//!     add dQ n-1                      add dQ n-1
//!     P n+1
//!     start dQ n                      start dQ n
//! ```
//!
//! P and dS are operand A of dV and dK where they are, in registers; P passes through the tile that
//! dS takes. dV and dK come before the next scores, so that the stages of Q and dO are free early: the
//! loads of block n+2 take the time of the other products. The additions to dQ of a block take the
//! time of the next block's products.
//!
//! Nothing is in flight at the end of a step: ptxas serializes `wgmma` that are in flight across the
//! edge of a loop. P n+1 comes before the wait for the other CTA's dS: ptxas moves exponentials past
//! waits for products, and not past that loop.

use warpwright::prelude::*;

use super::configuration::{GRADIENTS_BARRIER, WEIGHTS_BARRIER};
use super::exchange::Exchange;
use crate::attention::backward::query_stages::{QueryOperands, Stages};
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
    pub(super) queries: QueryOperands,
    /// dS as (query, key), and the warpgroup's columns of K as (d, key): of this CTA's keys, and of
    /// the other's.
    pub(super) ds: [MatrixOperand; 2],
    pub(super) k_columns: [MatrixOperand; 2],
}

/// A thread's parts of Sᵀ or dPᵀ, of P or dSᵀ as operand A, of what dS takes for P, and of dQ, dK and
/// dV.
pub(super) struct Registers<T> {
    pub(super) scores: Fragment<f32>,
    pub(super) operand: Fragment<T>,
    /// P; of scores with a function, P times its derivative.
    pub(super) slopes: Fragment<T>,
    pub(super) dq: Fragment<f32>,
    pub(super) dk: Fragment<f32>,
    pub(super) dv: Fragment<f32>,
}

/// The block of queries whose P or dS the warpgroup has computed: its number, and the parity of how
/// many there were before.
#[derive(Clone, Copy, DeviceValue)]
struct Progress {
    number: Reg<u32>,
    /// The block whose dQ is in registers: the one before.
    pending: Reg<u32>,
    parity: Reg<u32>,
}

#[device]
impl Progress {
    /// The first block. There is none before: the first step adds zeros to it.
    fn first(number: Reg<u32>) -> Self {
        Self { number, pending: number, parity: constant(0) }
    }

    /// Goes on to block `number`.
    fn advance(&mut self, number: Reg<u32>) {
        self.pending = self.number;
        self.number = number;
        self.parity = self.parity ^ 1u32;
    }
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
        self.weights(registers, stage, (block, true));
        registers.dq.clear();
        let mut progress = Progress::first(range.begin);
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
        self.start_dv(registers, &mut stages);
        self.store_weights(registers, progress);
        self.add_pending(registers, progress);
        wait_multiplications(0);
        stages.gradient.release();
        self.start_dq_of_weights(registers, &mut stages, progress);
        wait_multiplications(0);
        self.release_tiles(true);
        // The other CTA has read what this one sent: it may exit.
        self.exchange.wait_until_free(progress.parity);
        self.add_dq(registers, progress.number);
    }

    /// Warpgroup 1: dS and dK of every block, and its part of dQ.
    pub(super) fn gradients_of_all(&self, registers: &mut Registers<T>, mut stages: Stages) {
        let range = self.range;
        let stage = stages.gradient.wait();
        self.start_dp(registers, stage);
        wait_multiplications(0);
        self.gradients(registers, stage, &mut stages);
        registers.dq.clear();
        let unit = self.weighting.unit;
        let mut progress = Progress::first(range.begin);
        for number in 0..unit.problem.heads[1] {
            let begin = range.begin + number.eq(0u32).to_u32();
            for block in begin..range.end {
                self.gradients_step(number * unit.line_blocks + block, registers, &mut stages, &mut progress);
            }
        }
        self.start_dk(registers, &mut stages);
        self.add_pending(registers, progress);
        wait_multiplications(0);
        stages.q.release();
        self.start_dq(registers, progress);
        wait_multiplications(0);
        self.release_tiles(false);
        self.add_dq(registers, progress.number);
    }

    /// P of a block; the products of the block before. `masked`: some query does not see all keys.
    fn weights_step(
        &self,
        (block, masked): (QueryBlock, bool),
        registers: &mut Registers<T>,
        stages: &mut Stages,
        progress: &mut Progress,
    ) {
        self.start_dv(registers, stages);
        self.store_weights(registers, *progress);
        let next = stages.q.wait();
        self.start_scores(registers, next);
        self.add_pending(registers, *progress);
        wait_multiplications(1);
        stages.gradient.release();
        wait_multiplications(0);
        self.weights(registers, next, (block, masked));
        self.start_dq_of_weights(registers, stages, *progress);
        wait_multiplications(0);
        self.release_tiles(true);
        self.add_in_turn(registers, *progress);
        progress.advance(block.number);
    }

    /// dS of block `number`; the products of the block before.
    fn gradients_step(
        &self,
        number: Reg<u32>,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        progress: &mut Progress,
    ) {
        self.start_dk(registers, stages);
        let next = stages.gradient.wait();
        self.start_dp(registers, next);
        self.add_pending(registers, *progress);
        wait_multiplications(1);
        stages.q.release();
        self.start_dq(registers, *progress);
        wait_multiplications(0);
        self.release_tiles(false);
        self.add_in_turn(registers, *progress);
        self.gradients(registers, next, stages);
        progress.advance(number);
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
        let q = products.queries.q.slice((All, All, stage));
        multiply(&products.scores, &mut registers.scores, &products.k, &q, Accumulate::No);
    }

    fn start_dp(&self, registers: &mut Registers<T>, stage: Stage) {
        let products = self.products;
        let gradient = products.queries.gradient.slice((All, All, stage));
        multiply(&products.scores, &mut registers.scores, &products.v, &gradient, Accumulate::No);
    }

    /// Starts dV of the block whose P there is.
    fn start_dv(&self, registers: &mut Registers<T>, stages: &mut Stages) {
        let products = self.products;
        let stage = stages.gradient.wait();
        let gradient = products.queries.gradient_transposed.slice((All, All, stage));
        multiply(&products.dv, &mut registers.dv, &registers.operand, &gradient, Accumulate::Yes);
    }

    /// Starts dK of the block whose dS there is.
    fn start_dk(&self, registers: &mut Registers<T>, stages: &mut Stages) {
        let products = self.products;
        let stage = stages.q.wait();
        let q = products.queries.q_transposed.slice((All, All, stage));
        multiply(&products.dk, &mut registers.dk, &registers.operand, &q, Accumulate::Yes);
    }

    /// Starts warpgroup 0's dQ, when dS is there.
    fn start_dq_of_weights(&self, registers: &mut Registers<T>, stages: &mut Stages, progress: Progress) {
        self.gradients_barrier().sync();
        // All threads have read lse of the block.
        stages.q.release();
        self.start_dq(registers, progress);
    }

    /// Starts dQ: the own keys' part while the peer's dS comes.
    fn start_dq(&self, registers: &mut Registers<T>, progress: Progress) {
        let Products { dq, ds: [own, peer], k_columns: [own_k, peer_k], .. } = self.products;
        multiply(dq, &mut registers.dq, own, own_k, Accumulate::No);
        self.exchange.wait_for_peer(progress.parity);
        multiply(dq, &mut registers.dq, peer, peer_k, Accumulate::Yes);
    }

    /// The warpgroup has read dS of both CTAs.
    fn release_tiles(&self, waits_itself: bool) {
        if self.role.leads_warpgroup() {
            self.exchange.release(waits_itself);
        }
    }

    /// Adds dQ of the block before, beside products.
    fn add_pending(&self, registers: &Registers<T>, progress: Progress) {
        if self.sums.turns.is_none() {
            self.add_dq(registers, progress.pending);
        }
    }

    /// Adds dQ of the block in its turn. The wait for a turn is a loop: no product is in flight across
    /// its edge.
    fn add_in_turn(&self, registers: &Registers<T>, progress: Progress) {
        if self.sums.turns.is_some() {
            self.add_dq(registers, progress.number);
        }
    }

    /// Adds the warpgroup's part of dQ of block `number`.
    fn add_dq(&self, registers: &Registers<T>, number: Reg<u32>) {
        let thread = self.part * 128u32 + self.thread();
        self.sums.add(&registers.dq, number, thread, self.role);
    }

    fn thread(&self) -> Reg<u32> {
        self.role.thread() % 128
    }

    /// P of a block, from Sᵀ.
    fn weights(&self, registers: &mut Registers<T>, stage: Stage, (block, masked): (QueryBlock, bool)) {
        let Registers { scores, operand, slopes, .. } = registers;
        let thread = self.thread();
        let part = self.weighting.part(thread, block);
        let lse = |i| pair_of(self.lse, stage, thread, i);
        self.weighting.weights(scores, false, (part, masked), lse, (operand, Some(slopes)));
    }

    /// Stores P for dS, when dQ of the block before is computed.
    fn store_weights(&self, registers: &Registers<T>, progress: Progress) {
        self.exchange.wait_until_free(progress.parity ^ 1u32);
        self.store(&registers.slopes);
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

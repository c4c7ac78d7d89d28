//! A consumer warpgroup's part: dK and dV of 64 keys, and its share of dQ.
//!
//! ```text
//! a step, block n:   start Sᵀ n, dQ n-1, dK n-1      the exponentials of Sᵀ n run beside dQ and dK
//!                    start dPᵀ n, dV n               dSᵀ n = P (dPᵀ - delta), beside dV
//!                    dSᵀ n to shared memory, for dQ of both warpgroups
//! ```
//!
//! Nothing is in flight at the end of a step: ptxas serializes `wgmma` that are in flight across the
//! edge of a loop.

use warpwright::prelude::*;

use super::configuration::{BackwardKernel, CONSUMERS};
use super::query_stages::{QueryOperands, Stages};
use super::results::QuerySums;
use super::scores::{QueryBlock, Weighting, as_accumulator, pair_of, score_gradients, store_scores};
use crate::attention::problem::AttentionElement;

/// What a consumer multiplies.
pub(super) struct Products {
    pub(super) scores: TiledMma,
    pub(super) dv: TiledMma,
    pub(super) dk: TiledMma,
    pub(super) dq: TiledMma,
    pub(super) k: MatrixOperand,
    pub(super) v: MatrixOperand,
    pub(super) queries: QueryOperands,
    /// dS as (query, key), and the warpgroup's columns of K as (d, key).
    pub(super) ds: MatrixOperand,
    pub(super) k_transposed: MatrixOperand,
}

/// A thread's parts of Sᵀ, dPᵀ, Pᵀ, dSᵀ, dQ, dK and dV.
pub(super) struct Registers<T> {
    pub(super) scores: Fragment<f32>,
    pub(super) dp: Fragment<f32>,
    pub(super) weights: Fragment<T>,
    /// Of scores with a function, Pᵀ times its derivative.
    pub(super) slopes: Option<Fragment<T>>,
    pub(super) ds: Fragment<T>,
    pub(super) dq: Fragment<f32>,
    pub(super) dk: Fragment<f32>,
    pub(super) dv: Fragment<f32>,
}

/// What a consumer knows.
pub(super) struct Warpgroup<'k, T: AttentionElement> {
    pub(super) kernel: BackwardKernel,
    pub(super) role: Role,
    pub(super) products: &'k Products,
    pub(super) weighting: Weighting<'k>,
    pub(super) lse: &'k Tensor<f32, SharedSpace>,
    pub(super) delta: &'k Tensor<f32, SharedSpace>,
    pub(super) ds: &'k Tensor<T, SharedSpace>,
}

/// The block of queries whose dSᵀ is there: its stage of Q, its buffer of dSᵀ, and its number.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Progress {
    pub(super) stage: Stage,
    pub(super) buffer: Reg<u32>,
    pub(super) number: Reg<u32>,
}

#[device]
impl<T: AttentionElement> Warpgroup<'_, T> {
    /// dSᵀ and dV of the first block.
    pub(super) fn begin(
        &self,
        block: QueryBlock,
        registers: &mut Registers<T>,
        stages: &mut Stages,
    ) -> Progress {
        let stage = self.start_scores(registers, stages);
        wait_multiplications(0);
        self.weights(registers, stage, (block, true));
        let buffer = constant(0u32);
        self.finish_scores(registers, stages, buffer, false);
        Progress { stage, buffer, number: block.number }
    }

    /// dQ and dK of the block before, dSᵀ and dV of a block. `masked`: some query does not see all keys
    /// of the warpgroup.
    pub(super) fn step(
        &self,
        (block, masked): (QueryBlock, bool),
        registers: &mut Registers<T>,
        stages: &mut Stages,
        progress: &mut Progress,
        sums: QuerySums,
    ) {
        let stage = self.start_scores(registers, stages);
        self.start_key_products(registers, progress);
        wait_multiplications(2);
        self.weights(registers, stage, (block, masked));
        wait_multiplications(1);
        self.add_dq(registers, progress.number, sums);
        let buffer = progress.buffer ^ 1u32;
        self.finish_scores(registers, stages, buffer, true);
        progress.stage = stage;
        progress.buffer = buffer;
        progress.number = block.number;
    }

    /// Starts Sᵀ of the next block.
    pub(super) fn start_scores(&self, registers: &mut Registers<T>, stages: &mut Stages) -> Stage {
        let stage = stages.q.wait();
        let q = self.products.queries.q.slice((All, All, stage));
        multiply(&self.products.scores, &mut registers.scores, &self.products.k, &q, Accumulate::No);
        stage
    }

    /// Starts dQ and dK of the block whose dSᵀ is there.
    pub(super) fn start_key_products(&self, registers: &mut Registers<T>, progress: &Progress) {
        let products = self.products;
        let ds = products.ds.slice((All, All, progress.buffer));
        multiply(&products.dq, &mut registers.dq, &ds, &products.k_transposed, Accumulate::No);
        let q = products.queries.q_transposed.slice((All, All, progress.stage));
        multiply(&products.dk, &mut registers.dk, &registers.ds, &q, Accumulate::Yes);
    }

    /// dPᵀ, dV and dSᵀ of the block whose P is there. `follows`: dK of the block before is in flight.
    fn finish_scores(
        &self,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        buffer: Reg<u32>,
        follows: bool,
    ) {
        let (products, stage) = (self.products, stages.gradient.wait());
        let gradient = products.queries.gradient.slice((All, All, stage));
        multiply(&products.scores, &mut registers.dp, &products.v, &gradient, Accumulate::No);
        let gradient = products.queries.gradient_transposed.slice((All, All, stage));
        multiply(&products.dv, &mut registers.dv, &registers.weights, &gradient, Accumulate::Yes);
        wait_multiplications(1);
        if follows {
            stages.q.release();
        }
        self.score_gradients(registers, stage);
        let ds = as_accumulator(&registers.ds, &registers.scores);
        store_scores(&products.scores, self.role.thread(), &ds, &self.ds.slice((All, All, buffer)));
        fence_proxy_async_shared();
        wait_multiplications(0);
        // dSᵀ of both warpgroups is there, both have read the other buffer, and all threads delta.
        NamedBarrier::new(7, CONSUMERS * 128).sync();
        stages.gradient.release();
    }

    /// Sᵀ becomes P, and that operand A of dV.
    fn weights(&self, registers: &mut Registers<T>, stage: Stage, (block, masked): (QueryBlock, bool)) {
        let part = self.weighting.part(self.role.thread() % 128, block);
        let thread = self.role.thread();
        let lse = |i| pair_of(self.lse, stage, thread, i);
        let Registers { scores, weights, slopes, .. } = registers;
        let operands = (weights, slopes.as_mut());
        self.weighting.weights(scores, self.kernel.keeps_scores(), (part, masked), lse, operands);
    }

    /// dSᵀ, as operand A of dK.
    fn score_gradients(&self, registers: &mut Registers<T>, stage: Stage) {
        let Registers { scores, dp, weights, slopes, ds, .. } = registers;
        let (thread, weights) = (self.role.thread(), slopes.as_ref().unwrap_or(weights));
        let kept = self.kernel.keeps_scores().then_some(&*scores);
        score_gradients(dp, (kept, weights), |i| pair_of(self.delta, stage, thread, i), ds);
    }

    /// Adds the warpgroup's part of a block of dQ.
    pub(super) fn add_dq(&self, registers: &Registers<T>, number: Reg<u32>, sums: QuerySums) {
        if self.kernel.form.deterministic {
            // The wait for a turn is a loop: no product is in flight across its edge.
            wait_multiplications(0);
        }
        sums.add(&registers.dq, number, self.role.thread(), self.role);
    }
}

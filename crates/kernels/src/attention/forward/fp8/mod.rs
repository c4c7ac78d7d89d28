//! Attention's forward kernel for e4m3 Q, K and V with scales, on Hopper's tensor cores.
//!
//! It is the kernel of [`forward`](super), and differs in four points:
//!
//! ```text
//! V        the tensor cores read 8-bit operands with k contiguous only. Three warps of the
//!          producer transpose each block in shared memory, in place: `transpose.rs`. Or a kernel
//!          before has transposed V in global memory, and the producer is one warp: `value_transpose.rs`
//! P        e4m3 in registers. A thread's accumulators of S are its operand A of P·V, because the
//!          transpose permutes the keys of V alike: `consumer.rs`
//! O        the tensor cores keep 13 bits of 8-bit products: P·V of each block is summed from
//!          zero and added to O in f32: `consumer.rs`
//! scales   of heads or blocks of Q, K and V: in the exponent of the weights, and in the factor
//!          that rescales O: `softmax.rs`
//! ```

mod configuration;
mod consumer;
mod softmax;
mod transpose;
mod value_transpose;

use warpwright::lang::control::trap;
use warpwright::prelude::*;

use super::Results;
use super::consumer::{Products, Warpgroup};
use super::keys::Keys;
use super::scheduler::{ForwardProblem, TileScheduler};
use crate::attention::accumulator::atom;
use crate::attention::problem::AttentionElement;
use crate::attention::score::{AttentionKernel, ScoreOp};
pub use configuration::BLOCK;
pub(crate) use configuration::Fp8Kernel;
use configuration::PART_COLUMNS;
use consumer::{Fp8Warpgroup, Registers, Stages};
use transpose::{BARRIER, Transposer};
pub(crate) use value_transpose::ValueTranspose;

/// The scales of Q, K and V.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct ScaleArrays {
    /// (sequence, head, block of queries).
    pub(crate) q: Global<f32>,
    /// (sequence, head of K, block of keys).
    pub(crate) k: Global<f32>,
    /// (sequence, head of V, block of keys).
    pub(crate) v: Global<f32>,
    /// Scales of a head of Q, and of a head of K and V.
    pub(crate) counts: [Reg<u32>; 2],
}

impl<S: ScoreOp> AttentionKernel<Fp8Kernel, S> {
    /// O = softmax(scale · Q·Kᵀ)·V, and the logarithm of each row's sum of exponentials, (sequence,
    /// head, query). `taken` is zero before and after.
    #[kernel]
    pub(crate) fn forward<T: AttentionElement>(
        &self,
        q: &TensorMap,
        k: &TensorMap,
        v: &TensorMap,
        o: &mut Global<T>,
        lse: &mut Global<f32>,
        taken: &mut Global<u32>,
        problem: ForwardProblem,
        scales: ScaleArrays,
    ) {
        let results = Results { o: *o, lse: *lse, taken: *taken };
        let of_attention = self.kernel.forward.score(problem);
        let score = self.score_or(of_attention.as_deref());
        self.kernel.compute((q, k, v), results, (problem, scales), score);
    }
}

#[device]
impl Fp8Kernel {
    /// The CTA's tiles, each score through `score`.
    fn compute<T: AttentionElement>(
        &self,
        (q, k, v): (&TensorMap, &TensorMap, &TensorMap),
        results: Results<T>,
        (problem, scales): (ForwardProblem, ScaleArrays),
        score: Option<&dyn ScoreOp>,
    ) {
        let kernel = self.forward;
        let [producer, consumer] = roles(self.roles());
        let (cluster, alone) = (ClusterGrid::new((kernel.cluster, 1)), ClusterGrid::new((1, 1)));
        let mut q_stages = Pipeline::stages(kernel.q_stages);
        let q_tiles = q_stages.operand::<e4m3>(self.q_tile());
        // The number of the tile in each stage of Q; where there is no tile, Q is not loaded.
        let numbers = shared_array::<u32>(kernel.q_stages);
        let q_pipeline = q_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        let mut k_stages = Pipeline::stages(kernel.stages);
        let k_tiles = k_stages.operand::<e4m3>(self.k_tile());
        let k_pipeline = k_stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        // From TMA to the consumers; or to the warps that transpose, and from them to the consumers: the same
        // memory.
        let mut v_stages = Pipeline::stages(kernel.stages);
        let v_tiles = v_stages.operand::<e4m3>(self.v_tile());
        let v_pipeline = v_stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        // With the keys of the block of V in each stage, or that there is none.
        let transposed = (!self.v_transposed).then(|| {
            let transposed = Pipeline::stages(kernel.stages);
            let transposed = transposed.connect(consumer, ConsumerSchedule::Cooperative, alone);
            (transposed, shared_array::<u32>(kernel.stages))
        });
        let scheduler = TileScheduler::new(kernel, problem, cluster);
        // All this ran beside the end of the predecessor; from here on, its results are there.
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();

        if producer.is_mine() {
            producer.begin();
            let warp = transposed.map(|_| warp::broadcast(thread_idx().x / 32, 0));
            if producer.leads() {
                let mut q_stage = q_pipeline.producer();
                let mut k_stage = k_pipeline.producer();
                let mut v_stage = v_pipeline.producer();
                let mut number = scheduler.first();
                while number < scheduler.tiles {
                    let tile = scheduler.tile(number);
                    if tile.has_rows(kernel.packed) {
                        let keys = Keys::new(kernel, &problem, &tile);
                        if kernel.packed && self.block_scales {
                            // It has more keys than scales.
                            if tile.sequence.lengths[1] > problem.lengths[1] {
                                trap();
                            }
                        }
                        let q = kernel.matrix(q, &tile, tile.head);
                        let first = tile.sequence.starts[0] + tile.first_row;
                        numbers.at(q_stage.acquire().index()).store(number);
                        q_stage.load([q_tiles.load(q, (first, constant(0)), None)]);
                        let parts = |map: &TensorMap, block: Reg<u32>| {
                            let parts = keys.parts(map, block).into_iter();
                            parts.map(|(matrix, key)| (matrix, (key, constant(0))))
                        };
                        for block in (tile.begin..tile.end).rev() {
                            k_stage.load([k_tiles.load_parts(parts(k, block), cluster.multicast_b())]);
                            let v_load = match transposed {
                                Some((_, filled)) => {
                                    filled.at(v_stage.acquire().index()).store(keys.present(block));
                                    v_tiles.load_parts(parts(v, block), cluster.multicast_b())
                                }
                                None => {
                                    let (matrix, key) = keys.transposed(v, block);
                                    v_tiles.load(matrix, (constant(0), key), cluster.multicast_b())
                                }
                            };
                            v_stage.load([v_load]);
                        }
                    }
                    number = scheduler.next(number, results.taken);
                }
                numbers.at(q_stage.acquire().index()).store(number);
                q_stage.load([]);
                if let Some((_, filled)) = transposed {
                    filled.at(v_stage.acquire().index()).store(transpose::NO_BLOCK);
                    v_stage.load([]);
                }
                q_stage.tail();
                k_stage.tail();
                v_stage.tail();
            }
            if let Some(((transposed, filled), warp)) = transposed.zip(warp) {
                if warp >= 1 {
                    let transposer =
                        Transposer::new((v_tiles.memory(), self.squares()), warp - 1u32, BARRIER);
                    transposer.run(v_pipeline.consumer(), transposed.producer(), (filled, kernel.packed));
                }
            }
        } else {
            consumer.begin();
            let scores = TiledMma::warpgroups(atom::<e4m3>(BLOCK, true), kernel.consumers);
            let out = TiledMma::warpgroups(atom::<e4m3>(PART_COLUMNS, false), kernel.consumers);
            // A part of O takes this many rows of a transposed block.
            let tiles = kernel.stages * self.tiles_of_block();
            let v_tiles = v_tiles
                .tensor()
                .map(|_| TmaTile::new::<e4m3>((PART_COLUMNS, BLOCK), Major::K)?.layout(tiles));
            let thread = consumer.thread();
            let mut registers = Registers::new(self, &scores.thread(thread), &out.thread(thread));
            let products = Products {
                q: scores.a_operand(q_tiles.tensor(), consumer.warpgroup()),
                k: scores.b_operand(k_tiles.tensor()),
                v: out.b_operand(&v_tiles),
                scores,
                out,
            };
            let role = consumer;
            let base = Warpgroup { kernel, role, products: &products, scheduler: &scheduler, problem, score };
            let mine = Fp8Warpgroup { kernel: *self, base, scales };
            let mut stages = Stages {
                q: q_pipeline.consumer(),
                k: k_pipeline.consumer(),
                v: v_pipeline.consumer(),
                transposed: transposed.map(|(transposed, _)| transposed.consumer()),
            };
            mine.base.begin_turns();
            let mut number = mine.next_number(&mut stages, numbers);
            if number < scheduler.tiles {
                let mut part = mine.part(number);
                let mut softmax = mine.softmax(&part);
                mine.start_scores(&mut registers, &mut stages);
                mine.finish_first_scores(&part, &mut registers, &mut stages, &mut softmax);
                while number < scheduler.tiles {
                    let last = part.part.tile.end - 1u32;
                    let whole = (part.part.whole.0.min(last), part.part.whole.1.min(last));
                    for block in (whole.1..last).rev() {
                        mine.step((&part, block, true), &mut registers, &mut stages, &mut softmax);
                    }
                    for block in (whole.0..whole.1).rev() {
                        mine.step((&part, block, false), &mut registers, &mut stages, &mut softmax);
                    }
                    if kernel.mask.left {
                        for block in (part.part.tile.begin..whole.0).rev() {
                            mine.step((&part, block, true), &mut registers, &mut stages, &mut softmax);
                        }
                    }
                    stages.q.release();
                    mine.base.wait_turn();
                    mine.add_products(&mut registers, &mut stages, &softmax);
                    number = mine.next_number(&mut stages, numbers);
                    if number < scheduler.tiles {
                        mine.start_scores(&mut registers, &mut stages);
                        mine.base.pass_turn();
                        mine.store(&part, &softmax, &mut registers, results);
                        part = mine.part(number);
                        softmax = mine.softmax(&part);
                        mine.finish_first_scores(&part, &mut registers, &mut stages, &mut softmax);
                    } else {
                        mine.base.pass_turn();
                        mine.store(&part, &softmax, &mut registers, results);
                    }
                }
            }
            stages.q.release();
            if transposed.is_some() {
                stages.v.release();
            }
        }
    }
}

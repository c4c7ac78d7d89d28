//! Attention's forward kernel on Hopper's tensor cores.
//!
//! ```text
//! Q (128 queries, d)      K, V (keys, d) in blocks of 128        O (128 queries, d)
//!
//! producer (1 thread)     TMA: Q of a tile; then K and V, block by block from the last, into the stages of two pipelines
//! consumers (2 warpgroups, 64 queries each)
//!     S = Q·Kᵀ            `wgmma`, S in registers
//!     P = exp(S - m)      in registers, and there operand A of the next product
//!     O += P·V            `wgmma`, O in registers
//! ```
//!
//! A warpgroup starts S of block n + 1 before P·V of block n, and computes the softmax of n + 1 while
//! the tensor cores do both; at the end of a tile it is S of the next tile's first block, and the
//! store of O runs beside it. The warpgroups take turns in starting products: the softmax of one
//! runs beside the products of the other. (Shah and others, FlashAttention-3, 2024.)

mod configuration;
mod consumer;
pub(super) mod fp8;
mod keys;
mod scheduler;
mod softmax;

use warpwright::prelude::*;

use super::accumulator::atom;
use super::problem::AttentionElement;
use super::score::{self, AttentionKernel, ScoreOp};
pub(crate) use configuration::ForwardKernel;
use consumer::{Products, Registers, Stages, Warpgroup};
use keys::Keys;
pub(crate) use scheduler::ForwardProblem;
use scheduler::{Tile, TileScheduler};

/// Where the results go, and the counter of tiles.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Results<T> {
    pub(super) o: Global<T>,
    pub(super) lse: Global<f32>,
    pub(super) taken: Global<u32>,
}

impl<S: ScoreOp> AttentionKernel<ForwardKernel, S> {
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
    ) {
        let results = Results { o: *o, lse: *lse, taken: *taken };
        let of_attention = self.kernel.score(problem);
        let score = self.score_or(of_attention.as_deref());
        self.kernel.compute((q, k, v), results, problem, score);
    }
}

#[device]
impl ForwardKernel {
    /// The function of softcap and ALiBi.
    fn score(&self, problem: ForwardProblem) -> Option<Box<dyn ScoreOp>> {
        let (bound, slopes) = (self.capped.then_some(problem.bound), self.biased.then_some(problem.slopes));
        score::of_attention(bound, slopes).map(|score| -> Box<dyn ScoreOp> { score })
    }

    /// The CTA's tiles, each score through `score`.
    fn compute<T: AttentionElement>(
        &self,
        (q, k, v): (&TensorMap, &TensorMap, &TensorMap),
        results: Results<T>,
        problem: ForwardProblem,
        score: Option<&dyn ScoreOp>,
    ) {
        let [producer, consumer] = roles(self.roles());
        let (cluster, alone) = (ClusterGrid::new((self.cluster, 1)), ClusterGrid::new((1, 1)));
        let mut q_stages = Pipeline::stages(self.q_stages);
        let q_tiles = q_stages.operand::<T>(self.q_tile::<T>());
        // The number of the tile in each stage of Q; where there is no tile, Q is not loaded.
        let numbers = shared_array::<u32>(self.q_stages);
        let q_pipeline = q_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        let mut k_stages = Pipeline::stages(self.stages);
        let k_tiles = k_stages.operand::<T>(self.k_tile::<T>());
        let k_pipeline = k_stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        let mut v_stages = Pipeline::stages(self.stages);
        let v_tiles = v_stages.operand::<T>(self.v_tile::<T>());
        let v_pipeline = v_stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        let scheduler = TileScheduler::new(*self, problem, cluster);
        // All this ran beside the end of the predecessor; from here on, its results are there.
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut q_stage = q_pipeline.producer();
                let mut k_stage = k_pipeline.producer();
                let mut v_stage = v_pipeline.producer();
                let mut number = scheduler.first();
                while number < scheduler.tiles {
                    let tile = scheduler.tile(number);
                    if tile.has_rows(self.packed) {
                        let keys = Keys::new(*self, &problem, &tile);
                        let q = self.matrix(q, &tile, tile.head);
                        let first = tile.sequence.starts[0] + tile.first_row;
                        numbers.at(q_stage.acquire().index()).store(number);
                        q_stage.load([q_tiles.load(q, (first, constant(0)), None)]);
                        for block in (tile.begin..tile.end).rev() {
                            let k = keys.parts(k, block).into_iter();
                            let k = k.map(|(matrix, key)| (matrix, (key, constant(0))));
                            k_stage.load([k_tiles.load_parts(k, cluster.multicast_b())]);
                            let v = keys.parts(v, block).into_iter();
                            let v = v.map(|(matrix, key)| (matrix, (constant(0), key)));
                            v_stage.load([v_tiles.load_parts(v, cluster.multicast_b())]);
                        }
                    }
                    number = scheduler.next(number, results.taken);
                }
                numbers.at(q_stage.acquire().index()).store(number);
                q_stage.load([]);
                q_stage.tail();
                k_stage.tail();
                v_stage.tail();
            }
        } else {
            consumer.begin();
            let scores = TiledMma::warpgroups(atom::<T>(self.block, true), self.consumers);
            let out = TiledMma::warpgroups(atom::<T>(self.value_dim, false), self.consumers);
            let thread = consumer.thread();
            let (score_part, out_part) = (scores.thread(thread), out.thread(thread));
            let mut registers = Registers::<T> {
                scores: score_part.c_fragment((self.rows(), self.block)),
                weights: out_part.a_fragment((self.rows(), self.block)),
                out: out_part.c_fragment((self.rows(), self.value_dim)),
            };
            let products = Products {
                q: scores.a_operand(q_tiles.tensor(), consumer.warpgroup()),
                k: scores.b_operand(k_tiles.tensor()),
                v: out.b_operand(v_tiles.tensor()),
                scores,
                out,
            };
            let (kernel, role) = (*self, consumer);
            let mine = Warpgroup { kernel, role, products: &products, scheduler: &scheduler, problem, score };
            let mut stages =
                Stages { q: q_pipeline.consumer(), k: k_pipeline.consumer(), v: v_pipeline.consumer() };
            let values = v_tiles.tensor();
            mine.begin_turns();
            let mut number = mine.next_number(&mut stages.q, numbers);
            if number < scheduler.tiles {
                let mut part = mine.part(number);
                let mut softmax = mine.softmax(&part);
                mine.start_scores(&mut registers, &mut stages);
                mine.finish_first_scores(&part, &mut registers, &mut stages, &mut softmax, values);
                while number < scheduler.tiles {
                    let last = part.tile.end - 1u32;
                    let whole = (part.whole.0.min(last), part.whole.1.min(last));
                    for block in (whole.1..last).rev() {
                        mine.step((&part, block, true), &mut registers, &mut stages, &mut softmax);
                    }
                    for block in (whole.0..whole.1).rev() {
                        mine.step((&part, block, false), &mut registers, &mut stages, &mut softmax);
                    }
                    if self.mask.left {
                        for block in (part.tile.begin..whole.0).rev() {
                            mine.step((&part, block, true), &mut registers, &mut stages, &mut softmax);
                        }
                    }
                    stages.q.release();
                    mine.wait_turn();
                    mine.start_out(&mut registers, &mut stages);
                    number = mine.next_number(&mut stages.q, numbers);
                    if number < scheduler.tiles {
                        mine.start_scores(&mut registers, &mut stages);
                        mine.pass_turn();
                        wait_multiplications(1);
                        stages.v.release();
                        let logarithms = softmax.normalize(&mut registers.out);
                        mine.store(&part, logarithms, std::slice::from_ref(&registers.out), results);
                        part = mine.part(number);
                        softmax = mine.softmax(&part);
                        mine.finish_first_scores(&part, &mut registers, &mut stages, &mut softmax, values);
                    } else {
                        mine.pass_turn();
                        wait_multiplications(0);
                        stages.v.release();
                        let logarithms = softmax.normalize(&mut registers.out);
                        mine.store(&part, logarithms, std::slice::from_ref(&registers.out), results);
                    }
                }
            }
            stages.q.release();
        }
    }

    /// The matrix of a head: a map's third axis are heads, its fourth sequences that are not packed.
    fn matrix(&self, map: &TensorMap, tile: &Tile, head: Reg<u32>) -> MappedMatrix {
        let matrix = MappedMatrix::from(map).batch(head);
        if self.packed { matrix } else { matrix.batch(tile.sequence.number) }
    }
}

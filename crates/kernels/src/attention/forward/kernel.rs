//! The forward kernel of every type: its producer, and its consumers around a [`Mainloop`].

use warpwright::lang::control::trap;
use warpwright::prelude::*;

use super::configuration::{ForwardKernel, ValueLayout};
use super::consumer::{Block, Products, Registers, Results, Stages, Warpgroup};
use super::keys::Keys;
use super::mainloop::Mainloop;
use super::scheduler::{ForwardProblem, TileScheduler};
use super::transpose::{BARRIER, NO_BLOCK, Transposer};
use crate::attention::accumulator::atom;
use crate::attention::problem::AttentionElement;
use crate::attention::score::ScoreOp;
use crate::gemm::problem::types::Operand;

/// The stages between the producer and the consumers.
struct Pipelines<E> {
    q_tiles: StagedOperand<E>,
    k_tiles: StagedOperand<E>,
    v_tiles: StagedOperand<E>,
    q: Pipeline,
    k: Pipeline,
    v: Pipeline,
    /// The number of the tile in each stage of Q; where there is no tile, Q is not loaded.
    numbers: Shared<u32>,
    /// If warps transpose V: the stages that they have done, and the keys of the block of V in each stage,
    /// or that there is none.
    transposed: Option<(Pipeline, Shared<u32>)>,
    cluster: ClusterGrid,
}

/// The CTA's tiles, each score through `score`.
#[device]
pub(super) fn compute<M: Mainloop, O: AttentionElement>(
    mainloop: &M,
    kernel: ForwardKernel,
    maps: [&TensorMap; 3],
    results: Results<O>,
    problem: ForwardProblem,
    score: Option<&dyn ScoreOp>,
) {
    let [producer, consumer] = roles(kernel.roles());
    let (cluster, alone) = (ClusterGrid::new((kernel.cluster, 1)), ClusterGrid::new((1, 1)));
    let [q_tile, k_tile, v_tile] = kernel.tiles::<M::Element>();
    let mut q_stages = Pipeline::stages(kernel.q_stages);
    let q_tiles = q_stages.operand(q_tile);
    let numbers = shared_array::<u32>(kernel.q_stages);
    let q = q_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
    let mut k_stages = Pipeline::stages(kernel.stages);
    let k_tiles = k_stages.operand(k_tile);
    let k = k_stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
    let mut v_stages = Pipeline::stages(kernel.stages);
    let v_tiles = v_stages.operand(v_tile);
    let v = v_stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
    let transposed = (kernel.values() == ValueLayout::TransposedInside).then(|| {
        let transposed = Pipeline::stages(kernel.stages);
        let transposed = transposed.connect(consumer, ConsumerSchedule::Cooperative, alone);
        (transposed, shared_array::<u32>(kernel.stages))
    });
    let pipelines =
        Pipelines::<M::Element> { q_tiles, k_tiles, v_tiles, q, k, v, numbers, transposed, cluster };
    let scheduler = TileScheduler::new(kernel, problem, cluster);
    // All this ran beside the end of the predecessor; from here on, its results are there.
    launch::grid_dependency_wait();
    launch::grid_dependency_launch();

    if producer.is_mine() {
        producer.begin();
        let warp = transposed.map(|_| warp::broadcast(thread_idx().x / 32, 0));
        if producer.leads() {
            pipelines.load(kernel, maps, (&scheduler, problem), results.taken);
        }
        if let Some(((transposed, filled), warp)) = transposed.zip(warp) {
            if warp >= 1 {
                let memory = (pipelines.v_tiles.memory().cast::<e4m3>(), kernel.squares());
                let transposer = Transposer::new(memory, warp - 1u32, BARRIER);
                transposer.run(v.consumer(), transposed.producer(), (filled, kernel.packed));
            }
        }
    } else {
        consumer.begin();
        let scores = TiledMma::warpgroups(atom::<M::Element>(kernel.block, true), kernel.consumers);
        let out = TiledMma::warpgroups(atom::<M::Element>(kernel.columns(), false), kernel.consumers);
        let values = kernel.value_tensor(pipelines.v_tiles.tensor());
        let registers = pipelines.registers(kernel, consumer.thread(), [&scores, &out]);
        let products = pipelines.operands(consumer, [scores, out], &values);
        let role = consumer;
        let mine = Warpgroup { kernel, role, products: &products, scheduler: &scheduler, problem, score };
        mine.begin_turns();
        multiply_tiles(mainloop, &mine, registers, pipelines.consumer(), (numbers, results));
    }
}

#[device]
impl<E: Operand> Pipelines<E> {
    /// The producer's thread: loads Q of each tile, and its blocks of K and V from the last.
    fn load(
        &self,
        kernel: ForwardKernel,
        [q, k, v]: [&TensorMap; 3],
        (scheduler, problem): (&TileScheduler, ForwardProblem),
        taken: Global<u32>,
    ) {
        let (cluster, numbers) = (self.cluster, self.numbers);
        let mut q_stage = self.q.producer();
        let mut k_stage = self.k.producer();
        let mut v_stage = self.v.producer();
        let mut number = scheduler.first();
        while number < scheduler.tiles {
            let tile = scheduler.tile(number);
            if tile.has_rows(kernel.packed) {
                let keys = Keys::new(kernel, &problem, &tile);
                if kernel.packed && kernel.fp8.is_some_and(|form| form.block_scales) {
                    // It has more keys than scales.
                    if tile.sequence.lengths[1] > problem.lengths[1] {
                        trap();
                    }
                }
                let q = tile.matrix(q, kernel.packed);
                let first = tile.sequence.starts[0] + tile.first_row;
                numbers.at(q_stage.acquire().index()).store(number);
                q_stage.load([self.q_tiles.load(q, (first, constant(0)), None)]);
                for block in (tile.begin..tile.end).rev() {
                    let k = self.k_tiles.load_parts(keys.keys(k, block), cluster.multicast_b());
                    k_stage.load([k]);
                    if let Some((_, filled)) = self.transposed {
                        filled.at(v_stage.acquire().index()).store(keys.present(block));
                    }
                    let v = keys.values(v, block);
                    v_stage.load([self.v_tiles.load_parts(v, cluster.multicast_b())]);
                }
            }
            number = scheduler.next(number, taken);
        }
        numbers.at(q_stage.acquire().index()).store(number);
        q_stage.load([]);
        if let Some((_, filled)) = self.transposed {
            filled.at(v_stage.acquire().index()).store(NO_BLOCK);
            v_stage.load([]);
        }
        q_stage.tail();
        k_stage.tail();
        v_stage.tail();
    }

    /// What the consumers multiply.
    fn operands(
        &self,
        role: Role,
        [scores, out]: [TiledMma; 2],
        values: &Tensor<E, SharedSpace>,
    ) -> Products {
        Products {
            q: scores.a_operand(self.q_tiles.tensor(), role.warpgroup()),
            k: scores.b_operand(self.k_tiles.tensor()),
            v: out.b_operand(values),
            scores,
            out,
        }
    }

    /// A consumer's ends of the pipelines.
    fn consumer(&self) -> Stages {
        let transposed = self.transposed.map(|(transposed, _)| transposed.consumer());
        Stages { q: self.q.consumer(), k: self.k.consumer(), v: self.v.consumer(), transposed }
    }

    /// A consumer thread's registers.
    fn registers(
        &self,
        kernel: ForwardKernel,
        thread: Reg<u32>,
        [scores, out]: [&TiledMma; 2],
    ) -> Registers<E> {
        let (scores, out) = (scores.thread(thread), out.thread(thread));
        let (rows, block) = (kernel.rows(), kernel.block);
        let part = |_| out.c_fragment((rows, kernel.columns()));
        Registers {
            scores: scores.c_fragment((rows, block)),
            weights: out.a_fragment((rows, block)),
            products: (0..kernel.products()).map(part).collect(),
            out: (0..kernel.parts()).map(part).collect(),
            values: self.v_tiles.tensor().clone(),
        }
    }
}

/// A consumer warpgroup's part of the CTA's tiles.
#[device]
fn multiply_tiles<M: Mainloop, O: AttentionElement>(
    mainloop: &M,
    mine: &Warpgroup<'_>,
    mut registers: Registers<M::Element>,
    mut stages: Stages,
    (numbers, results): (Shared<u32>, Results<O>),
) {
    let scheduler = mine.scheduler;
    let mut number = mine.next_number(&mut stages.q, numbers);
    if number < scheduler.tiles {
        let mut part = mainloop.part(mine, number);
        let mut softmax = mainloop.softmax(mine, &part.0);
        mine.start_scores(&mut registers, &mut stages);
        mainloop.finish_first_scores(mine, &part, &mut registers, &mut stages, &mut softmax);
        while number < scheduler.tiles {
            let last = part.0.tile.end - 1u32;
            let whole = (part.0.whole.0.min(last), part.0.whole.1.min(last));
            for block in (whole.1..last).rev() {
                let block = Block::new(&part, block, true);
                mainloop.step(mine, block, &mut registers, &mut stages, &mut softmax);
            }
            for block in (whole.0..whole.1).rev() {
                let block = Block::new(&part, block, false);
                mainloop.step(mine, block, &mut registers, &mut stages, &mut softmax);
            }
            if mine.kernel.mask.left {
                for block in (part.0.tile.begin..whole.0).rev() {
                    let block = Block::new(&part, block, true);
                    mainloop.step(mine, block, &mut registers, &mut stages, &mut softmax);
                }
            }
            stages.q.release();
            mine.wait_turn();
            mainloop.start_out(mine, &mut registers, &mut stages, &softmax);
            number = mine.next_number(&mut stages.q, numbers);
            if number < scheduler.tiles {
                mine.start_scores(&mut registers, &mut stages);
                mine.pass_turn();
                let logarithms = mainloop.finish_out(&mut registers, &mut stages, &softmax, 1);
                mine.store(&part.0, logarithms, &registers.out, results);
                part = mainloop.part(mine, number);
                softmax = mainloop.softmax(mine, &part.0);
                mainloop.finish_first_scores(mine, &part, &mut registers, &mut stages, &mut softmax);
            } else {
                mine.pass_turn();
                let logarithms = mainloop.finish_out(&mut registers, &mut stages, &softmax, 0);
                mine.store(&part.0, logarithms, &registers.out, results);
            }
        }
    }
    stages.q.release();
    if stages.transposed.is_some() {
        stages.v.release();
    }
}

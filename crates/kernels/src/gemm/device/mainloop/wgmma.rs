//! GEMM on Hopper's tensor cores: TMA, mbarriers and `wgmma`, in persistent warp-specialized CTAs.
//!
//! ```text
//! C (m, n)                a cluster: 2 x 1 CTAs             a CTA: a tile of 128 x 256, cooperative consumers
//! +----+----+             +--------+                        +--------+
//! |    |    |     ->      | CTA 0  |  both need the         | cons 0 |  64 x 256: 128 f32 accumulators a thread
//! +----+----+             +--------+  same columns of B:    +--------+
//! |    |    |             | CTA 1  |  each loads half       | cons 1 |
//! +----+----+             +--------+  and multicasts it     +--------+
//!
//! producer (1 thread)    TMA: A (128, 64) and B (256, 64), a k-block, into the next stage of the pipeline
//! consumers              wgmma: accumulators += A B from the oldest stage; the stage before it has been read and is released
//!                        epilogue: round, `stmatrix` to shared memory, TMA to C, while the producer fills stages of the next tile
//! ```
//!
//! Pingpong consumers compute a tile each: one is in its epilogue while the other is in its main
//! loop. Operands with blockwise scales have these next to the tiles in each stage, and their k-blocks
//! are [promoted](super::blockwise).

use warpwright::arch::DataType;
use warpwright::layout::Error;
use warpwright::layout::atom::{MmaAtom, Types};
use warpwright::prelude::*;

use super::blockwise::Promotion;
use super::tma::TmaGemm;
use crate::gemm::device::cluster_split::ClusterSplit;
use crate::gemm::device::problems::Problems;
use crate::gemm::device::reduction::Reduction;
use crate::gemm::device::schedule::{CONSUMERS, Schedule, Split};
use crate::gemm::device::scheduler::TileScheduler;
use crate::gemm::device::store::AccumulatorTile;
use crate::gemm::problem::types::Operand;

/// The atom that multiplies 64 rows of A by `columns` columns of B from shared memory.
fn atom<A: Operand, B: Operand>(columns: u32) -> Result<MmaAtom, Error> {
    MmaAtom::wgmma(columns, Types { b: B::DATA_TYPE, ..Types::new(A::DATA_TYPE, DataType::F32) })
}

impl TmaGemm {
    /// The producer and the consumers. With at most 128 accumulators a thread, an equal share of
    /// the registers is enough.
    fn role_sizes(&self) -> [RoleSize; 2] {
        let (producer, consumer) = (warpgroups(1), warpgroups(CONSUMERS));
        let sets = self.types.scaling.granularities().map_or(1, |_| 1 + self.accumulator_sets);
        match sets * self.tile.0 * self.tile.1 / (128 * self.schedule.cooperating()) {
            ..=128 => [producer, consumer],
            _ => [producer.registers(40), consumer.registers(232)],
        }
    }
}

#[device]
impl TmaGemm {
    /// [`compute`](Self::compute) with accumulators in the registers of the consumers.
    pub(super) fn compute_in_registers<A: Operand, B: Operand>(
        &self,
        problems: &Problems,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &dyn Fn(&mut AccumulatorTile),
    ) {
        let (tile_m, tile_n, _) = self.tile;
        let cooperating = self.schedule.cooperating();
        let [producer, consumer] = roles(self.role_sizes());
        let cluster = ClusterGrid::new(self.cluster);
        let mut stages = Pipeline::stages(self.stages);
        let tiles = self.stages::<A, B>(&mut stages);
        let cluster_split = match self.split {
            Split::SplitK(ctas) => Some(ClusterSplit::new((tile_m, tile_n), CONSUMERS, ctas)),
            _ => None,
        };
        let blockwise = tiles.scales.blockwise();
        if blockwise.is_some() {
            // Threads read the scales.
            stages.release_by_warps();
        }
        let pipeline = stages.connect(consumer, self.schedule.consumers(), cluster);
        if let Some(split) = cluster_split {
            split.begin();
        }
        let mut scheduler = TileScheduler::new(cluster, self.tile, self.raster, problems, self.split);
        if producer.leads() {
            problems.prefetch();
        }
        // All this ran beside the end of the predecessor; from here on, its results are there. The thread
        // that preloads waits for them later.
        if self.preload.is_none() {
            self.begin_after_predecessor();
            scheduler.count_tiles();
        }
        let slice = self.reduced_columns(tile_n);
        let reduction = self
            .split
            .stream_k()
            .map(|stream_k| Reduction::new(workspace, (CONSUMERS, cooperating), cluster, (stream_k, slice)));

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                self.load(&tiles, pipeline.producer(), &scheduler, problems, cluster);
            }
        } else {
            consumer.begin();
            if self.preload.is_some() {
                self.begin_after_predecessor();
            }
            let mut pipeline = pipeline.consumer();
            let mma = TiledMma::warpgroups(atom::<A, B>(tile_n), cooperating);
            // This warpgroup's part of a tile, and its first unit; with pingpong it skips the
            // others'.
            let pingpong = self.schedule == Schedule::Pingpong;
            let (rank, turn) = if pingpong {
                (constant(0u32), consumer.warpgroup())
            } else {
                (consumer.warpgroup(), constant(0u32))
            };
            let a = mma.a_operand(tiles.a.tensor(), rank);
            let b = mma.b_operand(tiles.b.tensor());
            let thread = mma.thread(consumer.thread() % (cooperating * 128));
            let mut accumulators: Fragment<f32> = thread.c_fragment((tile_m, tile_n));
            accumulators.clear();
            let mut promotion = blockwise
                .map(|scales| Promotion::new(scales, self.accumulator_sets, &mma, &thread, self.tile));
            let leads = consumer.leads_warpgroup();
            let tile_of = |unit, (row, column), accumulators: &Fragment<f32>| {
                let at = (row + rank * 64, column);
                AccumulatorTile::new(
                    accumulators,
                    (consumer, leads),
                    unit,
                    at,
                    self.tile.1,
                    (16, 64 * cooperating),
                )
            };
            if pingpong {
                consumer.begin_turns();
                pipeline.skip(turn * scheduler.unit(constant(0u32)).k_blocks);
            }
            for index in (turn..scheduler.units).step_by(CONSUMERS / cooperating) {
                let unit = scheduler.unit(index);
                if let Some(reduction) = &reduction {
                    reduction.begin(&scheduler, unit, rank, leads);
                }
                if pingpong {
                    consumer.wait_turn();
                }
                let mut tile = match &mut promotion {
                    None => {
                        let at = (All, All, pipeline.wait());
                        multiply(&mma, &mut accumulators, &a.slice(at), &b.slice(at), Accumulate::No);
                        for _ in 1..unit.k_blocks {
                            let at = (All, All, pipeline.wait());
                            multiply(&mma, &mut accumulators, &a.slice(at), &b.slice(at), Accumulate::Yes);
                            // The wgmma before this one has completed: its stage has been read.
                            wait_multiplications(1);
                            pipeline.release();
                        }
                        if pingpong {
                            consumer.pass_turn();
                        }
                        wait_multiplications(0);
                        pipeline.release();
                        tile_of(unit, scheduler.origin(unit), &accumulators)
                    }
                    Some(promotion) => {
                        let origin = scheduler.origin(unit);
                        let mut tile = tile_of(unit, origin, &accumulators);
                        let rows = promotion.scales.rows(problems, unit.problem, origin);
                        promotion.accumulate((&a, &b), rows, &mut pipeline, unit.k_blocks, &mut tile);
                        tile
                    }
                };
                match (&reduction, &cluster_split) {
                    (None, None) => epilogue(&mut tile),
                    (None, Some(split)) => split.complete(&tile, epilogue),
                    (Some(reduction), _) => {
                        reduction.complete(&scheduler, unit, rank, &mut tile, epilogue);
                    }
                }
                if pingpong {
                    pipeline.skip(scheduler.unit(index + 1u32).k_blocks);
                }
            }
        }
    }
}

//! GEMM on Blackwell's tensor cores: TMA, mbarriers and `tcgen05.mma`, in persistent
//! warp-specialized CTAs.
//!
//! ```text
//! producer (1 thread)     TMA: A (128, 64) and B (256, 64), a k-block, into the next stage of the pipeline
//! multiplier (1 thread)   tcgen05.mma: an accumulator += A B from the oldest stage; a commit releases the stage
//! store (4 warps)         tcgen05.ld: 64 columns at once; epilogue, rounding and stores as on Hopper
//!
//! tensor memory           accumulator 0 (128, 256)     accumulator 1 (128, 256)
//! multiplier              tile 0           tile 2 ..   tile 1 ..
//! store                        tile 0                       tile 1 ..
//! ```
//!
//! A pair of CTAs (`.cta_group::2`) has a tile of 256 rows, 128 in the tensor memory of each: both
//! load their rows of A and half of the columns of B, and a thread of the first issues the MMAs for
//! both.
//!
//! A warp reads the 32 rows of its quarter of tensor memory as two times 16 rows, in the shape
//! `.16x256b`: a thread then has the elements that it has of a `wgmma` accumulator, so that
//! epilogues, stores and reductions are the same.
//!
//! With blockwise scales each k-block has accumulators of its own, of which tensor memory holds up to
//! four. The warpgroup that stores [promotes](super::blockwise) them, and releases the stage, whose
//! scales it reads.

use warpwright::arch::DataType;
use warpwright::arch::limits::TENSOR_MEMORY_COLUMNS;
use warpwright::layout::atom::{MmaAtom, Types};
use warpwright::prelude::*;

use super::block_scaled::StagedScaleFactors;
use super::tma::TmaGemm;
use crate::gemm::device::problems::Problems;
use crate::gemm::device::reduction::Reduction;
use crate::gemm::device::schedule::slice_of_tensor_memory;
use crate::gemm::device::scheduler::TileScheduler;
use crate::gemm::device::store::{AccumulatorTile, TENSOR_MEMORY_ROWS};
use crate::gemm::problem::types::Operand;

/// Tiles in tensor memory, at most: one is multiplied while the other is stored.
const MAX_ACCUMULATORS: u32 = 2;

/// K-blocks of a tile in tensor memory, at most: some are multiplied while one is promoted.
const MAX_K_BLOCKS: u32 = 4;

/// Columns that are promoted at once: with twice as many, and all parts of an epilogue, tiles of 128
/// columns spill (ptxas 13).
const PROMOTED_COLUMNS: u32 = 32;

/// Registers of the producer, the multiplier and the warpgroup that stores, 432 of the 504 of three
/// threads at launch.
const ROLES: [u32; 3] = [96, 96, 240];

/// The ranks of a pair, a bit each.
const PAIR: u16 = 0b11;

/// Warps that store.
const STORING_WARPS: u32 = 4;

/// The tiles of accumulators in tensor memory, between the thread that multiplies and the
/// warpgroup that stores.
#[derive(Clone, Copy, DeviceValue)]
struct Accumulators {
    /// CTAs that multiply together.
    group: u32,
    /// Complete when a tile's MMAs are.
    full: Mbarriers,
    /// Complete when the warps have read a tile: of a pair of CTAs, the warps of both, in the
    /// first.
    empty: Mbarriers,
    /// The address of the allocated columns.
    holder: Shared<u32>,
    /// Columns of a tile.
    columns: u32,
    /// Tiles.
    count: u32,
    /// Columns behind the tiles, for scales.
    further: u32,
}

#[device]
impl Accumulators {
    /// Allocates up to `most` tiles of `columns` columns, and `further` columns, by the first warp of
    /// `owner`. Threads use them after the CTA has synchronized and [`tensor_fence_after_sync`].
    fn allocate(group: CtaGroup, most: u32, (columns, further): (u32, u32), owner: Role) -> Self {
        let count = ((TENSOR_MEMORY_COLUMNS - further) / columns).min(most);
        let (full, empty) = (Mbarriers::new(count), Mbarriers::new(count));
        let own = Self {
            group: group.ctas(),
            full,
            empty,
            holder: shared_array::<u32>(1),
            columns,
            count,
            further,
        };
        if thread_idx().x == 0 {
            for (full, empty) in full.iter().zip(empty.iter()) {
                full.init(1);
                empty.init(STORING_WARPS * group.ctas());
            }
        }
        if owner.thread() < 32 {
            allocate_tensor_memory(group, own.allocated(), own.holder);
        }
        tensor_fence_before_sync();
        own
    }

    /// Frees the columns, when no thread uses them any more: all threads of the CTA call it.
    fn free(&self, group: CtaGroup, memory: TensorMemory, owner: Role) {
        tensor_fence_before_sync();
        match group {
            CtaGroup::One => sync_threads(),
            CtaGroup::Two => cluster_sync(),
        }
        if owner.thread() < 32 {
            memory.free(group, self.allocated());
        }
    }

    /// Notes that the MMAs of a tile are issued, to the CTAs that have its rows.
    fn commit(&self, group: CtaGroup, buffer: Reg<u32>) {
        match group {
            CtaGroup::One => commit_tensor_core(group, self.full.at(buffer)),
            CtaGroup::Two => commit_tensor_core_to(group, self.full.at(buffer), PAIR),
        }
    }

    /// Notes that this warp has read its rows of a tile, to the CTA that multiplies.
    fn release(&self, buffer: Reg<u32>) {
        tensor_fence_before_sync();
        sync_warp(ALL_LANES);
        if elect(ALL_LANES) {
            if self.group == 1 {
                self.empty.at(buffer).arrive();
            } else {
                self.empty.at(buffer).at_rank(0u32).arrive();
            }
        }
    }

    /// Columns of the allocation.
    fn allocated(&self) -> u32 {
        (self.count * self.columns + self.further).next_power_of_two().max(32)
    }

    /// Waits until the columns of tile `index` are free. Returns its buffer.
    fn acquire(&self, index: Reg<u32>) -> Reg<u32> {
        let (buffer, parity) = self.position(index);
        self.empty.at(buffer).wait_parity(parity ^ 1u32);
        tensor_fence_after_sync();
        buffer
    }

    /// Waits until tile `index` is multiplied. Returns its buffer.
    fn wait(&self, index: Reg<u32>) -> Reg<u32> {
        let (buffer, parity) = self.position(index);
        self.full.at(buffer).wait_parity(parity);
        tensor_fence_after_sync();
        buffer
    }

    /// The buffer of tile `index` of those of all work units, and the parity of its phase.
    fn position(&self, index: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        (index % self.count, index / self.count % 2u32)
    }
}

/// Reads `columns` columns of a warp's 32 rows: the upper 16 of them first.
#[device]
fn read(from: TensorMemory, columns: u32, to: &mut Fragment<f32>) {
    let access = TensorMemoryAccess::new(TensorMemoryShape::Rows16x256b);
    let load = |from: TensorMemory| match columns {
        16 => from.load_with::<8>(access).to_vec(),
        32 => from.load_with::<16>(access).to_vec(),
        64 => from.load_with::<32>(access).to_vec(),
        _ => from.load_with::<64>(access).to_vec(),
    };
    let loaded = [load(from), load(from.row(TENSOR_MEMORY_ROWS.1))].concat();
    wait_tensor_loads();
    for (index, value) in (0..to.len()).zip(loaded) {
        to.set(index, value.bit_cast::<f32>());
    }
}

#[device]
impl TmaGemm {
    /// [`compute`](Self::compute) with accumulators in tensor memory.
    pub(super) fn compute_in_tensor_memory<A: Operand, B: Operand>(
        &self,
        group: CtaGroup,
        problems: &Problems,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &dyn Fn(&mut AccumulatorTile),
    ) {
        let (tile_m, tile_n, _) = self.tile;
        let [producer, multiplier, store] = roles(ROLES.map(|registers| warpgroups(1).registers(registers)));
        let cluster = ClusterGrid::new(self.cluster);
        let mut stages = Pipeline::stages(self.stages);
        let tiles = self.stages::<A, B>(&mut stages);
        let (blockwise, factors) = (tiles.scales.blockwise(), tiles.scales.factors());
        let scale_columns = factors.map_or(0, StagedScaleFactors::columns);
        let (most, reader) = match blockwise {
            None => (MAX_ACCUMULATORS, multiplier),
            Some(_) => (MAX_K_BLOCKS, store),
        };
        let accumulators = Accumulators::allocate(group, most, (tile_n, scale_columns), multiplier);
        if blockwise.is_some() {
            stages.release_by_warps();
        }
        let pipeline = match group {
            CtaGroup::One => stages.connect(reader, ConsumerSchedule::Cooperative, cluster),
            CtaGroup::Two => stages.connect_pair(multiplier, cluster),
        };
        tensor_fence_after_sync();
        let memory = TensorMemory::at(accumulators.holder);
        let mut scheduler = TileScheduler::new(cluster, self.tile, self.raster, problems, self.split);
        if producer.leads() {
            problems.prefetch();
        }
        // All this ran beside the end of the predecessor; from here on, its results are there.
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        scheduler.count_tiles();
        let slice = slice_of_tensor_memory(tile_n);
        let slices = tile_n / slice;
        let reduced = self.reduced_columns(slice);
        let reduction = self
            .split
            .stream_k()
            .map(|stream_k| Reduction::new(workspace, (1, slices), cluster, (stream_k, reduced)));

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                self.load(&tiles, pipeline.producer(), &scheduler, problems, cluster);
            }
        } else if multiplier.is_mine() {
            multiplier.begin();
            // Of a pair, the first CTA multiplies.
            let multiplies = match group {
                CtaGroup::One => multiplier.leads(),
                CtaGroup::Two => multiplier.leads() & cluster.m().eq(0u32),
            };
            if multiplies {
                let mut pipeline = pipeline.consumer();
                let types = TensorCoreTypes { a: self.types.a, b: self.types.b, d: DataType::F32 };
                let rows = tile_m * group.ctas();
                let mma = match factors {
                    None => TensorCoreMma::new(group, types, rows, tile_n),
                    Some(factors) => TensorCoreMma::block_scaled(group, types, factors.scales, rows, tile_n),
                };
                let (a, b) = (mma.a_operand(tiles.a.tensor()), mma.b_operand(tiles.b.tensor()));
                // The tiles multiplied so far, of k-blocks that are promoted.
                let mut promoted = constant(0u32);
                for index in 0..scheduler.units {
                    let k_blocks = scheduler.unit(index).k_blocks;
                    if blockwise.is_some() {
                        for _ in 0..k_blocks {
                            let buffer = accumulators.acquire(promoted);
                            let at = (All, All, pipeline.wait());
                            let product = memory.column(buffer * tile_n);
                            mma.issue(product, &a.slice(at), &b.slice(at), Accumulate::No);
                            accumulators.commit(group, buffer);
                            promoted = promoted + 1u32;
                        }
                    } else {
                        let buffer = accumulators.acquire(index);
                        let product = memory.column(buffer * tile_n);
                        for k_block in 0..k_blocks {
                            let stage = pipeline.wait();
                            let accumulate = Accumulate::If(k_block.ne(0u32));
                            let (a, b) = (a.slice((All, All, stage)), b.slice((All, All, stage)));
                            match factors {
                                None => mma.issue(product, &a, &b, accumulate),
                                Some(scales) => {
                                    let to = memory.column(accumulators.count * tile_n);
                                    let of_both = scales.copy(group, stage, to);
                                    mma.issue_scaled(product, &a, &b, of_both, accumulate);
                                }
                            }
                            pipeline.release_after_mma(group);
                        }
                        accumulators.commit(group, buffer);
                    }
                }
            }
        } else {
            store.begin();
            let (leads, warp) = (store.leads_warpgroup(), store.thread() / 32u32);
            // A `wgmma` of this width has its accumulators where `read` puts them.
            let atom = |columns| MmaAtom::wgmma(columns, Types::new(DataType::Bf16, DataType::F32));
            let fragment = |columns: u32| -> Fragment<f32> {
                let registers = TiledMma::warpgroups(atom(columns), 1).thread(store.thread());
                registers.c_fragment((tile_m, columns))
            };
            let rows = memory.row(warp * 32u32);
            let tile_of = |unit, (row, column), values: &Fragment<f32>| {
                AccumulatorTile::new(values, (store, leads), unit, (row, column), slice, TENSOR_MEMORY_ROWS)
            };
            let begin = |scheduler: &_, unit| {
                if let Some(reduction) = &reduction {
                    (0..slices).for_each(|slice| reduction.begin(scheduler, unit, constant(slice), leads));
                }
            };
            let finish = |scheduler: &_, unit, slice: Reg<u32>, tile: &mut AccumulatorTile| match &reduction {
                None => epilogue(tile),
                Some(reduction) => reduction.complete(scheduler, unit, slice, tile, epilogue),
            };
            if let Some(scales) = blockwise {
                let mut pipeline = pipeline.consumer();
                let width = slice.min(PROMOTED_COLUMNS);
                let mut values = fragment(width);
                let mut totals: Vec<Fragment<f32>> = (0..slices).map(|_| fragment(slice)).collect();
                let mut promoted = constant(0u32);
                for index in 0..scheduler.units {
                    let unit = scheduler.unit(index);
                    begin(&scheduler, unit);
                    let (row, column) = scheduler.origin(unit);
                    let scaled = scales.rows(problems, unit.problem, (row, column));
                    let parts = (0..slices).zip(&mut totals);
                    let mut parts: Vec<AccumulatorTile> = parts
                        .map(|(part, total)| {
                            total.clear();
                            tile_of(unit, (row, column + part * slice), total)
                        })
                        .collect();
                    for _ in 0..unit.k_blocks {
                        let stage = pipeline.wait();
                        let buffer = accumulators.wait(promoted);
                        for first in (0..tile_n).step_by(width as usize) {
                            read(rows.column(buffer * tile_n + first), width, &mut values);
                            if first + width == tile_n {
                                accumulators.release(buffer);
                            }
                            let mut part = parts[(first / slice) as usize].columns(first % slice, width);
                            scales.add(stage, scaled, &values, &mut part);
                        }
                        pipeline.release();
                        promoted = promoted + 1u32;
                    }
                    for (part, tile) in (0..slices).zip(&mut parts) {
                        finish(&scheduler, unit, constant(part), tile);
                    }
                }
            } else {
                let mut values = fragment(slice);
                for index in 0..scheduler.units {
                    let unit = scheduler.unit(index);
                    begin(&scheduler, unit);
                    let (row, column) = scheduler.origin(unit);
                    let buffer = accumulators.wait(index);
                    let rows = rows.column(buffer * tile_n);
                    for part in 0..constant(slices) {
                        read(rows.column(part * slice), slice, &mut values);
                        if part == slices - 1 {
                            // The next tile may be multiplied into what this one held.
                            accumulators.release(buffer);
                        }
                        let mut tile = tile_of(unit, (row, column + part * slice), &values);
                        finish(&scheduler, unit, part, &mut tile);
                    }
                }
            }
        }
        accumulators.free(group, memory, multiplier);
    }
}

//! GEMMs of persistent warp-specialized CTAs that TMA feeds: what the main loops by `wgmma` and by
//! `tcgen05` have in common.

use warpwright::arch::DataType;
use warpwright::layout::Error;
use warpwright::prelude::*;

use super::promotion::{BlockScaling, StagedScales};
use super::vector_scales::StagedVectorScales;
use crate::gemm::device::cluster_split::slice_columns;
use crate::gemm::device::problems::Problems;
use crate::gemm::device::schedule::{CONSUMERS, Schedule, slice_of_tensor_memory};
use crate::gemm::device::scheduler::TileScheduler;
use crate::gemm::device::store::{AccumulatorTile, TmaStore};
use crate::gemm::problem::narrow::VectorScaling;
use crate::gemm::problem::types::{GemmOutput, MatrixLayout, Operand};

/// C = A·B; A is (m, k), B is (k, n), C is (m, n). The accumulators are `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TmaGemm {
    /// The layout of A.
    pub a: MatrixLayout,
    /// The layout of B.
    pub b: MatrixLayout,
    /// The layout of C.
    pub c: MatrixLayout,
    /// The CTA tile: (m, n, k).
    pub tile: (u32, u32, u32),
    /// Where the accumulators are.
    pub schedule: Schedule,
    /// CTAs of a cluster along m and n.
    pub cluster: (u32, u32),
    /// Stages of the pipeline.
    pub stages: u32,
    /// Rows of clusters' tiles that are rasterized together, so that what they share stays in L2.
    pub raster: u32,
    /// Whether tiles of the last waves are split along k, so that all SMs have the same work.
    pub stream_k: bool,
    /// CTAs of a cluster that multiply a part of a tile's k each; 1 if none does. They add their
    /// parts in shared memory: a launch has as many of them as there are tiles.
    pub split_k: u32,
    /// The block scales of A and B: the schedule is cooperative, and a k-block is as deep as a
    /// scale's.
    pub scales: Option<BlockScaling>,
    /// The types and the scales of narrow operands, with accumulators in tensor memory: A and B are
    /// then bytes.
    pub vector_scales: Option<VectorScaling>,
}

impl TmaGemm {
    /// The tile of A in shared memory.
    pub fn a_tile<T: Operand>(&self) -> Result<TmaTile, Error> {
        let shape = (self.tile.0, self.tile.2);
        let tile = match self.vector_scales {
            Some(scaling) => scaling.tile(shape, scaling.a)?,
            None if self.a == MatrixLayout::RowMajor => TmaTile::new::<T>(shape, Major::K)?,
            None => TmaTile::new::<T>(shape, Major::Mn)?,
        };
        Ok(tile.sliced(self.cluster.1))
    }

    /// The tile of B in shared memory, as (n, k); of a pair of CTAs, its part.
    pub fn b_tile<T: Operand>(&self) -> Result<TmaTile, Error> {
        let pair = self.schedule.pair();
        let shape = (self.tile.1 / pair, self.tile.2);
        let tile = match self.vector_scales {
            Some(scaling) => scaling.tile(shape, scaling.b)?,
            None if self.b == MatrixLayout::ColumnMajor => TmaTile::new::<T>(shape, Major::K)?,
            None => TmaTile::new::<T>(shape, Major::Mn)?,
        };
        Ok(tile.sliced(self.cluster.0 / pair))
    }

    /// The types of A's and B's elements.
    pub(super) fn types<A: Operand, B: Operand>(&self) -> [DataType; 2] {
        self.vector_scales.map_or([A::DATA_TYPE, B::DATA_TYPE], |scaling| [scaling.a, scaling.b])
    }

    /// The box of C that a warpgroup stores at once.
    pub fn c_tile<C: GemmOutput>(&self) -> Result<TmaTile, Error> {
        TmaStore::<C>::tile_box(self.stored_columns(), self.c, self.schedule)
    }

    /// The path of C through shared memory.
    #[track_caller]
    pub(crate) fn store<C: GemmOutput>(&self) -> TmaStore<C> {
        let warpgroups = if self.schedule.group().is_some() { 1 } else { CONSUMERS };
        TmaStore::new(self.stored_columns(), self.c, self.schedule, warpgroups)
    }

    /// Columns of a tile that a warpgroup stores at once.
    fn stored_columns(&self) -> u32 {
        match self.schedule.group() {
            Some(_) => slice_of_tensor_memory(self.tile.1),
            None => slice_columns((self.tile.0, self.tile.1), self.schedule, self.split_k),
        }
    }
}

/// The operands in the stages of the pipeline.
pub(super) struct Stages<A, B> {
    pub(super) a: StagedOperand<A>,
    pub(super) b: StagedOperand<B>,
    pub(super) scales: Option<StagedScales>,
    pub(super) vector_scales: Option<StagedVectorScales>,
}

#[device]
impl TmaGemm {
    /// Computes this CTA's tiles, and calls `epilogue` with each part of one that a warpgroup has
    /// in its registers. Parts of split tiles are reduced in `workspace`.
    pub(crate) fn compute<A: Operand, B: Operand>(
        &self,
        problems: &Problems,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &dyn Fn(&mut AccumulatorTile),
    ) {
        match self.schedule.group() {
            None => self.compute_in_registers::<A, B>(problems, workspace, epilogue),
            Some(group) => self.compute_in_tensor_memory::<A, B>(group, problems, workspace, epilogue),
        }
    }

    /// The thread that loads: the k-blocks of all work units.
    pub(super) fn load<A: Operand, B: Operand>(
        &self,
        stages: &Stages<A, B>,
        mut pipeline: Producer,
        scheduler: &TileScheduler,
        problems: &Problems,
        cluster: ClusterGrid,
    ) {
        let tile_k = self.tile.2;
        let is_pair = self.schedule.group() == Some(CtaGroup::Two);
        for index in 0..scheduler.units {
            let unit = scheduler.unit(index);
            let (row, column) = scheduler.origin(unit);
            let (a, b) = problems.operands(unit.problem);
            let scales =
                stages.scales.as_ref().map(|scales| scales.of(problems, unit.problem, (row, column)));
            for k_block in unit.first..unit.first + unit.k_blocks {
                let a = stages.a.load(a, (row, k_block * tile_k), cluster.multicast_a());
                let own = if is_pair { column + cluster.m() * (self.tile.1 / 2) } else { column };
                let at = (own, k_block * tile_k);
                let multicast = if is_pair { None } else { cluster.multicast_b() };
                let b = stages.b.load(b, at, multicast);
                match (&scales, &stages.vector_scales) {
                    (None, None) => pipeline.load([a, b]),
                    (Some(scales), _) => {
                        pipeline.load([a, b, scales.load_a(k_block), scales.load_b(k_block)]);
                    }
                    (None, Some(scales)) => {
                        let [of_a, of_b] = scales.loads(problems, unit.problem, (row, column), k_block);
                        pipeline.load([a, b, of_a, of_b]);
                    }
                }
            }
        }
        pipeline.tail();
    }
}

//! GEMMs of persistent warp-specialized CTAs that TMA feeds: what the main loops by `wgmma` and by
//! `tcgen05` have in common.

use warpwright::arch::DataType;
use warpwright::lang::tensor::MappedMatrix;
use warpwright::layout::Error;
use warpwright::prelude::*;

use super::block_scaled::StagedScaleFactors;
use super::blockwise::{ScaleSource, StagedScales, TileScales};
use crate::gemm::device::cluster_split::slice_columns;
use crate::gemm::device::problems::Problems;
use crate::gemm::device::reduction;
use crate::gemm::device::schedule::{CONSUMERS, Schedule, Split, StreamK, slice_of_tensor_memory};
use crate::gemm::device::scheduler::{TileScheduler, WorkUnit};
use crate::gemm::device::store::{AccumulatorTile, TmaStore, stored_block};
use crate::gemm::problem::epilogue::Activation;
use crate::gemm::problem::types::{GemmOutput, GemmTypes, MatrixLayout, Operand};

/// An operand that nothing writes while the predecessor of a launch runs, such as weights: its first
/// k-blocks are loaded before the predecessor ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preload {
    /// A of a single problem.
    A,
    /// B of a single problem.
    B,
}

/// C = A·B; A is (m, k), B is (k, n), C is (m, n). The accumulators are `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TmaGemm {
    /// The types and the scales of A and B. The kernel reads block-scaled ones as bytes.
    pub types: GemmTypes,
    /// The layout of A.
    pub a: MatrixLayout,
    /// The layout of B.
    pub b: MatrixLayout,
    /// The layout of C.
    pub c: MatrixLayout,
    /// The CTA tile: (m, n, k), in elements.
    pub tile: (u32, u32, u32),
    /// Where the accumulators are.
    pub schedule: Schedule,
    /// CTAs of a cluster along m and n.
    pub cluster: (u32, u32),
    /// Stages of the pipeline.
    pub stages: u32,
    /// Rows of clusters' tiles that are rasterized together, about, so that what they share stays in L2.
    pub raster: u32,
    /// How the k of tiles is split among CTAs.
    pub split: Split,
    /// With blockwise scales, the sets of accumulators of a consumer: the schedule is cooperative, and
    /// a k-block is as deep as a scale's.
    pub accumulator_sets: u32,
    /// Whether the problems are groups along m: rows of A, or of B where C is the transpose.
    pub along_m: bool,
    /// The operand that is loaded before the predecessor ends, by `wgmma` kernels.
    pub preload: Option<Preload>,
    /// The function of the gates, if half of the columns of A·B are gates of the others: C has half of
    /// the columns; of a column-major C, which is the transpose, half of the rows.
    pub gate: Option<Activation>,
}

impl TmaGemm {
    /// A kernel of that tile (m, n, k) without options; k is contiguous in both operands.
    pub const fn new(types: GemmTypes, tile: (u32, u32, u32), schedule: Schedule) -> Self {
        Self {
            types,
            a: MatrixLayout::RowMajor,
            b: MatrixLayout::ColumnMajor,
            c: MatrixLayout::RowMajor,
            tile,
            schedule,
            cluster: (1, 1),
            stages: 2,
            raster: 8,
            split: Split::None,
            accumulator_sets: 1,
            along_m: false,
            preload: None,
            gate: None,
        }
    }

    /// The tile of A in shared memory.
    pub fn a_tile<T: Operand>(&self) -> Result<TmaTile, Error> {
        let tile = self.operand_tile::<T>(self.tile.0, self.a == MatrixLayout::RowMajor, self.types.a)?;
        Ok(tile.sliced(self.cluster.1))
    }

    /// The tile of B in shared memory, as (n, k); of a pair of CTAs, its part.
    pub fn b_tile<T: Operand>(&self) -> Result<TmaTile, Error> {
        let (pair, k_contiguous) = (self.schedule.pair(), self.b == MatrixLayout::ColumnMajor);
        let tile = self.operand_tile::<T>(self.tile.1 / pair, k_contiguous, self.types.b)?;
        Ok(tile.sliced(self.cluster.0 / pair))
    }

    /// A tile of elements of a type: where it is block-scaled, `T` is a byte, of one element of 6 or 8
    /// bits or of two of 4.
    fn operand_tile<T: Operand>(
        &self,
        rows: u32,
        k_contiguous: bool,
        data_type: DataType,
    ) -> Result<TmaTile, Error> {
        match data_type.bits() {
            0..8 if self.types.packing() == 1 => TmaTile::unpacked((rows, self.tile.2), data_type),
            _ => TmaTile::new::<T>(
                (rows, self.tile.2 / self.types.packing()),
                if k_contiguous { Major::K } else { Major::Mn },
            ),
        }
    }

    /// The blockwise scales of A's and B's tiles.
    pub(crate) fn tile_scales(&self) -> Option<[TileScales; 2]> {
        let (a, b) = self.types.scaling.granularities()?;
        let of = |granularity, c| TileScales { granularity, any_row: self.along_m && self.c == c };
        Some([of(a, MatrixLayout::RowMajor), of(b, MatrixLayout::ColumnMajor)])
    }

    /// The tiles of the operands and of their scales in the stages of a pipeline.
    #[track_caller]
    pub(super) fn stages<A: Operand, B: Operand>(&self, stages: &mut PipelineStages) -> Stages<A, B> {
        let (a, b) = (stages.operand(self.a_tile::<A>()), stages.operand(self.b_tile::<B>()));
        let scales = match (self.tile_scales(), self.types.scaling.factors()) {
            (Some(scales), _) => StagedScaling::Blockwise(StagedScales::new(scales, self.tile, stages)),
            (None, Some(factors)) => {
                StagedScaling::BlockScaled(StagedScaleFactors::new(factors, self.tile, stages))
            }
            (None, None) => StagedScaling::None,
        };
        Stages { a, b, scales }
    }

    /// The box of C that a warpgroup stores at once.
    pub fn c_tile<C: GemmOutput>(&self) -> Result<TmaTile, Error> {
        TmaStore::<C>::tile_box(self.stored_block(), self.c, self.schedule)
    }

    /// The path of C through shared memory.
    #[track_caller]
    pub(crate) fn store<C: GemmOutput>(&self) -> TmaStore<C> {
        let warpgroups = if self.schedule.group().is_some() { 1 } else { CONSUMERS };
        TmaStore::new(self.stored_block(), self.c, self.schedule, warpgroups)
    }

    /// Columns of split tiles that a warpgroup adds at once, of `columns`.
    pub(super) fn reduced_columns(&self, columns: u32) -> u32 {
        reduction::slice_columns(columns, self.gate.is_some() && self.c == MatrixLayout::RowMajor)
    }

    /// The rows of a block of a tile, and the columns, that a warpgroup stores at once.
    fn stored_block(&self) -> (u32, u32) {
        let columns = match self.schedule.group() {
            Some(_) => slice_of_tensor_memory(self.tile.1),
            None => slice_columns((self.tile.0, self.tile.1), self.schedule, self.split.split_k()),
        };
        let columns = match self.split {
            Split::StreamK(StreamK::Equal) => self.reduced_columns(columns),
            _ => columns,
        };
        stored_block(columns, self.c, self.gate.is_some())
    }
}

/// The operands in the stages of the pipeline.
pub(super) struct Stages<A, B> {
    pub(super) a: StagedOperand<A>,
    pub(super) b: StagedOperand<B>,
    pub(super) scales: StagedScaling,
}

/// The scales in the stages.
pub(super) enum StagedScaling {
    None,
    Blockwise(StagedScales),
    BlockScaled(StagedScaleFactors),
}

impl StagedScaling {
    /// The blockwise ones.
    pub(super) fn blockwise(&self) -> Option<&StagedScales> {
        if let Self::Blockwise(scales) = self { Some(scales) } else { None }
    }

    /// The ones of block-scaled operands.
    pub(super) fn factors(&self) -> Option<&StagedScaleFactors> {
        if let Self::BlockScaled(scales) = self { Some(scales) } else { None }
    }
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

    /// Waits for the predecessor and lets the successor start: each thread that touches what other
    /// kernels write.
    pub(super) fn begin_after_predecessor(&self) {
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
    }

    /// The thread that loads: the k-blocks of all work units. It begins before the predecessor ends if an
    /// operand is preloaded.
    pub(super) fn load<A: Operand, B: Operand>(
        &self,
        stages: &Stages<A, B>,
        mut pipeline: Producer,
        scheduler: &TileScheduler,
        problems: &Problems,
        cluster: ClusterGrid,
    ) {
        let loads_of = |unit| UnitLoads::new(self, stages, problems, (unit, scheduler.origin(unit)), cluster);
        // K-blocks of the first unit whose stages have the loads of one operand.
        let mut begun = constant(0u32);
        if let Some(operand) = self.preload {
            let unit = scheduler.unit(constant(0u32));
            let loads = loads_of(unit);
            begun = unit.k_blocks.min(self.stages);
            for stage in constant(0u32)..begun {
                let (ahead, others) = operand.first(loads.at(unit.first + stage));
                pipeline.load_ahead(stage, &ahead, &others);
            }
            self.begin_after_predecessor();
            for stage in constant(0u32)..begun {
                let (_, others) = operand.first(loads.at(unit.first + stage));
                pipeline.load_others(&others);
            }
        }
        for index in 0..scheduler.units {
            let unit = scheduler.unit(index);
            let loads = loads_of(unit);
            let mut first = unit.first;
            if self.preload.is_some() {
                first = index.eq(0u32).select(unit.first + begun, unit.first);
            }
            for k_block in first..unit.first + unit.k_blocks {
                let [a, b] = loads.at(k_block);
                pipeline.load([a, b].concat());
            }
        }
        pipeline.tail();
    }
}

impl Preload {
    /// Its loads, and those of the other operand.
    fn first(self, [a, b]: [Vec<TileLoad>; 2]) -> (Vec<TileLoad>, Vec<TileLoad>) {
        match self {
            Self::A => (a, b),
            Self::B => (b, a),
        }
    }
}

/// The loads of a work unit's k-blocks.
struct UnitLoads<'l, A, B> {
    stages: &'l Stages<A, B>,
    problems: &'l Problems,
    cluster: ClusterGrid,
    unit: WorkUnit,
    /// The first row and column of the tile, and the first column that this CTA loads.
    row: Reg<u32>,
    column: Reg<u32>,
    own_column: Reg<u32>,
    /// What TMA counts of k in a k-block: elements, or bytes of two.
    units: u32,
    is_pair: bool,
    matrices: (MappedMatrix, MappedMatrix),
    scales: Option<ScaleSource<'l>>,
}

impl<'l, A: Operand, B: Operand> UnitLoads<'l, A, B> {
    #[track_caller]
    fn new(
        gemm: &TmaGemm,
        stages: &'l Stages<A, B>,
        problems: &'l Problems,
        (unit, (row, column)): (WorkUnit, (Reg<u32>, Reg<u32>)),
        cluster: ClusterGrid,
    ) -> Self {
        let is_pair = gemm.schedule.group() == Some(CtaGroup::Two);
        let scales = stages.scales.blockwise();
        Self {
            stages,
            problems,
            cluster,
            unit,
            row,
            column,
            own_column: if is_pair { column + cluster.m() * (gemm.tile.1 / 2) } else { column },
            units: gemm.tile.2 / gemm.types.packing(),
            is_pair,
            matrices: problems.operands(unit.problem),
            scales: scales.map(|scales| scales.of(problems, unit.problem, (row, column))),
        }
    }

    /// Those of A and of B, each with its scales.
    #[track_caller]
    fn at(&self, k_block: Reg<u32>) -> [Vec<TileLoad>; 2] {
        let Self { stages, cluster, matrices: (a, b), .. } = self;
        let k = k_block * self.units;
        let multicast_b = if self.is_pair { None } else { cluster.multicast_b() };
        let mut of_a = vec![stages.a.load(*a, (self.row, k), cluster.multicast_a())];
        let mut of_b = vec![stages.b.load(*b, (self.own_column, k), multicast_b)];
        if let Some(scales) = &self.scales {
            of_a.push(scales.load_a(k_block));
            of_b.push(scales.load_b(k_block));
        }
        if let Some(scales) = stages.scales.factors() {
            let tile = (self.row, self.column);
            let [a, b] = scales.loads(self.problems, self.unit.problem, tile, k_block);
            of_a.push(a);
            of_b.push(b);
        }
        [of_a, of_b]
    }
}

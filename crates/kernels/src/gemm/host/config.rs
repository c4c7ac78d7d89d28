//! Algorithms and their configurations: what they are, and which are legal.

use std::fmt;

use serde::{Deserialize, Serialize};
use warpwright::arch::Capability;
use warpwright::arch::limits::{PORTABLE_CTAS_PER_CLUSTER, SHARED_BYTES_PER_CTA, TENSOR_MEMORY_LANES};
use warpwright::prelude::*;

use crate::gemm::device::cluster_split::{received_bytes, slice_columns};
use crate::gemm::device::mainloop::block_scaled::scales_of_stage;
use crate::gemm::device::mainloop::blockwise::TileScales;
use crate::gemm::device::mainloop::mma_sync::{DEPTH_BYTES, MmaSyncConfiguration};
use crate::gemm::device::mainloop::tma::TmaGemm;
use crate::gemm::device::schedule::{CONSUMERS, Schedule, Split, StreamK};
use crate::gemm::device::store::store_buffer_bytes;
use crate::gemm::problem::batching::{GemmProblem, Problem};
use crate::gemm::problem::epilogue::GATED_COLUMNS;
use crate::gemm::problem::error::GemmError;
use crate::gemm::problem::scales::{BLOCK, SCALE_TILE, Scaling};
use crate::gemm::problem::types::MatrixLayout;

/// A kernel family and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// `cp.async` and `mma.sync`: any GPU and shape, 16-bit operands.
    MmaSync(MmaSyncConfiguration),
    /// TMA and `wgmma`, on Hopper.
    Wgmma(Configuration),
    /// TMA and `tcgen05.mma`, on Blackwell.
    Tcgen05(Configuration),
}

/// The tensor-core instruction of kernels that TMA feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TmaInstruction {
    /// `wgmma`: sm_90a.
    Wgmma,
    /// `tcgen05.mma`: sm_100a and sm_103a.
    Tcgen05,
}

impl TmaInstruction {
    /// The one of GPUs of that capability.
    pub fn of(capability: &Capability) -> Option<Self> {
        match capability {
            _ if has_wgmma(capability) => Some(Self::Wgmma),
            Capability { tensor_memory_columns: 1.., .. } => Some(Self::Tcgen05),
            _ => None,
        }
    }

    /// Whether it multiplies operands with the scales of a problem: blocks of 128 are promoted, and
    /// those of 16 or 32 elements applied by the tensor cores.
    pub(crate) fn scales(self, problem: &GemmProblem) -> bool {
        self == Self::Tcgen05 || problem.types.scaling.factors().is_none()
    }
}

impl Algorithm {
    /// Refuses what cannot be built or launched for a problem on GPUs of that
    /// capability.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(self, problem: &GemmProblem, capability: &Capability) -> Result<(), GemmError> {
        let broken = match self {
            Self::MmaSync(configuration) => configuration.broken_rule(problem, capability),
            Self::Wgmma(configuration) | Self::Tcgen05(configuration) => {
                self.broken_instruction(capability).or_else(|| configuration.broken_rule(problem))
            }
        };
        broken.map_or(Ok(()), |reason| Err(GemmError::Algorithm { algorithm: self.to_string(), reason }))
    }

    /// The kernel of that configuration.
    pub fn of(configuration: Configuration) -> Self {
        match configuration.schedule {
            Schedule::Cooperative | Schedule::Pingpong => Self::Wgmma(configuration),
            Schedule::TensorMemory | Schedule::PairedTensorMemory => Self::Tcgen05(configuration),
        }
    }

    /// The configuration of a kernel that TMA feeds.
    pub fn configuration(self) -> Option<Configuration> {
        match self {
            Self::MmaSync(_) => None,
            Self::Wgmma(configuration) | Self::Tcgen05(configuration) => Some(configuration),
        }
    }

    /// Whether it is a `wgmma` kernel.
    pub fn is_wgmma(self) -> bool {
        matches!(self, Self::Wgmma(_))
    }

    /// Why a kernel that TMA feeds has no instruction.
    fn broken_instruction(self, capability: &Capability) -> Option<String> {
        let (instruction, name, needs) = match self {
            Self::MmaSync(_) => return None,
            Self::Wgmma(_) => (TmaInstruction::Wgmma, "wgmma", "sm_90a"),
            Self::Tcgen05(_) => (TmaInstruction::Tcgen05, "tcgen05", "sm_100a or sm_103a"),
        };
        if TmaInstruction::of(capability) != Some(instruction) {
            let (target, other) = (
                capability.target,
                match TmaInstruction::of(capability) {
                    None => "an mma.sync algorithm",
                    Some(_) => "an algorithm that `--explain` lists",
                },
            );
            return Some(format!("{name} needs {needs}, and the device is {target}: use {other}"));
        }
        let accumulators = self.configuration().map(Self::of);
        (accumulators != Some(self)).then(|| {
            format!("{name} has no kernel with these accumulators: use an algorithm that `--explain` lists")
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MmaSync(MmaSyncConfiguration { tile: (rows, columns), stages, raster }) => {
                write!(f, "{rows:>3}x{columns:<3} mma.sync, {stages} stages, raster {raster}")
            }
            Self::Wgmma(configuration) | Self::Tcgen05(configuration) => {
                let Configuration { stages, raster, .. } = configuration;
                write!(f, "{configuration}, {stages} stages, raster {raster}")
            }
        }
    }
}

/// Whether the `mma.sync` kernel has the problem's types and scales on GPUs of that capability.
pub(crate) fn mma_sync_computes(problem: &GemmProblem, capability: &Capability) -> bool {
    match (problem.types.scaling, problem.types.input_bytes()) {
        (Scaling::BlockScaled(_), _) => has_scaled_mma_sync(capability),
        (_, 1) => multiplies_bytes(capability),
        (scaling, bytes) => bytes == 2 && scaling == Scaling::None,
    }
}

/// Whether the `mma.sync` kernel multiplies 8-bit floats on GPUs of that capability: those that have
/// them (PTX ISA, "mma": sm_89), and no faster instruction.
fn multiplies_bytes(capability: &Capability) -> bool {
    capability.compute_capability >= (8, 9) && TmaInstruction::of(capability).is_none()
}

/// Whether `mma.sync` of GPUs of that capability multiplies with scales: sm_120a.
pub fn has_scaled_mma_sync(capability: &Capability) -> bool {
    capability.target == "sm_120a"
}

/// Whether GPUs of that capability have `wgmma`.
pub fn has_wgmma(capability: &Capability) -> bool {
    capability.target == "sm_90a"
}

/// Rows or columns of a tile of `mma.sync`: two warps of 32 or 64 each. Larger tiles leave no
/// registers for accumulators.
const MMA_SYNC_EXTENTS: [u32; 2] = [128, 64];

/// Stages of `mma.sync` that a search tries.
const MMA_SYNC_STAGES: [u32; 3] = [4, 3, 6];

/// Rasters of `mma.sync` that it tries.
const MMA_SYNC_RASTERS: [u32; 3] = [8, 4, 16];

impl MmaSyncConfiguration {
    /// The default for a problem: with blockwise scales, a tile whose totals fit in registers beside the
    /// accumulators.
    pub fn of(problem: &GemmProblem) -> Self {
        match problem.types.scaling.granularities() {
            None => Self::default(),
            Some(_) => Self { tile: (128, 64), ..Self::default() },
        }
    }

    /// The candidates of a search on a GPU of that capability, with the default raster.
    pub fn all(capability: &Capability) -> Vec<Self> {
        let tiles =
            MMA_SYNC_EXTENTS.into_iter().flat_map(|rows| MMA_SYNC_EXTENTS.map(|columns| (rows, columns)));
        let all =
            tiles.flat_map(|tile| MMA_SYNC_STAGES.map(|stages| Self { tile, stages, ..Self::default() }));
        all.filter(|configuration| configuration.is_legal(capability)).collect()
    }

    /// The legal ones that differ from it in one parameter.
    pub fn around(self, capability: &Capability) -> Vec<Self> {
        let rasters = MMA_SYNC_RASTERS.into_iter().map(|raster| Self { raster, ..self });
        let is_near = |other: &Self| other.tile == self.tile || other.stages == self.stages;
        let others = Self::all(capability).into_iter().filter(is_near);
        let others = others.map(|other| Self { raster: self.raster, ..other });
        rasters.chain(others).filter(|other| *other != self && other.is_legal(capability)).collect()
    }

    /// The rule that it breaks.
    fn broken_rule(self, problem: &GemmProblem, capability: &Capability) -> Option<String> {
        if !mma_sync_computes(problem, capability) {
            let rule = "the mma.sync kernel takes bf16 and f16 operands without blockwise scales, and 8-bit floats on sm_89 and sm_120a: use an algorithm that `--explain` lists";
            return Some(rule.to_owned());
        }
        if problem.types.scaling.granularities().is_some() && self.tile == (128, 128) {
            let rule = "the totals of a tile of 128 x 128 do not fit beside its accumulators: use 64 rows or columns";
            return Some(rule.to_owned());
        }
        let rule = "tiles have 64 or 128 rows and columns, and at least 2 stages that fit shared memory";
        (!self.is_legal(capability)).then(|| rule.to_owned())
    }

    /// Whether the kernel can be built and launched on a GPU of that capability.
    fn is_legal(self, capability: &Capability) -> bool {
        let Self { tile: (rows, columns), stages, raster } = self;
        let has_tile = [rows, columns].iter().all(|extent| MMA_SYNC_EXTENTS.contains(extent));
        let stage = u64::from(rows + columns) * u64::from(DEPTH_BYTES);
        let fits = u64::from(stages) * stage <= capability.shared_bytes_per_cta_opt_in.into();
        has_tile && stages >= MIN_STAGES && fits && raster != 0
    }
}

/// The build-time parameters of a kernel that TMA feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Configuration {
    /// Rows and columns of the CTA tile: of C, or of C's transpose.
    pub tile: (u32, u32),
    /// Where the accumulators are, and who shares them.
    pub schedule: Schedule,
    /// CTAs of a cluster along the tile's rows and columns.
    pub cluster: (u32, u32),
    /// Bytes of k in a stage: the widest swizzle's 128, or a multiple, which reads longer runs of
    /// memory at a time.
    pub k_bytes: u32,
    /// Whether the tiles of the last waves are split along k.
    pub stream_k: bool,
    /// CTAs of a cluster that multiply a part of a tile's k each; 1 if none does.
    pub split_k: u32,
    /// Whether C's transpose is computed, Bᵀ·Aᵀ: `wgmma` takes 64 rows at least, and 8 columns;
    /// `tcgen05.mma` 128 rows, and 16 columns.
    pub transposed: bool,
    /// Stages of the pipeline.
    pub stages: u32,
    /// Rows of clusters' tiles that are rasterized together.
    pub raster: u32,
    /// With blockwise scales, the sets of accumulators of a consumer; otherwise 1.
    pub accumulator_sets: u32,
}

/// With blockwise scales, the columns of the tiles, all of 128 rows, and sets of accumulators: as many
/// as a consumer's registers hold beside the totals.
pub(super) const SCALED_TILES: &[(u32, u32)] =
    &[(128, 2), (192, 1), (160, 1), (128, 1), (96, 2), (64, 2), (32, 2), (16, 2), (8, 2)];

/// With blockwise scales, the columns of tiles in tensor memory: the totals of a thread are as many.
pub(super) const SCALED_COLUMNS: &[u32] = &[128, 96, 64, 32, 16];

/// Bytes of it for barriers and the alignment of tiles.
const SHARED_MARGIN: u32 = 2 * 1024;

/// Bytes of the widest swizzle.
pub(super) const SWIZZLE_BYTES: u32 = 128;

/// More stages than this hide no more latency.
const MAX_STAGES: u32 = 16;

/// Stream-K counts clusters times k-blocks in 32 bits.
const MAX_STREAM_K: u64 = 1 << 20;

/// Accumulators of a thread: 192 leave 40 of a consumer's registers for addresses and loops, and
/// nothing spills (ptxas 13).
const MAX_ACCUMULATORS: u32 = 192;

/// Stages that make a pipeline.
pub(super) const MIN_STAGES: u32 = 2;

impl Configuration {
    /// Elements of k in a stage.
    pub(crate) fn k(self, problem: &GemmProblem) -> u32 {
        problem.types.elements(self.k_bytes)
    }

    /// The most stages that fit into `bytes` of shared memory beside the buffers of the epilogue.
    fn stages_within(self, bytes: u32, problem: &GemmProblem) -> u32 {
        let (rows, columns) = self.tile;
        let buffers = store_buffer_bytes(CONSUMERS, columns, problem.types.output_bytes());
        let scales = problem.types.scaling.granularities().map_or(0, |(a, b)| {
            let (a_extent, b_extent) = if self.transposed { (columns, rows) } else { (rows, columns) };
            let tiles = [
                TileScales { granularity: a, any_row: true }.tile(a_extent),
                TileScales { granularity: b, any_row: false }.tile(b_extent),
            ];
            tiles.iter().flatten().map(TmaTile::bytes).sum::<u32>()
        });
        let factors = problem.types.scaling.factors().map_or(0, |factors| {
            let tiles = [rows, columns].map(|rows| scales_of_stage(factors, rows, self.k(problem)));
            tiles.iter().flatten().map(TmaTile::bytes).sum::<u32>()
        });
        let received = received_bytes(self.tile, self.split_k.max(1));
        let stage = (rows + columns / self.schedule.pair()) * self.k_bytes + scales + factors;
        (bytes.saturating_sub(buffers + received) / stage.max(1)).min(MAX_STAGES)
    }

    /// Whether CTAs compute parts of tiles.
    pub(crate) fn splits(self) -> bool {
        self.stream_k || self.split_k != 1
    }

    /// The rows and columns that the tiles cover.
    pub(crate) fn extents(self, problem: &GemmProblem) -> (u32, u32) {
        let Problem { m, n, .. } = problem.batch.problem;
        if self.transposed { (n, m) } else { (m, n) }
    }

    /// The same with as many stages as fit.
    pub(super) fn with_all_stages(self, problem: &GemmProblem) -> Self {
        Self { stages: self.stages_within(SHARED_BYTES_PER_CTA - SHARED_MARGIN, problem), ..self }
    }

    /// The kernel for a problem that reads it so: with C's transpose, Bᵀ·Aᵀ.
    pub(crate) fn gemm(self, read: Problem, problem: &GemmProblem) -> TmaGemm {
        let GemmProblem { types, along_m, gate, .. } = *problem;
        let Self { tile, schedule, cluster, stages, raster, accumulator_sets, .. } = self;
        let (types, c) = match self.transposed {
            true => (types.transposed(), MatrixLayout::ColumnMajor),
            false => (types, MatrixLayout::RowMajor),
        };
        let split = match self.split_k {
            1 if self.stream_k => Split::StreamK(StreamK::Unequal),
            1 => Split::None,
            ctas => Split::SplitK(ctas),
        };
        let all = TmaGemm::new(types, (tile.0, tile.1, self.k(problem)), schedule);
        let (a, b) = (read.a, read.b);
        TmaGemm { a, b, c, cluster, stages, raster, split, accumulator_sets, along_m, gate, ..all }
    }

    /// Whether the kernel can be built and launched.
    pub fn is_legal(self, problem: &GemmProblem) -> bool {
        self.broken_rule(problem).is_none()
    }

    /// The first rule that it breaks. (PTX ISA, "wgmma.mma_async": 64 rows a warpgroup, 8 to 256
    /// columns. CUDA C++ Programming Guide, "Thread Block Clusters": 8 CTAs.)
    fn broken_rule(self, problem: &GemmProblem) -> Option<String> {
        let Self { tile: (rows, columns), schedule, cluster: (along_m, along_n), .. } = self;
        let Self { k_bytes, stages, accumulator_sets, .. } = self;
        if let Some(reason) = self.broken_tile() {
            return Some(reason);
        }
        let ctas = along_m * along_n;
        if !(1..=PORTABLE_CTAS_PER_CLUSTER).contains(&ctas) {
            return Some(format!(
                "a cluster has {ctas} CTAs, but a portable cluster has 1 to {PORTABLE_CTAS_PER_CLUSTER}"
            ));
        }
        for (operand, rows, ctas) in [("A", rows, along_n), ("B", columns, along_m)] {
            if !rows.is_multiple_of(ctas) {
                return Some(format!(
                    "{ctas} CTAs cannot load {rows} rows of {operand} in equal parts: use a tile that they divide"
                ));
            }
        }
        if k_bytes == 0 || !k_bytes.is_multiple_of(SWIZZLE_BYTES) {
            return Some(format!("a stage has {k_bytes} bytes of k: use a multiple of {SWIZZLE_BYTES}"));
        }
        let is_scaled_tile = match schedule {
            Schedule::Cooperative => rows == 128 && SCALED_TILES.contains(&(columns, accumulator_sets)),
            Schedule::TensorMemory => SCALED_COLUMNS.contains(&columns) && accumulator_sets == 1,
            Schedule::Pingpong | Schedule::PairedTensorMemory => false,
        } && self.k(problem) == BLOCK;
        let scaling = problem.types.scaling;
        if scaling.granularities().is_some() && !is_scaled_tile {
            return Some(format!(
                "blockwise scales have no kernel of {rows}x{columns} tiles with {accumulator_sets} accumulator sets: use a tile that `--explain` lists"
            ));
        }
        let is_block_scaled =
            schedule.group().is_some() && columns.is_multiple_of(SCALE_TILE.0) && k_bytes == SWIZZLE_BYTES;
        if scaling.factors().is_some() && !is_block_scaled {
            return Some(format!(
                "scales of 16 and 32 elements have no kernel of {rows}x{columns} tiles and {k_bytes} bytes of k: use a tile that `--explain` lists"
            ));
        }
        if let Some(reason) = self.broken_split(problem) {
            return Some(reason);
        }
        let stored = slice_columns(self.tile, schedule, self.split_k);
        if problem.gate.is_some() && !self.transposed && !stored.is_multiple_of(GATED_COLUMNS) {
            return Some(format!(
                "{stored} columns of a tile are stored at once, but {GATED_COLUMNS} are gates and values: use a multiple, or the transpose"
            ));
        }
        let max = self.stages_within(SHARED_BYTES_PER_CTA, problem);
        if !(MIN_STAGES..=max).contains(&stages) {
            return Some(format!(
                "the pipeline has {stages} stages, but needs {MIN_STAGES} and shared memory holds {max}"
            ));
        }
        if self.raster == 0 {
            return Some("the raster is 0: use 1 or more rows".to_owned());
        }
        (self.stream_k && u64::from(problem.batch.problem.k) > MAX_STREAM_K).then(|| {
            format!(
                "k is {}, but stream-K takes {MAX_STREAM_K} at most: use a configuration without stream-K",
                problem.batch.problem.k
            )
        })
    }
}

impl Configuration {
    /// The first rule of tiles that it breaks.
    fn broken_tile(self) -> Option<String> {
        let Self { tile: (rows, columns), schedule, cluster, .. } = self;
        if schedule == Schedule::PairedTensorMemory && cluster != (2, 1) {
            let (along_m, along_n) = cluster;
            return Some(format!(
                "a pair of CTAs multiplies, but the cluster is {along_m}x{along_n}: use a cluster of 2x1"
            ));
        }
        if schedule.group().is_some() {
            if rows != TENSOR_MEMORY_LANES {
                return Some(format!(
                    "a tile has {rows} rows, but tensor memory has {TENSOR_MEMORY_LANES}: use as many"
                ));
            }
            let is_legal = (16..=256).contains(&columns) && columns.is_multiple_of(16);
            return (!is_legal).then(|| {
                format!(
                    "a tile has {columns} columns, but tcgen05.mma multiplies 16 to 256: use a multiple of 16"
                )
            });
        }
        let multiple = 64 * schedule.cooperating();
        if rows == 0 || !rows.is_multiple_of(multiple) {
            return Some(format!(
                "a tile has {rows} rows, but its consumers multiply {multiple} at a time: use a multiple"
            ));
        }
        if !(8..=256).contains(&columns) || !columns.is_multiple_of(8) {
            return Some(format!(
                "a tile has {columns} columns, but wgmma multiplies 8 to 256: use a multiple of 8"
            ));
        }
        let accumulators = rows * columns / (128 * schedule.cooperating());
        (accumulators > MAX_ACCUMULATORS).then(|| {
            format!(
                "a thread has {accumulators} accumulators, but its registers hold {MAX_ACCUMULATORS}: use a smaller tile"
            )
        })
    }

    /// The first rule of split-K that it breaks.
    fn broken_split(self, problem: &GemmProblem) -> Option<String> {
        let Self { tile, schedule, cluster, split_k, .. } = self;
        if split_k == 1 {
            return None;
        }
        if !(1..=PORTABLE_CTAS_PER_CLUSTER).contains(&split_k) {
            return Some(format!(
                "{split_k} CTAs share a tile's k, but a portable cluster has 1 to {PORTABLE_CTAS_PER_CLUSTER}"
            ));
        }
        if schedule.group().is_some() {
            return Some("tcgen05 kernels have no split-K: use 1, or stream-K".to_owned());
        }
        if schedule == Schedule::Pingpong || cluster != (1, 1) || self.stream_k {
            let rule = "CTAs of a cluster that share a tile's k are cooperative and share no operand: use a cluster of 1x1 without stream-K";
            return Some(rule.to_owned());
        }
        if problem.along_m || problem.types.scaling.granularities().is_some() {
            return Some("groups and blockwise scales have no split-K: use 1".to_owned());
        }
        let (blocks, columns) = (tile.0 / 128, slice_columns(tile, schedule, split_k));
        if !split_k.is_multiple_of(blocks)
            || columns * split_k != tile.1 * blocks
            || !columns.is_multiple_of(8)
        {
            return Some(format!(
                "{split_k} CTAs cannot store equal slices of a tile of {}x{}: use a tile whose columns are a multiple of 8 for each",
                tile.0, tile.1
            ));
        }
        let k_blocks = problem.batch.problem.k.div_ceil(self.k(problem));
        (k_blocks < split_k)
            .then(|| format!("k has {k_blocks} k-blocks, but {split_k} CTAs share it: use fewer"))
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tile: (rows, columns), cluster: (along_m, along_n), k_bytes, .. } = self;
        let schedule = match self.schedule {
            Schedule::Cooperative => "cooperative",
            Schedule::Pingpong => "pingpong",
            Schedule::TensorMemory => "tensor-memory",
            Schedule::PairedTensorMemory => "paired tensor-memory",
        };
        write!(f, "{rows:>3}x{columns:<3} {schedule} cluster {along_m}x{along_n} k {k_bytes} B")?;
        let parts = [
            (self.stream_k, " stream-K".to_owned()),
            (self.split_k != 1, format!(" split-K {}", self.split_k)),
            (self.transposed, " transposed".to_owned()),
            (self.accumulator_sets != 1, format!(" {} accumulator sets", self.accumulator_sets)),
        ];
        parts.iter().filter(|(is_there, _)| *is_there).try_for_each(|(_, part)| f.write_str(part))
    }
}

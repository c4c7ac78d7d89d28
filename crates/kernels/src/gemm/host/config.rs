//! Algorithms and their configurations: what they are, which are legal, and which are candidates of a search.

use std::fmt;

use serde::{Deserialize, Serialize};
use warpwright::arch::Capability;
use warpwright::arch::limits::{PORTABLE_CTAS_PER_CLUSTER, SHARED_BYTES_PER_CTA};
use warpwright::prelude::*;

use crate::gemm::device::mainloop::mma_sync::{DEPTH, MmaSyncConfiguration};
use crate::gemm::device::mainloop::promotion::{BlockScaling, TileScales};
use crate::gemm::device::mainloop::wgmma::{CONSUMERS, Schedule, WgmmaGemm};
use crate::gemm::device::store::store_buffer_bytes;
use crate::gemm::problem::batching::{Problem, ProblemSize};
use crate::gemm::problem::error::GemmError;
use crate::gemm::problem::scales::{BLOCK, Granularities};
use crate::gemm::problem::types::MatrixLayout;

/// A kernel family and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// `cp.async` and `mma.sync`: any GPU and shape, 16-bit operands.
    MmaSync(MmaSyncConfiguration),
    /// TMA and `wgmma`, on Hopper.
    Wgmma(Configuration),
}

impl Algorithm {
    /// Refuses what cannot be built or launched for problems of that size on GPUs of that capability.
    pub(in crate::gemm) fn check(self, size: ProblemSize, capability: &Capability) -> Result<(), GemmError> {
        let refuse = |reason| Err(GemmError::Algorithm { algorithm: self.to_string(), reason });
        match self {
            Self::MmaSync(_) if size.input_bytes != MMA_SYNC_INPUT_BYTES || size.scales.is_some() => refuse(
                "mma.sync multiplies 16-bit operands without block scales: use a wgmma algorithm".to_owned(),
            ),
            Self::MmaSync(configuration) if !configuration.is_legal(capability) => refuse(
                "tiles have 64 or 128 rows and columns, and at least 2 stages that fit shared memory"
                    .to_owned(),
            ),
            Self::Wgmma(_) if !has_wgmma(capability) => {
                refuse(format!("wgmma needs sm_90a, and the device is {}", capability.target))
            }
            Self::Wgmma(configuration) => configuration.check(size).or_else(|rule| refuse(rule.to_string())),
            Self::MmaSync(_) => Ok(()),
        }
    }

    /// Whether the kernel is that by `wgmma`.
    pub fn is_wgmma(self) -> bool {
        matches!(self, Self::Wgmma(_))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MmaSync(MmaSyncConfiguration { tile: (rows, columns), stages, raster }) => {
                write!(f, "{rows:>3}x{columns:<3} mma.sync, {stages} stages, raster {raster}")
            }
            Self::Wgmma(configuration) => {
                let Configuration { stages, raster, .. } = configuration;
                write!(f, "{configuration}, {stages} stages, raster {raster}")
            }
        }
    }
}

/// Bytes of the operands of the kernel by `mma.sync`.
pub(in crate::gemm) const MMA_SYNC_INPUT_BYTES: u32 = 2;

/// Whether GPUs of that capability have `wgmma`.
pub(crate) fn has_wgmma(capability: &Capability) -> bool {
    capability.target == "sm_90a"
}

/// Rows or columns of a tile by `mma.sync`: two warps of 32 or 64 each. Larger tiles leave no registers for accumulators.
const MMA_SYNC_EXTENTS: [u32; 2] = [128, 64];

/// Stages of `mma.sync` that a search tries.
const MMA_SYNC_STAGES: [u32; 3] = [4, 3, 6];

/// Rasters of `mma.sync` that it tries.
const MMA_SYNC_RASTERS: [u32; 3] = [8, 4, 16];

impl MmaSyncConfiguration {
    /// The first candidates of a search on a GPU of that capability.
    pub(in crate::gemm) fn all(capability: &Capability) -> Vec<Self> {
        let tiles =
            MMA_SYNC_EXTENTS.into_iter().flat_map(|rows| MMA_SYNC_EXTENTS.map(|columns| (rows, columns)));
        let all =
            tiles.flat_map(|tile| MMA_SYNC_STAGES.map(|stages| Self { tile, stages, ..Self::default() }));
        all.filter(|configuration| configuration.is_legal(capability)).collect()
    }

    /// The legal ones that differ from it in one thing.
    pub(in crate::gemm) fn around(self, capability: &Capability) -> Vec<Self> {
        let rasters = MMA_SYNC_RASTERS.into_iter().map(|raster| Self { raster, ..self });
        let is_near = |other: &Self| other.tile == self.tile || other.stages == self.stages;
        let others = Self::all(capability).into_iter().filter(is_near);
        let others = others.map(|other| Self { raster: self.raster, ..other });
        rasters.chain(others).filter(|other| *other != self && other.is_legal(capability)).collect()
    }

    /// Whether the kernel can be built and launched on a GPU of that capability.
    fn is_legal(self, capability: &Capability) -> bool {
        let Self { tile: (rows, columns), stages, raster } = self;
        let has_tile = MMA_SYNC_EXTENTS.contains(&rows) && MMA_SYNC_EXTENTS.contains(&columns);
        let stage = u64::from(rows + columns) * u64::from(DEPTH * MMA_SYNC_INPUT_BYTES);
        let fits = u64::from(stages) * stage <= capability.shared_bytes_per_cta_opt_in.into();
        has_tile && stages >= 2 && fits && raster != 0
    }
}

/// The build-time parameters of the kernel by `wgmma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Configuration {
    /// Rows and columns of the CTA tile: of C, or of C's transpose.
    pub tile: (u32, u32),
    /// How the consumers share the tiles.
    pub schedule: Schedule,
    /// CTAs of a cluster along the tile's rows and columns.
    pub cluster: (u32, u32),
    /// Bytes of k in a stage: the widest swizzle's 128, or a multiple, which reads longer runs of memory at a time.
    pub k_bytes: u32,
    /// Whether the tiles of the last waves are split along k.
    pub stream_k: bool,
    /// Whether C's transpose is computed, Bᵀ·Aᵀ: the tensor cores take 64 rows at least, and 8 columns.
    pub transposed: bool,
    /// Stages of the pipeline.
    pub stages: u32,
    /// Rows of clusters' tiles that are rasterized together.
    pub raster: u32,
    /// With block scales, the sets of accumulators of a consumer; otherwise 1.
    pub accumulator_sets: u32,
}

/// Tiles and schedules that the heuristic ranks.
const TILES: &[((u32, u32), Schedule)] = &[
    ((128, 192), Schedule::Pingpong),
    ((128, 128), Schedule::Pingpong),
    ((128, 256), Schedule::Cooperative),
    ((256, 192), Schedule::Cooperative),
    ((256, 128), Schedule::Cooperative),
    ((128, 192), Schedule::Cooperative),
    ((128, 128), Schedule::Cooperative),
    ((128, 96), Schedule::Cooperative),
    ((256, 64), Schedule::Cooperative),
    ((128, 64), Schedule::Cooperative),
    ((128, 32), Schedule::Cooperative),
    ((128, 16), Schedule::Cooperative),
    ((128, 8), Schedule::Cooperative),
    ((64, 128), Schedule::Pingpong),
    ((64, 96), Schedule::Pingpong),
    ((64, 64), Schedule::Pingpong),
    ((64, 32), Schedule::Pingpong),
];

/// With block scales, the columns of the tiles, all of 128 rows, and sets of accumulators: as many as a consumer's registers
/// hold beside the totals.
const SCALED_TILES: &[(u32, u32)] =
    &[(128, 2), (192, 1), (160, 1), (128, 1), (96, 2), (64, 2), (32, 2), (16, 2), (8, 2)];

/// Rows of tiles that a search tries.
const SEARCHED_ROWS: [u32; 3] = [64, 128, 256];

/// Columns that it tries. C is stored in boxes of 64, 32, 16 or 8 columns, whatever divides the tile's; 8 only for no more.
const SEARCHED_COLUMNS: [u32; 15] = [8, 16, 32, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256];

/// Clusters that it tries.
const SEARCHED_CLUSTERS: [(u32, u32); 3] = [(1, 1), (2, 1), (1, 2)];

/// Bytes of k in a stage that it tries, for tiles of up to [`NARROW`] columns: their time is that of reading the other operand.
const SEARCHED_K_BYTES: [u32; 3] = [128, 256, 512];
const NARROW: u32 = 64;

/// Rasters that it tries around the fastest.
const SEARCHED_RASTERS: [u32; 4] = [4, 8, 16, 32];

/// Stream-K or not, of C or of its transpose.
const FORMS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

/// Bytes of it for barriers and the alignment of tiles.
const SHARED_MARGIN: u32 = 2 * 1024;

/// Bytes of the widest swizzle.
const SWIZZLE_BYTES: u32 = 128;

/// Bytes of k in a stage of narrow tiles: 256 are 3% faster than 128 or 512 on an H200 (m = 1 and 16, n = 12288, k = 4096).
const NARROW_K_BYTES: u32 = 256;

/// The default raster.
const RASTER: u32 = 8;

/// More stages than this hide no more latency.
const MAX_STAGES: u32 = 16;

/// Stream-K counts clusters times k-blocks in 32 bits.
const MAX_STREAM_K: u64 = 1 << 20;

/// Accumulators of a thread: 192 leave 40 of a consumer's registers for addresses and loops, and nothing spills (ptxas 13).
const MAX_ACCUMULATORS: u32 = 192;

/// Stages that make a pipeline.
const MIN_STAGES: u32 = 2;

impl Configuration {
    /// Elements of k in a stage.
    pub(in crate::gemm) fn k(self, size: ProblemSize) -> u32 {
        self.k_bytes / size.input_bytes
    }

    /// The stages that the heuristic takes: as many as fit beside barriers and the buffers of the epilogue, wherever groups begin.
    fn max_stages(self, size: ProblemSize) -> u32 {
        self.stages_within(SHARED_BYTES_PER_CTA - SHARED_MARGIN, size)
    }

    /// The most stages that fit into `bytes` of shared memory beside the buffers of the epilogue.
    fn stages_within(self, bytes: u32, size: ProblemSize) -> u32 {
        let (rows, columns) = self.tile;
        let buffers = store_buffer_bytes(CONSUMERS, columns, size.output_bytes);
        let scales = size.scales.map_or(0, |(a, b)| {
            let (a_extent, b_extent) = if self.transposed { (columns, rows) } else { (rows, columns) };
            let tiles = [
                TileScales { granularity: a, any_row: true }.tile(a_extent),
                TileScales { granularity: b, any_row: false }.tile(b_extent),
            ];
            tiles.iter().flatten().map(TmaTile::bytes).sum::<u32>()
        });
        let stage = (rows + columns) * self.k_bytes + scales;
        ((bytes - buffers) / stage.max(1)).min(MAX_STAGES)
    }

    /// The rows and columns that the tiles cover.
    pub(in crate::gemm) fn extents(self, size: ProblemSize) -> (u32, u32) {
        if self.transposed { (size.n, size.m) } else { (size.m, size.n) }
    }

    /// Those that the heuristic ranks for a size.
    pub fn all(size: ProblemSize) -> Vec<Self> {
        let tiles: Vec<_> = match size.scales {
            None => TILES.iter().map(|&(tile, schedule)| (tile, schedule, 1)).collect(),
            Some(_) => {
                let scaled = |&(columns, sets): &(u32, u32)| ((128, columns), Schedule::Cooperative, sets);
                SCALED_TILES.iter().map(scaled).collect()
            }
        };
        let mut all = Vec::new();
        for (tile, schedule, accumulator_sets) in tiles {
            // Two CTAs share B's part of the tile; or A's, where that is the larger and both are large.
            let shared = if tile.0 > tile.1 && tile.1 >= 128 { (1, 2) } else { (2, 1) };
            let k_bytes = if tile.1 <= 32 && size.scales.is_none() { NARROW_K_BYTES } else { SWIZZLE_BYTES };
            for cluster in [shared, (1, 1)] {
                for (stream_k, transposed) in FORMS {
                    let configuration = Self {
                        tile,
                        schedule,
                        cluster,
                        k_bytes,
                        stream_k,
                        transposed,
                        stages: 0,
                        raster: RASTER,
                        accumulator_sets,
                    };
                    let configuration = Self { stages: configuration.max_stages(size), ..configuration };
                    let (rows, columns) = configuration.extents(size);
                    // A tile far larger than the matrix multiplies nothing; narrow ones are for matrices of one tile's
                    // height or width.
                    let too_wide = tile.1 > 64 && tile.1 >= 2 * columns;
                    let too_high = tile.0 >= 2 * rows && columns > rows;
                    let too_narrow = tile.0.min(tile.1) < 96 && rows > tile.0 && columns > tile.1;
                    let too_long = stream_k && u64::from(size.k) > MAX_STREAM_K;
                    if !(too_wide || too_high || too_narrow || too_long) && configuration.stages >= MIN_STAGES
                    {
                        all.push(configuration);
                    }
                }
            }
        }
        all
    }

    /// All legal candidates of a search.
    pub fn searched(size: ProblemSize) -> Vec<Self> {
        if size.scales.is_some() {
            return Self::all(size);
        }
        let mut all = Vec::new();
        for tile in SEARCHED_ROWS.into_iter().flat_map(|rows| SEARCHED_COLUMNS.map(|columns| (rows, columns)))
        {
            for schedule in [Schedule::Pingpong, Schedule::Cooperative] {
                for cluster in SEARCHED_CLUSTERS {
                    for (stream_k, transposed) in FORMS {
                        let k_bytes =
                            if tile.1 <= NARROW { &SEARCHED_K_BYTES[..] } else { &SEARCHED_K_BYTES[..1] };
                        all.extend(k_bytes.iter().map(|&k_bytes| {
                            let configuration = Self {
                                tile,
                                schedule,
                                cluster,
                                k_bytes,
                                stream_k,
                                transposed,
                                stages: 0,
                                raster: RASTER,
                                accumulator_sets: 1,
                            };
                            Self { stages: configuration.max_stages(size), ..configuration }
                        }));
                    }
                }
            }
        }
        all.retain(|configuration| configuration.check(size).is_ok());
        all
    }

    /// The legal ones that differ from it in the stages or the raster alone.
    pub fn around(self, size: ProblemSize) -> Vec<Self> {
        let rasters = SEARCHED_RASTERS.map(|raster| Self { raster, ..self });
        let fewer = Self { stages: self.stages - 1, ..self };
        let others = rasters.into_iter().chain([fewer]).filter(|other| *other != self);
        others.filter(|other| other.check(size).is_ok()).collect()
    }

    /// The kernel for the problem that it reads: with C's transpose, Bᵀ·Aᵀ. `any_row`: groups begin at any row of A.
    pub(in crate::gemm) fn gemm(
        self,
        read: Problem,
        input_bytes: u32,
        scales: Option<Granularities>,
        any_row: bool,
    ) -> WgmmaGemm {
        let Self { tile, schedule, cluster, stages, raster, stream_k, transposed, .. } = self;
        let scales = scales.map(|(a, b)| {
            let a = TileScales { granularity: a, any_row };
            let b = TileScales { granularity: b, any_row: false };
            let (a, b) = if transposed { (b, a) } else { (a, b) };
            BlockScaling { a, b, accumulator_sets: self.accumulator_sets }
        });
        WgmmaGemm {
            a: read.a,
            b: read.b,
            c: if transposed { MatrixLayout::ColumnMajor } else { MatrixLayout::RowMajor },
            tile: (tile.0, tile.1, self.k_bytes / input_bytes),
            schedule,
            cluster,
            stages,
            raster,
            stream_k,
            scales,
        }
    }

    /// Checks that the kernel can be built and launched.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(self, size: ProblemSize) -> Result<(), IllegalConfiguration> {
        use IllegalConfiguration as Illegal;
        let Self { tile: (rows, columns), schedule, cluster: (along_m, along_n), stages, .. } = self;
        let multiple = 64 * schedule.cooperating();
        if rows == 0 || !rows.is_multiple_of(multiple) {
            return Err(Illegal::TileRows { rows, multiple });
        }
        if !(8..=256).contains(&columns) || !columns.is_multiple_of(8) {
            return Err(Illegal::TileColumns { columns });
        }
        let accumulators = rows * columns / (128 * schedule.cooperating());
        if accumulators > MAX_ACCUMULATORS {
            return Err(Illegal::Accumulators { accumulators, max: MAX_ACCUMULATORS });
        }
        let ctas = along_m * along_n;
        if !(1..=PORTABLE_CTAS_PER_CLUSTER).contains(&ctas) {
            return Err(Illegal::Cluster { ctas, max: PORTABLE_CTAS_PER_CLUSTER });
        }
        for (operand, rows, ctas) in [("A", rows, along_n), ("B", columns, along_m)] {
            if !rows.is_multiple_of(ctas) {
                return Err(Illegal::Slices { operand, rows, ctas });
            }
        }
        if self.k_bytes == 0 || !self.k_bytes.is_multiple_of(SWIZZLE_BYTES) {
            return Err(Illegal::StageDepth { k_bytes: self.k_bytes });
        }
        let is_scaled_tile = rows == 128
            && SCALED_TILES.contains(&(columns, self.accumulator_sets))
            && schedule == Schedule::Cooperative
            && self.k(size) == BLOCK;
        if size.scales.is_some() && !is_scaled_tile {
            return Err(Illegal::ScaledTile { rows, columns, accumulator_sets: self.accumulator_sets });
        }
        let max = self.stages_within(SHARED_BYTES_PER_CTA, size);
        if !(MIN_STAGES..=max).contains(&stages) {
            return Err(Illegal::Stages { stages, min: MIN_STAGES, max });
        }
        if self.raster == 0 {
            return Err(Illegal::Raster);
        }
        if self.stream_k && u64::from(size.k) > MAX_STREAM_K {
            return Err(Illegal::StreamK { k: size.k, max: MAX_STREAM_K });
        }
        Ok(())
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tile: (rows, columns), cluster: (along_m, along_n), k_bytes, .. } = self;
        let schedule = match self.schedule {
            Schedule::Cooperative => "cooperative",
            Schedule::Pingpong => "pingpong",
        };
        write!(f, "{rows:>3}x{columns:<3} {schedule} cluster {along_m}x{along_n} k {k_bytes} B")?;
        let parts = [
            (self.stream_k, " stream-K".to_owned()),
            (self.transposed, " transposed".to_owned()),
            (self.accumulator_sets != 1, format!(" {} accumulator sets", self.accumulator_sets)),
        ];
        parts.iter().filter(|(is_there, _)| *is_there).try_for_each(|(_, part)| f.write_str(part))
    }
}

/// A rule that a configuration breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IllegalConfiguration {
    /// A warpgroup multiplies 64 rows at a time. (PTX ISA, "wgmma.mma_async".)
    #[error("a tile has {rows} rows, but its consumers multiply {multiple} at a time: use a multiple")]
    TileRows {
        /// Rows of the tile.
        rows: u32,
        /// 64 for each consumer that shares the tile.
        multiple: u32,
    },
    /// `wgmma` has 8 to 256 columns, in steps of 8. (PTX ISA, "wgmma.mma_async".)
    #[error("a tile has {columns} columns, but wgmma multiplies 8 to 256: use a multiple of 8")]
    TileColumns {
        /// Columns of the tile.
        columns: u32,
    },
    /// Accumulators are in registers.
    #[error("a thread has {accumulators} accumulators, but its registers hold {max}: use a smaller tile")]
    Accumulators {
        /// Accumulators of a thread.
        accumulators: u32,
        /// The most.
        max: u32,
    },
    /// Clusters of 8 CTAs run on every GPU that has clusters. (CUDA C++ Programming Guide, "Thread Block Clusters".)
    #[error("a cluster has {ctas} CTAs, but a portable cluster has 1 to {max}")]
    Cluster {
        /// CTAs of the cluster.
        ctas: u32,
        /// The most.
        max: u32,
    },
    /// The CTAs of a cluster load equal parts of a shared tile.
    #[error("{ctas} CTAs cannot load {rows} rows of {operand} in equal parts: use a tile that they divide")]
    Slices {
        /// A or B.
        operand: &'static str,
        /// Rows of its tile.
        rows: u32,
        /// CTAs that share it.
        ctas: u32,
    },
    /// A stage is as deep as the widest swizzle, or a multiple.
    #[error("a stage has {k_bytes} bytes of k: use a multiple of 128")]
    StageDepth {
        /// Bytes of k in a stage.
        k_bytes: u32,
    },
    /// Block scales have kernels for some tiles.
    #[error(
        "block scales have no kernel of {rows}x{columns} tiles with {accumulator_sets} accumulator sets: use a tile that `--explain` lists"
    )]
    ScaledTile {
        /// Rows of the tile.
        rows: u32,
        /// Columns of the tile.
        columns: u32,
        /// Sets of accumulators.
        accumulator_sets: u32,
    },
    /// Stages are in shared memory.
    #[error("the pipeline has {stages} stages, but needs {min} and shared memory holds {max}")]
    Stages {
        /// Stages of the pipeline.
        stages: u32,
        /// The fewest.
        min: u32,
        /// The most.
        max: u32,
    },
    /// Rasterization has strips of rows.
    #[error("the raster is 0: use 1 or more rows")]
    Raster,
    /// Stream-K counts k-blocks in 32 bits.
    #[error("k is {k}, but stream-K takes {max} at most: use a configuration without stream-K")]
    StreamK {
        /// Columns of A.
        k: u32,
        /// The most.
        max: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::problem::scales::Granularity;

    const SIZE: ProblemSize =
        ProblemSize { m: 4096, n: 4096, k: 4096, batch: 1, input_bytes: 2, output_bytes: 2, scales: None };
    const LEGAL: Configuration = Configuration {
        tile: (128, 192),
        schedule: Schedule::Pingpong,
        cluster: (2, 1),
        k_bytes: 128,
        stream_k: false,
        transposed: false,
        stages: 4,
        raster: 8,
        accumulator_sets: 1,
    };

    #[test]
    fn what_the_heuristic_ranks_is_legal() {
        assert_eq!(LEGAL.check(SIZE), Ok(()));
        for (m, n, k) in
            [(1, 1, 1), (1, 12288, 4096), (2048, 2048, 2048), (8192, 8192, 8192), (64, 64, 1 << 21)]
        {
            let scaled = Some((Granularity::Row, Granularity::Block));
            for (input_bytes, output_bytes, scales) in
                [(1, 2, None), (2, 2, None), (2, 4, None), (4, 4, None), (1, 2, scaled), (1, 4, scaled)]
            {
                let size = ProblemSize { m, n, k, batch: 1, input_bytes, output_bytes, scales };
                for configuration in Configuration::all(size) {
                    assert_eq!(configuration.check(size), Ok(()), "{configuration} for {size:?}");
                }
            }
        }
    }

    #[test]
    fn only_legal_candidates_are_searched_and_none_twice() {
        for size in [
            SIZE,
            ProblemSize { m: 1, ..SIZE },
            ProblemSize { output_bytes: 4, ..SIZE },
            ProblemSize { k: 1 << 21, ..SIZE },
        ] {
            let all = Configuration::searched(size);
            assert!(all.len() > 100, "{} for {size:?}", all.len());
            for (index, configuration) in all.iter().enumerate() {
                assert_eq!(configuration.check(size), Ok(()), "{configuration}");
                assert!(!all[..index].contains(configuration));
                for other in configuration.around(size) {
                    assert_eq!(other.check(size), Ok(()), "{other}");
                    assert_ne!(other, *configuration);
                }
            }
        }
    }

    #[test]
    fn each_rule_has_a_name() {
        use IllegalConfiguration::*;
        let check = |configuration: Configuration| configuration.check(SIZE).expect_err("illegal");
        let schedule = Schedule::Cooperative;
        assert_eq!(check(Configuration { tile: (96, 64), ..LEGAL }), TileRows { rows: 96, multiple: 64 });
        assert_eq!(
            check(Configuration { tile: (64, 64), schedule, ..LEGAL }),
            TileRows { rows: 64, multiple: 128 }
        );
        assert_eq!(check(Configuration { tile: (64, 264), ..LEGAL }), TileColumns { columns: 264 });
        assert_eq!(check(Configuration { tile: (64, 100), ..LEGAL }), TileColumns { columns: 100 });
        assert_eq!(
            check(Configuration { tile: (128, 256), ..LEGAL }),
            Accumulators { accumulators: 256, max: 192 }
        );
        assert_eq!(check(Configuration { cluster: (4, 4), ..LEGAL }), Cluster { ctas: 16, max: 8 });
        assert_eq!(check(Configuration { cluster: (0, 1), ..LEGAL }), Cluster { ctas: 0, max: 8 });
        assert_eq!(
            check(Configuration { tile: (128, 8), cluster: (3, 1), ..LEGAL }),
            Slices { operand: "B", rows: 8, ctas: 3 }
        );
        assert_eq!(check(Configuration { k_bytes: 64, ..LEGAL }), StageDepth { k_bytes: 64 });
        assert_eq!(check(Configuration { stages: 5, ..LEGAL }), Stages { stages: 5, min: 2, max: 4 });
        assert_eq!(check(Configuration { stages: 1, ..LEGAL }), Stages { stages: 1, min: 2, max: 4 });
        assert_eq!(check(Configuration { raster: 0, ..LEGAL }), Raster);
        let long = ProblemSize { k: 1 << 21, ..SIZE };
        assert_eq!(
            Configuration { stream_k: true, ..LEGAL }.check(long),
            Err(StreamK { k: 1 << 21, max: 1 << 20 })
        );
        let scaled =
            ProblemSize { input_bytes: 1, scales: Some((Granularity::Row, Granularity::Row)), ..SIZE };
        assert_eq!(
            LEGAL.check(scaled),
            Err(ScaledTile { rows: 128, columns: 192, accumulator_sets: 1 }),
            "its schedule is pingpong"
        );
        assert!(Accumulators { accumulators: 256, max: 192 }.to_string().contains("256 accumulators"));
    }

    #[test]
    fn mma_sync_candidates_are_legal_and_none_twice() {
        for target in ["sm_80", "sm_86", "sm_90a"] {
            let capability = Capability::for_target(target).expect("it is known");
            let all = MmaSyncConfiguration::all(capability);
            assert_eq!(all[0], MmaSyncConfiguration::default());
            for (index, configuration) in all.iter().enumerate() {
                assert!(!all[..index].contains(configuration), "{configuration:?}");
                let around = configuration.around(capability);
                assert!(around.len() >= 6 && !around.contains(configuration), "{configuration:?}");
                for (index, other) in around.iter().enumerate() {
                    assert!(other.is_legal(capability) && !around[..index].contains(other), "{other:?}");
                }
            }
        }
        let small = Capability::for_target("sm_86").expect("it is known");
        let default = MmaSyncConfiguration::default();
        assert!(MmaSyncConfiguration { stages: 6, ..default }.is_legal(small));
        for illegal in [
            MmaSyncConfiguration { stages: 7, ..default },
            MmaSyncConfiguration { tile: (256, 128), ..default },
            MmaSyncConfiguration { tile: (64, 96), ..default },
            MmaSyncConfiguration { stages: 1, ..default },
            MmaSyncConfiguration { stages: u32::MAX, ..default },
            MmaSyncConfiguration { raster: 0, ..default },
        ] {
            assert!(!illegal.is_legal(small), "{illegal:?}");
        }
    }
}

//! Which configurations of the kernels that TMA feeds the heuristic ranks, and which a search tries.

use super::config::{Configuration, MIN_STAGES, SCALED_COLUMNS, SCALED_TILES, SWIZZLE_BYTES, TmaInstruction};
use crate::gemm::device::schedule::Schedule::{
    self, Cooperative, PairedTensorMemory, Pingpong, TensorMemory,
};
use crate::gemm::problem::batching::GemmProblem;

/// Tiles that the heuristic ranks: rows, schedule and columns. Those that it leaves out were not
/// among the fastest of any of 364 shapes on an H200, or as fast as a neighbour.
const RANKED: [(u32, Schedule, &[u32]); 5] = [
    (128, Pingpong, &[192, 176, 160, 144, 128, 112, 96, 80, 64]),
    (64, Pingpong, &[256, 240, 224, 208, 192, 176, 160, 144, 128, 112, 96, 80, 64, 32, 16, 8]),
    (128, Cooperative, &COOPERATIVE_COLUMNS),
    (128, Cooperative, &[32, 16, 8]),
    (256, Cooperative, &[192, 128]),
];

/// Columns of the cooperative tiles of 128 rows, of which CTAs of a cluster may share the k.
const COOPERATIVE_COLUMNS: [u32; 13] = [256, 240, 224, 208, 192, 176, 160, 144, 128, 112, 96, 80, 64];

/// Columns of the tiles of 128 rows in tensor memory that the heuristic ranks.
const TENSOR_MEMORY_COLUMNS: [u32; 9] = [256, 224, 192, 160, 128, 96, 64, 32, 16];

/// Rows of tiles that a search tries.
const SEARCHED_ROWS: [u32; 3] = [64, 128, 256];

/// Columns that it tries. C is stored in boxes of 64, 32, 16 or 8 columns, whatever divides the
/// tile's; 8 only for no more.
const SEARCHED_COLUMNS: [u32; 17] =
    [8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256];

/// CTAs that share a tile's k.
const SPLITS: [u32; 4] = [2, 3, 4, 8];

/// Clusters of CTAs that share operands.
const CLUSTERS: [(u32, u32); 3] = [(1, 1), (2, 1), (1, 2)];

/// The same with blockwise scales: two CTAs share B's part of the tile, or none does.
const SCALED_CLUSTERS: [(u32, u32); 2] = [(2, 1), (1, 1)];

/// Pairs of CTAs that multiply together.
const PAIRS: [(u32, u32); 1] = [(2, 1)];

/// Bytes of k in a stage that a search tries, for tiles of up to [`NARROW`] columns: their time is
/// that of reading the other operand.
const SEARCHED_K_BYTES: [u32; 3] = [128, 256, 512];
const NARROW: u32 = 64;

/// Bytes of k in a stage of tiles of up to [`NARROWEST`] columns: 256 are 3% faster than 128 or 512
/// on an H200 (m = 1 and 16, n = 12288, k = 4096).
const NARROWEST_K_BYTES: u32 = 256;
pub(super) const NARROWEST: u32 = 32;

/// Rasters that a search tries around the fastest.
const SEARCHED_RASTERS: [u32; 4] = [4, 8, 16, 32];

/// Stream-K or not, of C or of its transpose.
const FORMS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

/// What configurations have in common.
pub(super) const COMMON: Configuration = Configuration {
    tile: (128, 128),
    schedule: Cooperative,
    cluster: (1, 1),
    k_bytes: SWIZZLE_BYTES,
    stream_k: false,
    split_k: 1,
    transposed: false,
    stages: MIN_STAGES,
    raster: 8,
    accumulator_sets: 1,
};

impl Configuration {
    /// The configurations that the heuristic ranks for a problem.
    pub fn all(problem: &GemmProblem, instruction: TmaInstruction) -> Vec<Self> {
        let candidates = match (instruction, problem.types.scaling.granularities()) {
            (TmaInstruction::Tcgen05, None) => in_tensor_memory(&TENSOR_MEMORY_COLUMNS),
            (TmaInstruction::Tcgen05, Some(_)) => scaled_in_tensor_memory(),
            (TmaInstruction::Wgmma, Some(_)) => scaled(),
            (TmaInstruction::Wgmma, None) => plain().chain(split()).collect(),
        };
        let candidates = candidates.into_iter().map(|candidate| candidate.with_all_stages(problem));
        candidates.filter(|candidate| candidate.fits(problem) && candidate.is_legal(problem)).collect()
    }

    /// Whether its tile is not far larger than the matrix, and each CTA of a cluster has some of it.
    fn fits(self, problem: &GemmProblem) -> bool {
        if problem.types.scaling.factors().is_some() {
            return true;
        }
        let (tile, cluster, (rows, columns)) = (self.tile, self.cluster, self.extents(problem));
        if self.schedule.pair() == 1
            && ((cluster.0 - 1) * tile.0 >= rows || (cluster.1 - 1) * tile.1 >= columns)
        {
            return false;
        }
        let too_wide = tile.1 > NARROW && tile.1 >= 2 * columns;
        let too_high = tile.0 >= 2 * rows && columns > rows;
        !(too_wide || too_high)
    }

    /// All legal candidates of a search.
    pub fn searched(problem: &GemmProblem, instruction: TmaInstruction) -> Vec<Self> {
        if problem.types.scaling.granularities().is_some() {
            return Self::all(problem, instruction);
        }
        let all = match instruction {
            TmaInstruction::Wgmma => Self::in_registers(),
            TmaInstruction::Tcgen05 => in_tensor_memory(&SEARCHED_COLUMNS),
        };
        let all = all.into_iter().map(|candidate| candidate.with_all_stages(problem));
        all.filter(|candidate| candidate.is_legal(problem)).collect()
    }

    /// The candidates of a search with accumulators in registers.
    fn in_registers() -> Vec<Self> {
        let tiles =
            SEARCHED_ROWS.into_iter().flat_map(|rows| SEARCHED_COLUMNS.map(|columns| (rows, columns)));
        let mut all = Vec::new();
        for (tile, schedule) in
            tiles.flat_map(|tile| [Pingpong, Cooperative].map(|schedule| (tile, schedule)))
        {
            let k_bytes = if tile.1 <= NARROW { &SEARCHED_K_BYTES[..] } else { &SEARCHED_K_BYTES[..1] };
            for &k_bytes in k_bytes {
                let with_tile = Self { tile, schedule, k_bytes, ..COMMON };
                all.extend(with_tile.forms(&CLUSTERS).chain(with_tile.splits_of_k()));
            }
        }
        all
    }

    /// The legal ones that differ from it in the stages or the raster alone.
    pub fn around(self, problem: &GemmProblem) -> Vec<Self> {
        let rasters = SEARCHED_RASTERS.map(|raster| Self { raster, ..self });
        let fewer = Self { stages: self.stages - 1, ..self };
        let others = rasters.into_iter().chain([fewer]).filter(|other| *other != self);
        others.filter(|other| other.is_legal(problem)).collect()
    }

    /// Its clusters and forms, without split-K.
    fn forms(self, clusters: &[(u32, u32)]) -> impl Iterator<Item = Self> {
        clusters.iter().flat_map(move |&cluster| {
            FORMS.map(|(stream_k, transposed)| Self { cluster, stream_k, transposed, ..self })
        })
    }

    /// Its forms with split-K.
    fn splits_of_k(self) -> impl Iterator<Item = Self> {
        SPLITS
            .into_iter()
            .flat_map(move |split_k| [false, true].map(|transposed| Self { split_k, transposed, ..self }))
    }
}

/// The candidates without blockwise scales and split-K.
fn plain() -> impl Iterator<Item = Configuration> {
    let tiles = RANKED
        .iter()
        .flat_map(|&(rows, schedule, columns)| columns.iter().map(move |&columns| (rows, columns, schedule)));
    tiles.flat_map(|(rows, columns, schedule)| {
        let k_bytes = if columns <= NARROWEST { NARROWEST_K_BYTES } else { SWIZZLE_BYTES };
        Configuration { tile: (rows, columns), schedule, k_bytes, ..COMMON }.forms(&CLUSTERS)
    })
}

/// The candidates with split-K.
fn split() -> impl Iterator<Item = Configuration> {
    COOPERATIVE_COLUMNS
        .into_iter()
        .flat_map(|columns| Configuration { tile: (128, columns), ..COMMON }.splits_of_k())
}

/// The candidates with accumulators in tensor memory: of these, those with a multiple of 16 columns
/// are legal.
fn in_tensor_memory(columns: &[u32]) -> Vec<Configuration> {
    let tiles = columns.iter().flat_map(|&columns| {
        let k_bytes = if columns <= NARROWEST { NARROWEST_K_BYTES } else { SWIZZLE_BYTES };
        let alone = Configuration { tile: (128, columns), schedule: TensorMemory, k_bytes, ..COMMON };
        alone.forms(&CLUSTERS).chain(Configuration { schedule: PairedTensorMemory, ..alone }.forms(&PAIRS))
    });
    tiles.collect()
}

/// The candidates with blockwise scales.
fn scaled() -> Vec<Configuration> {
    let tiles = SCALED_TILES.iter().flat_map(|&(columns, accumulator_sets)| {
        Configuration { tile: (128, columns), accumulator_sets, ..COMMON }.forms(&SCALED_CLUSTERS)
    });
    tiles.collect()
}

/// The same with accumulators in tensor memory.
fn scaled_in_tensor_memory() -> Vec<Configuration> {
    let tiles = SCALED_COLUMNS.iter().flat_map(|&columns| {
        Configuration { tile: (128, columns), schedule: TensorMemory, ..COMMON }.forms(&SCALED_CLUSTERS)
    });
    tiles.collect()
}

//! The tile scheduler: which tiles of C a persistent CTA computes, in which order, and which part
//! of their k.
//!
//! ```text
//! 6 tiles of 4 k-blocks for 4 clusters:
//! data-parallel   0: tile 0, tile 4     1: tile 1, tile 5     2: tile 2     3: tile 3      clusters 2 and 3 wait
//! stream-K        0: 0000 11            1: 11 2222            2: 3333 44    3: 44 5555     6 k-blocks each
//! ```
//!
//! Stream-K (Osama and others, 2023) splits only the tiles of the last wave and one wave before it:
//! whole tiles need no reduction. With split-K the CTAs of a cluster share the k-blocks of one tile.
//! Where stream-K splits every tile into equal parts, neighboring clusters have the same part of
//! neighboring tiles: CTAs without a cluster that follow one another are launched on one GPC (H200), and
//! what several SMs of a GPC read at the same time, L2 sends once.
//!
//! If problems have different numbers of tiles, a table in shared
//! memory has the first tile of each:
//!
//! ```text
//! tiles of each problem:   3  0  5  1           first tiles:   0  3  3  8 | 9
//! tile 4: the last problem whose first tile is at or before it is number 2, where it is tile 4 - 3 = 1
//! ```

use warpwright::arch::limits::WARP_SIZE;
use warpwright::prelude::*;

use super::problems::Problems;
use super::schedule::{Split as SplitMode, StreamK};

/// A tile of C, or a part of its k-blocks.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct WorkUnit {
    /// The cluster's tile, counted through all problems.
    pub(crate) tile: Reg<u32>,
    /// The problem it belongs to, of several.
    pub(crate) problem: Option<Reg<u32>>,
    /// The tile, counted in its problem.
    within: Reg<u32>,
    /// The first k-block.
    pub(crate) first: Reg<u32>,
    /// How many k-blocks.
    pub(crate) k_blocks: Reg<u32>,
}

/// The work units of a CTA.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct TileScheduler {
    /// Work units of this CTA's cluster.
    pub(crate) units: Reg<u32>,
    /// The k-blocks of a whole tile.
    pub(crate) k_blocks: Reg<u32>,
    /// This CTA's cluster, and the number of clusters.
    number: Reg<u32>,
    clusters: Reg<u32>,
    /// Rows and columns of clusters' tiles.
    rows: Reg<u32>,
    columns: Reg<u32>,
    /// Tiles of each problem of a batch.
    tiles_each: Option<Reg<u32>>,
    /// The first tile of each problem, if their numbers of tiles differ.
    table: Option<TileTable>,
    problems: Problems,
    /// (m, n, k) of a cluster's tile.
    tile: (u32, u32, u32),
    /// Rows of clusters' tiles that are rasterized together, about.
    raster: u32,
    cluster: ClusterGrid,
    mode: SplitMode,
    split: Option<Split>,
}

/// The tiles whose k-blocks are shared evenly.
#[derive(Clone, Copy, DeviceValue)]
struct Split {
    /// How many: the first ones.
    tiles: Reg<u32>,
    /// The clusters that share them.
    sharers: Reg<u32>,
    /// This cluster's k-blocks of all of theirs.
    begin: Reg<u32>,
    end: Reg<u32>,
    /// This cluster's work units of them.
    units: Reg<u32>,
}

#[device]
impl TileScheduler {
    /// The work on `problems` in tiles (m, n, k), for clusters that rasterize each problem in
    /// strips of about `raster` rows.
    pub(crate) fn new(
        cluster: ClusterGrid,
        tile: (u32, u32, u32),
        raster: u32,
        problems: &Problems,
        mode: SplitMode,
    ) -> Self {
        let (along_m, along_n) = cluster.shape();
        let tile = (tile.0 * along_m, tile.1 * along_n, tile.2);
        let (m, n, k) = problems.extents();
        let k_blocks = (k + (tile.2 - 1)) / tile.2;
        let (rows, columns) = ((m + (tile.0 - 1)) / tile.0, (n + (tile.1 - 1)) / tile.1);
        let each = rows * columns;
        let tiles = problems.count().map_or(each, |count| count * each);
        let sharing = cluster.size() * mode.split_k();
        let (number, clusters) = (block_idx().x / sharing, grid_dim().x / sharing);
        let mut scheduler = Self {
            units: constant(0u32),
            k_blocks,
            number,
            clusters,
            rows,
            columns,
            tiles_each: problems.count().map(|_| each),
            table: problems.unlike().map(|(capacity, count)| TileTable::new(capacity, count)),
            problems: *problems,
            tile,
            raster,
            cluster,
            mode,
            split: None,
        };
        if scheduler.table.is_none() {
            scheduler.share(tiles);
        }
        scheduler
    }

    /// Counts the tiles of problems that have different numbers of them: all threads of the CTA
    /// call it, once the extents can be read.
    pub(crate) fn count_tiles(&mut self) {
        if let Some(table) = self.table {
            table.fill(|problem| {
                let (rows, columns) = self.tiles_of(Some(problem));
                rows * columns
            });
            self.share(table.tiles());
        }
    }

    /// Gives each cluster its share of the tiles.
    fn share(&mut self, tiles: Reg<u32>) {
        let Self { number, clusters, k_blocks, .. } = *self;
        self.units = (tiles + clusters - 1u32 - number) / clusters;
        if let SplitMode::StreamK(stream_k) = self.mode {
            // The position among the parts of all tiles, tile by tile.
            let number = match stream_k {
                StreamK::Unequal => number,
                StreamK::Equal => number % tiles * (clusters / tiles) + number / tiles,
            };
            self.number = number;
            let last_wave = tiles % clusters;
            let wave_before = tiles.lt(clusters).select(0u32, clusters);
            let split = last_wave.eq(0u32).select(0u32, last_wave + wave_before);
            let all = split * k_blocks;
            // Problems whose tiles only the device counts may have fewer k-blocks than there are
            // clusters: some get none.
            let sharers = self.table.map_or(clusters, |_| clusters.min(all).max(1u32));
            let share = |number: Reg<u32>| {
                let k_block = number * all / sharers;
                self.table.map_or(k_block, |_| k_block.min(all))
            };
            let (begin, end) = (share(number), share(number + 1u32));
            let units = (end + k_blocks - 1u32) / k_blocks - begin / k_blocks;
            self.units = units + (tiles - split) / clusters;
            self.split = Some(Split { tiles: split, sharers, begin, end, units });
        }
    }

    /// Rows and columns of clusters' tiles of a problem.
    fn tiles_of(&self, problem: Option<Reg<u32>>) -> (Reg<u32>, Reg<u32>) {
        if self.table.is_none() {
            return (self.rows, self.columns);
        }
        let (m, n) = self.problems.extents_of(problem);
        ((m + (self.tile.0 - 1)) / self.tile.0, (n + (self.tile.1 - 1)) / self.tile.1)
    }

    /// Work unit `index` of this cluster. Past the last, a unit of no meaning.
    pub(crate) fn unit(&self, index: Reg<u32>) -> WorkUnit {
        let Some(split) = self.split else {
            let tile = self.number + index * self.clusters;
            let SplitMode::SplitK(ctas) = self.mode else {
                return self.unit_of(tile, constant(0u32), self.k_blocks);
            };
            let share = |rank: Reg<u32>| rank * self.k_blocks / ctas;
            let (begin, end) = (share(cluster_rank()), share(cluster_rank() + 1u32));
            return self.unit_of(tile, begin, end - begin);
        };
        let is_split = index.lt(split.units);
        let whole = split.tiles + self.number + (index - split.units) * self.clusters;
        let tile = is_split.select(split.begin / self.k_blocks + index, whole);
        let start = tile * self.k_blocks;
        let first = is_split.select(split.begin.max(start) - start, 0u32);
        let end = is_split.select(split.end.min(start + self.k_blocks) - start, self.k_blocks);
        self.unit_of(tile, first, end - first)
    }

    /// Some k-blocks of a tile, with the problem it belongs to.
    fn unit_of(&self, tile: Reg<u32>, first: Reg<u32>, k_blocks: Reg<u32>) -> WorkUnit {
        let (problem, within) = match (self.table, self.tiles_each) {
            (Some(table), _) => {
                let (problem, within) = table.find(tile);
                (Some(problem), within)
            }
            (None, Some(each)) => (Some(tile / each), tile % each),
            (None, None) => (None, tile),
        };
        let k_blocks =
            self.problems.k_of(problem).map_or(k_blocks, |k| (k + (self.tile.2 - 1)) / self.tile.2);
        WorkUnit { tile, problem, within, first, k_blocks }
    }

    /// The first row and column of this CTA's tile: strips of rows of clusters' tiles, column by column.
    ///
    /// All strips have about as many rows. CTAs of a last strip of few rows would share few columns: 9 x 14
    /// tiles of 64 x 224 take 51.6 us in strips of 8 rows and 1, and 40.6 in one strip (H200, 2944 x 576 x
    /// 6336).
    pub(crate) fn origin(&self, unit: WorkUnit) -> (Reg<u32>, Reg<u32>) {
        let (tile, (rows, columns)) = (unit.within, self.tiles_of(unit.problem));
        let strips = ((rows + (self.raster - 1 - self.raster / 4)) / self.raster).max(1u32);
        let strip = ((rows + strips - 1u32) / strips).max(1u32);
        let first = tile / (columns * strip) * strip;
        let high = (rows - first).min(strip);
        let within = tile % (columns * strip);
        let (row, column) = (first + within % high, within / high);
        let (along_m, along_n) = self.cluster.shape();
        let (row, column) = (row * along_m + self.cluster.m(), column * along_n + self.cluster.n());
        (row * (self.tile.0 / along_m), column * (self.tile.1 / along_n))
    }

    /// The part of the workspace for this cluster's part of a split tile: clusters and tiles both
    /// only increase along k, so no two parts have the same sum of them.
    pub(crate) fn part(&self, unit: WorkUnit) -> Reg<u32> {
        self.number + unit.tile
    }

    /// The parts of a split tile in the workspace, in the order of k: the first, and how many.
    pub(crate) fn parts(&self, unit: WorkUnit) -> (Reg<u32>, Reg<u32>) {
        let (all, sharers) = match self.split {
            Some(split) => (split.tiles * self.k_blocks, split.sharers),
            None => (constant(1u32), constant(1u32)),
        };
        let start = unit.tile * self.k_blocks;
        // The last cluster whose first k-block is at or before that one.
        let owner = |k_block: Reg<u32>| ((k_block + 1u32) * sharers - 1u32) / all;
        let first = owner(start);
        (first + unit.tile, owner(start + self.k_blocks - 1u32) - first + 1u32)
    }
}

/// The first tile of each problem in shared memory, and behind them the number of all tiles.
#[derive(Clone, Copy, DeviceValue)]
struct TileTable {
    firsts: Shared<u32>,
    problems: Reg<u32>,
}

#[device]
impl TileTable {
    /// A table of up to `capacity` problems, of which there are `problems`.
    fn new(capacity: u32, problems: Reg<u32>) -> Self {
        Self { firsts: shared_array::<u32>(capacity + 1), problems }
    }

    /// Fills it: all threads of the CTA call this, with the number of tiles of a problem.
    fn fill(&self, tiles_of: impl Fn(Reg<u32>) -> Reg<u32>) {
        let lane = thread_idx().x;
        if lane < WARP_SIZE {
            let mut before = constant(0u32);
            for first in (0..self.problems).step_by(WARP_SIZE) {
                let problem = first + lane;
                let is_one = problem.lt(self.problems);
                let tiles = tiles_of(is_one.select(problem, first));
                let mut sum = is_one.select(tiles, 0u32);
                for distance in [1, 2, 4, 8, 16] {
                    let other = sum.shuffle_up(distance);
                    sum = lane.ge(distance).select(sum + other, sum);
                }
                if is_one {
                    self.firsts.at(problem + 1u32).store(before + sum);
                }
                before += sum.shuffle(WARP_SIZE - 1);
            }
            if lane == 0 {
                self.firsts.store(0u32);
            }
        }
        sync_threads();
    }

    /// The number of all tiles.
    fn tiles(&self) -> Reg<u32> {
        self.firsts.at(self.problems).load()
    }

    /// The problem of a tile, and the tile's number there. Past the last tile, some problem.
    fn find(&self, tile: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let mut problem = constant(0u32);
        let mut after = self.problems;
        while after - problem > 1 {
            let middle = (problem + after) / 2u32;
            let begins_before = self.firsts.at(middle).load().le(tile);
            problem = begins_before.select(middle, problem);
            after = begins_before.select(after, middle);
        }
        (problem, tile - self.firsts.at(problem).load())
    }
}

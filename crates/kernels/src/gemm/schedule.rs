//! What a persistent CTA computes, and in what order: tiles of C, or where tiles are split, runs of steps along k.
//!
//! ```text
//! 6 tiles of 4 steps for 4 clusters:
//! whole      0: tile 0, tile 4     1: tile 1, tile 5     2: tile 2     3: tile 3        clusters 2 and 3 wait for the others
//! split      0: 0000 11            1: 11 2222            2: 3333 44    3: 44 5555       6 steps each
//! ```
//!
//! Only the tiles of the last round and one round before it are split ("stream-K": Osama and others, 2023): what is whole needs no
//! exchange of sums.

use warpwright::prelude::*;

use super::products::Products;

/// A run of steps along k of one tile.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Piece {
    /// The cluster's tile, counted in the order of the walk.
    pub(super) tile: Reg<u32>,
    /// Which of several products it belongs to.
    pub(super) product: Option<Reg<u32>>,
    /// The tile, counted in its product.
    within: Reg<u32>,
    /// The first step along k.
    pub(super) first: Reg<u32>,
    /// How many steps.
    pub(super) steps: Reg<u32>,
}

/// The pieces of a CTA.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Schedule {
    /// How many pieces this CTA's cluster computes.
    pub(super) count: Reg<u32>,
    /// Steps along k of a whole tile.
    pub(super) steps: Reg<u32>,
    /// This CTA's cluster, of how many.
    number: Reg<u32>,
    clusters: Reg<u32>,
    /// Rows and columns of clusters' tiles, and how many rows are walked together.
    rows: Reg<u32>,
    columns: Reg<u32>,
    /// Tiles of each product, where there are several.
    each: Option<Reg<u32>>,
    raster: u32,
    cluster: ClusterGrid,
    split: Option<Split>,
}

/// The tiles whose steps are dealt out evenly.
#[derive(Clone, Copy, DeviceValue)]
struct Split {
    /// How many: the first ones.
    tiles: Reg<u32>,
    /// This cluster's steps of all of theirs.
    begin: Reg<u32>,
    end: Reg<u32>,
    /// Pieces of this cluster that lie in them.
    pieces: Reg<u32>,
}

#[device]
impl Schedule {
    /// The work on `products` in tiles (m, n, k), for clusters that walk those of each product in strips of `raster` rows.
    pub(super) fn new(
        cluster: ClusterGrid,
        tile: (u32, u32, u32),
        raster: u32,
        products: &Products,
        splits: bool,
    ) -> Self {
        let (m, n, k) = products.shape_of(None);
        let steps = (k + (tile.2 - 1)) / tile.2;
        let (along_m, along_n) = cluster.shape();
        let (high, wide) = (tile.0 * along_m, tile.1 * along_n);
        let (rows, columns) = ((m + (high - 1)) / high, (n + (wide - 1)) / wide);
        let each = rows * columns;
        let tiles = products.count().map_or(each, |count| count * each);
        let (number, clusters) = (block_idx().x / cluster.size(), grid_dim().x / cluster.size());
        let mut schedule = Self {
            count: (tiles + clusters - 1u32 - number) / clusters,
            steps,
            number,
            clusters,
            rows,
            columns,
            each: products.count().map(|_| each),
            raster,
            cluster,
            split: None,
        };
        if splits {
            let last_round = tiles % clusters;
            let round_before = tiles.lt(clusters).select(0u32, clusters);
            let split = last_round.eq(0u32).select(0u32, last_round + round_before);
            let begin = number * (split * steps) / clusters;
            let end = (number + 1u32) * (split * steps) / clusters;
            let pieces = (end + steps - 1u32) / steps - begin / steps;
            schedule.count = pieces + (tiles - split) / clusters;
            schedule.split = Some(Split { tiles: split, begin, end, pieces });
        }
        schedule
    }

    /// The piece number `index` of this cluster. Past the last, one of any place and length.
    pub(super) fn piece(&self, index: Reg<u32>) -> Piece {
        let Some(split) = self.split else {
            let tile = self.number + index * self.clusters;
            return self.part(tile, constant(0u32), self.steps);
        };
        let is_split = index.lt(split.pieces);
        let whole = split.tiles + self.number + (index - split.pieces) * self.clusters;
        let tile = is_split.select(split.begin / self.steps + index, whole);
        let start = tile * self.steps;
        let first = is_split.select(split.begin.max(start) - start, 0u32);
        let end = is_split.select(split.end.min(start + self.steps) - start, self.steps);
        self.part(tile, first, end - first)
    }

    /// A run of steps of a tile, with the product it belongs to.
    fn part(&self, tile: Reg<u32>, first: Reg<u32>, steps: Reg<u32>) -> Piece {
        match self.each {
            None => Piece { tile, product: None, within: tile, first, steps },
            Some(each) => Piece { tile, product: Some(tile / each), within: tile % each, first, steps },
        }
    }

    /// The row and column of this CTA's tile of the cluster's: `raster` rows are walked column by column.
    pub(super) fn place(&self, piece: Piece) -> (Reg<u32>, Reg<u32>) {
        let tile = piece.within;
        let first = tile / (self.columns * self.raster) * self.raster;
        let high = (self.rows - first).min(self.raster);
        let within = tile % (self.columns * self.raster);
        let (row, column) = (first + within % high, within / high);
        let (along_m, along_n) = self.cluster.shape();
        (row * along_m + self.cluster.m(), column * along_n + self.cluster.n())
    }

    /// The slot where this cluster leaves its part of a split tile: clusters and tiles both only go up along the steps, so no two
    /// parts have the same sum of them.
    pub(super) fn slot(&self, piece: Piece) -> Reg<u32> {
        self.number + piece.tile
    }

    /// The slots of all parts of a split tile: the first, and how many. They are in the order of k.
    pub(super) fn parts(&self, piece: Piece) -> (Reg<u32>, Reg<u32>) {
        let all = self.split.map_or(constant(1u32), |split| split.tiles * self.steps);
        let start = piece.tile * self.steps;
        // The last cluster whose first step is at or before that one.
        let owner = |step: Reg<u32>| ((step + 1u32) * self.clusters - 1u32) / all;
        let first = owner(start);
        (first + piece.tile, owner(start + self.steps - 1u32) - first + 1u32)
    }
}

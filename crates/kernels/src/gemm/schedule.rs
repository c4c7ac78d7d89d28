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
use super::tile_table::TileTable;

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
    /// Tiles of each product, where there are several of one shape.
    each: Option<Reg<u32>>,
    /// The tiles of each, where they have different ones.
    table: Option<TileTable>,
    products: Products,
    /// (m, n, k) of the cluster's tile.
    tile: (u32, u32, u32),
    raster: u32,
    cluster: ClusterGrid,
    splits: bool,
    split: Option<Split>,
}

/// The tiles whose steps are dealt out evenly.
#[derive(Clone, Copy, DeviceValue)]
struct Split {
    /// How many: the first ones.
    tiles: Reg<u32>,
    /// To how many clusters.
    sharers: Reg<u32>,
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
        let (along_m, along_n) = cluster.shape();
        let tile = (tile.0 * along_m, tile.1 * along_n, tile.2);
        let (m, n, k) = products.shape();
        let steps = (k + (tile.2 - 1)) / tile.2;
        let (rows, columns) = ((m + (tile.0 - 1)) / tile.0, (n + (tile.1 - 1)) / tile.1);
        let each = rows * columns;
        let tiles = products.count().map_or(each, |count| count * each);
        let (number, clusters) = (block_idx().x / cluster.size(), grid_dim().x / cluster.size());
        let mut schedule = Self {
            count: constant(0u32),
            steps,
            number,
            clusters,
            rows,
            columns,
            each: products.count().map(|_| each),
            table: products.uneven().map(|(most, count)| TileTable::new(most, count)),
            products: *products,
            tile,
            raster,
            cluster,
            splits,
            split: None,
        };
        if schedule.table.is_none() {
            schedule.deal_out(tiles);
        }
        schedule
    }

    /// Counts the tiles of products that have different ones: all threads of the CTA do it, once the extents can be read.
    pub(super) fn count_tiles(&mut self) {
        if let Some(table) = self.table {
            table.fill(|product| {
                let (rows, columns) = self.tiles_of(Some(product));
                rows * columns
            });
            self.deal_out(table.tiles());
        }
    }

    /// Gives each cluster its share of so many tiles.
    fn deal_out(&mut self, tiles: Reg<u32>) {
        let Self { number, clusters, steps, .. } = *self;
        self.count = (tiles + clusters - 1u32 - number) / clusters;
        if self.splits {
            let last_round = tiles % clusters;
            let round_before = tiles.lt(clusters).select(0u32, clusters);
            let split = last_round.eq(0u32).select(0u32, last_round + round_before);
            let all = split * steps;
            // Of products whose tiles only the device counts there may be fewer steps than clusters: then some have none.
            let sharers = self.table.map_or(clusters, |_| clusters.min(all).max(1u32));
            let share = |number: Reg<u32>| {
                let step = number * all / sharers;
                self.table.map_or(step, |_| step.min(all))
            };
            let (begin, end) = (share(number), share(number + 1u32));
            let pieces = (end + steps - 1u32) / steps - begin / steps;
            self.count = pieces + (tiles - split) / clusters;
            self.split = Some(Split { tiles: split, sharers, begin, end, pieces });
        }
    }

    /// Rows and columns of clusters' tiles of a product.
    fn tiles_of(&self, product: Option<Reg<u32>>) -> (Reg<u32>, Reg<u32>) {
        if self.table.is_none() {
            return (self.rows, self.columns);
        }
        let (m, n) = self.products.extents_of(product);
        ((m + (self.tile.0 - 1)) / self.tile.0, (n + (self.tile.1 - 1)) / self.tile.1)
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
        let (product, within) = match (self.table, self.each) {
            (Some(table), _) => {
                let (product, within) = table.find(tile);
                (Some(product), within)
            }
            (None, Some(each)) => (Some(tile / each), tile % each),
            (None, None) => (None, tile),
        };
        let steps = self.products.depth_of(product).map_or(steps, |k| (k + (self.tile.2 - 1)) / self.tile.2);
        Piece { tile, product, within, first, steps }
    }

    /// The row and column of this CTA's tile of the cluster's: `raster` rows are walked column by column.
    pub(super) fn place(&self, piece: Piece) -> (Reg<u32>, Reg<u32>) {
        let (tile, (rows, columns)) = (piece.within, self.tiles_of(piece.product));
        let first = tile / (columns * self.raster) * self.raster;
        let high = (rows - first).min(self.raster);
        let within = tile % (columns * self.raster);
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
        let (all, sharers) = match self.split {
            Some(split) => (split.tiles * self.steps, split.sharers),
            None => (constant(1u32), constant(1u32)),
        };
        let start = piece.tile * self.steps;
        // The last cluster whose first step is at or before that one.
        let owner = |step: Reg<u32>| ((step + 1u32) * sharers - 1u32) / all;
        let first = owner(start);
        (first + piece.tile, owner(start + self.steps - 1u32) - first + 1u32)
    }
}

//! What L2 sends to a GPC: rows of A or B that several of its SMs read at the same time arrive once.
//!
//! On an H200, CTAs without a cluster are launched GPC by GPC, in the order of their indices, and clusters on
//! one GPC after another in turn. (`%smid` of launches with one CTA an SM; SMs of a GPC are those that
//! clusters share.) How many rows a GPC receives depends on the order of the tiles: 2944 x 576 x 6336, 9 x 14
//! tiles of 64x224,
//!
//! ```text
//! rows of tiles in a strip         1      2      3      8, 1   9
//! rows that a GPC receives         3328   2432   1888   2304   1248     4608 without sharing
//! us                               57.2   52.1   45.4   51.6   40.6
//! ```

use super::config::Configuration;

/// GPCs of an H100 or H200.
const GPCS: u32 = 8;

/// The part of a GPC's rows that counts if clusters are dealt out.
const DEALT_OUT: f64 = 0.59;

/// Tiles that run at a time on a GPC, at most.
const MOST: usize = 20;

/// How the tiles of a launch are divided among its clusters.
#[derive(Clone, Copy)]
pub(super) struct Launch {
    /// Tiles of clusters along the rows and the columns of C, or of its transpose.
    pub(super) across: (u32, u32),
    /// All of them, of all problems.
    pub(super) tiles: u32,
    /// Clusters that run at a time.
    pub(super) running: u32,
    /// CTAs of each.
    pub(super) group: u32,
    /// SMs of the GPU.
    pub(super) sms: u32,
}

impl Launch {
    /// Rows of A and B that the busiest GPC receives at a time.
    ///
    /// In what order clusters are dealt out differs between GPUs of a kind: a part of what a fixed order
    /// gives counts, but no less than what the GPCs receive if each row arrives at one of them.
    pub(super) fn received_rows(&self, configuration: Configuration) -> f64 {
        if self.tiles == 0 {
            return 0.0;
        }
        let rows = self.rows_of_busiest(configuration);
        if self.group == 1 {
            return rows;
        }
        let busiest = f64::from(self.sms.div_ceil(GPCS)) / f64::from(self.sms);
        (DEALT_OUT * rows).max(self.distinct_rows(configuration) * busiest)
    }

    /// Rows of A and B that all SMs receive at a time.
    fn distinct_rows(&self, Configuration { tile, cluster, split_k, .. }: Configuration) -> f64 {
        let running = self.running.min(self.tiles);
        let parts = split_k * self.running.div_ceil(self.tiles);
        let rows = running.min(self.across.0);
        let columns = running.div_ceil(self.across.0).min(self.across.1);
        f64::from(parts)
            * (f64::from(rows * cluster.0) * f64::from(tile.0)
                + f64::from(columns * cluster.1) * f64::from(tile.1))
    }

    /// What the busiest GPC receives, in the mean of the first wave and one in the middle.
    fn rows_of_busiest(&self, configuration: Configuration) -> f64 {
        let waves = self.tiles.div_ceil(self.running);
        let considered = if waves > 2 { &[0, waves / 2][..] } else { &[0] };
        let of_gpc = |gpc| considered.iter().map(|&wave| self.rows_of(configuration, gpc, wave)).sum::<u32>();
        let busiest = (0..GPCS).map(of_gpc).max().unwrap_or_default();
        f64::from(busiest) / considered.len() as f64
    }

    /// Rows that a GPC receives in a wave.
    fn rows_of(
        &self,
        Configuration { tile, cluster, raster, split_k, .. }: Configuration,
        gpc: u32,
        wave: u32,
    ) -> u32 {
        let (mut rows, mut columns) = (Distinct::default(), Distinct::default());
        let strip = self.strip(raster);
        for cluster in self.clusters_of(gpc) {
            if let Some((tile, part)) = self.tile_of(cluster, wave) {
                let (row, column) = self.place(tile, strip);
                rows.insert((row, part));
                columns.insert((column, part));
            }
        }
        split_k * (rows.count as u32 * tile.0 * cluster.0 + columns.count as u32 * tile.1 * cluster.1)
    }

    /// The clusters of a GPC.
    fn clusters_of(&self, gpc: u32) -> impl Iterator<Item = u32> {
        let (first, end, step) = match self.group {
            1 => (gpc * self.sms / GPCS, (gpc + 1) * self.sms / GPCS, 1),
            _ => (gpc, u32::MAX, GPCS),
        };
        (first..end.min(self.running)).step_by(step as usize).take(MOST)
    }

    /// The tile of a cluster in a wave, and which part of its k: see `device/scheduler.rs`.
    fn tile_of(&self, cluster: u32, wave: u32) -> Option<(u32, u32)> {
        if self.tiles >= self.running {
            return Some((wave * self.running + cluster, 0)).filter(|(tile, _)| *tile < self.tiles);
        }
        match self.running.is_multiple_of(self.tiles) {
            true => Some((cluster % self.tiles, cluster / self.tiles)),
            // Unequal parts of neighbors have no k in common.
            false => {
                Some(((u64::from(cluster) * u64::from(self.tiles) / u64::from(self.running)) as u32, cluster))
            }
        }
    }

    /// Rows of tiles in a strip, as `TileScheduler::origin` cuts them.
    fn strip(&self, raster: u32) -> u64 {
        let (rows, raster) = (u64::from(self.across.0), u64::from(raster));
        let strips = ((rows + (raster - 1 - raster / 4)) / raster).max(1);
        rows.div_ceil(strips)
    }

    /// The row and the column of a tile among those of all problems: strips of rows, column by column.
    fn place(&self, tile: u32, strip: u64) -> (u64, u64) {
        let tile = u64::from(tile);
        let (rows, columns) = (u64::from(self.across.0), u64::from(self.across.1));
        let (problem, within) = (tile / (rows * columns), tile % (rows * columns));
        let first = within / (columns * strip) * strip;
        let within = within % (columns * strip);
        let high = (rows - first).min(strip);
        (problem * rows + first + within % high, problem * columns + within / high)
    }
}

/// A small set.
#[derive(Default)]
struct Distinct {
    elements: [(u64, u32); MOST],
    count: usize,
}

impl Distinct {
    /// Adds an element once.
    fn insert(&mut self, element: (u64, u32)) {
        if !self.elements[..self.count].contains(&element) {
            self.elements[self.count] = element;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::host::candidates::COMMON;

    const TALL: Configuration = Configuration { tile: (64, 224), ..COMMON };

    const LAUNCH: Launch = Launch { across: (9, 14), tiles: 126, running: 126, group: 1, sms: 132 };

    /// 16 CTAs of a GPC have all 9 rows of tiles, and 2 or 3 columns.
    #[test]
    fn neighbors_share_rows_and_columns() {
        assert_eq!(LAUNCH.received_rows(TALL), f64::from(9 * 64 + 3 * 224));
        // 17 tiles in rows of 14 are in up to three rows.
        assert_eq!(LAUNCH.received_rows(Configuration { raster: 1, ..TALL }), f64::from(3 * 64 + 14 * 224));
    }

    /// A GPC has every eighth cluster.
    #[test]
    fn clusters_are_dealt_out() {
        let clusters = Launch { across: (8, 8), tiles: 64, running: 64, group: 2, ..LAUNCH };
        let configuration = Configuration { cluster: (2, 1), ..TALL };
        assert_eq!(clusters.rows_of_busiest(configuration), f64::from(128 + 8 * 224));
        // Of 64 tiles of a column each, a GPC with 17 of 132 SMs has as large a part.
        let column = Launch { across: (64, 1), ..clusters };
        let part = f64::from(64 * 128 + 224) * 17.0 / 132.0;
        assert!((column.received_rows(configuration) - part).abs() < 1e-6);
    }

    /// CTAs of one part of k share, those of different parts do not.
    #[test]
    fn parts_are_apart() {
        let split = Launch { across: (8, 4), tiles: 32, running: 128, ..LAUNCH };
        // 16 or 17 tiles of one part: two columns, or three; at the border of two parts 8 rows of each.
        let rows = split.received_rows(TALL);
        assert!((f64::from(8 * 64 + 2 * 224)..f64::from(16 * 64 + 3 * 224)).contains(&rows), "{rows}");
        let unequal = Launch { running: 130, ..split };
        let apart = unequal.received_rows(TALL);
        assert_eq!(apart, f64::from(17 * (64 + 224)));
    }
}

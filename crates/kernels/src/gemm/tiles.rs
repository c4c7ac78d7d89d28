//! Which tiles of C a persistent CTA computes, and in what order.

use warpwright::prelude::*;

/// The tiles that a CTA computes: its cluster's, every so many.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Tiles {
    pub(super) first: Reg<u32>,
    pub(super) count: Reg<u32>,
    pub(super) step: Reg<u32>,
    /// Rows and columns of clusters' tiles.
    rows: Reg<u32>,
    columns: Reg<u32>,
    cluster: ClusterGrid,
    raster: u32,
}

#[device]
impl Tiles {
    /// The tiles of C (m, n) for clusters that are walked in strips of `raster` rows.
    pub(super) fn new(
        cluster: ClusterGrid,
        tile: (u32, u32),
        raster: u32,
        (m, n): (Reg<u32>, Reg<u32>),
    ) -> Self {
        let (along_m, along_n) = cluster.shape();
        let (high, wide) = (tile.0 * along_m, tile.1 * along_n);
        let (rows, columns) = ((m + (high - 1)) / high, (n + (wide - 1)) / wide);
        Self {
            first: block_idx().x / cluster.size(),
            count: rows * columns,
            step: grid_dim().x / cluster.size(),
            rows,
            columns,
            cluster,
            raster,
        }
    }

    /// The row and column of this CTA's tile of the clusters' `index`: `raster` rows are walked column by column.
    pub(super) fn place(&self, index: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let first = index / (self.columns * self.raster) * self.raster;
        let high = (self.rows - first).min(self.raster);
        let within = index % (self.columns * self.raster);
        let (row, column) = (first + within % high, within / high);
        let (along_m, along_n) = self.cluster.shape();
        (row * along_m + self.cluster.m(), column * along_n + self.cluster.n())
    }
}

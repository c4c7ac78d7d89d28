//! What is computed: C = alpha · A·B + beta · C, and the part of it that a CTA computes.

use warpwright::prelude::*;
use warpwright::runtime::Buffer;

use crate::vector::{element, load_lanes, store_lanes};

/// alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The factor of A·B.
    pub alpha: f32,
    /// The factor of C; where it is 0, C is not read.
    pub beta: f32,
}

impl Default for Scale {
    /// C = A·B.
    fn default() -> Self {
        Self { alpha: 1.0, beta: 0.0 }
    }
}

/// What is multiplied, and where the product goes: A (m, k), B (k, n) and C (m, n), row-major.
pub struct Matrices<'a> {
    /// m, n and k.
    pub extents: (u32, u32, u32),
    /// A.
    pub a: &'a Buffer<f32>,
    /// B.
    pub b: &'a Buffer<f32>,
    /// C.
    pub c: &'a mut Buffer<f32>,
}

/// C = alpha · A·B + beta · C; A is (m, k), B is (k, n), C is (m, n), all row-major without gaps.
///
/// Where beta is 0, C is not read: what it held, NaN included, does not matter.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub struct Product {
    /// Rows of A and C.
    pub m: Reg<u32>,
    /// Columns of B and C.
    pub n: Reg<u32>,
    /// Columns of A and rows of B.
    pub k: Reg<u32>,
    /// The factor of A·B.
    pub alpha: Reg<f32>,
    /// The factor of C.
    pub beta: Reg<f32>,
}

impl Product {
    /// Stores one element of C.
    #[device]
    pub fn store(self, c: Global<f32>, row: Reg<u32>, column: Reg<u32>, sum: Reg<f32>) {
        self.store_vector(c, row, column, &[sum]);
    }

    /// Stores neighboring elements of a row of C: 1, 2 or 4, of which n is a multiple.
    #[device]
    pub fn store_vector(self, c: Global<f32>, row: Reg<u32>, column: Reg<u32>, accumulators: &[Reg<f32>]) {
        if row < self.m && column < self.n {
            let place = element(c, self.n, row, column);
            let mut results: Vec<Reg<f32>> = accumulators.iter().map(|sum| self.alpha * *sum).collect();
            if self.beta != 0.0 {
                let before = load_lanes(place, accumulators.len() as u32, Access::new());
                results = (0..accumulators.len())
                    .map(|index| self.beta.mul_add(before[index], results[index]))
                    .collect::<Vec<_>>();
            }
            store_lanes(place, &results, Access::new());
        }
    }

    /// Stores a thread's rows of accumulators, in vectors of `width`. `row_at` and `column_at` are
    /// the offsets of a row and a column of the accumulators from `row` and `column`.
    #[track_caller]
    pub fn store_accumulators(
        self,
        c: Global<f32>,
        (row, column): (Reg<u32>, Reg<u32>),
        accumulators: &[Vec<Reg<f32>>],
        (row_at, column_at): (impl Fn(u32) -> u32, impl Fn(u32) -> u32),
        width: u32,
    ) {
        for (index, accumulators) in accumulators.iter().enumerate() {
            let row = row + row_at(index as u32);
            for (group, accumulators) in accumulators.chunks(width as usize).enumerate() {
                self.store_vector(c, row, column + column_at(group as u32 * width), accumulators);
            }
        }
    }

    /// The tile (row, column) of CTA `block`, of a grid with one for each: `raster` rows of tiles
    /// are rasterized column by column, so that what neighbors in time share stays in L2.
    #[track_caller]
    pub fn tile_of_block(
        self,
        block: Reg<u32>,
        (rows, columns): (u32, u32),
        raster: u32,
    ) -> (Reg<u32>, Reg<u32>) {
        let down = (self.m + (rows - 1)) / rows;
        let across = (self.n + (columns - 1)) / columns;
        let first = block / (across * raster) * raster;
        let high = (down - first).min(raster);
        let within = block % (across * raster);
        (first + within % high, within / high)
    }

    /// The share of this CTA, of a grid with one for each tile and each `part` k-blocks.
    #[track_caller]
    pub fn share_of_block(
        self,
        (rows, columns, depth): (u32, u32, u32),
        raster: u32,
        part: Reg<u32>,
    ) -> Share {
        let tiles = (self.m + (rows - 1)) / rows * ((self.n + (columns - 1)) / columns);
        let k_blocks = (self.k + (depth - 1)) / depth;
        let block = block_idx().x;
        let split = block / tiles;
        let first = split * part;
        let tile = self.tile_of_block(block - split * tiles, (rows, columns), raster);
        Share { tile, split, first, end: k_blocks.min(first + part) }
    }
}

/// What a CTA does where k is split.
#[derive(Clone, Copy, DeviceValue)]
pub struct Share {
    /// Its tile of C: row and column in tiles.
    pub tile: (Reg<u32>, Reg<u32>),
    split: Reg<u32>,
    /// The first k-block.
    pub first: Reg<u32>,
    /// The k-block after the last.
    pub end: Reg<u32>,
}

impl Share {
    /// Its output: each split has an (m, n) matrix of its own, one behind the other.
    #[track_caller]
    pub fn output(self, c: Global<f32>, product: Product) -> Global<f32> {
        c.at(self.split.convert::<u64>() * (product.m.convert::<u64>() * product.n.convert::<u64>()))
    }
}

//! The transpose by 16-byte accesses to global and shared memory.
//!
//! A vector of 16 bytes has L elements. A thread takes a block of L x L elements, as L vectors
//! along the rows of A. In registers the block becomes L vectors along the rows of B, and shared
//! memory transposes the blocks:
//!
//! ```text
//! A, a tile of S x S blocks      one block (f32: L = 4)            B, the tile's transpose
//! +----+----+----+               a0 a1 a2 a3      a0 b0 c0 d0      +----+----+----+
//! | 00 | 01 | 02 |               b0 b1 b2 b3  ->  a1 b1 c1 d1      | 00 | 10 | 20 |
//! +----+----+----+  registers    c0 c1 c2 c3      a2 b2 c2 d2      +----+----+----+
//! | 10 | 11 | 12 |      ->       d0 d1 d2 d3      a3 b3 c3 d3  ->  | 01 | 11 | 21 |
//! ```
//!
//! Shared memory holds the tile of B, S vectors per row; row r has vector v at v ^ (r / L). The
//! eight threads of a phase of a 16-byte access write to eight blocks of a column, and later read
//! along a row: both are free of bank conflicts. Elements narrower than 32 bits are exchanged
//! within words by `prmt`.

use warpwright::arch::limits::{THREADS_PER_CTA, WARP_SIZE};
use warpwright::prelude::*;

use crate::operations::{OperationError, Result};
use crate::vector::{self, load_lanes, read_once, store_lanes};

/// Words of a vector.
const WORDS: u32 = vector::WIDEST_BYTES / 4;

/// B = Aᵀ; A is (m, n), B is (n, m), both row-major; m and n are multiples of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockTranspose {
    /// Blocks along a side of the tile: a power of two from 8 on.
    pub side: u32,
    /// Blocks of one thread.
    pub blocks: u32,
    /// Rows of tiles that are rasterized together, so that concurrent stores are close to each
    /// other.
    pub raster: u32,
}

impl BlockTranspose {
    /// The fastest on the H200 where rows begin at lines of 128 bytes.
    pub const FASTEST: Self = Self { side: 16, blocks: 2, raster: 1 };

    /// The fastest for an (m, n) matrix. Where rows do not begin at lines of 128 bytes, tiles share lines:
    /// larger ones share fewer, and the tiles of a row of B follow one another. (H200, 10,000 x 30,000
    /// f32: 600 us, 638 with a raster of 16, and 664 with [`FASTEST`](Self::FASTEST).)
    pub fn fastest<T: Element>(m: u32, n: u32) -> Self {
        let has_lines = |columns: u32| (u64::from(columns) * u64::from(T::BYTES)).is_multiple_of(128);
        let (side, blocks) = (32, 4);
        let tile = side * vector::width::<T>();
        let raster = m.div_ceil(tile);
        // Of narrower elements, such a tile takes more shared memory than every GPU has.
        let fits = T::BYTES >= 4 && raster.checked_mul(n.div_ceil(tile)).is_some();
        if (has_lines(m) && has_lines(n)) || !fits {
            return Self::FASTEST;
        }
        Self { side, blocks, raster }
    }

    /// Whether it transposes an (m, n) matrix.
    pub fn fits<T: Element>(m: u32, n: u32) -> bool {
        let lanes = vector::width::<T>();
        m.is_multiple_of(lanes) && n.is_multiple_of(lanes)
    }

    /// Refuses what it cannot do.
    pub(super) fn check<T: Element>(&self, m: u32, n: u32) -> Result<()> {
        let refuse = |reason| Err(OperationError::Shape { what: "transpose in blocks", reason });
        if !Self::fits::<T>(m, n) {
            let lanes = vector::width::<T>();
            return refuse(format!(
                "{m} and {n} are not both multiples of {lanes}, the elements of a 16-byte vector of {}; the method tile takes any shape",
                T::NAME
            ));
        }
        if !(self.side.is_power_of_two() && (8..=64).contains(&self.side)) {
            return refuse(format!("a tile has 8, 16, 32 or 64 blocks a side, not {}", self.side));
        }
        if self.blocks == 0
            || !self.side.is_multiple_of(self.blocks)
            || !(WARP_SIZE..=THREADS_PER_CTA).contains(&self.threads())
        {
            let blocks = self.side * self.side;
            return refuse(format!(
                "{} blocks a thread do not divide {blocks} among {WARP_SIZE} to {THREADS_PER_CTA} threads",
                self.blocks
            ));
        }
        let columns = n.div_ceil(self.side * vector::width::<T>());
        if self.raster == 0 || self.raster.checked_mul(columns).is_none() {
            return refuse(format!("a raster of {} rows is not possible; use 1 to 64", self.raster));
        }
        Ok(())
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.side * self.side / self.blocks
    }

    /// CTAs for an (m, n) matrix.
    pub fn grid<T: Element>(&self, m: u32, n: u32) -> u64 {
        let tile = self.side * vector::width::<T>();
        u64::from(m.div_ceil(tile)) * u64::from(n.div_ceil(tile))
    }

    /// One CTA a tile.
    #[kernel]
    pub fn run<T: Element>(&self, a: &Global<T>, b: &mut Global<T>, m: u32, n: u32) {
        launch::threads(self.threads());
        let (a, b) = (a.cast::<u32>(), b.cast::<u32>());
        // From here on everything along a row is counted in vectors.
        let (side, lanes) = (self.side, vector::width::<T>());
        let (a_vectors, b_vectors) = (n / lanes, m / lanes);
        let (tile_row, tile_column) = self.tile_of_block(b_vectors, a_vectors);
        let tile = dynamic_shared::<u32>(side * side * lanes * WORDS);
        let place = |row: Reg<u32>, vector: Reg<u32>| {
            tile.at((row * side + (vector ^ ((row / lanes) % side))) * WORDS)
        };

        // All loads, then the exchanges.
        let (down, across) = (thread_idx().x / side, thread_idx().x % side);
        let rows_at_once = side / self.blocks;
        let mut blocks: Vec<Vec<Vec<Reg<u32>>>> = Vec::new();
        for block in 0..self.blocks {
            let (down, across) = (tile_row + down + block * rows_at_once, tile_column + across);
            let mut vectors = vec![vec![constant(0u32).duplicate(); WORDS as usize]; lanes as usize];
            if down < b_vectors && across < a_vectors {
                let from = vector_at(a, down * lanes, a_vectors, across);
                let pitch = a_vectors.convert::<u64>() * u64::from(WORDS);
                vectors = (0..lanes)
                    .map(|row| load_lanes(from.at(pitch * u64::from(row)), WORDS, read_once()))
                    .collect::<Vec<_>>();
            }
            blocks.push(vectors);
        }
        for (block, vectors) in blocks.iter().enumerate() {
            let down = down + block as u32 * rows_at_once;
            for (row, vector) in transposed(vectors).into_iter().enumerate() {
                store_lanes(place(across * lanes + row as u32, down), &vector, Access::new());
            }
        }
        sync_threads();

        let rows_at_once = self.threads() / side;
        for first in (0..side * lanes).step_by(rows_at_once as usize) {
            let (row, vector) = (thread_idx().x / side + first, thread_idx().x % side);
            let (b_row, b_vector) = (tile_column * lanes + row, tile_row + vector);
            if b_row < n && b_vector < b_vectors {
                let words = load_lanes(place(row, vector), WORDS, Access::new());
                store_lanes(vector_at(b, b_row, b_vectors, b_vector), &words, Access::new());
            }
        }
    }

    /// The first block of this CTA's tile, down and across. Rasterization goes column by column
    /// through `raster` rows of tiles.
    #[device]
    fn tile_of_block(&self, down: Reg<u32>, across: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let rows = (down + (self.side - 1)) / self.side;
        let columns = (across + (self.side - 1)) / self.side;
        let first = block_idx().x / (columns * self.raster) * self.raster;
        let high = (rows - first).min(self.raster);
        let within = block_idx().x % (columns * self.raster);
        ((first + within % high) * self.side, within / high * self.side)
    }
}

/// A vector of a row-major matrix with `vectors` of them in a row.
#[track_caller]
fn vector_at(matrix: Global<u32>, row: Reg<u32>, vectors: Reg<u32>, vector: Reg<u32>) -> Global<u32> {
    matrix.at((row.convert::<u64>() * vectors.convert::<u64>() + vector.convert::<u64>()) * u64::from(WORDS))
}

/// A block given as vectors along its rows, as vectors along its columns.
///
/// Words of 4 or 8 bytes only change places. Of narrower elements, the words that hold the same
/// columns of two or four neighboring rows become the words that hold two or four columns of these
/// rows.
fn transposed(rows: &[Vec<Reg<u32>>]) -> Vec<Vec<Reg<u32>>> {
    let lanes = rows.len();
    match lanes {
        // 64-bit elements: two words each.
        2 => {
            (0..2).map(|column| (0..4).map(|word| rows[word / 2][2 * column + word % 2]).collect()).collect()
        }
        4 => (0..4).map(|column| rows.iter().map(|row| row[column]).collect()).collect(),
        8 => {
            let halves = |column: usize, pair: usize| {
                let selector = if column.is_multiple_of(2) { 0x5410 } else { 0x7632 };
                rows[2 * pair][column / 2].prmt(rows[2 * pair + 1][column / 2], selector)
            };
            (0..8).map(|column| (0..4).map(|pair| halves(column, pair)).collect()).collect()
        }
        _ => {
            let mut columns = vec![Vec::new(); lanes];
            for four in rows.chunks(4) {
                for word in 0..WORDS as usize {
                    let pairs = |selector: u32| {
                        (
                            four[0][word].prmt(four[1][word], selector),
                            four[2][word].prmt(four[3][word], selector),
                        )
                    };
                    // The first two columns of each row, then the last two, each with its neighbor
                    // row's.
                    for (half, selector) in [0x5140, 0x7362].into_iter().enumerate() {
                        let (upper, lower) = pairs(selector);
                        columns[4 * word + 2 * half].push(upper.prmt(lower, 0x5410));
                        columns[4 * word + 2 * half + 1].push(upper.prmt(lower, 0x7632));
                    }
                }
            }
            columns
        }
    }
}

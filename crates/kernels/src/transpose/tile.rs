//! The transpose of any shape, an element a thread and step, through a swizzled tile.
//!
//! A warp writes a row of the tile and later reads a column. Element (r, c) is in bank c ^ r, so
//! that both are free of conflicts:
//!
//! ```text
//! A, a tile of 32 x 32        shared memory               B, the tile's transpose
//! warp: row 0      ->         c ^ r          ->           warp: row 0 (column 0 of A)
//! ```

use warpwright::prelude::*;

use crate::vector::element;

/// B = Aᵀ; A is (m, n), B is (n, m), both row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileTranspose;

/// The tile's side: a warp is a row of it.
pub const SIDE: u32 = 32;
/// Rows that a CTA copies at a time: each thread copies `SIDE / ROWS` elements.
pub const ROWS: u32 = 8;
/// Threads of a CTA, in x and y.
pub const BLOCK: [u32; 3] = [SIDE, ROWS, 1];

/// CTAs for an (m, n) matrix.
pub fn grid(m: u32, n: u32) -> u64 {
    u64::from(m.div_ceil(SIDE)) * u64::from(n.div_ceil(SIDE))
}

impl TileTranspose {
    /// One CTA a tile.
    #[kernel]
    pub fn run<T: Element>(&self, a: &Global<T>, b: &mut Global<T>, m: u32, n: u32) {
        launch::required_block(SIDE, ROWS, 1);
        let tile = || {
            let memory = shared_array::<T>(SIDE * SIDE);
            Tensor::swizzled(memory, Layout::new((SIDE, SIDE), (SIDE, 1)), Swizzle::new(5, 0, 5))
        };
        transpose_tile(tile, (*a, *b), (m, n));
    }
}

/// Transposes this CTA's tile of an (m, n) matrix through `tile()`, (32, 32) in shared memory.
#[device]
pub fn transpose_tile<T: Element>(
    tile: impl Fn() -> Tensor<T, SharedSpace>,
    (a, b): (Global<T>, Global<T>),
    (m, n): (Reg<u32>, Reg<u32>),
) {
    let (x, y) = (thread_idx().x, thread_idx().y);
    // There are columns, and `n + SIDE - 1` may not fit 32 bits.
    let across = (n - 1) / SIDE + 1;
    let (tile_row, tile_column) = (block_idx().x / across * SIDE, block_idx().x % across * SIDE);
    let tile = tile();
    for step in (0..SIDE).step_by(ROWS as usize) {
        let (row, column) = (tile_row + y + step, tile_column + x);
        if row < m && column < n {
            tile.set((y + step, x), element(a, n, row, column).load());
        }
    }
    sync_threads();
    for step in (0..SIDE).step_by(ROWS as usize) {
        let (row, column) = (tile_column + y + step, tile_row + x);
        if row < n && column < m {
            element(b, m, row, column).store(tile.get((x, y + step)));
        }
    }
}

//! The ladder up to a tile without bank conflicts: one element per thread and step.
//!
//! A warp writes a row of the tile and later reads a column. In a plain 32 x 32 tile of 32-bit
//! elements a column is in one bank: 32-way conflicts. Two remedies:
//!
//! ```text
//! padded    row stride 33: element (r, c) is in bank (33r + c) % 32 = (r + c) % 32
//! swizzled  element (r, c) is in bank c ^ r: no memory is lost, and the tile stays a power of two
//! ```
//!
//! The swizzled tile is the library's:
//! [`TileTranspose`](warpwright_kernels::transpose::TileTranspose).

use warpwright::prelude::*;
use warpwright_kernels::transpose::tile::{ROWS, SIDE, transpose_tile};
use warpwright_kernels::vector::element;

/// How elements get from rows to columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Directly: a warp reads along a row and writes down a column, each element to a different
    /// sector.
    Naive,
    /// Through a tile in shared memory.
    Shared,
    /// Through a tile with one extra column.
    Padded,
}

/// B = Aᵀ; A is (m, n), B is (n, m), both row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileLesson {
    /// How elements get from rows to columns.
    pub step: Step,
}

impl TileLesson {
    /// One CTA per tile.
    #[kernel]
    pub fn run<T: Element>(&self, a: &Global<T>, b: &mut Global<T>, m: u32, n: u32) {
        launch::required_block(SIDE, ROWS, 1);
        let (a, b) = (*a, *b);
        if self.step == Step::Naive {
            // ANCHOR: naive
            let (x, y) = (thread_idx().x, thread_idx().y);
            let across = (n - 1) / SIDE + 1;
            let (tile_row, tile_column) = (block_idx().x / across * SIDE, block_idx().x % across * SIDE);
            for step in (0..SIDE).step_by(ROWS as usize) {
                let (row, column) = (tile_row + y + step, tile_column + x);
                if row < m && column < n {
                    element(b, m, column, row).store(element(a, n, row, column).load());
                }
            }
            // ANCHOR_END: naive
        } else {
            let tile = || {
                let pitch = if self.step == Step::Padded { SIDE + 1 } else { SIDE };
                let memory = shared_array::<T>(SIDE * pitch);
                Tensor::with_layout(memory, Layout::new((SIDE, SIDE), (pitch, 1)))
            };
            transpose_tile(tile, (a, b), (m, n));
        }
    }
}

//! The ladder up to a tile without bank conflicts, an element a thread and step.
//!
//! A warp writes a row of the tile and later reads a column. In a plain 32 x 32 tile of 32-bit elements a column lies in one
//! bank: 32 conflicts. Two cures:
//!
//! ```text
//! padded    row stride 33: element (r, c) is in bank (33r + c) % 32 = (r + c) % 32
//! swizzled  element (r, c) is in bank c ^ r: no memory is lost, and the tile stays a power of two
//! ```

use warpwright::prelude::*;

/// How elements get from rows to columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Straight: a warp reads along a row and writes down a column, each element to a sector of its own.
    Naive,
    /// Through a tile in shared memory.
    Shared,
    /// Through a tile with a column more.
    Padded,
    /// Through a tile whose banks are exchanged by row.
    Swizzled,
}

/// B = Aᵀ; A is (m, n), B is (n, m), both row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileTranspose {
    /// How elements get from rows to columns.
    pub way: Way,
}

/// The tile's side: a warp is a row of it.
const SIDE: u32 = 32;
/// Rows that a CTA copies at a time: each thread copies `SIDE / ROWS` elements.
const ROWS: u32 = 8;
/// Threads of a CTA, in x and y.
pub(super) const BLOCK: [u32; 3] = [SIDE, ROWS, 1];

/// CTAs for an (m, n) matrix.
pub(super) fn grid(m: u32, n: u32) -> u64 {
    u64::from(m.div_ceil(SIDE)) * u64::from(n.div_ceil(SIDE))
}

/// The element (row, column) of a row-major matrix with that many columns.
#[track_caller]
fn at<T: Element>(matrix: Global<T>, row: Reg<u32>, columns: Reg<u32>, column: Reg<u32>) -> Global<T> {
    matrix.at(row.convert::<u64>() * columns.convert::<u64>() + column.convert::<u64>())
}

impl TileTranspose {
    /// One CTA a tile.
    #[kernel]
    pub fn run<T: Element>(&self, a: &Global<T>, b: &mut Global<T>, m: u32, n: u32) {
        launch::required_block(SIDE, ROWS, 1);
        let (a, b) = (*a, *b);
        let (x, y) = (thread_idx().x, thread_idx().y);
        // There are columns, and `n + SIDE - 1` may not fit 32 bits.
        let across = (n - 1) / SIDE + 1;
        let (tile_row, tile_column) = (block_idx().x / across * SIDE, block_idx().x % across * SIDE);

        if self.way == Way::Naive {
            for step in (0..SIDE).step_by(ROWS as usize) {
                let (row, column) = (tile_row + y + step, tile_column + x);
                if row < m && column < n {
                    at(b, column, m, row).store(at(a, row, n, column).load());
                }
            }
        } else {
            let tile = self.tile::<T>();
            for step in (0..SIDE).step_by(ROWS as usize) {
                let (row, column) = (tile_row + y + step, tile_column + x);
                if row < m && column < n {
                    tile.set((y + step, x), at(a, row, n, column).load());
                }
            }
            sync_threads();
            for step in (0..SIDE).step_by(ROWS as usize) {
                let (row, column) = (tile_column + y + step, tile_row + x);
                if row < n && column < m {
                    at(b, row, m, column).store(tile.get((x, y + step)));
                }
            }
        }
    }

    /// The tile (row, column) in shared memory.
    fn tile<T: Element>(&self) -> Tensor<T, SharedSpace> {
        let pitch = if self.way == Way::Padded { SIDE + 1 } else { SIDE };
        let memory = shared_array::<T>((SIDE * pitch) as usize);
        let layout = Layout::new((SIDE, SIDE), (pitch, 1));
        match self.way {
            Way::Swizzled => Tensor::swizzled(memory, layout, Swizzle::new(5, 0, 5)),
            _ => Tensor::with_layout(memory, layout),
        }
    }
}

//! Lesson 1: copy a tile in and out. It introduces the tensor memory accelerator (TMA).
//!
//! ```text
//! source (m, k)                    shared memory                     target (m, k)
//! +----+----+----+                 64 rows of 128 bytes              +----+----+----+
//! |    |tile|    |  -- tma::load ->  row r keeps its 16-byte  -- tma::store -> |tile|    |
//! +----+----+----+                   chunk c at c ^ (r % 8)          +----+----+----+
//! ```
//!
//! One thread of a CTA does all of the work. The *tensor map*, encoded on the host, holds the
//! address, extents and strides of the matrix and the extents and swizzle of the box. The
//! instruction adds the coordinates of the box, the address in shared memory, and the *mbarrier*
//! that counts the bytes as they arrive. Elements outside the matrix are loaded as zeros and are
//! not stored, so the kernel checks no bounds. TMA has one requirement: row strides must be
//! multiples of 16 bytes.
//!
//! Measured (NVIDIA H200, `--m 16384 --n 512 --k 8192 --output bf16`): `tile-copy` 3.94 TB/s.

use warpwright::prelude::*;

use super::{DEPTH, SharedTiles, tile};

/// Rows of a tile.
pub const ROWS: u32 = 64;

/// Threads per CTA: one warp, the minimum that the hardware schedules.
pub const THREADS: u32 = 32;

/// Copies a matrix of bf16, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct TileCopy;

impl TileCopy {
    /// `target` = `source`. Both are (m, k), row-major. The grid has one CTA per tile, row by row.
    #[kernel]
    pub fn run(&self, source: &TensorMap, target: &mut TensorMap, k: u32) {
        launch::threads(THREADS);
        // A launch refuses tensor maps of other boxes.
        source.boxes(tile(ROWS));
        target.boxes(tile(ROWS));
        let tile = SharedTiles::new(ROWS, 1);
        let full = Mbarrier::new();
        let columns = (k + (DEPTH - 1)) / DEPTH;
        let (row, column) = (block_idx().x / columns * ROWS, block_idx().x % columns * DEPTH);
        if thread_idx().x == 0 {
            // One thread arrives in each phase; the bytes arrive by TMA.
            full.init(1);
            fence_mbarrier_init();
            full.arrive_and_expect(tile.bytes());
            tma::load(*source, [column, row], tile.at(0), full);
            // The first phase has parity 0.
            full.wait_parity(0);
            tma::store(*target, [column, row], tile.at(0));
            // Stores complete in groups. The thread stays resident until the last store has
            // completed.
            bulk_commit();
            bulk_wait(0);
        }
    }
}

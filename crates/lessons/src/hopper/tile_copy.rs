//! Lesson 1: one tile in, the same tile out. What the tensor memory accelerator (TMA) is, before
//! anything is computed.
//!
//! ```text
//! source (m, k)                    shared memory                     target (m, k)
//! +----+----+----+                 64 rows of 128 bytes              +----+----+----+
//! |    |tile|    |  -- tma::load ->  row r keeps its 16-byte  -- tma::store -> |tile|    |
//! +----+----+----+                   chunk c at c ^ (r % 8)          +----+----+----+
//! ```
//!
//! One thread of a CTA does all of it. The *tensor map* that the host encoded holds the matrix's
//! address, extents and strides and the box's extents and swizzle; the instruction adds the box's
//! coordinates, the place in shared memory, and the *mbarrier* that counts the bytes as they
//! arrive. What of a box lies outside the matrix is filled with zeros on its way in, and left out
//! on its way back: no bounds are checked here. TMA's one demand: rows begin at multiples of 16
//! bytes.
//!
//! Measured (NVIDIA H200, `--m 16384 --n 512 --k 8192 --output bf16`): `tile-copy` 3.94 TB/s.

use warpwright::prelude::*;

use super::{DEPTH, SharedTiles};

/// Rows of a tile.
pub const ROWS: u32 = 64;

/// Threads of a CTA: the smallest that the hardware schedules, one warp.
pub const THREADS: u32 = 32;

/// Copies a matrix of bf16, a tile a CTA.
#[derive(Clone, Copy, Debug)]
pub struct TileCopy;

impl TileCopy {
    /// `target` = `source`; both are (m, k) and row-major, and the grid has a CTA for each tile,
    /// row by row.
    #[kernel]
    pub fn run(&self, source: &TensorMap, target: &TensorMap, k: u32) {
        launch::threads(THREADS);
        let tile = SharedTiles::new(ROWS, 1);
        let full = Mbarrier::new();
        let columns = (k + (DEPTH - 1)) / DEPTH;
        let (row, column) = (block_idx().x / columns * ROWS, block_idx().x % columns * DEPTH);
        if thread_idx().x == 0 {
            // One thread arrives in each phase; TMA brings the bytes.
            full.init(1);
            fence_mbarrier_init();
            full.arrive_and_expect(tile.bytes());
            tma::load(*source, [column, row], tile.at(0), full);
            // The first phase has parity 0.
            full.wait_parity(0);
            tma::store(*target, [column, row], tile.at(0));
            // Stores complete in groups. The thread stays until the last has been read and written.
            bulk_commit();
            bulk_wait(0);
        }
    }
}

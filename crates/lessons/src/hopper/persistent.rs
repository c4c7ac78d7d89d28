//! Lesson 6: one CTA an SM that computes tile after tile, and the order in which it does.
//!
//! ```text
//! 132 tiles at once, row by row             in groups of 8 rows, column by column
//!     0   1   2   3 ..  31                      0   8  16 ..  128
//!    32  33  34  35 ..  63                      1   9  17
//!    64  65  ..                                 ..
//!   128 ..                                      7  15  23 ..
//! reads 5 rows' tiles of A, all 32 of B     reads 8 rows' tiles of A, 17 of B: less, so more of it is found in L2
//! ```
//!
//! A CTA of its own for each tile begins with barriers and ends with stores, and meanwhile its SM
//! multiplies nothing. A CTA that stays lets its producer fill slots for the next tile while the
//! consumers store this one. Which tiles are computed at the same time decides how much of A and B
//! is found in L2, and how much is read from memory again.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `persistent-by-rows` 557
//! TFLOP/s, 77.9 % of cublas; `persistent` 571 TFLOP/s, 78.4 % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::one_tile::store_elements;
use super::two_consumers::{REGISTERS, STAGES, WARPGROUPS};
use super::{DEPTH, SharedTiles, wgmma};
use warpwright_kernels::gemm::GemmOutput;

pub use super::two_consumers::{THREADS, TILE};

/// C = A·Bᵀ, a CTA an SM.
#[derive(Clone, Copy, Debug)]
pub struct Persistent<C> {
    /// Rows of tiles that are walked together; 1 walks row by row.
    pub group: u32,
    /// What C is stored as.
    pub output: PhantomData<C>,
}

/// The order of the tiles of C.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Walk {
    rows: Reg<u32>,
    columns: Reg<u32>,
    group: u32,
}

#[device]
impl Walk {
    /// Of C (m, n) in tiles of `tile`, `group` rows of them walked together.
    pub(super) fn new((m, n): (Reg<u32>, Reg<u32>), (high, wide): (u32, u32), group: u32) -> Self {
        Self { rows: (m + (high - 1)) / high, columns: (n + (wide - 1)) / wide, group }
    }

    /// How many tiles there are.
    pub(super) fn tiles(&self) -> Reg<u32> {
        self.rows * self.columns
    }

    /// The row and the column of tile `index`.
    pub(super) fn place(&self, index: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let of_group = self.columns * self.group;
        let first = index / of_group * self.group;
        // The last group may have fewer rows.
        let rows = (self.rows - first).min(self.group);
        let within = index % of_group;
        (first + within % rows, within / rows)
    }
}

impl<C: GemmOutput> Persistent<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; any grid.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        launch::blocks_per_sm(1);
        let (high, wide) = TILE;
        let (a_tiles, b_tiles) = (SharedTiles::new(high, STAGES), SharedTiles::new(wide, STAGES));
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        let walk = Walk::new((m, n), TILE, self.group);
        let steps = (k + (DEPTH - 1)) / DEPTH;
        let warpgroup = (thread_idx().x / 128).shuffle(0);

        if thread_idx().x == 0 {
            for barrier in full.iter().chain(empty.iter()) {
                barrier.init(128 * WARPGROUPS + 1);
            }
            fence_mbarrier_init();
        }
        sync_threads();

        let mut slot = constant(0u32);
        if warpgroup == 0 {
            decrease_registers(REGISTERS.0);
            if thread_idx().x == 0 {
                for tile in (block_idx().x..walk.tiles()).step_by(grid_dim().x) {
                    let (row, column) = walk.place(tile);
                    for step in 0..steps {
                        let (full, empty) = (full.at(slot), empty.at(slot));
                        empty.wait(empty.arrive());
                        full.arrive_and_expect(a_tiles.bytes() + b_tiles.bytes());
                        tma::load(*a, [step * DEPTH, row * high], a_tiles.at(slot), full);
                        tma::load(*b, [step * DEPTH, column * wide], b_tiles.at(slot), full);
                        slot = (slot + 1) % STAGES;
                    }
                }
            }
        } else {
            increase_registers(REGISTERS.1);
            let part = warpgroup - 1;
            let thread = thread_idx().x % 128;
            let mma = TiledMma::warpgroups(wgmma(wide), WARPGROUPS);
            let a_operand = mma.a_operand(a_tiles.tensor(), part);
            let b_operand = mma.b_operand(b_tiles.tensor());
            let mut sums: Fragment<f32> = mma.thread(thread_idx().x - 128).c_fragment((high, wide));
            for empty in empty.iter() {
                empty.arrive();
            }
            for tile in (block_idx().x..walk.tiles()).step_by(grid_dim().x) {
                sums.clear();
                for _ in 0..steps {
                    let full = full.at(slot);
                    full.wait(full.arrive());
                    let at = (All, All, slot);
                    multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::Yes);
                    wait_multiplications(0);
                    empty.at(slot).arrive();
                    slot = (slot + 1) % STAGES;
                }
                let (row, column) = walk.place(tile);
                store_elements(c, (m, n), &sums, wide, thread, (row * high + part * 64, column * wide));
            }
        }
    }
}

//! After version 6: C is stored through shared memory, by TMA.
//!
//! ```text
//! tensor memory    tcgen05.ld     shared memory, 32 rows of 128 bytes    TMA store      C
//! 32 rows a warp   ---------->    swizzled: the 16-byte stores of        ---------->    rows of 128 bytes,
//! 64 columns       a row a lane   eight lanes are in eight bank groups                  outside left out
//! ```
//!
//! In version 6 a warp's store touches 32 rows of 16 bytes each, half of every sector. Here a warp
//! writes 64 columns of its rows to shared memory, and one lane starts a TMA store of them and
//! continues. Two buffers a warp alternate: one is written while the other is read. Threads write
//! through the generic proxy and TMA reads through the async proxy, so a `fence.proxy.async` is
//! between them.
//!
//! A warp stores its own quarter of tensor memory, so the warps of the epilogue do not wait for each
//! other.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::persistent::{BUFFERS, EPILOGUE_WARPS, MainLoop, THREADS};
use super::{TILE, tile};
use warpwright_kernels::gemm::GemmOutput;

/// Columns of a subtile of C: 64 elements of 16 bits are the span of the swizzle.
pub(super) const SUBTILE: u32 = 64;

/// Rows of a subtile: those that a warp reaches.
pub(super) const ROWS: u32 = 32;

/// C = A·Bᵀ, by persistent pairs of CTAs that store by TMA.
#[derive(Clone, Copy, Debug)]
pub struct TmaStored<T> {
    /// Rows of tiles per rasterization group.
    pub group: u32,
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> TmaStored<T> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; n and k are multiples of 8. The grid is
    /// any number of pairs.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut TensorMap, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let main_loop = MainLoop::<T>::new((a, b), (m, n, k), self.group);
        let store = TileStore::<T>::new();
        let (warp, lane) = ((thread_idx().x / 32).shuffle(0), thread_idx().x % 32);
        let product = main_loop.begin(warp);

        if warp == 0 {
            if elect(ALL_LANES) {
                main_loop.load(a, b);
            }
        } else if warp == 1 {
            if main_loop.rank == 0 && elect(ALL_LANES) {
                main_loop.multiply(product);
            }
        } else {
            let mut tiles = constant(0u32);
            for tile in (main_loop.first..main_loop.scheduler.tiles()).step_by(main_loop.pairs) {
                let d = main_loop.wait_product(product, tiles);
                store.tile(c, d, main_loop.corner(tile), (warp, lane));
                main_loop.release_product(tiles, lane);
                tiles = tiles + 1;
            }
            store.end(lane);
        }
        main_loop.end(product, warp);
    }
}

/// The epilogue's way to C: two buffers for each of its warps.
pub(super) struct TileStore<T> {
    buffers: StoreBuffers<T>,
}

#[device]
impl<T: GemmOutput> TileStore<T> {
    pub(super) fn new() -> Self {
        Self { buffers: StoreBuffers::new(Ok(tile::<T>(ROWS, SUBTILE)), EPILOGUE_WARPS * BUFFERS) }
    }

    /// A warp stores its rows of the accumulator `d` of the tile at `corner`.
    pub(super) fn tile(
        &self,
        c: &TensorMap,
        d: TensorMemory,
        corner: (Reg<u32>, Reg<u32>),
        (warp, lane): (Reg<u32>, Reg<u32>),
    ) {
        let quarter = warp % 4 * 32;
        let d = d.row(quarter);
        for subtile in 0..TILE.1 / SUBTILE {
            let buffer = warp % 4 * BUFFERS + subtile % BUFFERS;
            if lane == 0 {
                // The store before the previous one has read this buffer.
                bulk_wait_read(BUFFERS - 1);
            }
            sync_warp(ALL_LANES);
            let own = self.buffers.tensor().slice((lane, All, buffer));
            for first in (0..SUBTILE).step_by(32) {
                let accumulators = d.column(subtile * SUBTILE + first).load::<32>();
                wait_tensor_loads();
                for part in (0..32).step_by(8) {
                    let eight = std::array::from_fn(|i| T::of(accumulators[part as usize + i].bit_cast()));
                    own.set_vector::<8>(first + part, eight);
                }
            }
            fence_proxy_async_shared();
            sync_warp(ALL_LANES);
            if lane == 0 {
                self.buffers.store(c, (corner.0 + quarter, corner.1 + subtile * SUBTILE), buffer);
                bulk_commit();
            }
        }
    }

    /// Waits until all is stored.
    pub(super) fn end(&self, lane: Reg<u32>) {
        if lane == 0 {
            bulk_wait(0);
        }
    }
}

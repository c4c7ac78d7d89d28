//! After `tma-store`: the GPU hands out the tiles (cluster launch control).
//!
//! ```text
//! grid            a pair of CTAs for each tile, of which the first ones start
//! warp 6, CTA 0   try_cancel ----> response 0 in both CTAs      try_cancel ----> response 1 ..
//! warps 0 to 5    own tile                    tile of the canceled pair                     ..
//! ```
//!
//! In version 6 the number of pairs is fixed, and pair p computes tiles p, p + pairs, p + 2 pairs. A
//! pair that starts late, because another kernel has its SMs, or whose tiles take longer, still has
//! as many: the others wait for it. Here the grid has a pair for each tile, as in version 5, and a pair that
//! runs asks for the tile of one that has not started: `clusterlaunchcontrol.try_cancel`. The
//! response says which cluster was canceled, or that there is none. Barriers and tensor
//! memory are prepared once for a pair, as in version 6, and no pair is idle while tiles are left.
//!
//! A thread requests the next tile while this one is computed. It is one more pair of producer and
//! consumer:
//!
//! | buffer | full | empty |
//! |---|---|---|
//! | a response, per tile | its 16 bytes, in each CTA | the threads that have read it, of both CTAs, at CTA 0 |
//!
//! The response is written by the async proxy: a reader fences before it releases the buffer. No
//! pair asks again after a request that failed, which PTX leaves undefined.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::pair::CTAS;
use super::persistent::{EPILOGUE_WARPS, MainLoop};
use super::tma_store::TileStore;
use warpwright_kernels::gemm::GemmOutput;

/// Threads of a CTA: those of version 6, and a warp that requests tiles.
pub const THREADS: u32 = super::persistent::THREADS + 32;

/// The warp that requests tiles.
const REQUESTING: u32 = THREADS / 32 - 1;

/// Responses in flight or not yet read by all.
const RESPONSES: u32 = 2;

/// Arrivals that release a response: of both CTAs the thread that loads and the warps of the
/// epilogue, and the thread that multiplies.
const READERS: u32 = CTAS * (1 + EPILOGUE_WARPS) + 1;

/// C = A·Bᵀ, by pairs of CTAs that take over the tiles of pairs that have not started.
#[derive(Clone, Copy, Debug)]
pub struct LaunchControlled<T> {
    /// Rows of tiles per rasterization group.
    pub group: u32,
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> LaunchControlled<T> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; n and k are multiples of 8. The grid has
    /// one pair per tile.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut TensorMap, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let main_loop = MainLoop::<T>::new((a, b), (m, n, k), self.group);
        let (store, tiles) = (TileStore::<T>::new(), TileRequests::new());
        let (warp, lane) = ((thread_idx().x / 32).shuffle(0), thread_idx().x % 32);
        tiles.init();
        let product = main_loop.begin(warp);
        // The tile, and how many this pair has computed.
        let (mut tile, mut count, mut has_tile) = (main_loop.first, constant(0u32), constant(true));

        if warp == 0 {
            if elect(ALL_LANES) {
                while has_tile {
                    main_loop.load_tile((a, b), tile, count * main_loop.k_blocks);
                    let (found, next) = tiles.read(count);
                    tiles.release(count);
                    has_tile = found;
                    tile = next;
                    count = count + 1;
                }
            }
        } else if warp == 1 {
            if main_loop.rank == 0 && elect(ALL_LANES) {
                let operands = main_loop.operands();
                while has_tile {
                    main_loop.multiply_tile(product, &operands, count);
                    let (found, _) = tiles.read(count);
                    tiles.release(count);
                    has_tile = found;
                    count = count + 1;
                }
            }
        } else if warp == REQUESTING {
            if main_loop.rank == 0 && elect(ALL_LANES) {
                tiles.request();
            }
        } else {
            while has_tile {
                let d = main_loop.wait_product(product, count);
                store.tile(c, d, main_loop.corner(tile), (warp, lane));
                main_loop.release_product(count, lane);
                let (found, next) = tiles.read(count);
                sync_warp(ALL_LANES);
                if lane == 0 {
                    tiles.release(count);
                }
                has_tile = found;
                tile = next;
                count = count + 1;
            }
            store.end(lane);
        }
        main_loop.end(product, warp);
    }
}

/// The responses to a pair's requests for tiles.
#[derive(Clone, Copy, DeviceValue)]
struct TileRequests {
    responses: CancelResponses,
    full: Mbarriers,
    empty: Mbarriers,
}

#[device]
impl TileRequests {
    fn new() -> Self {
        Self {
            responses: CancelResponses::new(RESPONSES),
            full: Mbarriers::new(RESPONSES),
            empty: Mbarriers::new(RESPONSES),
        }
    }

    /// Initializes the barriers; the main loop's beginning fences and synchronizes.
    fn init(&self) {
        if thread_idx().x == 0 {
            for (full, empty) in self.full.iter().zip(self.empty.iter()) {
                full.init(1);
                empty.init(READERS);
            }
        }
    }

    /// The thread that requests tiles for both CTAs, until a request fails.
    fn request(&self) {
        let (mut count, mut is_canceled) = (constant(0u32), constant(true));
        while is_canceled {
            let (response, parity) = (count % RESPONSES, count / RESPONSES % 2);
            self.empty.at(response).wait_parity(parity ^ 1);
            for rank in 0..CTAS {
                self.full.at(response).at_rank(rank).arrive_and_expect(CANCEL_RESPONSE_BYTES);
            }
            self.responses.at(response).try_cancel_multicast(self.full.at(response));
            let (found, _) = self.read(count);
            is_canceled = found;
            count = count + 1;
        }
    }

    /// Waits for response `count`. Whether there is a tile, and which.
    fn read(&self, count: Reg<u32>) -> (Reg<bool>, Reg<u32>) {
        let (response, parity) = (count % RESPONSES, count / RESPONSES % 2);
        self.full.at(response).wait_parity(parity);
        let cancellation = self.responses.at(response).query();
        let is_canceled = cancellation.is_canceled();
        let mut tile = constant(0u32);
        if is_canceled {
            tile = cancellation.first_block_idx().x / CTAS;
        }
        // The next response is written by the async proxy.
        fence_proxy_async_shared();
        (is_canceled, tile)
    }

    /// Response `count` may be replaced, as far as this reader is concerned.
    fn release(&self, count: Reg<u32>) {
        self.empty.at(count % RESPONSES).at_rank(0).arrive();
    }
}

//! Version 6: persistent pairs, and an epilogue beside the main loop.
//!
//! ```text
//! warp 0       loads        tile 0          tile 1          tile 2 ..
//! warp 1       multiplies     tile 0 -> D0    tile 1 -> D1    tile 2 -> D0 ..
//! warps 2..5   store                          tile 0, D0      tile 1, D1 ..
//! ```
//!
//! In version 5 the tensor cores are idle while a tile is stored, and while the next CTA allocates
//! and initializes. Here a pair stays and computes tile after tile. Tensor memory has 512 columns, twice
//! what a tile accumulates: the MMAs of the next tile go to the other half while four warps store
//! this one. So there are two pairs of producer and consumer:
//!
//! | buffer | full | empty |
//! |---|---|---|
//! | a stage of shared memory, per k-block | TMA's bytes, at CTA 0 | a commit, multicast |
//! | half of tensor memory, per tile | a commit, multicast | the warps that store, of both CTAs, at CTA 0 |
//!
//! The number of a k-block, counted over all tiles, gives the stage and its parity; the number of a
//! tile gives the half and its parity.
//!
//! Which tiles are in progress together decides what L2 holds. `v6` walks row by row; the step
//! `grouped` takes groups of rows, column by column, as the persistent Hopper lesson does.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::pair::{BOTH, CTAS, STAGES};
use super::{DEPTH, SharedTiles, TILE, mma, store_row, tile};
use crate::hopper::TileScheduler;
use warpwright_kernels::gemm::GemmOutput;

/// Threads of a CTA: a warp that loads, a warp that multiplies, four that store.
pub const THREADS: u32 = 192;

/// Accumulators in tensor memory.
pub(super) const BUFFERS: u32 = 2;

/// Warps of the epilogue.
pub(super) const EPILOGUE_WARPS: u32 = 4;

/// C = A·Bᵀ, by persistent pairs of CTAs.
#[derive(Clone, Copy, Debug)]
pub struct Persistent<T> {
    /// Rows of tiles per rasterization group; 1 is row by row.
    pub group: u32,
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> Persistent<T> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; n and k are multiples of 8. The grid is
    /// any number of pairs.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<T>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let main_loop = MainLoop::<T>::new((a, b), (m, n, k), self.group);
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
            // A warp reaches the quarter of tensor memory that its index modulo 4 selects.
            let quarter = warp % 4 * 32;
            let mut tiles = constant(0u32);
            for tile in (main_loop.first..main_loop.scheduler.tiles()).step_by(main_loop.pairs) {
                let (row, column) = main_loop.corner(tile);
                let d = main_loop.wait_product(product, tiles);
                store_row(c, (m, n), d.row(quarter), (row + quarter + lane, column), TILE.1);
                main_loop.release_product(tiles, lane);
                tiles = tiles + 1;
            }
        }
        main_loop.end(product, warp);
    }
}

/// What a pair multiplies.
pub(super) struct Operands {
    mma: TensorCoreMma,
    a: MatrixOperand,
    b: MatrixOperand,
}

/// What the roles of a persistent pair share: the stages, the accumulators, and their barriers.
pub(super) struct MainLoop<T> {
    a_tiles: SharedTiles<T>,
    b_tiles: SharedTiles<T>,
    full: Mbarriers,
    empty: Mbarriers,
    /// The barriers of an accumulator.
    full_d: Mbarriers,
    empty_d: Mbarriers,
    pub(super) scheduler: TileScheduler,
    pub(super) k_blocks: Reg<u32>,
    /// This CTA's rank in the pair.
    pub(super) rank: Reg<u32>,
    /// The first tile of this pair, and the number of pairs.
    pub(super) first: Reg<u32>,
    pub(super) pairs: Reg<u32>,
}

#[device]
impl<T: GemmOutput> MainLoop<T> {
    pub(super) fn new(
        (a, b): (&TensorMap, &TensorMap),
        (m, n, k): (Reg<u32>, Reg<u32>, Reg<u32>),
        group: u32,
    ) -> Self {
        launch::blocks_per_sm(1);
        launch::cluster(CTAS, 1, 1);
        let (tile_m, tile_n) = TILE;
        let (a_tile, b_tile) = (tile::<T>(tile_m, DEPTH), tile::<T>(tile_n / CTAS, DEPTH));
        // A launch refuses tensor maps of other boxes.
        a.boxes(a_tile);
        b.boxes(b_tile);
        Self {
            a_tiles: SharedTiles::new(a_tile, STAGES),
            b_tiles: SharedTiles::new(b_tile, STAGES),
            full: Mbarriers::new(STAGES),
            empty: Mbarriers::new(STAGES),
            full_d: Mbarriers::new(BUFFERS),
            empty_d: Mbarriers::new(BUFFERS),
            scheduler: TileScheduler::new((m, n), (tile_m * CTAS, tile_n), group),
            k_blocks: (k + (DEPTH - 1)) / DEPTH,
            rank: cluster_rank(),
            first: block_idx().x / CTAS,
            pairs: grid_dim().x / CTAS,
        }
    }

    /// The row and the column in C of this CTA's part of a tile.
    pub(super) fn corner(&self, tile: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let (row, column) = self.scheduler.tile(tile);
        ((row * CTAS + self.rank) * TILE.0, column * TILE.1)
    }

    /// Initializes the barriers and allocates the accumulators.
    pub(super) fn begin(&self, warp: Reg<u32>) -> TensorMemory {
        let holder = shared_array::<u32>(1);
        if thread_idx().x == 0 {
            for (full, empty) in self.full.iter().zip(self.empty.iter()) {
                // Each CTA expects its own bytes.
                full.init(CTAS);
                empty.init(1);
            }
            for (full, empty) in self.full_d.iter().zip(self.empty_d.iter()) {
                full.init(1);
                empty.init(EPILOGUE_WARPS * CTAS);
            }
            fence_mbarrier_init();
        }
        if warp == 1 {
            allocate_tensor_memory(CtaGroup::Two, BUFFERS * TILE.1, holder);
        }
        tensor_fence_before_sync();
        cluster_sync();
        tensor_fence_after_sync();
        TensorMemory::at(holder)
    }

    /// The thread that loads: this CTA's part of every tile.
    pub(super) fn load(&self, a: &TensorMap, b: &TensorMap) {
        let mut loads = constant(0u32);
        for tile in (self.first..self.scheduler.tiles()).step_by(self.pairs) {
            self.load_tile((a, b), tile, loads);
            loads = loads + self.k_blocks;
        }
    }

    /// Loads this CTA's part of every k-block of a tile, after `loads` k-blocks of others.
    pub(super) fn load_tile(&self, (a, b): (&TensorMap, &TensorMap), tile: Reg<u32>, loads: Reg<u32>) {
        let (row, column) = self.corner(tile);
        let column = column + self.rank * (TILE.1 / CTAS);
        for k_block in 0..self.k_blocks {
            let load = loads + k_block;
            let (stage, parity) = (load % STAGES, load / STAGES % 2);
            let (full, depth) = (self.full.at(stage).at_rank(0), k_block * DEPTH);
            self.empty.at(stage).wait_parity(parity ^ 1);
            full.arrive_and_expect(self.a_tiles.bytes() + self.b_tiles.bytes());
            let (a, b) = (tma::Load::new(*a, [depth, row]), tma::Load::new(*b, [depth, column]));
            a.group(CtaGroup::Two).start(self.a_tiles.at(stage), full);
            b.group(CtaGroup::Two).start(self.b_tiles.at(stage), full);
        }
    }

    /// The thread that multiplies: every tile into the accumulators in turn.
    pub(super) fn multiply(&self, product: TensorMemory) {
        let operands = self.operands();
        let mut tiles = constant(0u32);
        for _ in (self.first..self.scheduler.tiles()).step_by(self.pairs) {
            self.multiply_tile(product, &operands, tiles);
            tiles = tiles + 1;
        }
    }

    /// The MMA, and A and B in the stages.
    pub(super) fn operands(&self) -> Operands {
        let mma = mma::<T>(CtaGroup::Two, TILE.1);
        Operands { a: mma.a_operand(self.a_tiles.tensor()), b: mma.b_operand(self.b_tiles.tensor()), mma }
    }

    /// Multiplies this pair's tile number `tiles`.
    pub(super) fn multiply_tile(&self, product: TensorMemory, operands: &Operands, tiles: Reg<u32>) {
        let Operands { mma, a, b } = operands;
        let (buffer, parity) = (tiles % BUFFERS, tiles / BUFFERS % 2);
        // The epilogue has loaded what the buffer held.
        self.empty_d.at(buffer).wait_parity(parity ^ 1);
        tensor_fence_after_sync();
        for k_block in 0..self.k_blocks {
            let load = tiles * self.k_blocks + k_block;
            let (stage, parity) = (load % STAGES, load / STAGES % 2);
            self.full.at(stage).wait_parity(parity);
            let (at, d) = ((All, All, stage), product.column(buffer * TILE.1));
            let accumulate = Accumulate::If(k_block.ne(0));
            mma.issue(d, &a.slice(at), &b.slice(at), accumulate);
            commit_tensor_core_to(CtaGroup::Two, self.empty.at(stage), BOTH);
        }
        commit_tensor_core_to(CtaGroup::Two, self.full_d.at(buffer), BOTH);
    }

    /// A warp of the epilogue waits for the accumulator of this pair's tile number `tiles`.
    pub(super) fn wait_product(&self, product: TensorMemory, tiles: Reg<u32>) -> TensorMemory {
        let (buffer, parity) = (tiles % BUFFERS, tiles / BUFFERS % 2);
        self.full_d.at(buffer).wait_parity(parity);
        tensor_fence_after_sync();
        product.column(buffer * TILE.1)
    }

    /// A warp of the epilogue has loaded the accumulator: CTA 0 may overwrite it in both.
    pub(super) fn release_product(&self, tiles: Reg<u32>, lane: Reg<u32>) {
        tensor_fence_before_sync();
        sync_warp(ALL_LANES);
        if lane == 0 {
            self.empty_d.at(tiles % BUFFERS).at_rank(0).arrive();
        }
    }

    /// Frees the accumulators. No CTA frees or exits while the other one uses its memory.
    pub(super) fn end(&self, product: TensorMemory, warp: Reg<u32>) {
        tensor_fence_before_sync();
        cluster_sync();
        if warp == 1 {
            product.free(CtaGroup::Two, BUFFERS * TILE.1);
        }
    }
}

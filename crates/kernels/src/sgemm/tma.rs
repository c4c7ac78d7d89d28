//! Step 10: the tensor memory accelerator fills the ring, asked by one thread; no other thread computes an address of A or B.
//!
//! ```text
//!   thread 0            wait until the slot is empty, expect its bytes, ask for a box of A (BM, BK) and one of B (BK, BN)
//!   all warps           wait until the slot is full, multiply, say that the slot is empty
//!
//!   full[slot]          1 arrival and the bytes of both boxes
//!   empty[slot]         an arrival of each warp
//! ```
//!
//! Nothing waits for the whole CTA any more: a warp may be as far ahead of another as the ring is long. Thread 0 asks for a slice in the
//! middle of multiplying: by then the other warps have long read the slot that it is to fill.
//!
//! Boxes are dense, without a swizzle: rows of A are BK = 16 elements, 64 bytes, so that the two rows that half a warp reads together lie
//! in different halves of the banks. What is past the ends of A and B, the accelerator fills with zeros.

use warpwright::arch::Capability;
use warpwright::prelude::*;

use super::fragments::{LaneOrder, Place, Rows, exchange_at, multiply_slice, zeros};
use super::product::Product;
use super::tiles::{Tiles, TilesError};

/// C = alpha · A·B + beta · C, fed by TMA; sm_90. k and n are multiples of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TmaFed {
    /// The tiles; a thread's tile is one row by four columns.
    pub tiles: Tiles,
    /// CTAs that an SM shall hold at once.
    pub ctas_per_sm: u32,
    /// Rows of tiles that are walked together, so that what they share stays in L2.
    pub raster: u32,
}

/// The ring of slots, and how to fill one.
#[derive(Clone, Copy, DeviceValue)]
struct Ring {
    a: TensorMap,
    b: TensorMap,
    a_slots: Shared<f32>,
    b_slots: Shared<f32>,
    full: Mbarriers,
    /// Of this CTA's tile of C.
    first_row: Reg<u32>,
    first_column: Reg<u32>,
    block: (u32, u32, u32),
}

impl Ring {
    /// Asks for a slice of A and B.
    #[device]
    fn fill(self, slot: Reg<u32>, slice: Reg<u32>) {
        let (bm, bn, bk) = self.block;
        let (full, along) = (self.full.at(slot), slice * bk);
        full.arrive_and_expect(4 * (bm + bn) * bk);
        tma::load(self.a, [along, self.first_row], self.a_slots.at(slot * (bm * bk)), full);
        tma::load(self.b, [self.first_column, along], self.b_slots.at(slot * (bn * bk)), full);
    }
}

/// A place in the ring, and the parity of its round.
#[derive(Clone, Copy, DeviceValue)]
struct Position {
    slot: Reg<u32>,
    parity: Reg<u32>,
}

impl Position {
    /// The next place of a ring of `stages` slots.
    #[device]
    fn next(self, stages: u32) -> Self {
        let next = self.slot + 1;
        let wraps = next.eq(stages);
        Self { slot: wraps.select(0u32, next), parity: self.parity ^ wraps.to_u32() }
    }
}

/// Rows and k of A that a warp transposes at a time: a lane 4 rows by 4 k.
const BLOCK: (u32, u32) = (32, 16);

/// What a thread transposes of each slice: from where to where.
#[derive(Clone, Copy, DeviceValue)]
struct Transposition {
    /// Row g of 32, four k from 4 (lane % 4) on.
    source: Shared<f32>,
    /// Where four rows lie at each of these k.
    targets: [Shared<f32>; 4],
}

impl Transposition {
    #[track_caller]
    fn new(
        thread: Reg<u32>,
        a_slots: Shared<f32>,
        transposed: Shared<f32>,
        (bm, _, bk): (u32, u32, u32),
    ) -> Self {
        let (warp, lane) = (thread / 32, thread % 32);
        let (row, k) = (lane / 4, lane % 4 * 4);
        let first = warp * BLOCK.0;
        let source = a_slots.at((first + row) * bk + k);
        let targets = std::array::from_fn(|step| {
            let k = k + step as u32;
            transposed.at(k * bm + ((first + row * 4) ^ exchange_at(k)))
        });
        Self { source, targets }
    }

    /// Reads four rows, 8 apart, of the slice in a slot.
    #[track_caller]
    fn load(self, slot: Reg<u32>, (bm, _, bk): (u32, u32, u32)) -> [[Reg<f32>; 4]; 4] {
        let source = self.source.at(slot * (bm * bk));
        std::array::from_fn(|row| source.at(8 * row as u32 * bk).load_vector())
    }

    /// Writes them transposed, side by side.
    #[track_caller]
    fn store(self, buffer: Reg<u32>, rows: [[Reg<f32>; 4]; 4], (bm, _, bk): (u32, u32, u32)) {
        for (k, target) in self.targets.into_iter().enumerate() {
            target.at(buffer * (bm * bk)).store_vector(rows.map(|row| row[k]));
        }
    }
}

impl TmaFed {
    /// Bytes of shared memory of a CTA: the ring, A transposed twice, and the barriers.
    pub fn shared_bytes(&self) -> u32 {
        let (bm, _, bk) = self.tiles.block;
        self.tiles.stages * (self.tiles.stage_bytes() + 8) + 2 * 4 * bm * bk
    }

    /// Refuses tiles that break a rule.
    ///
    /// # Errors
    /// The rule.
    pub fn check(&self, limits: &Capability) -> Result<(), TilesError> {
        let Tiles { block: (bm, _, bk), stages, .. } = self.tiles;
        self.tiles.check()?;
        self.tiles.check_exchange()?;
        let warps = self.tiles.threads() / 32;
        if bm != BLOCK.0 * warps || bk != BLOCK.1 {
            return Err(TilesError::Transposition { warps, bm, bk });
        }
        if stages < 2 {
            return Err(TilesError::Stages { stages, least: 2 });
        }
        Tiles::check_shared(self.shared_bytes(), limits.shared_bytes_per_cta_opt_in)
    }

    /// One CTA a tile of BM x BN and part of k.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<f32>, product: Product, part: u32) {
        let tiles = self.tiles;
        let (bm, bn, bk) = tiles.block;
        let (threads, stages) = (tiles.threads(), tiles.stages);
        launch::threads(threads);
        launch::blocks_per_sm(self.ctas_per_sm);
        let thread = thread_idx().x;
        let share = product.share_of_block((bm, bn, bk), self.raster, part);
        let (tile_row, tile_column) = share.tile;
        let (first_row, first_column) = (tile_row * bm, tile_column * bn);
        let ring = Ring {
            a: *a,
            b: *b,
            a_slots: dynamic_shared_aligned((stages * bm * bk) as usize, 128),
            b_slots: dynamic_shared_aligned((stages * bn * bk) as usize, 128),
            full: Mbarriers::new(stages),
            first_row,
            first_column,
            block: tiles.block,
        };
        let transposed = dynamic_shared_aligned::<f32>((2 * bm * bk) as usize, 128);

        if thread == 0 {
            for full in ring.full.iter() {
                full.init(1);
            }
            fence_mbarrier_init();
        }
        sync_threads();
        if thread == 0 {
            for slot in 0..stages {
                let slice = share.first + slot;
                if slice < share.end {
                    ring.fill(constant(slot), slice);
                }
            }
        }

        let place = Place::of(thread, &tiles, LaneOrder::Pairs);
        let transposition = Transposition::new(thread, ring.a_slots, transposed, tiles.block);
        let (a_rows, b_mine) = (Rows::new(transposed, place.row), ring.b_slots.at(place.column));
        let mut sums = zeros(tiles.sums());
        let mut read = Position { slot: constant(0u32), parity: constant(0u32) };
        let mut buffer = constant(0u32);
        if share.first < share.end {
            ring.full.at(read.slot).wait_parity(read.parity);
            transposition.store(buffer, transposition.load(read.slot, tiles.block), tiles.block);
            sync_threads();
            for slice in share.first + 1..share.end {
                let next = read.next(stages);
                ring.full.at(next.slot).wait_parity(next.parity);
                let rows = transposition.load(next.slot, tiles.block);
                let slot = (a_rows.in_slot(buffer * (bm * bk)), b_mine.at(read.slot * (bn * bk)));
                multiply_slice(&tiles, &mut sums, slot, 0..bk / 2);
                buffer = buffer ^ 1;
                transposition.store(buffer, rows, tiles.block);
                multiply_slice(&tiles, &mut sums, slot, bk / 2..bk);
                sync_threads();
                let ahead = slice + (stages - 1);
                if thread == 0 && ahead < share.end {
                    ring.fill(read.slot, ahead);
                }
                read = next;
            }
            let slot = (a_rows.in_slot(buffer * (bm * bk)), b_mine.at(read.slot * (bn * bk)));
            multiply_slice(&tiles, &mut sums, slot, 0..bk);
        }

        // The thread's rows lie side by side in shared memory, and 8 apart in C.
        let row = place.row / BLOCK.0 * BLOCK.0 + place.row / 4 % 8;
        let mine = (first_row + row, first_column + place.column);
        let row_at = |row: u32| {
            let position = tiles.row_at(row);
            position / BLOCK.0 * BLOCK.0 + position / 4 % 8 + position % 4 * 8
        };
        product.store_sums(
            share.output(*c, product),
            mine,
            &sums,
            (row_at, |column| tiles.column_at(column)),
            4,
        );
    }
}

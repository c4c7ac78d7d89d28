//! Block-scaled operands for `mma.sync`: scales of 16 or 32 elements along k, in registers.
//!
//! ```text
//! a register           the four scales of a row of a tile of scales, as memory has them
//! lane of a quad       0 1 | 2 3          A: the rows of two repetitions of the MMA, 8 rows of each a lane
//!                      0 | 1 | 2 | 3      B: the columns of four repetitions
//! a k-tile, 64 bytes   half a register (MXFP8), one (MXFP4) or two (NVFP4) for each row
//! ```
//!
//! The registers of the next k-tile are loaded while this one is multiplied.

use warpwright::arch::DataType;
use warpwright::lang::tensor::{BlockScaledMma, gemm_block_scaled};
use warpwright::prelude::*;

use super::mma_sync::{MmaSyncGemm, MmaSyncOperand};
use crate::gemm::problem::scales::{SCALE_TILE, ScaleFactors};

/// Words of a tile of scales: a row of it is a word.
const TILE_WORDS: u32 = SCALE_TILE.0;

/// The scales of A and B.
pub(super) struct RegisterScales {
    mma: BlockScaledMma,
    a: OperandScales,
    b: OperandScales,
}

impl RegisterScales {
    /// The scales of this thread's rows of the tile at (row, column) of C.
    #[track_caller]
    pub(super) fn new<A: Element, B: Element>(
        gemm: &MmaSyncGemm,
        factors: ScaleFactors,
        (a, b): (&MmaSyncOperand<A>, &MmaSyncOperand<B>),
        part: &ThreadMma,
        at: (Reg<u32>, Reg<u32>),
    ) -> Self {
        let types = TensorCoreTypes { a: gemm.types.a, b: gemm.types.b, d: DataType::F32 };
        let mma = BlockScaledMma::new(types, factors.mma());
        let rows = Rows::new(gemm, part);
        // Registers that a row has of a k-tile; 0 for half of one.
        let of_row = gemm.tile.2 / (factors.block() * SCALE_TILE.1);
        let of = |scales: Global<u32>, tiles: Reg<u32>, rows: Vec<Reg<u32>>, first: Reg<u32>| {
            OperandScales::new(of_row, scales, tiles, rows.into_iter().map(|row| first + row).collect())
        };
        Self { mma, a: of(a.scales, a.pitch, rows.of_a(), at.0), b: of(b.scales, b.pitch, rows.of_b(), at.1) }
    }

    /// Starts the loads of k-tile `tile`.
    #[track_caller]
    pub(super) fn load(&mut self, tile: Reg<u32>) {
        self.a.load(tile);
        self.b.load(tile);
    }

    /// Takes what was loaded as the scales of the k-tile to multiply.
    #[track_caller]
    pub(super) fn advance(&mut self) {
        self.a.advance();
        self.b.advance();
    }

    /// `c += a * b` of k-step `step` of the k-tile.
    #[track_caller]
    pub(super) fn multiply<A: Element, B: Element>(
        &self,
        mma: &TiledMma,
        c: &mut Fragment<f32>,
        (a, b): (&Fragment<A>, &Fragment<B>),
        step: u32,
    ) {
        let first = step * self.mma.scales_of_step();
        let (word, byte) = (first / SCALE_TILE.1, first % SCALE_TILE.1);
        let words = [&self.a, &self.b].map(|operand| operand.words(word));
        gemm_block_scaled(mma, self.mma, c, a, b, [&words[0], &words[1]], byte);
    }
}

/// The rows of A and the columns of B whose scales a lane has.
struct Rows {
    coordinates: Coordinates,
    /// Repetitions of the MMA along m and n.
    repetitions: (u32, u32),
    lane: Reg<u32>,
}

/// Accumulators of a thread in a repetition.
const VALUES: u32 = 4;

impl Rows {
    #[track_caller]
    fn new(gemm: &MmaSyncGemm, part: &ThreadMma) -> Self {
        let coordinates = part.c_coordinates((gemm.tile.0, gemm.tile.1));
        Self { coordinates, repetitions: gemm.repetitions(), lane: lane_id() }
    }

    /// The row of each register of A's scales.
    #[track_caller]
    fn of_a(&self) -> Vec<Reg<u32>> {
        let first = |repetition: u32| self.coordinates.row(VALUES * repetition);
        let is_second = (self.lane % 4u32).ge(2u32);
        let of_pair = |pair: u32| is_second.select(first(pair + 1), first(pair)) + self.lane % 2u32 * 8u32;
        (0..self.repetitions.0).step_by(2).map(of_pair).collect()
    }

    /// The column of each register of B's scales.
    #[track_caller]
    fn of_b(&self) -> Vec<Reg<u32>> {
        let quad = self.lane % 4u32;
        let first = |repetition: u32| self.coordinates.column(VALUES * self.repetitions.0 * repetition);
        let of_four = |four: u32| {
            let chosen = (1..4).fold(first(four), |chosen, at| quad.eq(at).select(first(four + at), chosen));
            // The first column of a thread is that of two values a lane of the quad.
            chosen - quad * 2u32 + self.lane / 4u32
        };
        (0..self.repetitions.1).step_by(4).map(of_four).collect()
    }
}

/// The scales of an operand.
struct OperandScales {
    /// The first scales of each register's row.
    rows: Vec<Global<u32>>,
    /// Tiles of scales along k.
    tiles: Reg<u32>,
    /// Registers that a row has of a k-tile; 0 for half of one.
    of_row: u32,
    now: Fragment<u32>,
    next: Fragment<u32>,
}

impl OperandScales {
    #[track_caller]
    fn new(of_row: u32, scales: Global<u32>, tiles: Reg<u32>, rows: Vec<Reg<u32>>) -> Self {
        let words = rows.len() as u32 * of_row.max(1);
        let registers = || {
            let layout = Layout::column_major(words).expect("a vector");
            Fragment::with_layout(layout)
        };
        let start = |row: Reg<u32>| {
            let (above, within) = (row / TILE_WORDS, row % TILE_WORDS);
            let above = above.convert::<u64>() * (tiles * TILE_WORDS).convert::<u64>();
            scales.at(above + (within % 32u32 * 4u32 + within / 32u32).convert::<u64>())
        };
        let rows = rows.into_iter().map(start).collect();
        Self { rows, tiles, of_row, now: registers(), next: registers() }
    }

    /// Loads the registers of k-tile `tile`. Past the end of k, where elements are zeros, they are
    /// the last ones.
    #[track_caller]
    fn load(&mut self, tile: Reg<u32>) {
        let of_row = self.of_row.max(1);
        for word in 0..of_row {
            let index = if self.of_row == 0 { tile / 2u32 } else { tile * of_row + word };
            let words = index.min(self.tiles - 1u32) * TILE_WORDS;
            for (row, start) in (0..).zip(&self.rows) {
                let loaded = start.at(words).load();
                let scales = if self.of_row == 0 { loaded >> (tile % 2u32 * 16u32) } else { loaded };
                self.next.set(row * of_row + word, scales);
            }
        }
    }

    #[track_caller]
    fn advance(&mut self) {
        for index in 0..self.now.len() {
            self.now.set(index, self.next.get(index));
        }
    }

    /// The registers of all rows with the scales of word `word` of the k-tile.
    #[track_caller]
    fn words(&self, word: u32) -> Vec<Reg<u32>> {
        let of_row = self.of_row.max(1);
        (0..self.rows.len() as u32).map(|row| self.now.get(row * of_row + word)).collect()
    }
}

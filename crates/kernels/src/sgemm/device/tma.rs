//! Step 10: one thread issues TMA loads into the pipeline; no thread computes an address of A or B
//! in global memory.
//!
//! ```text
//!   thread 0       after each k-block: load the one that takes its stage: a box of A (BM, BK) and one of B (BK, BN)
//!   all warps      multiply the first 4 k of k-block s
//!                  k-block s + 1 has arrived: read 32 rows by 16 k of its A into registers    A [row][k] in the stage, as TMA loads it
//!                  multiply 8 k more
//!                  write them transposed into the other of two buffers                    A [k][row], as fragments are read
//!                  multiply the last 4 k; one barrier for all warps
//!
//!   a warp's block of A: lane (g, q) of 8 x 4 reads rows g, g + 8, g + 16, g + 24 at k = 4q .. 4q + 3, and writes at each k its four
//!   rows side by side, so that position 4g + e of 32 holds row g + 8e: the thread that reads them computes these rows of C
//! ```
//!
//! TMA cannot transpose 32-bit elements. One could read A along k instead, four at a time: such a
//! kernel has as few instructions, and on an H200 reached 0.94 of cuBLAS where this one reaches
//! 1.02. Then all of a thread's rows at one k come from registers of the same parity, and the
//! register file has two banks, even and odd, that give one operand a cycle each: a multiply-add
//! that wants two of one bank takes two cycles. Transposed, the rows at one k are four neighboring
//! registers, and the assembler finds an order in which nearly every multiply-add takes one operand
//! of each bank, and the third from the one before it.
//!
//! The barrier of the next k-block is tested well before the result is used: the test takes as long
//! as a load. TMA fills what is past the ends of A and B with zeros.

use warpwright::arch::Capability;
use warpwright::prelude::*;

use super::super::problem::Product;
use super::super::tiles::{Tiles, refuse};
use super::fragments::{LaneOrder, Rows, ThreadPosition, exchange_at, multiply_k_block, zeros};
use crate::operations::Result;

/// C = alpha · A·B + beta · C, fed by TMA; sm_90. k and n are multiples of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TmaFed {
    /// The tiles; a thread's tile is one row by four columns.
    pub tiles: Tiles,
    /// Resident CTAs per SM.
    pub ctas_per_sm: u32,
    /// Rows of tiles that are rasterized together, so that what they share stays in L2.
    pub raster: u32,
}

/// The stages of A and B, and the tensor maps they are filled by.
#[derive(Clone, Copy, DeviceValue)]
struct Stages {
    a: TensorMap,
    b: TensorMap,
    a_stages: Shared<f32>,
    b_stages: Shared<f32>,
    pipeline: TransactionPipeline,
    /// Of this CTA's tile of C.
    first_row: Reg<u32>,
    first_column: Reg<u32>,
    block: (u32, u32, u32),
}

impl Stages {
    /// Loads a k-block of A and B.
    #[device]
    fn fill(self, stage: Reg<u32>, k_block: Reg<u32>) {
        let (bm, bn, bk) = self.block;
        let (full, along) = (self.pipeline.full(stage), k_block * bk);
        full.arrive_and_expect(4 * (bm + bn) * bk);
        tma::load(self.a, [along, self.first_row], self.a_stages.at(stage * (bm * bk)), full);
        tma::load(self.b, [self.first_column, along], self.b_stages.at(stage * (bn * bk)), full);
    }
}

/// Rows and k of A that a warp transposes: a lane 4 rows by 4 k.
const BLOCK: (u32, u32) = (32, 16);

/// The part of each k-block that a thread transposes.
#[derive(Clone, Copy, DeviceValue)]
struct Transposition {
    /// Row g of the warp's 32, at k = 4q.
    source: Shared<f32>,
    /// Where its four rows lie at each of its four k.
    targets: [Shared<f32>; 4],
    /// Elements of a k-block of A.
    k_block: u32,
}

impl Transposition {
    #[track_caller]
    fn new(thread: Reg<u32>, a_stages: Shared<f32>, transposed: Shared<f32>, bm: u32) -> Self {
        let (warp, lane) = (thread / 32, thread % 32);
        let (g, q) = (lane / 4, lane % 4);
        let first = warp * BLOCK.0;
        let source = a_stages.at((first + g) * BLOCK.1 + q * 4);
        let targets = std::array::from_fn(|step| {
            let k = q * 4 + step as u32;
            transposed.at(k * bm + ((first + g * 4) ^ exchange_at(k)))
        });
        Self { source, targets, k_block: bm * BLOCK.1 }
    }

    /// Reads the thread's four rows of the k-block in a stage.
    #[track_caller]
    fn load(self, stage: Reg<u32>) -> [[Reg<f32>; 4]; 4] {
        let source = self.source.at(stage * self.k_block);
        std::array::from_fn(|row| source.at(8 * row as u32 * BLOCK.1).load_vector())
    }

    /// Writes them transposed, side by side.
    #[track_caller]
    fn store(self, buffer: Reg<u32>, rows: [[Reg<f32>; 4]; 4]) {
        for (k, target) in self.targets.into_iter().enumerate() {
            target.at(buffer * self.k_block).store_vector(rows.map(|row| row[k]));
        }
    }
}

impl TmaFed {
    /// Bytes of shared memory of a CTA: the pipeline, A transposed twice, and the barriers.
    pub fn shared_bytes(&self) -> u32 {
        let (bm, _, bk) = self.tiles.block;
        self.tiles.stages * (self.tiles.stage_bytes() + 8) + 2 * 4 * bm * bk
    }

    /// Refuses tiles that break a rule.
    ///
    /// # Errors
    /// The rule.
    pub fn check(&self, capability: &Capability) -> Result<()> {
        let Tiles { block: (bm, _, bk), .. } = self.tiles;
        self.tiles.check()?;
        self.tiles.check_exchange()?;
        let warps = self.tiles.threads() / 32;
        if bm != BLOCK.0 * warps || bk != BLOCK.1 {
            return refuse(format!(
                "each warp transposes 32 rows of 16 k: {warps} warps take BM = {} and BK = 16, not BM = {bm} and BK = {bk}",
                32 * warps
            ));
        }
        self.tiles.check_pipeline(self.shared_bytes(), capability)
    }

    /// One CTA a tile of BM x BN and part of k.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<f32>, product: Product, part: u32) {
        let tiles = self.tiles;
        let (bm, bn, bk) = tiles.block;
        let (threads, stages) = (tiles.threads(), tiles.stages);
        launch::threads(threads);
        launch::blocks_per_sm(self.ctas_per_sm);
        a.boxes(TmaTile::dense::<f32>((bm, bk), Major::K));
        b.boxes(TmaTile::dense::<f32>((bn, bk), Major::Mn));
        let thread = thread_idx().x;
        let share = product.share_of_block((bm, bn, bk), self.raster, part);
        let (tile_row, tile_column) = share.tile;
        let (first_row, first_column) = (tile_row * bm, tile_column * bn);
        let a_stages = dynamic_shared_aligned(stages * bm * bk, 128);
        let b_stages = dynamic_shared_aligned(stages * bn * bk, 128);
        let transposed = dynamic_shared_aligned::<f32>(2 * bm * bk, 128);
        let pipeline = TransactionPipeline::stages(stages).synchronized_by_cta();
        let operands = Stages {
            a: *a,
            b: *b,
            a_stages,
            b_stages,
            pipeline,
            first_row,
            first_column,
            block: tiles.block,
        };
        sync_threads();
        if thread == 0 {
            for stage in 0..stages {
                let k_block = share.first + stage;
                if k_block < share.end {
                    operands.fill(constant(stage), k_block);
                }
            }
        }

        let place = ThreadPosition::of(thread, &tiles, LaneOrder::Pairs);
        let transposition = Transposition::new(thread, operands.a_stages, transposed, bm);
        let (a_rows, b_mine) = (Rows::new(transposed, place.row), operands.b_stages.at(place.column));
        let mut accumulators = zeros(tiles.accumulators());
        let mut read = PipelineState::start();
        let mut buffer = constant(0u32);
        if share.first < share.end {
            pipeline.wait(read);
            transposition.store(buffer, transposition.load(read.stage()));
            sync_threads();
            for k_block in share.first + 1..share.end {
                let next = read.next(stages);
                let next_full = pipeline.full(next.stage());
                let stage = (a_rows.in_stage(buffer * (bm * bk)), b_mine.at(read.stage() * (bn * bk)));
                buffer = buffer ^ 1;
                // The test takes a while: multiplications hide it.
                let has_arrived = next_full.try_wait_parity(next.parity());
                multiply_k_block(&tiles, &mut accumulators, stage, 0..4);
                if !has_arrived {
                    next_full.wait_parity(next.parity());
                }
                let rows = transposition.load(next.stage());
                multiply_k_block(&tiles, &mut accumulators, stage, 4..12);
                transposition.store(buffer, rows);
                multiply_k_block(&tiles, &mut accumulators, stage, 12..16);
                sync_threads();
                let ahead = k_block + (stages - 1);
                if thread == 0 && ahead < share.end {
                    operands.fill(read.stage(), ahead);
                }
                read = next;
            }
            let stage = (a_rows.in_stage(buffer * (bm * bk)), b_mine.at(read.stage() * (bn * bk)));
            multiply_k_block(&tiles, &mut accumulators, stage, 0..bk);
        }

        // The thread's rows lie side by side in shared memory, and 8 apart in C.
        let row = place.row / BLOCK.0 * BLOCK.0 + place.row / 4 % 8;
        let mine = (first_row + row, first_column + place.column);
        let row_at = |row: u32| {
            let position = tiles.row_at(row);
            position / BLOCK.0 * BLOCK.0 + position / 4 % 8 + position % 4 * 8
        };
        product.store_accumulators(
            share.output(*c, product),
            mine,
            &accumulators,
            (row_at, |column| tiles.column_at(column)),
            4,
        );
    }
}

//! GEMM on tensor cores of any GPU from Ampere on: C = A·B by `cp.async`, `ldmatrix` and
//! `mma.sync`.
//!
//! ```text
//! C (m, n)             one CTA: a tile of 128 x 128       one warp of 2 x 2: 64 x 64      one mma.sync: 16 x 8 x 16
//! +-----+-----+        +-------+-------+
//! | CTA | CTA |   ->   | w0    | w2    |            ->    4 x 8 of them a k-step   ->    lane/4 is the row,
//! +-----+-----+        +-------+-------+                  their A and B by ldmatrix       lane%4 the pair of columns
//! | CTA | CTA |        | w1    | w3    |
//! +-----+-----+        +-------+-------+
//!
//! shared memory: 4 stages, each A (128, 32) and B (128, 32); row r keeps its 16-byte chunk c at c ^ (r/2 % 4), so that
//! eight rows of one chunk, which one ldmatrix phase reads, are in eight different bank groups.
//! ```
//!
//! Any shape and both layouts of A and B; bounds are checked only if the shape requires it.
//!
//! Operands of 8 bits (sm_89 and later), and narrow ones with scales (sm_120a), are moved as elements
//! of 16 bits, two bytes each: `mma.sync` of all types has the same bytes of a row in the same lanes.

use serde::{Deserialize, Serialize};
use warpwright::prelude::*;

use super::mma_sync_promotion::{ByteOperands, GlobalScales, PromotedTotals};
use super::mma_sync_scales::RegisterScales;
use crate::gemm::device::epilogue::{Coordinate, EpilogueOp, gated};
use crate::gemm::problem::batching::{Batch, Problem};
use crate::gemm::problem::epilogue::Activation;
use crate::gemm::problem::narrow::VectorScaling;
use crate::gemm::problem::types::{GemmOutput, MatrixLayout, MmaSyncOperand};

/// The build-time parameters that are chosen for a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MmaSyncConfiguration {
    /// Rows and columns of the CTA tile: each 64 or 128.
    pub tile: (u32, u32),
    /// Stages of the pipeline: at least 2, and as many as shared memory holds.
    pub stages: u32,
    /// Rows of tiles that are rasterized together, so that what they share stays in L2: at least 1.
    pub raster: u32,
}

impl Default for MmaSyncConfiguration {
    /// The fastest for large problems.
    fn default() -> Self {
        Self { tile: (128, 128), stages: 4, raster: 8 }
    }
}

/// The depth of a stage: rows of 64 bytes, which the swizzle is for.
pub(crate) const DEPTH: u32 = 32;

/// Pairs of a row of `bytes` bytes, whose copy begins at multiples of 16 bytes.
pub(crate) fn pairs(bytes: u32) -> u32 {
    bytes.next_multiple_of(16) / 2
}

/// C = A·B; A is (m, k), B is (k, n), C is (m, n) and row-major. The accumulators are `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaSyncGemm {
    /// The layout of A.
    pub a: MatrixLayout,
    /// The layout of B.
    pub b: MatrixLayout,
    /// Elements of A that one copy moves: 8, 4, 2 or 1. A's contiguous extent is a multiple.
    pub a_vector: u32,
    /// Elements of B that one copy moves.
    pub b_vector: u32,
    /// Whether m, n and k are multiples of the tile: nothing needs a check.
    pub exact: bool,
    /// Whether n is even, so that C can be stored in pairs.
    pub paired: bool,
    /// The CTA tile: (m, n, k).
    pub tile: (u32, u32, u32),
    /// Stages of the pipeline.
    pub stages: u32,
    /// Rows of tiles that are rasterized together.
    pub raster: u32,
    /// The types and the scales of narrow operands.
    pub vector_scales: Option<VectorScaling>,
    /// Operands of 8 bits.
    pub bytes: Option<ByteOperands>,
    /// The function of the gates, if half of the columns of A·B are gates of the others: C has half of
    /// the columns.
    pub gate: Option<Activation>,
}

/// Scales in global memory.
pub(crate) enum OperandScales {
    /// None.
    None,
    /// Of narrow operands.
    Vectors([Global<u32>; 2]),
    /// Of operands of 8 bits, with the bytes of a row: what follows them is not read.
    Blocks([GlobalScales; 2], Reg<u32>),
}

/// Warps of a CTA along m and n.
pub(super) const WARPS: (u32, u32) = (2, 2);

/// Threads of a CTA.
const THREADS: u32 = 32 * WARPS.0 * WARPS.1;

impl MmaSyncGemm {
    /// The kernel for a batch: the widest copies that it allows, and bounds checks only if needed.
    pub fn new(batch: Batch, configuration: MmaSyncConfiguration) -> Self {
        let MmaSyncConfiguration { tile, stages, raster } = configuration;
        let Problem { m, n, k, a, b } = batch.problem;
        let tile = (tile.0, tile.1, DEPTH);
        // Every matrix begins at a multiple of the width, and so does every row.
        let widest = |extent: u32, stride: u64| {
            let fits = |width: &u32| {
                extent.is_multiple_of(*width) && (batch.count == 1 || stride.is_multiple_of((*width).into()))
            };
            [8, 4, 2].into_iter().find(fits).unwrap_or(1)
        };
        Self {
            a,
            b,
            a_vector: widest(if a == MatrixLayout::RowMajor { k } else { m }, batch.a_stride),
            b_vector: widest(if b == MatrixLayout::ColumnMajor { k } else { n }, batch.b_stride),
            exact: m.is_multiple_of(tile.0) && n.is_multiple_of(tile.1) && k.is_multiple_of(tile.2),
            paired: n.is_multiple_of(2) && (batch.count == 1 || batch.c_stride.is_multiple_of(2)),
            tile,
            stages,
            raster,
            vector_scales: None,
            bytes: None,
            gate: None,
        }
    }

    /// The kernel for a batch of operands of 8 bits, whose k is contiguous and whose rows begin at
    /// multiples of 16 bytes.
    pub fn of_bytes(batch: Batch, operands: ByteOperands, configuration: MmaSyncConfiguration) -> Self {
        let Batch { problem, a_stride, b_stride, .. } = batch;
        let k = pairs(problem.k);
        let of_pairs = Batch {
            problem: Problem { k, ..problem },
            a_stride: a_stride / 2,
            b_stride: b_stride / 2,
            ..batch
        };
        let own = Self::new(of_pairs, configuration);
        let exact = own.exact && problem.k == 2 * k;
        Self { bytes: Some(operands), exact, ..own }
    }

    /// The kernel for a batch of narrow operands, whose k and strides count bytes.
    pub fn narrow(batch: Batch, scaling: VectorScaling, configuration: MmaSyncConfiguration) -> Self {
        let Batch { problem, a_stride, b_stride, .. } = batch;
        let problem = Problem { k: problem.k / 2, ..problem };
        let batch = Batch { problem, a_stride: a_stride / 2, b_stride: b_stride / 2, ..batch };
        Self { vector_scales: Some(scaling), ..Self::new(batch, configuration) }
    }

    /// Warps along m and n. Neighboring columns of MMAs are those of neighboring warps along n: the one
    /// that has gates has their values, too, if there is one.
    pub(super) fn warps(&self) -> (u32, u32) {
        if self.gate.is_some() { (WARPS.0 * WARPS.1, 1) } else { WARPS }
    }

    /// CTAs of a launch.
    pub fn grid(&self, m: u32, n: u32) -> u32 {
        m.div_ceil(self.tile.0) * n.div_ceil(self.tile.1)
    }

    /// C = A·B, each accumulator through an epilogue operation. `c` is called after the main loop,
    /// so that its address takes none of the registers there.
    #[device]
    pub fn compute<A: MmaSyncOperand, B: MmaSyncOperand, C: GemmOutput>(
        &self,
        a: &Global<A>,
        b: &Global<B>,
        c: &dyn Fn() -> Global<C>,
        extents: (Reg<u32>, Reg<u32>, Reg<u32>),
        epilogue: &dyn EpilogueOp,
    ) {
        self.compute_scaled(a, b, OperandScales::None, c, extents, epilogue);
    }

    /// The same with scales, of operands that are pairs of bytes.
    #[device]
    pub(crate) fn compute_scaled<A: MmaSyncOperand, B: MmaSyncOperand, C: GemmOutput>(
        &self,
        a: &Global<A>,
        b: &Global<B>,
        scales: OperandScales,
        c: &dyn Fn() -> Global<C>,
        (m, n, k): (Reg<u32>, Reg<u32>, Reg<u32>),
        epilogue: &dyn EpilogueOp,
    ) {
        launch::threads(THREADS);
        launch::blocks_per_sm(2);
        let (tile_m, tile_n, tile_k) = self.tile;
        let thread = thread_idx().x;
        let (row, column) = self.tile_of_block(m, n);

        // Each CTA's strips of A (128, 32, k-tiles) and B.
        let a = Strip::new(a, self.a == MatrixLayout::RowMajor, (m, k), self.a_vector, (tile_m, tile_k), row);
        let b = Strip::new(
            b,
            self.b == MatrixLayout::ColumnMajor,
            (n, k),
            self.b_vector,
            (tile_n, tile_k),
            column,
        );

        // The stages: A and B (128, 32, stages), swizzled.
        let a_stages = a.stages(self.stages);
        let b_stages = b.stages(self.stages);

        // Which thread copies and multiplies what.
        let mma = TiledMma::new(A::ATOM, self.warps());
        let part = mma.thread(thread);
        let bytes = match scales {
            OperandScales::Blocks(_, bytes) => Some(bytes),
            _ => None,
        };
        let a_copy = a.copies(&a_stages, thread, m - row * tile_m, self.exact, bytes);
        let b_copy = b.copies(&b_stages, thread, n - column * tile_n, self.exact, bytes);
        let a_load = TiledCopy::into_a::<A>(a.matrix_load(), &mma).thread(thread);
        let b_load = TiledCopy::into_b::<B>(b.matrix_load(), &mma).thread(thread);
        let (a_shared, b_shared) = (a_load.source(&a_stages).hoisted(), b_load.source(&b_stages).hoisted());
        let a_registers: Fragment<A> = part.a_fragment((tile_m, tile_k));
        let b_registers: Fragment<B> = part.b_fragment((tile_n, tile_k));
        let (a_target, b_target) = (a_load.retile(&a_registers), b_load.retile(&b_registers));
        let mut accumulators: Fragment<f32> = part.c_fragment((tile_m, tile_n));
        accumulators.clear();

        let first = (row * tile_m, column * tile_n);
        let mut promoted = match (self.bytes, &scales) {
            (Some(ByteOperands { scales: Some(of_both), .. }), OperandScales::Blocks(scales, _)) => {
                let operands = self.bytes.expect("operands of 8 bits");
                Some(PromotedTotals::new(self, operands, of_both, *scales, &part, first, (m, n)))
            }
            _ => None,
        };
        let mut scales = match (self.vector_scales, scales) {
            (Some(scaling), OperandScales::Vectors(operands)) => {
                Some(RegisterScales::new(scaling, operands, &part, (tile_m, tile_n), first, k))
            }
            _ => None,
        };
        if let Some(scales) = &mut scales {
            scales.load(constant(0u32));
        }

        // Prologue: fill all stages but one, and wait for the first.
        let tiles = (k + (tile_k - 1)) / tile_k;
        for stage in 0..self.stages - 1 {
            if tiles > stage {
                a_copy.copy(constant(stage), constant(stage), k);
                b_copy.copy(constant(stage), constant(stage), k);
            }
            commit_async_copies();
        }
        let in_flight = self.stages - 2;
        wait_async_copies(in_flight);
        sync_threads();

        // Main loop: while the tensor cores multiply step s, the fragments of step s + 1 are
        // loaded; at the last step of a k-block those are the next one's, which must have arrived
        // for every thread.
        let steps = tile_k / 16;
        let mut read = constant(0u32);
        let mut write = constant(self.stages - 1);
        a_load.load_matrix(&a_target.slice((All, All, 0)), &a_shared.slice((All, All, 0, read)));
        b_load.load_matrix(&b_target.slice((All, All, 0)), &b_shared.slice((All, All, 0, read)));
        for tile in 0..tiles {
            if let Some(scales) = &mut scales {
                scales.advance();
                scales.load(tile + 1u32);
            }
            if let Some(promoted) = &mut promoted {
                promoted.begin(tile);
            }
            for step in 0..steps {
                let next = (step + 1) % steps;
                if next == 0 {
                    wait_async_copies(in_flight);
                    sync_threads();
                    read = self.after(read);
                }
                a_load
                    .load_matrix(&a_target.slice((All, All, next)), &a_shared.slice((All, All, next, read)));
                b_load
                    .load_matrix(&b_target.slice((All, All, next)), &b_shared.slice((All, All, next, read)));
                if step == 0 {
                    let ahead = tile + (self.stages - 1);
                    if ahead < tiles {
                        a_copy.copy(write, ahead, k);
                        b_copy.copy(write, ahead, k);
                    }
                    commit_async_copies();
                    write = self.after(write);
                }
                let (a_step, b_step) =
                    (a_registers.slice((All, All, step)), b_registers.slice((All, All, step)));
                match (&scales, self.bytes) {
                    (None, None) => gemm(&mma, &mut accumulators, &a_step, &b_step),
                    (None, Some(ByteOperands { types, .. })) => {
                        gemm_bytes(&mma, types, &mut accumulators, &a_step, &b_step);
                    }
                    (Some(scales), _) => {
                        scales.multiply(&mma, &mut accumulators, (&a_step, &b_step), step);
                    }
                }
            }
            if let Some(promoted) = &mut promoted {
                promoted.end(&mut accumulators, tile, tiles);
            }
        }
        let accumulators = promoted.map_or(accumulators, |promoted| promoted.totals);

        let coordinates = part.c_coordinates((tile_m, tile_n));
        let value = |index: u32| {
            let (row, column) =
                (row * tile_m + coordinates.row(index), column * tile_n + coordinates.column(index));
            let at = Coordinate { row, column, extents: (m, n), origin: None };
            epilogue.apply(accumulators.get(index), at)
        };
        let (rows, columns) = (m - row * tile_m, n - column * tile_n);
        let is_inside = |index: u32| coordinates.row(index).lt(rows) & coordinates.column(index).lt(columns);

        // Epilogue: each lane's pairs of neighboring columns of the tile of C, in C's type.
        if let Some(activation) = self.gate {
            let c = Tensor::with_layout(c(), Layout::new((m, n / 2u32), (n / 2u32, 1)));
            let mine = c.local_tile((tile_m, tile_n / 2), (row, column));
            // A thread's accumulators of 8 columns.
            let run = tile_m / self.warps().0 / 16 * 4;
            let gates = (0..accumulators.len()).filter(|index| index / run % 2 == 0);
            for gate in gates {
                let product = gated::<C>(activation, value(gate), value(gate + run));
                if is_inside(gate) {
                    let column = coordinates.column(gate);
                    mine.set((coordinates.row(gate), column / 16u32 * 8u32 + column % 8u32), C::of(product));
                }
            }
        } else {
            let c = Tensor::with_layout(c(), Layout::new((m, n), (n, 1)));
            let mine = part.c(&c.local_tile((tile_m, tile_n), (row, column)));
            for pair in (0..accumulators.len()).step_by(2) {
                let values = [0, 1].map(|half| C::of(value(pair + half)));
                if self.exact {
                    mine.set_vector(pair, values);
                } else if self.paired {
                    if is_inside(pair) {
                        mine.set_vector(pair, values);
                    }
                } else {
                    for (half, value) in (0..2).zip(values) {
                        if is_inside(pair + half) {
                            mine.set(pair + half, value);
                        }
                    }
                }
            }
        }
    }

    /// Tiles of a C.
    #[device]
    pub(crate) fn tiles(&self, m: Reg<u32>, n: Reg<u32>) -> Reg<u32> {
        let rows = (m + (self.tile.0 - 1)) / self.tile.0;
        let columns = (n + (self.tile.1 - 1)) / self.tile.1;
        rows * columns
    }

    /// The tile (row, column) of this CTA: strips of `raster` rows, column by column.
    #[device]
    fn tile_of_block(&self, m: Reg<u32>, n: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let rows = (m + (self.tile.0 - 1)) / self.tile.0;
        let columns = (n + (self.tile.1 - 1)) / self.tile.1;
        let block = block_idx().x;
        let first = block / (columns * self.raster) * self.raster;
        let high = (rows - first).min(self.raster);
        let within = block % (columns * self.raster);
        (first + within % high, within / high)
    }

    /// The stage after `stage`.
    #[device]
    fn after(&self, stage: Reg<u32>) -> Reg<u32> {
        let next = stage + 1;
        next.eq(self.stages).select(0u32, next)
    }
}

/// An operand's strip of tiles along k: rows of A, or columns of B, which are called rows here.
struct Strip<T> {
    /// (tile's rows, tile's k, tiles along k).
    tiles: Tensor<T, GlobalSpace>,
    /// The tile's (rows, k).
    tile: (u32, u32),
    k_contiguous: bool,
    vector: u32,
}

impl<T: MmaSyncOperand> Strip<T> {
    /// The tiles at `position` of an operand of `rows` by `k`, whose contiguous extent is a
    /// multiple of `vector`.
    fn new(
        pointer: &Global<T>,
        k_contiguous: bool,
        (rows, k): (Reg<u32>, Reg<u32>),
        vector: u32,
        tile: (u32, u32),
        position: Reg<u32>,
    ) -> Self {
        let matrix = match k_contiguous {
            true => Layout::new((rows, k), (multiple_of(k, vector), 1)),
            false => Layout::new((rows, k), (1, multiple_of(rows, vector))),
        };
        let tiles = Tensor::with_layout(*pointer, matrix).local_tile(tile, (position, All));
        Self { tiles, tile, k_contiguous, vector }
    }

    /// Shared memory for `stages` tiles: (rows, k, stage).
    ///
    /// A row of the tile is 64 bytes where k is contiguous, and eight rows 64 bytes apart fall on
    /// every other bank group twice: the chunk is exchanged by the row's bits 1 and 2. Columns are
    /// 256 bytes: the chunk, by the column's low bits.
    fn stages(&self, stages: u32) -> Tensor<T, SharedSpace> {
        let (rows, k) = self.tile;
        let elements = rows * k;
        let (strides, swizzle) = match self.k_contiguous {
            true => ((k, 1, elements), Swizzle::new(2, 3, 3)),
            false => ((1, rows, elements), Swizzle::new(3, 3, 4)),
        };
        let memory = dynamic_shared_aligned::<T>(elements * stages, 128);
        Tensor::swizzled(memory, Layout::new((rows, k, stages), strides), swizzle)
    }

    /// The copy atom from a stage to MMA registers: `ldmatrix`, transposing where k is not
    /// contiguous.
    fn matrix_load(&self) -> &'static str {
        if self.k_contiguous { "SM75_U32x4_LDSM_N" } else { "SM75_U16x8_LDSM_T" }
    }

    /// This thread's copies of the strip's tiles to the stages. `rows_left` of the strip are inside
    /// the matrix; `exact`: all are, and all of every tile's k. Rows may have `bytes` bytes.
    fn copies(
        &self,
        stages: &Tensor<T, SharedSpace>,
        thread: Reg<u32>,
        rows_left: Reg<u32>,
        exact: bool,
        bytes: Option<Reg<u32>>,
    ) -> StripCopy<T> {
        let (rows, k) = self.tile;
        let vector = self.vector;
        let atom = match self.vector {
            8 => "SM80_CP_ASYNC_CACHEGLOBAL<128>",
            4 => "SM80_CP_ASYNC_CACHEALWAYS<64>",
            2 => "SM80_CP_ASYNC_CACHEALWAYS<32>",
            _ => "UniversalCopy<16>",
        };
        let threads = THREADS;
        let copy = match self.k_contiguous {
            true => TiledCopy::new::<T>(
                atom,
                Layout::row_major((threads * vector / k, k / vector)),
                Layout::row_major((1, vector)),
            ),
            false => TiledCopy::new::<T>(
                atom,
                Layout::column_major((rows / vector, threads * vector / rows)),
                Layout::column_major((vector, 1)),
            ),
        };
        // A row of this tile is half of a 128-byte line, whose other half the next tile reads.
        let copy = copy.thread(thread).prefetching(L2Prefetch::Bytes128);
        let coordinates = copy.coordinates(self.tile);
        let row_is_inside = (0..coordinates.len()).map(|part| coordinates.row(part).lt(rows_left)).collect();
        StripCopy {
            from: copy.source(&self.tiles).hoisted(),
            to: copy.target(stages).hoisted(),
            copy,
            coordinates,
            row_is_inside,
            exact,
            bytes,
            vector: self.vector,
            depth: k,
        }
    }
}

/// One thread's copies from a strip to its stages.
struct StripCopy<T> {
    copy: ThreadCopy,
    from: Tensor<T, GlobalSpace>,
    to: Tensor<T, SharedSpace>,
    coordinates: Coordinates,
    row_is_inside: Vec<Reg<bool>>,
    exact: bool,
    bytes: Option<Reg<u32>>,
    vector: u32,
    depth: u32,
}

impl<T: MmaSyncOperand> StripCopy<T> {
    /// Copies tile `tile` along k to a stage; what is outside the matrix becomes zero.
    fn copy(&self, stage: Reg<u32>, tile: Reg<u32>, k: Reg<u32>) {
        let to = self.to.slice((All, All, All, stage));
        let from = self.from.slice((All, All, All, tile));
        let k_left = k - tile * self.depth;
        let inside = |part: u32| self.row_is_inside[part as usize] & self.coordinates.column(part).lt(k_left);
        if self.vector == 1 {
            self.copy.copy_elements(&to, &from, |part| (!self.exact).then(|| inside(part)));
        } else {
            let bytes = self.vector * T::BYTES;
            // Of a copy, the bytes before the end of the row.
            let left = |part: u32| match self.bytes {
                None => constant(bytes),
                Some(end) => {
                    let begin = (tile * self.depth + self.coordinates.column(part)) * T::BYTES;
                    (end.max(begin) - begin).min(bytes)
                }
            };
            let copied = |part: u32| inside(part).select(left(part), 0u32);
            self.copy.copy_async(&to, &from, |part| (!self.exact).then(|| copied(part)));
        }
    }
}

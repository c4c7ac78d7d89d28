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
//! k counts elements. Operands of 8 bits (sm_89 and later) are a byte each; so are block-scaled ones
//! (sm_120a), but of two of 4 bits, for `mma.sync` of all types has the same bytes of a row in the same
//! lanes.

use serde::{Deserialize, Serialize};
use warpwright::arch::DataType;
use warpwright::prelude::*;

use super::mma_sync_block_scaled::RegisterScales;
use super::mma_sync_blockwise::PromotedTotals;
use crate::gemm::device::epilogue::{Coordinate, EpilogueOp, gated};
use crate::gemm::problem::batching::{GemmProblem, Problem};
use crate::gemm::problem::epilogue::Activation;
use crate::gemm::problem::scales::Scaling;
use crate::gemm::problem::types::{GemmOutput, GemmTypes, MatrixLayout, Operand};

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
pub(crate) const DEPTH_BYTES: u32 = 64;

/// Bytes of k of an instruction.
const STEP_BYTES: u32 = 32;

/// Bytes at whose multiples the rows of operands of 8 bits begin.
const ROW_BYTES: u32 = 16;

/// C = A·B; A is (m, k), B is (k, n), C is (m, n) and row-major. The accumulators are `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaSyncGemm {
    /// The types and the scales of A and B. The kernel reads block-scaled ones as bytes.
    pub types: GemmTypes,
    /// The layout of A.
    pub a: MatrixLayout,
    /// The layout of B.
    pub b: MatrixLayout,
    /// Bytes of A that one copy moves: 16, 8, 4 or 2. A's contiguous extent is a multiple.
    pub a_vector: u32,
    /// Bytes of B that one copy moves.
    pub b_vector: u32,
    /// Whether m, n and k are multiples of the tile: nothing needs a check.
    pub exact: bool,
    /// Whether n is even, so that C can be stored in pairs.
    pub paired: bool,
    /// The CTA tile: (m, n, k), in elements.
    pub tile: (u32, u32, u32),
    /// Stages of the pipeline.
    pub stages: u32,
    /// Rows of tiles that are rasterized together.
    pub raster: u32,
    /// Whether the problems are groups along m, whose tiles of A begin at any row.
    pub along_m: bool,
    /// The function of the gates, if half of the columns of A·B are gates of the others: C has half of
    /// the columns.
    pub gate: Option<Activation>,
}

/// An operand in global memory. Its scales are `f32`s, or words of four.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct MmaSyncOperand<T> {
    pub(crate) values: Global<T>,
    pub(crate) scales: Global<u32>,
    /// Scales from one block of k to the next, or of tiles of them from one row of tiles to the next.
    pub(crate) pitch: Reg<u32>,
    /// Rows of the operand before the problem's, whose scales begin with its own.
    pub(crate) before: Option<Reg<u32>>,
}

#[device]
impl<T: Element> MmaSyncOperand<T> {
    /// The rows from one on.
    pub(crate) fn rows_from(self, row: Reg<u32>, pitch: Reg<u32>) -> Self {
        let values = self.values.at(row.convert::<u64>() * pitch.convert::<u64>());
        Self { values, before: Some(row), ..self }
    }
}

/// Warps of a CTA along m and n.
const WARPS: (u32, u32) = (2, 2);

/// Threads of a CTA.
const THREADS: u32 = 32 * WARPS.0 * WARPS.1;

impl MmaSyncGemm {
    /// The kernel for a problem: the widest copies that it allows, and bounds checks only if needed. k of
    /// operands of 8 bits and fewer is contiguous, and their rows begin at multiples of 16 bytes.
    pub fn new(problem: &GemmProblem, configuration: MmaSyncConfiguration) -> Self {
        let GemmProblem { batch, types, along_m, gate, .. } = *problem;
        let MmaSyncConfiguration { tile, stages, raster } = configuration;
        let Problem { m, n, k, a, b } = batch.problem;
        let tile = (tile.0, tile.1, types.elements(DEPTH_BYTES));
        let is_single = batch.count == 1;
        // Every matrix begins at a multiple of the width, and so does every row.
        let widest = |extent: u32, stride: u64| {
            let fits = |width: &u32| {
                let width = types.elements(*width);
                extent.is_multiple_of(width) && (is_single || stride.is_multiple_of(width.into()))
            };
            [16, 8, 4].into_iter().find(fits).unwrap_or(2)
        };
        let own = Self {
            types,
            a,
            b,
            a_vector: widest(if a == MatrixLayout::RowMajor { k } else { m }, batch.a_stride),
            b_vector: widest(if b == MatrixLayout::ColumnMajor { k } else { n }, batch.b_stride),
            // Groups have any number of rows.
            exact: m.is_multiple_of(tile.0)
                && n.is_multiple_of(tile.1)
                && k.is_multiple_of(tile.2)
                && !along_m,
            paired: n.is_multiple_of(2) && (is_single || batch.c_stride.is_multiple_of(2)),
            tile,
            stages,
            raster,
            along_m,
            gate,
        };
        if types.input_bytes() != 1 {
            return own;
        }
        let (a, b) = (MatrixLayout::RowMajor, MatrixLayout::ColumnMajor);
        Self { a, b, a_vector: ROW_BYTES, b_vector: ROW_BYTES, ..own }
    }

    /// The instruction, by CuTe's name: of block-scaled operands, one without scales that has the same bytes
    /// in the same lanes.
    fn atom(&self) -> String {
        let (sm, k, [a, b]) = match self.types {
            GemmTypes { scaling: Scaling::BlockScaled(_), .. } => (89, 32, [DataType::E4m3; 2]),
            GemmTypes { a, b, .. } if a.bits() == 16 => (80, 16, [a, b]),
            GemmTypes { a, b, .. } => (89, 32, [a, b]),
        };
        let [a, b] = [a, b].map(|data_type| data_type.ptx().to_uppercase());
        format!("SM{sm}_16x8x{k}_F32{a}{b}F32_TN")
    }

    /// Whether the last elements of a row of memory are none: those of 8 bits to a multiple of 16.
    fn has_gaps(&self) -> bool {
        self.types.input_bytes() == 1 && self.types.scaling.factors().is_none()
    }

    /// Warps along m and n. Neighboring columns of MMAs are those of neighboring warps along n: the one
    /// that has gates has their values, too, if there is one.
    pub(super) fn warps(&self) -> (u32, u32) {
        if self.gate.is_some() { (WARPS.0 * WARPS.1, 1) } else { WARPS }
    }

    /// Repetitions of the MMA, 16 x 8, along the rows and the columns of a warp. A thread has four
    /// accumulators of each, those of the repetitions along the rows one after another.
    pub(super) fn repetitions(&self) -> (u32, u32) {
        let (along_m, along_n) = self.warps();
        (self.tile.0 / (16 * along_m), self.tile.1 / (8 * along_n))
    }

    /// CTAs of a launch.
    pub fn grid(&self, m: u32, n: u32) -> u32 {
        m.div_ceil(self.tile.0) * n.div_ceil(self.tile.1)
    }

    /// C = A·B, each accumulator through an epilogue operation: for kernels of one's own, without
    /// scales. `c` is called after the main loop, so that its address takes none of the registers there.
    #[device]
    pub fn compute<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        a: &Global<A>,
        b: &Global<B>,
        c: &dyn Fn() -> Global<C>,
        extents: (Reg<u32>, Reg<u32>, Reg<u32>),
        epilogue: &dyn EpilogueOp,
    ) {
        let (scales, pitch, before) = (Global::from_address(constant(0u64)), constant(0u32), None);
        let a = MmaSyncOperand { values: *a, scales, pitch, before };
        let b = MmaSyncOperand { values: *b, scales, pitch, before };
        self.multiply(&a, &b, c, extents, epilogue);
    }

    /// C = A·B, with the scales of the operands.
    #[device]
    pub(crate) fn multiply<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        a_operand: &MmaSyncOperand<A>,
        b_operand: &MmaSyncOperand<B>,
        c: &dyn Fn() -> Global<C>,
        (m, n, k): (Reg<u32>, Reg<u32>, Reg<u32>),
        epilogue: &dyn EpilogueOp,
    ) {
        launch::threads(THREADS);
        launch::blocks_per_sm(2);
        let (tile_m, tile_n, tile_k) = self.tile;
        let depth = tile_k / self.types.packing();
        let thread = thread_idx().x;
        let (row, column) = self.tile_of_block(m, n);
        let pitch = self.pitch(k);

        // Each CTA's strips of A (128, 32, k-tiles) and B.
        let a_rows = Rows { rows: m, k_contiguous: self.a == MatrixLayout::RowMajor, vector: self.a_vector };
        let b_rows =
            Rows { rows: n, k_contiguous: self.b == MatrixLayout::ColumnMajor, vector: self.b_vector };
        let a = Strip::new(&a_operand.values, a_rows, pitch, (tile_m, depth), row);
        let b = Strip::new(&b_operand.values, b_rows, pitch, (tile_n, depth), column);

        // The stages: A and B (128, 32, stages), swizzled.
        let a_stages = a.stages(self.stages);
        let b_stages = b.stages(self.stages);

        // Which thread copies and multiplies what.
        let mma = TiledMma::new(&self.atom(), self.warps());
        let part = mma.thread(thread);
        let a_copy = a.copies(&a_stages, thread, m - row * tile_m, self.exact, self.has_gaps());
        let b_copy = b.copies(&b_stages, thread, n - column * tile_n, self.exact, self.has_gaps());
        let a_load = TiledCopy::into_a::<A>(a.matrix_load(), &mma).thread(thread);
        let b_load = TiledCopy::into_b::<B>(b.matrix_load(), &mma).thread(thread);
        let (a_shared, b_shared) = (a_load.source(&a_stages).hoisted(), b_load.source(&b_stages).hoisted());
        let a_registers: Fragment<A> = part.a_fragment((tile_m, depth));
        let b_registers: Fragment<B> = part.b_fragment((tile_n, depth));
        let (a_target, b_target) = (a_load.retile(&a_registers), b_load.retile(&b_registers));
        let mut accumulators: Fragment<f32> = part.c_fragment((tile_m, tile_n));
        accumulators.clear();

        let first = (row * tile_m, column * tile_n);
        let mut promoted = self.types.scaling.granularities().map(|granularities| {
            PromotedTotals::new(self, granularities, (a_operand, b_operand), &part, first, (m, n))
        });
        let mut scales = self
            .types
            .scaling
            .factors()
            .map(|factors| RegisterScales::new(self, factors, (a_operand, b_operand), &part, first));
        if let Some(scales) = &mut scales {
            scales.load(constant(0u32));
        }

        // Prologue: fill all stages but one, and wait for the first.
        let tiles = (k + (tile_k - 1)) / tile_k;
        let units = self.units(k);
        for stage in 0..self.stages - 1 {
            if tiles > stage {
                a_copy.copy(constant(stage), constant(stage), units);
                b_copy.copy(constant(stage), constant(stage), units);
            }
            commit_async_copies();
        }
        let in_flight = self.stages - 2;
        wait_async_copies(in_flight);
        sync_threads();

        // Main loop: while the tensor cores multiply step s, the fragments of step s + 1 are
        // loaded; at the last step of a k-block those are the next one's, which must have arrived
        // for every thread.
        let steps = DEPTH_BYTES / STEP_BYTES;
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
                        a_copy.copy(write, ahead, units);
                        b_copy.copy(write, ahead, units);
                    }
                    commit_async_copies();
                    write = self.after(write);
                }
                let (a_step, b_step) =
                    (a_registers.slice((All, All, step)), b_registers.slice((All, All, step)));
                match &scales {
                    None => gemm(&mma, &mut accumulators, &a_step, &b_step),
                    Some(scales) => scales.multiply(&mma, &mut accumulators, (&a_step, &b_step), step),
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
            let run = 4 * self.repetitions().0;
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

    /// What memory has of `k` elements of a row: as many, or bytes of two.
    #[device]
    fn units(&self, k: Reg<u32>) -> Reg<u32> {
        if self.types.packing() == 1 { k } else { k / self.types.packing() }
    }

    /// The same from the start of a row to the start of the next.
    #[device]
    pub(crate) fn pitch(&self, k: Reg<u32>) -> Reg<u32> {
        if self.has_gaps() { (k + (ROW_BYTES - 1)) / ROW_BYTES * ROW_BYTES } else { self.units(k) }
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

/// The rows of A, or the columns of B, which are called rows here.
struct Rows {
    rows: Reg<u32>,
    k_contiguous: bool,
    /// Bytes that a copy moves: the contiguous extent is a multiple.
    vector: u32,
}

/// An operand's strip of tiles along k.
struct Strip<T> {
    /// (tile's rows, tile's k, tiles along k).
    tiles: Tensor<T, GlobalSpace>,
    /// The tile's (rows, k).
    tile: (u32, u32),
    k_contiguous: bool,
    /// Elements that a copy moves.
    vector: u32,
}

impl<T: Operand> Strip<T> {
    /// The tiles at `position` of an operand whose rows are `pitch` elements apart.
    fn new(
        pointer: &Global<T>,
        Rows { rows, k_contiguous, vector }: Rows,
        pitch: Reg<u32>,
        tile: (u32, u32),
        position: Reg<u32>,
    ) -> Self {
        let vector = vector / T::BYTES;
        let matrix = match k_contiguous {
            true => Layout::new((rows, pitch), (multiple_of(pitch, vector), 1)),
            false => Layout::new((rows, pitch), (1, multiple_of(rows, vector))),
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
        // Elements of a chunk of 16 bytes.
        let chunk = (16 / T::BYTES).ilog2() as _;
        let (strides, swizzle) = match self.k_contiguous {
            true => ((k, 1, elements), Swizzle::new(2, chunk, 3)),
            false => ((1, rows, elements), Swizzle::new(3, chunk, 4)),
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
    /// the matrix; `exact`: all are, and all of every tile's k. `has_gaps`: the end of a row may be in the
    /// middle of a copy.
    fn copies(
        &self,
        stages: &Tensor<T, SharedSpace>,
        thread: Reg<u32>,
        rows_left: Reg<u32>,
        exact: bool,
        has_gaps: bool,
    ) -> StripCopy<T> {
        let (rows, k) = self.tile;
        let vector = self.vector;
        let atom = match vector * T::BYTES {
            16 => "SM80_CP_ASYNC_CACHEGLOBAL<128>",
            8 => "SM80_CP_ASYNC_CACHEALWAYS<64>",
            4 => "SM80_CP_ASYNC_CACHEALWAYS<32>",
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
            has_gaps,
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
    has_gaps: bool,
    vector: u32,
    depth: u32,
}

impl<T: Operand> StripCopy<T> {
    /// Copies tile `tile` along a k of as many elements to a stage; what is outside the matrix becomes zero.
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
            let left = |part: u32| {
                if !self.has_gaps {
                    return constant(bytes);
                }
                let begin = tile * self.depth + self.coordinates.column(part);
                (k.max(begin) - begin).min(bytes)
            };
            let copied = |part: u32| inside(part).select(left(part), 0u32);
            self.copy.copy_async(&to, &from, |part| (!self.exact).then(|| copied(part)));
        }
    }
}

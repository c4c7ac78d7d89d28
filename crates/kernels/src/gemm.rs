//! GEMM on tensor cores, the Ampere way: C = A·B by `cp.async`, `ldmatrix` and `mma.sync`.
//!
//! The seeds' "Global GEMM", finished: any shape, both orders of A and B, a ring of stages, and bounds checked only where
//! a shape needs it.
//!
//! ```text
//! C (m, n)             one CTA: a tile of 128 x 128       one warp of 2 x 2: 64 x 64      one mma.sync: 16 x 8 x 16
//! +-----+-----+        +-------+-------+
//! | CTA | CTA |   ->   | w0    | w2    |            ->    4 x 8 of them a k-step   ->    lane/4 is the row,
//! +-----+-----+        +-------+-------+                  their A and B by ldmatrix       lane%4 the pair of columns
//! | CTA | CTA |        | w1    | w3    |
//! +-----+-----+        +-------+-------+
//!
//! shared memory: a ring of 4 stages, each A (128, 32) and B (128, 32); row r keeps its 16-byte chunk c at c ^ (r/2 % 4),
//! so that eight rows of one chunk, which one ldmatrix phase reads, lie in eight different bank groups.
//! ```

mod asked;
pub mod batched;
pub mod blocks;
mod cost;
mod cublas_in_turn;
pub mod epilogue;
pub mod experts;
mod experts_kernel;
mod experts_library;
mod explain;
mod factor_copy;
pub mod finish;
mod fused;
pub mod grouped;
mod grouped_kernel;
mod grouped_library;
pub mod hopper;
mod kinds;
pub mod legal;
mod library;
pub mod linear;
mod members;
pub mod multiply;
pub mod multiply_scaled;
mod operand;
mod options;
pub mod plan;
pub mod products;
mod quantised;
mod readable;
mod ready;
mod routed;
mod scaled_experts_library;
pub mod scaled_grouped;
mod scaled_grouped_library;
mod scaled_library;
mod scaled_options;
mod scaled_several;
pub mod scales;
mod schedule;
mod split;
mod store;
mod tile_table;
pub mod tune;
pub mod tuned;
mod uneven;
mod verify;
mod warpgroups;
pub mod warps;

use warpwright::lang::conversion::bit_cast;
use warpwright::prelude::*;

use batched::Batch;
use epilogue::{Epilogue, Place, as_it_is};
pub(crate) use experts_library::ExpertsLibrary;
pub(crate) use grouped_library::GroupedLibrary;
pub(crate) use library::Library;
use multiply::Product;
use operand::Strip;
pub use operand::{GemmInput, WarpgroupInput};
pub(crate) use scaled_experts_library::ScaledExpertsLibrary;
pub(crate) use scaled_grouped_library::ScaledGroupedLibrary;
pub(crate) use scaled_library::Library as ScaledLibrary;
use warps::Warps;

/// A type that C can be stored in.
pub trait GemmOutput: Element {
    /// A sum, rounded to this type.
    fn of(sum: Reg<f32>) -> Reg<Self>;
    /// Sums, rounded to this type.
    #[track_caller]
    fn of_all(sums: &Fragment<f32>) -> Fragment<Self>;
    /// An element of C as a sum.
    #[track_caller]
    fn to_sum(element: Reg<Self>) -> Reg<f32>;
}

impl GemmOutput for f32 {
    fn of(sum: Reg<f32>) -> Reg<f32> {
        sum
    }

    fn of_all(sums: &Fragment<f32>) -> Fragment<f32> {
        sums.clone()
    }

    fn to_sum(element: Reg<f32>) -> Reg<f32> {
        element
    }
}

impl GemmOutput for f16 {
    #[track_caller]
    fn of(sum: Reg<f32>) -> Reg<f16> {
        sum.convert()
    }

    #[track_caller]
    fn of_all(sums: &Fragment<f32>) -> Fragment<f16> {
        sums.packed(|first, second| bit_cast(first.pack_f16x2(second)))
    }

    #[track_caller]
    fn to_sum(element: Reg<Self>) -> Reg<f32> {
        element.convert()
    }
}

impl GemmOutput for bf16 {
    #[track_caller]
    fn of(sum: Reg<f32>) -> Reg<bf16> {
        sum.convert()
    }

    #[track_caller]
    fn of_all(sums: &Fragment<f32>) -> Fragment<bf16> {
        sums.packed(|first, second| bit_cast(first.pack_bf16x2(second)))
    }

    #[track_caller]
    fn to_sum(element: Reg<Self>) -> Reg<f32> {
        element.convert()
    }
}

/// Which of a matrix's extents is contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Rows are contiguous.
    RowMajor,
    /// Columns are contiguous.
    ColumnMajor,
}

impl Order {
    /// The order of the transpose.
    pub fn transposed(self) -> Self {
        match self {
            Self::RowMajor => Self::ColumnMajor,
            Self::ColumnMajor => Self::RowMajor,
        }
    }
}

/// C = A·B; A is (m, k), B is (k, n), C is (m, n) and row-major. 16-bit floats are multiplied, and accumulated in `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// The order of A.
    pub a: Order,
    /// The order of B.
    pub b: Order,
    /// How many neighbouring elements of A one copy moves: 8, 4, 2 or 1. A's contiguous extent must be a multiple.
    pub a_vector: u32,
    /// How many neighbouring elements of B one copy moves.
    pub b_vector: u32,
    /// Whether m and n are multiples of the tile and k of its depth: nothing needs a check.
    pub exact: bool,
    /// Whether n is even, so that C can be written in pairs.
    pub paired: bool,
    /// The tile of C that a CTA computes, and how deep one stage is: (m, n, k).
    pub tile: (u32, u32, u32),
    /// Stages of the ring.
    pub stages: u32,
    /// Rows of tiles that are walked together, so that what they share stays in L2.
    pub raster: u32,
}

/// Warps of a CTA along m and n.
const WARPS: (u32, u32) = (2, 2);

/// Threads of a CTA.
pub const THREADS: u32 = 32 * WARPS.0 * WARPS.1;

impl Gemm {
    /// The kernel for a product: the widest copies it allows, and no checks where it needs none.
    pub fn for_product(product: Product) -> Self {
        Self::for_batch(product.into(), Warps::default())
    }

    /// The kernel for a batch of products, in those tiles.
    pub(crate) fn for_batch(batch: Batch, Warps { tile, stages, raster }: Warps) -> Self {
        let Product { m, n, k, a, b } = batch.product;
        let tile = (tile.0, tile.1, warps::DEPTH);
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
            a_vector: widest(if a == Order::RowMajor { k } else { m }, batch.a_stride),
            b_vector: widest(if b == Order::ColumnMajor { k } else { n }, batch.b_stride),
            exact: m.is_multiple_of(tile.0) && n.is_multiple_of(tile.1) && k.is_multiple_of(tile.2),
            paired: n.is_multiple_of(2) && (batch.count == 1 || batch.c_stride.is_multiple_of(2)),
            tile,
            stages,
            raster,
        }
    }

    /// CTAs of a launch.
    pub fn grid(&self, m: u32, n: u32) -> u32 {
        m.div_ceil(self.tile.0) * n.div_ceil(self.tile.1)
    }

    /// C = A·B.
    #[kernel]
    pub fn run<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        c: &mut Global<C>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        self.compute(a, b, c, (m, n, k), &as_it_is());
    }

    /// C = A·B, each sum through an epilogue.
    #[device]
    pub fn compute<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        c: &Global<C>,
        extents: (Reg<u32>, Reg<u32>, Reg<u32>),
        epilogue: &impl Epilogue,
    ) {
        self.compute_into(a, b, || *c, extents, epilogue);
    }

    /// C = A·B, where C is found out when the sums are there: so that its place takes no registers until then, of which the loop has none to
    /// spare.
    #[device]
    fn compute_into<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        c: impl FnOnce() -> Global<C>,
        (m, n, k): (Reg<u32>, Reg<u32>, Reg<u32>),
        epilogue: &impl Epilogue,
    ) {
        launch::threads(THREADS);
        launch::blocks_per_sm(2);
        let (tile_m, tile_n, tile_k) = self.tile;
        let thread = thread_idx().x;
        let (row, column) = self.tile_of_block(m, n);

        // Each CTA's strips of A (128, 32, k-tiles) and B.
        let a = Strip::new(a, self.a == Order::RowMajor, (m, k), self.a_vector, (tile_m, tile_k), row);
        let b = Strip::new(b, self.b == Order::ColumnMajor, (n, k), self.b_vector, (tile_n, tile_k), column);

        // The ring: A and B (128, 32, stages), swizzled.
        let a_ring = a.ring(self.stages);
        let b_ring = b.ring(self.stages);

        // Who copies, who multiplies.
        let mma = TiledMma::new(T::ATOM, WARPS);
        let part = mma.thread(thread);
        let a_copy = a.copies(&a_ring, thread, m - row * tile_m, self.exact);
        let b_copy = b.copies(&b_ring, thread, n - column * tile_n, self.exact);
        let a_load = TiledCopy::into_a::<T>(a.matrix_load(), &mma).thread(thread);
        let b_load = TiledCopy::into_b::<T>(b.matrix_load(), &mma).thread(thread);
        let (a_shared, b_shared) = (a_load.source(&a_ring).hoisted(), b_load.source(&b_ring).hoisted());
        let a_registers: Fragment<T> = part.a_fragment((tile_m, tile_k));
        let b_registers: Fragment<T> = part.b_fragment((tile_n, tile_k));
        let (a_filled, b_filled) = (a_load.retile(&a_registers), b_load.retile(&b_registers));
        let mut sums: Fragment<f32> = part.c_fragment((tile_m, tile_n));
        sums.clear();

        // Fill all stages but one, and wait for the first.
        let tiles = (k + (tile_k - 1)) / tile_k;
        for stage in 0..self.stages - 1 {
            if tiles > stage {
                a_copy.copy(constant(stage), constant(stage), k);
                b_copy.copy(constant(stage), constant(stage), k);
            }
            commit_async_copies();
        }
        let in_flight = (self.stages - 2);
        wait_async_copies(in_flight);
        sync_threads();

        // The loop: while the tensor cores multiply step s, the fragments of step s + 1 are loaded; at the last step of a tile
        // those are the next tile's, which must have arrived, and for every thread.
        let steps = tile_k / 16;
        let mut read = constant(0u32);
        let mut write = constant(self.stages - 1);
        a_load.load_matrix(&a_filled.slice((All, All, 0)), &a_shared.slice((All, All, 0, read)));
        b_load.load_matrix(&b_filled.slice((All, All, 0)), &b_shared.slice((All, All, 0, read)));
        for tile in 0..tiles {
            for step in 0..steps {
                let next = (step + 1) % steps;
                if next == 0 {
                    wait_async_copies(in_flight);
                    sync_threads();
                    read = self.after(read);
                }
                a_load
                    .load_matrix(&a_filled.slice((All, All, next)), &a_shared.slice((All, All, next, read)));
                b_load
                    .load_matrix(&b_filled.slice((All, All, next)), &b_shared.slice((All, All, next, read)));
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
                gemm(&mma, &mut sums, &a_step, &b_step);
            }
        }

        // The epilogue: each lane's pairs of neighbouring columns of the tile of C, in C's type.
        let c = Tensor::with_layout(c(), Layout::new((m, n), (n, 1)));
        let mine = part.c(&c.local_tile((tile_m, tile_n), (row, column)));
        let places = part.c_coordinates((tile_m, tile_n));
        let (rows, columns) = (m - row * tile_m, n - column * tile_n);
        for pair in (0..sums.len()).step_by(2) {
            let values = [0, 1].map(|half| {
                let index = pair + half;
                let (row, column) =
                    (row * tile_m + places.row(index), column * tile_n + places.column(index));
                C::of(epilogue.apply(sums.get(index), Place { row, column, extents: (m, n), origin: None }))
            });
            if self.exact {
                mine.set_vector(pair, values);
            } else if self.paired {
                if places.row(pair) < rows && places.column(pair) < columns {
                    mine.set_vector(pair, values);
                }
            } else {
                for (half, value) in (0..2).zip(values) {
                    if places.row(pair + half) < rows && places.column(pair + half) < columns {
                        mine.set(pair + half, value);
                    }
                }
            }
        }
    }

    /// Tiles of a C.
    #[device]
    fn tiles(&self, m: Reg<u32>, n: Reg<u32>) -> Reg<u32> {
        let rows = (m + (self.tile.0 - 1)) / self.tile.0;
        let columns = (n + (self.tile.1 - 1)) / self.tile.1;
        rows * columns
    }

    /// The tile (row, column) of this CTA: `raster` rows of tiles are walked column by column.
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

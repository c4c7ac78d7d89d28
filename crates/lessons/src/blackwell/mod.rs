//! The ladder of Blackwell lessons: C = A·Bᵀ by `tcgen05.mma`, from tiles that threads copy to a
//! persistent kernel of CTA pairs, one idea per file.
//!
//! | step | file | what it adds |
//! |---|---|---|
//! | `scalar` | [`scalar`] | tensor memory, one thread that issues MMAs; threads copy A and B |
//! | `v1a` | [`core_matrices`] | TMA, columns of 16 bytes: a copy for each |
//! | `v1b` | [`core_matrices`] | one copy of three axes |
//! | `v2a` | [`swizzled`] | rows of 128 bytes, swizzled: a copy for each span |
//! | `v2b` | [`swizzled`] | one copy of three axes |
//! | `v3` | [`stages`] | two stages in flight |
//! | `v4` | [`specialized`] | a warp that loads, a warp that multiplies |
//! | `v5` | [`pair`] | MMAs of two SMs, multicast commits |
//! | `v6` | [`persistent`] | persistent CTAs, two accumulators, an epilogue beside the main loop |
//! | `grouped` | [`persistent`] | tiles in groups of rows |
//! | `tma-store` | [`tma_store`] | C through shared memory, by TMA |
//! | `launch-control` | [`launch_control`] | tiles from the GPU, by cluster launch control |
//!
//! [`nvfp4`] multiplies elements of 4 bits with scales, the workload `blackwell-nvfp4`.
//!
//! The steps `v1a` to `v6` are those of gau-nernst's "tcgen05 for dummies". Each file can be read
//! alone, and the difference between two files is the lesson. `docs/kernels/blackwell-ladder.md` is
//! the chapter. No GPU of this kind was available: the steps run on the emulator (`emu:b200`), and
//! `ptxas` assembles them.

pub mod core_matrices;
pub mod launch_control;
pub mod nvfp4;
mod nvfp4_workload;
pub mod pair;
pub mod persistent;
pub mod scalar;
pub mod specialized;
pub mod stages;
mod step;
pub mod swizzled;
pub mod tma_store;
mod workload;

use warpwright::arch::DataType;
use warpwright::prelude::*;
use warpwright_kernels::gemm::GemmOutput;

pub(crate) use nvfp4_workload::BlackwellNvfp4;
pub(crate) use workload::BlackwellLadder;

/// The tile of C that a CTA computes: rows and columns. Its accumulators are all 128 rows of
/// tensor memory and half of the columns.
pub const TILE: (u32, u32) = (128, 256);

/// Elements of a stage along k: 64 elements of 16 bits are 128 bytes, the widest swizzle's span.
pub const DEPTH: u32 = 64;

/// The MMA of a tile of `columns` columns, of a CTA or of a pair.
#[track_caller]
pub(crate) fn mma<T: GemmOutput>(group: CtaGroup, columns: u32) -> TensorCoreMma {
    let types = TensorCoreTypes { a: T::DATA_TYPE, b: T::DATA_TYPE, d: DataType::F32 };
    TensorCoreMma::new(group, types, TILE.0 * group.ctas(), columns)
}

/// A tile of `rows` rows of A or B, K-major, with the 128-byte swizzle.
pub(crate) fn tile<T: Element>(rows: u32, depth: u32) -> TmaTile {
    TmaTile::new::<T>((rows, depth), Major::K).expect("a lesson's rows are a multiple of 8")
}

/// Tiles of A or B in shared memory, one per stage.
pub(crate) struct SharedTiles<T> {
    first: Shared<T>,
    tensor: Tensor<T, SharedSpace>,
    tile: TmaTile,
}

impl<T: Element> SharedTiles<T> {
    /// `stages` tiles. The pattern of a swizzle repeats every 1024 bytes, so every tile is aligned
    /// to that.
    #[track_caller]
    pub(crate) fn new(tile: TmaTile, stages: u32) -> Self {
        let first = dynamic_shared_aligned(stages * tile.bytes() / T::BYTES, 1024);
        let layout = tile.layout(stages).expect("every tile has a layout");
        Self { first, tensor: Tensor::new(first, layout), tile }
    }

    /// The tile of a stage.
    #[track_caller]
    pub(crate) fn at(&self, stage: impl Value<u32>) -> Shared<T> {
        self.first.at(stage.reg() * (self.bytes() / T::BYTES))
    }

    /// The bytes of one tile: the transaction bytes of its load.
    pub(crate) fn bytes(&self) -> u32 {
        self.tile.bytes()
    }

    /// All tiles: (rows, k, stages).
    pub(crate) fn tensor(&self) -> &Tensor<T, SharedSpace> {
        &self.tensor
    }
}

/// Stores a thread's row of the accumulators to C: the elements of `columns` columns that are in bounds. `product` is
/// the first row of the warp's quarter, of which lane l holds row l.
///
/// ```text
/// tensor memory, rows of warp w: 32 w .. 32 w + 32      lane l: row l, 32 columns a load, 16 bytes a store
/// ```
///
/// A row is stored by one thread: the warp's store touches 32 rows of 16 bytes. Step `tma-store`
/// does better.
#[device]
pub(crate) fn store_row<T: GemmOutput>(
    c: &Global<T>,
    (m, n): (Reg<u32>, Reg<u32>),
    product: TensorMemory,
    (row, column): (Reg<u32>, Reg<u32>),
    columns: u32,
) {
    for first in (0..columns).step_by(32) {
        let accumulators = product.column(first).load::<32>();
        wait_tensor_loads();
        for part in (0..32).step_by(8) {
            let column = column + (first + part);
            if row < m && column < n {
                let eight = std::array::from_fn(|i| T::of(accumulators[part as usize + i].bit_cast()));
                c.at(row * n + column).store_vector::<8>(eight);
            }
        }
    }
}

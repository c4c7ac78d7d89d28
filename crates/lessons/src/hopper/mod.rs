//! The ladder of Hopper lessons: C = A·Bᵀ, from one tile at a time to a kernel that matches cuBLAS,
//! one idea per file.
//!
//! | lesson | file | what it adds |
//! |---|---|---|
//! | 1 | [`tile_copy`] | TMA, tensor maps, an mbarrier that counts bytes |
//! | 2 | [`one_tile`] | `wgmma`, a tile of 64 x 64 |
//! | 3 | [`one_tile`] | a tile of 128 x 128 |
//! | 4 | [`queue`] | a producer, a consumer, and a queue of five stages between them |
//! | 5 | [`two_consumers`] | 128 x 256, two consumer warpgroups, `setmaxnreg` |
//! | 6 | [`persistent`] | one CTA an SM; tiles in groups of rows |
//! | 7 | [`pipeline`] | the same with roles, stages and a pipeline: few arrivals |
//! | 8 | [`cluster`] | clusters of two CTAs, multicast |
//! | 9 | [`overlap`] | two batches of `wgmma` in flight |
//! | 10 | [`tma_store`] | C through shared memory, by `stmatrix` and TMA |
//! | 11 | [`pingpong`] | consumers that take turns |
//! | 12 | [`gemm`](warpwright_kernels::gemm) | the library's GEMM, which chooses tile, cluster and the rest by the shape |
//!
//! The files up to [`persistent`] write everything out: which thread expects how many bytes, who
//! arrives at which barrier and how often, which stage is next. From [`pipeline`] on, the
//! language's objects do that. Each file can be read alone, and the difference between two files is
//! the lesson. `docs/kernels/hopper-ladder.md` is the chapter, with the gain of each step on an
//! H200. The end of each file's header gives the kernel's measured speed; this is the last
//! lesson's:
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `gemm` 703 TFLOP/s, 103.3 % of cublas.

pub mod cluster;
pub mod one_tile;
pub mod overlap;
pub mod persistent;
pub mod pingpong;
pub mod pipeline;
pub mod queue;
mod step;
pub mod tile_copy;
pub mod tma_store;
pub mod two_consumers;
mod workload;

use warpwright::arch::DataType;
use warpwright::layout::atom::{MmaAtom, Types};
use warpwright::prelude::*;

pub(crate) use persistent::TileScheduler;
pub(crate) use workload::HopperLadder;

/// Elements of a tile along k: 64 elements of bf16 are 128 bytes, the width of the widest swizzle.
pub const DEPTH: u32 = 64;

/// A tile of `rows` rows of A or B, K-major, with the 128-byte swizzle.
pub(crate) fn tile(rows: u32) -> TmaTile {
    TmaTile::new::<bf16>((rows, DEPTH), Major::K).expect("a lesson's rows are a multiple of 8")
}

/// The `wgmma` of 64 x `columns`, bf16 into f32.
pub(crate) fn wgmma(columns: u32) -> Result<MmaAtom, warpwright::layout::Error> {
    MmaAtom::wgmma(columns, Types::new(DataType::Bf16, DataType::F32))
}

/// Tiles of A or B in shared memory, one per stage.
pub(crate) struct SharedTiles {
    first: Shared<bf16>,
    tensor: Tensor<bf16, SharedSpace>,
    rows: u32,
}

impl SharedTiles {
    /// `stages` tiles of `rows` rows. The pattern of a swizzle repeats every 1024 bytes, so every
    /// tile is aligned to that.
    #[track_caller]
    pub(crate) fn new(rows: u32, stages: u32) -> Self {
        let first = dynamic_shared_aligned(stages * rows * DEPTH, 1024);
        let layout = tile(rows).layout(stages).expect("every tile has a layout");
        Self { first, tensor: Tensor::new(first, layout), rows }
    }

    /// The tile of a stage.
    #[track_caller]
    pub(crate) fn at(&self, stage: impl Value<u32>) -> Shared<bf16> {
        self.first.at(stage.reg() * (self.rows * DEPTH))
    }

    /// The bytes of one tile: the transaction bytes of its load.
    pub(crate) fn bytes(&self) -> u32 {
        self.rows * DEPTH * bf16::BYTES
    }

    /// All tiles as the operand of `wgmma`: (rows, k, stages).
    pub(crate) fn tensor(&self) -> &Tensor<bf16, SharedSpace> {
        &self.tensor
    }
}

//! Operands of products in shared memory: tiles of ones, 64 deep.

use warpwright::layout::{Error as LayoutError, atom::Major};
use warpwright::prelude::*;

/// The memory of `rows` rows.
#[track_caller]
pub(crate) fn memory_of(rows: u32) -> Shared<u32> {
    dynamic_shared_aligned::<u32>(rows * 32, 1024)
}

/// The tile of `rows` rows in `memory`, as tensor cores read it.
#[track_caller]
pub(crate) fn tile_in(memory: Shared<u32>, rows: u32) -> Tensor<bf16, SharedSpace> {
    let layout = TmaTile::new::<bf16>((rows, 64), Major::K).and_then(|tile| tile.layout(1));
    Tensor::new(memory.cast::<bf16>(), layout.unwrap_or_else(|error: LayoutError| panic!("{error}")))
}

/// A tile of `rows` rows, written by 128 threads.
#[track_caller]
#[device]
pub(crate) fn tile_of_ones(rows: u32) -> Tensor<bf16, SharedSpace> {
    tile_written_by(rows, 32)
}

/// The same where the first lanes of each warp write it.
#[track_caller]
#[device]
pub(crate) fn tile_written_by(rows: u32, lanes: u32) -> Tensor<bf16, SharedSpace> {
    let memory = memory_of(rows);
    if thread_idx().x % 32 < lanes {
        for word in 0..rows * 32 / 128 {
            memory[thread_idx().x + word * 128] = constant(0x3f80_3f80u32);
        }
    }
    tile_in(memory, rows)
}

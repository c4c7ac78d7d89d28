//! What the two kernels of a prefill share: the chunks of packed sequences, and the tiles of a chunk.

use warpwright::layout::Error;
use warpwright::prelude::*;

use crate::delta_rule::problem::{CHUNK, HEAD, Heads};

/// A tile of a chunk's queries or keys as TMA copies it: (64 tokens, 128).
pub(super) fn key_tile() -> Result<TmaTile, Error> {
    TmaTile::new::<bf16>((CHUNK, HEAD), Major::K)
}

/// The same memory, as operand B (n, k) of a product over tokens: (128, 64 tokens).
pub(super) fn key_tile_over_tokens() -> Result<TmaTile, Error> {
    TmaTile::new::<bf16>((HEAD, CHUNK), Major::Mn)
}

/// A box of that memory: (64, 64 tokens).
pub(super) fn square_tile_over_tokens() -> Result<TmaTile, Error> {
    TmaTile::new::<bf16>((CHUNK, CHUNK), Major::Mn)
}

/// A box of TMA, and a chunk's matrix: (64 tokens, 64), rows of 128 bytes with their swizzle.
pub(super) fn square_tile() -> Result<TmaTile, Error> {
    TmaTile::new::<bf16>((CHUNK, CHUNK), Major::K)
}

/// The MMA of a warp.
pub(super) const ATOM: &str = "SM80_16x8x16_F32BF16BF16F32_TN";

/// Elements of a chunk's matrix, and of a box.
pub const SQUARE: u32 = CHUNK * CHUNK;
/// Boxes of a chunk's queries or keys.
pub(super) const BOXES: u32 = HEAD / CHUNK;

/// The tensor of `count` tiles in `memory`.
#[track_caller]
pub(super) fn tiles(
    memory: Shared<bf16>,
    tile: Result<TmaTile, Error>,
    count: u32,
) -> Tensor<bf16, SharedSpace> {
    Tensor::new(memory, tile.expect("a legal tile").layout(count).expect("a legal tile"))
}

/// Starts the copies of `boxes` boxes of 64 columns, from `column` on, of the rows from `token` on.
#[track_caller]
pub(super) fn load_boxes(
    qkv: &TensorMap,
    (column, token): (Reg<u32>, Reg<u32>),
    boxes: u32,
    to: Shared<bf16>,
    barrier: Mbarrier,
) {
    for index in 0..boxes {
        tma::load(*qkv, [column + index * CHUNK, token], to.at(index * SQUARE), barrier);
    }
}

/// A chunk of a sequence.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Chunk {
    /// Its first token.
    pub(super) token: Reg<u32>,
    /// Its tokens: 1 to 64.
    pub(super) length: Reg<u32>,
}

#[device]
impl Chunk {
    /// That of index `chunk`; of no length if there is none. All lanes of a warp make the call.
    pub(super) fn at(chunk: Reg<u32>, sequence_starts: Global<u32>, sequences: Reg<u32>) -> Self {
        // The last sequence that begins at this chunk or before it: one of `among`, from `sequence` on.
        // Lanes try 32 of them at a time; the first has begun.
        let mut sequence = constant(0u32);
        let mut among = sequences;
        while among > 1 {
            let step = among.div_ceil(32);
            let tried = thread_idx().x % 32 * step;
            let mut has_begun = constant(false);
            if tried < among {
                let tried = sequence + tried;
                has_begun = first_chunk(sequence_starts[tried], tried).le(chunk);
            }
            let passed = (warp::ballot(has_begun, ALL_LANES).popc() - 1) * step;
            sequence += passed;
            among = step.min(among - passed);
        }
        let (start, end) = (sequence_starts[sequence], sequence_starts[sequence + 1]);
        let token = (start + (chunk - first_chunk(start, sequence)) * CHUNK).min(end);
        Self { token, length: (end - token).min(CHUNK) }
    }
}

/// The columns of `qkv` where a value head's vectors begin.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Columns {
    pub(super) q: Reg<u32>,
    pub(super) k: Reg<u32>,
    pub(super) v: Reg<u32>,
}

impl Columns {
    #[track_caller]
    pub(super) fn of(heads: Heads, head: Reg<u32>) -> Self {
        let key_head = head / heads.values_per_key();
        let q = key_head * HEAD;
        Self { q, k: q + heads.keys * HEAD, v: (head + 2 * heads.keys) * HEAD }
    }
}

/// Chunks of a sequence among those of all: `sequence_starts[i] / 64 + i` is the first of sequence
/// i. There is room for every chunk, because a sequence has at most one that is not full, and no
/// kernel has to add up lengths.
#[track_caller]
pub(super) fn first_chunk(start: Reg<u32>, sequence: Reg<u32>) -> Reg<u32> {
    start / CHUNK + sequence
}

/// The element (row, column) of a tile with rows of 128 bytes, whose swizzle orders the 16-byte pieces
/// of a row.
#[track_caller]
pub(super) fn swizzled(row: Reg<u32>, column: Reg<u32>) -> Reg<u32> {
    row * CHUNK + ((column / 8) ^ (row % 8)) * 8 + column % 8
}

/// Two numbers rounded to bf16, the first in the lower half.
#[track_caller]
pub(super) fn pair(low: Reg<f32>, high: Reg<f32>) -> Reg<u32> {
    low.pack_bf16x2(high).bit_cast()
}

/// Zeros in registers of their own.
#[track_caller]
pub(super) fn zeros<T: Element + Default, const N: usize>() -> [Reg<T>; N] {
    [(); N].map(|()| constant(T::default()))
}

//! The two matrices of a chunk, T - I and P: lower triangles of 64 x 64, without their zero blocks.
//!
//! A slab has the 16 columns of one k-step of `wgmma`, in rows of 32 bytes with their swizzle. Memory
//! has the rows of a slab from the diagonal on; in shared memory a slab has all its rows, so that
//! every product has the same extents. (`ptxas` waits between products that accumulate in parts
//! of the same registers.) The rows above are zero from the beginning of the kernel on, and no copy
//! overwrites them:
//!
//! ```text
//!              slab 0   1   2   3        packed                   in shared memory
//! tokens  0-15    a   .   .   .          a b c d e f g h i j      a b c d 0 e f g 0 0 h i 0 0 0 j
//!        16-31    b   e   .   .          slab 0  1     2   3      slab 0  1       2       3
//!        32-47    c   f   h   .
//!        48-63    d   g   i   j          5,120 bytes              8,192 bytes
//! ```

use warpwright::layout::Error;
use warpwright::layout::atom::SharedSwizzle;
use warpwright::prelude::*;

use crate::delta_rule::problem::CHUNK;

/// The extent of a block: the columns of a slab.
pub(super) const BLOCK: u32 = 16;
/// Elements of a packed triangle.
pub const TRIANGLE: u32 = packed_start(CHUNK / BLOCK);
/// Elements of 16 bytes.
const PIECE: u32 = 8;

/// The first element of a slab in a packed triangle.
const fn packed_start(slab: u32) -> u32 {
    // The slabs before it have 64, 48, .. rows.
    let rows = slab * CHUNK - BLOCK * (slab * slab.saturating_sub(1) / 2);
    rows * BLOCK
}

/// A triangle in shared memory, as operand B (n, k) of a product over tokens.
pub(super) fn triangle_tile() -> Result<TmaTile, Error> {
    TmaTile::with_swizzle::<bf16>((CHUNK, CHUNK), Major::K, SharedSwizzle::Bytes32)
}

/// The element of a packed triangle at `row` of the chunk, in the rows of `slab`, and at `column` of
/// the slab, where 16 bytes begin.
#[track_caller]
pub(super) fn packed(slab: u32, row: Reg<u32>, column: Reg<u32>) -> Reg<u32> {
    // The swizzle orders the two pieces of a row by turns of four rows.
    let piece = (column / PIECE) ^ (row / 4 % 2);
    row * BLOCK + piece * PIECE + (packed_start(slab) - slab * BLOCK * BLOCK)
}

/// Starts the copies of a packed triangle to shared memory.
#[track_caller]
pub(super) fn load_triangle(from: Global<bf16>, to: Shared<bf16>, barrier: Mbarrier) {
    for slab in 0..CHUNK / BLOCK {
        let zeros = slab * BLOCK * BLOCK;
        let length = CHUNK * BLOCK - zeros;
        bulk::load(from.at(packed_start(slab)), length, to.at(slab * (CHUNK * BLOCK) + zeros), barrier);
    }
}

/// Zeros above the diagonal blocks of a triangle in shared memory, by the first threads of a warpgroup.
#[device]
pub(super) fn clear_above(triangle: Shared<bf16>, thread: Reg<u32>) {
    for slab in 1..CHUNK / BLOCK {
        if thread < slab * BLOCK * BLOCK / PIECE {
            let piece = triangle.at(slab * (CHUNK * BLOCK) + thread * PIECE);
            piece.cast::<u32>().store_vector([constant(0u32); 4]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_follow_one_another() {
        let starts = [0, 1, 2, 3, 4].map(packed_start);
        assert_eq!(starts, [0, 1024, 1792, 2304, 2560]);
        assert!(starts.iter().all(|start| start % 128 == 0), "a swizzle repeats after 256 bytes");
    }
}

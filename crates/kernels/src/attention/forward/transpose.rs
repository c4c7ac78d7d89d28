//! A block of V transposed in shared memory, in place, by three warps.
//!
//! A block of V is made of squares of 128 keys by 128 elements, rows of 128 bytes with the 128-byte
//! swizzle; transposed, a square has 128 rows of keys and the same swizzle. It is made of 4 x 4
//! units of 32 x 32 bytes. A warp exchanges units (i, j) and (j, i), so that nothing but its own
//! lanes reads what it overwrites.
//!
//! ```text
//! a matrix      ldmatrix.trans: of 8 keys by 16 bytes, as pairs of bytes, lane 4c + q receives
//!               elements 2c and 2c + 1 of keys 2q and 2q + 1
//! two of them   keys 0 to 7 and 8 to 15. prmt: element 2c of keys 2q, 2q + 1, 8 + 2q, 9 + 2q in a word,
//!               element 2c + 1 in another
//! stmatrix      rows of 16 bytes: the keys of an element, in the order 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15
//! ```
//!
//! That order of keys is the one of P: four neighboring bytes of operand A are the accumulators of
//! S that a thread has of 16 keys, 2q, 2q + 1, 8 + 2q and 9 + 2q.
//!
//! One instruction loads or stores four matrices: a *tall* half of a unit, 32 rows of 16 bytes, or a
//! *wide* one, 16 rows of 32 bytes. The transpose of a tall half is a wide one. (PTX ISA, "ldmatrix",
//! "stmatrix".)

use warpwright::prelude::*;

/// Keys of a block, and elements of a row of V: a block of V is transposed in squares.
pub const BLOCK: u32 = 128;

/// The side of a square in bytes: the swizzle's span.
pub(super) const SQUARE: u32 = BLOCK;

/// The keys of a stage without a block: no block follows.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// Warps that transpose: in the forward kernel, those of the producer's warpgroup but the one that loads.
pub(super) const WARPS: u32 = 3;

/// The named barrier of these warps in the forward kernel: the first that roles do not use is below it.
pub(super) const BARRIER: u32 = 15;

/// The units that a warp exchanges; (i, i) is transposed where it is.
const EXCHANGES: [&[(u32, u32)]; WARPS as usize] =
    [&[(0, 1), (2, 3), (0, 0), (1, 1)], &[(0, 2), (1, 3), (2, 2)], &[(0, 3), (1, 2), (3, 3)]];

/// Where a lane's row of the first tall and the first wide half of a square is, in bytes from the
/// square's start.
#[derive(Clone, Copy, DeviceValue)]
struct Rows {
    tall: Reg<u32>,
    wide: Reg<u32>,
}

#[device]
impl Rows {
    /// `row` is that of the lane in a pair of matrices, 16 rows of 16 bytes, and `pair` the pair's number.
    fn new(row: Reg<u32>, pair: Reg<u32>) -> Self {
        // A row's 16-byte chunks are permuted by its number modulo 8 (128-byte swizzle).
        let swizzled = |row: Reg<u32>, chunk: Reg<u32>| row * SQUARE + ((row % 8) ^ chunk) * 16u32;
        Self { tall: swizzled(pair * 16 + row, constant(0u32)), wide: swizzled(row, pair) }
    }

    /// The lane's row of half `half` of unit (i, j): the tall half that begins at chunk 2 j + half.
    fn tall(&self, square: Shared<e4m3>, (i, j): (u32, u32), half: u32) -> Shared<e4m3> {
        // Bits 4 to 6 of the address are the chunk.
        let chunk = 2 * j + half;
        (square + (self.tall ^ (chunk * 16))).byte_offset((32 * i * SQUARE).into())
    }

    /// The lane's row of half `half` of unit (i, j): the wide half that begins at row 32 i + 16 half.
    fn wide(&self, square: Shared<e4m3>, (i, j): (u32, u32), half: u32) -> Shared<e4m3> {
        (square + (self.wide ^ (j * 32))).byte_offset(((32 * i + 16 * half) * SQUARE).into())
    }
}

/// A warp's part in transposing blocks of V.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Transposer {
    memory: Shared<e4m3>,
    squares: u32,
    /// The number of this warp among those that transpose.
    warp: Reg<u32>,
    /// The number of the named barrier of these warps.
    barrier: u32,
    /// Where this lane's rows are read and written.
    read: Rows,
    written: Rows,
    /// Which bytes of two words are the first word to be stored, and which the second.
    selectors: [Reg<u32>; 2],
}

#[device]
impl Transposer {
    pub(super) fn new((memory, squares): (Shared<e4m3>, u32), warp: Reg<u32>, barrier: u32) -> Self {
        let lane = thread_idx().x % 32;
        let (pair, matrix, row) = (lane / 16, lane / 8 % 2, lane % 8);
        // Of a matrix to be stored, lanes 0 to 15 hold the even elements and the others the odd, or
        // the other way round: then its 8 rows are in 8 different bank groups.
        let is_odd = row.ge(4).to_u32() ^ matrix;
        let (even, odd) = (0x6420u32, 0x7531u32);
        let upper = lane.ge(16);
        Self {
            memory,
            squares,
            warp,
            barrier,
            read: Rows::new(matrix * 8 + row, pair),
            written: Rows::new(row * 2 + is_odd, pair),
            selectors: [upper.select(odd, even), upper.select(even, odd)],
        }
    }

    /// Transposes the blocks that arrive in `loaded` until a stage has none, and passes them on to
    /// `transposed`. `filled` are the keys of the block in each stage. Of sequences that are `packed`,
    /// a block may hold keys of others past its own.
    pub(super) fn run(
        &self,
        mut loaded: Consumer,
        mut transposed: Producer,
        (filled, packed): (Shared<u32>, bool),
    ) {
        let leads = self.warp.eq(0) & warp::elect(warp::ALL_LANES);
        let mut stage = loaded.wait().index();
        while filled.at(stage).load() != NO_BLOCK {
            let present = packed.then(|| filled.at(stage).load());
            self.transpose(stage, present);
            if leads {
                transposed.load([]);
            }
            stage = loaded.wait().index();
        }
    }

    /// Transposes the block in a stage, for the async proxy. Keys from `present` on, if it is given, become
    /// zeros.
    pub(super) fn transpose(&self, stage: Reg<u32>, present: Option<Reg<u32>>) {
        if let Some(present) = present {
            self.clear_absent(stage, present);
        }
        for square in 0..self.squares {
            let square = self.memory + (stage * self.squares + square) * (SQUARE * SQUARE);
            for (warp, exchanges) in (0u32..).zip(EXCHANGES) {
                if self.warp == warp {
                    for (i, j) in exchanges {
                        self.exchange(square, *i, *j);
                    }
                }
            }
        }
        // wgmma and tensor copies read through the async proxy.
        fence_proxy_async_shared();
        NamedBarrier::new(self.barrier, WARPS * 32).sync();
    }

    /// Zeros for the keys of a block from `present` on: a weight of 0 does not hide NaN.
    fn clear_absent(&self, stage: Reg<u32>, present: Reg<u32>) {
        if present < SQUARE {
            let words = self.memory.cast::<u32>();
            let row = SQUARE / 4;
            for square in 0..self.squares {
                let first = (stage * self.squares + square) * (SQUARE * row);
                let thread = self.warp * 32 + thread_idx().x % 32;
                for word in (present * row + thread..constant(SQUARE * row)).step_by(WARPS * 32) {
                    words.at(first + word).store(0u32);
                }
            }
            NamedBarrier::new(self.barrier, WARPS * 32).sync();
        }
    }

    /// Exchanges units (i, j) and (j, i) of a square, and transposes them.
    fn exchange(&self, square: Shared<e4m3>, i: u32, j: u32) {
        let (read, written) = (self.read, self.written);
        if i == j {
            let halves = [0, 1].map(|half| ldmatrix_transposed(read.tall(square, (i, i), half)));
            // All lanes have read before one writes.
            sync_warp(warp::ALL_LANES);
            for (half, words) in (0..).zip(halves) {
                stmatrix(written.wide(square, (i, i), half), self.joined(words));
            }
            return;
        }
        for half in 0..2 {
            let tall = ldmatrix_transposed(read.tall(square, (i, j), half));
            let wide = ldmatrix_transposed(read.wide(square, (j, i), half));
            sync_warp(warp::ALL_LANES);
            stmatrix(written.wide(square, (j, i), half), self.joined(tall));
            stmatrix(written.tall(square, (i, j), half), self.joined(wide));
        }
    }

    /// The keys of an element in each word, from two pairs of matrices.
    fn joined(&self, [a, b, c, d]: [Reg<u32>; 4]) -> [Reg<u32>; 4] {
        let [first, second] = self.selectors;
        [a.prmt(b, first), a.prmt(b, second), c.prmt(d, first), c.prmt(d, second)]
    }
}

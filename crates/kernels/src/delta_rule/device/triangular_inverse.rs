//! The inverse of a unit triangular matrix: Z = (I + A)⁻¹ - I of a chunk, by two warps.
//!
//! Blocks of 16 x 16 on the diagonal are inverted by substitution in f32: a thread has a row of a
//! block in registers. Blocks below the diagonal follow from those on it, first of 16 x 16, then of
//! 32 x 32:
//!
//! ```text
//! ( I + A₁          )⁻¹   ( T₁            )
//! (   A₂₁    I + A₂ )   = ( -T₂ A₂₁ T₁  T₂ )
//! ```
//!
//! These products are of tensor cores. Operands are split into two bf16, x = high + low, and three
//! products of the parts are summed in f32, so that 2^-16 of a product is lost. T = I + Z, and the
//! products with I are f32.
//!
//! Substitution in the whole matrix takes 528 broadcasts of 16 bytes from shared memory by a warp of
//! the last 32 rows, which are 4 cycles of its SM each; this takes 36, and 80 loads of 4 bytes.

use warpwright::layout::atom::MmaAtom;
use warpwright::prelude::*;

use super::chunk::{ATOM, pair, swizzled, zeros};
use crate::delta_rule::problem::CHUNK;
use crate::rows::RowElement;
use crate::vector;

/// f32 elements from row to row of A in shared memory: rows are aligned to 16 bytes, and the
/// elements of an operand B (4 pairs of rows, 8 columns) are in different banks.
pub(super) const PITCH: u32 = CHUNK + 4;
/// The extent of a block: of m and k of an MMA.
pub(super) const BLOCK: u32 = 16;
/// Columns of an MMA.
const COLUMNS: u32 = 8;
/// Words of a row of Z in bf16.
pub(super) const ROW_WORDS: usize = CHUNK as usize / 2;
/// The extent of the last block below the diagonal.
const LAST: u32 = CHUNK / 2;

/// A of a chunk, which becomes Z, by 64 threads.
#[derive(Clone, Copy)]
pub(super) struct TriangularInverse {
    /// (64, 64) with rows of [`PITCH`]. Nothing is read above the blocks on the diagonal, and A is zero
    /// above its diagonal in these.
    pub(super) matrix: Shared<f32>,
    /// This thread's index.
    pub(super) thread: Reg<u32>,
}

#[device]
impl TriangularInverse {
    /// The blocks of 32 x 32 on the diagonal. The threads synchronize before
    /// [`invert_below`](Self::invert_below).
    pub(super) fn invert_diagonal(&self) {
        let (row, first) = (self.thread, self.thread / BLOCK * BLOCK);
        let block = self.matrix.at(first * PITCH + first);
        let own = self.matrix.at(row * PITCH + first);
        let mut z: Vec<Reg<f32>> =
            (0..BLOCK).step_by(4).flat_map(|j| own.at(j).load_vector::<4>()).map(|a| -a).collect();
        for m in (1..BLOCK).rev() {
            eliminate(&mut z, block.at(m * PITCH), m);
        }
        sync_warp(ALL_LANES);
        for (piece, j) in z.chunks(4).zip((0..BLOCK).step_by(4)) {
            vector::store_lanes(own.at(j), piece, Access::new());
        }
        sync_warp(ALL_LANES);
        self.combine(BLOCK);
    }

    /// The block of 32 x 32 below the diagonal. The threads synchronize before [`row`](Self::row).
    pub(super) fn invert_below(&self) {
        self.combine(LAST);
    }

    /// This thread's row of Z in bf16.
    pub(super) fn row(&self) -> Vec<Reg<u32>> {
        let row = self.thread;
        let early = row.lt(LAST).select(row * PITCH, (row - LAST) * PITCH + LAST);
        let mut words = zeros::<u32, ROW_WORDS>().to_vec();
        for block in 0..CHUNK / BLOCK {
            let first = block * BLOCK;
            if row.ge(first) {
                // See `combine`.
                let from = if first < LAST { early } else { row * PITCH };
                for j in (0..BLOCK).step_by(4) {
                    let z = self.matrix.at(from + (first + j)).load_vector::<4>();
                    let word = ((first + j) / 2) as usize;
                    words[word] = pair(z[0], z[1]);
                    words[word + 1] = pair(z[2], z[3]);
                }
            }
        }
        words
    }

    /// Stores a row of Z to a tile with the 128-byte swizzle.
    pub(super) fn store_row(&self, words: &[Reg<u32>], tile: Shared<bf16>) {
        for (piece, words) in words.chunks(4).enumerate() {
            let at = swizzled(self.thread, constant(8 * piece as u32));
            vector::store_lanes(tile.at(at).cast::<u32>(), words, Access::new());
        }
    }

    /// The blocks of `size` below the diagonal. A warp has 16 rows of one. The last one replaces the
    /// one above the diagonal, so that no warp overwrites what another reads.
    fn combine(&self, size: u32) {
        let (warp, lane) = (self.thread / 32, self.thread % 32);
        let blocks = size / BLOCK;
        let first = warp / blocks * (2 * size);
        let row = first + size + warp % blocks * BLOCK;
        let at = |row: Reg<u32>, column: Reg<u32>| self.matrix.at(row * PITCH + column);
        let (group, pair_of) = (lane / 4, lane % 4 * 2);

        // V = T₂ A₂₁, then T₂₁ = -V T₁.
        let z: Vec<Split> = (0..size)
            .step_by(BLOCK as usize)
            .map(|k| a_operand(at(row + group, first + size + k + pair_of)))
            .collect();
        let mut v = vec![];
        for n in (0..size).step_by(COLUMNS as usize) {
            let mut sums = accumulator(at(row + group, first + n + pair_of));
            for (k, z) in (0..size).step_by(BLOCK as usize).zip(&z) {
                let a = b_operand(at(first + size + k + pair_of, first + n + group));
                multiply_split(&mut sums, z, &a);
            }
            v.push(sums);
        }
        let to = match size < LAST {
            true => at(row, first),
            false => at(row - LAST, first + LAST),
        };
        sync_warp(ALL_LANES);
        let split: Vec<Split> =
            v.chunks(2).map(|columns| Split::of(&[&columns[0][..], &columns[1][..]].concat())).collect();
        for (n, sums) in (0..size).step_by(COLUMNS as usize).zip(&mut v) {
            // T₁ is zero above its diagonal.
            for (k, v) in (0..size).step_by(BLOCK as usize).zip(&split).filter(|(k, _)| k + BLOCK > n) {
                let z = b_operand(at(first + k + pair_of, first + n + group));
                multiply_split(sums, v, &z);
            }
            for half in 0..2 {
                let values = [0, 1].map(|e| -sums[2 * half as usize + e]);
                to.at((group + half * 8) * PITCH + pair_of + n).store_vector(values);
            }
        }
    }
}

/// z_j -= z_m A_mj for j < m: `row` is row m of A.
#[device]
fn eliminate(z: &mut [Reg<f32>], row: Shared<f32>, m: u32) {
    let factor = z[m as usize];
    for first in (0..m).step_by(4) {
        let a = row.at(first).load_vector::<4>();
        for (j, a) in (first..m).zip(a) {
            z[j as usize] = z[j as usize] - factor * a;
        }
    }
}

/// An operand in registers of two bf16: rounded, and what rounding lost.
struct Split {
    high: Vec<Reg<u32>>,
    low: Vec<Reg<u32>>,
}

impl Split {
    /// Of numbers in pairs.
    #[track_caller]
    fn of(values: &[Reg<f32>]) -> Self {
        let high: Vec<Reg<u32>> = values.chunks(2).map(|x| pair(x[0], x[1])).collect();
        let lost = |(x, high): (&[Reg<f32>], &Reg<u32>)| {
            let rounded = bf16::widen(*high);
            pair(x[0] - rounded[0], x[1] - rounded[1])
        };
        let low = values.chunks(2).zip(&high).map(lost).collect();
        Self { high, low }
    }
}

/// `sums` += a b.
#[track_caller]
fn multiply_split(sums: &mut [Reg<f32>], a: &Split, b: &Split) {
    let atom = MmaAtom::named(ATOM).expect("an atom of sm_80");
    for (a, b) in [(&a.low, &b.high), (&a.high, &b.low), (&a.high, &b.high)] {
        mma_sync(sums, a, b, &atom);
    }
}

/// Operand A (16, 16) from this lane's first element.
#[track_caller]
fn a_operand(at: Shared<f32>) -> Split {
    let pairs = [0, 8 * PITCH, 8, 8 * PITCH + 8];
    Split::of(&pairs.map(|offset| at.at(offset).load_vector::<2>()).concat())
}

/// Operand B (k 16, n 8) from this lane's first element.
#[track_caller]
fn b_operand(at: Shared<f32>) -> Split {
    Split::of(&[0, 1, 8, 9].map(|row| at.at(row * PITCH).load()))
}

/// An accumulator (16, 8) from this lane's first element.
#[track_caller]
fn accumulator(at: Shared<f32>) -> Vec<Reg<f32>> {
    [0, 8 * PITCH].map(|offset| at.at(offset).load_vector::<2>()).concat()
}

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

use super::chunk::{ATOM, pair};
use super::parts::{lost, parts};
use super::triangle::{BLOCK, TRIANGLE, packed};
use crate::delta_rule::problem::{CHUNK, Precision};
use crate::vector;

/// f32 elements from row to row of A in shared memory: rows are aligned to 16 bytes, and the
/// elements of an operand B (4 pairs of rows, 8 columns) are in different banks.
pub(super) const PITCH: u32 = CHUNK + 4;
/// Columns of an MMA.
const COLUMNS: u32 = 8;
/// The extent of the last block below the diagonal.
pub(super) const HALF: u32 = CHUNK / 2;

/// A of a chunk and one of its heads, which becomes Z, by 64 threads. Nothing is read above the blocks
/// on the diagonal, and A is zero above its diagonal in these.
#[derive(Clone, Copy)]
pub(super) struct TriangularInverse {
    /// See [`coupling_row`].
    pub(super) couplings: Shared<f32>,
    pub(super) head: Reg<u32>,
    /// This thread's index.
    pub(super) thread: Reg<u32>,
    pub(super) precision: Precision,
}

/// A row of a head among the couplings, rows of [`PITCH`]: the first 32 rows of the heads, of 32
/// columns, stand side by side, and the other rows of a head after those of another.
#[track_caller]
pub(super) fn coupling_row(
    couplings: Shared<f32>,
    head: impl Value<u32>,
    row: impl Value<u32>,
) -> Shared<f32> {
    let (head, row) = (head.reg(), row.reg());
    couplings.at(row * PITCH + head * row.lt(HALF).select(HALF, HALF * PITCH))
}

#[device]
impl TriangularInverse {
    /// The blocks of 32 x 32 on the diagonal, one by each warp. The threads synchronize before
    /// [`store`](Self::store).
    pub(super) fn invert_diagonal(&self) {
        let (diagonal, lane) = (self.diagonal(), self.thread % 32);
        let first = lane / BLOCK * BLOCK;
        let block = diagonal.at(first * PITCH + first);
        let own = diagonal.at(lane * PITCH + first);
        let mut z: Vec<Reg<f32>> =
            (0..BLOCK).step_by(4).flat_map(|j| own.at(j).load_vector::<4>()).map(|a| -a).collect();
        for m in (1..BLOCK).rev() {
            eliminate(&mut z, block.at(m * PITCH), m);
        }
        sync_warp(ALL_LANES);
        for (piece, j) in z.chunks(4).zip((0..BLOCK).step_by(4)) {
            vector::store_lanes(own.at(j), piece, Access::new());
            // Z is zero beside the first block, and `store` multiplies by it.
            if lane < BLOCK {
                own.at(j + BLOCK).store_vector([constant(0f32); 4]);
            }
        }
        sync_warp(ALL_LANES);

        let below = diagonal.at(BLOCK * PITCH);
        let columns = combine(below, below, diagonal, (BLOCK, lane));
        let own = below.at(lane / 4 * PITCH + lane % 4 * 2);
        for (n, values) in (0..BLOCK).step_by(COLUMNS as usize).zip(columns) {
            for (row, pair) in [0, 8].into_iter().zip(values.chunks(2)) {
                own.at(row * PITCH + n).store_vector([pair[0], pair[1]]);
            }
        }
        sync_warp(ALL_LANES);
    }

    /// Stores Z in bf16 to a packed triangle, and in [`Precision::F32`] what that lost to the next one: the blocks that
    /// [`invert_diagonal`](Self::invert_diagonal) computed, a row per thread, and the block of 32 x 32
    /// below them, 16 rows per warp.
    pub(super) fn store(&self, triangle: Shared<bf16>) {
        let (warp, lane) = (self.thread / 32, self.thread % 32);
        let own = self.diagonal().at(lane * PITCH);
        for half in 0..2 {
            if warp == half {
                self.store_row(own, half * 2, triangle);
                if lane >= BLOCK {
                    self.store_row(own.at(BLOCK), half * 2 + 1, triangle);
                }
            }
        }
        let [upper, lower] = [0, HALF].map(|row| coupling_row(self.couplings, self.head, row));
        let row = warp * BLOCK;
        let columns = combine(lower.at(row * PITCH), lower, upper, (HALF, lane));
        for (slab, columns) in (0..HALF / BLOCK).zip(columns.chunks(2)) {
            let pairs = [0, 1, 2, 3].map(|at| {
                let values = &columns[at / 2][at % 2 * 2..];
                [values[0], values[1]]
            });
            let words = parts(self.precision, pairs);
            let to = triangle.at(packed(slab, row + lane % 16 + HALF, lane / 16 * 8));
            for (part, words) in (0..).zip(words) {
                stmatrix(to.at(part * TRIANGLE), words);
            }
        }
    }

    /// This warp's block on the diagonal.
    fn diagonal(&self) -> Shared<f32> {
        let first = self.thread / HALF * HALF;
        coupling_row(self.couplings, self.head, first).at(first)
    }

    /// Stores this thread's row of a block of Z, from `row` on.
    fn store_row(&self, row: Shared<f32>, slab: u32, triangle: Shared<bf16>) {
        for column in [0, 8] {
            let z = [0, 4].map(|j| row.at(column + j).load_vector::<4>()).concat();
            let words = parts(self.precision, [0, 2, 4, 6].map(|j| [z[j], z[j + 1]]));
            let to = triangle.at(packed(slab, self.thread, constant(column)));
            for (part, words) in (0u32..).zip(words) {
                to.at(part * TRIANGLE).cast::<u32>().store_vector(words);
            }
        }
    }
}

/// The 16 rows of a block of Z below the diagonal that this warp has, -T₂ A₂₁ T₁ with blocks of
/// `size`: accumulators (16, 8), along the columns. `rows` has the warp's rows, first of A₂₁, then of
/// Z₂. The lanes have read A₂₁ at the end.
#[device]
fn combine(
    rows: Shared<f32>,
    a21: Shared<f32>,
    z1: Shared<f32>,
    (size, lane): (u32, Reg<u32>),
) -> Vec<Vec<Reg<f32>>> {
    let (group, pair_of) = (lane / 4, lane % 4 * 2);
    let own = rows.at(group * PITCH + pair_of);
    let [a21, z1] = [a21, z1].map(|of| of.at(pair_of * PITCH + group));
    let blocks = || (0..size).step_by(BLOCK as usize);
    // V = T₂ A₂₁, where T₂ = I + Z₂.
    let z: Vec<Split> = blocks().map(|k| a_operand(own.at(size + k))).collect();
    let mut v = vec![];
    for n in (0..size).step_by(COLUMNS as usize) {
        let mut sums = accumulator(own.at(n));
        for (k, z) in blocks().zip(&z) {
            let a = b_operand(a21.at(k * PITCH + n));
            multiply_split(&mut sums, z, &a);
        }
        v.push(sums);
    }
    // T₂₁ = -V T₁, where T₁ = I + Z₁ is zero above its diagonal.
    let split: Vec<Split> =
        v.chunks(2).map(|columns| Split::of(&[&columns[0][..], &columns[1][..]].concat())).collect();
    for (n, sums) in (0..size).step_by(COLUMNS as usize).zip(&mut v) {
        for (k, v) in blocks().zip(&split).filter(|(k, _)| k + BLOCK > n) {
            let z = b_operand(z1.at(k * PITCH + n));
            multiply_split(sums, v, &z);
        }
        sums.iter_mut().for_each(|sum| *sum = -*sum);
    }
    sync_warp(ALL_LANES);
    v
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
        let low = values.chunks(2).zip(&high).map(|(x, high)| lost([x[0], x[1]], *high)).collect();
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

//! A thread's part of the product in registers.

use std::ops::Range;

use warpwright::prelude::*;

use super::super::tiles::Tiles;

/// Accumulators of a thread, all zero.
#[track_caller]
pub fn zeros((rows, columns): (u32, u32)) -> Vec<Vec<Reg<f32>>> {
    (0..rows).map(|_| (0..columns).map(|_| constant(0.0f32)).collect()).collect()
}

/// accumulators += column · row: the outer product of a column of A and a row of B.
///
/// Rows alternate in direction, so that two multiply-adds in turn share an operand, which the
/// register file then need not deliver twice.
#[track_caller]
pub fn add_outer_product(accumulators: &mut [Vec<Reg<f32>>], column: &[Reg<f32>], row: &[Reg<f32>]) {
    for (index, (accumulators, a)) in accumulators.iter_mut().zip(column).enumerate() {
        let last = row.len() - 1;
        for step in 0..=last {
            let at = if index % 2 == 0 { step } else { last - step };
            accumulators[at].fused_add_assign(*a, row[at]);
        }
    }
}

/// Where a thread's elements are in its CTA's tile of C.
#[derive(Clone, Copy, DeviceValue)]
pub struct ThreadPosition {
    /// Its first row.
    pub row: Reg<u32>,
    /// Its first column.
    pub column: Reg<u32>,
}

/// How the lanes of a warp lie in its subtile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneOrder {
    /// Along a row, then along the next.
    Rows,
    /// Two rows at a time: lanes 2i and 2i + 1 are one below the other.
    ///
    /// Of a 16-byte access two quarters of a warp go together where each lane has the address of
    /// the lane beside it or of the one after that. So they do for A and for B.
    Pairs,
}

impl ThreadPosition {
    /// The place of a thread.
    #[track_caller]
    pub fn of(thread: Reg<u32>, tiles: &Tiles, order: LaneOrder) -> Self {
        let (warp, lane) = (thread / 32, thread % 32);
        let (warps_across, lanes_across) = (tiles.warps().1, tiles.lanes().1);
        let (down, across) = match order {
            LaneOrder::Rows => (lane / lanes_across, lane % lanes_across),
            LaneOrder::Pairs => (lane / (2 * lanes_across) * 2 + lane % 2, lane % (2 * lanes_across) / 2),
        };
        Self {
            row: warp / warps_across * tiles.warp.0 + down * tiles.thread.0,
            column: warp % warps_across * tiles.warp.1 + across * tiles.thread.1,
        }
    }
}

impl Tiles {
    /// How far below its first row a thread's row is.
    pub fn row_at(&self, row: u32) -> u32 {
        row / self.thread.0 * self.lanes().0 * self.thread.0 + row % self.thread.0
    }

    /// How far right of its first column a thread's column is.
    pub fn column_at(&self, column: u32) -> u32 {
        column / self.thread.1 * self.lanes().1 * self.thread.1 + column % self.thread.1
    }
}

/// How far a row is moved at k, in a k-block of A that lies transposed: row r at r ^ `exchange(k)`,
/// in groups of four rows.
///
/// Three kinds of writers each find 32 banks: a warp that writes 8 rows at k, k + 4, k + 8 and k +
/// 12; one that writes 4 rows at 8 neighboring k; and a quarter of a warp that writes 4 rows in
/// one access, 8 rows at k, k + 4, k + 8 and k + 12.
pub fn exchange(k: u32) -> u32 {
    4 * (k & 1) + 8 * ((k >> 1 ^ k >> 3) & 1) + 16 * (k >> 2 & 1)
}

/// [`exchange`] of a k that the device knows.
#[track_caller]
pub fn exchange_at(k: Reg<u32>) -> Reg<u32> {
    (k & 1) * 4 + (((k >> 1) ^ (k >> 3)) & 1) * 8 + ((k >> 2) & 1) * 16
}

/// A thread's rows in transposed k-blocks of A: where its first four lie for each of the exchanges
/// that stay within 16 rows.
#[derive(Clone, Copy, DeviceValue)]
pub struct Rows {
    first: [Shared<f32>; 4],
}

impl Rows {
    /// The rows from `row` on, in the k-blocks that begin at `k_blocks`.
    #[track_caller]
    pub fn new(k_blocks: Shared<f32>, row: Reg<u32>) -> Self {
        Self { first: std::array::from_fn(|low| k_blocks.at(row ^ (4 * low as u32))) }
    }

    /// The same rows in the stage `elements` further on.
    #[track_caller]
    pub fn in_stage(self, elements: Reg<u32>) -> Self {
        Self { first: self.first.map(|first| first.at(elements)) }
    }

    /// Four rows, `below` the first ones (a multiple of 16), at k of k-blocks of `bm` rows.
    #[track_caller]
    fn four(&self, k: u32, below: u32, bm: u32) -> [Reg<f32>; 4] {
        let exchange = exchange(k);
        self.first[(exchange % 16 / 4) as usize].at(k * bm + (below ^ exchange & 16)).load_vector()
    }
}

/// accumulators += A·B for k in `along` of a k-block in shared memory: A transposed, and B (BK, BN)
/// from the thread's first column on.
#[track_caller]
pub fn multiply_k_block(
    tiles: &Tiles,
    accumulators: &mut [Vec<Reg<f32>>],
    (a, b): (Rows, Shared<f32>),
    along: Range<u32>,
) {
    let (bm, bn, _) = tiles.block;
    let (rows, columns) = tiles.accumulators();
    for k in along {
        let a: Vec<Reg<f32>> =
            (0..rows).step_by(4).flat_map(|row| a.four(k, tiles.row_at(row), bm)).collect();
        let b: Vec<Reg<f32>> = (0..columns)
            .step_by(4)
            .flat_map(|column| b.at(k * bn + tiles.column_at(column)).load_vector::<4>())
            .collect();
        add_outer_product(accumulators, &a, &b);
    }
}

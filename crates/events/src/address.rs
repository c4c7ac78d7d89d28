//! Addresses in shared memory and in tensor memory.

use warpwright_arch::limits;

/// The rank of a CTA is above this bit of an address of its shared memory (measured on H200).
const RANK_SHIFT: u32 = 24;

/// Rows of a CTA's tensor memory.
pub const TENSOR_ROWS: u32 = limits::TENSOR_MEMORY_LANES;
/// Columns of a CTA's tensor memory.
pub const TENSOR_COLUMNS: u32 = limits::TENSOR_MEMORY_COLUMNS;

/// The first address of the shared memory of the CTA of a rank.
#[inline]
pub fn shared_base(rank: u32) -> u64 {
    u64::from(rank) << RANK_SHIFT
}

/// The rank and the offset in an address of `.shared::cluster`.
#[inline]
pub fn split_shared(address: u64) -> (u32, u64) {
    ((address >> RANK_SHIFT) as u32, address & ((1 << RANK_SHIFT) - 1))
}

/// The location of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MbarrierAddress {
    /// The rank of the CTA it belongs to.
    pub rank: u32,
    /// Its offset in that CTA's shared memory.
    pub offset: u64,
}

impl MbarrierAddress {
    /// Its address in `.shared::cluster`.
    pub fn shared(self) -> u64 {
        shared_base(self.rank) | self.offset
    }
}

/// A 32-bit cell of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The row. (The PTX ISA calls it a lane.)
    pub row: u32,
    /// The column.
    pub column: u32,
}

impl Cell {
    /// The cell at an address of tensor memory.
    pub fn of(address: u32) -> Self {
        Self { row: address >> 16, column: address & 0xffff }
    }

    /// Its address in events, in the CTA of a rank. Rows follow one another, in bytes.
    pub fn byte(self, rank: u32) -> u64 {
        shared_base(rank) | u64::from((self.row * TENSOR_COLUMNS + self.column) * 4)
    }

    /// The cell at an address in events, of which the rank is split off.
    pub fn at_byte(offset: u64) -> Self {
        let cell = offset as u32 / 4;
        Self { row: cell / TENSOR_COLUMNS, column: cell % TENSOR_COLUMNS }
    }
}

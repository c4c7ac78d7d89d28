//! Structured sparsity: which elements of A are stored (PTX ISA, "Matrix Fragments for sparse
//! mma").
//!
//! Half of every group of elements of a row is stored: two of four (f16, bf16, 8 bits), one of two
//! (tf32), or two pairs of four (4 bits). Metadata has two bits for each stored element, or pair:
//! its index in its group. For tf32 it has four bits, 0b0100 for the first of the two and 0b1110
//! for the second.

use warpwright_arch::DataType;

use super::tile::Tile;
use super::{Column, Shape};

/// Which elements of a group are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// One of two, with four bits of metadata.
    OneOfTwo,
    /// Two of four, with two bits of metadata each.
    TwoOfFour,
    /// Two pairs of four, with two bits of metadata each.
    TwoPairsOfFour,
}

impl Granularity {
    /// The granularity of elements that are stored in `stored_bits` bits.
    pub(crate) fn of(stored_bits: usize) -> Self {
        match stored_bits {
            32 => Self::OneOfTwo,
            4 => Self::TwoPairsOfFour,
            _ => Self::TwoOfFour,
        }
    }

    /// The column of a stored element of a row, by the row's metadata.
    pub(crate) fn place(self, metadata: u64, index: usize) -> usize {
        let two_bits = |position: usize| (metadata >> (2 * position) & 3) as usize;
        match self {
            Self::OneOfTwo => 2 * index + usize::from(metadata >> (4 * index) & 0xf == 0xe),
            Self::TwoPairsOfFour => 8 * (index / 4) + 2 * two_bits(index / 2) + index % 2,
            Self::TwoOfFour => 4 * (index / 2) + two_bits(index),
        }
    }
}

/// How the metadata of a shape is spread over the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    element: DataType,
    shape: Shape,
    selector: usize,
}

impl Metadata {
    /// The metadata of the lanes that `selector` chooses.
    pub fn new(shape: Shape, element: DataType, selector: usize) -> Metadata {
        Metadata { element, shape, selector }
    }

    /// Bits of metadata for one row of A.
    fn bits(self) -> usize {
        bits(self.shape, self.element)
    }

    /// The number of selectors for a shape: a row's metadata comes from one, two or four lanes of
    /// each four.
    pub fn selectors(shape: Shape, element: DataType) -> usize {
        (64 / bits(shape, element).max(1)).max(1)
    }

    /// The metadata of a row, lowest group first.
    fn row(self, metadata: &Column, row: usize) -> u64 {
        let (group, half) = (row % 8, row / 8);
        let word = |lane: usize| u64::from(metadata[4 * group + lane]);
        match self.bits() {
            16 => word(self.selector) >> (16 * half) & 0xffff,
            32 if self.element.bits() == 16 || self.element == DataType::Tf32 => {
                let part = |lane: usize| word(2 * self.selector + lane) >> (16 * half) & 0xffff;
                part(0) | part(1) << 16
            }
            32 => word(2 * self.selector + half),
            _ => word(half) | word(2 + half) << 32,
        }
    }

    /// The full A, with zeros for elements that are not stored.
    pub fn expand<T: Copy + Default>(self, stored: &Tile<T>, metadata: &Column) -> Tile<T> {
        let mut full = Tile::zeros(self.shape.m, self.shape.k);
        let granularity = Granularity::of(self.element.bits() as usize);
        for row in 0..self.shape.m {
            let bits = self.row(metadata, row);
            for (index, &value) in stored.row(row).iter().enumerate() {
                full.set(row, granularity.place(bits, index), value);
            }
        }
        full
    }
}

/// Bits of metadata for one row of A.
fn bits(shape: Shape, element: DataType) -> usize {
    match element.bits() {
        32 => shape.k / 2 * 4,
        4 => shape.k / 2,
        _ => shape.k,
    }
}

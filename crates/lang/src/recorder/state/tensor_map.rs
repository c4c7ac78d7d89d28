//! Where tensor maps come from, and what copies by them access.

use std::ops::Range;

/// Where a tensor map comes from.
#[derive(Clone, Debug)]
pub(crate) enum TensorMapOrigin {
    /// One of these maps of a parameter.
    Parameter { index: usize, maps: Range<usize> },
    /// Global memory, or the author declares it untyped.
    Untyped { writable: bool },
}

/// The elements that a copy accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyAccess {
    /// A box.
    Tile,
    /// Pixels of a bounding box.
    Im2col,
    /// Four rows, each a box of its own.
    FourRows,
}

impl CopyAccess {
    /// The boxes of a copy.
    pub(crate) fn boxes(self) -> i64 {
        if self == Self::FourRows { 4 } else { 1 }
    }
}

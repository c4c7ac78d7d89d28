//! The metadata of a sparse A: where in its row each stored element stands.

use super::fragment::fragment;
use super::{Family, MmaAtom};
use crate::{Error, Layout};

/// The metadata of `mma.sp`: an entry for each stored element of A (for each pair, if elements have 4 bits), held by the
/// lanes in one 32-bit register each. (PTX ISA, "Matrix fragments for sparse mma".)
///
/// Of every four elements of a row two are stored, and an entry of 2 bits is the place of one among the four. `tf32` stores
/// one of two, by entries of 4 bits: `0b0100` is the first, `0b1110` the second. Elements of 4 bits are stored by pairs, two
/// pairs of four.
///
/// ```
/// use warpwright_layout::atom::MmaAtom;
/// let atom = MmaAtom::named("SM80_SPARSE_16x8x16_F32F16F16F32_TN")?;
/// let metadata = atom.metadata().expect("sparse atoms have metadata");
/// assert_eq!((metadata.entry_bits, metadata.tile(), metadata.selectors()), (2, (16, 8), 4));
/// // A lane's register holds the eight entries of row lane/4, then those of row lane/4 + 8.
/// assert_eq!(metadata.thread_values()?.to_string(), "((4,8),(8,2)):((0,1),(16,8))");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Bits of one entry.
    pub entry_bits: i64,
    /// Entries of one row of A.
    pub entries: i64,
    /// Bits of one stored element of A.
    element_bits: i64,
}

/// The rows of A in every sparse shape.
const ROWS: i64 = 16;

impl Metadata {
    /// The metadata of a sparse atom.
    pub(super) fn of(atom: &MmaAtom) -> Option<Metadata> {
        if atom.family != Family::SparseWarp {
            return None;
        }
        let (element_bits, depth) = (atom.a.bits(), atom.shape.2);
        let (entry_bits, entries) = match element_bits {
            32 => (4, depth / 2),
            4 => (2, depth / 4),
            _ => (2, depth / 2),
        };
        Some(Metadata { entry_bits, entries, element_bits })
    }

    /// Rows of A and entries of each.
    pub fn tile(&self) -> (i64, i64) {
        (ROWS, self.entries)
    }

    /// How many selectors are legal: 4, 2 or 1, as one, two or all four lanes of four hold the metadata that is read.
    pub fn selectors(&self) -> i64 {
        64 / (self.entries * self.entry_bits)
    }

    /// The thread-value layout: (lane, entry of its register) to an entry of the tile, column-major.
    ///
    /// Lanes that differ in a mode of stride 0 stand for the same entries, and the instruction's selector says which of them
    /// is read: lane `selector` of four where one of four is, lanes `2 * selector` and the next where two are.
    pub fn thread_values(&self) -> Result<Layout, Error> {
        let each = 32 / self.entry_bits;
        let rows = (8, 1);
        match (self.selectors(), self.element_bits) {
            (4, _) => fragment(&[(4, 0), rows], &[(self.entries, ROWS), (2, 8)]),
            (2, 16 | 32) => fragment(&[(2, each / 2 * ROWS), (2, 0), rows], &[(each / 2, ROWS), (2, 8)]),
            (2, _) => fragment(&[(2, 8), (2, 0), rows], &[(each, ROWS)]),
            _ => fragment(&[(2, 8), (2, each * ROWS), rows], &[(each, ROWS)]),
        }
    }

    /// The column of A in which a stored element of a row stands, by its entry.
    ///
    /// ```
    /// use warpwright_layout::atom::MmaAtom;
    /// let metadata = MmaAtom::named("SM80_SPARSE_16x8x16_F32F16F16F32_TN")?.metadata().expect("sparse");
    /// // Stored elements 2 and 3 stand among elements 4 to 7: an entry of 3 is the last of them.
    /// assert_eq!(metadata.column(2, 3), 7);
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn column(&self, stored: i64, entry: i64) -> i64 {
        match self.element_bits {
            32 => 2 * stored + (entry >> 3 & 1),
            4 => 8 * (stored / 4) + 2 * entry + stored % 2,
            _ => 4 * (stored / 2) + entry,
        }
    }

    /// The entry of a stored element: elements of 4 bits share one by pairs.
    pub fn entry_of(&self, stored: i64) -> i64 {
        if self.element_bits == 4 { stored / 2 } else { stored }
    }
}

//! The metadata of a sparse A: the columns of its stored elements.

use super::fragment::fragment;
use super::{MmaAtom, Operand};
use crate::{Error, Layout};

/// The metadata of `mma.sp` and of a sparse `wgmma`: one entry per stored element of A (per pair,
/// for 4-bit elements), in one 32-bit register of each lane. (PTX ISA, "Matrix fragments for sparse
/// mma" and "Sparse matrix storage" of wgmma, whose warps each hold the metadata of their 16 rows.)
///
/// Two of four consecutive elements of a row are stored, and a 2-bit entry is the position of one
/// among the four. `tf32` stores one of two, with 4-bit entries: `0b0100` is the first, `0b1110`
/// the second. 4-bit elements are stored as pairs, two of four pairs.
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
    /// Rows of A: 16 per warp.
    rows: i64,
    /// Bits of one stored element of A.
    element_bits: i64,
}

/// The rows of A that a warp multiplies.
const WARP_ROWS: i64 = 16;

impl Metadata {
    /// The metadata of a sparse atom.
    pub(super) fn of(atom: &MmaAtom) -> Option<Metadata> {
        if !atom.family.is_sparse() {
            return None;
        }
        let (element_bits, depth) = (atom.bits(Operand::A), atom.shape.2);
        let (entry_bits, entries) = match element_bits {
            32 => (4, depth / 2),
            4 => (2, depth / 4),
            _ => (2, depth / 2),
        };
        Some(Metadata { entry_bits, entries, rows: atom.shape.0, element_bits })
    }

    /// Rows of A and entries of each.
    pub fn tile(&self) -> (i64, i64) {
        (self.rows, self.entries)
    }

    /// The number of legal selectors: 4, 2 or 1, if one, two or all four of four lanes hold the
    /// metadata.
    pub fn selectors(&self) -> i64 {
        64 / (self.entries * self.entry_bits)
    }

    /// The thread-value layout: (thread, entry of its register) to an entry of the tile,
    /// column-major.
    ///
    /// Lanes that differ in a mode of stride 0 hold the same entries, and the selector of the
    /// instruction chooses among them: lane `selector` of four if one of four is read, lanes `2 *
    /// selector` and the next if two are.
    pub fn thread_values(&self) -> Result<Layout, Error> {
        let each = 32 / self.entry_bits;
        let column = self.rows;
        let (mut threads, values) = match (self.selectors(), self.element_bits) {
            (4, _) => (vec![(4, 0)], vec![(self.entries, column), (2, 8)]),
            (2, 16 | 32) => (vec![(2, each / 2 * column), (2, 0)], vec![(each / 2, column), (2, 8)]),
            (2, _) => (vec![(2, 8), (2, 0)], vec![(each, column)]),
            _ => (vec![(2, 8), (2, each * column)], vec![(each, column)]),
        };
        threads.push((8, 1));
        if self.rows > WARP_ROWS {
            threads.push((self.rows / WARP_ROWS, WARP_ROWS));
        }
        fragment(&threads, &values)
    }

    /// The registers of all threads for the entries `entry(selector, row, entry)`. A register holds
    /// the entries of [`selectors`](Self::selectors) instructions, each of which names its own by
    /// its selector.
    ///
    /// ```
    /// use warpwright_layout::atom::MmaAtom;
    /// let metadata = MmaAtom::named("SM90_SPARSE_64x8x32_F32F16F16_SS")?.metadata().expect("sparse");
    /// assert_eq!((metadata.tile(), metadata.selectors()), ((64, 16), 2));
    /// // Two instructions: the first keeps the first two of every four elements, the second the last two.
    /// let words = metadata.registers(|selector, _, entry| (2 * selector + entry % 2) as u32)?;
    /// assert_eq!((words.len(), words[0], words[2]), (128, 0x4444_4444, 0xeeee_eeee));
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn registers(&self, entry: impl Fn(i64, i64, i64) -> u32) -> Result<Vec<u32>, Error> {
        let layout = self.thread_values()?;
        let threads = layout.mode(0)?.known_size("threads")?;
        let lanes_chosen = 4 / self.selectors();
        let mut registers = vec![0; threads as usize];
        for (index, place) in layout.offsets()?.into_iter().enumerate() {
            let (thread, value) = (index as i64 % threads, index as i64 / threads);
            let bits = entry(thread % 4 / lanes_chosen, place % self.rows, place / self.rows);
            registers[thread as usize] |= bits << (value * self.entry_bits);
        }
        Ok(registers)
    }

    /// The column of A of a stored element, from its entry.
    ///
    /// ```
    /// use warpwright_layout::atom::MmaAtom;
    /// let metadata = MmaAtom::named("SM80_SPARSE_16x8x16_F32F16F16F32_TN")?.metadata().expect("sparse");
    /// // Stored elements 2 and 3 are among elements 4 to 7; an entry of 3 is the last of these.
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

    /// The entry of a stored element: pairs of 4-bit elements share one.
    pub fn entry_of(&self, stored: i64) -> i64 {
        if self.element_bits == 4 { stored / 2 } else { stored }
    }
}

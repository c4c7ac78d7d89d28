//! `ldmatrix`, `stmatrix` and `movmatrix` (PTX ISA, "Warp-level matrix load", "store" and
//! "transpose").
//!
//! A matrix is 8 rows of 8 16-bit elements. Lane 8 m + r holds the address of row r of matrix m;
//! lane t holds elements 2 (t % 4) and 2 (t % 4) + 1 of row t / 4 in one register, or of column t /
//! 4 when transposed. From sm_100 on, matrices of bytes exist too: transposed, or made of elements of
//! 4 or 6 bits, 16 of which and their padding are a row.

use warpwright_events::{FULL, LANES, Strength, Value, lanes};

use super::address;
use crate::decode::{Decoded, Decoder, Row};
use crate::execution::effect::{Effect, EffectBody, Execution, vectored_effect};
use crate::execution::resolve::{Located, Purpose, addresses, resolve, resolve_store, split_generic};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
use crate::registers::{Registers, Slot, blend};
use crate::tensor::warpgroup_operands::spread;

const ROWS: usize = 8;
const ROW_BYTES: u64 = 16;
/// A matrix by rows, two elements a word.
type Matrix = [[u32; 4]; ROWS];

/// `ldmatrix` and `stmatrix`.
pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let loads = i.base() == "ldmatrix";
    let arrangement = match (i.has("m8n8"), i.has("trans")) {
        (true, true) => Arrangement::Transposed,
        (_, false) => Arrangement::Plain,
        (false, true) => Arrangement::Bytes { paired: loads },
    };
    let spread = i.choose(&[("b6x16_p32", 6), ("b4x16_p64", 4)]);
    let slots = if loads { d.destinations_at(i, 0)? } else { d.sources_at(i, 1)? };
    let address = d.memory_at(i, usize::from(loads))?;
    let space = address::space(i).unwrap_or(Space::Generic);
    let rows = Rows { address, space, arrangement, spread, slots };
    d.emit(Kind::Aligned(if loads { vectored_effect(Load(rows)) } else { vectored_effect(Store(rows)) }));
    Ok(())
}

/// `movmatrix`
pub(super) fn transpose(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let transpose = Transpose { source: d.source_at(i, 1)?, target: d.destination_at(i, 0)? };
    d.emit(Kind::Aligned(Box::new(transpose)));
    Ok(())
}

/// How a register of the warp holds eight rows of 16 bytes.
#[derive(Clone, Copy)]
enum Arrangement {
    /// Lane t holds the t % 4-th word of row t / 4.
    Plain,
    /// Halves t / 4 of rows 2 (t % 4) and the next.
    Transposed,
    /// Bytes t / 4 of rows 2 (t % 4) and the next, then those eight bytes further on. Of a matrix
    /// in two registers (`paired`), rows 0, 1, 4, 5, 8, 9, 12, 13 are in the first. (CUTLASS,
    /// `SM100_U8x4_STSM_T` and `SM100_U8x8_LDSM_T`; not measured.)
    Bytes { paired: bool },
}

impl Arrangement {
    /// The lane with the address of a row of a register.
    fn lane(self, register: usize, row: usize) -> usize {
        match self {
            Arrangement::Bytes { paired: true } => {
                2 * ROWS * (register / 2) + 4 * (row / 2) + 2 * (register % 2) + row % 2
            }
            _ => ROWS * register + row,
        }
    }

    /// The lanes' elements of eight rows.
    #[inline(always)]
    fn hold(self, rows: &Matrix) -> [u32; LANES] {
        match self {
            Arrangement::Plain => *rows.as_flattened().first_chunk().expect("eight rows of four words"),
            Arrangement::Transposed => transposed(rows),
            Arrangement::Bytes { .. } => std::array::from_fn(|lane| {
                (0..4).fold(0, |word, byte| {
                    let (row, place) = byte_place(lane, byte);
                    word | (rows[row][place / 4] >> (8 * (place % 4)) & 0xff) << (8 * byte)
                })
            }),
        }
    }

    /// The rows of which lanes hold this.
    #[inline(always)]
    fn rows(self, held: &[u32; LANES]) -> Matrix {
        match self {
            Arrangement::Plain => matrix(held),
            Arrangement::Transposed => matrix(&transposed(&matrix(held))),
            Arrangement::Bytes { .. } => {
                let mut rows = [[0; 4]; ROWS];
                for (lane, word) in held.iter().enumerate() {
                    for byte in 0..4 {
                        let (row, place) = byte_place(lane, byte);
                        rows[row][place / 4] |= (word >> (8 * byte) & 0xff) << (8 * (place % 4));
                    }
                }
                rows
            }
        }
    }
}

/// The row and column of one of a lane's bytes in a matrix of bytes.
fn byte_place(lane: usize, byte: usize) -> (usize, usize) {
    (2 * (lane % 4) + byte % 2, lane / 4 + 8 * (byte / 2))
}

struct Rows {
    address: AddressOperand,
    space: Space,
    arrangement: Arrangement,
    /// The bits of elements that become a byte each, if there are such.
    spread: Option<u32>,
    slots: Vec<Slot>,
}

impl Rows {
    /// The host's pointers to the rows of all matrices, to load or to store them.
    #[inline(always)]
    fn locate(&self, execution: &mut Execution<'_>, stores: bool) -> Result<[*mut u8; LANES], Box<Failure>> {
        let addresses = addresses(execution, &self.address);
        let count = self.slots.len() * ROWS;
        let mask = if count == LANES { u32::MAX } else { (1 << count) - 1 };
        if self.space != Space::Generic {
            return Ok(self.resolve(execution, self.space, &addresses, mask, stores)?.hosts(&addresses));
        }
        let mut hosts = [std::ptr::null_mut(); LANES];
        for (space, part, addresses) in split_generic(&addresses, mask) {
            let located = self.resolve(execution, space, &addresses, part, stores)?;
            for lane in lanes(part) {
                hosts[lane] = located.lane(lane, &addresses);
            }
        }
        Ok(hosts)
    }

    #[inline(always)]
    fn resolve(
        &self,
        execution: &mut Execution<'_>,
        space: Space,
        addresses: &[u64; LANES],
        mask: u32,
        stores: bool,
    ) -> Result<Located, Box<Failure>> {
        if stores {
            resolve_store(execution, space, addresses, mask, ROW_BYTES, Strength::Weak, |execution| {
                Some(self.values(execution.registers))
            })
        } else {
            resolve(execution, space, addresses, mask, ROW_BYTES, Purpose::LoadTile)
        }
    }

    /// The row that is stored at each lane's address, for the checkers.
    #[cold]
    fn values(&self, registers: &Registers) -> Box<[Value; LANES]> {
        let mut values = Box::new([Value::default(); LANES]);
        for (index, slot) in self.slots.iter().enumerate() {
            let rows = self.arrangement.rows(registers.word(*slot));
            for (row, words) in rows.iter().enumerate() {
                for (bytes, word) in values[ROWS * index + row].chunks_exact_mut(4).zip(words) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        values
    }
}

/// The elements of lane t in a transposed matrix.
#[inline(always)]
fn transposed(matrix: &Matrix) -> [u32; LANES] {
    let mut column = [0; LANES];
    for (lane, word) in column.iter_mut().enumerate() {
        let (outer, inner) = (lane / 4, lane % 4);
        let element = |row: usize| matrix[row][outer / 2] >> (16 * (outer % 2)) & 0xffff;
        *word = element(2 * inner) | element(2 * inner + 1) << 16;
    }
    column
}

/// The matrix of which the lanes hold these words.
#[inline(always)]
fn matrix(column: &[u32; LANES]) -> Matrix {
    let mut matrix = [[0; 4]; ROWS];
    for (row, words) in matrix.iter_mut().enumerate() {
        words.copy_from_slice(&column[4 * row..4 * row + 4]);
    }
    matrix
}

struct Load(Rows);

impl EffectBody for Load {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let hosts = self.0.locate(execution, false)?;
        for (index, slot) in self.0.slots.iter().enumerate() {
            let column = execution.registers.word_mut(*slot);
            if mask == FULL && matches!(self.0.arrangement, Arrangement::Plain) && self.0.spread.is_none() {
                // Row after row: collected in an array first, they would be read back as a vector
                // before their stores complete, and the processor would stall.
                for (words, host) in column.chunks_exact_mut(4).zip(&hosts[ROWS * index..]) {
                    // SAFETY: `locate` found 16 bytes for every row of every matrix.
                    words.copy_from_slice(&unsafe { host.cast::<[u32; 4]>().read_unaligned() });
                }
                continue;
            }
            let mut rows = [[0; 4]; ROWS];
            for (row, words) in rows.iter_mut().enumerate() {
                let host = hosts[self.0.arrangement.lane(index, row)];
                // SAFETY: as above.
                let read = unsafe { host.cast::<[u32; 4]>().read_unaligned() };
                *words = self.0.spread.map_or(read, |width| spread(read, width));
            }
            blend(column, mask, self.0.arrangement.hold(&rows));
        }
        Ok(())
    }
}

struct Store(Rows);

impl EffectBody for Store {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, _: u32) -> Result<(), Box<Failure>> {
        let hosts = self.0.locate(execution, true)?;
        for (index, slot) in self.0.slots.iter().enumerate() {
            let rows = self.0.arrangement.rows(execution.registers.word(*slot));
            for (row, words) in rows.iter().enumerate() {
                // SAFETY: `locate` found 16 bytes for every row of every matrix, that may be
                // written.
                unsafe { hosts[ROWS * index + row].cast::<[u32; 4]>().write_unaligned(*words) };
            }
        }
        Ok(())
    }
}

struct Transpose {
    target: Slot,
    source: Slot,
}

impl Effect for Transpose {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let values = transposed(&matrix(execution.registers.word(self.source)));
        blend(execution.registers.word_mut(self.target), mask, values);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_what_their_lanes_hold() {
        let held: [u32; LANES] = std::array::from_fn(|lane| {
            (0..4).fold(0, |word, byte| word | (4 * lane as u32 + byte) << (8 * byte))
        });
        for arrangement in [Arrangement::Plain, Arrangement::Transposed, Arrangement::Bytes { paired: false }]
        {
            assert_eq!(arrangement.hold(&arrangement.rows(&held)), held);
        }
        // Column 3 of 16 bytes, of which lane 4 r + 1 holds rows r and r + 8.
        let rows = Arrangement::Bytes { paired: false }.rows(&held);
        assert_eq!(rows[3][0].to_le_bytes(), [5, 21, 37, 53]);
        assert_eq!(rows[3][2].to_le_bytes(), [7, 23, 39, 55]);
    }

    #[test]
    fn every_row_of_a_pair_of_registers_has_its_lane() {
        let paired = Arrangement::Bytes { paired: true };
        let mut lanes: Vec<usize> =
            (0..4).flat_map(|register| (0..ROWS).map(move |row| paired.lane(register, row))).collect();
        assert_eq!(lanes[..4], [0, 1, 4, 5]);
        lanes.sort_unstable();
        assert!(lanes.into_iter().eq(0..LANES));
    }
}

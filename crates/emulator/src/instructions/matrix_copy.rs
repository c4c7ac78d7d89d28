//! `ldmatrix`, `stmatrix` and `movmatrix` (PTX ISA, "Warp-level matrix load", "store" and "transpose").
//!
//! A matrix is 8 rows of 8 16-bit elements. Lane 8 m + r gives the address of row r of matrix m; lane t holds elements
//! 2 (t % 4) and 2 (t % 4) + 1 of row t / 4 in one register, or of column t / 4 when transposed.

use warpwright_ptx::syntax::{Instruction, Operand, Type};

use super::{Decoder, address};
use crate::decode::{AddressOperand, DecodeError, Words};
use crate::memory::{Purpose, Space, Trouble, addresses, resolve, split_generic};
use crate::operation::{Effect, EffectBody, Execution, Kind, vectored_effect};
use crate::registers::{LANES, Slot, blend};

const ROWS: usize = 8;
const ROW_BYTES: u64 = 16;
/// A matrix by rows, two elements a word.
type Matrix = [[u32; 4]; ROWS];

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("sync");
    w.take("aligned");
    if !w.take("m8n8") {
        return Err(DecodeError::new("Only matrices of shape .m8n8 are emulated."));
    }
    let transposed = w.take("trans");
    if i.opcode.base() == "movmatrix" {
        w.ty()?;
        d.expect_operands(i, 2)?;
        let target = d.destination(&i.operands[0], Type::B32)?;
        let source = d.source(&i.operands[1], Type::B32)?;
        d.emit(Kind::Aligned(Box::new(Transpose { target, source })));
        return Ok(());
    }
    let count = w.choose(&[("x1", 1), ("x2", 2), ("x4", 4)]).unwrap_or(1);
    let space = address::space(w).unwrap_or(Space::Generic);
    if w.ty()? != Type::B16 {
        return Err(DecodeError::new("Matrices of shape .m8n8 have elements of type .b16."));
    }
    d.expect_operands(i, 2)?;
    let loads = i.opcode.base() == "ldmatrix";
    let (registers, place) = if loads { (0, 1) } else { (1, 0) };
    let elements = d.elements(&i.operands[registers])?;
    if elements.len() != count {
        return Err(DecodeError::new(format!(
            "The instruction names {} registers for {count} matrices.",
            elements.len()
        )));
    }
    let slots: Result<Vec<Slot>, DecodeError> = elements
        .iter()
        .map(|element| match element {
            Operand::Sink => d.destination(element, Type::B32),
            _ if loads => d.destination(element, Type::B32),
            _ => d.source(element, Type::B32),
        })
        .collect();
    let address = d.memory(&i.operands[place])?;
    let rows = Rows { address, space, transposed, slots: slots? };
    d.emit(Kind::Aligned(if loads { vectored_effect(Load(rows)) } else { vectored_effect(Store(rows)) }));
    Ok(())
}

struct Rows {
    address: AddressOperand,
    space: Space,
    transposed: bool,
    slots: Vec<Slot>,
}

impl Rows {
    /// The host's pointers to the rows of all matrices.
    #[inline(always)]
    fn locate(
        &self,
        execution: &mut Execution<'_>,
        purpose: Purpose,
    ) -> Result<[*mut u8; LANES], Box<Trouble>> {
        let addresses = addresses(execution, &self.address);
        let count = self.slots.len() * ROWS;
        let mask = if count == LANES { u32::MAX } else { (1 << count) - 1 };
        let mut hosts = [std::ptr::null_mut(); LANES];
        if self.space == Space::Generic {
            for (space, part, addresses) in split_generic(&addresses, mask) {
                let located = resolve(execution, space, &addresses, part, ROW_BYTES, purpose)?;
                for lane in crate::registers::lanes(part) {
                    hosts[lane] = located.lane(lane, &addresses);
                }
            }
        } else {
            let located = resolve(execution, self.space, &addresses, mask, ROW_BYTES, purpose)?;
            for (lane, host) in hosts.iter_mut().enumerate().take(count) {
                *host = located.lane(lane, &addresses);
            }
        }
        Ok(hosts)
    }
}

/// What lane t holds of a matrix.
#[inline(always)]
fn fragment(matrix: &Matrix, transposed: bool) -> [u32; LANES] {
    let mut column = [0; LANES];
    for (lane, word) in column.iter_mut().enumerate() {
        let (outer, inner) = (lane / 4, lane % 4);
        *word = if transposed {
            let element = |row: usize| matrix[row][outer / 2] >> (16 * (outer % 2)) & 0xffff;
            element(2 * inner) | element(2 * inner + 1) << 16
        } else {
            matrix[outer][inner]
        };
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
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let hosts = self.0.locate(execution, Purpose::LoadTile)?;
        for (index, slot) in self.0.slots.iter().enumerate() {
            let mut column = [0; LANES];
            for (row, words) in column.as_chunks_mut().0.iter_mut().enumerate() {
                // SAFETY: `locate` found 16 bytes for every row of every matrix.
                *words = unsafe { hosts[ROWS * index + row].cast::<[u32; 4]>().read_unaligned() };
            }
            if self.0.transposed {
                column = fragment(&matrix(&column), true);
            }
            blend(execution.registers.word_mut(*slot), mask, column);
        }
        Ok(())
    }
}

struct Store(Rows);

impl EffectBody for Store {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, _: u32) -> Result<(), Box<Trouble>> {
        let hosts = self.0.locate(execution, Purpose::Store)?;
        for (index, slot) in self.0.slots.iter().enumerate() {
            let mut rows = matrix(execution.registers.word(*slot));
            if self.0.transposed {
                rows = matrix(&fragment(&rows, true));
            }
            for (row, words) in rows.iter().enumerate() {
                // SAFETY: `locate` found 16 bytes for every row of every matrix, that may be written.
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
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let transposed = fragment(&matrix(execution.registers.word(self.source)), true);
        blend(execution.registers.word_mut(self.target), mask, transposed);
        Ok(())
    }
}

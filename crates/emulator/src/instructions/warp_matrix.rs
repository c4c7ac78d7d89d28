//! `wmma.load`, `wmma.store` and `wmma.mma` (PTX ISA, "Warp-level matrix load", "store" and
//! "multiply and accumulate").

use warpwright_arch::DataType;
use warpwright_arch::mma::Types;
use warpwright_events::{FULL, LANES, lanes};
use warpwright_ptx::syntax::{Instruction, Type};

use super::{address, matrix};
use crate::decode::{DecodeError, Decoder, Words};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::{Purpose, addresses, resolve, split_generic};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
use crate::registers::{Registers, Slot};
use crate::tensor::Order;
use crate::tensor::fragment::Fragment;
use crate::tensor::warp_matrix::{self, Operand};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    if w.take("mma") {
        return multiply(d, i, w);
    }
    let loads = w.take("load");
    if !loads {
        w.take("store");
    }
    let operand = w.choose(&[
        ("a", Operand::A),
        ("b", Operand::B),
        ("c", Operand::Accumulator),
        ("d", Operand::Accumulator),
    ]);
    let operand =
        operand.ok_or_else(|| DecodeError::new("The instruction does not say which matrix it moves."))?;
    let (shape, orders) = matrix::header(w)?;
    let space = address::space(w).unwrap_or(Space::Generic);
    let element = matrix::element(w)?;
    let fragment = warp_matrix::in_memory(shape, operand, element);
    let (registers, place) = if loads { (0, 1) } else { (1, 0) };
    if !(2..=3).contains(&i.operands.len()) {
        d.expect_operands(i, 3)?;
    }
    let slots = matrix::registers(d, &i.operands[registers], &fragment, element, loads)?;
    let stride = match i.operands.get(2) {
        Some(stride) => Some(d.source(stride, Type::U32)?),
        None => None,
    };
    let address = d.memory(&i.operands[place])?;
    let order = orders.0;
    d.emit(Kind::Aligned(Box::new(Move { loads, address, space, stride, order, element, fragment, slots })));
    Ok(())
}

fn multiply(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let (shape, _) = matrix::header(w)?;
    let integers = matrix::integer_sum(w);
    // MMAs of f64 may name a rounding mode; they always round to nearest.
    w.take("rn");
    let (first, second) = (matrix::element(w)?, matrix::element(w)?);
    // Of f16 only the types of D and C are named.
    let types = match matrix::element(w) {
        Ok(b) => Types { d: first, a: second, b, c: matrix::element(w)? },
        Err(_) => Types { d: first, a: DataType::F16, b: DataType::F16, c: second },
    };
    d.expect_operands(i, 4)?;
    let multiply =
        warp_matrix::multiply(shape, types, integers).map_err(|error| DecodeError::new(error.to_string()))?;
    let slots = matrix::operands(d, i, &multiply)?;
    d.emit(matrix::effect(multiply, slots, None));
    Ok(())
}

/// A fragment between registers and memory.
struct Move {
    loads: bool,
    address: AddressOperand,
    space: Space,
    /// Elements from one row or column to the next; without it they follow each other.
    stride: Option<Slot>,
    order: Order,
    element: DataType,
    fragment: Fragment,
    slots: Box<[Slot]>,
}

impl Move {
    /// Size of the smallest unit of a fragment, in bytes.
    fn bytes(&self) -> u64 {
        u64::from(self.element.bits().max(8) / 8).max(if self.element.bits() < 8 { 4 } else { 1 })
    }

    /// The units from one row or column to the next, of each lane.
    fn strides(&self, registers: &Registers) -> [u64; LANES] {
        let dense = match self.order {
            Order::Row => self.fragment.columns(),
            Order::Column => self.fragment.rows(),
        };
        let units = warp_matrix::units(self.element) as u64;
        match self.stride {
            Some(slot) => registers.word(slot).map(|stride| u64::from(stride) / units),
            None => [dense as u64; LANES],
        }
    }

    /// The addresses of one unit of each lane.
    fn pieces(&self, bases: &[u64; LANES], strides: &[u64; LANES], index: usize) -> [u64; LANES] {
        std::array::from_fn(|lane| {
            let (row, column) = self.fragment.place(lane, index);
            let (outer, inner) = match self.order {
                Order::Row => (row, column),
                Order::Column => (column, row),
            };
            bases[lane].wrapping_add((outer as u64 * strides[lane] + inner as u64) * self.bytes())
        })
    }

    /// The host's bytes of one unit of each lane.
    fn locate(
        &self,
        execution: &mut Execution<'_>,
        pieces: &[u64; LANES],
    ) -> Result<[*mut u8; LANES], Box<Failure>> {
        let purpose = if self.loads { Purpose::LoadTile } else { Purpose::Store };
        let parts = match self.space {
            Space::Generic => split_generic(pieces, FULL),
            space => vec![(space, FULL, *pieces)],
        };
        let mut hosts = [std::ptr::null_mut(); LANES];
        for (space, part, addresses) in parts {
            let located = resolve(execution, space, &addresses, part, self.bytes(), purpose)?;
            for lane in lanes(part) {
                hosts[lane] = located.lane(lane, &addresses);
            }
        }
        Ok(hosts)
    }
}

impl Effect for Move {
    fn execute(&self, execution: &mut Execution<'_>, _: u32) -> Result<(), Box<Failure>> {
        // The stride and the address may be in registers that are loaded.
        let (bases, strides) = (addresses(execution, &self.address), self.strides(execution.registers));
        let bytes = self.bytes() as usize;
        for index in 0..self.fragment.elements() {
            let pieces = self.pieces(&bases, &strides, index);
            let hosts = self.locate(execution, &pieces)?;
            if bytes == 8 {
                let column = execution.registers.long_mut(self.slots[index]);
                for lane in 0..LANES {
                    let host = hosts[lane].cast::<u64>();
                    // SAFETY: `locate` found 8 bytes for every lane, that may be written if this is
                    // a store.
                    unsafe {
                        if self.loads {
                            column[lane] = host.read_unaligned();
                        } else {
                            host.write_unaligned(column[lane]);
                        }
                    }
                }
                continue;
            }
            let each = 4 / bytes;
            let column = execution.registers.word_mut(self.slots[index / each]);
            let first = index % each * bytes;
            for lane in 0..LANES {
                let mut word = column[lane].to_le_bytes();
                let piece = &mut word[first..first + bytes];
                // SAFETY: `locate` found `bytes` bytes for every lane, that may be written if this
                // is a store.
                unsafe {
                    if self.loads {
                        std::ptr::copy_nonoverlapping(hosts[lane], piece.as_mut_ptr(), bytes);
                    } else {
                        std::ptr::copy_nonoverlapping(piece.as_ptr(), hosts[lane], bytes);
                    }
                }
                column[lane] = u32::from_le_bytes(word);
            }
        }
        Ok(())
    }
}

//! `wmma.load`, `wmma.store` and `wmma.mma` (PTX ISA, "Warp-level matrix load", "store" and
//! "multiply and accumulate").

use warpwright_arch::DataType;
use warpwright_arch::mma::Types;
use warpwright_events::{FULL, LANES, lanes};

use super::{address, matrix};
use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::{Purpose, addresses, resolve, split_generic};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
use crate::registers::{Registers, Slot};
use crate::tensor::Order;
use crate::tensor::fragment::Fragment;
use crate::tensor::warp_matrix::{self, Operand};

/// `wmma.load` and `wmma.store`
pub(super) fn decode_memory(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let operands =
        [("a", Operand::A), ("b", Operand::B), ("c", Operand::Accumulator), ("d", Operand::Accumulator)];
    let operand = i.must("matrix", &operands)?;
    let (shape, (order, _)) = matrix::header(i)?;
    let element = i.find(DataType::from_ptx).ok_or_else(|| i.names_no("type"))?;
    let loads = i.has("load");
    let slots = if loads { d.destinations_at(i, 0)? } else { d.sources_at(i, 1)? };
    let fragment = Move {
        loads,
        address: d.memory_at(i, usize::from(loads))?,
        space: address::space(i).unwrap_or(Space::Generic),
        stride: if i.operands.len() > 2 { Some(d.source_at(i, 2)?) } else { None },
        order,
        element,
        fragment: warp_matrix::in_memory(shape, operand, element),
        slots: slots.into(),
    };
    d.emit(Kind::Aligned(Box::new(fragment)));
    Ok(())
}

/// `wmma.mma`
pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let (shape, _) = matrix::header(i)?;
    let types = match matrix::data_types(i)[..] {
        // Of f16 only the types of D and C are named.
        [d, c] => Types { d, a: DataType::F16, b: DataType::F16, c },
        [d, a, b, c] => Types { d, a, b, c },
        _ => return Err(i.names_no("types of its matrices")),
    };
    let multiply = warp_matrix::multiply(shape, types, matrix::integer_sum(i))
        .map_err(|error| DecodeError::new(error.to_string()))?;
    let slots = matrix::operands(d, i)?;
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

//! `ld`, `ldu` (PTX ISA, "Data Movement and Conversion Instructions").

use warpwright_events::{AccessKind, LANES, lanes};
use warpwright_ptx::syntax::Type;

use super::access::{self, Access, Column, Decoding, Direction, Element};
use crate::decode::{Decoded, Decoder, File, Row};
use crate::execution::effect::Execution;
use crate::execution::resolve::{Located, Purpose, resolve_ordered};
use crate::lanes::{Operands, one};
use crate::launch::failure::Failure;
use crate::memory::{BaseOperand, Space};

struct Load;

impl Direction for Load {
    const KIND: AccessKind = AccessKind::Read;
    const PURPOSE: Purpose = Purpose::Load;

    #[inline(always)]
    fn linear<T: Element>(
        access: &Access<T, Self>,
        execution: &mut Execution<'_>,
        space: Space,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>> {
        let (size, strength) = (access.size(), access.ordered.strength);
        let _turn = access.ordered.turn(execution, space);
        let located = resolve_ordered(execution, space, addresses, mask, size, Purpose::Load, strength)?;
        let registers = &mut *execution.registers;
        match &located {
            Located::Together { host, uniform: true, .. } => {
                for (index, register) in access.registers.iter().enumerate() {
                    // SAFETY: `resolve` found `size` bytes for every lane, and all lanes have the
                    // same.
                    let value = unsafe { host.cast::<T>().add(index).read_unaligned() };
                    register.write(registers, mask, [value; LANES]);
                }
            }
            Located::Together { host, contiguous: true, .. } if access.registers.len() == 1 => {
                // SAFETY: `resolve` found 32 elements one after another.
                let values = unsafe { host.cast::<[T; LANES]>().read_unaligned() };
                access.registers[0].write(registers, mask, values);
            }
            _ => {
                let hosts = located.hosts(addresses);
                for (index, register) in access.registers.iter().enumerate() {
                    // SAFETY: `resolve` found `size` bytes for every lane of the mask.
                    let element =
                        |lane: usize| unsafe { hosts[lane].cast::<T>().add(index).read_unaligned() };
                    register.fill(registers, mask, element);
                }
            }
        }
        access.ordered.acquires(execution, space, addresses, mask, AccessKind::Read);
        Ok(())
    }

    #[inline(always)]
    fn columns<T: Element>(
        register: Column,
        execution: &mut Execution<'_>,
        start: u64,
        mask: u32,
    ) -> Option<()> {
        let mut words = [[0; LANES]; 4];
        for (part, words) in words.iter_mut().enumerate().take(size_of::<T>() / 4) {
            *words = *execution.local.column(start + 4 * part as u64)?;
        }
        let mut values = [T::default(); LANES];
        for lane in 0..LANES {
            let [a, b, c, x] = words.map(|column| u64::from(column[lane]));
            values[lane] = T::of(a | b << 32, c | x << 32);
        }
        register.write(execution.registers, mask, values);
        Some(())
    }

    fn bytes<T: Element>(
        register: Column,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        offset: u64,
        mask: u32,
    ) -> u32 {
        let (mut bad, mut values) = (0, [T::default(); LANES]);
        for lane in lanes(mask) {
            let mut bytes = [0; 16];
            if execution.local.read(lane, addresses[lane] + offset, &mut bytes[..size_of::<T>()]).is_none() {
                bad |= 1 << lane;
            }
            let value = u128::from_le_bytes(bytes);
            values[lane] = T::of(value as u64, (value >> 64) as u64);
        }
        register.write(execution.registers, mask, values);
        bad
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let ty = i.ty()?;
    let load = access::operands(d, i, ty, 0)?;
    if load.space == Space::Parameter && is_of_parameters(d, &load, ty) {
        return load_parameters(d, &load, ty);
    }
    by_type!(i, ty, [i8, i16, i32, u8, u16, u32, u64, u128], load.emit::<T, Load>(d))
}

/// Whether it is a load of kernel parameters by name.
fn is_of_parameters(d: Decoder<'_, '_, '_>, load: &Decoding, ty: Type) -> bool {
    let (offset, size) = (load.address.offset, i64::from(ty.bytes()) * load.registers.len() as i64);
    let is_inside = offset >= 0 && offset + size <= i64::from(d.parameter_bytes());
    let is_narrow = ty.bytes() <= 8 && load.registers.iter().all(|register| register.file != File::Quad);
    load.address.base == BaseOperand::Absolute && is_inside && is_narrow && offset % size == 0
}

/// Copies columns that were filled when the warp started.
fn load_parameters(d: Decoder<'_, '_, '_>, load: &Decoding, ty: Type) -> Decoded {
    let bytes = ty.bytes();
    let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64);
    for (index, register) in load.registers.iter().enumerate() {
        let offset = load.address.offset as u32 + index as u32 * bytes;
        let source = d.parameter(offset, bytes, signed, register.file);
        let operands = Operands { d: register.slot, a: source, ..Operands::default() };
        match register.file {
            File::Long => d.lanes(operands, one(|a: u64| a))?,
            _ => d.lanes(operands, one(|a: u32| a))?,
        }
    }
    Ok(())
}

//! `st` (PTX ISA, "Data Movement and Conversion Instructions").

use warpwright_events::{AccessKind, LANES, Value, lanes};

use super::access::{self, Access, Column, Direction, Element, each};
use super::{fill, remote};
use crate::decode::{Decoded, Decoder, Row};
use crate::execution::effect::Execution;
use crate::execution::resolve::{Located, Purpose, resolve_store};
use crate::launch::failure::Failure;
use crate::memory::Space;
use crate::registers::{Registers, blend};

struct Store;

impl Direction for Store {
    const KIND: AccessKind = AccessKind::Write;
    const PURPOSE: Purpose = Purpose::Store;

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
        let located = resolve_store(execution, space, addresses, mask, size, strength, |execution| {
            values(access, execution.registers)
        })?;
        access.ordered.publishes(execution, space, addresses, mask, AccessKind::Write);
        if let Located::Together { host, contiguous: true, .. } = &located
            && let [register] = &access.registers[..]
        {
            // SAFETY: `resolve` found 32 elements one after another, that may be written.
            unsafe { host.cast::<[T; LANES]>().write_unaligned(register.read(execution.registers)) };
            return Ok(());
        }
        let hosts = located.hosts(addresses);
        for (index, register) in access.registers.iter().enumerate() {
            let values = register.read::<T>(execution.registers);
            // SAFETY: `resolve` found `size` bytes for every lane of the mask, that may be written.
            each(mask, |lane| unsafe {
                hosts[lane].cast::<T>().add(index).write_unaligned(values[lane]);
            });
        }
        Ok(())
    }

    #[inline(always)]
    fn columns<T: Element>(
        register: Column,
        execution: &mut Execution<'_>,
        start: u64,
        mask: u32,
    ) -> Option<()> {
        let values = register.read::<T>(execution.registers);
        for part in 0..size_of::<T>() / 4 {
            let column = execution.local.column_mut(start + 4 * part as u64)?;
            let word =
                |value: T| (if part < 2 { value.low() } else { value.high() } >> (32 * (part % 2))) as u32;
            blend(column, mask, values.map(word));
        }
        Some(())
    }

    fn bytes<T: Element>(
        register: Column,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        offset: u64,
        mask: u32,
    ) -> u32 {
        let values = register.read::<T>(execution.registers);
        let mut write = |lane: usize| {
            let bytes = &bytes(values[lane])[..size_of::<T>()];
            execution.local.write(lane, addresses[lane] + offset, bytes)
        };
        lanes(mask).filter(|&lane| write(lane).is_none()).fold(0, |bad, lane| bad | 1 << lane)
    }
}

/// The bytes of an element, then zeros.
fn bytes<T: Element>(value: T) -> [u8; 16] {
    (u128::from(value.low()) | u128::from(value.high()) << 64).to_le_bytes()
}

/// The values that each lane stores, for observers.
fn values<T: Element>(access: &Access<T, Store>, registers: &Registers) -> Option<Box<[Value; LANES]>> {
    let mut values = Box::new([Value::default(); LANES]);
    for (index, register) in access.registers.iter().enumerate() {
        let first = index * size_of::<T>();
        let elements = register.read::<T>(registers);
        for lane in 0..LANES {
            let place = values[lane].get_mut(first..first + size_of::<T>())?;
            place.copy_from_slice(&bytes(elements[lane])[..size_of::<T>()]);
        }
    }
    Some(values)
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("bulk") {
        return fill::decode(d, i);
    }
    // `st.async.release` completes at some time, as every store does.
    if i.has("async") && !i.has("release") {
        return remote::store(d, i);
    }
    let ty = i.ty()?;
    let store = access::operands(d, i, ty, 1)?;
    by_type!(i, ty, [u8, u16, u32, u64, u128], store.emit::<T, Store>(d))
}

//! `st` (PTX ISA, "Data Movement and Conversion Instructions").

use warpwright_events::{AccessKind, FULL, LANES, Value, lanes};
use warpwright_ptx::syntax::Instruction;

use super::load::observe_local;
use super::memory_words::{
    Ordered, Semantics, WIDEST, cache_hints, check_width, ordered, policy, space_of, vector,
};
use super::{address, fill, remote};
use crate::decode::{DecodeError, Decoder, File, Words, elements, unsupported};
use crate::execution::effect::{EffectBody, Execution, vectored_effect};
use crate::execution::resolve::{Located, Purpose, addresses, bad_access, resolve_store, split_generic};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space, common_address};
use crate::operation::kind::Kind;
use crate::registers::{Registers, Slot, blend};

/// A value in memory, cut from a register.
trait Element: Copy + Default + Send + Sync + 'static {
    fn cut(low: u64, high: u64) -> Self;
    fn bytes(self) -> [u8; 16];
    fn word(self, index: usize) -> u32;
}

macro_rules! elements {
    ($($ty:ty),*) => {$(
        impl Element for $ty {
            #[inline(always)]
            fn cut(low: u64, high: u64) -> Self {
                (u128::from(low) | u128::from(high) << 64) as Self
            }

            #[inline(always)]
            fn bytes(self) -> [u8; 16] {
                (self as u128).to_le_bytes()
            }

            #[inline(always)]
            fn word(self, index: usize) -> u32 {
                (self as u128 >> (32 * index)) as u32
            }
        }
    )*};
}

elements!(u8, u16, u32, u64, u128);

/// A register that a store reads.
#[derive(Clone, Copy, Debug)]
struct Source {
    file: File,
    slot: Slot,
}

impl Source {
    #[inline(always)]
    fn read<T: Element>(self, registers: &Registers) -> [T; LANES] {
        let mut values = [T::default(); LANES];
        match self.file {
            File::Word | File::Predicate => {
                let column = registers.word(self.slot);
                for lane in 0..LANES {
                    values[lane] = T::cut(column[lane].into(), 0);
                }
            }
            File::Long => {
                let column = registers.long(self.slot);
                for lane in 0..LANES {
                    values[lane] = T::cut(column[lane], 0);
                }
            }
            File::Quad => {
                let (low, high) = (registers.long(self.slot), registers.long(self.slot + 1));
                for lane in 0..LANES {
                    values[lane] = T::cut(low[lane], high[lane]);
                }
            }
        }
        values
    }
}

struct Store<T> {
    address: AddressOperand,
    space: Space,
    ordered: Ordered,
    sources: Vec<Source>,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> EffectBody for Store<T> {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        self.ordered.before();
        let addresses = addresses(execution, &self.address);
        match self.space {
            Space::Generic => self.generic(execution, &addresses, mask),
            Space::Local => {
                execution.changes_nothing();
                self.local(execution, &addresses, mask)
            }
            space => self.linear(execution, space, &addresses, mask),
        }
    }
}

impl<T: Element> Store<T> {
    fn generic(
        &self,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>> {
        let size = (self.sources.len() * size_of::<T>()) as u64;
        for (space, part, addresses) in split_generic(addresses, mask) {
            check_width(space, size, part)?;
            match space {
                Space::Local => self.local(execution, &addresses, part)?,
                space => self.linear(execution, space, &addresses, part)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn linear(
        &self,
        execution: &mut Execution<'_>,
        space: Space,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>> {
        let size = (self.sources.len() * size_of::<T>()) as u64;
        let strength = self.ordered.strength;
        let _turn = self.ordered.turn(execution, space);
        let located = resolve_store(execution, space, addresses, mask, size, strength, |execution| {
            self.values(execution.registers)
        })?;
        self.ordered.publishes(execution, space, addresses, mask, AccessKind::Write);
        if let Located::Together { host, contiguous: true, .. } = &located
            && let [source] = &self.sources[..]
        {
            // SAFETY: `resolve` found 32 elements one after another, that may be written.
            unsafe { host.cast::<[T; LANES]>().write_unaligned(source.read(execution.registers)) };
            return Ok(());
        }
        let hosts = located.hosts(addresses);
        for (index, source) in self.sources.iter().enumerate() {
            let values = source.read::<T>(execution.registers);
            if mask == FULL {
                for (value, host) in values.into_iter().zip(hosts) {
                    // SAFETY: `resolve` found `size` bytes for every lane, that may be written.
                    unsafe { host.cast::<T>().add(index).write_unaligned(value) };
                }
            } else {
                for lane in lanes(mask) {
                    // SAFETY: `resolve` found `size` bytes for every lane of the mask, that may be
                    // written.
                    unsafe { hosts[lane].cast::<T>().add(index).write_unaligned(values[lane]) };
                }
            }
        }
        Ok(())
    }

    /// The values of each lane, for observers.
    fn values(&self, registers: &Registers) -> Option<Box<[Value; LANES]>> {
        let mut values = Box::new([Value::default(); LANES]);
        for (index, source) in self.sources.iter().enumerate() {
            let first = index * size_of::<T>();
            let elements = source.read::<T>(registers);
            for lane in 0..LANES {
                let bytes = elements[lane].bytes();
                values[lane]
                    .get_mut(first..first + size_of::<T>())?
                    .copy_from_slice(&bytes[..size_of::<T>()]);
            }
        }
        Some(values)
    }

    /// Whole words at the same offset in all lanes, as spills and frames are.
    #[inline(always)]
    fn local_columns(&self, execution: &mut Execution<'_>, start: u64, mask: u32) -> Option<()> {
        for (index, source) in self.sources.iter().enumerate() {
            let values = source.read::<T>(execution.registers);
            for part in 0..size_of::<T>() / 4 {
                let column =
                    execution.local.column_mut(start + (index * size_of::<T>() + 4 * part) as u64)?;
                blend(column, mask, values.map(|value| value.word(part)));
            }
        }
        Some(())
    }

    #[inline(always)]
    fn local(
        &self,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>> {
        let size = (self.sources.len() * size_of::<T>()) as u64;
        if execution.block.observer.listens() {
            observe_local(execution, addresses, mask, size, AccessKind::Write);
        }
        if size_of::<T>() >= 4
            && let Some(start) = common_address(addresses, mask)
            && start.is_multiple_of(size)
            && self.local_columns(execution, start, mask).is_some()
        {
            if execution.block.observer.listens() {
                execution.local.note_write(addresses, mask, size);
            }
            return Ok(());
        }
        self.local_bytes(execution, addresses, mask, size)
    }

    fn local_bytes(
        &self,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        mask: u32,
        size: u64,
    ) -> Result<(), Box<Failure>> {
        let mut bad = 0;
        for (index, source) in self.sources.iter().enumerate() {
            let values = source.read::<T>(execution.registers);
            for lane in lanes(mask) {
                let address = addresses[lane] + (index * size_of::<T>()) as u64;
                let bytes = values[lane].bytes();
                if !addresses[lane].is_multiple_of(size)
                    || execution.local.write(lane, address, &bytes[..size_of::<T>()]).is_none()
                {
                    bad |= 1 << lane;
                }
            }
        }
        if bad != 0 {
            return Err(bad_access(execution, Space::Local, addresses, bad, size, Purpose::Store));
        }
        Ok(())
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    if i.opcode.has("bulk") {
        return fill::decode(d, i, w);
    }
    // `st.async.release` completes at some time, as every store does.
    if w.take("async") && !i.opcode.has("release") {
        return remote::store(d, i, w);
    }
    let ordered = ordered(w, Semantics::Weak);
    let named = address::space(w);
    let hinted = cache_hints(w);
    let count = vector(w);
    let ty = w.ty()?;
    d.expect_operands(i, 2 + usize::from(hinted))?;
    if hinted {
        policy(d, i.operands.get(2))?;
    }
    let elements = elements(&i.operands[1]);
    if elements.len() != count {
        return Err(DecodeError::new(format!(
            "The store names {} registers, and its type has {count}.",
            elements.len()
        )));
    }
    let mut sources = Vec::new();
    for element in elements {
        let register = d.wide_source(element, ty)?;
        if register.file == File::Predicate || register.ty.bytes() < ty.bytes() {
            return Err(DecodeError::new(format!(
                "`{element}` is too narrow for a store of .{}.",
                ty.word()
            )));
        }
        sources.push(Source { file: register.file, slot: register.slot });
    }
    let address = d.memory(&i.operands[0])?;
    let space = space_of(d, named, &address);
    if u64::from(ty.bytes()) * count as u64 >= WIDEST && !matches!(space, Space::Global | Space::Generic) {
        return Err(DecodeError::new("Loads and stores of 256 bits are of global memory only."));
    }
    macro_rules! emit {
        ($ty:ty) => {
            d.emit(Kind::Effect(vectored_effect(Store::<$ty> {
                address,
                space,
                ordered,
                sources,
                element: std::marker::PhantomData,
            })))
        };
    }
    match ty.bytes() {
        1 => emit!(u8),
        2 => emit!(u16),
        4 => emit!(u32),
        8 => emit!(u64),
        16 => emit!(u128),
        _ => return Err(unsupported(i, ty)),
    }
    Ok(())
}

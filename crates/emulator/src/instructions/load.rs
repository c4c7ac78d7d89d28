//! `ld`, `ldu` (PTX ISA, "Data Movement and Conversion Instructions").

use warpwright_events::{AccessKind, Event, FULL, LANES, MemorySpace, Strength, lanes};
use warpwright_ptx::syntax::{Instruction, Operand, Type};

use super::address;
use super::memory_words::{
    Ordered, Semantics, WIDEST, cache_hints, check_width, ordered, policy, space_of, vector,
};
use crate::decode::{DecodeError, Decoder, File, Words, elements, unsupported};
use crate::execution::effect::{EffectBody, Execution, Watched, vectored_effect};
use crate::execution::resolve::{Located, Purpose, addresses, bad_access, resolve_ordered, split_generic};
use crate::lanes::{Operands, one};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, BaseOperand, Space, common_address};
use crate::operation::kind::Kind;
use crate::registers::{Registers, Slot, blend};

/// A value in memory, as wide registers see it.
pub(super) trait Element: Copy + Default + Send + Sync + 'static {
    fn word(self) -> u32;
    fn long(self) -> u64;
    fn high(self) -> u64;
    fn from_bytes(bytes: [u8; 16]) -> Self;
    fn from_words(words: [u32; 4]) -> Self;
}

macro_rules! elements {
    ($($ty:ty),*) => {$(
        impl Element for $ty {
            #[inline(always)]
            fn word(self) -> u32 {
                self as u32
            }

            #[inline(always)]
            fn long(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn high(self) -> u64 {
                (self as u128 >> 64) as u64
            }

            #[inline(always)]
            fn from_bytes(bytes: [u8; 16]) -> Self {
                u128::from_le_bytes(bytes) as Self
            }

            #[inline(always)]
            fn from_words([a, b, c, d]: [u32; 4]) -> Self {
                (u128::from(a) | u128::from(b) << 32 | u128::from(c) << 64 | u128::from(d) << 96) as Self
            }
        }
    )*};
}

elements!(u8, i8, u16, i16, u32, i32, u64, u128);

/// A register that a load fills.
#[derive(Clone, Copy, Debug)]
struct Destination {
    file: File,
    slot: Slot,
}

impl Destination {
    #[inline(always)]
    fn write<T: Element>(self, registers: &mut Registers, mask: u32, values: [T; LANES]) {
        match self.file {
            File::Word => {
                let mut column = [0; LANES];
                for lane in 0..LANES {
                    column[lane] = values[lane].word();
                }
                blend(registers.word_mut(self.slot), mask, column);
            }
            File::Long | File::Quad => {
                let mut column = [0; LANES];
                for lane in 0..LANES {
                    column[lane] = values[lane].long();
                }
                blend(registers.long_mut(self.slot), mask, column);
                if self.file == File::Quad {
                    blend(registers.long_mut(self.slot + 1), mask, values.map(T::high));
                }
            }
            File::Predicate => {}
        }
    }

    /// Writes lane after lane: collected in an array first, the values would be read back as a
    /// vector before their stores complete, and the processor would stall.
    #[inline(always)]
    fn fill<T: Element>(self, registers: &mut Registers, mask: u32, element: impl Fn(usize) -> T) {
        match self.file {
            File::Word => {
                let column = registers.word_mut(self.slot);
                each(mask, |lane| column[lane] = element(lane).word());
            }
            File::Long => {
                let column = registers.long_mut(self.slot);
                each(mask, |lane| column[lane] = element(lane).long());
            }
            File::Quad => each(mask, |lane| {
                let value = element(lane);
                registers.long_mut(self.slot)[lane] = value.long();
                registers.long_mut(self.slot + 1)[lane] = value.high();
            }),
            File::Predicate => {}
        }
    }
}

/// Calls `visit` for each lane of a mask.
#[inline(always)]
fn each(mask: u32, visit: impl FnMut(usize)) {
    if mask == FULL { (0..LANES).for_each(visit) } else { lanes(mask).for_each(visit) }
}

struct Load<T> {
    address: AddressOperand,
    space: Space,
    ordered: Ordered,
    destinations: Vec<Destination>,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> EffectBody for Load<T> {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.changes_nothing();
        let addresses = addresses(execution, &self.address);
        if self.ordered.polls {
            execution.polled = true;
            let address = addresses[mask.trailing_zeros() as usize];
            execution.watched = Some(Watched::Memory { space: self.space, address });
        }
        match self.space {
            Space::Generic => self.generic(execution, &addresses, mask)?,
            Space::Local => self.local(execution, &addresses, mask)?,
            space => self.linear(execution, space, &addresses, mask)?,
        }
        self.ordered.after();
        Ok(())
    }
}

impl<T: Element> Load<T> {
    fn generic(
        &self,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>> {
        let size = (self.destinations.len() * size_of::<T>()) as u64;
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
        let size = (self.destinations.len() * size_of::<T>()) as u64;
        let strength = self.ordered.strength;
        let _turn = self.ordered.turn(execution, space);
        let located = resolve_ordered(execution, space, addresses, mask, size, Purpose::Load, strength)?;
        let registers = &mut *execution.registers;
        match &located {
            Located::Together { host, uniform: true, .. } => {
                for (index, destination) in self.destinations.iter().enumerate() {
                    // SAFETY: `resolve` found `size` bytes for every lane, and all lanes have the
                    // same.
                    let value = unsafe { host.cast::<T>().add(index).read_unaligned() };
                    destination.write(registers, mask, [value; LANES]);
                }
            }
            Located::Together { host, contiguous: true, .. } if self.destinations.len() == 1 => {
                // SAFETY: `resolve` found 32 elements one after another.
                let values = unsafe { host.cast::<[T; LANES]>().read_unaligned() };
                self.destinations[0].write(registers, mask, values);
            }
            _ => {
                let hosts = located.hosts(addresses);
                for (index, destination) in self.destinations.iter().enumerate() {
                    // SAFETY: `resolve` found `size` bytes for every lane of the mask.
                    let element =
                        |lane: usize| unsafe { hosts[lane].cast::<T>().add(index).read_unaligned() };
                    destination.fill(registers, mask, element);
                }
            }
        }
        self.ordered.acquires(execution, space, addresses, mask, AccessKind::Read);
        Ok(())
    }

    /// Whole words at the same offset in all lanes, as spills and frames are.
    #[inline(always)]
    fn local_columns(&self, execution: &mut Execution<'_>, start: u64, mask: u32) -> Option<()> {
        for (index, destination) in self.destinations.iter().enumerate() {
            let mut words = [[0; LANES]; 4];
            for (part, words) in words.iter_mut().enumerate().take(size_of::<T>() / 4) {
                *words = *execution.local.column(start + (index * size_of::<T>() + 4 * part) as u64)?;
            }
            let mut values = [T::default(); LANES];
            for lane in 0..LANES {
                values[lane] = T::from_words(words.map(|column| column[lane]));
            }
            destination.write(execution.registers, mask, values);
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
        let size = (self.destinations.len() * size_of::<T>()) as u64;
        if execution.block.observer.listens() {
            observe_local(execution, addresses, mask, size, AccessKind::Read);
            observe_local_load(execution, addresses, mask, size);
        }
        if size_of::<T>() >= 4
            && let Some(start) = common_address(addresses, mask)
            && start.is_multiple_of(size)
            && self.local_columns(execution, start, mask).is_some()
        {
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
        for (index, destination) in self.destinations.iter().enumerate() {
            let mut values = [T::default(); LANES];
            for lane in lanes(mask) {
                let mut bytes = [0; 16];
                let address = addresses[lane] + (index * size_of::<T>()) as u64;
                let read = execution.local.read(lane, address, &mut bytes[..size_of::<T>()]);
                if read.is_none() || !addresses[lane].is_multiple_of(size) {
                    bad |= 1 << lane;
                }
                values[lane] = T::from_bytes(bytes);
            }
            destination.write(execution.registers, mask, values);
        }
        if bad != 0 {
            return Err(bad_access(execution, Space::Local, addresses, bad, size, Purpose::Load));
        }
        Ok(())
    }
}

/// Reports an access of local memory, unless it is a fault.
#[cold]
pub(super) fn observe_local(
    execution: &Execution<'_>,
    addresses: &[u64; LANES],
    mask: u32,
    bytes: u64,
    kind: AccessKind,
) {
    if lanes(mask).all(|lane| execution.local.has(lane, addresses[lane], bytes)) {
        execution.block.observer.report(Event::Access {
            actor: execution.actor(mask),
            addresses,
            bytes,
            kind,
            space: MemorySpace::Local,
            strength: Strength::Weak,
            values: None,
        });
    }
}

/// Reports which lanes read local memory that they have not written.
#[cold]
fn observe_local_load(execution: &Execution<'_>, addresses: &[u64; LANES], mask: u32, size: u64) {
    let unwritten = execution.local.unwritten(addresses, mask, size);
    execution.block.observer.report(Event::LocalLoad {
        actor: execution.actor(mask),
        unwritten,
        addresses,
        bytes: size,
    });
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ordered = ordered(w, Semantics::Weak);
    let named = address::space(w);
    let hinted = cache_hints(w);
    let count = vector(w);
    let ty = w.ty()?;
    if ty.bytes() == 0 {
        return Err(unsupported(i, ty));
    }
    d.expect_operands(i, 2 + usize::from(hinted))?;
    if hinted {
        policy(d, i.operands.get(2))?;
    }
    let elements = elements(&i.operands[0]);
    if elements.len() != count {
        return Err(DecodeError::new(format!(
            "The load names {} registers, and its type has {count}.",
            elements.len()
        )));
    }
    let mut destinations = Vec::new();
    for element in elements {
        let (file, slot) = match element {
            Operand::Sink => (File::of(ty), d.scratch(File::of(ty))),
            operand => {
                let register = d.wide_destination(operand)?;
                if register.file == File::Predicate || register.ty.bytes() < ty.bytes() {
                    return Err(DecodeError::new(format!(
                        "`{operand}` is too narrow for a load of .{}.",
                        ty.word()
                    )));
                }
                (register.file, register.slot)
            }
        };
        destinations.push(Destination { file, slot });
    }
    let address = d.memory(&i.operands[1])?;
    let space = space_of(d, named, &address);
    if u64::from(ty.bytes()) * count as u64 >= WIDEST && !matches!(space, Space::Global | Space::Generic) {
        return Err(DecodeError::new("Loads and stores of 256 bits are of global memory only."));
    }
    if space == Space::Parameter && load_parameters(d, &address, ty, &destinations) {
        return Ok(());
    }
    macro_rules! emit {
        ($ty:ty) => {
            d.emit(Kind::Effect(vectored_effect(Load::<$ty> {
                address,
                space,
                ordered,
                destinations,
                element: std::marker::PhantomData,
            })))
        };
    }
    match ty {
        Type::B8 | Type::U8 | Type::E4m3 | Type::E5m2 => emit!(u8),
        Type::S8 => emit!(i8),
        Type::B16 | Type::U16 | Type::F16 | Type::Bf16 => emit!(u16),
        Type::S16 => emit!(i16),
        Type::S32 => emit!(i32),
        Type::B32 | Type::U32 | Type::F32 | Type::F16x2 | Type::Bf16x2 | Type::Tf32 => emit!(u32),
        Type::B64 | Type::U64 | Type::S64 | Type::F64 => emit!(u64),
        Type::B128 => emit!(u128),
        _ => return Err(unsupported(i, ty)),
    }
    Ok(())
}

/// A load of kernel parameters by name copies columns that were filled when the warp started.
/// Whether it is one.
fn load_parameters(
    d: Decoder<'_, '_, '_>,
    address: &AddressOperand,
    ty: Type,
    destinations: &[Destination],
) -> bool {
    let bytes = ty.bytes();
    let size = i64::from(bytes) * destinations.len() as i64;
    let inside = address.offset >= 0 && address.offset + size <= i64::from(d.parameter_bytes());
    let plain = bytes <= 8 && destinations.iter().all(|destination| destination.file != File::Quad);
    if address.base != BaseOperand::Absolute || !inside || !plain || address.offset % size != 0 {
        return false;
    }
    let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64);
    for (index, destination) in destinations.iter().enumerate() {
        let offset = address.offset as u32 + index as u32 * bytes;
        let source = d.parameter(offset, bytes, signed, destination.file);
        let operands = Operands { d: destination.slot, a: source, ..Operands::default() };
        match destination.file {
            File::Long => d.lanes(operands, one(|a: u64| a)),
            _ => d.lanes(operands, one(|a: u32| a)),
        }
    }
    true
}

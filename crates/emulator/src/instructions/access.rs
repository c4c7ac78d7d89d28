//! What `ld` and `st` have in common: the registers, the spaces, and local memory.

use std::marker::PhantomData;

use warpwright_events::{AccessKind, Event, FULL, LANES, MemorySpace, Strength, lanes};
use warpwright_ptx::syntax::{Operand, Type};

use super::address;
use super::memory_words::{Ordered, Semantics, WIDEST, check_width, ordered, policy, space_of};
use crate::decode::{DecodeError, Decoded, Decoder, File, Row, elements};
use crate::execution::effect::{EffectBody, Execution, Watched, vectored_effect};
use crate::execution::resolve::{Purpose, addresses, bad_access, split_generic};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space, common_address};
use crate::operation::kind::Kind;
use crate::registers::{Registers, Slot, blend};

/// A value in memory, and as registers hold it: extended to 64 bits, or in two parts of 64.
pub(super) trait Element: Copy + Default + Send + Sync + 'static {
    fn of(low: u64, high: u64) -> Self;
    fn low(self) -> u64;
    fn high(self) -> u64;
}

macro_rules! elements {
    ($($ty:ty),*) => {$(
        impl Element for $ty {
            #[inline(always)]
            fn of(low: u64, high: u64) -> Self {
                (u128::from(low) | u128::from(high) << 64) as Self
            }

            #[inline(always)]
            fn low(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn high(self) -> u64 {
                (self as u128 >> 64) as u64
            }
        }
    )*};
}

elements!(u8, i8, u16, i16, u32, i32, u64, u128);

/// A register that a load fills or a store reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) file: File,
    pub(super) slot: Slot,
}

impl Column {
    #[inline(always)]
    pub(super) fn read<T: Element>(self, registers: &Registers) -> [T; LANES] {
        let mut values = [T::default(); LANES];
        match self.file {
            File::Word | File::Predicate => {
                let column = registers.word(self.slot);
                for lane in 0..LANES {
                    values[lane] = T::of(column[lane].into(), 0);
                }
            }
            File::Long => {
                let column = registers.long(self.slot);
                for lane in 0..LANES {
                    values[lane] = T::of(column[lane], 0);
                }
            }
            File::Quad => {
                let (low, high) = (registers.long(self.slot), registers.long(self.slot + 1));
                for lane in 0..LANES {
                    values[lane] = T::of(low[lane], high[lane]);
                }
            }
        }
        values
    }

    #[inline(always)]
    pub(super) fn write<T: Element>(self, registers: &mut Registers, mask: u32, values: [T; LANES]) {
        match self.file {
            File::Word => {
                let mut column = [0; LANES];
                for lane in 0..LANES {
                    column[lane] = values[lane].low() as u32;
                }
                blend(registers.word_mut(self.slot), mask, column);
            }
            File::Long | File::Quad => {
                let mut column = [0; LANES];
                for lane in 0..LANES {
                    column[lane] = values[lane].low();
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
    pub(super) fn fill<T: Element>(self, registers: &mut Registers, mask: u32, element: impl Fn(usize) -> T) {
        match self.file {
            File::Word => {
                let column = registers.word_mut(self.slot);
                each(mask, |lane| column[lane] = element(lane).low() as u32);
            }
            File::Long => {
                let column = registers.long_mut(self.slot);
                each(mask, |lane| column[lane] = element(lane).low());
            }
            File::Quad => each(mask, |lane| {
                let value = element(lane);
                registers.long_mut(self.slot)[lane] = value.low();
                registers.long_mut(self.slot + 1)[lane] = value.high();
            }),
            File::Predicate => {}
        }
    }
}

/// Calls `visit` for each lane of a mask.
#[inline(always)]
pub(super) fn each(mask: u32, visit: impl FnMut(usize)) {
    if mask == FULL { (0..LANES).for_each(visit) } else { lanes(mask).for_each(visit) }
}

/// Loading or storing.
pub(super) trait Direction: Send + Sync + Sized + 'static {
    const KIND: AccessKind;
    const PURPOSE: Purpose;

    /// Accesses memory other than local memory.
    fn linear<T: Element>(
        access: &Access<T, Self>,
        execution: &mut Execution<'_>,
        space: Space,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>>;

    /// Accesses whole words of local memory at the same offset in all lanes.
    fn columns<T: Element>(
        register: Column,
        execution: &mut Execution<'_>,
        start: u64,
        mask: u32,
    ) -> Option<()>;

    /// Accesses local memory `offset` bytes after each lane's address, and returns the lanes that have no
    /// such memory.
    fn bytes<T: Element>(
        register: Column,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        offset: u64,
        mask: u32,
    ) -> u32;
}

/// A load or a store.
pub(super) struct Access<T, D> {
    pub(super) address: AddressOperand,
    pub(super) space: Space,
    pub(super) ordered: Ordered,
    pub(super) registers: Vec<Column>,
    types: PhantomData<fn(D) -> T>,
}

impl<T: Element, D: Direction> EffectBody for Access<T, D> {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        self.ordered.before();
        if D::KIND == AccessKind::Read || self.space == Space::Local {
            execution.changes_nothing();
        }
        let addresses = addresses(execution, &self.address);
        if D::KIND == AccessKind::Read && self.ordered.polls {
            execution.polled = true;
            let address = addresses[mask.trailing_zeros() as usize];
            execution.watched = Some(Watched::Memory { space: self.space, address });
        }
        match self.space {
            Space::Generic => self.generic(execution, &addresses, mask)?,
            Space::Local => self.local(execution, &addresses, mask)?,
            space => D::linear(self, execution, space, &addresses, mask)?,
        }
        self.ordered.after();
        Ok(())
    }
}

impl<T: Element, D: Direction> Access<T, D> {
    /// The bytes of a lane.
    #[inline(always)]
    pub(super) fn size(&self) -> u64 {
        (self.registers.len() * size_of::<T>()) as u64
    }

    fn generic(
        &self,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>> {
        for (space, part, addresses) in split_generic(addresses, mask) {
            check_width(space, self.size(), part)?;
            match space {
                Space::Local => self.local(execution, &addresses, part)?,
                space => D::linear(self, execution, space, &addresses, part)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn local(
        &self,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>> {
        let (size, listens) = (self.size(), execution.block.observer.listens());
        if listens {
            observe_local(execution, addresses, mask, size, D::KIND);
        }
        let start = common_address(addresses, mask).filter(|start| start.is_multiple_of(size));
        if size_of::<T>() >= 4
            && let Some(start) = start
            && self.columns(execution, start, mask).is_some()
        {
            if listens && D::KIND == AccessKind::Write {
                execution.local.note_write(addresses, mask, size);
            }
            return Ok(());
        }
        self.local_bytes(execution, addresses, mask)
    }

    /// Whole words at the same offset in all lanes, as spills and frames are.
    #[inline(always)]
    fn columns(&self, execution: &mut Execution<'_>, start: u64, mask: u32) -> Option<()> {
        self.registers.iter().enumerate().try_for_each(|(index, register)| {
            D::columns::<T>(*register, execution, start + (index * size_of::<T>()) as u64, mask)
        })
    }

    fn local_bytes(
        &self,
        execution: &mut Execution<'_>,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<(), Box<Failure>> {
        let size = self.size();
        let mut bad = lanes(mask)
            .filter(|&lane| !addresses[lane].is_multiple_of(size))
            .fold(0, |bad, lane| bad | 1 << lane);
        for (index, register) in self.registers.iter().enumerate() {
            let offset = (index * size_of::<T>()) as u64;
            bad |= D::bytes::<T>(*register, execution, addresses, offset, mask & !bad);
        }
        if bad != 0 {
            return Err(bad_access(execution, Space::Local, addresses, bad, size, D::PURPOSE));
        }
        Ok(())
    }
}

/// Reports an access of local memory, unless it is a fault, and which lanes read what they have not
/// written.
#[cold]
fn observe_local(
    execution: &Execution<'_>,
    addresses: &[u64; LANES],
    mask: u32,
    bytes: u64,
    kind: AccessKind,
) {
    let (observer, actor) = (&execution.block.observer, execution.actor(mask));
    if lanes(mask).all(|lane| execution.local.has(lane, addresses[lane], bytes)) {
        observer.report(Event::Access {
            actor,
            addresses,
            bytes,
            kind,
            space: MemorySpace::Local,
            strength: Strength::Weak,
            values: None,
        });
    }
    if kind == AccessKind::Read {
        let unwritten = execution.local.unwritten(addresses, mask, bytes);
        observer.report(Event::LocalLoad { actor, unwritten, addresses, bytes });
    }
}

/// A load or a store, before its element has a type of Rust.
pub(super) struct Decoding {
    pub(super) address: AddressOperand,
    pub(super) space: Space,
    ordered: Ordered,
    pub(super) registers: Vec<Column>,
}

/// The operands of a load or a store: its registers are operand `registers`, its address the other one.
pub(super) fn operands(
    d: Decoder<'_, '_, '_>,
    i: &Row<'_>,
    ty: Type,
    registers: usize,
) -> Result<Decoding, DecodeError> {
    if i.has("L2::cache_hint") {
        policy(d, i)?;
    }
    let mut columns = Vec::new();
    for element in elements(i.operand(registers)?) {
        let register = match (element, registers) {
            (Operand::Sink, 0) => {
                columns.push(Column { file: File::of(ty), slot: d.scratch(File::of(ty)) });
                continue;
            }
            (element, 0) => d.wide_destination(element)?,
            (element, _) => d.wide_source(element, ty)?,
        };
        columns.push(Column { file: register.file, slot: register.slot });
    }
    let address = d.memory_at(i, 1 - registers)?;
    let space = space_of(d, address::space(i), &address);
    let bytes = u64::from(ty.bytes()) * columns.len() as u64;
    if bytes >= WIDEST && !matches!(space, Space::Global | Space::Generic) {
        return Err(DecodeError::new("Loads and stores of 256 bits are of global memory only."));
    }
    Ok(Decoding { address, space, ordered: ordered(i, Semantics::Weak), registers: columns })
}

impl Decoding {
    /// Appends the access of elements of a type.
    pub(super) fn emit<T: Element, D: Direction>(self, d: Decoder<'_, '_, '_>) -> Decoded {
        let Self { address, space, ordered, registers } = self;
        let access = Access::<T, D> { address, space, ordered, registers, types: PhantomData };
        d.emit(Kind::Effect(vectored_effect(access)));
        Ok(())
    }
}

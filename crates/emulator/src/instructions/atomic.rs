//! `atom` and `red` (PTX ISA, "Parallel Synchronization and Communication Instructions").
//!
//! On global memory they are atomic operations of the host, since CTAs run on several threads; shared memory belongs to
//! one thread. Lanes take their turns in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use warpwright_events::{AccessKind, LANES, lanes};
use warpwright_ptx::syntax::{Instruction, Operand, Type};

use super::memory_words::{Ordered, Semantics, cache_hints, ordered, policy, space_of, vector};
use super::{Decoder, address, remote, unsupported};
use crate::decode::{AddressOperand, DecodeError, File, Register, Words};
use crate::memory::{Purpose, Space, Trouble, addresses, resolve_ordered, split_generic};
use crate::numeric::compare::{self, ExtremumMode};
use crate::numeric::format::Format;
use crate::numeric::{FloatMode, double, half, single};
use crate::operation::{Effect, Execution, Kind};
use crate::path::Watched;
use crate::registers::Registers;

/// What an atomic operation does with the old value and its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Add,
    Increment,
    Decrement,
    Minimum,
    Maximum,
}

impl Update {
    /// The operation an instruction names.
    pub(crate) fn named(w: &mut Words<'_>) -> Result<Self, DecodeError> {
        let operation = w.choose(&[
            ("and", Update::And),
            ("or", Update::Or),
            ("xor", Update::Xor),
            ("exch", Update::Exchange),
            ("cas", Update::CompareAndSwap),
            ("add", Update::Add),
            ("inc", Update::Increment),
            ("dec", Update::Decrement),
            ("min", Update::Minimum),
            ("max", Update::Maximum),
        ]);
        operation.ok_or_else(|| DecodeError::new("The instruction names no atomic operation."))
    }
}

/// One element's new value.
pub(crate) type Combine = fn(old: u128, operand: u128) -> u128;

pub(crate) fn combine(update: Update, ty: Type) -> Option<Combine> {
    Some(match (update, ty) {
        (Update::And, _) => |a, b| a & b,
        (Update::Or, _) => |a, b| a | b,
        (Update::Xor, _) => |a, b| a ^ b,
        (Update::Exchange | Update::CompareAndSwap, _) => |_, b| b,
        (Update::Increment, _) => |a, b| if a >= b { 0 } else { a + 1 },
        (Update::Decrement, _) => |a, b| if a == 0 || a > b { b } else { a - 1 },
        (Update::Add, Type::U32 | Type::S32 | Type::U64 | Type::S64) => |a, b| a.wrapping_add(b),
        (Update::Add, Type::F32) => |a, b| single::add(a as u32, b as u32, FloatMode::NEAREST).into(),
        // The loop that adds in shared memory has the old value as its second operand (measured on H200).
        (Update::Add, Type::F64) => |a, b| double::add(b as u64, a as u64, FloatMode::NEAREST).into(),
        (Update::Add, Type::F16) => {
            |a, b| half::add(Format::F16, a as u16, b as u16, FloatMode::NEAREST).into()
        }
        (Update::Add, Type::Bf16) => {
            |a, b| half::add(Format::BF16, a as u16, b as u16, FloatMode::NEAREST).into()
        }
        (Update::Add, Type::F16x2) => |a, b| {
            half::pair2(a as u32, b as u32, |x, y| half::add(Format::F16, x, y, FloatMode::NEAREST)).into()
        },
        (Update::Add, Type::Bf16x2) => |a, b| {
            half::pair2(a as u32, b as u32, |x, y| half::add(Format::BF16, x, y, FloatMode::NEAREST)).into()
        },
        (Update::Minimum, Type::U32 | Type::U64) => |a, b| a.min(b),
        (Update::Maximum, Type::U32 | Type::U64) => |a, b| a.max(b),
        (Update::Minimum, Type::S32) => |a, b| u128::from((a as i32).min(b as i32) as u32),
        (Update::Maximum, Type::S32) => |a, b| u128::from((a as i32).max(b as i32) as u32),
        (Update::Minimum, Type::S64) => |a, b| u128::from((a as i64).min(b as i64) as u64),
        (Update::Maximum, Type::S64) => |a, b| u128::from((a as i64).max(b as i64) as u64),
        (Update::Minimum, Type::F16) => |a, b| extremum(Format::F16, a, b, false),
        (Update::Maximum, Type::F16) => |a, b| extremum(Format::F16, a, b, true),
        (Update::Minimum, Type::Bf16) => |a, b| extremum(Format::BF16, a, b, false),
        (Update::Maximum, Type::Bf16) => |a, b| extremum(Format::BF16, a, b, true),
        (Update::Minimum, Type::F16x2) => |a, b| extremum_pair(Format::F16, a, b, false),
        (Update::Maximum, Type::F16x2) => |a, b| extremum_pair(Format::F16, a, b, true),
        (Update::Minimum, Type::Bf16x2) => |a, b| extremum_pair(Format::BF16, a, b, false),
        (Update::Maximum, Type::Bf16x2) => |a, b| extremum_pair(Format::BF16, a, b, true),
        _ => return None,
    })
}

/// The same in global memory, which adds some floats otherwise.
pub(crate) fn combine_global(update: Update, ty: Type) -> Option<Combine> {
    match (update, ty) {
        (Update::Add, Type::F32) => Some(add_flushed),
        (Update::Add, Type::F64) => Some(add_f64_global),
        _ => combine(update, ty),
    }
}

/// `add.f32` in global memory, where subnormal operands and results become zero (PTX ISA, "atom").
fn add_flushed(a: u128, b: u128) -> u128 {
    single::add(a as u32, b as u32, FloatMode { flush: true, ..FloatMode::NEAREST }).into()
}

/// `add.f64` in global memory, which leaves a NaN as it is, the operand's before the old one (measured on H200).
fn add_f64_global(a: u128, b: u128) -> u128 {
    match [b, a].into_iter().find(|&x| f64::from_bits(x as u64).is_nan()) {
        Some(nan) => nan,
        None => double::add(a as u64, b as u64, FloatMode::NEAREST).into(),
    }
}

fn extremum(format: Format, a: u128, b: u128, maximum: bool) -> u128 {
    compare::extremum(format, a as u32, b as u32, ExtremumMode { maximum, ..ExtremumMode::default() }).into()
}

fn extremum_pair(format: Format, a: u128, b: u128, maximum: bool) -> u128 {
    let one = |shift: u32| extremum(format, a >> shift & 0xffff, b >> shift & 0xffff, maximum) << shift;
    one(0) | one(16)
}

struct Atomic {
    address: AddressOperand,
    space: Space,
    ordered: Ordered,
    /// Bytes of an element.
    size: u32,
    combine: Combine,
    /// What it does in global memory instead.
    combine_global: Combine,
    /// Only where the old value equals this.
    compare: Option<Register>,
    operands: Vec<Register>,
    /// Old values; none for `red`.
    results: Vec<Register>,
}

/// A lane's value of a register.
pub(super) fn read(registers: &Registers, register: Register, lane: usize) -> u128 {
    match register.file {
        File::Word | File::Predicate => registers.word(register.slot)[lane].into(),
        File::Long => registers.long(register.slot)[lane].into(),
        File::Quad => {
            let (low, high) = (registers.long(register.slot)[lane], registers.long(register.slot + 1)[lane]);
            u128::from(low) | u128::from(high) << 64
        }
    }
}

fn write(registers: &mut Registers, register: Register, lane: usize, value: u128) {
    match register.file {
        File::Word | File::Predicate => registers.word_mut(register.slot)[lane] = value as u32,
        File::Long => registers.long_mut(register.slot)[lane] = value as u64,
        File::Quad => {
            registers.long_mut(register.slot)[lane] = value as u64;
            registers.long_mut(register.slot + 1)[lane] = (value >> 64) as u64;
        }
    }
}

/// 128-bit operations take turns through this: few hosts have them as instructions that Rust offers.
static WIDE: Mutex<()> = Mutex::new(());

/// Replaces the element at `host` by what `update` makes of it, atomically; returns the old one.
///
/// # Safety
/// `host` points to `size` bytes, aligned to `size`, that stay allocated meanwhile.
pub(crate) unsafe fn update(host: *mut u8, size: u32, update: impl Fn(u128) -> u128) -> u128 {
    macro_rules! atomically {
        ($atomic:ty, $ty:ty) => {{
            // SAFETY: the caller gives aligned bytes of this size.
            let cell = unsafe { <$atomic>::from_ptr(host.cast()) };
            let mut old = cell.load(Ordering::Relaxed);
            loop {
                let new = update(old.into()) as $ty;
                match cell.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(old) => return old.into(),
                    Err(seen) => old = seen,
                }
            }
        }};
    }
    match size {
        1 => atomically!(AtomicU8, u8),
        2 => atomically!(AtomicU16, u16),
        4 => atomically!(AtomicU32, u32),
        8 => atomically!(AtomicU64, u64),
        _ => {
            let _turn = WIDE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let cell = host.cast::<u128>();
            // SAFETY: the caller gives 16 bytes; all 128-bit operations hold the lock.
            unsafe {
                let old = cell.read_unaligned();
                cell.write_unaligned(update(old));
                old
            }
        }
    }
}

impl Effect for Atomic {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        self.ordered.before();
        let addresses = addresses(execution, &self.address);
        if !self.results.is_empty() {
            execution.polled = true;
            let address = addresses[mask.trailing_zeros() as usize];
            execution.watched = Some(Watched::Memory { space: self.space, address });
        }
        let mut changed = false;
        if self.space == Space::Generic {
            for (space, part, addresses) in split_generic(&addresses, mask) {
                changed |= self.linear(execution, space, &addresses, part)?;
            }
        } else {
            changed = self.linear(execution, self.space, &addresses, mask)?;
        }
        if !changed {
            execution.changes_nothing();
        }
        self.ordered.after();
        Ok(())
    }
}

impl Atomic {
    /// Whether any element is another one now.
    fn linear(
        &self,
        execution: &mut Execution<'_>,
        space: Space,
        addresses: &[u64; LANES],
        mask: u32,
    ) -> Result<bool, Box<Trouble>> {
        let width = u64::from(self.size) * self.operands.len() as u64;
        let strength = self.ordered.strength;
        let _turn = self.ordered.turn(execution, space);
        let located = resolve_ordered(execution, space, addresses, mask, width, Purpose::Atomic, strength)?;
        self.ordered.publishes(execution, space, addresses, mask, AccessKind::Atomic);
        let combine = if space == Space::Global { self.combine_global } else { self.combine };
        let keep = if self.size == 16 { u128::MAX } else { (1 << (8 * self.size)) - 1 };
        let mut changed = false;
        for lane in lanes(mask) {
            let expected = self.compare.map(|register| read(execution.registers, register, lane) & keep);
            for (index, operand) in self.operands.iter().enumerate() {
                let operand = read(execution.registers, *operand, lane) & keep;
                let host = located.lane(lane, addresses).wrapping_add(index * self.size as usize);
                let new = |old: u128| match expected {
                    Some(expected) if old != expected => old,
                    _ => combine(old, operand) & keep,
                };
                // SAFETY: `resolve` found `width` aligned bytes for this lane, that may be written.
                let old = unsafe { update(host, self.size, new) };
                changed |= new(old) != old;
                if let Some(result) = self.results.get(index) {
                    write(execution.registers, *result, lane, old);
                }
            }
        }
        self.ordered.acquires(execution, space, addresses, mask, AccessKind::Atomic);
        Ok(changed)
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    if i.opcode.has("async") {
        return remote::reduce(d, i, w);
    }
    let returns = i.opcode.base() == "atom";
    let ordered = ordered(w, Semantics::Relaxed);
    let named = address::space(w);
    let hinted = cache_hints(w);
    let count = vector(w);
    let operation = Update::named(w)?;
    w.take("noftz");
    let ty = w.ty()?;
    let in_shared = combine(operation, ty).ok_or_else(|| unsupported(i, ty))?;
    let in_global = combine_global(operation, ty).ok_or_else(|| unsupported(i, ty))?;
    let mut operands = i.operands.as_slice();
    let mut results = Vec::new();
    if returns {
        let (result, rest) = operands.split_first().ok_or_else(|| unsupported(i, ty))?;
        operands = rest;
        if *result != Operand::Sink {
            for element in d.elements(result)? {
                d.destination(&element, ty)?;
                results.push(d.register(&element)?);
            }
        }
    }
    let compares = operation == Update::CompareAndSwap;
    let wanted = 2 + usize::from(compares) + usize::from(hinted);
    if operands.len() != wanted {
        return Err(DecodeError::new(format!(
            "The instruction has {} operands, and needs {}.",
            i.operands.len(),
            wanted + usize::from(returns)
        )));
    }
    let address = d.memory(&operands[0])?;
    let space = space_of(d, named, &address);
    let mut values = Vec::new();
    let compare = if compares { Some(typed(d, &operands[1], ty)?) } else { None };
    for element in d.elements(&operands[1 + usize::from(compares)])? {
        values.push(typed(d, &element, ty)?);
    }
    if hinted {
        policy(d, operands.last())?;
    }
    if values.len() != count {
        return Err(DecodeError::new(format!(
            "The instruction names {} values, and its type has {count}.",
            values.len()
        )));
    }
    d.emit(Kind::Effect(Box::new(Atomic {
        address,
        space,
        ordered,
        size: ty.bytes(),
        combine: in_shared,
        combine_global: in_global,
        compare,
        operands: values,
        results,
    })));
    Ok(())
}

fn typed(d: Decoder<'_, '_, '_>, operand: &Operand, ty: Type) -> Result<Register, DecodeError> {
    Ok(Register { file: File::of(ty), slot: d.source(operand, ty)?, ty })
}

//! `atom` and `red` (PTX ISA, "Parallel Synchronization and Communication Instructions").
//!
//! Atomics on global memory are atomic operations of the host, since CTAs run on several threads;
//! shared memory belongs to one thread. Lanes execute in order.

use smallvec::SmallVec;
use warpwright_events::{AccessKind, LANES, lanes};
use warpwright_ptx::syntax::{Instruction, Operand, Type};

use super::memory_words::{Ordered, Semantics, cache_hints, ordered, policy, space_of, vector};
use super::{address, remote};
use crate::decode::{DecodeError, Decoder, File, Register, Words, elements, unsupported};
use crate::execution::effect::{Effect, Execution, Watched};
use crate::execution::resolve::{Purpose, addresses, resolve_ordered, split_generic};
use crate::launch::failure::Failure;
use crate::memory::update::{Combine, Update, combine, combine_global, update};
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
use crate::registers::Registers;

/// The operation an instruction names.
pub(super) fn named_update(w: &mut Words<'_>) -> Result<Update, DecodeError> {
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

struct Atomic {
    address: AddressOperand,
    space: Space,
    ordered: Ordered,
    /// Bytes of an element.
    size: u32,
    combine: Combine,
    /// The operation in global memory.
    combine_global: Combine,
    /// Only if the old value equals this.
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

impl Effect for Atomic {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
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
    ) -> Result<bool, Box<Failure>> {
        let width = u64::from(self.size) * self.operands.len() as u64;
        let strength = self.ordered.strength;
        let _turn = self.ordered.turn(execution, space);
        let located = resolve_ordered(execution, space, addresses, mask, width, Purpose::Atomic, strength)?;
        self.ordered.publishes(execution, space, addresses, mask, AccessKind::Atomic);
        let combine = if space == Space::Global { self.combine_global } else { self.combine };
        let keep = if self.size == 16 { u128::MAX } else { (1 << (8 * self.size)) - 1 };
        let mut changed = false;
        for lane in lanes(mask) {
            // The results may be among the operands, so all operands are read first.
            let value = |register: Register| read(execution.registers, register, lane) & keep;
            let expected = self.compare.map(value);
            let operands: SmallVec<[u128; 8]> = self.operands.iter().map(|&operand| value(operand)).collect();
            for (index, &operand) in operands.iter().enumerate() {
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
    if w.take("async") && !i.opcode.has("release") {
        return remote::reduce(d, i, w);
    }
    let returns = i.opcode.base() == "atom";
    let ordered = ordered(w, Semantics::Relaxed);
    let named = address::space(w);
    let hinted = cache_hints(w);
    let count = vector(w);
    let operation = named_update(w)?;
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
            for element in elements(result) {
                d.destination(element, ty)?;
                results.push(d.wide_destination(element)?);
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
    for element in elements(&operands[1 + usize::from(compares)]) {
        values.push(typed(d, element, ty)?);
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

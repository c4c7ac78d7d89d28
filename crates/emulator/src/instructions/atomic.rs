//! `atom` and `red` (PTX ISA, "Parallel Synchronization and Communication Instructions").
//!
//! Atomics on global memory are atomic operations of the host, since CTAs run on several threads;
//! shared memory belongs to one thread. Lanes execute in order.

use smallvec::SmallVec;
use warpwright_events::{AccessKind, LANES, lanes};
use warpwright_ptx::syntax::Operand;

use super::memory_words::{Ordered, Semantics, ordered, policy, space_of};
use super::{address, remote};
use crate::decode::{DecodeError, Decoded, Decoder, File, Register, Row};
use crate::execution::effect::{Effect, Execution, Watched};
use crate::execution::resolve::{Purpose, addresses, resolve_ordered, split_generic};
use crate::launch::failure::Failure;
use crate::memory::update::{Combine, Update, combine, combine_global, update};
use crate::memory::{AddressOperand, Space};
use crate::registers::Registers;

/// The operation an instruction names.
pub(super) fn named_update(i: &Row<'_>) -> Result<Update, DecodeError> {
    let updates = [
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
    ];
    i.must("atomic operation", &updates)
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

/// `atom d, [address], value`, `red [address], value`; of a comparison, the value it compares with stands
/// before the new one.
pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("async") && !i.has("release") {
        return remote::reduce(d, i);
    }
    let (operation, ty) = (named_update(i)?, i.ty()?);
    let in_shared = combine(operation, ty).ok_or_else(|| i.unsupported())?;
    let in_global = combine_global(operation, ty).ok_or_else(|| i.unsupported())?;
    let place = i.signature().destinations;
    let register = |slot| Register { file: File::of(ty), slot, ty };
    let mut results = Vec::new();
    if place > 0 && i.operands[0] != Operand::Sink {
        results = d.destinations_at(i, 0)?.into_iter().map(register).collect();
    }
    let address = d.memory_at(i, place)?;
    let space = space_of(d, address::space(i), &address);
    let compares = operation == Update::CompareAndSwap;
    let compare = if compares { Some(register(d.source_at(i, place + 1)?)) } else { None };
    let operands = d.sources_at(i, place + 1 + usize::from(compares))?.into_iter().map(register).collect();
    if i.has("L2::cache_hint") {
        policy(d, i)?;
    }
    d.effect(Atomic {
        address,
        space,
        ordered: ordered(i, Semantics::Relaxed),
        size: ty.bytes(),
        combine: in_shared,
        combine_global: in_global,
        compare,
        operands,
        results,
    })
}

//! Addresses: conversion between spaces, frames, and what else reads the machine rather than registers.

use warpwright_ptx::syntax::{Instruction, Type};

use super::{Decoder, unsupported};
use crate::decode::{DecodeError, File, Words};
use crate::lanes::one;
use crate::memory::{Space, Trouble};
use crate::operation::{Effect, Execution};
use crate::registers::{LANES, Slot, blend};
use crate::special::Clock;

/// The address of a variable in the function's local frame.
struct FrameAddress {
    offset: i64,
    file: File,
    destination: Slot,
}

impl Effect for FrameAddress {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let address = u64::from(execution.registers.base().local).wrapping_add_signed(self.offset);
        write_all(execution, self.file, self.destination, mask, address);
        Ok(())
    }
}

pub(crate) fn frame_address(offset: i64, file: File, destination: Slot) -> Box<dyn Effect> {
    Box::new(FrameAddress { offset, file, destination })
}

struct ReadClock {
    clock: Clock,
    file: File,
    destination: Slot,
}

impl Effect for ReadClock {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let now = self.clock.read(execution.launch);
        execution.polled = true;
        write_all(execution, self.file, self.destination, mask, now);
        Ok(())
    }
}

pub(crate) fn read_clock(clock: Clock, file: File, destination: Slot) -> Box<dyn Effect> {
    Box::new(ReadClock { clock, file, destination })
}

fn write_all(execution: &mut Execution<'_>, file: File, slot: Slot, mask: u32, value: u64) {
    if file == File::Long {
        blend(execution.registers.long_mut(slot), mask, [value; LANES]);
    } else {
        blend(execution.registers.word_mut(slot), mask, [value as u32; LANES]);
    }
}

/// The space that an instruction names.
pub(super) fn space(w: &mut Words<'_>) -> Option<Space> {
    w.choose(&[
        ("global", Space::Global),
        ("const", Space::Constant),
        ("shared", Space::Shared),
        ("shared::cta", Space::Shared),
        ("shared::cluster", Space::Shared),
        ("local", Space::Local),
        ("param", Space::Parameter),
        ("param::entry", Space::Parameter),
        ("param::func", Space::Parameter),
    ])
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        "cvta" => convert(d, i, w),
        "isspacep" => is_in_space(d, i, w),
        base => Err(DecodeError::new(format!("The emulator does not know the instruction `{base}`."))),
    }
}

fn convert(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let to_space = w.take("to");
    let window = space(w).ok_or_else(|| DecodeError::new("`cvta` names no state space."))?.window();
    let ty = w.ty()?;
    if ty != Type::U64 {
        return Err(unsupported(i, ty));
    }
    if to_space {
        d.vector(i, ty, &[ty], one(move |a: u64| a.wrapping_sub(window)))
    } else {
        d.vector(i, ty, &[ty], one(move |a: u64| a.wrapping_add(window)))
    }
}

fn is_in_space(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let asked = space(w).ok_or_else(|| DecodeError::new("`isspacep` names no state space."))?;
    let asked = if asked == Space::Constant { Space::Global } else { asked };
    d.scalar(i, Type::Pred, &[Type::U64], one(move |a: u64| Space::of(a).0 == asked))
}

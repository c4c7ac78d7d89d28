//! Addresses: conversion between spaces, and addresses of other CTAs.

use warpwright_events::{shared_base, split_shared};
use warpwright_ptx::syntax::{Instruction, Operand, Type};

use crate::decode::{DecodeError, Decoder, Words, unsupported};
use crate::lanes::{Operands, one, two};
use crate::memory::{Space, WINDOW_BYTES};

/// The space that an instruction names.
pub(super) fn space(w: &mut Words<'_>) -> Option<Space> {
    w.choose(&[
        ("global", Space::Global),
        ("const", Space::Constant),
        ("shared", Space::Shared),
        ("shared::cta", Space::Shared),
        ("shared::cluster", Space::ClusterShared),
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
        "mapa" => map(d, i, w),
        _ => rank(d, i, w),
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
    if asked != Space::Shared {
        return d.scalar(i, Type::Pred, &[Type::U64], one(move |a: u64| Space::of(a).0 == asked));
    }
    d.expect_operands(i, 2)?;
    let operands = Operands {
        d: d.destination(&i.operands[0], Type::Pred)?,
        a: d.source(&i.operands[1], Type::U64)?,
        b: d.source(&own_rank(), Type::U32)?,
        ..Operands::default()
    };
    d.lanes(operands, two(is_own_shared));
    Ok(())
}

fn own_rank() -> Operand {
    Operand::Name("%cluster_ctarank".to_owned())
}

/// Whether a generic address is in the shared memory of the CTA of a rank.
fn is_own_shared(address: u64, rank: u32) -> bool {
    match Space::of(address) {
        (Space::ClusterShared, shared) => split_shared(shared).0 == rank,
        _ => false,
    }
}

/// `mapa{.shared::cluster}.type d, a, b`: the address in the CTA of rank `b` that corresponds to
/// `a`.
fn map(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("shared::cluster");
    let ty = w.ty()?;
    d.expect_operands(i, 3)?;
    let operands = Operands {
        d: d.destination(&i.operands[0], ty)?,
        a: d.source(&i.operands[1], ty)?,
        b: d.source(&i.operands[2], Type::U32)?,
        ..Operands::default()
    };
    // A generic address is its window, which is above all ranks, and the address of
    // `.shared::cluster`.
    const RANKS: u64 = WINDOW_BYTES - 1;
    let mapped = |a: u64, rank: u32| (a & !RANKS) | shared_base(rank) & RANKS | split_shared(a).1;
    match ty {
        Type::U32 => d.lanes(operands, two(move |a: u32, rank: u32| mapped(a.into(), rank) as u32)),
        Type::U64 => d.lanes(operands, two(mapped)),
        ty => return Err(unsupported(i, ty)),
    }
    Ok(())
}

/// `getctarank{.shared::cluster}.type d, a`: the rank of the CTA that an address is in.
fn rank(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("shared::cluster");
    let ty = w.ty()?;
    d.expect_operands(i, 2)?;
    let operands = Operands {
        d: d.destination(&i.operands[0], Type::U32)?,
        a: d.source(&i.operands[1], ty)?,
        ..Operands::default()
    };
    match ty {
        Type::U32 => d.lanes(operands, one(|a: u32| split_shared(a.into()).0)),
        Type::U64 => d.lanes(operands, one(|a: u64| split_shared(a & (WINDOW_BYTES - 1)).0)),
        ty => return Err(unsupported(i, ty)),
    }
    Ok(())
}

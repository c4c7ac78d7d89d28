//! Addresses: conversion between spaces, and addresses of other CTAs.

use warpwright_events::{shared_base, split_shared};
use warpwright_ptx::syntax::{Operand, Type};

use crate::decode::{Decoded, Decoder, Row};
use crate::lanes::{Operands, one, two};
use crate::memory::{Space, WINDOW_BYTES};

/// The space that an instruction names.
pub(super) fn space(i: &Row<'_>) -> Option<Space> {
    i.choose(&[
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

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    match i.base() {
        "cvta" => convert(d, i),
        "isspacep" => is_in_space(d, i),
        "mapa" => map(d, i),
        _ => rank(d, i),
    }
}

fn convert(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let window = space(i).ok_or_else(|| i.names_no("state space"))?.window();
    if i.has("to") {
        d.vector(i, one(move |a: u64| a.wrapping_sub(window)))
    } else {
        d.vector(i, one(move |a: u64| a.wrapping_add(window)))
    }
}

fn is_in_space(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let asked = space(i).ok_or_else(|| i.names_no("state space"))?;
    if asked != Space::Shared {
        return d.scalar(i, one(move |a: u64| Space::of(a).0 == asked));
    }
    let slots = Operands { b: d.source(&own_rank(), Type::U32)?, ..d.slots(i)? };
    d.lanes(slots, two(is_own_shared))
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
fn map(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    // A generic address is its window, which is above all ranks, and the address of
    // `.shared::cluster`.
    const RANKS: u64 = WINDOW_BYTES - 1;
    let mapped = |a: u64, rank: u32| (a & !RANKS) | shared_base(rank) & RANKS | split_shared(a).1;
    match i.ty()? {
        Type::U32 => d.vector(i, two(move |a: u32, rank: u32| mapped(a.into(), rank) as u32)),
        _ => d.vector(i, two(mapped)),
    }
}

/// `getctarank{.shared::cluster}.type d, a`: the rank of the CTA that an address is in.
fn rank(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    match i.ty()? {
        Type::U32 => d.vector(i, one(|a: u32| split_shared(a.into()).0)),
        _ => d.vector(i, one(|a: u64| split_shared(a & (WINDOW_BYTES - 1)).0)),
    }
}

//! `tcgen05`: tensor memory, its MMAs, copies and fences (PTX ISA, "TensorCore 5th Generation
//! Family Instructions").
//!
//! A warp allocates columns, frees them, and moves cells to and from its registers. A single thread
//! issues MMAs and copies, and commits them to an mbarrier.

mod cells;
mod columns;
mod moves;
mod work;

use warpwright_events::AsyncKind;
use warpwright_ptx::syntax::{Instruction, Type};

use crate::cta::tensor_memory::copy::CopyShape;
use crate::decode::{DecodeError, Decoder, Words};
use crate::memory::Space;
use crate::operation::kind::Kind;
pub(crate) use moves::complete_loads_to;

use columns::{Allocate, Free, Relinquish};
use moves::{ThreadFence, Wait};
use work::{Commit, CopyIn, ShiftDown};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let group = w.choose(&[("cta_group::1", 1u8), ("cta_group::2", 2)]);
    let kind = if w.take("fence::before_thread_sync") {
        Kind::Effect(Box::new(ThreadFence { after: false }))
    } else if w.take("fence::after_thread_sync") {
        Kind::Effect(Box::new(ThreadFence { after: true }))
    } else if w.take("wait::ld") {
        Kind::Aligned(Box::new(Wait { kind: AsyncKind::TensorLoad }))
    } else if w.take("wait::st") {
        Kind::Aligned(Box::new(Wait { kind: AsyncKind::TensorStore }))
    } else if w.take("ld") {
        moves::load(d, i, w)?
    } else if w.take("st") {
        moves::store(d, i, w)?
    } else {
        of_group(d, i, w, group.ok_or_else(|| DecodeError::new("The instruction names no .cta_group."))?)?
    };
    w.take("sync");
    w.take("aligned");
    w.take("b32");
    w.take("b64");
    d.emit(kind);
    Ok(())
}

/// The modifiers for the number of CTAs.
fn of_group(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    w: &mut Words<'_>,
    group: u8,
) -> Result<Kind, DecodeError> {
    let operand = |index: usize| {
        i.operands.get(index).ok_or_else(|| DecodeError::new("The instruction needs more operands."))
    };
    if w.take("alloc") {
        let space = if w.take("shared::cta") { Space::Shared } else { Space::Generic };
        d.expect_operands(i, 2)?;
        let (address, columns) = (d.memory(operand(0)?)?, d.source(operand(1)?, Type::U32)?);
        return Ok(Kind::Attempt(Box::new(Allocate { group, address, space, columns })));
    }
    if w.take("dealloc") {
        d.expect_operands(i, 2)?;
        let (address, columns) = (d.source(operand(0)?, Type::U32)?, d.source(operand(1)?, Type::U32)?);
        return Ok(Kind::Aligned(Box::new(Free { group, address, columns })));
    }
    if w.take("relinquish_alloc_permit") {
        d.expect_operands(i, 0)?;
        return Ok(Kind::Aligned(Box::new(Relinquish { group })));
    }
    if w.take("commit") {
        w.take("mbarrier::arrive::one");
        let space = if w.take("shared::cluster") { Space::ClusterShared } else { Space::Generic };
        let multicast = w.take("multicast::cluster");
        d.expect_operands(i, if multicast { 2 } else { 1 })?;
        let ranks = if multicast { Some(d.source(operand(1)?, Type::U16)?) } else { None };
        return Ok(Kind::Effect(Box::new(Commit { group, address: d.memory(operand(0)?)?, space, ranks })));
    }
    if w.take("cp") {
        let known = CopyShape::ALL;
        let word = w.take_first(|word| known.iter().map(|(shape, ..)| *shape).find(|shape| *shape == word));
        let warps =
            w.take_first(|word| known.iter().map(|(_, warps, _)| *warps).find(|warps| *warps == word));
        let named = (word.unwrap_or_default(), warps.unwrap_or_default());
        let shape = known.into_iter().find(|(shape, warps, _)| (*shape, *warps) == named);
        let (.., shape) = shape.ok_or_else(|| {
            DecodeError::unsupported("The emulator does not support this shape of tcgen05.cp.")
        })?;
        w.take("b8x16");
        let spread = w.choose(&[("b6x16_p32", 6), ("b4x16_p64", 4)]);
        d.expect_operands(i, 2)?;
        let (to, from) = (d.memory(operand(0)?)?, d.source(operand(1)?, Type::B64)?);
        return Ok(Kind::Effect(Box::new(CopyIn { group, shape, spread, to, from })));
    }
    if w.take("shift") {
        w.take("down");
        d.expect_operands(i, 1)?;
        return Ok(Kind::Effect(Box::new(ShiftDown { group, at: d.memory(operand(0)?)? })));
    }
    if w.take("mma") {
        return work::multiplication(d, i, w, group);
    }
    Err(DecodeError::unsupported("The emulator does not support this operation of tcgen05."))
}

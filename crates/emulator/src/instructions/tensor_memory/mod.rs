//! `tcgen05`: tensor memory, its MMAs, copies and fences (PTX ISA, "TensorCore 5th Generation
//! Family Instructions").
//!
//! A warp allocates columns, frees them, and moves cells to and from its registers. A single thread
//! issues MMAs and copies, and commits them to an mbarrier.

mod cells;
mod columns;
mod moves;
mod work;

use warpwright_arch::instructions::Class;
use warpwright_arch::tcgen05;
use warpwright_events::AsyncKind;
use warpwright_ptx::syntax::Operand;

use super::address;
use super::small_matrix::scale_block;
use crate::cta::tensor_memory::copy::CopyShape;
use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::memory::Space;
use crate::operation::kind::Kind;
use crate::tensor::tensor_memory_multiply::Form;
pub(crate) use moves::complete_loads_to;

use columns::{Allocate, Free, Relinquish};
use moves::{ThreadFence, Wait};
use work::{Commit, CopyIn, IssueMultiply, Multiplicand, ShiftDown};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    // Those without the word are for no CTAs in particular.
    let group = i.choose(&[("cta_group::1", 1u8), ("cta_group::2", 2)]).unwrap_or(1);
    let kind = match i.form().class {
        Class::TensorMemorySync => synchronization(i),
        Class::TensorMemoryLoad => moves::load(d, i)?,
        Class::TensorMemoryStore => moves::store(d, i)?,
        Class::TensorMemoryMma => multiplication(d, i, group)?,
        Class::TensorMemoryCopy if i.has("shift") => {
            Kind::Effect(Box::new(ShiftDown { group, at: d.memory_at(i, 0)? }))
        }
        Class::TensorMemoryCopy => copy(d, i, group)?,
        _ => control(d, i, group)?,
    };
    d.emit(kind);
    Ok(())
}

/// `[d], a-desc or [a], b-desc{, [metadata]}, idesc{, [scales of A], [scales of B]}{, disabled rows},
/// enable-input-d{, scale-input-d or mask of columns}`
fn multiplication(d: Decoder<'_, '_, '_>, i: &Row<'_>, group: u8) -> Result<Kind, DecodeError> {
    let (stationary, sparse) = (i.has("ws"), i.has("sp"));
    let kind = i.find(tcgen05::Kind::from_ptx).ok_or_else(|| i.names_no("kind"))?;
    // Whether the tensor core keeps a matrix for the next MMA does not change results.
    let (shifted, block) = (i.has("ashift"), scale_block(i, kind));
    let to = d.memory_at(i, 0)?;
    let a = match i.operand(1)? {
        Operand::Address(_) => Multiplicand::Cells(d.memory_at(i, 1)?),
        _ => Multiplicand::Shared(d.source_at(i, 1)?),
    };
    let b = d.source_at(i, 2)?;
    let metadata = if sparse { Some(d.memory_at(i, 3)?) } else { None };
    let mut next = 3 + usize::from(sparse);
    let descriptor = d.source_at(i, next)?;
    next += 1;
    let mut scales = None;
    if block.is_some() {
        scales = Some([d.memory_at(i, next)?, d.memory_at(i, next + 1)?]);
        next += 2;
    }
    let mut disabled = Vec::new();
    if let Operand::Vector(_) = i.operand(next)? {
        disabled = d.sources_at(i, next)?;
        next += 1;
    }
    let accumulates = d.predicate(i.operand(next)?)?;
    next += 1;
    let (mut shift, mut masked_columns) = (0, None);
    if stationary && next < i.operands.len() {
        masked_columns = Some(d.source_at(i, next)?);
    } else if next < i.operands.len() {
        shift = i.literal(next)?;
        if !(0..16).contains(&shift) {
            return Err(DecodeError::new("scale-input-d is an integer constant from 0 to 15."));
        }
    }
    Ok(Kind::Effect(Box::new(IssueMultiply {
        form: Form { kind, block, ctas: group.into(), sparse, stationary, shifted },
        d: to,
        a,
        b,
        descriptor,
        disabled,
        metadata,
        scales,
        shift: shift as u32,
        masked_columns,
        accumulates,
    })))
}

fn synchronization(i: &Row<'_>) -> Kind {
    if i.has("wait::ld") {
        return Kind::Aligned(Box::new(Wait { kind: AsyncKind::TensorLoad }));
    }
    if i.has("wait::st") {
        return Kind::Aligned(Box::new(Wait { kind: AsyncKind::TensorStore }));
    }
    Kind::Effect(Box::new(ThreadFence { after: i.has("fence::after_thread_sync") }))
}

fn copy(d: Decoder<'_, '_, '_>, i: &Row<'_>, group: u8) -> Result<Kind, DecodeError> {
    let named =
        |(shape, warps, _): &(&str, &str, CopyShape)| i.has(shape) && (warps.is_empty() || i.has(warps));
    let (.., shape) = CopyShape::ALL.into_iter().find(named).ok_or_else(|| i.names_no("shape"))?;
    let spread = i.choose(&[("b6x16_p32", 6), ("b4x16_p64", 4)]);
    let (to, from) = (d.memory_at(i, 0)?, d.source_at(i, 1)?);
    Ok(Kind::Effect(Box::new(CopyIn { group, shape, spread, to, from })))
}

/// Columns, and commits.
fn control(d: Decoder<'_, '_, '_>, i: &Row<'_>, group: u8) -> Result<Kind, DecodeError> {
    if i.has("alloc") {
        let space = address::space(i).unwrap_or(Space::Generic);
        let (address, columns) = (d.memory_at(i, 0)?, d.source_at(i, 1)?);
        return Ok(Kind::Attempt(Box::new(Allocate { group, address, space, columns })));
    }
    if i.has("dealloc") {
        let (address, columns) = (d.source_at(i, 0)?, d.source_at(i, 1)?);
        return Ok(Kind::Aligned(Box::new(Free { group, address, columns })));
    }
    if i.has("relinquish_alloc_permit") {
        return Ok(Kind::Aligned(Box::new(Relinquish { group })));
    }
    let space = address::space(i).unwrap_or(Space::Generic);
    let ranks = if i.has("multicast::cluster") { Some(d.source_at(i, 1)?) } else { None };
    Ok(Kind::Effect(Box::new(Commit { group, address: d.memory_at(i, 0)?, space, ranks })))
}

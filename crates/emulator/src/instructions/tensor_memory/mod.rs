//! `tcgen05`: tensor memory, its MMAs, copies and fences (PTX ISA, "TensorCore 5th Generation
//! Family Instructions").
//!
//! A warp allocates columns, frees them, and moves cells to and from its registers. A single thread
//! issues MMAs and copies, and commits them to an mbarrier.

mod columns;
mod moves;
mod work;

use warpwright_events::{
    AccessKind, AsyncKind, ByteRange, Cell, FULL, FaultKind, LANES, MemorySpace, TENSOR_ROWS, TileOperand,
    TilePart,
};
use warpwright_ptx::syntax::{Instruction, Type};

use super::availability;
use crate::cta::block::Block;
use crate::cta::tensor_memory::Area;
use crate::cta::tensor_memory::copy::CopyShape;
use crate::decode::{DecodeError, Decoder, Words};
use crate::execution::effect::Execution;
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
pub(crate) use moves::complete_loads_to;

use columns::{Allocate, Free, Relinquish};
use moves::{ThreadFence, Wait};
use work::{Commit, CopyIn, ShiftDown};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    availability::check_whole(d, i)?;
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

fn failure<T>(lanes: u32, message: impl Into<String>) -> Result<T, Box<Failure>> {
    Err(Failure::new(FaultKind::TensorMemory, lanes, message))
}

/// All lanes of the warp execute it (`.sync.aligned`).
fn whole(mask: u32) -> Result<(), Box<Failure>> {
    match mask {
        FULL => Ok(()),
        _ => failure(
            !mask,
            "tcgen05 needs all 32 lanes of the warp here: these have exited or are predicated off.",
        ),
    }
}

/// PTX ISA, "tcgen05.alloc": all instructions of a kernel are for the same number of CTAs.
fn agree(block: &mut Block, group: u8, pc: u32) -> Result<(), Box<Failure>> {
    let (first, at) = *block.tensor_memory.columns.group.get_or_insert((group, pc));
    if first == group {
        return Ok(());
    }
    let message = format!(
        "This instruction has .cta_group::{group}, and the kernel has used .cta_group::{first} \
         before."
    );
    let mut found = Failure::new(FaultKind::TensorMemory, 0, message)
        .note("all tcgen05 instructions of a kernel name the same .cta_group (PTX ISA, \"tcgen05.alloc\")");
    found.also.push((at, format!(".cta_group::{first} is used here")));
    found.help = Some(format!("write .cta_group::{first} everywhere, or .cta_group::{group}"));
    Err(found)
}

/// A value that all lanes of a warp have in common.
fn uniform(column: &[u32; LANES], what: &str) -> Result<u32, Box<Failure>> {
    let differing =
        (0..LANES).filter(|&lane| column[lane] != column[0]).fold(0, |mask, lane| mask | 1 << lane);
    match differing {
        0 => Ok(column[0]),
        _ => failure(
            differing,
            format!(
                "{what} must be the same in all lanes: it is {:#x} in lane 0, and another in these.",
                column[0]
            ),
        ),
    }
}

/// The cell of an address. There are 128 rows, and higher bits of a row are ignored: kernels for pairs
/// of CTAs that add 128 in the second one run on a B200.
fn cell(execution: &Execution<'_>, operand: &AddressOperand, lane: usize) -> Cell {
    let Cell { row, column } = Cell::of(addresses(execution, operand)[lane] as u32);
    Cell { row: row % TENSOR_ROWS, column }
}

/// Areas of a CTA's tensor memory that are written, as ranges for observers, one per row.
fn written(areas: &[Area], rank: u32) -> Vec<ByteRange> {
    ranges(areas, rank, AccessKind::Write, None)
}

/// The same of areas that are read as a tile.
fn read(areas: &[Area], rank: u32, operand: TileOperand) -> Vec<ByteRange> {
    ranges(areas, rank, AccessKind::Read, Some(operand))
}

fn ranges(areas: &[Area], rank: u32, kind: AccessKind, operand: Option<TileOperand>) -> Vec<ByteRange> {
    let rows = areas.iter().flat_map(|area| (0..area.rows).map(move |row| (area, row)));
    rows.zip(0..)
        .map(|((area, row), index)| ByteRange {
            space: MemorySpace::Tensor,
            first: Cell { row: area.first.row + row, ..area.first }.byte(rank),
            bytes: u64::from(area.columns * 4),
            kind,
            part: operand.map(|operand| TilePart { operand, row: index, position: 0, rows: 1 }),
        })
        .collect()
}

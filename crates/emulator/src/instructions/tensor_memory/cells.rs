//! What the instructions of tensor memory have in common: the lanes that take part, the cells of an
//! address, and what they refuse.

use warpwright_events::{
    AccessKind, ByteRange, Cell, FULL, FaultKind, LANES, MemorySpace, TENSOR_ROWS, TileOperand, TilePart,
};

use crate::cta::block::Block;
use crate::cta::tensor_memory::Area;
use crate::execution::effect::Execution;
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::AddressOperand;

pub(super) fn failure<T>(lanes: u32, message: impl Into<String>) -> Result<T, Box<Failure>> {
    Err(Failure::new(FaultKind::TensorMemory, lanes, message))
}

/// All lanes of the warp execute it (`.sync.aligned`).
pub(super) fn whole(mask: u32) -> Result<(), Box<Failure>> {
    match mask {
        FULL => Ok(()),
        _ => failure(
            !mask,
            "tcgen05 needs all 32 lanes of the warp here: these have exited or are predicated off.",
        ),
    }
}

/// PTX ISA, "tcgen05.alloc": all instructions of a kernel are for the same number of CTAs.
pub(super) fn agree(block: &mut Block, group: u8, pc: u32) -> Result<(), Box<Failure>> {
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
pub(super) fn uniform(column: &[u32; LANES], what: &str) -> Result<u32, Box<Failure>> {
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
pub(super) fn cell(execution: &Execution<'_>, operand: &AddressOperand, lane: usize) -> Cell {
    let Cell { row, column } = Cell::of(addresses(execution, operand)[lane] as u32);
    Cell { row: row % TENSOR_ROWS, column }
}

/// Areas of a CTA's tensor memory that are written, as ranges for observers, one per row.
pub(super) fn written(areas: &[Area], rank: u32) -> Vec<ByteRange> {
    ranges(areas, rank, AccessKind::Write, None)
}

/// The same of areas that are read as a tile.
pub(super) fn read(areas: &[Area], rank: u32, operand: TileOperand) -> Vec<ByteRange> {
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

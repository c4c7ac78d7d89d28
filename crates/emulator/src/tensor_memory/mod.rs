//! Tensor memory: what the fifth generation of tensor cores computes in (PTX ISA, "Tensor Memory").
//!
//! A CTA's is 128 rows by 512 columns of 32-bit cells. (The PTX ISA calls the rows lanes; here lanes are threads.) An address is
//! the row in bits 16 and up, and the column below. Columns are asked for and given back while the kernel runs.
//!
//! | file | what it holds |
//! |---|---|
//! | [`columns`] | who has which columns |
//! | [`shape`] | which register of which lane goes to which cell |
//! | [`moves`] | loads and stores |
//! | [`copy`] | copies from shared memory |
//! | [`multiply`] | multiplies, by one CTA or a pair |
//! | [`pipeline`] | what was issued and has not happened, and what its end is told to |

pub(crate) mod columns;
pub(crate) mod copy;
pub(crate) mod moves;
pub(crate) mod multiply;
pub(crate) mod pipeline;
pub(crate) mod shape;

use columns::Columns;
use warpwright_events::{Cell, FULL, FaultKind, TENSOR_COLUMNS, TENSOR_ROWS};

use crate::cluster::Blocks;
use crate::cta::Block;
use crate::memory::Trouble;
use crate::tensor::warpgroup_operands::Outside;

/// Rows that a warp of a warpgroup reaches: the first warp the first 32, and so on (PTX ISA, "Access restrictions").
pub(crate) const ROWS_OF_WARP: u32 = 32;
/// What columns hold that nothing has written.
const POISON: u32 = u32::MAX;

/// A rectangle of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) first: Cell,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
}

/// The tensor memory of a CTA. Its cells are there from the first time that columns are asked for.
#[derive(Debug, Default)]
pub(crate) struct TensorMemory {
    cells: Vec<u32>,
    pub(crate) columns: Columns,
}

impl TensorMemory {
    /// Forgets everything, for another CTA.
    pub(crate) fn reset(&mut self) {
        self.columns = Columns::default();
    }

    /// Gives a number of columns away; the first of them, if so many are free.
    pub(crate) fn allocate(&mut self, columns: u32) -> Option<u32> {
        self.cells.resize((TENSOR_ROWS * TENSOR_COLUMNS) as usize, POISON);
        let first = self.columns.allocate(columns)?;
        for row in 0..TENSOR_ROWS {
            let start = (row * TENSOR_COLUMNS + first) as usize;
            self.cells[start..start + columns as usize].fill(POISON);
        }
        Some(first)
    }

    /// Holds cells to those that somebody has asked for.
    pub(crate) fn check(&self, what: &str, area: Area) -> Result<(), Box<Trouble>> {
        let Area { first: Cell { row, column }, rows, columns } = area;
        if row + rows > TENSOR_ROWS {
            let message = format!(
                "{what} reaches rows {row} to {} of tensor memory, which has {TENSOR_ROWS}.",
                row + rows - 1
            );
            return Err(Trouble::new(FaultKind::OutOfBounds, FULL, message));
        }
        if self.columns.hold(column, columns) {
            return Ok(());
        }
        let message = match columns {
            1 => format!("{what} reaches column {column} of tensor memory, which is not allocated."),
            _ => format!(
                "{what} reaches columns {column} to {} of tensor memory, and not all of them are allocated.",
                column + columns - 1
            ),
        };
        Err(Trouble::new(FaultKind::OutOfBounds, FULL, message).note(self.columns.in_words()))
    }

    /// What a cell that was checked holds.
    #[inline(always)]
    pub(crate) fn get(&self, row: u32, column: u32) -> u32 {
        self.cells[(row * TENSOR_COLUMNS + column) as usize]
    }

    /// Writes a cell that was checked.
    #[inline(always)]
    pub(crate) fn set(&mut self, row: u32, column: u32, value: u32) {
        self.cells[(row * TENSOR_COLUMNS + column) as usize] = value;
    }
}

/// The ranks of the CTAs that take part in what one of them issues.
pub(crate) fn ranks(own: u32, ctas: u32) -> impl Iterator<Item = u32> {
    let first = if ctas == 2 { own & !1 } else { own };
    first..first + ctas
}

/// A CTA that takes part, which must be there.
pub(crate) fn partner<'b>(blocks: &'b mut Blocks<'_>, rank: u32) -> Result<&'b mut Block, Box<Trouble>> {
    let own = blocks.own.rank;
    let trouble = |message: String| Err(Trouble::new(FaultKind::PeerNotResident, FULL, message));
    match blocks.get(rank) {
        Some(block) if rank == own || block.is_running() => Ok(block),
        Some(block) => {
            let what = if block.started { "has exited" } else { "has not started" };
            trouble(format!("The work is of a pair of CTAs, of which that of rank {rank} {what}."))
        }
        None => trouble(format!(
            ".cta_group::2 is for pairs of CTAs in a cluster, and the CTA of rank {own} has no partner."
        )),
    }
}

fn outside(outside: Outside, size: u64) -> Box<Trouble> {
    let message = format!(
        "A matrix of tcgen05 reaches beyond the CTA's shared memory, which is {size} bytes long: 16 bytes at {:#x} are not there.",
        outside.address
    );
    Trouble::new(FaultKind::OutOfBounds, FULL, message)
}

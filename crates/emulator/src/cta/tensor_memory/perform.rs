//! The execution of copies and MMAs.

use warpwright_events::Cell;

use super::cells::TensorMemory;
use super::copy::Copy;
use super::multiply::{Left, Multiply};
use super::pair::{outside, partner, ranks};
use crate::cta::block::{Block, Blocks};
use crate::lanes::{Vectored, in_vectors};
use crate::launch::failure::Failure;
use crate::tensor::descriptor::{Major, PIECE};
use crate::tensor::tensor_memory_multiply::{Accumulator, RUN, RowLayout};
use crate::tensor::warpgroup_operands::{LeftOperand, Operands, Outside};

impl Copy {
    /// Executes the copy.
    pub(super) fn perform(&self, blocks: &mut Blocks<'_>) -> Result<(), Box<Failure>> {
        let Copy { shape, to, from, ctas } = self;
        for rank in ranks(blocks.own.rank, *ctas) {
            let Block { shared, tensor_memory, .. } = partner(blocks, rank)?;
            for (row, piece) in
                (0..shape.rows).flat_map(|row| (0..shape.pieces).map(move |piece| (row, piece)))
            {
                let address = from.address(Major::K, row, piece);
                let bytes = shared
                    .bytes()
                    .get(address as usize..)
                    .and_then(|rest| rest.first_chunk::<{ PIECE as usize }>());
                let bytes = *bytes.ok_or_else(|| outside(Outside { address }, shared.size()))?;
                for (word, bytes) in (0..).zip(bytes.chunks_exact(4)) {
                    let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    for target in shape.targets(row) {
                        tensor_memory.set(to.row + target, to.column + piece * 4 + word, value);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Multiply {
    /// Executes the MMA.
    pub(super) fn perform(&self, blocks: &mut Blocks<'_>) -> Result<(), Box<Failure>> {
        let mut operands = std::mem::take(&mut blocks.own.tensor_pipeline.operands);
        let happened = self.perform_with(blocks, &mut operands);
        blocks.own.tensor_pipeline.operands = operands;
        happened
    }

    fn perform_with(&self, blocks: &mut Blocks<'_>, operands: &mut Operands) -> Result<(), Box<Failure>> {
        let multiply = &self.multiply;
        let own = blocks.own.rank;
        for (part, rank) in ranks(own, multiply.ctas).enumerate() {
            let shared = &partner(blocks, rank)?.shared;
            let collected = in_vectors(Right { work: self, operands, part, shared: shared.bytes() });
            collected.map_err(|found| outside(found, shared.size()))?;
        }
        for (part, rank) in ranks(own, multiply.ctas).enumerate() {
            let block = partner(blocks, rank)?;
            block.mma_multiply_adds += multiply.multiply_adds();
            for run in 0..multiply.rows / RUN {
                let size = block.shared.size();
                let done = in_vectors(Run { work: self, operands, part, run, block });
                done.map_err(|found| outside(found, size))?;
            }
        }
        Ok(())
    }
}

/// A CTA's columns of B, to be collected.
struct Right<'a> {
    work: &'a Multiply,
    operands: &'a mut Operands,
    part: usize,
    shared: &'a [u8],
}

impl Vectored for Right<'_> {
    type Result = Result<(), Outside>;

    #[inline(always)]
    fn compute(self) -> Result<(), Outside> {
        let Right { work, operands, part, shared } = self;
        work.multiply.read_right(operands, part, work.b, shared)?;
        if part + 1 == work.multiply.ctas as usize {
            work.multiply.ready_right(operands);
        }
        Ok(())
    }
}

/// A run of rows of a CTA, to be multiplied.
struct Run<'a> {
    work: &'a Multiply,
    operands: &'a mut Operands,
    part: usize,
    run: usize,
    block: &'a mut Block,
}

impl Vectored for Run<'_> {
    type Result = Result<(), Outside>;

    #[inline(always)]
    fn compute(self) -> Result<(), Outside> {
        let Run { work, operands, part, run, block } = self;
        let multiply = &work.multiply;
        let Block { shared, tensor_memory, .. } = block;
        match work.a {
            Left::Shared(a) => {
                let a = LeftOperand::Shared(multiply.run_of_left(a, run));
                multiply.read_left(operands, a, shared.bytes())?;
            }
            Left::Cells(first) => {
                let width = multiply.element_bits();
                let each = 32 / width;
                let element = |row: usize, step: usize| {
                    let row = first.row + row_of(multiply.layout(), run, row);
                    let cell = tensor_memory.get(row, first.column + (step / each) as u32);
                    cell >> (step % each * width) & (u32::MAX >> (32 - width))
                };
                multiply.read_left(operands, LeftOperand::Elements(&element), shared.bytes())?;
            }
        }
        let disabled: [u32; 4] = std::array::from_fn(|word| work.disabled[part * 4 + word]);
        multiply.multiply(
            operands,
            work.accumulates,
            &mut Cells { work, run, disabled, memory: tensor_memory },
        );
        Ok(())
    }
}

/// The row of tensor memory, relative to the first one, for a row of a run.
#[inline(always)]
fn row_of(layout: RowLayout, run: usize, row: usize) -> u32 {
    match layout {
        RowLayout::Straight => (run * RUN + row) as u32,
        RowLayout::Every16 => (row / 16 * 32 + row % 16) as u32,
        RowLayout::Folded => row as u32,
    }
}

/// A run of D in tensor memory.
struct Cells<'a> {
    work: &'a Multiply,
    run: usize,
    disabled: [u32; 4],
    memory: &'a mut TensorMemory,
}

impl Cells<'_> {
    #[inline(always)]
    fn cell(&self, row: usize, column: usize) -> Cell {
        let (d, multiply) = (self.work.d, &self.work.multiply);
        let layout = multiply.layout();
        let first = row_of(layout, self.run, row);
        let half = multiply.columns / 2;
        if layout == RowLayout::Folded && column >= half {
            return Cell { row: d.row + first + RUN as u32, column: d.column + (column - half) as u32 };
        }
        Cell { row: d.row + first, column: d.column + column as u32 }
    }
}

impl Accumulator for Cells<'_> {
    #[inline(always)]
    fn get(&self, row: usize, column: usize) -> u32 {
        let Cell { row, column } = self.cell(row, column);
        self.memory.get(row, column)
    }

    #[inline(always)]
    fn set(&mut self, row: usize, column: usize, bits: u32) {
        let Cell { row, column } = self.cell(row, column);
        if self.disabled[row as usize / 32] >> (row % 32) & 1 == 0 {
            self.memory.set(row, column, bits);
        }
    }
}

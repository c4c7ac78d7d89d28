//! The execution of copies and MMAs.

use std::ops::Range;

use warpwright_events::Cell;

use super::cells::{Area, TensorMemory};
use super::copy::Copy;
use super::multiply::{Left, Multiply, scale_cell};
use super::pair::{outside, partner, ranks};
use super::shift::Shift;
use crate::cta::block::{Block, Blocks};
use crate::lanes::{Vectored, in_vectors};
use crate::launch::failure::Failure;
use crate::tensor::block_scaled::{Elements, Scaling, multiply_add};
use crate::tensor::descriptor::{Major, MatrixDescriptor, PIECE};
use crate::tensor::tensor_memory_multiply::{Accumulator, RUN, RowLayout};
use crate::tensor::warpgroup_operands::{self, LeftOperand, Operands, Outside, words_of};

impl Copy {
    /// Executes the copy.
    pub(super) fn perform(&self, blocks: &mut Blocks<'_>) -> Result<(), Box<Failure>> {
        let Copy { shape, to, from, spread, ctas } = self;
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
                let words = words_of(&bytes);
                let words = spread.map_or(words, |width| contained(words, width));
                for (word, value) in (0..).zip(words) {
                    for target in shape.targets(row) {
                        tensor_memory.set(to.row + target, to.column + piece * 4 + word, value);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Shift {
    /// Executes the shift.
    pub(super) fn perform(self, blocks: &mut Blocks<'_>) -> Result<(), Box<Failure>> {
        for rank in ranks(blocks.own.rank, self.ctas) {
            let memory = &mut partner(blocks, rank)?.tensor_memory;
            for Area { first, rows, columns } in self.targets() {
                for (row, column) in
                    (0..rows).flat_map(|row| (0..columns).map(move |column| (row, first.column + column)))
                {
                    let next = memory.get(first.row + row + 1, column);
                    memory.set(first.row + row, column, next);
                }
            }
        }
        Ok(())
    }
}

impl Multiply {
    /// Executes the MMA, and shifts A after it (`.ashift`).
    pub(super) fn perform(&self, blocks: &mut Blocks<'_>) -> Result<(), Box<Failure>> {
        self.multiply_add(blocks)?;
        self.shift_of_left().map_or(Ok(()), |shift| shift.perform(blocks))
    }

    fn multiply_add(&self, blocks: &mut Blocks<'_>) -> Result<(), Box<Failure>> {
        if let (Some(scaling), Some(scales)) = (self.multiply.scaling, self.scales) {
            return self.perform_scaled(blocks, scaling, scales);
        }
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
            let size = block.shared.size();
            let banks = self.left_banks();
            let width = multiply.columns / banks;
            for bank in 0..banks {
                let rows = match self.a {
                    Left::Shared(a) if !multiply.sparse && multiply.rows >= RUN => Rows::Shared(a),
                    _ => Rows::Bits(self.left_bits(block, bank)?),
                };
                for run in 0..multiply.rows.div_ceil(RUN) {
                    let columns = bank * width..(bank + 1) * width;
                    let done =
                        in_vectors(Run { work: self, operands, part, run, columns, rows: &rows, block });
                    done.map_err(|found| outside(found, size))?;
                }
            }
        }
        Ok(())
    }

    /// The bits of A in a CTA, row after row, with all zeros, for a part of the columns.
    fn left_bits(&self, block: &Block, bank: usize) -> Result<Vec<u32>, Box<Failure>> {
        let (multiply, memory) = (&self.multiply, &block.tensor_memory);
        let stored = match self.a {
            Left::Shared(a) => multiply.stored_left(a, block.shared.bytes()),
            Left::Cells(first) => Ok(self.cells_of_left(memory, first, bank)),
        };
        let stored = stored.map_err(|found| outside(found, block.shared.size()))?;
        Ok(match self.metadata {
            Some(first) => multiply.expanded(&stored, |row| {
                let row = self.left_row(row, bank);
                self.metadata_of(memory, first, row)
            }),
            None => stored,
        })
    }

    /// The row of tensor memory with a row of A, for a part of the columns.
    fn left_row(&self, row: usize, bank: usize) -> u32 {
        let layout = self.multiply.layout();
        layout.place(row, bank, layout.banks()).0 as u32
    }

    /// The bits of the elements of A in tensor memory, row after row.
    fn cells_of_left(&self, memory: &TensorMemory, first: Cell, bank: usize) -> Vec<u32> {
        let (multiply, width) = (&self.multiply, self.multiply.element_bits());
        let unpadded = multiply.unpadded_bits();
        let (each, mask) = (32 / width, u32::MAX >> (32 - unpadded));
        let below = bits_below(unpadded as u32, width as u32);
        let element = |row: usize, step: usize| {
            let row = first.row + self.left_row(row, bank);
            let cell = memory.get(row, first.column + (step / each) as u32);
            cell >> (step % each * width) >> below & mask
        };
        let depth = multiply.stored_depth();
        (0..multiply.rows)
            .flat_map(|row| (0..depth).map(move |step| (row, step)))
            .map(|(row, step)| element(row, step))
            .collect()
    }

    /// The metadata of a row of tensor memory with A. Of elements of 16 and 32 bits, a cell has 16 bits
    /// for a row and for the eighth one after it, the second half of the depth is eight rows further
    /// down, and the selector is the column. (CUTLASS, `Sm1xxGemmSparseConfig`; TIRx-harness,
    /// `raw_tcgen05_sparse_metadata_location`.)
    fn metadata_of(&self, memory: &TensorMemory, first: Cell, row: u32) -> u64 {
        let cell = |row: u32, column: u32| u64::from(memory.get(first.row + row, first.column + column));
        if self.multiply.element_bits() < 16 {
            return cell(row, 0) | cell(row, 1) << 32;
        }
        let half = |half: u32| {
            let row_of_half = row / 16 * 16 + row % 8 + 8 * half;
            cell(row_of_half, self.multiply.selector) >> (row / 8 % 2 * 16) & 0xffff
        };
        half(0) | half(1) << 16
    }
}

/// The bits below an element in its container: floats of 4 bits are in the middle of a byte (PTX ISA,
/// "Packing formats"; `tcgen05.cp` of a B200 places them there, TIRx-harness).
fn bits_below(bits: u32, container: u32) -> u32 {
    if (bits, container) == (4, 8) { 2 } else { 0 }
}

/// Elements of 4 or 6 bits, each in a byte as tensor memory has them.
fn contained(words: [u32; 4], bits: u32) -> [u32; 4] {
    warpgroup_operands::spread(words, bits).map(|word| word << bits_below(bits, 8))
}

impl Multiply {
    /// Executes an MMA with scales.
    fn perform_scaled(
        &self,
        blocks: &mut Blocks<'_>,
        scaling: Scaling,
        [scales_of_a, scales_of_b]: [Cell; 2],
    ) -> Result<(), Box<Failure>> {
        let multiply = &self.multiply;
        let mut b: Option<Elements> = None;
        for rank in ranks(blocks.own.rank, multiply.ctas) {
            let shared = &partner(blocks, rank)?.shared;
            let columns = multiply.right_elements(self.b, shared.bytes());
            let columns = columns.map_err(|found| outside(found, shared.size()))?;
            match &mut b {
                Some(b) => b.append(columns),
                None => b = Some(columns),
            }
        }
        let Some(b) = b else { return Ok(()) };
        for rank in ranks(blocks.own.rank, multiply.ctas) {
            let block = partner(blocks, rank)?;
            block.mma_multiply_adds += multiply.multiply_adds();
            let banks = self.left_banks();
            let of_bank = |bank| Ok(multiply.elements(&self.left_bits(block, bank)?));
            let a = (0..banks).map(of_bank).collect::<Result<Vec<Elements>, Box<Failure>>>()?;
            let memory = &mut block.tensor_memory;
            for run in 0..multiply.rows / RUN {
                let columns = 0..multiply.columns;
                let layout = multiply.layout();
                let mut cells =
                    Cells { work: self, layout, run, columns, disabled: [0; 4], memory: &mut *memory };
                for (row, column) in
                    (0..RUN).flat_map(|row| (0..multiply.columns).map(move |column| (row, column)))
                {
                    let quarter = cells.cell(row, column).row / 32;
                    let d = if self.accumulates { cells.get_one(row, column) } else { 0 };
                    let all_row = run * RUN + row;
                    let of = |first: Cell, index: usize| {
                        let Cell { row, column } = scale_cell(first, quarter, index as u32);
                        cells.memory.get(row, column)
                    };
                    let found = [of(scales_of_a, all_row), of(scales_of_b, column % self.scale_columns())];
                    let scales = |block: usize| {
                        [0, 1].map(|side| scaling.scale(found[side], scaling.first[side], block))
                    };
                    let a = &a[column * banks / multiply.columns];
                    let d =
                        multiply_add((a, all_row), (&b, column), scaling.block, scales, f32::from_bits(d));
                    cells.set_one(row, column, d.to_bits());
                }
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
        work.multiply.read_right(operands, part, (work.b, work.mask.shift()), shared)?;
        if part + 1 == work.multiply.ctas as usize {
            work.multiply.ready_right(operands, work.mask);
        }
        Ok(())
    }
}

/// Rows of A of a CTA.
enum Rows {
    Shared(MatrixDescriptor),
    Bits(Vec<u32>),
}

/// A run of rows of a CTA, to be multiplied.
struct Run<'a> {
    work: &'a Multiply,
    operands: &'a mut Operands,
    part: usize,
    run: usize,
    columns: Range<usize>,
    rows: &'a Rows,
    block: &'a mut Block,
}

impl Vectored for Run<'_> {
    type Result = Result<(), Outside>;

    #[inline(always)]
    fn compute(self) -> Result<(), Outside> {
        let Run { work, operands, part, run, columns, rows, block } = self;
        let multiply = &work.multiply;
        let Block { shared, tensor_memory, .. } = block;
        match rows {
            Rows::Shared(a) => {
                let a = LeftOperand::Shared(multiply.run_of_left(*a, run));
                multiply.read_left(operands, a, shared.bytes())?;
            }
            Rows::Bits(bits) => {
                let depth = multiply.depth();
                let element = |row: usize, step: usize| {
                    bits.get((run * RUN + row) * depth + step).copied().unwrap_or(0)
                };
                multiply.read_left(operands, LeftOperand::Elements(&element), shared.bytes())?;
            }
        }
        let disabled: [u32; 4] = std::array::from_fn(|word| work.disabled[part * 4 + word]);
        multiply.multiply(
            operands,
            work.accumulates,
            &mut Cells { work, layout: multiply.layout(), run, columns, disabled, memory: tensor_memory },
        );
        Ok(())
    }
}

/// A run of D in tensor memory.
struct Cells<'a> {
    work: &'a Multiply,
    layout: RowLayout,
    run: usize,
    /// The columns that are written.
    columns: Range<usize>,
    disabled: [u32; 4],
    memory: &'a mut TensorMemory,
}

impl Cells<'_> {
    #[inline(always)]
    fn cell(&self, row: usize, column: usize) -> Cell {
        let (d, multiply) = (self.work.d, &self.work.multiply);
        let (row, column) = self.layout.place(self.run * RUN + row, column, multiply.columns);
        Cell { row: d.row + row as u32, column: d.column + column as u32 }
    }

    /// Whether the run has the row.
    #[inline(always)]
    fn has(&self, row: usize) -> bool {
        row < self.work.multiply.rows
    }
}

impl Cells<'_> {
    /// The first cell of eight columns, if they are neighbors in tensor memory, too.
    #[inline(always)]
    fn neighbors(&self, row: usize, eight: usize) -> Option<Cell> {
        let (first, last) = (self.cell(row, 8 * eight), self.cell(row, 8 * eight + 7));
        (last == Cell { column: first.column + 7, ..first }).then_some(first)
    }

    /// What is added to, of an element's bits.
    #[inline(always)]
    fn divided(&self, bits: u32) -> u32 {
        if self.work.shift == 0 { bits } else { self.work.multiply.divided(bits, self.work.shift) }
    }

    /// Whether a row of tensor memory is written.
    #[inline(always)]
    fn is_enabled(&self, row: u32) -> bool {
        self.disabled[row as usize / 32] >> (row % 32) & 1 == 0
    }

    fn get_one(&self, row: usize, column: usize) -> u32 {
        let Cell { row, column } = self.cell(row, column);
        self.divided(self.memory.get(row, column))
    }

    fn set_one(&mut self, row: usize, column: usize, bits: u32) {
        let cell = self.cell(row, column);
        if self.columns.contains(&column) && self.is_enabled(cell.row) {
            self.memory.set(cell.row, cell.column, bits);
        }
    }
}

impl Accumulator for Cells<'_> {
    #[inline(always)]
    fn get(&self, row: usize, eight: usize) -> [u32; 8] {
        match self.neighbors(row, eight) {
            _ if !self.has(row) => [0; 8],
            Some(first) if self.work.shift == 0 => self.memory.get_eight(first),
            Some(first) => self.memory.get_eight(first).map(|bits| self.divided(bits)),
            None => std::array::from_fn(|column| self.get_one(row, 8 * eight + column)),
        }
    }

    #[inline(always)]
    fn set(&mut self, row: usize, eight: usize, bits: [u32; 8]) {
        if !self.has(row) {
            return;
        }
        let columns = 8 * eight..8 * eight + 8;
        match self.neighbors(row, eight) {
            Some(first) if self.columns.start <= columns.start && columns.end <= self.columns.end => {
                if self.is_enabled(first.row) {
                    self.memory.set_eight(first, bits);
                }
            }
            _ => columns.zip(bits).for_each(|(column, bits)| self.set_one(row, column, bits)),
        }
    }
}

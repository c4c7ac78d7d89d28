//! `tcgen05.mma`: a product of matrices in shared memory, accumulated in tensor memory (PTX ISA,
//! "TensorCore 5th Generation Matrix Multiply and accumulate Operations").
//!
//! D has 32 to 256 rows. A CTA's part of D, and of A, is one or two runs of up to 64 rows, each
//! multiplied as by `wgmma`. (No such GPU was available: accumulation is that of Hopper's tensor
//! cores.) In every type a row of A is 32 bytes, and a column of B is, or 64 bytes if A is sparse.

use warpwright_arch::{DataType, tcgen05};
use warpwright_events::{TileOperand, TilePart, Unit};

use crate::decode::description::tensor;

use super::aligned_sum::{self, BLOCK, COLUMNS};
use super::block_scaled::{Elements, Scaling};
use super::column_mask::ColumnMask;
use super::descriptor::{Major, MatrixDescriptor, PIECE};
use super::sparse::Granularity;
use super::warpgroup::{self, WARPS, WarpgroupMultiply, half_bits};
use super::warpgroup_operands::{LeftOperand, Matrix, Operands, Outside, Rows, half_value};
use super::{Column, LANES, Shape};

pub(crate) use warpwright_arch::tcgen05::Kind;

/// Bytes of a row of A, and of a column of B.
pub(crate) const DEPTH_BYTES: usize = tcgen05::DEPTH_BYTES as usize;
/// Rows that are multiplied at once.
pub(crate) const RUN: usize = 64;
/// Rows of a warp's share of them.
const ROWS: usize = RUN / WARPS;

/// The type of A or B by its number in the instruction descriptor.
fn operand(kind: Kind, number: u32) -> Result<DataType, String> {
    let found = tcgen05::data_type(kind.inputs(), number);
    found.ok_or_else(|| format!("{number} is not the number of an operand type of .kind::{}", kind.ptx()))
}

/// The type of D by its number.
fn accumulator(kind: Kind, number: u32) -> Result<DataType, String> {
    let found = tcgen05::data_type(kind.accumulators(), number);
    found.ok_or_else(|| format!("{number} is not the number of a type of D of .kind::{}", kind.ptx()))
}

/// The scales that a descriptor names: their type is in bit 23, and the bytes of the first ones in bits
/// 4 and 5 (B) and 29 and 30 (A).
fn scaling(kind: Kind, block: u32, field: impl Fn(u32, u32) -> u32) -> Result<Scaling, String> {
    let number = field(23, 1);
    let element = tcgen05::data_type(kind.scales(), number).ok_or_else(|| {
        format!("bit 23 is {number}, which is not the number of a scale type of .kind::{}", kind.ptx())
    })?;
    if (element, block) == (DataType::E4m3, 32) {
        return Err("scales of blocks of 32 are .ue8m0 (bit 23)".to_owned());
    }
    let scales = tcgen05::DEPTH_BYTES * if kind.is_packed() { 2 } else { 1 } / block;
    let depth = if field(2, 1) == 0 { 1 } else { 2 };
    let first = [field(29, 2), field(4, 2)];
    match first.into_iter().find(|first| !first.is_multiple_of(scales)) {
        Some(first) => {
            Err(format!("the first of {scales} scales is byte {first} of a cell; use a multiple of {scales}"))
        }
        None => Ok(Scaling {
            // A sparse row has as many scales, of blocks that are twice as long (CUTLASS).
            block: (depth * block) as usize,
            element,
            first: first.map(|first| first as usize),
        }),
    }
}

/// What the modifiers of an MMA say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) kind: Kind,
    /// Elements along k that have a scale in common, if it has scales.
    pub(crate) block: Option<u32>,
    /// CTAs that hold a part of it each: 1 or 2.
    pub(crate) ctas: u32,
    /// Whether A is sparse.
    pub(crate) sparse: bool,
    /// Whether it is weight-stationary (`.ws`).
    pub(crate) stationary: bool,
    /// Whether the rows of A are shifted after the product.
    pub(crate) shifted: bool,
}

impl Form {
    /// The rows that D may have.
    fn legal_rows(self) -> &'static [u32] {
        if self.stationary {
            return tcgen05::STATIONARY_ROWS;
        }
        let rows = tcgen05::rows(self.ctas, self.block.is_some());
        // `.ashift` needs 128 or 256 (PTX ISA, "tcgen05.mma").
        if self.shifted && self.ctas == 1 { &rows[1..] } else { rows }
    }

    /// Refuses a number of columns that D cannot have, with the legal ones.
    fn check_columns(self, rows: u32, columns: u32) -> Result<(), String> {
        if self.stationary {
            let legal =
                if self.sparse { &tcgen05::STATIONARY_COLUMNS[..2] } else { tcgen05::STATIONARY_COLUMNS };
            return match legal.contains(&columns) {
                true => Ok(()),
                false => Err(in_words(legal)),
            };
        }
        let (step, most) =
            (tcgen05::column_step(self.ctas, rows, self.block.is_some()), tcgen05::MAX_COLUMNS);
        match (step..=most).contains(&columns) && columns.is_multiple_of(step) {
            true => Ok(()),
            false => Err(format!("a multiple of {step}, from {step} to {most}")),
        }
    }
}

/// `64 and 128`
fn in_words(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" and ")
}

/// The parameters of an MMA except for the addresses of its matrices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TensorMemoryMultiply {
    /// CTAs that hold a part of it each: 1 or 2.
    pub(crate) ctas: u32,
    /// Rows of D, and of A, that a CTA holds.
    pub(crate) rows: usize,
    /// Columns of D.
    pub(crate) columns: usize,
    /// The scales of blocks, if it has them.
    pub(crate) scaling: Option<Scaling>,
    /// Whether A is sparse.
    pub(crate) sparse: bool,
    /// The column after the first one that has the metadata of a sparse A.
    pub(crate) selector: u32,
    /// The most columns by which a mask of zero columns may shift B.
    pub(crate) most_shift: usize,
    stationary: bool,
    /// One run of rows.
    run: WarpgroupMultiply,
}

/// The rows of a CTA's part of D (PTX ISA, "Data Path Layout Organization").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowLayout {
    /// Row after row: layouts A and D.
    Straight,
    /// The first 16 of every 32 rows: layouts C and F.
    Every16,
    /// The upper half of the columns in the lower 64 rows: layouts B and E.
    Folded,
    /// A quarter of the columns in every 32 rows: layout G.
    Quartered,
}

impl RowLayout {
    /// Where an element of D is, relative to the first one. `columns` is the number of its columns.
    #[inline(always)]
    pub(crate) fn place(self, row: usize, column: usize, columns: usize) -> (usize, usize) {
        match self {
            RowLayout::Straight => (row, column),
            RowLayout::Every16 => (row / 16 * 32 + row % 16, column),
            RowLayout::Folded => (row + column / (columns / 2) * 64, column % (columns / 2)),
            RowLayout::Quartered => (row + column / (columns / 4) * 32, column % (columns / 4)),
        }
    }

    /// The parts of the columns that have rows of their own.
    pub(crate) fn banks(self) -> usize {
        match self {
            RowLayout::Straight | RowLayout::Every16 => 1,
            RowLayout::Folded => 2,
            RowLayout::Quartered => 4,
        }
    }
}

impl TensorMemoryMultiply {
    /// Decodes the 32 bits of an instruction descriptor (PTX ISA, "Instruction descriptor"). Returns
    /// an error for invalid fields.
    pub(crate) fn new(form: Form, bits: u32) -> Result<Self, String> {
        let Form { kind, block, ctas, sparse, stationary, .. } = form;
        let field = |first: u32, width: u32| bits >> first & ((1 << width) - 1);
        match (field(2, 1) != 0, sparse) {
            (true, false) => {
                return Err(
                    "the bit for a sparse A (bit 2) is set, and the instruction is not .sp".to_owned()
                );
            }
            (false, true) => {
                return Err(
                    "the instruction is .sp, and the bit for a sparse A (bit 2) is not set".to_owned()
                );
            }
            _ => {}
        }
        // With scales it counts as 0 (PTX ISA, "Sparsity selector").
        let selector = if sparse && block.is_none() { field(0, 2) } else { 0 };
        if selector != 0 && !matches!(kind, Kind::F16 | Kind::Tf32) {
            return Err(format!(
                "the sparsity selector (bits 0 and 1) is {selector}, and that of .kind::{} is 0",
                kind.ptx()
            ));
        }
        if kind.is_packed() && field(31, 1) != 0 {
            return Err(
                "a depth of 96 (bit 31) exists on sm_103a, and the emulator does not support it".to_owned()
            );
        }
        let scaling = block.map(|block| scaling(kind, block, field)).transpose()?;
        let d = if scaling.is_some() { DataType::F32 } else { accumulator(kind, field(4, 2))? };
        let (a, b) = (operand(kind, field(7, 3))?, operand(kind, field(10, 3))?);
        let (columns, all_rows) = (field(17, 6) as usize * 8, field(24, 5) as usize * 16);
        let negated = field(13, 1) != field(14, 1);
        if kind == Kind::I8 && field(13, 2) != 0 {
            return Err("integers are not negated (bits 13 and 14)".to_owned());
        }
        let major = |bit: u32| if field(bit, 1) == 0 { Major::K } else { Major::Mn };
        if kind.is_packed() && (major(15), major(16)) != (Major::K, Major::K) {
            return Err(format!("matrices of .kind::{} are K-major (bits 15 and 16)", kind.ptx()));
        }
        let legal_rows = form.legal_rows();
        if !legal_rows.contains(&(all_rows as u32)) {
            return Err(format!(
                "{ctas} CTA{} cannot multiply {all_rows} rows: {} are possible",
                if ctas == 1 { "" } else { "s" },
                in_words(legal_rows),
            ));
        }
        if let Err(legal) = form.check_columns(all_rows as u32, columns as u32) {
            return Err(format!("D of {all_rows} rows has {columns} columns; it must have {legal}"));
        }
        let width = if kind.is_packed() { 4 } else { a.bits().max(8) as usize };
        let run = WarpgroupMultiply {
            shape: Shape { m: RUN, n: columns, k: DEPTH_BYTES * 8 / width * if sparse { 2 } else { 1 } },
            packed: kind.is_packed(),
            coarse: false,
            d,
            a,
            b,
            selector: None,
            majors: (major(15), major(16)),
            negated,
            saturating: field(3, 1) != 0,
        };
        if a.bits() == 16 && a != b {
            return Err("A and B of .kind::f16 must have the same type".to_owned());
        }
        Ok(Self {
            ctas,
            rows: all_rows / ctas as usize,
            columns,
            scaling,
            sparse,
            selector,
            most_shift: [0, 8, 16, 32][field(30, 2) as usize].min(if all_rows == 32 { 16 } else { 32 }),
            stationary,
            run,
        })
    }

    /// The rows of a CTA's part of D.
    pub(crate) fn layout(&self) -> RowLayout {
        match (self.ctas, self.rows, self.stationary) {
            (1, 64, false) => RowLayout::Every16,
            (2, 64, _) if self.sparse => RowLayout::Every16,
            (_, 64, _) => RowLayout::Folded,
            (_, 32, _) => RowLayout::Quartered,
            _ => RowLayout::Straight,
        }
    }

    /// The depth, in elements.
    pub(crate) fn depth(&self) -> usize {
        self.run.shape.k
    }

    /// Bits of an element of A.
    pub(crate) fn element_bits(&self) -> usize {
        self.run.stored_bits(self.run.a)
    }

    /// Bits of an element of A, without padding.
    pub(crate) fn unpadded_bits(&self) -> usize {
        self.run.a.bits() as usize
    }

    /// The elements of a row of A that are stored.
    pub(crate) fn stored_depth(&self) -> usize {
        if self.sparse { self.depth() / 2 } else { self.depth() }
    }

    /// The bits of the elements that are stored of a CTA's rows of A in shared memory, row after row.
    pub(crate) fn stored_left(&self, a: MatrixDescriptor, shared: &[u8]) -> Result<Vec<u32>, Outside> {
        let (element, width, size) = (self.run.a, self.element_bits(), (self.rows, self.stored_depth()));
        let mut bits = vec![0; size.0 * size.1];
        let major = self.run.majors.0;
        Matrix { descriptor: a, major, element, width, shared }.collect(size, Rows, &mut bits)?;
        Ok(bits)
    }

    /// Rows of A with the zeros that are not stored. `metadata` is that of a row.
    pub(crate) fn expanded(&self, stored: &[u32], metadata: impl Fn(usize) -> u64) -> Vec<u32> {
        let granularity = Granularity::of(self.element_bits());
        let mut full = vec![0; self.rows * self.depth()];
        for (row, stored) in stored.chunks_exact(self.stored_depth()).enumerate() {
            let metadata = metadata(row);
            for (index, &value) in stored.iter().enumerate() {
                full[row * self.depth() + granularity.place(metadata, index)] = value;
            }
        }
        full
    }

    /// Columns of B that a CTA holds.
    pub(crate) fn right_elements(&self, b: MatrixDescriptor, shared: &[u8]) -> Result<Elements, Outside> {
        let (matrix, width) = ((b, self.run.majors.1), self.run.stored_bits(self.run.b));
        Elements::read(matrix, (self.run.b, width), (self.columns / self.ctas as usize, self.depth()), shared)
    }

    /// Rows of A by their bits.
    pub(crate) fn elements(&self, bits: &[u32]) -> Elements {
        self.signed(Elements::new(self.run.a, self.depth(), bits))
    }

    /// Elements of A, negated if the products are subtracted.
    fn signed(&self, rows: Elements) -> Elements {
        if self.run.negated { rows.negated() } else { rows }
    }

    /// What an element of D is divided by 2^`shift` before it is added to (`scale-input-d`).
    pub(crate) fn divided(&self, bits: u32, shift: u32) -> u32 {
        let factor = (-(shift as f32)).exp2();
        match self.run.d {
            DataType::F16 => {
                u32::from(half::f16::from_f32(half::f16::from_bits(bits as u16).to_f32() * factor).to_bits())
            }
            _ => (f32::from_bits(bits) * factor).to_bits(),
        }
    }

    /// The unit that it keeps busy.
    pub(crate) fn unit(&self) -> Unit {
        if self.run.packed { Unit::TensorFp4 } else { tensor(self.run.a.ptx()).unwrap_or(Unit::TensorF16) }
    }

    /// Multiply-adds of a CTA's part.
    pub(crate) fn multiply_adds(&self) -> u64 {
        (self.rows * self.columns * self.depth()) as u64
    }

    /// Bytes of A, if it is there, and of B that each CTA reads from its shared memory: an instruction multiplies 32
    /// bytes of a row, of which a sparse A leaves out half.
    pub(crate) fn shared_bytes(&self, reads_a: bool) -> u32 {
        let of_b = self.columns / self.ctas as usize * if self.sparse { 2 } else { 1 };
        (if reads_a { self.rows } else { 0 } + of_b) as u32 * 32
    }

    /// A's descriptor from the first row of a run on.
    pub(crate) fn run_of_left(&self, a: MatrixDescriptor, run: usize) -> MatrixDescriptor {
        let major = self.run.majors.0;
        let pieces = match major {
            Major::K => RUN,
            Major::Mn => RUN * self.element_bits() / 128,
        };
        a.from_row(major, (run * pieces) as u32)
    }

    /// Makes a run of A ready.
    #[inline(always)]
    pub(crate) fn read_left(
        &self,
        operands: &mut Operands,
        a: LeftOperand<'_>,
        shared: &[u8],
    ) -> Result<(), Outside> {
        self.run.read_left(operands, a, None, shared)
    }

    /// Collects the columns of B that the CTA of a rank in its pair holds, from a column of it on.
    #[inline(always)]
    pub(crate) fn read_right(
        &self,
        operands: &mut Operands,
        part: usize,
        (b, from): (MatrixDescriptor, usize),
        shared: &[u8],
    ) -> Result<(), Outside> {
        let width = self.columns / self.ctas as usize;
        match from {
            0 => self.run.read_right(operands, part * width..(part + 1) * width, b, shared),
            _ => self.run.read_right_from(operands, from, b, shared),
        }
    }

    /// Makes B ready, once the columns of all CTAs are collected: those of the mask are zeros.
    #[inline(always)]
    pub(crate) fn ready_right(&self, operands: &mut Operands, mask: ColumnMask) {
        if mask != ColumnMask::default() {
            self.run.clear_right(operands, |column| mask.is_zero(column, (self.rows, self.columns)));
        }
        self.run.ready_right(operands);
    }

    /// Visits the pieces of 16 bytes of shared memory that it reads in each of its CTAs, of B from a
    /// column on.
    pub(crate) fn pieces(
        &self,
        a: Option<MatrixDescriptor>,
        (b, from): (MatrixDescriptor, usize),
        visit: impl FnMut(u32, TilePart),
    ) {
        let (major, bits) = (self.run.majors.1, self.run.stored_bits(self.run.b) as u32);
        let pieces = if major == Major::K { from as u32 } else { from as u32 * bits / (8 * PIECE) };
        let b = b.from_row(major, pieces);
        let shape = Shape { m: self.rows, n: self.columns / self.ctas as usize, k: self.depth() };
        WarpgroupMultiply { shape, selector: self.sparse.then_some(0), ..self.run.clone() }
            .pieces(a, b, visit);
    }

    /// The bytes at the start of a piece of A or B that hold elements; the rest is padding.
    pub(crate) fn piece_bytes(&self, operand: TileOperand) -> u32 {
        let element = if operand == TileOperand::A { self.run.a } else { self.run.b };
        PIECE * element.bits() / self.run.stored_bits(element) as u32
    }

    /// Multiplies the prepared run of A by B.
    #[inline(always)]
    pub(crate) fn multiply(&self, operands: &Operands, accumulates: bool, cells: &mut impl Accumulator) {
        for warp in 0..WARPS {
            let first = warp * ROWS;
            match self.run.d {
                DataType::S32 => {
                    let mut registers = self.registers(first, accumulates, cells);
                    self.run.multiply(operands, warp, accumulates, &mut Staged(&mut registers));
                    store(&registers, first, cells);
                }
                DataType::F16 => {
                    let mut rows = RowsOfWarp::<_, true> { cells: &mut *cells, first, accumulates };
                    self.run.accumulate(operands, warp, &mut rows);
                }
                _ => {
                    let mut rows = RowsOfWarp::<_, false> { cells: &mut *cells, first, accumulates };
                    self.run.accumulate(operands, warp, &mut rows);
                }
            }
        }
    }

    /// The rows of a warp as the registers of a `wgmma`.
    fn registers(&self, first: usize, accumulates: bool, cells: &impl Accumulator) -> Vec<Column> {
        let mut registers = vec![[0; LANES]; self.run.accumulator_registers()];
        if accumulates {
            for (eight, row) in (0..self.columns / 8).flat_map(|eight| (0..ROWS).map(move |row| (eight, row)))
            {
                for (column, bits) in cells.get(first + row, eight).into_iter().enumerate() {
                    let (register, lane) = place_in_registers(row, column);
                    registers[4 * eight + register][lane] = bits;
                }
            }
        }
        registers
    }
}

/// Stores the registers of a warp in its rows.
fn store(registers: &[Column], first: usize, cells: &mut impl Accumulator) {
    for (eight, registers) in registers.chunks_exact(4).enumerate() {
        for row in 0..ROWS {
            let bits = std::array::from_fn(|column| {
                let (register, lane) = place_in_registers(row, column);
                registers[register][lane]
            });
            cells.set(first + row, eight, bits);
        }
    }
}

/// The register, of the four of eight columns, and the lane that hold 32 bits of a row of a warp (PTX ISA,
/// "Register fragments" of wgmma).
fn place_in_registers(row: usize, column: usize) -> (usize, usize) {
    (row / 8 * 2 + column % 2, row % 8 * 4 + column / 2)
}

/// The rows of a warp: from one block of even columns and one of odd columns to rows of cells.
struct RowsOfWarp<'a, A, const HALVES: bool> {
    cells: &'a mut A,
    first: usize,
    accumulates: bool,
}

impl<A: Accumulator, const HALVES: bool> aligned_sum::Accumulator for RowsOfWarp<'_, A, HALVES> {
    #[inline(always)]
    fn get(&self, eight: usize) -> [[f32; BLOCK]; 2] {
        let mut blocks = [[0.0; BLOCK]; 2];
        if self.accumulates {
            for row in 0..ROWS {
                let bits = self.cells.get(self.first + row, eight);
                let value = |bits: u32| if HALVES { half_value(bits & 0xffff) } else { f32::from_bits(bits) };
                for pair in 0..COLUMNS {
                    blocks[0][COLUMNS * row + pair] = value(bits[2 * pair]);
                    blocks[1][COLUMNS * row + pair] = value(bits[2 * pair + 1]);
                }
            }
        }
        blocks
    }

    #[inline(always)]
    fn set(&mut self, eight: usize, blocks: &[[f32; BLOCK]; 2]) {
        for row in 0..ROWS {
            // A loop, as a function of an array is not compiled for wide vectors.
            let mut bits = [0; 8];
            for (column, bits) in bits.iter_mut().enumerate() {
                let value = blocks[column % 2][COLUMNS * row + column / 2];
                *bits = if HALVES { half_bits(value) } else { value.to_bits() };
            }
            self.cells.set(self.first + row, eight, bits);
        }
    }
}

/// A run of rows of D. Each element has a cell, of which 16-bit ones use the lower half.
pub(crate) trait Accumulator {
    /// The `eight`-th eight columns of a row.
    fn get(&self, row: usize, eight: usize) -> [u32; 8];
    /// Sets the `eight`-th eight columns of a row.
    fn set(&mut self, row: usize, eight: usize, bits: [u32; 8]);
}

/// An accumulator as the registers of a warp.
struct Staged<'a>(&'a mut [Column]);

impl warpgroup::Registers for Staged<'_> {
    #[inline(always)]
    fn column(&self, register: usize) -> &Column {
        &self.0[register]
    }

    #[inline(always)]
    fn column_mut(&mut self, register: usize) -> &mut Column {
        &mut self.0[register]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(rows: u32, columns: u32) -> u32 {
        1 << 4 | 1 << 7 | 1 << 10 | columns >> 3 << 17 | rows >> 4 << 24
    }

    fn form(kind: Kind, ctas: u32) -> Form {
        Form { kind, block: None, ctas, sparse: false, stationary: false, shifted: false }
    }

    #[test]
    fn descriptors_tell_shapes_and_types() {
        let multiply = TensorMemoryMultiply::new(form(Kind::F16, 1), descriptor(128, 256)).unwrap();
        assert_eq!((multiply.rows, multiply.columns, multiply.depth()), (128, 256, 16));
        assert_eq!(
            (multiply.run.a, multiply.run.b, multiply.run.d),
            (DataType::Bf16, DataType::Bf16, DataType::F32)
        );
        assert_eq!(multiply.layout(), RowLayout::Straight);
        let multiply = TensorMemoryMultiply::new(form(Kind::F16, 2), descriptor(128, 64)).unwrap();
        assert_eq!((multiply.rows, multiply.layout()), (64, RowLayout::Folded));
        let wrong = |kind, ctas, bits| TensorMemoryMultiply::new(form(kind, ctas), bits).unwrap_err();
        assert!(wrong(Kind::F16, 1, descriptor(256, 64)).contains("64 and 128"));
        assert!(wrong(Kind::F16, 1, descriptor(128, 24)).contains("multiple of 16"));
        assert!(wrong(Kind::Tf32, 1, descriptor(128, 32)).contains("operand type"));
        assert!(wrong(Kind::F16, 1, descriptor(128, 32) | 4).contains("is not .sp"));
        let of = |form: Form, bits| TensorMemoryMultiply::new(form, bits);
        let stationary = Form { stationary: true, ..form(Kind::F16, 1) };
        assert_eq!(of(stationary, descriptor(32, 64)).unwrap().layout(), RowLayout::Quartered);
        assert_eq!(of(stationary, descriptor(64, 256)).unwrap().layout(), RowLayout::Folded);
        assert!(of(stationary, descriptor(64, 32)).unwrap_err().contains("64 and 128 and 256"));
        let sparse = Form { sparse: true, ..form(Kind::F16, 1) };
        assert_eq!(of(sparse, descriptor(128, 64) | 4).unwrap().depth(), 32);
        assert_eq!(of(sparse, descriptor(64, 64) | 5).unwrap().selector, 1);
        let pair = Form { sparse: true, ..form(Kind::F16, 2) };
        assert_eq!(of(pair, descriptor(128, 64) | 4).unwrap().layout(), RowLayout::Every16);
        let bytes = Form { sparse: true, ..form(Kind::F8f6f4, 1) };
        let bits = 1 << 4 | 64 >> 3 << 17 | 8 << 24;
        assert!(of(bytes, bits | 5).unwrap_err().contains("selector"));
        let shifted = Form { shifted: true, ..form(Kind::F16, 1) };
        assert!(of(shifted, descriptor(64, 64)).unwrap_err().contains("128 are possible"));
    }

    /// Every element of D has its own cell.
    #[test]
    fn layouts_are_injective() {
        let layouts = [RowLayout::Straight, RowLayout::Every16, RowLayout::Folded, RowLayout::Quartered];
        for (layout, rows) in layouts.into_iter().zip([128, 64, 64, 32]) {
            let all = (0..rows).flat_map(|row| (0..64).map(move |column| layout.place(row, column, 64)));
            let mut places: Vec<_> = all.collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), rows * 64, "{layout:?}");
            assert!(places.iter().all(|(row, _)| *row < 128), "{layout:?}");
        }
    }

    /// Every element of eight columns is in exactly one register element.
    #[test]
    fn registers_hold_every_element_once() {
        let all = (0..ROWS).flat_map(|row| (0..8).map(move |column| place_in_registers(row, column)));
        let mut places: Vec<_> = all.collect();
        places.sort_unstable();
        let expected = (0..4).flat_map(|register| (0..LANES).map(move |lane| (register, lane)));
        assert_eq!(places, expected.collect::<Vec<_>>());
    }
}

//! `wgmma` in all its shapes and types (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
//! Instructions").
//!
//! D and C are 64 rows by n columns, of which each of the four warps holds 16 rows; A is 64 rows deep by k, from shared
//! memory or from registers; B is k by n, always from shared memory. In every type a row of A and a column of B are 32
//! bytes long (64 of B where A is sparse).

use std::sync::OnceLock;

use super::aligned_sum::{AlignedSum, BLOCK, COLUMNS, Left, Right, held_bits};
use super::descriptor::{Major, MatrixDescriptor, PIECE};
use super::element::Element;
use super::fragment::Fragment;
use super::multiply::UnknownMultiply;
use super::sparse::Metadata;
use super::tile::Tile;
use super::{Column, Shape};

/// Warps of a warpgroup.
pub const WARPS: usize = 4;

/// Rows of A that a warp multiplies.
const ROWS: usize = 16;

/// Registers of a fragment of A.
pub const LEFT_REGISTERS: usize = 4;

/// Bytes of a row of A.
const DEPTH_BYTES: usize = 32;

/// What a multiply does, but for the places of its matrices.
#[derive(Clone, Debug, PartialEq)]
pub struct WarpgroupMultiply {
    /// Rows and columns of D, and the depth.
    pub shape: Shape,
    /// The types of D, A and B.
    pub d: Element,
    #[allow(missing_docs)]
    pub a: Element,
    #[allow(missing_docs)]
    pub b: Element,
    /// Whether half of A is left out, and which lanes tell what.
    pub selector: Option<usize>,
    /// How A and B lie in shared memory.
    pub majors: (Major, Major),
    /// Whether the products are subtracted.
    pub negated: bool,
    /// Whether sums of integers are clamped.
    pub saturating: bool,
}

/// A matrix reaches beyond shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The address of its first piece that does.
    pub address: u32,
}

/// The operands of a multiply, made ready. It is kept from one multiply to the next.
#[derive(Debug, Default)]
pub struct Workspace {
    floats: Floats,
    integers: Integers,
}

#[derive(Debug, Default)]
struct Floats {
    elements: Vec<f32>,
    left: [Left; WARPS],
    right: Right,
    blocks: Vec<[f32; BLOCK]>,
}

#[derive(Debug, Default)]
struct Integers {
    elements: Vec<i32>,
    left: [Vec<[i32; BLOCK]>; WARPS],
    right: Vec<[i32; COLUMNS]>,
    blocks: Vec<[i32; BLOCK]>,
}

/// Where A comes from.
#[derive(Clone, Copy, Debug)]
pub enum LeftOperand<'a> {
    /// Shared memory.
    Shared(MatrixDescriptor),
    /// The registers of the four warps.
    Registers(&'a [[Column; LEFT_REGISTERS]; WARPS]),
}

impl WarpgroupMultiply {
    /// Checks that PTX has such a multiply.
    pub fn check(&self) -> Result<(), UnknownMultiply> {
        let unknown = |what: String| Err(UnknownMultiply::new(what));
        let Shape { m, n, k } = self.shape;
        let (pairs, accumulators): (&[Element], &[Element]) = match self.a {
            Element::F16 => (&[Element::F16], &[Element::F32, Element::F16]),
            Element::Bf16 => (&[Element::Bf16], &[Element::F32]),
            Element::Tf32 => (&[Element::Tf32], &[Element::F32]),
            Element::E4m3 | Element::E5m2 => (&[Element::E4m3, Element::E5m2], &[Element::F32, Element::F16]),
            Element::S8 | Element::U8 => (&[Element::S8, Element::U8], &[Element::S32]),
            Element::B1 => (&[Element::B1], &[Element::S32]),
            _ => return unknown(format!("There is no wgmma for A of .{}.", self.a.word())),
        };
        if !pairs.contains(&self.b) || !accumulators.contains(&self.d) {
            return unknown(format!(
                "There is no wgmma from .{} and .{} into .{}.",
                self.a.word(),
                self.b.word(),
                self.d.word()
            ));
        }
        let integer = self.d == Element::S32;
        let depth = DEPTH_BYTES * 8 / self.a.bits() as usize * if self.selector.is_some() { 2 } else { 1 };
        let width = (8..=256).contains(&n) && n % 8 == 0 && (!integer || n <= 24 || n % 16 == 0);
        if m != 64 || k != depth || !width {
            return unknown(format!(
                "There is no wgmma of m{m}n{n}k{k} for .{}: m is 64, k is {depth}, and n a multiple of {} up to 256.",
                self.a.word(),
                if integer { "16 (or 8 or 24)" } else { "8" }
            ));
        }
        if self.majors != (Major::K, Major::K) && self.a.bits() != 16 {
            return unknown(format!(
                "Matrices of .{} lie with their depth contiguous; only those of 16 bits may be transposed.",
                self.a.word()
            ));
        }
        if let Some(selector) = self.selector {
            let selectors = if self.a.bits() == 8 { 1 } else { 2 };
            if self.a == Element::B1 || selector >= selectors {
                return unknown(format!(
                    "Sparse wgmma of .{} has sparsity selectors below {selectors}; {selector} was given.",
                    self.a.word()
                ));
            }
        }
        Ok(())
    }

    /// Registers of D that a lane holds.
    pub fn accumulator_registers(&self) -> usize {
        self.shape.n * self.d.bits() as usize / 64
    }

    /// Makes A and B ready.
    pub fn read(
        &self,
        workspace: &mut Workspace,
        a: LeftOperand<'_>,
        metadata: Option<&[Column; WARPS]>,
        b: MatrixDescriptor,
        shared: &[u8],
    ) -> Result<(), Outside> {
        if self.d == Element::S32 {
            self.read_integers(&mut workspace.integers, a, metadata, b, shared)
        } else {
            self.read_floats(&mut workspace.floats, a, metadata, b, shared)
        }
    }

    fn read_floats(
        &self,
        workspace: &mut Floats,
        a: LeftOperand<'_>,
        metadata: Option<&[Column; WARPS]>,
        b: MatrixDescriptor,
        shared: &[u8],
    ) -> Result<(), Outside> {
        let Floats { elements, left, right, .. } = workspace;
        let Shape { m, n, k } = self.shape;
        let stored = self.stored_depth();
        let sign = if self.negated { 0x8000_0000 } else { 0 };
        elements.resize(m.max(n) * k, 0.0);
        if let LeftOperand::Shared(descriptor) = a {
            self.gather_floats(self.a, descriptor, self.majors.0, (m, stored), shared, elements)?;
            elements[..m * stored].iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits() ^ sign));
        }
        for (warp, left) in left.iter_mut().enumerate() {
            let registers;
            let mut rows = match a {
                LeftOperand::Shared(_) => &elements[warp * ROWS * stored..(warp + 1) * ROWS * stored],
                LeftOperand::Registers(columns) => {
                    let fragment = Fragment::left(ROWS, stored, self.a.bits());
                    let value = |bits| f32::from_bits((self.a.float(bits) as f32).to_bits() ^ sign);
                    registers = fragment.gather(&columns[warp], value);
                    registers.values()
                }
            };
            let full;
            if let Some(metadata) = metadata {
                full = self.expand(rows, &metadata[warp]);
                rows = full.values();
            }
            left.fill(rows, k, least_exponent(self.a));
        }
        self.gather_floats(self.b, b, self.majors.1, (n, k), shared, elements)?;
        right.fill(elements, n, k, least_exponent(self.b));
        Ok(())
    }

    fn read_integers(
        &self,
        workspace: &mut Integers,
        a: LeftOperand<'_>,
        metadata: Option<&[Column; WARPS]>,
        b: MatrixDescriptor,
        shared: &[u8],
    ) -> Result<(), Outside> {
        let Integers { elements, left, right, .. } = workspace;
        // Bits are taken by words.
        let each = if self.a == Element::B1 { 32 } else { 1 };
        let Shape { m, n, k } = Shape { k: self.shape.k / each, ..self.shape };
        let stored = self.stored_depth() / each;
        elements.resize(m.max(n) * k, 0);
        if let LeftOperand::Shared(descriptor) = a {
            gather_integers(self.a, descriptor, (m, stored), shared, elements)?;
        }
        for (warp, left) in left.iter_mut().enumerate() {
            let registers;
            let mut rows = match a {
                LeftOperand::Shared(_) => &elements[warp * ROWS * stored..(warp + 1) * ROWS * stored],
                LeftOperand::Registers(columns) => {
                    let fragment = Fragment::left(ROWS, stored, self.a.bits() * each as u32);
                    registers = fragment.gather(&columns[warp], |bits| self.a.integer(bits));
                    registers.values()
                }
            };
            let full;
            if let Some(metadata) = metadata {
                full = self.expand(rows, &metadata[warp]);
                rows = full.values();
            }
            left.resize(k, [0; BLOCK]);
            for (step, values) in left.iter_mut().enumerate() {
                for (element, value) in values.iter_mut().enumerate() {
                    *value = rows[(element % 32 / 4 + element / 32 * 8) * k + step];
                }
            }
        }
        gather_integers(self.b, b, (n, k), shared, elements)?;
        right.resize(n / COLUMNS * k, [0; COLUMNS]);
        for column in 0..n {
            let (block, place) = (column / 8 * 2 + column % 2, column % 8 / 2);
            for step in 0..k {
                right[block * k + step][place] = elements[column * k + step];
            }
        }
        Ok(())
    }

    /// Elements of a row of A that are stored.
    fn stored_depth(&self) -> usize {
        if self.selector.is_some() { self.shape.k / 2 } else { self.shape.k }
    }

    /// Rows of A with the zeros that are not stored.
    fn expand<T: Copy + Default>(&self, rows: &[T], metadata: &Column) -> Tile<T> {
        let shape = Shape { m: ROWS, ..self.shape };
        let stored = Tile::from_rows(ROWS, rows.to_vec());
        Metadata::new(shape, self.a, self.selector.unwrap_or(0)).expand(&stored, metadata)
    }

    /// The elements of a matrix in shared memory, by rows of A or columns of B.
    fn gather_floats(
        &self,
        element: Element,
        descriptor: MatrixDescriptor,
        major: Major,
        size: (usize, usize),
        shared: &[u8],
        elements: &mut [f32],
    ) -> Result<(), Outside> {
        match element {
            Element::F16 => {
                gather(descriptor, major, size, shared, elements, |piece: [u16; 8]| piece.map(half_value))
            }
            Element::Bf16 => gather(descriptor, major, size, shared, elements, |piece: [u16; 8]| {
                piece.map(|bits| f32::from_bits(u32::from(bits) << 16))
            }),
            Element::Tf32 => gather(descriptor, major, size, shared, elements, |piece: [u32; 4]| {
                piece.map(|bits| f32::from_bits(bits & 0xffff_e000))
            }),
            _ => {
                let values = byte_values(element);
                gather(descriptor, major, size, shared, elements, |piece: [u8; 16]| {
                    piece.map(|bits| values[usize::from(bits)])
                })
            }
        }
    }

    /// Begins the rows of one warp: the accumulator is zero, or what `put` says.
    pub fn begin(&self, workspace: &mut Workspace) {
        let blocks = self.shape.n / COLUMNS;
        if self.d == Element::S32 {
            workspace.integers.blocks.clear();
            workspace.integers.blocks.resize(blocks, [0; BLOCK]);
        } else {
            workspace.floats.blocks.clear();
            workspace.floats.blocks.resize(blocks, [0.0; BLOCK]);
        }
    }

    /// Puts one of the registers of the accumulator into the blocks.
    #[inline(always)]
    pub fn put(&self, workspace: &mut Workspace, register: usize, column: &Column) {
        match self.d {
            Element::F16 => {
                let (block, half) = (register / 2 * 2, register % 2 * 32);
                for (lane, &bits) in column.iter().enumerate() {
                    let blocks = &mut workspace.floats.blocks;
                    blocks[block][half + lane] = half_value(bits as u16);
                    blocks[block + 1][half + lane] = half_value((bits >> 16) as u16);
                }
            }
            Element::S32 => {
                let (block, half) = place(register);
                let target = &mut workspace.integers.blocks[block][half..half + 32];
                target.iter_mut().zip(column).for_each(|(target, &bits)| *target = bits as i32);
            }
            _ => {
                let (block, half) = place(register);
                let target = &mut workspace.floats.blocks[block][half..half + 32];
                target.iter_mut().zip(column).for_each(|(target, &bits)| *target = f32::from_bits(bits));
            }
        }
    }

    /// One of the registers of the accumulator.
    #[inline(always)]
    pub fn take(&self, workspace: &Workspace, register: usize) -> Column {
        match self.d {
            Element::F16 => {
                let (block, half) = (register / 2 * 2, register % 2 * 32);
                let blocks = &workspace.floats.blocks;
                let bits = |block: usize, lane: usize| held_bits(Element::F16, blocks[block][half + lane]);
                std::array::from_fn(|lane| bits(block, lane) | bits(block + 1, lane) << 16)
            }
            Element::S32 => {
                let (block, half) = place(register);
                std::array::from_fn(|lane| workspace.integers.blocks[block][half + lane] as u32)
            }
            _ => {
                let (block, half) = place(register);
                std::array::from_fn(|lane| workspace.floats.blocks[block][half + lane].to_bits())
            }
        }
    }

    /// Multiplies the rows of one warp, whose accumulator is in the blocks.
    pub fn multiply(&self, workspace: &mut Workspace, warp: usize) {
        if self.d == Element::S32 {
            let Integers { left, right, blocks, .. } = &mut workspace.integers;
            self.multiply_integers(&left[warp], right, blocks);
        } else {
            let Floats { left, right, blocks, .. } = &mut workspace.floats;
            self.sum().accumulate(&left[warp], right, blocks);
        }
    }

    /// How products are added: all steps of the depth at once. Of 8-bit floats 13 bits are kept below the largest exponent,
    /// and as many of an f32 result. Measured on H200.
    fn sum(&self) -> AlignedSum {
        let (fraction_bits, kept) = if self.a.bits() == 8 { (13, !0 << (23 - 13)) } else { (25, !0) };
        let kept = (self.d == Element::F32).then_some(kept);
        AlignedSum { group: self.shape.k, fraction_bits, kept }
    }

    fn multiply_integers(
        &self,
        left: &[[i32; BLOCK]],
        right: &[[i32; COLUMNS]],
        blocks: &mut [[i32; BLOCK]],
    ) {
        let depth = left.len();
        let bits = self.a == Element::B1;
        for (block, right) in blocks.iter_mut().zip(right.chunks_exact(depth)) {
            let mut sums = [0i32; BLOCK];
            for (a, b) in left.iter().zip(right) {
                for (element, sum) in sums.iter_mut().enumerate() {
                    let (x, y) = (a[element], b[element % COLUMNS]);
                    *sum += if bits { (x & y).count_ones() as i32 } else { x * y };
                }
            }
            for (held, sum) in block.iter_mut().zip(sums) {
                *held = if self.saturating { held.saturating_add(sum) } else { held.wrapping_add(sum) };
            }
        }
    }
}

/// The block and the half of it that a register of 32-bit elements is.
#[inline(always)]
fn place(register: usize) -> (usize, usize) {
    (register / 4 * 2 + register % 2, register / 2 % 2 * 32)
}

/// The exponent of subnormal operands, which are not normalised.
fn least_exponent(element: Element) -> i16 {
    match element {
        Element::Tf32 | Element::Bf16 => -126,
        Element::E4m3 => -6,
        _ => -14,
    }
}

#[inline(always)]
fn half_value(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32_const()
}

/// The values of an 8-bit float.
fn byte_values(element: Element) -> &'static [f32; 256] {
    static VALUES: [OnceLock<[f32; 256]>; 2] = [const { OnceLock::new() }; 2];
    VALUES[usize::from(element == Element::E5m2)]
        .get_or_init(|| std::array::from_fn(|bits| element.float(bits as u64) as f32))
}

/// Sixteen bytes as elements.
trait Piece<const N: usize>: Copy {
    fn of(bytes: &[u8; PIECE as usize]) -> [Self; N];
}

macro_rules! piece {
    ($($ty:ty, $count:literal;)*) => {$(
        impl Piece<$count> for $ty {
            #[inline(always)]
            fn of(bytes: &[u8; 16]) -> [Self; $count] {
                let (elements, _) = bytes.as_chunks::<{ 16 / $count }>();
                std::array::from_fn(|index| <$ty>::from_le_bytes(elements[index]))
            }
        }
    )*};
}

piece! { u8, 16; u16, 8; u32, 4; }

/// Collects `extent` rows (columns) of `depth` elements from shared memory.
#[inline(always)]
fn gather<P: Piece<N>, T: Copy, const N: usize>(
    descriptor: MatrixDescriptor,
    major: Major,
    (extent, depth): (usize, usize),
    shared: &[u8],
    elements: &mut [T],
    values: impl Fn([P; N]) -> [T; N],
) -> Result<(), Outside> {
    let piece = |along: usize, deep: usize| {
        let address = descriptor.address(major, along as u32, deep as u32);
        let bytes = shared.get(address as usize..).and_then(|bytes| bytes.first_chunk::<16>());
        bytes.map(|bytes| values(P::of(bytes))).ok_or(Outside { address })
    };
    match major {
        Major::K => {
            for (along, row) in elements.chunks_exact_mut(depth).take(extent).enumerate() {
                for (deep, target) in row.chunks_exact_mut(N).enumerate() {
                    target.copy_from_slice(&piece(along, deep)?);
                }
            }
        }
        Major::Mn => {
            for (along, rows) in elements.chunks_exact_mut(depth * N).take(extent / N).enumerate() {
                for deep in 0..depth {
                    for (row, value) in piece(along, deep)?.into_iter().enumerate() {
                        rows[row * depth + deep] = value;
                    }
                }
            }
        }
    }
    Ok(())
}

fn gather_integers(
    element: Element,
    descriptor: MatrixDescriptor,
    size: (usize, usize),
    shared: &[u8],
    elements: &mut [i32],
) -> Result<(), Outside> {
    match element {
        Element::S8 => gather(descriptor, Major::K, size, shared, elements, |piece: [u8; 16]| {
            piece.map(|bits| i32::from(bits as i8))
        }),
        Element::U8 => {
            gather(descriptor, Major::K, size, shared, elements, |piece: [u8; 16]| piece.map(i32::from))
        }
        _ => gather(descriptor, Major::K, size, shared, elements, |piece: [u32; 4]| {
            piece.map(|bits| bits as i32)
        }),
    }
}

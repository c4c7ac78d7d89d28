//! `mma` and `mma.sp` with a `.kind`: of floats of 4 to 8 bits, and with scales of blocks (PTX ISA, "mma",
//! "mma.sp" and "Block Scaling for mma.sync"; sm_120a).

use warpwright_arch::DataType;
use warpwright_arch::tcgen05::{self, Kind as MmaKind};
use warpwright_events::LANES;
use warpwright_ptx::syntax::{Instruction, Number, Operand, Type};

use super::matrix::{element, header, registers};
use crate::decode::{DecodeError, Decoder, Words, elements};
use crate::execution::effect::{EffectBody, Execution, vectored_effect};
use crate::launch::failure::Failure;
use crate::operation::kind::Kind;
use crate::registers::{Registers, Slot, blend};
use crate::tensor::accumulate::{FloatSum, result_bits};
use crate::tensor::block_scaled::{Elements, Scaling, multiply_add};
use crate::tensor::element::float;
use crate::tensor::fragment::Fragment;
use crate::tensor::sparse::Metadata;
use crate::tensor::tile::Tile;
use crate::tensor::{Column, Shape};

/// The scales of A or of B.
struct Scales {
    cells: Slot,
    /// The byte with the first of a lane's scales, and the lanes of a quad that have them.
    first: [Slot; 2],
}

/// An MMA of 16 rows and 8 columns.
struct SmallMultiply {
    shape: Shape,
    /// The types of D, A, B and C.
    types: [DataType; 4],
    /// The registers of D, A, B and C.
    slots: [Box<[Slot]>; 4],
    fragments: [Fragment; 4],
    /// Whether A and B have no padding.
    is_packed: bool,
    scaling: Option<(Scaling, [Scales; 2])>,
    /// The register with the metadata of a sparse A.
    metadata: Option<Slot>,
}

/// The elements along k that have a scale in common, if the instruction has scales.
pub(super) fn scale_block(w: &mut Words<'_>, kind: MmaKind) -> Result<Option<u32>, DecodeError> {
    let has_scales = w.take("block_scale");
    let block = match has_scales {
        true => w.take_first(|word| kind.block(Some(word))).or_else(|| kind.block(None)),
        false => None,
    };
    if block.is_some() == kind.scales().is_empty() {
        return Err(DecodeError::new(format!(
            "The instruction has {}, which .kind::{} does not take.",
            if has_scales { "these scales" } else { "no .block_scale" },
            kind.ptx()
        )));
    }
    Ok(block)
}

pub(super) fn decode(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    w: &mut Words<'_>,
    kind: MmaKind,
    is_sparse: bool,
) -> Result<(), DecodeError> {
    let block = scale_block(w, kind)?;
    let has_scales = block.is_some();
    let (shape, _) = header(w)?;
    let types = [element(w)?, element(w)?, element(w)?, element(w)?];
    let scale_type = w.choose(&[("ue8m0", DataType::Ue8m0), ("ue4m3", DataType::E4m3)]);
    let [result, a, b, c] = types;
    let fold = if is_sparse { 2 } else { 1 };
    let depth = fold * if kind.is_packed() { 64 } else { 32 };
    let takes = |input| tcgen05::number(kind.inputs(), input).is_some();
    let is_sum = result == c && tcgen05::number(kind.accumulators(), c).is_some();
    let is_kind = kind == MmaKind::F8f6f4 || block.is_some();
    let has_scale_type = scale_type.is_some_and(|scale| tcgen05::number(kind.scales(), scale).is_some());
    if !(is_kind && takes(a) && takes(b) && is_sum && has_scale_type == has_scales)
        || shape != Shape::new(16, 8, depth)
    {
        return Err(DecodeError::new(format!(
            "mma of .kind::{} has no such shape, types or scales: see \"mma\" in the PTX ISA.",
            kind.ptx()
        )));
    }
    let first_scale = if is_sparse { 6 } else { 4 };
    d.expect_operands(i, if has_scales { first_scale + 4 } else { first_scale })?;
    let metadata = if is_sparse { Some(metadata(d, i)?) } else { None };
    let width = if kind.is_packed() { 4 } else { 8 };
    let fragments = [
        Fragment::accumulator(shape.m, result.bits()),
        Fragment::left(shape.m, shape.k / fold, width),
        Fragment::right(shape.k, width),
        Fragment::accumulator(shape.m, c.bits()),
    ];
    let mut slots = Vec::new();
    for (index, (fragment, data_type)) in fragments.iter().zip(types).enumerate() {
        slots.push(registers(d, &i.operands[index], fragment, data_type, index == 0)?);
    }
    let slots = slots.try_into().map_err(|_| DecodeError::new("mma has four matrices."))?;
    let scaling = match (block, scale_type) {
        (Some(block), Some(element)) => {
            let mut scales = |index: usize| {
                let cells = elements(&i.operands[index]);
                let first = elements(&i.operands[index + 1]);
                let ([cells], [byte, lanes]) = (cells, first) else {
                    return Err(DecodeError::new("Scales are a register and a pair, as `%r1, {0, 0}`."));
                };
                let first = [d.source(byte, Type::U16)?, d.source(lanes, Type::U16)?];
                Ok(Scales { cells: d.source(cells, Type::B32)?, first })
            };
            let scales = [scales(first_scale)?, scales(first_scale + 2)?];
            // A sparse row has as many scales, of blocks that are twice as long.
            Some((Scaling { block: fold * block as usize, element, first: [0, 0] }, scales))
        }
        _ => None,
    };
    d.emit(Kind::Aligned(vectored_effect(SmallMultiply {
        shape,
        types,
        slots,
        fragments,
        is_packed: kind.is_packed(),
        scaling,
        metadata,
    })));
    Ok(())
}

/// The register with the metadata of a sparse A, which all lanes have: the selector is 0.
fn metadata(d: Decoder<'_, '_, '_>, i: &Instruction) -> Result<Slot, DecodeError> {
    match i.operands[5] {
        Operand::Number(Number::Integer(0)) => d.source(&i.operands[4], Type::B32),
        _ => Err(DecodeError::new("The sparsity selector of mma.sp of these types is 0.")),
    }
}

impl SmallMultiply {
    /// The bits of an element in its register: those of 4 bits are in the middle of a byte.
    fn bits(&self, data_type: DataType, bits: u64) -> u32 {
        let bits = bits as u32;
        if data_type == DataType::E2m1 && !self.is_packed { bits >> 2 } else { bits }
    }

    /// The bits of A, with the zeros that are not stored.
    fn left(&self, a: &[Column], registers: &Registers) -> Tile<u32> {
        let stored = self.fragments[1].gather(a, |bits| self.bits(self.types[1], bits));
        match self.metadata {
            Some(metadata) => {
                // Elements in bytes have the metadata of 8-bit ones.
                let element = if self.is_packed { DataType::E2m1 } else { DataType::E4m3 };
                Metadata::new(self.shape, element, 0).expand(&stored, registers.word(metadata))
            }
            None => stored,
        }
    }

    /// D without scales.
    fn plain(&self, a: &Tile<u32>, [b, c]: [&[Column]; 2]) -> Tile<f64> {
        let [result, a_type, b_type, c_type] = self.types;
        let value =
            |data_type: DataType| move |bits: u64| float(data_type, self.bits(data_type, bits).into());
        let values: Vec<f64> = a.values().iter().map(|&bits| float(a_type, bits.into())).collect();
        let a = Tile::from_rows(a.rows(), values);
        let b = self.fragments[2].gather(b, value(b_type));
        let c = self.fragments[3].gather(c, |bits| float(c_type, bits));
        FloatSum::of(self.shape, DataType::E4m3, result).multiply(&a, &b, &c)
    }

    /// D with scales. A lane has the scales of one row of A, or of one column of B: the first or the
    /// second two lanes of each quad those of A, and one lane of each quad those of B.
    fn scaled(
        &self,
        rows: &Tile<u32>,
        [b, c]: [&[Column]; 2],
        scaling: Scaling,
        [of_a, of_b]: &[Scales; 2],
        registers: &Registers,
    ) -> Tile<f64> {
        let [_, a_type, b_type, _] = self.types;
        let Shape { m, n, k } = self.shape;
        let columns = self.fragments[2].gather(b, |bits| self.bits(b_type, bits));
        let columns: Vec<u32> = (0..n)
            .flat_map(|column| (0..k).map(move |step| (step, column)))
            .map(|(k, n)| columns.get(k, n))
            .collect();
        let (a, b) = (Elements::new(a_type, k, rows.values()), Elements::new(b_type, k, &columns));
        let c = self.fragments[3].gather(c, |bits| bits as u32);
        let number = |slot: Slot| registers.word(slot)[0] as u16 as usize;
        let [of_a, of_b] =
            [of_a, of_b].map(|scales| (registers.word(scales.cells), scales.first.map(number)));
        let mut d = Tile::zeros(m, n);
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let (cells_of_a, [byte_of_a, pair]) = of_a;
            let (cells_of_b, [byte_of_b, lane]) = of_b;
            let cell_of_a = cells_of_a[row % 8 * 4 + pair % 2 * 2 + row / 8];
            let cell_of_b = cells_of_b[column * 4 + lane % 4];
            let scales = |block: usize| {
                [scaling.scale(cell_of_a, byte_of_a, block), scaling.scale(cell_of_b, byte_of_b, block)]
            };
            let old = f32::from_bits(c.get(row, column));
            d.set(row, column, multiply_add((&a, row), (&b, column), scaling.block, scales, old).into());
        }
        d
    }
}

impl EffectBody for SmallMultiply {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.block.mma_multiply_adds += self.shape.multiply_adds() as u64;
        let registers = &mut *execution.registers;
        let read = |slots: &[Slot]| slots.iter().map(|&slot| *registers.word(slot)).collect::<Vec<_>>();
        let [d, a, b, c] = &self.slots;
        let (a, b, c) = (read(a), read(b), read(c));
        let (left, matrices) = (self.left(&a, registers), [&b[..], &c]);
        let product = match &self.scaling {
            None => self.plain(&left, matrices),
            Some((scaling, scales)) => self.scaled(&left, matrices, *scaling, scales, registers),
        };
        let mut columns = vec![[0; LANES]; d.len()];
        self.fragments[0].scatter(&product, &mut columns, |value| result_bits(self.types[0], value));
        for (slot, column) in d.iter().zip(columns) {
            blend(registers.word_mut(*slot), mask, column);
        }
        Ok(())
    }
}

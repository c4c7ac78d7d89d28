//! `mma` and `mma.sp` with a `.kind`: of floats of 4 to 8 bits, and with scales of blocks (PTX ISA, "mma",
//! "mma.sp" and "Block Scaling for mma.sync"; sm_120a).

use warpwright_arch::DataType;
use warpwright_arch::tcgen05::Kind as MmaKind;
use warpwright_events::LANES;

use super::matrix::{data_types, header, operands};
use crate::decode::{DecodeError, Decoded, Decoder, Row};
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
pub(super) fn scale_block(i: &Row<'_>, kind: MmaKind) -> Option<u32> {
    let named = || i.find(|word| kind.block(Some(word))).or_else(|| kind.block(None));
    i.has("block_scale").then(named).flatten()
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>, kind: MmaKind, is_sparse: bool) -> Decoded {
    let (shape, _) = header(i)?;
    let [result, a, b, c, ..] = data_types(i)[..] else { return Err(i.names_no("types of four matrices")) };
    let first_scale = if is_sparse { 6 } else { 4 };
    // All lanes have the metadata of a sparse A.
    if is_sparse && i.literal(5)? != 0 {
        return Err(DecodeError::new("The sparsity selector of mma.sp of these types is 0."));
    }
    let metadata = if is_sparse { Some(d.source_at(i, 4)?) } else { None };
    let width = if kind.is_packed() { 4 } else { 8 };
    let fold = if is_sparse { 2 } else { 1 };
    let fragments = [
        Fragment::accumulator(shape.m, result.bits()),
        Fragment::left(shape.m, shape.k / fold, width),
        Fragment::right(shape.k, width),
        Fragment::accumulator(shape.m, c.bits()),
    ];
    let slots = operands(d, i)?;
    let scaling = match scale_block(i, kind) {
        Some(block) => {
            let element =
                i.must("type of scales", &[("ue8m0", DataType::Ue8m0), ("ue4m3", DataType::E4m3)])?;
            let scales = [scales(d, i, first_scale)?, scales(d, i, first_scale + 2)?];
            // A sparse row has as many scales, of blocks that are twice as long.
            Some((Scaling { block: fold * block as usize, element, first: [0, 0] }, scales))
        }
        None => None,
    };
    d.emit(Kind::Aligned(vectored_effect(SmallMultiply {
        shape,
        types: [result, a, b, c],
        slots,
        fragments,
        is_packed: kind.is_packed(),
        scaling,
        metadata,
    })));
    Ok(())
}

/// The scales of a matrix: a register, and a pair such as `{0, 0}`.
fn scales(d: Decoder<'_, '_, '_>, i: &Row<'_>, index: usize) -> Result<Scales, DecodeError> {
    let first = d.sources_at(i, index + 1)?.try_into().map_err(|_| i.unsupported())?;
    Ok(Scales { cells: d.source_at(i, index)?, first })
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

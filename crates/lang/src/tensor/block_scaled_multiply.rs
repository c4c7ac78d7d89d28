//! `mma.sync` with scales of blocks along k. PTX ISA, "mma with block scaling"; sm_120a.

use warpwright_arch::tcgen05::DEPTH_BYTES;
use warpwright_ir::Operand as IrOperand;
use warpwright_layout::atom::Operand;
use warpwright_layout::{All, Coordinate};

use super::fragment::Fragment;
use super::multiply::{covered, demand_accumulators, demand_fragment, extent, vector};
use super::tensor_core::{BlockScales, TensorCoreTypes, words};
use super::tiled_mma::TiledMma;
use crate::element::Element;
use crate::operation::{record, refuse};
use crate::requirement::{Feature, require};
use crate::value::{Reg, constant};

/// Repetitions of A whose scales are in one register: of a quad of lanes, the first two and the last
/// two have those of the rows of one each.
const ROWS_OF_WORD: i64 = 2;

/// Repetitions of B whose scales are in one register: each lane of a quad has those of the columns of
/// one.
const COLUMNS_OF_WORD: i64 = 4;

/// `mma.sync` of narrow floats with scales: the types of A and B, and their scales.
#[derive(Clone, Copy, Debug)]
pub struct BlockScaledMma {
    types: TensorCoreTypes,
    scales: BlockScales,
    /// The opcode, and the scales of an instruction along k; `None` after a mistake that was already
    /// reported.
    instruction: Option<(&'static str, u32)>,
}

impl BlockScaledMma {
    /// A and B are floats of 8, 6 or 4 bits, D is f32: see
    /// [`TensorCoreMma::block_scaled`](super::TensorCoreMma::block_scaled) for what exists.
    #[track_caller]
    pub fn new(types: TensorCoreTypes, scales: BlockScales) -> Self {
        require(Feature::BlockScaledMma);
        let kind = scales.kind(types);
        if kind.is_none() {
            refuse(scales.refusal("mma.sync", types));
        }
        let instruction = kind.map(|kind| {
            let depth = DEPTH_BYTES * if kind.is_packed() { 2 } else { 1 };
            (words(kind), depth / scales.block)
        });
        Self { types, scales, instruction }
    }

    /// Scales along k of one instruction, of a row of A or a column of B: 1, 2 or 4.
    pub fn scales_of_step(&self) -> u32 {
        self.instruction.map_or(1, |(_, count)| count)
    }

    /// The instruction.
    fn opcode(&self, kind: &str) -> String {
        let TensorCoreTypes { a, b, .. } = self.types;
        let depth = self.scales.block * self.scales_of_step();
        let scale = if self.scales == BlockScales::NVFP4 { "ue4m3" } else { "ue8m0" };
        format!("mma.sync.aligned.m16n8k{depth}.row.col.{kind}.f32.{a}.{b}.f32.{scale}")
    }
}

/// `c += (a * scales) * (b * scales)` over fragments: c (values, m, n), a (values, m), b (values, n)
/// of one k-step of 32 bytes.
///
/// `mma` is a plan of `SM89_16x8x32_F32E4M3E4M3F32_TN`, or of another atom of 32 bytes of k: both
/// instructions have the same bytes in the same lanes. A byte has an element of 8 or 6 bits, one of 4
/// beside another type, or two of 4.
///
/// The scales are bytes of registers, from `byte` on, as many as
/// [`scales_of_step`](BlockScaledMma::scales_of_step):
///
/// ```text
/// A: register i   lane/4 + 8*(lane%2) is the row of repetition 2*i + lane%4/2
/// B: register i   lane/4 is the column of repetition 4*i + lane%4
/// ```
#[track_caller]
pub fn gemm_block_scaled<A: Element, B: Element>(
    mma: &TiledMma,
    scaled: BlockScaledMma,
    c: &mut Fragment<f32>,
    a: &Fragment<A>,
    b: &Fragment<B>,
    [of_a, of_b]: [&[Reg<u32>]; 2],
    byte: u32,
) {
    let (Some(plan), Some((kind, count))) = (mma.plan(), scaled.instruction) else { return };
    let operation = "gemm_block_scaled";
    if !demand_fragment(operation, plan.atom(), Operand::C, c, 3)
        || !demand_fragment(operation, plan.atom(), Operand::A, a, 2)
        || !demand_fragment(operation, plan.atom(), Operand::B, b, 2)
    {
        return;
    }
    let a_rows = extent(a.layout(), 1) * covered(plan, Operand::A).0;
    let b_columns = extent(b.layout(), 1) * covered(plan, Operand::B).0;
    if !demand_accumulators(operation, plan, c, a_rows, b_columns) {
        return;
    }
    let (rows, columns) = (extent(c.layout(), 1), extent(c.layout(), 2));
    let registers = |repetitions: i64, of_word: i64| ((repetitions + of_word - 1) / of_word) as usize;
    let wanted = [registers(rows, ROWS_OF_WORD), registers(columns, COLUMNS_OF_WORD)];
    if [of_a.len(), of_b.len()] != wanted {
        let ([a, b], [given_a, given_b]) = (wanted, [of_a.len(), of_b.len()]);
        refuse(format!(
            "`{operation}`: {given_a} registers of A's scales and {given_b} of B's are given, and {rows} x {columns} \
             repetitions take {a} and {b}"
        ));
        return;
    }
    if !byte.is_multiple_of(count) || byte + count > 4 {
        refuse(format!(
            "`{operation}`: {count} scales do not begin at byte {byte} of a register: use a multiple of {count} below 4"
        ));
        return;
    }
    // The instruction table has no literals in vectors.
    let numbers: Vec<Reg<u16>> = (0..4).map(constant).collect();
    let selector = |lanes: i64| {
        let of = |number: usize| numbers[number].operand();
        IrOperand::Vector(vec![of(byte as usize), of(lanes as usize)])
    };
    let opcode = scaled.opcode(kind);
    for row in 0..rows {
        let a_words = vector(&a.slice((All, row)));
        let row_scales = of_a[(row / ROWS_OF_WORD) as usize].operand();
        for step in 0..columns {
            // Back and forth, so that consecutive instructions share an operand.
            let column = if row % 2 == 0 { step } else { columns - 1 - step };
            let b_words = vector(&b.slice((All, column)));
            let c_words = vector(&c.slice(Coordinate::from((All, row, column))));
            let column_scales = of_b[(column / COLUMNS_OF_WORD) as usize].operand();
            let operands = vec![
                c_words.clone(),
                a_words.clone(),
                b_words,
                c_words,
                row_scales.clone(),
                selector(row % ROWS_OF_WORD),
                column_scales,
                selector(column % COLUMNS_OF_WORD),
            ];
            record(opcode.clone(), 1, operands);
        }
    }
}

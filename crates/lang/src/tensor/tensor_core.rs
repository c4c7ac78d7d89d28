//! `tcgen05.mma`: one thread multiplies tiles in shared memory into tensor memory, asynchronously.
//! PTX ISA, "tcgen05.mma"; sm_100a.
//!
//! An *instruction descriptor* encodes the operation, and matrix descriptors like those of `wgmma`
//! locate the operands. Both are derived from the types, the shape and the layouts.

use warpwright_arch::DataType;
use warpwright_arch::tcgen05::{self, Kind};
use warpwright_ir::Operand as IrOperand;
use warpwright_layout::atom::{Major, Operand};

use super::accumulate::Accumulate;
use super::agreement::agree;
use super::multiply::{letter, packed};
use super::view::Tensor;
use super::warpgroup::{MatrixOperand, Reads, Share};
use crate::element::Element;
use crate::operation::{perform, refuse};
use crate::requirement::{Feature, require};
use crate::space::SharedSpace;
use crate::tensor_memory::{CtaGroup, TensorMemory, demand_one_group};
use crate::value::constant;

/// The types of a multiply: A, B and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorCoreTypes {
    /// Of A: f16, bf16, tf32, e4m3, e5m2, s8 or u8.
    pub a: DataType,
    /// Of B: that of A, or one of its width among the 8-bit floats or integers.
    pub b: DataType,
    /// Of D: f32 (f16 for 16- and 8-bit floats, too), s32 for integers.
    pub d: DataType,
}

impl TensorCoreTypes {
    /// The kind, and the codes of D, A and B in the instruction descriptor; `None` if the
    /// combination does not exist. Types of less than 8 bits are not supported.
    fn numbers(self) -> Option<(&'static str, [u32; 3])> {
        let kind = Kind::of(self.a, self.b, self.d).filter(|_| self.a.bits().min(self.b.bits()) >= 8)?;
        let input = |data_type| tcgen05::number(kind.inputs(), data_type);
        Some((kind.ptx(), [tcgen05::number(kind.accumulators(), self.d)?, input(self.a)?, input(self.b)?]))
    }
}

/// An MMA of Blackwell's tensor cores: `rows` by `columns` of D, with a depth of 32 bytes per
/// instruction.
#[derive(Clone, Copy, Debug)]
pub struct TensorCoreMma {
    group: CtaGroup,
    types: TensorCoreTypes,
    rows: u32,
    columns: u32,
    /// The kind, and the instruction descriptor without the operands' majors; `None` after a
    /// mistake that was already reported.
    instruction: Option<(&'static str, u32)>,
}

impl TensorCoreMma {
    /// `rows` is 64 or 128 for one CTA, 128 or 256 for two; `columns` a multiple of 16 (of 8 for 64
    /// rows) up to 256.
    #[track_caller]
    pub fn new(group: CtaGroup, types: TensorCoreTypes, rows: u32, columns: u32) -> Self {
        require(Feature::TensorMemory);
        let most_columns = tcgen05::MAX_COLUMNS;
        let legal_rows = tcgen05::rows(group.ctas(), false);
        let step = tcgen05::column_step(group.ctas(), rows, false);
        let numbers = types.numbers();
        if numbers.is_none() {
            let TensorCoreTypes { a, b, d } = types;
            refuse(format!(
                "tcgen05.mma does not multiply {a:?} by {b:?} into {d:?}: A and B are both F16, Bf16 or \
                 Tf32, 8-bit floats or 8-bit integers; D is F32 (or F16, except for Bf16 and Tf32), and S32 \
                 for integers"
            ));
        } else if !legal_rows.contains(&rows) {
            refuse(format!(
                "tcgen05.mma by {} has {} or {} rows, not {rows}",
                if group == CtaGroup::One { "one CTA" } else { "a pair of CTAs" },
                legal_rows[0],
                legal_rows[1]
            ));
        } else if !columns.is_multiple_of(step) || !(step..=most_columns).contains(&columns) {
            refuse(format!(
                "tcgen05.mma of {rows} rows has a multiple of {step} columns from {step} to {most_columns}, not {columns}"
            ));
        } else if let Some((kind, [d, a, b])) = numbers {
            let shape = (columns / 8) << 17 | (rows / 16) << 24;
            let instruction = Some((kind, d << 4 | a << 7 | b << 10 | shape));
            return Self { group, types, rows, columns, instruction };
        }
        Self { group, types, rows, columns, instruction: None }
    }

    /// Columns of tensor memory that D takes, as
    /// [`allocate_tensor_memory`](crate::tensor_memory::allocate_tensor_memory) gives them.
    pub fn allocation(&self) -> u32 {
        self.columns_of_d().next_power_of_two().max(32)
    }

    /// Columns of tensor memory that D takes.
    fn columns_of_d(&self) -> u32 {
        let folded = self.group == CtaGroup::Two && self.rows == 128;
        if folded { self.columns / 2 } else { self.columns }
    }

    /// This CTA's A: a tile (m, k, ..) in shared memory with its share of the rows.
    #[track_caller]
    pub fn a_operand<T: Element>(&self, tile: &Tensor<T, SharedSpace>) -> MatrixOperand {
        self.operand(tile, Operand::A)
    }

    /// This CTA's B: a tile (n, k, ..) in shared memory with its share of the columns.
    #[track_caller]
    pub fn b_operand<T: Element>(&self, tile: &Tensor<T, SharedSpace>) -> MatrixOperand {
        self.operand(tile, Operand::B)
    }

    #[track_caller]
    fn operand<T: Element>(&self, tile: &Tensor<T, SharedSpace>, operand: Operand) -> MatrixOperand {
        let reads = self.reads(operand);
        if packed::<T>(reads.element).is_none() {
            refuse(format!(
                "`{}_operand`: the MMA multiplies {operand:?} of {}, and the tile holds {}: use one type for both",
                letter(operand),
                reads.element,
                T::NAME
            ));
            return MatrixOperand::nothing();
        }
        MatrixOperand::of_blocks(reads, 1, tile, Share::Whole)
    }

    /// What an instruction reads of an operand: this CTA's share of its rows.
    fn reads(&self, operand: Operand) -> Reads {
        let (extent, element) = match operand {
            Operand::A => (self.rows, self.types.a),
            _ => (self.columns, self.types.b),
        };
        let depth = 8 * tcgen05::DEPTH_BYTES / element.bits();
        Reads { operand, element, block: (i64::from(extent / self.group.ctas()), i64::from(depth)) }
    }

    /// Refuses an operand of another MMA, and one of more rows than an instruction reads.
    #[track_caller]
    fn demand(&self, operand: &MatrixOperand, which: Operand) -> bool {
        let wanted = self.reads(which);
        let given = |operand: &MatrixOperand| operand.repetitions() * wanted.block.0;
        let what = if which == Operand::A { "this CTA's A has # rows" } else { "this CTA's B has # columns" };
        operand.demand("issue", wanted)
            && agree(
                "issue",
                (what, given(operand)),
                ("the MMA multiplies #", wanted.block.0),
                "use a tile of that many, or slice one block",
            )
    }

    /// Starts `d += a * b` or `d = a * b`, depending on `accumulate`, over the whole depth of the
    /// operands. One thread (of a pair of CTAs, in the first of them) executes it, and then
    /// commits.
    ///
    /// D and the operands belong to the tensor core until the mbarrier of a later
    /// [`commit_tensor_core`](crate::tensor_memory::commit_tensor_core) completes.
    #[track_caller]
    pub fn issue(&self, d: TensorMemory, a: &MatrixOperand, b: &MatrixOperand, accumulate: Accumulate) {
        let Some((kind, descriptor)) = self.instruction else { return };
        if !self.demand(a, Operand::A) || !self.demand(b, Operand::B) {
            return;
        }
        let depth = i64::from(8 * tcgen05::DEPTH_BYTES / self.types.a.bits());
        let (of_a, of_b) = (("A has a depth of #", a.steps() * depth), ("B has one of #", b.steps() * depth));
        if !agree("issue", of_a, of_b, "multiply tiles (m, k) and (n, k) of the same k") {
            return;
        }
        demand_one_group(self.group);
        d.demand_columns("issue", self.columns_of_d());
        let major = |operand: &MatrixOperand, bit: u32| u32::from(operand.major() == Major::Mn) << bit;
        let descriptor = constant(descriptor | major(a, 15) | major(b, 16));
        let opcode = format!("tcgen05.mma{}.kind::{kind}", self.group.word());
        let mut accumulate = accumulate.reg();
        for step in 0..a.steps() {
            let operands: [IrOperand; 5] = [
                d.operand(),
                a.descriptor(0, step),
                b.descriptor(0, step),
                descriptor.operand(),
                accumulate.operand(),
            ];
            perform(opcode.clone(), operands);
            if step == 0 && a.steps() > 1 {
                accumulate = constant(true);
            }
        }
    }
}

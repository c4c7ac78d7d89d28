//! `tcgen05.mma`: one thread multiplies tiles in shared memory into tensor memory, asynchronously. A
//! may be in tensor memory, and A and B may have scales of blocks along k. PTX ISA, "tcgen05.mma";
//! sm_100a.
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
use crate::cta_group::CtaGroup;
use crate::element::Element;
use crate::operation::{record, refuse};
use crate::requirement::{Feature, require};
use crate::space::SharedSpace;
use crate::tensor_memory::{TensorMemory, demand_one_group};
use crate::value::constant;

/// The types of a multiply: A, B and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorCoreTypes {
    /// Of A: f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, s8 or u8.
    pub a: DataType,
    /// Of B: that of A, or another among the floats of 8, 6 and 4 bits or the 8-bit integers.
    pub b: DataType,
    /// Of D: f32 (f16 for 16-bit and smaller floats, too), s32 for integers.
    pub d: DataType,
}

/// The scales of a multiply: their type, and how many elements along k have one in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockScales {
    /// Ue8m0, or E4m3 without its sign.
    pub element: DataType,
    /// 32, or 16 for A and B of e2m1.
    pub block: u32,
}

impl BlockScales {
    /// MXFP8, MXFP6 and MXFP4: powers of two for blocks of 32.
    pub const MX: Self = Self { element: DataType::Ue8m0, block: 32 };
    /// NVFP4: e4m3 for blocks of 16.
    pub const NVFP4: Self = Self { element: DataType::E4m3, block: 16 };

    /// The kind that multiplies A by B with these scales, if one does.
    pub(super) fn kind(self, TensorCoreTypes { a, b, d }: TensorCoreTypes) -> Option<Kind> {
        let is_packed = (a, b) == (DataType::E2m1, DataType::E2m1);
        let kind = match (self.block, is_packed) {
            (16, true) => Kind::Mxf4nvf4,
            (32, true) => Kind::Mxf4,
            (32, false) => Kind::Mxf8f6f4,
            _ => return None,
        };
        let has = |types, of| tcgen05::number(types, of).is_some();
        let exists = has(kind.inputs(), a)
            && has(kind.inputs(), b)
            && has(kind.accumulators(), d)
            && has(kind.scales(), self.element);
        exists.then_some(kind)
    }

    /// Why no kind of an instruction multiplies with them.
    pub(super) fn refusal(self, instruction: &str, TensorCoreTypes { a, b, d }: TensorCoreTypes) -> String {
        let Self { element, block } = self;
        format!(
            "{instruction} does not multiply {a:?} by {b:?} into {d:?} with scales of {element:?} for blocks of {block}: \
             A and B are floats of 8, 6 or 4 bits, D is F32, and scales are Ue8m0 for 32; if A and B are E2m1, \
             also E4m3 or Ue8m0 for 16"
        )
    }
}

/// The modifiers of a kind.
pub(super) fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::F16 => "kind::f16",
        Kind::Tf32 => "kind::tf32",
        Kind::F8f6f4 => "kind::f8f6f4",
        Kind::I8 => "kind::i8",
        Kind::Mxf8f6f4 => "kind::mxf8f6f4.block_scale.scale_vec::1X",
        Kind::Mxf4 => "kind::mxf4.block_scale.scale_vec::2X",
        Kind::Mxf4nvf4 => "kind::mxf4nvf4.block_scale.scale_vec::4X",
    }
}

/// The A of an MMA: a [`MatrixOperand`] of tiles in shared memory, or [`TensorMemory`].
pub trait TensorCoreLeft: sealed::Sealed {
    /// The operand in shared memory, if it is there.
    #[doc(hidden)]
    fn tiles(&self) -> Option<&MatrixOperand>;
    /// The cells, if it is in tensor memory.
    #[doc(hidden)]
    fn cells(&self) -> Option<TensorMemory>;
}

mod sealed {
    /// What the language itself implements.
    pub trait Sealed {}
    impl Sealed for super::MatrixOperand {}
    impl Sealed for super::TensorMemory {}
}

impl TensorCoreLeft for MatrixOperand {
    fn tiles(&self) -> Option<&MatrixOperand> {
        Some(self)
    }

    fn cells(&self) -> Option<TensorMemory> {
        None
    }
}

/// Row i of A is row i of D's rows; k is along the columns, 32 bits of elements in each.
impl TensorCoreLeft for TensorMemory {
    fn tiles(&self) -> Option<&MatrixOperand> {
        None
    }

    fn cells(&self) -> Option<TensorMemory> {
        Some(*self)
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
    scales: Option<BlockScales>,
    /// The kind, and the instruction descriptor without the operands' majors; `None` after a
    /// mistake that was already reported.
    instruction: Option<(Kind, u32)>,
}

/// Columns of tensor memory that an instruction reads of an A there.
const LEFT_COLUMNS: u32 = tcgen05::DEPTH_BYTES / 4;

impl TensorCoreMma {
    /// `rows` is 64 or 128 for one CTA, 128 or 256 for two; `columns` a multiple of 16 (of 8 for 64
    /// rows) up to 256.
    #[track_caller]
    pub fn new(group: CtaGroup, types: TensorCoreTypes, rows: u32, columns: u32) -> Self {
        let TensorCoreTypes { a, b, d } = types;
        let kind = Kind::of(a, b, d);
        if kind.is_none() {
            refuse(format!(
                "tcgen05.mma does not multiply {a:?} by {b:?} into {d:?}: A and B are both F16, Bf16 or \
                 Tf32, floats of 8, 6 or 4 bits, or 8-bit integers; D is F32 (or F16, except for Bf16 and Tf32), \
                 and S32 for integers"
            ));
        }
        Self::of_kind(kind, group, types, None, (rows, columns))
    }

    /// The MMA of A and B with scales: an element of A is multiplied by the scale of its row and
    /// block, and one of B by that of its column and block. D is f32. `rows` is 128 for one CTA, 128
    /// or 256 for two; `columns` a multiple of 8 (16 for two) up to 256.
    ///
    /// A tile of 4-bit elements that are both e2m1 is a tile of `u8`, two elements each. Elements of
    /// 8 bits are in a tile of their type, or of `u8`. Smaller ones beside others are in a tile of
    /// `u8` that TMA [unpacks](super::TmaTile::unpacked).
    ///
    /// ```
    /// use warpwright_arch::DataType;
    /// use warpwright_lang::mbarrier::Mbarrier;
    /// use warpwright_lang::shared::{dynamic_shared_aligned, shared_array};
    /// use warpwright_lang::tensor::*;
    /// use warpwright_lang::tensor_memory::*;
    /// use warpwright_lang::{block, kernel, launch, special::thread_idx};
    /// use warpwright_layout::{All, atom::Major};
    ///
    /// /// One k-block of 256 elements of e2m1 with scales of 16, already in shared memory.
    /// #[kernel]
    /// fn multiply() {
    ///     launch::threads(32);
    ///     let types = TensorCoreTypes { a: DataType::E2m1, b: DataType::E2m1, d: DataType::F32 };
    ///     let mma = TensorCoreMma::block_scaled(CtaGroup::One, types, BlockScales::NVFP4, 128, 128);
    ///     let tile = || {
    ///         let layout = TmaTile::new::<u8>((128, 128), Major::K).and_then(|tile| tile.layout(1));
    ///         Tensor::new(dynamic_shared_aligned::<u8>(128 * 128, 1024), layout.expect("TMA writes it"))
    ///     };
    ///     let (a, b, scales) = (tile(), tile(), dynamic_shared_aligned::<u8>(8 * SCALE_BYTES, 128));
    ///     let (holder, done) = (shared_array::<u32>(1), Mbarrier::new());
    ///     allocate_tensor_memory(CtaGroup::One, 256, holder);
    ///     let d = TensorMemory::at(holder);
    ///     let [of_a, of_b] = [d.column(128), d.column(144)];
    ///     if thread_idx().x == 0 {
    ///         done.init(1);
    ///         for block in 0..4 {
    ///             of_a.column(block * 4).copy_scales(CtaGroup::One, scales.at(block * SCALE_BYTES));
    ///             of_b.column(block * 4).copy_scales(CtaGroup::One, scales.at((4 + block) * SCALE_BYTES));
    ///         }
    ///         let (a, b) = (mma.a_operand(&a).slice((All, All, 0)), mma.b_operand(&b).slice((All, All, 0)));
    ///         mma.issue_scaled(d, &a, &b, [of_a, of_b], Accumulate::No);
    ///         commit_tensor_core(CtaGroup::One, done);
    ///     }
    ///     block::sync_threads();
    ///     done.wait_parity(0);
    ///     d.free(CtaGroup::One, 256);
    /// }
    /// multiply().unwrap();
    /// ```
    #[track_caller]
    pub fn block_scaled(
        group: CtaGroup,
        types: TensorCoreTypes,
        scales: BlockScales,
        rows: u32,
        columns: u32,
    ) -> Self {
        let kind = scales.kind(types);
        if kind.is_none() {
            refuse(scales.refusal("tcgen05.mma", types));
        }
        Self::of_kind(kind, group, types, Some(scales), (rows, columns))
    }

    #[track_caller]
    fn of_kind(
        kind: Option<Kind>,
        group: CtaGroup,
        types: TensorCoreTypes,
        scales: Option<BlockScales>,
        (rows, columns): (u32, u32),
    ) -> Self {
        require(Feature::TensorMemory);
        let refused = Self { group, types, rows, columns, scales, instruction: None };
        let Some(kind) = kind else { return refused };
        let most_columns = tcgen05::MAX_COLUMNS;
        let legal_rows = tcgen05::rows(group.ctas(), scales.is_some());
        let step = tcgen05::column_step(group.ctas(), rows, scales.is_some());
        if !legal_rows.contains(&rows) {
            let legal: Vec<String> = legal_rows.iter().map(u32::to_string).collect();
            refuse(format!(
                "tcgen05.mma by {} has {} rows{}, not {rows}",
                if group == CtaGroup::One { "one CTA" } else { "a pair of CTAs" },
                legal.join(" or "),
                if scales.is_some() { " with scales" } else { "" },
            ));
            return refused;
        }
        if !columns.is_multiple_of(step) || !(step..=most_columns).contains(&columns) {
            refuse(format!(
                "tcgen05.mma of {rows} rows has a multiple of {step} columns from {step} to {most_columns}, not {columns}"
            ));
            return refused;
        }
        let number = |types, of| tcgen05::number(types, of).unwrap_or(0);
        // With scales the bits of D's type are those of their positions.
        let d = match scales {
            None => number(kind.accumulators(), types.d) << 4,
            Some(scales) => number(kind.scales(), scales.element) << 23,
        };
        let (a, b) = (number(kind.inputs(), types.a), number(kind.inputs(), types.b));
        let descriptor = d | a << 7 | b << 10 | (columns / 8) << 17 | (rows / 16) << 24;
        Self { instruction: Some((kind, descriptor)), ..refused }
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

    /// Elements along k that an instruction multiplies.
    fn depth(&self) -> i64 {
        let is_packed = self.instruction.is_some_and(|(kind, _)| kind.is_packed());
        let bits = if is_packed { 4 } else { self.types.a.bits().max(8) };
        i64::from(8 * tcgen05::DEPTH_BYTES / bits)
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
        let is_packed = self.instruction.is_some_and(|(kind, _)| kind.is_packed());
        let each = match (T::NAME, reads.element.bits()) {
            ("u8", 0..8) => Some(if is_packed { 2 } else { 1 }),
            ("u8", 8) if self.scales.is_some() => Some(1),
            (_, 0..8) => None,
            _ => packed::<T>(reads.element),
        };
        let Some(each) = each else {
            refuse(format!(
                "`{}_operand`: the MMA multiplies {operand:?} of {}, and the tile holds {}: use {}",
                letter(operand),
                reads.element,
                T::NAME,
                if reads.element.bits() < 8 { "a tile of u8" } else { "one type for both" }
            ));
            return MatrixOperand::nothing();
        };
        MatrixOperand::of_blocks(reads, each, tile, Share::Whole)
    }

    /// What an instruction reads of an operand: this CTA's share of its rows.
    fn reads(&self, operand: Operand) -> Reads {
        let (extent, element) = match operand {
            Operand::A => (self.rows, self.types.a),
            _ => (self.columns, self.types.b),
        };
        Reads { operand, element, block: (i64::from(extent / self.group.ctas()), self.depth()) }
    }

    /// Refuses an operand of another MMA, and one of more rows than an instruction reads.
    #[track_caller]
    fn demand(&self, operation: &str, operand: &MatrixOperand, which: Operand) -> bool {
        let wanted = self.reads(which);
        let given = |operand: &MatrixOperand| operand.repetitions() * wanted.block.0;
        let what = if which == Operand::A { "this CTA's A has # rows" } else { "this CTA's B has # columns" };
        operand.demand(operation, wanted)
            && agree(
                operation,
                (what, given(operand)),
                ("the MMA multiplies #", wanted.block.0),
                "use a tile of that many, or slice one block",
            )
    }

    /// Starts `d += a * b` or `d = a * b`, depending on `accumulate`, over the whole depth of B. One
    /// thread (of a pair of CTAs, in the first of them) executes it, and then commits.
    ///
    /// A is in shared memory, or in tensor memory: 8 columns for each instruction, of a row of A in
    /// each row.
    ///
    /// D and the operands belong to the tensor core until the mbarrier of a later
    /// [`commit_tensor_core`](crate::tensor_memory::commit_tensor_core) completes.
    #[track_caller]
    pub fn issue(&self, d: TensorMemory, a: &impl TensorCoreLeft, b: &MatrixOperand, accumulate: Accumulate) {
        if self.scales.is_some() {
            refuse("`issue`: the MMA multiplies by scales: use `issue_scaled`");
            return;
        }
        self.issue_steps("issue", d, a, b, None, accumulate);
    }

    /// The same with the scales of A and of B, in tensor memory from these cells on: for each four
    /// scales along k as many columns as [`scale_columns`](Self::scale_columns) says, as
    /// [`copy_scales`](TensorMemory::copy_scales) writes them, 128 rows or columns in 4 columns.
    #[track_caller]
    pub fn issue_scaled(
        &self,
        d: TensorMemory,
        a: &impl TensorCoreLeft,
        b: &MatrixOperand,
        scales: [TensorMemory; 2],
        accumulate: Accumulate,
    ) {
        if self.scales.is_none() {
            refuse("`issue_scaled`: the MMA has no scales: make it by `TensorCoreMma::block_scaled`");
            return;
        }
        self.issue_steps("issue_scaled", d, a, b, Some(scales), accumulate);
    }

    /// Columns of tensor memory that four scales along k take, of A and of B, in a CTA.
    pub fn scale_columns(&self) -> [u32; 2] {
        [self.rows / self.group.ctas(), self.columns].map(|extent| extent.div_ceil(128) * 4)
    }

    #[track_caller]
    fn issue_steps(
        &self,
        operation: &str,
        d: TensorMemory,
        a: &impl TensorCoreLeft,
        b: &MatrixOperand,
        scales: Option<[TensorMemory; 2]>,
        accumulate: Accumulate,
    ) {
        let Some((kind, descriptor)) = self.instruction else { return };
        if let Some(a) = a.tiles()
            && !self.demand(operation, a, Operand::A)
        {
            return;
        }
        if !self.demand(operation, b, Operand::B) {
            return;
        }
        let (steps, depth) = (b.steps(), self.depth());
        if let Some(a) = a.tiles() {
            let (of_a, of_b) = (("A has a depth of #", a.steps() * depth), ("B has one of #", steps * depth));
            if !agree(operation, of_a, of_b, "multiply tiles (m, k) and (n, k) of the same k") {
                return;
            }
        }
        demand_one_group(self.group);
        d.demand_columns(operation, self.columns_of_d());
        if let Some(a) = a.cells() {
            a.demand_columns(operation, steps as u32 * LEFT_COLUMNS);
        }
        let major = |is_mn: bool, bit: u32| u32::from(is_mn) << bit;
        let a_is_mn = a.tiles().is_some_and(|a| a.major() == Major::Mn);
        let descriptor = descriptor | major(a_is_mn, 15) | major(b.major() == Major::Mn, 16);
        let opcode = format!("tcgen05.mma{}.{}", self.group.word(), words(kind));
        let mut instruction = (descriptor, constant(descriptor));
        let mut accumulate = accumulate.reg();
        for step in 0..steps {
            let (before, first) = self.scale_position(step as u32);
            let bits = descriptor | first << 4 | first << 29;
            if instruction.0 != bits {
                instruction = (bits, constant(bits));
            }
            let left = match (a.tiles(), a.cells()) {
                (Some(a), _) => a.descriptor(0, step),
                (None, Some(a)) if step == 0 => a.operand(),
                (None, Some(a)) => a.column(step as u32 * LEFT_COLUMNS).operand(),
                (None, None) => return,
            };
            let mut operands: Vec<IrOperand> =
                vec![d.operand(), left, b.descriptor(0, step), instruction.1.operand()];
            for (scales, columns) in scales.into_iter().flatten().zip(self.scale_columns()) {
                let columns = before * columns;
                let scales = if columns == 0 { scales } else { scales.column(columns) };
                operands.push(scales.operand());
            }
            operands.push(accumulate.operand());
            record(opcode.clone(), 0, operands);
            if step == 0 && steps > 1 {
                accumulate = constant(true);
            }
        }
    }

    /// Where the first scale of an instruction is: how many times four scales are before it, and its
    /// byte among four.
    fn scale_position(&self, step: u32) -> (u32, u32) {
        let Some(BlockScales { block, .. }) = self.scales else { return (0, 0) };
        let first = step * (self.depth() as u32 / block);
        (first / 4, first % 4)
    }
}

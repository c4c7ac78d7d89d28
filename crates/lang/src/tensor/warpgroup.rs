//! `wgmma`: four warps multiply tiles that they read from shared memory, asynchronously. PTX ISA,
//! "Asynchronous Warpgroup Level Matrix Instructions".
//!
//! A *matrix descriptor* describes what an instruction reads from shared memory: its start, the
//! strides of its blocks, and its swizzle. A [`MatrixOperand`] derives it from the layout of the
//! tile.

use std::fmt;

use warpwright_arch::DataType;
use warpwright_ir::Operand as IrOperand;
use warpwright_layout::atom::{Major, MmaAtom, Operand, SharedDescriptor};
use warpwright_layout::{ComposedLayout, Coordinate, Error, Index, Int, Layout};

use super::legal::legal;
use super::multiply::{demand_element_type, extent, letter};
use super::tiled_mma::{IntoMmaAtom, TiledMma};
use super::view::Tensor;
use crate::element::Element;
use crate::operation::{compute, refuse};
use crate::pointer::Generic;
use crate::recorder;
use crate::space::{GenericSpace, SharedSpace};
use crate::value::{Reg, constant};

impl TiledMma {
    /// The atom of CuTe's name, for example `SM90_64x256x16_F32BF16BF16_SS`, repeated over
    /// `warpgroups` along m.
    #[track_caller]
    pub fn warpgroups(atom: impl IntoMmaAtom, warpgroups: u32) -> Self {
        let plan = atom.into_atom().and_then(|atom| {
            warpwright_layout::TiledMma::new(atom, &Layout::column_major((warpgroups, 1, 1))?)
        });
        let plan = legal(plan.map(Some), || None);
        if let Some(plan) = &plan
            && !plan.atom().family.is_warpgroup()
        {
            refuse(format!(
                "{} is an instruction of a warp, not of a warpgroup: use an SM90_64x.. atom",
                plan.atom().name()
            ));
            return Self::of_plan(None);
        }
        Self::of_plan(plan)
    }

    /// The operand A of `warpgroup`: a tile (m, k, ..) in shared memory; for a sparse A its stored
    /// half, (m, k / 2, ..).
    ///
    /// Bits are packed in words: a tile of [`b1x32`](crate::element::b1x32), whose columns are 32
    /// steps of k each.
    ///
    /// The warpgroup index must be warp-uniform *for the compiler* (a broadcast by shuffle): the
    /// hardware takes descriptors from uniform registers.
    #[track_caller]
    pub fn a_operand<T: Element>(
        &self,
        tile: &Tensor<T, SharedSpace>,
        warpgroup: impl Into<Int>,
    ) -> MatrixOperand {
        let Some(plan) = self.plan() else { return MatrixOperand::nothing() };
        let warpgroups = legal(plan.thread_layout().mode(1).and_then(|mode| mode.size()), || 1.into());
        let share = Share::Warpgroup { warpgroups, warpgroup: warpgroup.into() };
        MatrixOperand::of_atom(plan.atom(), Operand::A, tile, share)
    }

    /// The operand B of every warpgroup: a tile (n, k, ..) in shared memory.
    #[track_caller]
    pub fn b_operand<T: Element>(&self, tile: &Tensor<T, SharedSpace>) -> MatrixOperand {
        let Some(plan) = self.plan() else { return MatrixOperand::nothing() };
        let share = Share::Warpgroup { warpgroups: 1.into(), warpgroup: 0.into() };
        MatrixOperand::of_atom(plan.atom(), Operand::B, tile, share)
    }
}

/// Who reads a tile, and which blocks of it.
pub(super) enum Share {
    /// One of several warpgroups, by `wgmma`: the blocks dealt to it in turn.
    Warpgroup { warpgroups: Int, warpgroup: Int },
    /// The tensor core, by `tcgen05.mma`: all of them.
    Whole,
}

/// A tile in shared memory as an operand of `wgmma` or `tcgen05.mma`: descriptors (repetitions
/// along m or n, k-steps, further modes).
#[derive(Clone)]
pub struct MatrixOperand {
    /// One descriptor a block; its address counts 16-byte units.
    blocks: Tensor<u8, GenericSpace>,
    major: Major,
    /// `None` after a mistake that was already reported.
    reads: Option<Reads>,
}

/// What a [`MatrixOperand`] was made for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) operand: Operand,
    pub(super) element: DataType,
    /// The rows and the depth that an instruction reads, in elements.
    pub(super) block: (i64, i64),
}

impl Reads {
    /// What an instruction of the atom reads.
    pub(super) fn of(atom: &MmaAtom, operand: Operand) -> Self {
        Self { operand, element: atom.element(operand), block: atom.tile(operand) }
    }
}

impl fmt::Display for Reads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operand, element, block: (rows, depth) } = self;
        write!(formatter, "{operand:?} of {element} in blocks of {rows} x {depth}")
    }
}

/// The unit of a descriptor's addresses.
const UNIT_BITS: i64 = 128;

impl MatrixOperand {
    /// The substitute after a mistake that was already reported.
    pub(super) fn nothing() -> Self {
        let nowhere = Generic::from_address(constant(0u64));
        Self { blocks: Tensor::new(nowhere, Layout::unit()), major: Major::K, reads: None }
    }

    /// Whether it was made without a mistake.
    pub(super) fn is_known(&self) -> bool {
        self.reads.is_some()
    }

    /// The blocks of an atom's operand that a tile is read in.
    #[track_caller]
    fn of_atom<T: Element>(
        atom: &MmaAtom,
        operand: Operand,
        tile: &Tensor<T, SharedSpace>,
        share: Share,
    ) -> Self {
        let element = atom.element(operand);
        let operation = format!("{}_operand", letter(operand));
        let Some(each) = demand_element_type::<T>(&operation, atom, operand) else { return Self::nothing() };
        let found = Self::of_blocks(Reads::of(atom, operand), each, tile, share);
        if found.major == Major::Mn && !takes_either_major(element) {
            refuse(format!(
                "{} reads {operand:?} with k contiguous, and in the tile {} is: transpose the tile, or use elements of 16 bits",
                atom.name(),
                if operand == Operand::A { "m" } else { "n" }
            ));
        }
        found
    }

    /// The blocks that a tile is read in; one `T` holds `each` elements.
    #[track_caller]
    pub(super) fn of_blocks<T: Element>(
        reads: Reads,
        each: i64,
        tile: &Tensor<T, SharedSpace>,
        share: Share,
    ) -> Self {
        let block = (reads.block.0, reads.block.1 / each);
        let bits = 8 * i64::from(T::BYTES);
        let (warpgroups, warpgroup, of_tensor_core) = match share {
            Share::Warpgroup { warpgroups, warpgroup } => (warpgroups, warpgroup, false),
            Share::Whole => (1.into(), 0.into(), true),
        };
        let shares = warpgroups.known().unwrap_or(1);
        if !demand_whole_blocks(reads.operand, (block.0 * shares, block.1), tile.layout()) {
            return Self::nothing();
        }
        match blocks(block, tile.layout(), bits, (warpgroups, warpgroup)) {
            Ok((descriptor, major, blocks)) => {
                let fields = if of_tensor_core { descriptor.tensor_core_bits() } else { descriptor.bits() };
                tile.note_descriptor();
                let start = tile.pointer.address_of_view() >> 4;
                // The address field has 14 bits: the shared window is 256 KiB. A cluster's rank is
                // above them.
                let start: Reg<u64> = (start & 0x3fff).convert();
                let base = start | fields;
                recorder::with(|recorder| {
                    if let Some(stages) = recorder.stages_of(tile.pointer.parts().0) {
                        recorder.note_stages(base.register(), stages);
                    }
                });
                let blocks = Tensor::new(Generic::from_address(base), blocks);
                Self { blocks, major, reads: Some(reads) }
            }
            Err(error) => {
                refuse(error.to_string());
                Self::nothing()
            }
        }
    }

    /// The blocks where `coordinate` is `All`, at the position it gives elsewhere: such as one
    /// stage of a pipeline.
    #[track_caller]
    pub fn slice(&self, coordinate: impl Into<Coordinate>) -> Self {
        let coordinate = coordinate.into();
        if self.reads.is_none() {
            return self.clone();
        }
        Self { blocks: self.blocks.slice(coordinate), major: self.major, reads: self.reads }
    }

    /// Refuses an operand that was made for other instructions, or whose stage is not chosen yet.
    #[track_caller]
    pub(super) fn demand(&self, operation: &str, wanted: Reads) -> bool {
        let Some(reads) = self.reads else { return false };
        let modes = self.blocks.layout().rank();
        let mistake = if reads != wanted {
            format!(
                "an operand that reads {reads} is given where the MMA reads {wanted}: make it by `{}_operand` of this MMA",
                letter(wanted.operand)
            )
        } else if modes > 2 {
            format!(
                "{:?} has {modes} modes, {}, and takes (repetitions, k-steps): slice one stage",
                reads.operand,
                self.blocks.layout().inner().shape()
            )
        } else {
            return true;
        };
        refuse(format!("`{operation}`: {mistake}"));
        false
    }

    /// Blocks along the rows.
    #[track_caller]
    pub(super) fn repetitions(&self) -> i64 {
        extent(self.blocks.layout(), 0)
    }

    /// The descriptor of a block, as an instruction's operand.
    #[track_caller]
    pub(super) fn descriptor(&self, repetition: i64, step: i64) -> IrOperand {
        match self.blocks.address(&(repetition, step).into()) {
            IrOperand::Address { base, offset: 0, .. } => *base,
            IrOperand::Address { base, offset, .. } => {
                compute::<u64, 2>("add.s64", [*base, IrOperand::Integer(offset.into())]).operand()
            }
            other => other,
        }
    }

    /// Which mode is contiguous.
    pub(super) fn major(&self) -> Major {
        self.major
    }

    /// Blocks along the depth.
    pub(super) fn steps(&self) -> i64 {
        extent(self.blocks.layout(), 1)
    }

    /// The immediate that says which mode is contiguous.
    pub(super) fn transposed(&self) -> IrOperand {
        IrOperand::Integer(i128::from(self.major == Major::Mn))
    }
}

/// Refuses a tile that is not made of whole blocks, as far as its extents are known.
#[track_caller]
fn demand_whole_blocks(operand: Operand, block: (i64, i64), tile: &ComposedLayout) -> bool {
    let known = |mode: usize| {
        let size = tile.inner().mode(mode).and_then(|mode| mode.size());
        size.ok().and_then(|size| size.known())
    };
    let is_whole = |extent: Option<i64>, of_block: i64| extent.is_none_or(|extent| extent % of_block == 0);
    let (rows, columns) = (known(0), known(1));
    let is_whole = is_whole(rows, block.0) && is_whole(columns, block.1);
    if !is_whole {
        refuse(format!(
            "`{}_operand`: the tile has shape {}, and the MMA reads {operand:?} in blocks of {} x {}: use a tile of whole blocks",
            letter(operand),
            tile.inner().shape(),
            block.0,
            block.1
        ));
    }
    is_whole
}

/// Only 16-bit operands may be read with m or n contiguous (PTX ISA, "wgmma.mma_async").
pub(super) fn takes_either_major(element: DataType) -> bool {
    element.bits() == 16
}

/// The descriptor of the first block of a tile, which of its modes is contiguous, and where all
/// blocks of this warpgroup begin, in 16-byte units: (repetitions, k-steps, further modes).
fn blocks(
    (rows, depth): (i64, i64),
    tile: &ComposedLayout,
    bits: i64,
    (warpgroups, warpgroup): (Int, Int),
) -> Result<(SharedDescriptor, Major, ComposedLayout), Error> {
    let divided = tile.inner().zipped_divide((rows, depth))?;
    let first = tile.map_inner(|_| divided.mode(0))?;
    let k_major = SharedDescriptor::of_operand(&first, Major::K, bits).map(|found| (found, Major::K));
    let (descriptor, major) = match k_major {
        Ok(found) => found,
        Err(mistake) => match SharedDescriptor::of_operand(&first, Major::Mn, bits) {
            Ok(found) => (found, Major::Mn),
            Err(_) => return Err(mistake),
        },
    };
    let starts = divided.mode(1)?.recast(bits, UNIT_BITS)?;
    // Neighboring blocks belong to neighboring warpgroups.
    let shared_out = starts.mode(0)?.zipped_divide(warpgroups)?;
    let mut modes = vec![shared_out];
    modes.extend(starts.modes().into_iter().skip(1));
    let rest = modes.len() - 1;
    let all = Coordinate::Leaf(Index::All);
    let mine = Coordinate::Node(vec![Coordinate::Leaf(Index::At(warpgroup)), all.clone()]);
    let coordinate = Coordinate::Node(std::iter::once(mine).chain(vec![all; rest]).collect());
    let blocks = ComposedLayout::from(Layout::of_modes(modes)).slice(&coordinate)?;
    Ok((descriptor, major, blocks))
}

//! Work that a thread issues to the tensor core: MMAs, copies, and commits.

use warpwright_events::{
    AccessKind, Actor, AsyncKind, ByteRange, Completion, Event, FaultKind, MbarrierAddress, MemorySpace,
    Proxy, TileOperand, TilePart, lanes, shared_base,
};

use super::super::mbarrier::objects;
use super::cells::{agree, cell, failure, read, written};
use crate::cta::asynchronous::transfer::Issuer;
use crate::cta::mbarrier_update::absent;
use crate::cta::tensor_memory::copy::{Copy, CopyShape};
use crate::cta::tensor_memory::multiply::{Left, Multiply};
use crate::cta::tensor_memory::queue::Work;
use crate::cta::tensor_memory::shift::Shift;
use crate::cta::tensor_memory::{ROWS_OF_WARP, partner, pipeline, ranks};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::registers::Slot;
use crate::tensor::column_mask::ColumnMask;
use crate::tensor::descriptor::{Major, MatrixDescriptor, PIECE};
use crate::tensor::tensor_memory_multiply::{Form, RowLayout, TensorMemoryMultiply};

/// A thread of the CTA issues work to its tensor core.
fn issue(execution: &mut Execution<'_>, lane: usize, work: Work) -> Result<(), Box<Failure>> {
    let issuer = Issuer { warp: execution.warp, lane: lane as u8, pc: execution.pc };
    let launch = execution.launch;
    pipeline::issue(&mut execution.cluster(), launch, issuer, work)
}

/// Adds the lane to a failure.
fn at(lane: usize) -> impl Fn(Box<Failure>) -> Box<Failure> {
    move |mut failure| {
        failure.lanes = 1 << lane;
        failure
    }
}

/// `tcgen05.commit`
pub(super) struct Commit {
    pub(super) group: u8,
    pub(super) address: AddressOperand,
    pub(super) space: Space,
    pub(super) ranks: Option<Slot>,
}

impl Effect for Commit {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        // Without a space the address is generic; Triton passes one of shared memory, which the
        // hardware accepts as well.
        let first = addresses(execution, &self.address)[mask.trailing_zeros() as usize];
        let is_generic = self.space == Space::Generic && Space::of(first).0 == Space::ClusterShared;
        let space = if is_generic { Space::Generic } else { Space::ClusterShared };
        let objects = objects(execution, &self.address, space, mask)?;
        for lane in lanes(mask) {
            let ranks = match self.ranks {
                Some(slot) => execution.registers.word(slot)[lane] as u16,
                None => {
                    let rank = objects[lane].rank;
                    1u16.checked_shl(rank).ok_or_else(|| at(lane)(absent(rank)))?
                }
            };
            let actor = Actor { lanes: 1 << lane, ..execution.actor(mask) };
            for rank in (0..16).filter(|rank| ranks >> rank & 1 != 0) {
                let object = MbarrierAddress { rank, ..objects[lane] };
                execution.block.observer.report(Event::MbarrierTrack {
                    actor,
                    mbarrier: object,
                    kind: AsyncKind::TensorCore,
                });
            }
            issue(execution, lane, Work::Commit { offset: objects[lane].offset, ranks }).map_err(at(lane))?;
        }
        Ok(())
    }
}

/// `tcgen05.cp`
pub(super) struct CopyIn {
    pub(super) group: u8,
    pub(super) shape: CopyShape,
    /// The bits of elements that become a byte each.
    pub(super) spread: Option<u32>,
    pub(super) to: AddressOperand,
    pub(super) from: Slot,
}

impl Effect for CopyIn {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        for lane in lanes(mask) {
            let from = descriptor("source", execution.registers.long(self.from)[lane], lane)?;
            let to = cell(execution, &self.to, lane);
            let copy = Copy { shape: self.shape, to, from, spread: self.spread, ctas: self.group.into() };
            let actor = Actor { lanes: 1 << lane, ..execution.actor(mask) };
            let areas = copy.areas();
            for rank in ranks(execution.block.rank, copy.ctas) {
                let mut cluster = execution.cluster();
                let block = partner(&mut cluster, rank).map_err(at(lane))?;
                areas
                    .iter()
                    .try_for_each(|area| block.tensor_memory.check("tcgen05.cp", *area))
                    .map_err(at(lane))?;
                if execution.block.observer.listens() {
                    let mut pieces = Vec::new();
                    for (row, piece) in (0..self.shape.rows)
                        .flat_map(|row| (0..self.shape.pieces).map(move |piece| (row, piece)))
                    {
                        let part = TilePart { operand: TileOperand::Source, row, position: piece, rows: 1 };
                        pieces.push(piece_of(rank, from.address(Major::K, row, piece), PIECE, part));
                    }
                    observe_shared(execution, actor, &pieces);
                    observe_cells(execution, actor, &written(&areas, rank));
                }
            }
            issue(execution, lane, Work::Copy(copy)).map_err(at(lane))?;
        }
        Ok(())
    }
}

/// `tcgen05.shift`
pub(super) struct ShiftDown {
    pub(super) group: u8,
    pub(super) at: AddressOperand,
}

impl Effect for ShiftDown {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        for lane in lanes(mask) {
            let shift = Shift { at: cell(execution, &self.at, lane), ctas: self.group.into() };
            if !shift.at.row.is_multiple_of(ROWS_OF_WARP) {
                let message = format!(
                    "tcgen05.shift starts at row {} of tensor memory; it must start at a multiple of {ROWS_OF_WARP}.",
                    shift.at.row
                );
                return failure(1 << lane, message);
            }
            let actor = Actor { lanes: 1 << lane, ..execution.actor(mask) };
            for rank in ranks(execution.block.rank, shift.ctas) {
                let mut cluster = execution.cluster();
                let memory = &partner(&mut cluster, rank).map_err(at(lane))?.tensor_memory;
                let mut areas = shift.targets().into_iter();
                areas.try_for_each(|area| memory.check("tcgen05.shift", area)).map_err(at(lane))?;
                if execution.block.observer.listens() {
                    observe_cells(execution, actor, &read(&shift.sources(), rank, TileOperand::Cells));
                    observe_cells(execution, actor, &written(&shift.targets(), rank));
                }
            }
            issue(execution, lane, Work::Shift(shift)).map_err(at(lane))?;
        }
        Ok(())
    }
}

/// A part of a tile in the shared memory of a CTA.
fn piece_of(rank: u32, address: u32, bytes: u32, part: TilePart) -> ByteRange {
    ByteRange {
        space: MemorySpace::Shared,
        first: shared_base(rank) + u64::from(address),
        bytes: bytes.into(),
        kind: AccessKind::Read,
        part: Some(part),
    }
}

/// Reports shared memory that the tensor core reads.
fn observe_shared(execution: &Execution<'_>, actor: Actor, ranges: &[ByteRange]) {
    let completion = Completion::Group(AsyncKind::TensorCore);
    execution.block.observer.report(Event::AsyncIssue { actor, proxy: Proxy::Async, completion, ranges });
}

/// Reports cells that the tensor core accesses.
fn observe_cells(execution: &Execution<'_>, actor: Actor, ranges: &[ByteRange]) {
    let completion = Completion::Group(AsyncKind::TensorCore);
    execution.block.observer.report(Event::AsyncIssue {
        actor,
        proxy: Proxy::TensorMemory,
        completion,
        ranges,
    });
}

fn descriptor(what: &str, bits: u64, lane: usize) -> Result<MatrixDescriptor, Box<Failure>> {
    MatrixDescriptor::from_tensor_core_bits(bits).map_err(|error| {
        Failure::new(
            FaultKind::TensorMemory,
            1 << lane,
            format!("The descriptor of the {what} is wrong: {error}."),
        )
    })
}

pub(super) enum Multiplicand {
    /// The slot of its descriptor.
    Shared(Slot),
    Cells(AddressOperand),
}

/// `tcgen05.mma`
pub(super) struct IssueMultiply {
    pub(super) form: Form,
    pub(super) d: AddressOperand,
    pub(super) a: Multiplicand,
    pub(super) b: Slot,
    pub(super) descriptor: Slot,
    pub(super) disabled: Vec<Slot>,
    /// The address of the metadata of a sparse A.
    pub(super) metadata: Option<AddressOperand>,
    /// The addresses of the scales of A and of B.
    pub(super) scales: Option<[AddressOperand; 2]>,
    /// D is divided by 2 to this first.
    pub(super) shift: u32,
    /// Columns of B that count as zeros.
    pub(super) masked_columns: Option<Slot>,
    /// The predicate enable-input-d, and whether it is negated.
    pub(super) accumulates: (Slot, bool),
}

impl Effect for IssueMultiply {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let pc = execution.pc;
        agree(execution.block, self.form.ctas as u8, pc)?;
        if mask.count_ones() > 1 {
            let mut found = Failure::new(
                FaultKind::TensorMemory,
                mask,
                format!(
                    "{} lanes issue a tcgen05.mma each: one thread issues it for the whole CTA.",
                    mask.count_ones()
                ),
            );
            found.help =
                Some("let one lane issue it, for example the lane that `elect.sync` selects".to_owned());
            return Err(found);
        }
        let lane = mask.trailing_zeros() as usize;
        let work = self.work(execution, lane).map_err(at(lane))?;
        let Multiply { multiply, d, .. } = &work;
        if !is_aligned(multiply, d.row) {
            let or_16 = if multiply.layout() == RowLayout::Every16 { " or 16" } else { "" };
            let message =
                format!("D starts at row {} of tensor memory; it may start at row 0{or_16}.", d.row);
            return failure(mask, message);
        }
        let actor = Actor { lanes: mask, ..execution.actor(mask) };
        execution.block.observer.report(Event::TensorMultiply {
            actor,
            unit: multiply.unit(),
            operations: 2 * multiply.multiply_adds() * u64::from(multiply.ctas),
            shared_bytes: multiply.shared_bytes(matches!(work.a, Left::Shared(_))),
        });
        let (area, left, scales) = (work.area(), work.left_area(), work.scale_areas());
        let metadata = work.metadata_area();
        for rank in ranks(execution.block.rank, work.multiply.ctas) {
            let mut cluster = execution.cluster();
            let memory = &partner(&mut cluster, rank).map_err(at(lane))?.tensor_memory;
            let mut areas = area
                .iter()
                .map(|area| ("D of tcgen05.mma", area))
                .chain(left.iter().map(|area| ("A of tcgen05.mma", area)))
                .chain(metadata.iter().map(|area| ("The metadata of tcgen05.mma", area)))
                .chain(scales.iter().map(|area| ("A scale of tcgen05.mma", area)));
            areas.try_for_each(|(what, area)| memory.check(what, *area)).map_err(at(lane))?;
            if execution.block.observer.listens() {
                self.observe(execution, actor, rank, &work);
            }
        }
        issue(execution, lane, Work::Multiply(Box::new(work)))
    }
}

/// PTX ISA, "Data Path Layout Organization": the start rows of D and A.
fn is_aligned(multiply: &TensorMemoryMultiply, row: u32) -> bool {
    row == 0 || row == 16 && multiply.layout() == RowLayout::Every16
}

impl IssueMultiply {
    /// A lane's MMA.
    fn work(&self, execution: &Execution<'_>, lane: usize) -> Result<Multiply, Box<Failure>> {
        let registers = &*execution.registers;
        let bits = registers.word(self.descriptor)[lane];
        let multiply = TensorMemoryMultiply::new(self.form, bits).map_err(|error| {
            Failure::new(
                FaultKind::TensorMemory,
                1 << lane,
                format!("The instruction descriptor {bits:#010x} of tcgen05.mma is wrong: {error}."),
            )
        })?;
        let mask = self.masked_columns.map_or(0, |slot| registers.long(slot)[lane]);
        let mask = ColumnMask::new(mask, multiply.most_shift).map_err(|reason| {
            let message = format!("The mask of zero columns of tcgen05.mma.ws is wrong: {reason}.");
            Failure::new(FaultKind::TensorMemory, 1 << lane, message)
        })?;
        let a = match &self.a {
            Multiplicand::Shared(slot) => {
                Left::Shared(descriptor("matrix A", registers.long(*slot)[lane], lane)?)
            }
            Multiplicand::Cells(operand) => Left::Cells(cell(execution, operand, lane)),
        };
        let mut disabled = [0; 8];
        for (word, &slot) in disabled.iter_mut().zip(&self.disabled) {
            *word = registers.word(slot)[lane];
        }
        let (slot, negated) = self.accumulates;
        Ok(Multiply {
            multiply,
            d: cell(execution, &self.d, lane),
            a,
            b: descriptor("matrix B", registers.long(self.b)[lane], lane)?,
            accumulates: (registers.predicate(slot) >> lane & 1 != 0) != negated,
            scales: self
                .scales
                .as_ref()
                .map(|scales| scales.each_ref().map(|scale| cell(execution, scale, lane))),
            metadata: self.metadata.as_ref().map(|metadata| cell(execution, metadata, lane)),
            shifted: self.form.shifted,
            mask,
            shift: self.shift,
            disabled,
        })
    }

    /// Reports its accesses in the CTA of a rank.
    #[cold]
    fn observe(&self, execution: &Execution<'_>, actor: Actor, rank: u32, work: &Multiply) {
        let a = match work.a {
            Left::Shared(a) => Some(a),
            Left::Cells(_) => None,
        };
        let mut pieces = Vec::new();
        work.multiply.pieces(a, (work.b, work.mask.shift()), |address, part| {
            let bytes = work.multiply.piece_bytes(part.operand);
            pieces.push(piece_of(rank, address, bytes, part));
        });
        observe_shared(execution, actor, &pieces);
        observe_cells(execution, actor, &read(&work.left_area(), rank, TileOperand::A));
        observe_cells(execution, actor, &read(&work.scale_areas(), rank, TileOperand::Scales));
        observe_cells(execution, actor, &read(&work.metadata_area(), rank, TileOperand::Metadata));
        if work.accumulates {
            observe_cells(execution, actor, &read(&work.area(), rank, TileOperand::Accumulator));
        }
        observe_cells(execution, actor, &written(&work.area(), rank));
        if let Some(shift) = work.shift_of_left() {
            observe_cells(execution, actor, &written(&shift.targets(), rank));
        }
    }
}

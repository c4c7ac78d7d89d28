//! `tcgen05`: tensor memory, its multiplies, copies and fences (PTX ISA, "TensorCore 5th Generation Family Instructions").
//!
//! A warp asks for columns, gives them back, and moves cells to and from its registers; a single thread issues multiplies
//! and copies, and commits them to an mbarrier.

use warpwright_ptx::syntax::{Instruction, Number, Operand, Type};

use super::Decoder;
use super::mbarrier::objects;
use crate::asynchronous::Issuer;
use crate::check::{Actor, Awaited, Completion, Fence, GroupKind, Proxy, Range, Site, Touch};
use crate::cta::Block;
use crate::decode::{AddressOperand, DecodeError, Words};
use crate::fault::FaultKind;
use crate::mbarrier::MbarrierAddress;
use crate::memory::{Purpose, Space, Trouble, addresses, resolve, shared_base, split_generic};
use crate::operation::{Attempt, Effect, Execution, Kind};
use crate::registers::{FULL, LANES, Slot, lanes};
use crate::tensor::descriptor::{MatrixDescriptor, PIECE};
use crate::tensor::tensor_memory_multiply::{self as multiply, RowLayout, TensorMemoryMultiply};
use crate::tensor_memory::columns::is_legal;
use crate::tensor_memory::pipeline::{
    self, Copy, CopyShape, Left, Load, Multiply, Store, Work, is_at_once, partner, ranks,
};
use crate::tensor_memory::shape::{Move, Shape};
use crate::tensor_memory::{Area, Cell, ROWS_OF_WARP};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let group = w.choose(&[("cta_group::1", 1u8), ("cta_group::2", 2)]);
    let kind = if w.take("fence::before_thread_sync") {
        Kind::Effect(Box::new(ThreadFence { after: false }))
    } else if w.take("fence::after_thread_sync") {
        Kind::Effect(Box::new(ThreadFence { after: true }))
    } else if w.take("wait::ld") {
        Kind::Aligned(Box::new(Wait { kind: GroupKind::TensorLoad }))
    } else if w.take("wait::st") {
        Kind::Aligned(Box::new(Wait { kind: GroupKind::TensorStore }))
    } else if w.take("ld") {
        load(d, i, w)?
    } else if w.take("st") {
        store(d, i, w)?
    } else {
        of_group(d, i, w, group.ok_or_else(|| DecodeError::new("The instruction names no .cta_group."))?)?
    };
    w.take("sync");
    w.take("aligned");
    w.take("b32");
    w.take("b64");
    d.emit(kind);
    Ok(())
}

/// What names how many CTAs it is for.
fn of_group(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    w: &mut Words<'_>,
    group: u8,
) -> Result<Kind, DecodeError> {
    let operand = |index: usize| {
        i.operands.get(index).ok_or_else(|| DecodeError::new("The instruction needs more operands."))
    };
    if w.take("alloc") {
        let space = if w.take("shared::cta") { Space::Shared } else { Space::Generic };
        d.expect_operands(i, 2)?;
        let (address, columns) = (d.memory(operand(0)?)?, d.source(operand(1)?, Type::U32)?);
        return Ok(Kind::Attempt(Box::new(Allocate { group, address, space, columns })));
    }
    if w.take("dealloc") {
        d.expect_operands(i, 2)?;
        let (address, columns) = (d.source(operand(0)?, Type::U32)?, d.source(operand(1)?, Type::U32)?);
        return Ok(Kind::Aligned(Box::new(Free { group, address, columns })));
    }
    if w.take("relinquish_alloc_permit") {
        d.expect_operands(i, 0)?;
        return Ok(Kind::Aligned(Box::new(Relinquish { group })));
    }
    if w.take("commit") {
        w.take("mbarrier::arrive::one");
        let space = if w.take("shared::cluster") { Space::ClusterShared } else { Space::Generic };
        let multicast = w.take("multicast::cluster");
        d.expect_operands(i, if multicast { 2 } else { 1 })?;
        let ranks = if multicast { Some(d.source(operand(1)?, Type::U16)?) } else { None };
        return Ok(Kind::Effect(Box::new(Commit { group, address: d.memory(operand(0)?)?, space, ranks })));
    }
    if w.take("cp") {
        let known = CopyShape::ALL;
        let word = w.take_first(|word| known.iter().map(|(shape, ..)| *shape).find(|shape| *shape == word));
        let warps =
            w.take_first(|word| known.iter().map(|(_, warps, _)| *warps).find(|warps| *warps == word));
        let named = (word.unwrap_or_default(), warps.unwrap_or_default());
        let shape = known.into_iter().find(|(shape, warps, _)| (*shape, *warps) == named);
        let (.., shape) =
            shape.ok_or_else(|| DecodeError::new("The emulator does not know this shape of tcgen05.cp."))?;
        d.expect_operands(i, 2)?;
        let (to, from) = (d.memory(operand(0)?)?, d.source(operand(1)?, Type::B64)?);
        return Ok(Kind::Effect(Box::new(CopyIn { group, shape, to, from })));
    }
    if w.take("mma") {
        return multiplication(d, i, w, group);
    }
    Err(DecodeError::new("The emulator does not know this operation of tcgen05."))
}

/// `[d], a-desc or [a], b-desc, idesc{, disabled}, enable-input-d`
fn multiplication(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    w: &mut Words<'_>,
    group: u8,
) -> Result<Kind, DecodeError> {
    let kind = w.choose(&multiply::Kind::WORDS);
    let kind = kind.ok_or_else(|| {
        DecodeError::new("The emulator knows tcgen05.mma of .kind::f16, tf32, f8f6f4 and i8.")
    })?;
    let has_mask = i.operands.len() == 6;
    d.expect_operands(i, if has_mask { 6 } else { 5 })?;
    let a = match &i.operands[1] {
        address @ Operand::Address(_) => Multiplicand::Cells(d.memory(address)?),
        descriptor => Multiplicand::Shared(d.source(descriptor, Type::B64)?),
    };
    let mut disabled = Vec::new();
    if has_mask {
        let words = d.elements(&i.operands[4])?;
        if words.len() != 4 * usize::from(group) {
            return Err(DecodeError::new(format!("The mask of disabled rows takes {} words.", 4 * group)));
        }
        for word in &words {
            disabled.push(d.source(word, Type::B32)?);
        }
    }
    Ok(Kind::Effect(Box::new(IssueMultiply {
        group,
        kind,
        d: d.memory(&i.operands[0])?,
        a,
        b: d.source(&i.operands[2], Type::B64)?,
        descriptor: d.source(&i.operands[3], Type::B32)?,
        disabled,
        accumulates: d.predicate(&i.operands[i.operands.len() - 1])?,
    })))
}

/// The shape, the count, the packing, and the registers of a move.
fn moves(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    w: &mut Words<'_>,
    registers: usize,
) -> Result<(Move, Vec<Operand>), DecodeError> {
    let shape = w.take_first(Shape::from_word);
    let mut shape =
        shape.ok_or_else(|| DecodeError::new("The instruction names no shape, such as .32x32b."))?;
    w.take_first(|word| word.strip_prefix('x')?.parse::<u32>().ok());
    let packed = w.take("pack::16b") || w.take("unpack::16b");
    if let Shape::Halves { apart } = &mut shape {
        let split = i.operands.iter().find_map(|operand| match operand {
            Operand::Number(Number::Integer(value)) => u32::try_from(*value).ok(),
            _ => None,
        });
        *apart = split.ok_or_else(|| DecodeError::new("The halves' distance is an integer constant."))?;
    }
    let registers = d.elements(&i.operands[registers])?;
    Ok((Move { shape, registers: registers.len() as u32, packed }, registers))
}

fn load(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<Kind, DecodeError> {
    let (moves, registers) = moves(d, i, w, 0)?;
    let from = d.memory(&i.operands[1])?;
    let slots: Result<Box<[Slot]>, _> =
        registers.iter().map(|register| d.destination(register, Type::B32)).collect();
    let slots = slots?;
    d.note_asynchronous(&slots);
    Ok(Kind::Aligned(Box::new(LoadCells { moves, from, slots })))
}

fn store(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<Kind, DecodeError> {
    let values = i.operands.len().saturating_sub(1);
    let (moves, registers) = moves(d, i, w, values)?;
    let to = d.memory(&i.operands[0])?;
    let slots: Result<Box<[Slot]>, _> =
        registers.iter().map(|register| d.source(register, Type::B32)).collect();
    Ok(Kind::Aligned(Box::new(StoreCells { moves, to, slots: slots? })))
}

fn trouble<T>(lanes: u32, message: impl Into<String>) -> Result<T, Box<Trouble>> {
    Err(Trouble::new(FaultKind::TensorMemory, lanes, message))
}

/// All lanes of the warp execute it (`.sync.aligned`).
fn whole(mask: u32) -> Result<(), Box<Trouble>> {
    match mask {
        FULL => Ok(()),
        _ => trouble(
            !mask,
            "tcgen05 needs all 32 lanes of the warp here: these have exited or are left out by a predicate.",
        ),
    }
}

/// PTX ISA, "tcgen05.alloc": all instructions of a kernel are for the same number of CTAs.
fn agree(block: &mut Block, group: u8, pc: u32) -> Result<(), Box<Trouble>> {
    let (first, at) = *block.tensor_memory.columns.group.get_or_insert((group, pc));
    if first == group {
        return Ok(());
    }
    let message =
        format!("This is for .cta_group::{group}, and the kernel has used .cta_group::{first} before.");
    let mut found = Trouble::new(FaultKind::TensorMemory, 0, message)
        .note("all tcgen05 instructions of a kernel name the same .cta_group (PTX ISA, \"tcgen05.alloc\")");
    found.also.push((at, format!(".cta_group::{first} is used here")));
    found.help = Some(format!("write .cta_group::{first} everywhere, or .cta_group::{group}"));
    Err(found)
}

/// A value that all lanes of a warp have in common.
fn uniform(column: &[u32; LANES], what: &str) -> Result<u32, Box<Trouble>> {
    let differing =
        (0..LANES).filter(|&lane| column[lane] != column[0]).fold(0, |mask, lane| mask | 1 << lane);
    match differing {
        0 => Ok(column[0]),
        _ => trouble(
            differing,
            format!(
                "{what} must be the same in all lanes: it is {:#x} in lane 0, and another in these.",
                column[0]
            ),
        ),
    }
}

fn cell(execution: &Execution<'_>, operand: &AddressOperand, lane: usize) -> Cell {
    Cell::of(addresses(execution, operand)[lane] as u32)
}

/// What the checkers call areas of the tensor memory of a CTA: a range for each row.
fn ranges(areas: &[Area], rank: u32, touch: Touch) -> Vec<Range> {
    let rows = areas.iter().flat_map(|area| (0..area.rows).map(move |row| (area, row)));
    rows.map(|(area, row)| Range {
        site: Site::Tensor,
        first: Cell { row: area.first.row + row, ..area.first }.byte(rank),
        bytes: u64::from(area.columns * 4),
        touch,
    })
    .collect()
}

/// `tcgen05.alloc`: waits until so many columns are free.
struct Allocate {
    group: u8,
    address: AddressOperand,
    space: Space,
    columns: Slot,
}

impl Attempt for Allocate {
    fn attempt(&self, execution: &mut Execution<'_>, mask: u32) -> Result<bool, Box<Trouble>> {
        whole(mask)?;
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        let columns = uniform(execution.registers.word(self.columns), "The number of columns")?;
        if !is_legal(columns) {
            return trouble(
                FULL,
                format!(
                    "{columns} columns are asked for; tensor memory is given by powers of two from 32 to 512."
                ),
            );
        }
        if let Some(at) = execution.block.tensor_memory.columns.relinquished {
            let mut found = Trouble::new(
                FaultKind::TensorMemory,
                FULL,
                "Columns of tensor memory are asked for after the CTA has given up the right to.",
            );
            found.also.push((at, "given up here".to_owned()));
            found.help = Some("allocate everything before `tcgen05.relinquish_alloc_permit`".to_owned());
            return Err(found);
        }
        let mut addresses = addresses(execution, &self.address);
        let mut space = self.space;
        if space == Space::Generic {
            (space, _, addresses) = split_generic(&addresses, 1)[0];
        }
        if !matches!(space, Space::Shared | Space::ClusterShared) {
            return trouble(
                FULL,
                format!(
                    "The address of the columns is written to shared memory, not to {} memory.",
                    space.name()
                ),
            );
        }
        let located = resolve(execution, space, &addresses, 1, 4, Purpose::Store)?;
        let Some(first) = execution.block.tensor_memory.allocate(columns) else { return Ok(false) };
        // SAFETY: `resolve` found four bytes that may be written.
        unsafe { located.lane(0, &addresses).cast::<u32>().write_unaligned(first) };
        let actor = execution.actor(mask);
        // The lanes execute it together (`.sync`), and any of them may read what one of them wrote.
        execution.block.observer.warp_meets(actor);
        execution.block.observer.tensor_allocated(actor, first, columns);
        Ok(true)
    }

    fn reason(&self, block: &Block, _: u32) -> String {
        format!(
            "waits for columns of tensor memory, of which {} are free: {}",
            block.tensor_memory.columns.free_columns(),
            block.tensor_memory.columns.in_words()
        )
    }
}

/// `tcgen05.dealloc`
struct Free {
    group: u8,
    address: Slot,
    columns: Slot,
}

impl Effect for Free {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        whole(mask)?;
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        let first = Cell::of(uniform(execution.registers.word(self.address), "The address")?);
        let columns = uniform(execution.registers.word(self.columns), "The number of columns")?;
        let held = &mut execution.block.tensor_memory.columns;
        if first.row != 0 || !held.free(first.column, columns) {
            let message = format!(
                "{columns} columns from column {} on are given back, which were not allocated together.",
                first.column
            );
            return Err(Trouble::new(FaultKind::TensorMemory, FULL, message).note(held.in_words()));
        }
        let actor = execution.actor(mask);
        execution.block.observer.tensor_freed(actor, first.column, columns);
        Ok(())
    }
}

/// `tcgen05.relinquish_alloc_permit`
struct Relinquish {
    group: u8,
}

impl Effect for Relinquish {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        whole(mask)?;
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        execution.block.tensor_memory.columns.relinquished.get_or_insert(pc);
        Ok(())
    }
}

/// `tcgen05.fence`. What comes before it, the threads that synchronise tell by themselves; what comes after it may see that.
struct ThreadFence {
    after: bool,
}

impl Effect for ThreadFence {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        if self.after {
            execution.block.observer.fence(execution.actor(mask), Fence::TensorMemory);
        }
        Ok(())
    }
}

/// PTX ISA, "Access restrictions": a warp reaches the quarter of the rows that its place in its warpgroup says.
fn check_move(execution: &Execution<'_>, what: &str, moves: Move, first: Cell) -> Result<(), Box<Trouble>> {
    let warp = execution.warp;
    let own = warp % 4 * ROWS_OF_WARP;
    let fits = match moves.shape {
        Shape::Rows => first.row == own,
        _ => first.row == own || first.row == own + 16,
    };
    if !fits {
        let message = format!(
            "{what} starts at row {} of tensor memory; warp {warp} reaches rows {own} to {}.",
            first.row,
            own + ROWS_OF_WARP - 1
        );
        let mut found = Trouble::new(FaultKind::TensorMemory, FULL, message).note(format!(
            "each warp of a warpgroup has a quarter of the rows, by its number modulo 4{}",
            if moves.shape == Shape::Rows {
                ""
            } else {
                ", and this shape starts at the first or the 17th row of it"
            }
        ));
        found.help = Some(format!("add {own} << 16 to the address of the columns in this warp"));
        return Err(found);
    }
    moves.areas(first).into_iter().try_for_each(|area| execution.block.tensor_memory.check(what, area))
}

/// `tcgen05.ld`
struct LoadCells {
    moves: Move,
    from: AddressOperand,
    slots: Box<[Slot]>,
}

impl Effect for LoadCells {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        whole(mask)?;
        uniform(&addresses(execution, &self.from).map(|address| address as u32), "The address")?;
        let from = cell(execution, &self.from, 0);
        check_move(execution, "tcgen05.ld", self.moves, from)?;
        let (actor, rank, base) = (execution.actor(mask), execution.block.rank, execution.registers.base());
        if execution.block.observer.listens() {
            let ranges = ranges(&self.moves.areas(from), rank, Touch::Read);
            let completion = Completion::Group(GroupKind::TensorLoad);
            execution.block.observer.issue(actor, Proxy::TensorMemory, completion, &ranges);
            let columns: Vec<u32> = self.slots.iter().map(|slot| base.words + slot).collect();
            execution.block.observer.registers_loaded(actor, &columns);
        }
        let load = Load { base, slots: self.slots.clone(), moves: self.moves, from };
        let pipeline = &mut execution.block.tensor_pipeline;
        if is_at_once(pipeline, execution.launch.schedule) {
            return write_registers(execution, &load);
        }
        pipeline.loads[execution.warp as usize].push(load);
        Ok(())
    }
}

fn write_registers(execution: &mut Execution<'_>, load: &Load) -> Result<(), Box<Trouble>> {
    let values = load.read(&execution.block.tensor_memory);
    let own = execution.registers.base();
    execution.registers.set_base(load.base);
    for (&slot, values) in load.slots.iter().zip(values) {
        *execution.registers.word_mut(slot) = values;
    }
    execution.registers.set_base(own);
    Ok(())
}

/// `tcgen05.st`. The registers are read when it is issued.
struct StoreCells {
    moves: Move,
    to: AddressOperand,
    slots: Box<[Slot]>,
}

impl Effect for StoreCells {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        whole(mask)?;
        uniform(&addresses(execution, &self.to).map(|address| address as u32), "The address")?;
        let to = cell(execution, &self.to, 0);
        check_move(execution, "tcgen05.st", self.moves, to)?;
        let actor = execution.actor(mask);
        if execution.block.observer.listens() {
            let ranges = ranges(&self.moves.areas(to), execution.block.rank, Touch::Write);
            let completion = Completion::Group(GroupKind::TensorStore);
            execution.block.observer.issue(actor, Proxy::TensorMemory, completion, &ranges);
        }
        let values = self.slots.iter().map(|&slot| *execution.registers.word(slot)).collect();
        let store = Store { values, moves: self.moves, to };
        let Block { tensor_pipeline, tensor_memory, .. } = &mut *execution.block;
        if is_at_once(tensor_pipeline, execution.launch.schedule) {
            store.perform(tensor_memory);
        } else {
            tensor_pipeline.stores[execution.warp as usize].push(store);
        }
        Ok(())
    }
}

/// `tcgen05.wait`
struct Wait {
    kind: GroupKind,
}

impl Effect for Wait {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        whole(mask)?;
        let warp = execution.warp as usize;
        let actor = execution.actor(mask);
        execution.block.observer.wait(actor, self.kind, None, Awaited::Everything);
        if self.kind == GroupKind::TensorLoad {
            for load in std::mem::take(&mut execution.block.tensor_pipeline.loads[warp]) {
                write_registers(execution, &load)?;
            }
            return Ok(());
        }
        let Block { tensor_pipeline, tensor_memory, .. } = &mut *execution.block;
        tensor_pipeline.stores[warp].drain(..).for_each(|store| store.perform(tensor_memory));
        Ok(())
    }
}

/// A thread of the CTA issues work to its tensor core.
fn issue(execution: &mut Execution<'_>, lane: usize, work: Work) -> Result<(), Box<Trouble>> {
    let issuer = Issuer { warp: execution.warp, lane: lane as u8, pc: execution.pc };
    let launch = execution.launch;
    pipeline::issue(&mut execution.cluster(), launch, issuer, work)
}

/// Names the lane that has the trouble.
fn at(lane: usize) -> impl Fn(Box<Trouble>) -> Box<Trouble> {
    move |mut trouble| {
        trouble.lanes = 1 << lane;
        trouble
    }
}

/// `tcgen05.commit`
struct Commit {
    group: u8,
    address: AddressOperand,
    space: Space,
    ranks: Option<Slot>,
}

impl Effect for Commit {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        // Without a space the address is a generic one; Triton gives one of shared memory, which the hardware takes as well.
        let first = addresses(execution, &self.address)[mask.trailing_zeros() as usize];
        let is_generic = self.space == Space::Generic && Space::of(first).0 == Space::ClusterShared;
        let space = if is_generic { Space::Generic } else { Space::ClusterShared };
        let objects = objects(execution, &self.address, space, mask)?;
        for lane in lanes(mask) {
            let ranks = match self.ranks {
                Some(slot) => execution.registers.word(slot)[lane] as u16,
                None => 1 << objects[lane].rank,
            };
            let actor = Actor { lanes: 1 << lane, ..execution.actor(mask) };
            for rank in (0..16).filter(|rank| ranks >> rank & 1 != 0) {
                let object = MbarrierAddress { rank, ..objects[lane] };
                execution.block.observer.mbarrier_arrive_after(actor, object, GroupKind::TensorCore);
            }
            issue(execution, lane, Work::Commit { offset: objects[lane].offset, ranks }).map_err(at(lane))?;
        }
        Ok(())
    }
}

/// `tcgen05.cp`
struct CopyIn {
    group: u8,
    shape: CopyShape,
    to: AddressOperand,
    from: Slot,
}

impl Effect for CopyIn {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        for lane in lanes(mask) {
            let from = descriptor("source", execution.registers.long(self.from)[lane], lane)?;
            let to = cell(execution, &self.to, lane);
            let copy = Copy { shape: self.shape, to, from, ctas: self.group.into() };
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
                    let mut pieces: Vec<u32> = (0..self.shape.rows)
                        .flat_map(|row| (0..self.shape.pieces).map(move |piece| (row, piece)))
                        .map(|(row, piece)| from.address(crate::tensor::descriptor::Major::K, row, piece))
                        .collect();
                    observe_shared(execution, actor, rank, &mut pieces);
                    observe_cells(execution, actor, &ranges(&areas, rank, Touch::Write));
                }
            }
            issue(execution, lane, Work::Copy(copy)).map_err(at(lane))?;
        }
        Ok(())
    }
}

/// Tells the checkers of pieces of shared memory that the tensor core reads.
fn observe_shared(execution: &Execution<'_>, actor: Actor, rank: u32, pieces: &mut [u32]) {
    pieces.sort_unstable();
    let mut found: Vec<Range> = Vec::new();
    for &mut piece in pieces {
        let first = shared_base(rank) + u64::from(piece);
        match found.last_mut() {
            Some(last) if first <= last.first + last.bytes => {
                last.bytes = first + u64::from(PIECE) - last.first
            }
            _ => found.push(Range { site: Site::Shared, first, bytes: PIECE.into(), touch: Touch::Read }),
        }
    }
    let completion = Completion::Group(GroupKind::TensorCore);
    execution.block.observer.issue(actor, Proxy::Async, completion, &found);
}

/// Tells the checkers of cells that the tensor core uses.
fn observe_cells(execution: &Execution<'_>, actor: Actor, ranges: &[Range]) {
    let completion = Completion::Group(GroupKind::TensorCore);
    execution.block.observer.issue(actor, Proxy::TensorMemory, completion, ranges);
}

fn descriptor(what: &str, bits: u64, lane: usize) -> Result<MatrixDescriptor, Box<Trouble>> {
    MatrixDescriptor::from_tensor_core_bits(bits).map_err(|error| {
        Trouble::new(
            FaultKind::TensorMemory,
            1 << lane,
            format!("The descriptor of the {what} is wrong: {error}."),
        )
    })
}

enum Multiplicand {
    /// The slot of its descriptor.
    Shared(Slot),
    Cells(AddressOperand),
}

/// `tcgen05.mma`
struct IssueMultiply {
    group: u8,
    kind: multiply::Kind,
    d: AddressOperand,
    a: Multiplicand,
    b: Slot,
    descriptor: Slot,
    disabled: Vec<Slot>,
    /// The predicate enable-input-d, and whether it is negated.
    accumulates: (Slot, bool),
}

impl Effect for IssueMultiply {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        if mask.count_ones() > 1 {
            let mut found = Trouble::new(
                FaultKind::TensorMemory,
                mask,
                format!(
                    "{} lanes issue a tcgen05.mma each: one thread issues it for the whole CTA.",
                    mask.count_ones()
                ),
            );
            found.help = Some("let one lane issue it, as `elect.sync` says".to_owned());
            return Err(found);
        }
        let lane = mask.trailing_zeros() as usize;
        let work = self.work(execution, lane).map_err(at(lane))?;
        let Multiply { multiply, d, .. } = &work;
        if !is_aligned(multiply, d.row) {
            let or_16 = if multiply.layout() == RowLayout::Every16 { " or 16" } else { "" };
            let message =
                format!("D starts at row {} of tensor memory; it may start at row 0{or_16}.", d.row);
            return trouble(mask, message);
        }
        let actor = Actor { lanes: mask, ..execution.actor(mask) };
        let (area, left) = (work.area(), work.left_area());
        for rank in ranks(execution.block.rank, work.multiply.ctas) {
            let mut cluster = execution.cluster();
            let memory = &partner(&mut cluster, rank).map_err(at(lane))?.tensor_memory;
            let mut areas = area
                .iter()
                .map(|area| ("D of tcgen05.mma", area))
                .chain(left.iter().map(|area| ("A of tcgen05.mma", area)));
            areas.try_for_each(|(what, area)| memory.check(what, *area)).map_err(at(lane))?;
            if execution.block.observer.listens() {
                self.observe(execution, actor, rank, &work);
            }
        }
        issue(execution, lane, Work::Multiply(Box::new(work)))
    }
}

/// PTX ISA, "Data Path Layout Organization": where D, and A, may start.
fn is_aligned(multiply: &TensorMemoryMultiply, row: u32) -> bool {
    row == 0 || row == 16 && multiply.layout() == RowLayout::Every16
}

impl IssueMultiply {
    /// What a lane issues.
    fn work(&self, execution: &Execution<'_>, lane: usize) -> Result<Multiply, Box<Trouble>> {
        let registers = &*execution.registers;
        let bits = registers.word(self.descriptor)[lane];
        let multiply = TensorMemoryMultiply::new(self.kind, self.group.into(), bits).map_err(|error| {
            Trouble::new(
                FaultKind::TensorMemory,
                1 << lane,
                format!("The instruction descriptor {bits:#010x} of tcgen05.mma is wrong: {error}."),
            )
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
            disabled,
        })
    }

    /// Tells the checkers what it uses in the CTA of a rank.
    #[cold]
    fn observe(&self, execution: &Execution<'_>, actor: Actor, rank: u32, work: &Multiply) {
        let a = match work.a {
            Left::Shared(a) => Some(a),
            Left::Cells(_) => None,
        };
        let mut pieces = Vec::new();
        work.multiply.pieces(a, work.b, |piece| pieces.push(piece));
        observe_shared(execution, actor, rank, &mut pieces);
        observe_cells(execution, actor, &ranges(&work.left_area(), rank, Touch::Read));
        if work.accumulates {
            observe_cells(execution, actor, &ranges(&work.area(), rank, Touch::Read));
        }
        observe_cells(execution, actor, &ranges(&work.area(), rank, Touch::Write));
    }
}

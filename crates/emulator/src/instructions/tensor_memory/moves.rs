//! Loads and stores of cells, the waits for them, and the fences (PTX ISA, "Tensor Memory and
//! Register Load/Store Instructions").

use warpwright_events::{
    AsyncKind, Awaited, Cell, Completion, Event, FULL, FaultKind, Fence, Proxy, RegisterUse, TileOperand,
};

use super::cells::{cell, read, uniform, whole, written};
use crate::cta::block::Block;
use crate::cta::tensor_memory::ROWS_OF_WARP;
use crate::cta::tensor_memory::moves::{Load, Reduced, Reduction, Store};
use crate::cta::tensor_memory::pipeline::is_at_once;
use crate::cta::tensor_memory::shape::{Move, Shape};
use crate::decode::{DecodeError, Decoder, Row};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::AddressOperand;
use crate::operation::kind::Kind;
use crate::registers::Slot;

/// The shape, the packing, and the number of registers of a move.
fn moves(i: &Row<'_>, registers: usize) -> Result<Move, DecodeError> {
    let mut shape = i.find(Shape::from_word).ok_or_else(|| i.names_no("shape"))?;
    if let Shape::Halves { apart } = &mut shape {
        let split = (0..i.operands.len()).find_map(|index| u32::try_from(i.literal(index).ok()?).ok());
        *apart = split.ok_or_else(|| DecodeError::new("The halves' distance is an integer constant."))?;
    }
    let packed = i.has("pack::16b") || i.has("unpack::16b");
    Ok(Move { shape, registers: registers as u32, packed })
}

pub(super) fn load(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<Kind, DecodeError> {
    let from = d.memory_at(i, i.signature().destinations)?;
    let slots = d.destinations_at(i, 0)?;
    d.note_asynchronous(&slots);
    let reduction = if i.has("red") { Some(reduction(d, i)?) } else { None };
    let moves = moves(i, slots.len())?;
    Ok(Kind::Aligned(Box::new(LoadCells { moves, from, slots: slots.into(), reduction })))
}

/// The reduction of `tcgen05.ld.red`, whose result is the second operand.
fn reduction(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<Reduction, DecodeError> {
    let types = [
        ("u32", Reduced::Unsigned),
        ("s32", Reduced::Signed),
        ("f32", Reduced::Float { absolute: i.has("abs"), nan: i.has("NaN") }),
    ];
    let slot = d.destination_at(i, 1)?;
    d.note_asynchronous(&[slot]);
    Ok(Reduction { of: i.must("type", &types)?, maximum: i.has("max"), slot })
}

pub(super) fn store(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<Kind, DecodeError> {
    let to = d.memory_at(i, 0)?;
    let slots = d.sources_at(i, i.operands.len() - 1)?;
    Ok(Kind::Aligned(Box::new(StoreCells { moves: moves(i, slots.len())?, to, slots: slots.into() })))
}

/// `tcgen05.fence`. A synchronizing thread reports what precedes it; what follows may observe that.
pub(super) struct ThreadFence {
    pub(super) after: bool,
}

impl Effect for ThreadFence {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        if self.after {
            execution
                .block
                .observer
                .report(Event::Fence { actor: execution.actor(mask), fence: Fence::TensorMemory });
        }
        Ok(())
    }
}

/// PTX ISA, "Access restrictions": a warp accesses the quarter of the rows given by its index in
/// its warpgroup.
fn check_move(execution: &Execution<'_>, what: &str, moves: Move, first: Cell) -> Result<(), Box<Failure>> {
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
        let mut found = Failure::new(FaultKind::TensorMemory, FULL, message).note(format!(
            "each warp of a warpgroup accesses a quarter of the rows, given by its index modulo 4{}",
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

/// The first cell of a warp's move, checked against the rules of all moves.
fn first_cell(
    execution: &Execution<'_>,
    mask: u32,
    what: &str,
    moves: Move,
    address: &AddressOperand,
) -> Result<Cell, Box<Failure>> {
    whole(mask)?;
    uniform(&addresses(execution, address).map(|address| address as u32), "The address")?;
    let first = cell(execution, address, 0);
    check_move(execution, what, moves, first)?;
    Ok(first)
}

/// `tcgen05.ld`
struct LoadCells {
    moves: Move,
    from: AddressOperand,
    slots: Box<[Slot]>,
    reduction: Option<Reduction>,
}

impl Effect for LoadCells {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let from = first_cell(execution, mask, "tcgen05.ld", self.moves, &self.from)?;
        let (actor, rank, base) = (execution.actor(mask), execution.block.rank, execution.registers.base());
        if execution.block.observer.listens() {
            let ranges = read(&self.moves.areas(from), rank, TileOperand::Cells);
            let completion = Completion::Group(AsyncKind::TensorLoad);
            execution.block.observer.report(Event::AsyncIssue {
                actor,
                proxy: Proxy::TensorMemory,
                completion,
                ranges: &ranges,
            });
            let reduced = self.reduction.map(|reduction| reduction.slot);
            let columns: Vec<u32> =
                self.slots.iter().copied().chain(reduced).map(|slot| base.words + slot).collect();
            execution.block.observer.report(Event::TensorLoad { actor, columns: &columns });
        }
        let (slots, reduction) = (self.slots.clone(), self.reduction);
        let load = Load { base, slots, moves: self.moves, from, reduction };
        let pipeline = &mut execution.block.tensor_pipeline;
        if is_at_once(pipeline, execution.launch.schedule) {
            write_registers(execution, &load);
            return Ok(());
        }
        pipeline.loads[execution.warp as usize].push(load);
        Ok(())
    }
}

/// Completes the warp's loads to registers that an instruction uses before the wait. The ISA leaves
/// the result undefined, and the checkers report it; the hardware waits for a register that a load
/// writes, and kernels of Triton rely on that.
pub(crate) fn complete_loads_to(execution: &mut Execution<'_>, uses: &[RegisterUse]) {
    let warp = execution.warp as usize;
    if uses.is_empty() || execution.block.tensor_pipeline.loads[warp].is_empty() {
        return;
    }
    let own = execution.registers.base().words;
    let writes = |load: &mut Load| {
        let reduced = load.reduction.map(|reduction| reduction.slot);
        let mut columns = load.slots.iter().copied().chain(reduced).map(|slot| load.base.words + slot);
        columns.any(|column| uses.iter().any(|used| own + used.slot == column))
    };
    let used: Vec<Load> = execution.block.tensor_pipeline.loads[warp].extract_if(.., writes).collect();
    used.iter().for_each(|load| write_registers(execution, load));
}

fn write_registers(execution: &mut Execution<'_>, load: &Load) {
    let values = load.read(&execution.block.tensor_memory);
    let own = execution.registers.base();
    execution.registers.set_base(load.base);
    for (slot, values) in values {
        *execution.registers.word_mut(slot) = values;
    }
    execution.registers.set_base(own);
}

/// `tcgen05.st`. The registers are read when it is issued.
struct StoreCells {
    moves: Move,
    to: AddressOperand,
    slots: Box<[Slot]>,
}

impl Effect for StoreCells {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let to = first_cell(execution, mask, "tcgen05.st", self.moves, &self.to)?;
        let actor = execution.actor(mask);
        if execution.block.observer.listens() {
            let ranges = written(&self.moves.areas(to), execution.block.rank);
            let completion = Completion::Group(AsyncKind::TensorStore);
            execution.block.observer.report(Event::AsyncIssue {
                actor,
                proxy: Proxy::TensorMemory,
                completion,
                ranges: &ranges,
            });
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
pub(super) struct Wait {
    pub(super) kind: AsyncKind,
}

impl Effect for Wait {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        whole(mask)?;
        let warp = execution.warp as usize;
        let actor = execution.actor(mask);
        execution.block.observer.report(Event::AsyncWait {
            actor,
            kind: self.kind,
            latest: None,
            awaited: Awaited::Everything,
        });
        if self.kind == AsyncKind::TensorLoad {
            for load in std::mem::take(&mut execution.block.tensor_pipeline.loads[warp]) {
                write_registers(execution, &load);
            }
            return Ok(());
        }
        let Block { tensor_pipeline, tensor_memory, .. } = &mut *execution.block;
        tensor_pipeline.stores[warp].drain(..).for_each(|store| store.perform(tensor_memory));
        Ok(())
    }
}

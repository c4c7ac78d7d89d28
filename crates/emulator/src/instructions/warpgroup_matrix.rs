//! `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

use std::collections::HashSet;

use warpwright_events::{
    AccessKind, AsyncKind, Awaited, ByteRange, Completion, Event, FULL, FaultKind, LANES, MemorySpace, Proxy,
};
use warpwright_ptx::syntax::{Instruction, Number, Operand, Statement, Type};

use super::Decoder;
use super::matrix::element;
use crate::decode::{DecodeError, Words};
use crate::lanes::{Vectored, in_vectors};
use crate::memory::{SharedMemory, Trouble};
use crate::operation::{Execution, Kind};
use crate::registers::{Registers, Slot};
use crate::tensor::descriptor::{Major, MatrixDescriptor, PIECE};
use crate::tensor::warpgroup::{self, LEFT_REGISTERS, WARPS, WarpgroupMultiply};
use crate::tensor::warpgroup_operands::{LeftOperand, Operands, Outside};
use crate::tensor::{Column, Shape};
use crate::warpgroup::{Issue, IssueOperands};
use warpwright_arch::DataType;

/// What a warp does with the others of its warpgroup.
pub(crate) enum WarpgroupOperation {
    /// `wgmma.fence`: orders accesses of registers and shared memory with those of multiplies.
    Fence,
    /// `wgmma.mma_async`.
    Multiply(Box<WarpgroupMultiplication>),
    /// `wgmma.commit_group`.
    Commit,
    /// `wgmma.wait_group`: all groups but so many.
    Wait(usize),
    /// Waits for all that the warp has issued, before a `mov` of an accumulator. Triton writes such moves of packed halves
    /// between the commit and the wait, and ptxas puts a wait before them (C7517, "warpgroup.wait is injected").
    Settle,
}

/// What a warp does after it has executed such an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoesOn,
    /// Lets the other warps go first.
    Yields,
    /// Waits for multiplies to happen.
    Waits,
}

/// A `wgmma.mma_async`.
pub(crate) struct WarpgroupMultiplication {
    multiply: WarpgroupMultiply,
    d: Box<[Slot]>,
    a: LeftSource,
    b: Slot,
    metadata: Option<Slot>,
    /// The predicate scale-d, and whether it is negated.
    accumulates: (Slot, bool),
}

enum LeftSource {
    /// The slot of its descriptor.
    Shared(Slot),
    Registers([Slot; LEFT_REGISTERS]),
}

/// The names of the registers that are accumulators of a multiply somewhere in these statements.
pub(crate) fn accumulators(statements: &[Statement], found: &mut HashSet<String>) {
    for statement in statements {
        match statement {
            Statement::Block(inner) => accumulators(inner, found),
            Statement::Instruction(i) if i.opcode.base() == "wgmma" => {
                if let Some(Operand::Vector(registers)) = i.operands.first() {
                    found.extend(registers.iter().map(Operand::to_string));
                }
            }
            _ => {}
        }
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("sync");
    w.take("aligned");
    let operation = if w.take("fence") {
        d.expect_operands(i, 0)?;
        WarpgroupOperation::Fence
    } else if w.take("commit_group") {
        d.expect_operands(i, 0)?;
        WarpgroupOperation::Commit
    } else if w.take("wait_group") {
        d.expect_operands(i, 1)?;
        let count = constant(&i.operands[0], "The count of groups that wgmma.wait_group leaves")?;
        let most =
            usize::try_from(count).map_err(|_| DecodeError::new("A count of groups is not negative."))?;
        WarpgroupOperation::Wait(most)
    } else if w.take("mma_async") {
        WarpgroupOperation::Multiply(Box::new(multiplication(d, i, w)?))
    } else {
        return Err(DecodeError::new("`wgmma` names no operation, such as .mma_async."));
    };
    d.emit(Kind::Warpgroup(Box::new(operation)));
    Ok(())
}

fn constant(operand: &Operand, what: &str) -> Result<i64, DecodeError> {
    match operand {
        Operand::Number(Number::Integer(value)) => Ok(*value),
        _ => Err(DecodeError::new(format!("{what} is an integer constant."))),
    }
}

/// `d, a, b{, metadata, selector}, scale-d{, scale-a, scale-b}{, transpose-a}{, transpose-b}`: the scales for floats
/// only, the transpositions for 16-bit floats in shared memory only.
fn multiplication(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    w: &mut Words<'_>,
) -> Result<WarpgroupMultiplication, DecodeError> {
    let sparse = w.take("sp");
    let shape = w
        .take_first(Shape::from_word)
        .ok_or_else(|| DecodeError::new("The instruction names no shape, such as .m64n256k16."))?;
    let types = (element(w)?, element(w)?, element(w)?);
    let saturating = w.take("satfinite");
    if types.1 == DataType::B1 && !(w.take("and") && w.take("popc")) {
        return Err(DecodeError::new("wgmma combines matrices of .b1 by .and.popc only."));
    }
    if saturating && types.0 != DataType::S32 {
        return Err(DecodeError::new("Only sums of integers may be clamped (.satfinite)."));
    }
    let in_shared = !matches!(i.operands.get(1), Some(Operand::Vector(_)));
    let floats = types.0 != DataType::S32;
    let transposable = types.1.bits() == 16;
    let scale = if sparse { 5 } else { 3 };
    let scales = scale + 1;
    let transpositions = scales + if floats { 2 } else { 0 };
    let count = transpositions + if transposable { 1 + usize::from(in_shared) } else { 0 };
    d.expect_operands(i, count)?;

    let mut negated = false;
    let mut majors = (Major::K, Major::K);
    for operand in &i.operands[scales..transpositions] {
        match constant(operand, "The scale of a matrix")? {
            1 => {}
            -1 => negated = !negated,
            other => return Err(DecodeError::new(format!("The scale of a matrix is 1 or -1, not {other}."))),
        }
    }
    if transposable {
        let major = |index: usize| match constant(&i.operands[index], "The transposition of a matrix")? {
            0 => Ok(Major::K),
            1 => Ok(Major::Mn),
            other => Err(DecodeError::new(format!("The transposition of a matrix is 0 or 1, not {other}."))),
        };
        if in_shared {
            majors.0 = major(transpositions)?;
        }
        majors.1 = major(count - 1)?;
    }
    let selector = match sparse {
        true => {
            let selector = constant(&i.operands[4], "The sparsity selector")?;
            Some(usize::try_from(selector).unwrap_or(usize::MAX))
        }
        false => None,
    };
    let multiply = WarpgroupMultiply {
        shape,
        d: types.0,
        a: types.1,
        b: types.2,
        selector,
        majors,
        negated,
        saturating,
    };
    multiply.check().map_err(|error| DecodeError::new(error.to_string()))?;

    let registers = d.elements(&i.operands[0])?;
    if registers.len() != multiply.accumulator_registers() {
        return Err(DecodeError::new(format!(
            "`{}` names {} registers for an accumulator of .{} that takes {}.",
            i.operands[0],
            registers.len(),
            multiply.d.ptx(),
            multiply.accumulator_registers()
        )));
    }
    let slots: Result<Box<[Slot]>, _> =
        registers.iter().map(|register| d.destination(register, Type::B32)).collect();
    let a = if in_shared {
        LeftSource::Shared(d.source(&i.operands[1], Type::B64)?)
    } else {
        let registers = d.elements(&i.operands[1])?;
        let slots: Result<Vec<Slot>, _> =
            registers.iter().map(|register| d.source(register, Type::B32)).collect();
        let slots = slots?.try_into().map_err(|slots: Vec<Slot>| {
            DecodeError::new(format!("A matrix A in registers takes {LEFT_REGISTERS}, not {}.", slots.len()))
        })?;
        LeftSource::Registers(slots)
    };
    Ok(WarpgroupMultiplication {
        multiply,
        d: slots?,
        a,
        b: d.source(&i.operands[2], Type::B64)?,
        metadata: if sparse { Some(d.source(&i.operands[3], Type::B32)?) } else { None },
        accumulates: d.predicate(&i.operands[scale])?,
    })
}

impl WarpgroupOperation {
    /// The multiply, if it is one.
    pub(crate) fn multiplication(&self) -> Option<&WarpgroupMultiplication> {
        match self {
            WarpgroupOperation::Multiply(multiplication) => Some(multiplication),
            _ => None,
        }
    }

    /// A warp executes it, with all its live lanes.
    pub(crate) fn execute(
        &self,
        execution: &mut Execution<'_>,
        pc: u32,
        mask: u32,
    ) -> Result<Next, Box<Trouble>> {
        let (warp, eager) = (execution.warp, execution.launch.schedule != crate::launch::Schedule::Latest);
        whole(execution, mask)?;
        if let WarpgroupOperation::Wait(latest) = self {
            let (actor, kind) = (execution.actor(mask), AsyncKind::Multiply);
            execution.block.observer.report(Event::AsyncWait {
                actor,
                kind,
                latest: Some(*latest as u32),
                awaited: Awaited::Everything,
            });
        }
        let warpgroups = &mut execution.block.warpgroups;
        Ok(match self {
            WarpgroupOperation::Fence => {
                execution.block.observer.report(Event::RegisterFence { actor: execution.actor(mask) });
                Next::GoesOn
            }
            WarpgroupOperation::Commit => {
                warpgroups.commit(warp);
                execution
                    .block
                    .observer
                    .report(Event::AsyncCommit { actor: execution.actor(mask), kind: AsyncKind::Multiply });
                Next::GoesOn
            }
            WarpgroupOperation::Wait(latest) if warpgroups.wait(warp, *latest) => Next::Waits,
            WarpgroupOperation::Wait(_) => Next::GoesOn,
            WarpgroupOperation::Settle => {
                let waits = warpgroups.wait_for_all(warp);
                execution.block.observer.report(Event::RegistersSettled { actor: execution.actor(mask) });
                if waits { Next::Waits } else { Next::GoesOn }
            }
            WarpgroupOperation::Multiply(multiplication) => {
                let operands = multiplication.operands(execution.registers)?;
                let base = execution.registers.base();
                if execution.block.observer.listens() {
                    multiplication.observe(execution, mask, operands);
                    multiplication.observe_registers(execution, mask);
                }
                let warpgroups = &mut execution.block.warpgroups;
                warpgroups.issue(warp, Issue { pc, base, operands })?;
                if eager { Next::Yields } else { Next::GoesOn }
            }
        })
    }
}

/// PTX ISA, "wgmma": executed by all threads of a warpgroup, four warps of which the first is a multiple of four.
fn whole(execution: &Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
    let (warp, warps) = (execution.warp, execution.block.alive.len() as u32);
    let first = warp / WARPS as u32 * WARPS as u32;
    let trouble = |message: String| Err(Trouble::new(FaultKind::Warpgroup, mask, message));
    if first + WARPS as u32 > warps {
        return trouble(format!(
            "wgmma needs a warpgroup of four whole warps, and warp {warp} is in one of {}: the CTA has {warps} warps.",
            warps - first
        ));
    }
    if mask != FULL {
        return trouble(format!(
            "wgmma needs all 32 lanes of the warp, and {} of them have exited or are left out by a predicate.",
            (!mask).count_ones()
        ));
    }
    Ok(())
}

impl WarpgroupMultiplication {
    /// The operands that all warps have in common, which must be those of all lanes.
    fn operands(&self, registers: &Registers) -> Result<IssueOperands, Box<Trouble>> {
        let a = match self.a {
            LeftSource::Shared(slot) => Some(uniform(registers.long(slot), "descriptor of A")?),
            LeftSource::Registers(_) => None,
        };
        let b = uniform(registers.long(self.b), "descriptor of B")?;
        let (slot, negated) = self.accumulates;
        let bits = registers.predicate(slot) ^ if negated { FULL } else { 0 };
        if bits != 0 && bits != FULL {
            return Err(Trouble::new(
                FaultKind::Warpgroup,
                !bits,
                "scale-d of wgmma must be the same in all lanes: it is true in some and false in these.",
            ));
        }
        Ok(IssueOperands { a, b, accumulates: bits != 0 })
    }

    /// The registers that it uses by itself: its accumulators, and A if that is in registers.
    pub(crate) fn registers(&self) -> impl Iterator<Item = Slot> {
        self.d.iter().chain(self.fragments()).copied()
    }

    fn fragments(&self) -> &[Slot] {
        match &self.a {
            LeftSource::Shared(_) => &[],
            LeftSource::Registers(slots) => slots,
        }
    }

    /// Tells the checkers which registers a warp's share uses.
    #[cold]
    fn observe_registers(&self, execution: &Execution<'_>, mask: u32) {
        let base = execution.registers.base().words;
        let columns = |slots: &[Slot]| -> Vec<u32> { slots.iter().map(|slot| base + slot).collect() };
        let Shape { n, k, .. } = self.multiply.shape;
        execution.block.observer.report(Event::Wgmma {
            actor: execution.actor(mask),
            accumulators: &columns(&self.d),
            fragments: &columns(self.fragments()),
            shape: (n, k),
        });
    }

    /// Tells the checkers what a warp's share reads of shared memory.
    #[cold]
    fn observe(&self, execution: &Execution<'_>, mask: u32, operands: IssueOperands) {
        let base = execution.block.shared.base();
        let mut ranges = Vec::new();
        let a = operands.a.map(MatrixDescriptor::from_bits);
        self.multiply.pieces(a, MatrixDescriptor::from_bits(operands.b), |piece| {
            let first = base + u64::from(piece);
            ranges.push(ByteRange {
                space: MemorySpace::Shared,
                first,
                bytes: PIECE.into(),
                kind: AccessKind::Read,
            });
        });
        let completion = Completion::Group(AsyncKind::Multiply);
        execution.block.observer.report(Event::AsyncIssue {
            actor: execution.actor(mask),
            proxy: Proxy::Async,
            completion,
            ranges: &ranges,
        });
    }

    /// Multiplies, for all four warps.
    pub(crate) fn execute(
        &self,
        operands: IssueOperands,
        registers: &mut [&mut Registers],
        shared: &mut SharedMemory,
        ready: &mut Operands,
    ) -> Result<(), Box<Trouble>> {
        let work = Work { multiplication: self, operands, registers, shared: shared.bytes(), ready };
        in_vectors(work).map_err(|outside| self.outside(outside, operands, shared.size()))
    }

    /// Multiply-adds of all four warps.
    pub(crate) fn multiply_adds(&self) -> u64 {
        self.multiply.shape.multiply_adds() as u64
    }

    fn outside(&self, outside: Outside, operands: IssueOperands, size: u64) -> Box<Trouble> {
        let Outside { address } = outside;
        let mut trouble = Trouble::new(
            FaultKind::OutOfBounds,
            FULL,
            format!(
                "A matrix of wgmma reaches beyond the CTA's shared memory, which is {size} bytes long: 16 bytes at {address:#x} are not there."
            ),
        );
        let named = [("A", operands.a), ("B", Some(operands.b))];
        for (name, bits) in named.into_iter().filter_map(|(name, bits)| Some((name, bits?))) {
            let MatrixDescriptor { start, leading, stride, base, span } = MatrixDescriptor::from_bits(bits);
            trouble = trouble.note(format!(
                "the descriptor of {name}, {bits:#018x}: starts at {start:#x}, leading offset {leading}, stride offset {stride}, base offset {base}, swizzle of {} bytes",
                if span == 1 { 0 } else { 16 * span }
            ));
        }
        trouble
    }
}

/// A multiply that happens now.
struct Work<'a, 'b> {
    multiplication: &'a WarpgroupMultiplication,
    operands: IssueOperands,
    registers: &'a mut [&'b mut Registers],
    shared: &'a [u8],
    ready: &'a mut Operands,
}

impl Vectored for Work<'_, '_> {
    type Result = Result<(), Outside>;

    #[inline(always)]
    fn compute(self) -> Result<(), Outside> {
        let Work { multiplication, operands, registers, shared, ready } = self;
        let WarpgroupMultiplication { multiply, d, a, metadata, .. } = multiplication;
        let columns =
            |slot: Slot| -> [Column; WARPS] { std::array::from_fn(|warp| *registers[warp].word(slot)) };
        let held: [[Column; LEFT_REGISTERS]; WARPS];
        let a = match a {
            LeftSource::Registers(slots) => {
                held = std::array::from_fn(|warp| slots.map(|slot| *registers[warp].word(slot)));
                LeftOperand::Registers(&held)
            }
            LeftSource::Shared(_) => {
                LeftOperand::Shared(MatrixDescriptor::from_bits(operands.a.unwrap_or(0)))
            }
        };
        let metadata = metadata.map(columns);
        let b = MatrixDescriptor::from_bits(operands.b);
        multiply.read(ready, a, metadata.as_ref(), b, shared)?;
        for (warp, registers) in registers.iter_mut().enumerate() {
            let mut registers = AccumulatorRegisters { registers, slots: d };
            multiply.multiply(ready, warp, operands.accumulates, &mut registers);
        }
        Ok(())
    }
}

struct AccumulatorRegisters<'a> {
    registers: &'a mut Registers,
    slots: &'a [Slot],
}

impl warpgroup::Registers for AccumulatorRegisters<'_> {
    #[inline(always)]
    fn column(&self, register: usize) -> &Column {
        self.registers.word(self.slots[register])
    }

    #[inline(always)]
    fn column_mut(&mut self, register: usize) -> &mut Column {
        self.registers.word_mut(self.slots[register])
    }
}

fn uniform(column: &[u64; LANES], what: &str) -> Result<u64, Box<Trouble>> {
    let differing =
        (0..LANES).filter(|&lane| column[lane] != column[0]).fold(0, |mask, lane| mask | 1 << lane);
    if differing == 0 {
        return Ok(column[0]);
    }
    Err(Trouble::new(
        FaultKind::Warpgroup,
        differing,
        format!(
            "The {what} of wgmma must be the same in all lanes: in lane 0 it is {:#x}, in these another.",
            column[0]
        ),
    ))
}

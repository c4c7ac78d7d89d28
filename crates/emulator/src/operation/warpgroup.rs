//! `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"): operations of a warp with
//! the others of its warpgroup.

use warpwright_events::{
    AccessKind, AsyncKind, Awaited, ByteRange, Completion, Event, FULL, FaultKind, LANES, MemorySpace, Proxy,
};

use crate::cta::warpgroup::{Issue, IssueOperands};
use crate::execution::effect::Execution;
use crate::lanes::{Vectored, in_vectors};
use crate::launch::failure::Failure;
use crate::memory::SharedMemory;
use crate::registers::{FrameBase, Registers, Slot};
use crate::tensor::descriptor::{MatrixDescriptor, PIECE};
use crate::tensor::warpgroup::{self, LEFT_REGISTERS, WARPS, WarpgroupMultiply};
use crate::tensor::warpgroup_operands::{LeftOperand, Operands, Outside};
use crate::tensor::{Column, Shape};

/// An operation of a warp with the others of its warpgroup.
pub(crate) enum WarpgroupOperation {
    /// `wgmma.fence`: orders accesses to registers and shared memory with those of MMAs.
    Fence,
    /// `wgmma.mma_async`.
    Multiply(Box<WarpgroupMultiplication>),
    /// `wgmma.commit_group`.
    Commit,
    /// `wgmma.wait_group`: all groups except the last `pending`.
    Wait(usize),
    /// Waits for everything that the warp has issued, before a `mov` of an accumulator. Triton
    /// writes such moves of packed halves between the commit and the wait, and ptxas inserts a wait
    /// before them (C7517, "warpgroup.wait is injected").
    Settle,
}

/// What a warp does after such an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoesOn,
    /// Lets the other warps go first.
    Yields,
    /// Waits until MMAs have executed.
    Waits,
}

/// A `wgmma.mma_async`.
pub(crate) struct WarpgroupMultiplication {
    pub(crate) multiply: WarpgroupMultiply,
    pub(crate) d: Box<[Slot]>,
    pub(crate) a: LeftSource,
    pub(crate) b: Slot,
    pub(crate) metadata: Option<Slot>,
    /// The predicate scale-d, and whether it is negated.
    pub(crate) accumulates: (Slot, bool),
}

pub(crate) enum LeftSource {
    /// The slot of its descriptor.
    Shared(Slot),
    Registers([Slot; LEFT_REGISTERS]),
}

impl WarpgroupOperation {
    /// The MMA, if it is one.
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
    ) -> Result<Next, Box<Failure>> {
        let (warp, eager) =
            (execution.warp, execution.launch.schedule != crate::launch::schedule::Schedule::Latest);
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
                    multiplication.observe_registers(execution, mask, operands.accumulates);
                }
                let warpgroups = &mut execution.block.warpgroups;
                warpgroups.issue(warp, Issue { pc, base, operands })?;
                if eager { Next::Yields } else { Next::GoesOn }
            }
        })
    }
}

/// PTX ISA, "wgmma": executed by all threads of a warpgroup, four warps of which the first is a
/// multiple of four.
fn whole(execution: &Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
    let (warp, warps) = (execution.warp, execution.block.alive.len() as u32);
    let first = warp / WARPS as u32 * WARPS as u32;
    let failure = |message: String| Err(Failure::new(FaultKind::Warpgroup, mask, message));
    if first + WARPS as u32 > warps {
        return failure(format!(
            "wgmma needs a warpgroup of four whole warps, and warp {warp} is in one of {}: the CTA has {warps} warps.",
            warps - first
        ));
    }
    if mask != FULL {
        return failure(format!(
            "wgmma needs all 32 lanes of the warp, and {} of them have exited or are predicated off.",
            (!mask).count_ones()
        ));
    }
    Ok(())
}

impl WarpgroupMultiplication {
    /// The operands that all warps share, which must be equal in all lanes.
    fn operands(&self, registers: &Registers) -> Result<IssueOperands, Box<Failure>> {
        let a = match self.a {
            LeftSource::Shared(slot) => Some(uniform(registers.long(slot), "descriptor of A")?),
            LeftSource::Registers(_) => None,
        };
        let b = uniform(registers.long(self.b), "descriptor of B")?;
        let (slot, negated) = self.accumulates;
        let bits = registers.predicate(slot) ^ if negated { FULL } else { 0 };
        if bits != 0 && bits != FULL {
            return Err(Failure::new(
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

    /// Reports the registers of a warp's share.
    #[cold]
    fn observe_registers(&self, execution: &Execution<'_>, mask: u32, accumulates: bool) {
        let base = execution.registers.base();
        let columns = |slots: &[Slot]| -> Vec<u32> { slots.iter().map(|slot| base.words + slot).collect() };
        let Shape { n, k, .. } = self.multiply.shape;
        let (accumulators, fragments) = (columns(&self.d), columns(self.fragments()));
        let reads = match (base == FrameBase::default(), accumulates) {
            (false, _) => Vec::new(),
            (true, true) => [&accumulators[..], &fragments[..]].concat(),
            (true, false) => fragments.clone(),
        };
        execution.block.observer.report(Event::Wgmma {
            actor: execution.actor(mask),
            accumulators: &accumulators,
            fragments: &fragments,
            reads: &reads,
            shape: (n, k),
        });
    }

    /// Reports the shared memory that a warp's share reads.
    #[cold]
    fn observe(&self, execution: &Execution<'_>, mask: u32, operands: IssueOperands) {
        let base = execution.block.shared.base();
        let mut ranges = Vec::new();
        let a = operands.a.map(MatrixDescriptor::from_bits);
        self.multiply.pieces(a, MatrixDescriptor::from_bits(operands.b), |piece, part| {
            let first = base + u64::from(piece);
            ranges.push(ByteRange {
                space: MemorySpace::Shared,
                first,
                bytes: PIECE.into(),
                kind: AccessKind::Read,
                part: Some(part),
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

    /// Multiplies for all four warps.
    pub(crate) fn execute(
        &self,
        operands: IssueOperands,
        registers: &mut [&mut Registers],
        shared: &mut SharedMemory,
        ready: &mut Operands,
    ) -> Result<(), Box<Failure>> {
        let work = Work { multiplication: self, operands, registers, shared: shared.bytes(), ready };
        in_vectors(work).map_err(|outside| self.outside(outside, operands, shared.size()))
    }

    /// Multiply-adds of all four warps.
    pub(crate) fn multiply_adds(&self) -> u64 {
        self.multiply.shape.multiply_adds() as u64
    }

    fn outside(&self, outside: Outside, operands: IssueOperands, size: u64) -> Box<Failure> {
        let Outside { address } = outside;
        let mut failure = Failure::new(
            FaultKind::OutOfBounds,
            FULL,
            format!(
                "A matrix of wgmma extends beyond the CTA's shared memory of {size} bytes: the 16 bytes \
                 at {address:#x} are outside it."
            ),
        );
        let named = [("A", operands.a), ("B", Some(operands.b))];
        for (name, bits) in named.into_iter().filter_map(|(name, bits)| Some((name, bits?))) {
            let MatrixDescriptor { start, leading, stride, base, span, .. } =
                MatrixDescriptor::from_bits(bits);
            failure = failure.note(format!(
                "the descriptor of {name}, {bits:#018x}: starts at {start:#x}, leading offset {leading}, stride offset {stride}, base offset {base}, swizzle of {} bytes",
                if span == 1 { 0 } else { 16 * span }
            ));
        }
        failure
    }
}

/// An MMA that executes now.
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

fn uniform(column: &[u64; LANES], what: &str) -> Result<u64, Box<Failure>> {
    let differing =
        (0..LANES).filter(|&lane| column[lane] != column[0]).fold(0, |mask, lane| mask | 1 << lane);
    if differing == 0 {
        return Ok(column[0]);
    }
    let message = format!(
        "The {what} of wgmma must be the same in all lanes of a warp: it is {:#x} in lane 0, and another in these.",
        column[0]
    );
    let mut failure = Failure::new(FaultKind::Warpgroup, differing, message);
    failure.help = Some(
        "index the operand's tile (`a_operand(tile, warpgroup)`, `slice(..)`) by values that all lanes of the warp share, such as \
         the role's `warpgroup()` or `thread / 128`"
            .to_owned(),
    );
    Err(failure)
}

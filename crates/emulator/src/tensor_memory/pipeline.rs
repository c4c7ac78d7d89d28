//! Multiplies and copies that a CTA's threads have issued to its tensor core, in the order in which it executes them.
//!
//! The PTX ISA ("Pipelined tcgen05 Instructions") gives an order to a copy and the multiplies after it, and to multiplies into
//! the same accumulator; here all that a CTA issues keeps its order. When a piece of it happens is for the schedule to say: at
//! once (`eager`), when nothing else in the cluster can go on (`latest`), or at a drawn moment. A commit stands in the same queue,
//! and arrives at its mbarriers when all before it has happened.

use std::collections::VecDeque;

use super::shape::Move;
use super::{Area, Cell};
use crate::asynchronous::Issuer;
use crate::cluster::Blocks;
use crate::cta::Block;
use crate::fault::FaultKind;
use crate::lanes::{Vectored, in_vectors};
use crate::launch::{LaunchContext, Schedule};
use crate::mbarrier::{Arrivals, Change, MbarrierAddress, running};
use crate::memory::Trouble;
use crate::registers::{FULL, FrameBase, LANES, Slot};
use crate::tensor::descriptor::{Major, MatrixDescriptor, PIECE};
use crate::tensor::tensor_memory_multiply::{Accumulator, RUN, RowLayout, TensorMemoryMultiply};
use crate::tensor::warpgroup_operands::{LeftOperand, Operands, Outside};
use crate::warp::Located;

/// Where a multiply's A is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    Shared(MatrixDescriptor),
    /// In tensor memory, from this cell on.
    Cells(Cell),
}

/// A multiply under way.
#[derive(Debug)]
pub(crate) struct Multiply {
    pub(crate) multiply: TensorMemoryMultiply,
    pub(crate) d: Cell,
    pub(crate) a: Left,
    pub(crate) b: MatrixDescriptor,
    pub(crate) accumulates: bool,
    /// Rows of tensor memory that are not written, a bit each: 128 a CTA.
    pub(crate) disabled: [u32; 8],
}

/// A copy from shared to tensor memory under way.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) shape: CopyShape,
    pub(crate) to: Cell,
    pub(crate) from: MatrixDescriptor,
    pub(crate) ctas: u32,
}

/// How many rows of how many pieces of 16 bytes a copy takes, and which rows of tensor memory each of them goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyShape {
    pub(crate) rows: u32,
    pub(crate) pieces: u32,
    /// How often it is written, and how many rows apart, for the first 32 rows and for the others.
    copies: &'static [[u32; 2]],
}

impl CopyShape {
    /// The shapes, by their PTX words without the dots: what is copied, and to which warps' rows.
    pub(crate) const ALL: [(&'static str, &'static str, CopyShape); 6] = [
        ("128x256b", "", Self::new(128, 2, &[[0, 0]])),
        ("4x256b", "", Self::new(4, 2, &[[0, 0]])),
        ("128x128b", "", Self::new(128, 1, &[[0, 0]])),
        ("64x128b", "warpx2::02_13", Self::new(64, 1, &[[0, 0], [64, 64]])),
        ("64x128b", "warpx2::01_23", Self::new(64, 1, &[[0, 32], [32, 64]])),
        ("32x128b", "warpx4", Self::new(32, 1, &[[0, 0], [32, 0], [64, 0], [96, 0]])),
    ];

    const fn new(rows: u32, pieces: u32, copies: &'static [[u32; 2]]) -> Self {
        Self { rows, pieces, copies }
    }

    /// The rows that one row goes to.
    pub(crate) fn targets(self, row: u32) -> impl Iterator<Item = u32> {
        self.copies.iter().map(move |[lower, upper]| row + if row < 32 { *lower } else { *upper })
    }
}

/// What a thread has issued.
#[derive(Debug)]
pub(crate) enum Work {
    Multiply(Box<Multiply>),
    Copy(Copy),
    /// The mbarrier at an offset in each CTA of a mask is told.
    Commit {
        offset: u64,
        ranks: u16,
    },
}

/// A load whose registers are written when its warp waits for it.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) base: FrameBase,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) moves: Move,
    pub(crate) from: Cell,
}

/// A store whose cells are written when its warp waits for it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) values: Vec<[u32; LANES]>,
    pub(crate) moves: Move,
    pub(crate) to: Cell,
}

/// What a CTA's threads have under way in tensor memory.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    issued: VecDeque<(Issuer, Work)>,
    /// By warp.
    pub(crate) loads: Vec<Vec<Load>>,
    pub(crate) stores: Vec<Vec<Store>>,
    random: u64,
    /// Memory for the operands of the multiply that happens.
    operands: Box<Operands>,
}

fn seed_of(schedule: Schedule, cta: u64) -> u64 {
    let seed = if let Schedule::Random(seed) = schedule { seed } else { 0 };
    (seed ^ cta.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d) | 1
}

impl Pipeline {
    /// That of a CTA of so many warps.
    pub(crate) fn new(warps: usize, schedule: Schedule, cta: u64) -> Self {
        let mut pipeline = Self { random: seed_of(schedule, cta), ..Self::default() };
        pipeline.loads.resize_with(warps, Vec::new);
        pipeline.stores.resize_with(warps, Vec::new);
        pipeline
    }

    /// Forgets everything, for another CTA.
    pub(crate) fn reset(&mut self, schedule: Schedule, cta: u64) {
        self.random = seed_of(schedule, cta);
        self.issued.clear();
        self.loads.iter_mut().for_each(Vec::clear);
        self.stores.iter_mut().for_each(Vec::clear);
    }

    /// A fair coin (xorshift64*).
    pub(crate) fn toss(&mut self) -> bool {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 63 != 0
    }

    /// Whether nothing is under way in the tensor core.
    pub(crate) fn is_empty(&self) -> bool {
        self.issued.is_empty()
    }
}

/// Whether what is issued now happens at once.
pub(crate) fn is_at_once(pipeline: &mut Pipeline, schedule: Schedule) -> bool {
    match schedule {
        Schedule::Eager => true,
        Schedule::Latest => false,
        Schedule::Random(_) => pipeline.toss(),
    }
}

/// A thread issues work.
pub(crate) fn issue(
    blocks: &mut Blocks<'_>,
    launch: &LaunchContext<'_>,
    issuer: Issuer,
    work: Work,
) -> Result<(), Box<Trouble>> {
    blocks.own.tensor_pipeline.issued.push_back((issuer, work));
    if launch.schedule == Schedule::Eager {
        return advance(blocks, usize::MAX).map(|_| ()).map_err(|located| located.trouble);
    }
    drift(blocks, launch)
}

/// Lets some of the work happen, if the schedule is random.
pub(crate) fn drift(blocks: &mut Blocks<'_>, launch: &LaunchContext<'_>) -> Result<(), Box<Trouble>> {
    if !matches!(launch.schedule, Schedule::Random(_)) {
        return Ok(());
    }
    while !blocks.own.tensor_pipeline.is_empty() && blocks.own.tensor_pipeline.toss() {
        advance(blocks, 1).map_err(|located| located.trouble)?;
    }
    Ok(())
}

/// Lets work happen up to the last commit to an mbarrier of a list. Whether there was any.
pub(crate) fn finish_awaited(blocks: &mut Blocks<'_>, awaited: &[(u32, u64)]) -> Result<bool, Located> {
    let is_awaited = |(_, work): &(Issuer, Work)| match *work {
        Work::Commit { offset, ranks } => {
            awaited.iter().any(|&(rank, at)| at == offset && ranks >> rank & 1 != 0)
        }
        _ => false,
    };
    let last = blocks.own.tensor_pipeline.issued.iter().rposition(is_awaited);
    advance(blocks, last.map_or(0, |last| last + 1))
}

/// Lets all work of the CTA happen, stores included. Whether there was any.
pub(crate) fn finish(blocks: &mut Blocks<'_>) -> Result<bool, Located> {
    let Block { tensor_pipeline, tensor_memory, .. } = &mut *blocks.own;
    for store in tensor_pipeline.stores.iter_mut().flat_map(|stores| stores.drain(..)) {
        store.perform(tensor_memory);
    }
    advance(blocks, usize::MAX)
}

/// Lets the first pieces of work happen. Whether there were any.
fn advance(blocks: &mut Blocks<'_>, count: usize) -> Result<bool, Located> {
    let mut any = false;
    for _ in 0..count {
        let Some((issuer, work)) = blocks.own.tensor_pipeline.issued.pop_front() else { break };
        any = true;
        let happened = match work {
            Work::Multiply(multiply) => perform_multiply(blocks, &multiply),
            Work::Copy(copy) => perform_copy(blocks, &copy),
            Work::Commit { offset, ranks } => arrive(blocks, issuer, offset, ranks),
        };
        happened.map_err(|trouble| Located { pc: issuer.pc, warp: issuer.warp, trouble })?;
    }
    Ok(any)
}

/// The ranks of the CTAs that take part in what one of them issues.
pub(crate) fn ranks(own: u32, ctas: u32) -> impl Iterator<Item = u32> {
    let first = if ctas == 2 { own & !1 } else { own };
    first..first + ctas
}

/// A CTA that takes part, which must be there.
pub(crate) fn partner<'b>(blocks: &'b mut Blocks<'_>, rank: u32) -> Result<&'b mut Block, Box<Trouble>> {
    let own = blocks.own.rank;
    let trouble = |message: String| Err(Trouble::new(FaultKind::PeerNotResident, FULL, message));
    match blocks.get(rank) {
        Some(block) if rank == own || block.is_running() => Ok(block),
        Some(block) => {
            let what = if block.started { "has exited" } else { "has not started" };
            trouble(format!("The work is of a pair of CTAs, of which that of rank {rank} {what}."))
        }
        None => trouble(format!(
            ".cta_group::2 is for pairs of CTAs in a cluster, and the CTA of rank {own} has no partner."
        )),
    }
}

impl Load {
    /// Visits the cells it reads: register, lane, cell, and whether the cell holds the upper half.
    pub(crate) fn read(&self, memory: &super::TensorMemory) -> Vec<[u32; LANES]> {
        let value = |register: u32, lane: usize| {
            let (row, column) = self.moves.place(lane as u32, register);
            let (row, column) = (self.from.row + row, self.from.column + column);
            let low = memory.get(row, column);
            if self.moves.packed { low & 0xffff | memory.get(row, column + 1) << 16 } else { low }
        };
        (0..self.moves.registers).map(|register| std::array::from_fn(|lane| value(register, lane))).collect()
    }
}

impl Store {
    pub(crate) fn perform(&self, memory: &mut super::TensorMemory) {
        for (register, values) in (0..).zip(&self.values) {
            for (lane, &value) in (0..).zip(values) {
                let (row, column) = self.moves.place(lane, register);
                let (row, column) = (self.to.row + row, self.to.column + column);
                if self.moves.packed {
                    memory.set(row, column, value & 0xffff);
                    memory.set(row, column + 1, value >> 16);
                } else {
                    memory.set(row, column, value);
                }
            }
        }
    }
}

fn arrive(blocks: &mut Blocks<'_>, issuer: Issuer, offset: u64, ranks: u16) -> Result<(), Box<Trouble>> {
    let own = blocks.own.rank;
    for rank in (0..16).filter(|rank| ranks >> rank & 1 != 0) {
        let block = running(blocks, MbarrierAddress { rank, offset })?;
        let before = block.change_mbarrier(offset, Change::Arrive { count: 1, drop: false, expect: 0 })?;
        let arrival = Arrivals { rank: own, warp: issuer.warp, pc: issuer.pc, count: 1 };
        block.note_arrival(offset, before, arrival);
    }
    Ok(())
}

fn perform_copy(blocks: &mut Blocks<'_>, copy: &Copy) -> Result<(), Box<Trouble>> {
    let Copy { shape, to, from, ctas } = copy;
    for rank in ranks(blocks.own.rank, *ctas) {
        let Block { shared, tensor_memory, .. } = partner(blocks, rank)?;
        for (row, piece) in (0..shape.rows).flat_map(|row| (0..shape.pieces).map(move |piece| (row, piece))) {
            let address = from.address(Major::K, row, piece);
            let bytes = shared
                .bytes()
                .get(address as usize..)
                .and_then(|rest| rest.first_chunk::<{ PIECE as usize }>());
            let bytes = *bytes.ok_or_else(|| outside(Outside { address }, shared.size()))?;
            for (word, bytes) in (0..).zip(bytes.chunks_exact(4)) {
                let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                for target in shape.targets(row) {
                    tensor_memory.set(to.row + target, to.column + piece * 4 + word, value);
                }
            }
        }
    }
    Ok(())
}

fn outside(outside: Outside, size: u64) -> Box<Trouble> {
    let message = format!(
        "A matrix of tcgen05 reaches beyond the CTA's shared memory, which is {size} bytes long: 16 bytes at {:#x} are not there.",
        outside.address
    );
    Trouble::new(FaultKind::OutOfBounds, FULL, message)
}

fn perform_multiply(blocks: &mut Blocks<'_>, work: &Multiply) -> Result<(), Box<Trouble>> {
    let mut operands = std::mem::take(&mut blocks.own.tensor_pipeline.operands);
    let happened = multiply_with(blocks, work, &mut operands);
    blocks.own.tensor_pipeline.operands = operands;
    happened
}

fn multiply_with(
    blocks: &mut Blocks<'_>,
    work: &Multiply,
    operands: &mut Operands,
) -> Result<(), Box<Trouble>> {
    let multiply = &work.multiply;
    let own = blocks.own.rank;
    for (part, rank) in ranks(own, multiply.ctas).enumerate() {
        let shared = &partner(blocks, rank)?.shared;
        let collected = in_vectors(Right { work, operands, part, shared: shared.bytes() });
        collected.map_err(|found| outside(found, shared.size()))?;
    }
    for (part, rank) in ranks(own, multiply.ctas).enumerate() {
        let block = partner(blocks, rank)?;
        block.mma_multiply_adds += multiply.multiply_adds();
        for run in 0..multiply.rows / RUN {
            let size = block.shared.size();
            let done = in_vectors(Run { work, operands, part, run, block });
            done.map_err(|found| outside(found, size))?;
        }
    }
    Ok(())
}

/// A CTA's columns of B, to be collected.
struct Right<'a> {
    work: &'a Multiply,
    operands: &'a mut Operands,
    part: usize,
    shared: &'a [u8],
}

impl Vectored for Right<'_> {
    type Result = Result<(), Outside>;

    #[inline(always)]
    fn compute(self) -> Result<(), Outside> {
        let Right { work, operands, part, shared } = self;
        work.multiply.read_right(operands, part, work.b, shared)?;
        if part + 1 == work.multiply.ctas as usize {
            work.multiply.ready_right(operands);
        }
        Ok(())
    }
}

/// A run of rows of a CTA, to be multiplied.
struct Run<'a> {
    work: &'a Multiply,
    operands: &'a mut Operands,
    part: usize,
    run: usize,
    block: &'a mut Block,
}

impl Vectored for Run<'_> {
    type Result = Result<(), Outside>;

    #[inline(always)]
    fn compute(self) -> Result<(), Outside> {
        let Run { work, operands, part, run, block } = self;
        let multiply = &work.multiply;
        let Block { shared, tensor_memory, .. } = block;
        match work.a {
            Left::Shared(a) => {
                let a = LeftOperand::Shared(multiply.run_of_left(a, run));
                multiply.read_left(operands, a, shared.bytes())?;
            }
            Left::Cells(first) => {
                let width = multiply.element_bits();
                let each = 32 / width;
                let element = |row: usize, step: usize| {
                    let row = first.row + row_of(multiply.layout(), run, row);
                    let cell = tensor_memory.get(row, first.column + (step / each) as u32);
                    cell >> (step % each * width) & (u32::MAX >> (32 - width))
                };
                multiply.read_left(operands, LeftOperand::Elements(&element), shared.bytes())?;
            }
        }
        let disabled: [u32; 4] = std::array::from_fn(|word| work.disabled[part * 4 + word]);
        multiply.multiply(
            operands,
            work.accumulates,
            &mut Cells { work, run, disabled, memory: tensor_memory },
        );
        Ok(())
    }
}

/// The row of tensor memory, from the first one on, that a row of a run lies in.
#[inline(always)]
fn row_of(layout: RowLayout, run: usize, row: usize) -> u32 {
    match layout {
        RowLayout::Straight => (run * RUN + row) as u32,
        RowLayout::Every16 => (row / 16 * 32 + row % 16) as u32,
        RowLayout::Folded => row as u32,
    }
}

/// A run of D in tensor memory.
struct Cells<'a> {
    work: &'a Multiply,
    run: usize,
    disabled: [u32; 4],
    memory: &'a mut super::TensorMemory,
}

impl Cells<'_> {
    #[inline(always)]
    fn cell(&self, row: usize, column: usize) -> Cell {
        let (d, multiply) = (self.work.d, &self.work.multiply);
        let layout = multiply.layout();
        let first = row_of(layout, self.run, row);
        let half = multiply.columns / 2;
        if layout == RowLayout::Folded && column >= half {
            return Cell { row: d.row + first + RUN as u32, column: d.column + (column - half) as u32 };
        }
        Cell { row: d.row + first, column: d.column + column as u32 }
    }
}

impl Accumulator for Cells<'_> {
    #[inline(always)]
    fn get(&self, row: usize, column: usize) -> u32 {
        let Cell { row, column } = self.cell(row, column);
        self.memory.get(row, column)
    }

    #[inline(always)]
    fn set(&mut self, row: usize, column: usize, bits: u32) {
        let Cell { row, column } = self.cell(row, column);
        if self.disabled[row as usize / 32] >> (row % 32) & 1 == 0 {
            self.memory.set(row, column, bits);
        }
    }
}

impl Multiply {
    /// What of tensor memory holds D, in each of its CTAs.
    pub(crate) fn area(&self) -> Vec<Area> {
        let Multiply { multiply, d, .. } = self;
        let (rows, columns) = (multiply.rows as u32, multiply.columns as u32);
        match multiply.layout() {
            RowLayout::Straight => vec![Area { first: *d, rows, columns }],
            RowLayout::Folded => vec![Area { first: *d, rows: 2 * rows, columns: columns / 2 }],
            RowLayout::Every16 => every_16(*d, rows, columns),
        }
    }

    /// What of tensor memory holds A, if that is there.
    pub(crate) fn left_area(&self) -> Vec<Area> {
        let Left::Cells(first) = self.a else { return Vec::new() };
        let columns = (crate::tensor::tensor_memory_multiply::DEPTH_BYTES / 4) as u32;
        let rows = self.multiply.rows as u32;
        match self.multiply.layout() {
            RowLayout::Every16 => every_16(first, rows, columns),
            _ => vec![Area { first, rows, columns }],
        }
    }
}

/// The first 16 of every 32 rows.
fn every_16(first: Cell, rows: u32, columns: u32) -> Vec<Area> {
    let area =
        |sixteen: u32| Area { first: Cell { row: first.row + 32 * sixteen, ..first }, rows: 16, columns };
    (0..rows / 16).map(area).collect()
}

impl Copy {
    /// What it writes of tensor memory.
    pub(crate) fn areas(&self) -> Vec<Area> {
        let mut rows: Vec<u32> = (0..self.shape.rows).flat_map(|row| self.shape.targets(row)).collect();
        rows.sort_unstable();
        let columns = self.shape.pieces * 4;
        let row = |row: u32| Area { first: Cell { row: self.to.row + row, ..self.to }, rows: 1, columns };
        rows.into_iter().map(row).collect()
    }
}

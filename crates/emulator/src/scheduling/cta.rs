//! A CTA: its warps, and their shared state.

use std::ops::BitOrAssign;

use warpwright_events::FaultKind;

use crate::cta::block::{Block, Blocks};
use crate::cta::warpgroup::{Issue, Moment, Warpgroups};
use crate::instructions::settle;
use crate::launch::context::LaunchContext;
use crate::launch::failure::{Failure, LocatedFailure};
use crate::launch::limit::Stop;
use crate::operation::kind::{Kind, Operation};
use crate::operation::warpgroup::WarpgroupMultiplication;
use crate::registers::Registers;
use crate::scheduling::step::Counts;
use crate::scheduling::warp::{Pause, Warp};
use crate::tensor::warpgroup::WARPS;

/// The result of running every warp once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// Some threads have not exited.
    pub(crate) left: bool,
    /// Some instruction was executed.
    pub(crate) moved: bool,
    /// Something was done besides polling.
    pub(crate) worked: bool,
    /// Something changed that other threads may observe.
    pub(crate) changed: bool,
}

impl BitOrAssign for Round {
    fn bitor_assign(&mut self, other: Self) {
        self.left |= other.left;
        self.moved |= other.moved;
        self.worked |= other.worked;
        self.changed |= other.changed;
    }
}

/// The warps of a CTA that is resident on the device.
#[derive(Debug)]
pub(crate) struct Cta {
    pub(crate) warps: Vec<Warp>,
}

impl Cta {
    /// Its warps at the start of the kernel.
    pub(crate) fn new(launch: &LaunchContext<'_>, block: &Block) -> Self {
        let warps = block.alive.iter().enumerate();
        Self { warps: warps.map(|(warp, &mask)| Warp::new(launch, block.index, warp as u32, mask)).collect() }
    }

    /// Reuses a finished CTA for another one of the same launch, at its start.
    pub(crate) fn restart(&mut self, launch: &LaunchContext<'_>, block: &Block) {
        for warp in &mut self.warps {
            warp.restart(launch, block.index, block.alive[warp.index as usize]);
        }
    }

    /// The number of operations its warps have executed since the last call.
    pub(crate) fn take_counts(&mut self) -> Counts {
        self.warps.iter_mut().map(|warp| std::mem::take(&mut warp.counts)).sum()
    }

    /// Runs every warp once. `blocks` are those of the whole cluster.
    pub(crate) fn round(
        &mut self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
        blocks: &mut [Block],
        rank: usize,
    ) -> Result<Round, LocatedFailure> {
        let mut round = Round::default();
        let mut blocks = Blocks::of(blocks, rank);
        for index in 0..self.warps.len() {
            if !self.warps[index].paths.is_empty() {
                self.turn(launch, code, &mut blocks, index, &mut round)?;
            }
        }
        Ok(round)
    }

    /// Runs a warp once, and the MMAs that it has issued. Adds what happened to a round.
    pub(crate) fn turn(
        &mut self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
        blocks: &mut Blocks<'_>,
        index: usize,
        round: &mut Round,
    ) -> Result<Pause, LocatedFailure> {
        blocks.own.started = true;
        let warp = &mut self.warps[index];
        let before = warp.counts.warp_instructions;
        let pause = warp.run(launch, code, blocks)?;
        let executed = warp.counts.warp_instructions - before;
        if let Some(stop) = launch.allowance.spend(executed) {
            return Err(stopped(warp, stop));
        }
        let ran = executed != 0;
        round.changed |= warp.take_changed();
        round.left |= pause != Pause::Exited;
        round.moved |= ran;
        round.worked |= ran && pause != Pause::Turn { waiting: true };
        if blocks.own.warpgroups.is_busy() && self.multiply(launch, code, blocks.own, Moment::Now)? {
            (round.moved, round.worked, round.changed) = (true, true, true);
        }
        Ok(pause)
    }

    /// Executes MMAs of the warpgroups. Returns whether any did.
    pub(crate) fn multiply(
        &mut self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
        block: &mut Block,
        moment: Moment,
    ) -> Result<bool, LocatedFailure> {
        let mut registers: Vec<_> = self.warps.iter_mut().map(|warp| &mut warp.registers).collect();
        advance(launch, code, block, &mut registers, moment)
    }
}

/// The failure of a launch that was stopped in a turn of this warp.
fn stopped(warp: &Warp, stop: Stop) -> LocatedFailure {
    let path = warp.paths.first();
    let (message, help) = match stop {
        Stop::Limit(limit) => (
            format!("The launch reached its limit of {limit} and was stopped."),
            Some(
                "raise the limit, or look for a loop that does not end or a grid that is too large"
                    .to_owned(),
            ),
        ),
        Stop::Interrupt => ("The launch was interrupted.".to_owned(), None),
    };
    let mut failure = Failure::new(FaultKind::Limit, path.map_or(0, |path| path.mask), message);
    failure.what = Some(format!("warp {} had come here", warp.index));
    failure.help = help;
    LocatedFailure { pc: path.map_or(0, |path| path.pc), warp: warp.index, failure }
}

/// Completes the lanes' copies that nothing has waited for. Returns whether there were any.
pub(crate) fn complete_copies(block: &mut Block, launch: &LaunchContext<'_>) -> Result<bool, LocatedFailure> {
    let mut any = false;
    for warp in 0..block.copies.len() as u32 {
        any |= block.copies[warp as usize].drain(launch.memory, &mut block.shared);
        settle(block, warp).map_err(|failure| LocatedFailure { pc: 0, warp, failure })?;
    }
    Ok(any)
}

/// Executes MMAs of a CTA. `registers` are those of its warps. Returns whether any did.
fn advance(
    launch: &LaunchContext<'_>,
    code: &[Operation],
    block: &mut Block,
    registers: &mut [&mut Registers],
    moment: Moment,
) -> Result<bool, LocatedFailure> {
    let Block { warpgroups, alive, shared, mma_multiply_adds, .. } = block;
    let Warpgroups { groups, pending, operands: ready } = warpgroups;
    let mut any = false;
    let warps = registers.chunks_mut(WARPS).zip(alive.chunks(WARPS));
    for ((group, (registers, alive)), index) in groups.iter_mut().zip(warps).zip(0..) {
        while let Some(issues) = group.next(launch.schedule, moment, alive) {
            *pending -= WARPS;
            any = true;
            for (registers, issue) in registers.iter_mut().zip(issues) {
                registers.set_base(issue.base);
            }
            let Issue { pc, operands, .. } = issues[0];
            let multiplication = multiplication(code, pc);
            *mma_multiply_adds += multiplication.multiply_adds();
            multiplication.execute(operands, registers, shared, ready).map_err(|failure| LocatedFailure {
                pc,
                warp: index * WARPS as u32,
                failure,
            })?;
        }
    }
    Ok(any)
}

fn multiplication(code: &[Operation], pc: u32) -> &WarpgroupMultiplication {
    match &code[pc as usize].kind {
        Kind::Warpgroup(operation) => operation.multiplication(),
        _ => None,
    }
    .expect("only a wgmma.mma_async is issued")
}

//! MMAs and copies that a CTA's threads have issued to its tensor core, in execution order.
//!
//! The PTX ISA ("Pipelined tcgen05 Instructions") orders a copy and the MMAs after it, and MMAs
//! into the same accumulator; here everything that a CTA issues executes in order. The schedule
//! determines when: at issue (`eager`), when nothing else in the cluster can proceed (`latest`), or
//! at a random moment (`random`). A commit is an entry of the same queue, and arrives at its
//! mbarriers when everything before it has executed.

use warpwright_events::MbarrierAddress;

use super::queue::{Pipeline, Work};
use crate::cta::asynchronous::transfer::Issuer;
use crate::cta::block::{Block, Blocks};
use crate::cta::mbarrier::{Arrivals, Change};
use crate::cta::mbarrier_update::running;
use crate::launch::context::LaunchContext;
use crate::launch::failure::{Failure, LocatedFailure};
use crate::launch::schedule::Schedule;

/// Whether newly issued work executes immediately.
pub(crate) fn is_at_once(pipeline: &mut Pipeline, schedule: Schedule) -> bool {
    match schedule {
        Schedule::Eager => true,
        Schedule::Latest => false,
        Schedule::Random(_) => pipeline.random.toss(),
    }
}

/// A thread issues work.
pub(crate) fn issue(
    blocks: &mut Blocks<'_>,
    launch: &LaunchContext<'_>,
    issuer: Issuer,
    work: Work,
) -> Result<(), Box<Failure>> {
    blocks.own.tensor_pipeline.issued.push_back((issuer, work));
    if launch.schedule == Schedule::Eager {
        return advance(blocks, usize::MAX).map(|_| ()).map_err(|located| located.failure);
    }
    drift(blocks, launch)
}

/// Executes some of the work, if the schedule is random.
pub(crate) fn drift(blocks: &mut Blocks<'_>, launch: &LaunchContext<'_>) -> Result<(), Box<Failure>> {
    if !matches!(launch.schedule, Schedule::Random(_)) {
        return Ok(());
    }
    while !blocks.own.tensor_pipeline.is_empty() && blocks.own.tensor_pipeline.random.toss() {
        advance(blocks, 1).map_err(|located| located.failure)?;
    }
    Ok(())
}

/// Executes work up to the last commit to an mbarrier of a list. Returns whether there was any.
pub(crate) fn finish_awaited(
    blocks: &mut Blocks<'_>,
    awaited: &[(u32, u64)],
) -> Result<bool, LocatedFailure> {
    let is_awaited = |(_, work): &(Issuer, Work)| match *work {
        Work::Commit { offset, ranks } => {
            awaited.iter().any(|&(rank, at)| at == offset && ranks >> rank & 1 != 0)
        }
        _ => false,
    };
    let last = blocks.own.tensor_pipeline.issued.iter().rposition(is_awaited);
    advance(blocks, last.map_or(0, |last| last + 1))
}

/// Executes the oldest work of the CTA. Returns whether there was any.
pub(crate) fn finish_oldest(blocks: &mut Blocks<'_>) -> Result<bool, LocatedFailure> {
    advance(blocks, 1)
}

/// Executes all work of the CTA, including stores. Returns whether there was any.
pub(crate) fn finish(blocks: &mut Blocks<'_>) -> Result<bool, LocatedFailure> {
    let Block { tensor_pipeline, tensor_memory, .. } = &mut *blocks.own;
    for store in tensor_pipeline.stores.iter_mut().flat_map(|stores| stores.drain(..)) {
        store.perform(tensor_memory);
    }
    advance(blocks, usize::MAX)
}

/// Executes the first entries of the queue. Returns whether there were any.
fn advance(blocks: &mut Blocks<'_>, count: usize) -> Result<bool, LocatedFailure> {
    let mut any = false;
    for _ in 0..count {
        let Some((issuer, work)) = blocks.own.tensor_pipeline.issued.pop_front() else { break };
        any = true;
        let happened = match work {
            Work::Multiply(multiply) => multiply.perform(blocks),
            Work::Copy(copy) => copy.perform(blocks),
            Work::Shift(shift) => shift.perform(blocks),
            Work::Commit { offset, ranks } => arrive(blocks, issuer, offset, ranks),
        };
        happened.map_err(|failure| LocatedFailure { pc: issuer.pc, warp: issuer.warp, failure })?;
    }
    Ok(any)
}

fn arrive(blocks: &mut Blocks<'_>, issuer: Issuer, offset: u64, ranks: u16) -> Result<(), Box<Failure>> {
    let own = blocks.own.rank;
    for rank in (0..16).filter(|rank| ranks >> rank & 1 != 0) {
        let block = running(blocks, MbarrierAddress { rank, offset })?;
        let before = block.change_mbarrier(offset, Change::Arrive { count: 1, drop: false, expect: 0 })?;
        let arrival = Arrivals { rank: own, warp: issuer.warp, pc: issuer.pc, count: 1 };
        block.note_arrival(offset, before, arrival);
    }
    Ok(())
}

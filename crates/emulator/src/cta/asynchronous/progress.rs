//! The progress of a CTA's copies, by the schedule and by what the program waits for.

use super::observe;
use super::queue::Transfers;
use super::transfer::{Completion, Issuer, Transfer};
use crate::cta::block::Blocks;
use crate::launch::context::LaunchContext;
use crate::launch::failure::{Failure, LocatedFailure};
use crate::launch::schedule::Schedule;

/// Begins a copy.
pub(crate) fn issue(
    blocks: &mut Blocks<'_>,
    launch: &LaunchContext<'_>,
    mut transfer: Transfer,
) -> Result<(), Box<Failure>> {
    transfer.check(blocks, launch.memory)?;
    if blocks.own.observer.listens() {
        observe::observe(&transfer, blocks);
    }
    if launch.schedule == Schedule::Eager {
        return transfer.advance(u32::MAX, blocks, launch).map(|_| ());
    }
    blocks.own.transfers.pending.push(transfer);
    drift(blocks, launch)
}

/// Advances the CTA's own transfers, each up to the step that `until` returns; completed ones are
/// removed.
fn advance(
    blocks: &mut Blocks<'_>,
    launch: &LaunchContext<'_>,
    mut until: impl FnMut(&Transfer, &mut Transfers) -> u32,
) -> Result<bool, Box<Failure>> {
    let mut any = false;
    let mut pending = std::mem::take(&mut blocks.own.transfers.pending);
    let mut failure = None;
    pending.retain_mut(|transfer| {
        let until = until(transfer, &mut blocks.own.transfers);
        if until == 0 || failure.is_some() {
            return true;
        }
        any = true;
        transfer.advance(until, blocks, launch).map_or_else(
            |found| {
                failure = Some(found);
                false
            },
            |is_made| !is_made,
        )
    });
    blocks.own.transfers.pending = pending;
    failure.map_or(Ok(any), Err)
}

/// Advances some of the CTA's own transfers, if the schedule is random.
pub(crate) fn drift(blocks: &mut Blocks<'_>, launch: &LaunchContext<'_>) -> Result<(), Box<Failure>> {
    if !matches!(launch.schedule, Schedule::Random(_)) || blocks.own.transfers.pending.is_empty() {
        return Ok(());
    }
    advance(blocks, launch, |transfer, transfers| match transfers.random.below(4) {
        0 => transfer.steps() - transfer.left() + 1 + transfers.random.below(transfer.left()),
        1 => u32::MAX,
        _ => 0,
    })
    .map(|_| ())
}

/// Completes the transfers of a warp's lanes in bulk groups, except those of the `latest` groups
/// committed last; or only reads their sources.
pub(crate) fn wait_group(
    blocks: &mut Blocks<'_>,
    launch: &LaunchContext<'_>,
    (warp, mask): (u32, u32),
    latest: u32,
    only_reads: bool,
) -> Result<(), Box<Failure>> {
    if blocks.own.transfers.pending.is_empty() {
        return Ok(());
    }
    let committed = *blocks.own.transfers.groups(warp);
    advance(blocks, launch, |transfer, _| match transfer.completion {
        Completion::Group(group)
            if transfer.issuer.warp == warp
                && mask >> transfer.issuer.lane & 1 != 0
                && u64::from(group) + u64::from(latest)
                    < u64::from(committed[usize::from(transfer.issuer.lane)]) =>
        {
            if only_reads {
                transfer.read_steps()
            } else {
                u32::MAX
            }
        }
        _ => 0,
    })
    .map(|_| ())
}

/// Completes all transfers of the CTA. Returns whether there were any.
pub(crate) fn finish(blocks: &mut Blocks<'_>, launch: &LaunchContext<'_>) -> Result<bool, LocatedFailure> {
    located(blocks, |blocks| advance(blocks, launch, |_, _| u32::MAX))
}

/// Completes the transfers of the CTA whose mbarrier is in a list. Returns whether there were any.
pub(crate) fn finish_awaited(
    blocks: &mut Blocks<'_>,
    launch: &LaunchContext<'_>,
    awaited: &[(u32, u64)],
) -> Result<bool, LocatedFailure> {
    let own = blocks.own.rank;
    located(blocks, |blocks| {
        advance(blocks, launch, |transfer, _| match transfer.completion {
            Completion::Mbarriers { offset, signal } => {
                let mut signaled = transfer.destinations(own).map(|rank| (signal.rank(rank), offset));
                if signaled.any(|mbarrier| awaited.contains(&mbarrier)) { u32::MAX } else { 0 }
            }
            Completion::Group(_) => 0,
        })
    })
}

/// Completes the oldest transfer of the CTA. Returns whether there was one.
pub(crate) fn finish_oldest(
    blocks: &mut Blocks<'_>,
    launch: &LaunchContext<'_>,
) -> Result<bool, LocatedFailure> {
    let mut is_first = true;
    located(blocks, |blocks| {
        advance(blocks, launch, |_, _| if std::mem::take(&mut is_first) { u32::MAX } else { 0 })
    })
}

/// The mbarriers of the CTA that its threads wait for.
pub(crate) fn awaited(blocks: &Blocks<'_>) -> Vec<(u32, u64)> {
    let rank = blocks.own.rank;
    blocks.own.transfers.awaited.iter().map(|&offset| (rank, offset)).collect()
}

/// Attributes a fault of a delayed copy to the instruction that issued it.
fn located(
    blocks: &mut Blocks<'_>,
    work: impl FnOnce(&mut Blocks<'_>) -> Result<bool, Box<Failure>>,
) -> Result<bool, LocatedFailure> {
    let issuer = blocks.own.transfers.pending.first().map(|transfer| transfer.issuer);
    work(blocks).map_err(|failure| {
        let Issuer { warp, pc, .. } = issuer.unwrap_or(Issuer { warp: 0, lane: 0, pc: 0 });
        LocatedFailure { pc, warp, failure }
    })
}

//! `bar` and `barrier.cta`.

use warpwright_events::{BARRIERS, Event, FaultKind, lanes};

use crate::execution::effect::Execution;
use crate::launch::failure::Failure;
use crate::operation::collective::Place;
use crate::registers::Slot;

/// The result of an arrival at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierAction {
    Sync,
    Arrive,
    ReduceAnd,
    ReduceOr,
    ReducePopulation,
}

/// A barrier instruction, decoded.
#[derive(Clone, Debug)]
pub(crate) struct BarrierOperation {
    pub(crate) action: BarrierAction,
    /// The register that holds the barrier's number.
    pub(crate) id: Slot,
    /// The register with the count of threads, if any.
    pub(crate) count: Option<Slot>,
    /// Destination of a reduction.
    pub(crate) result: Place,
    /// The predicate it reduces.
    pub(crate) predicate: Slot,
    pub(crate) negated: bool,
}

/// Lanes that wait at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) id: u32,
    /// The generation whose completion they wait for.
    pub(crate) generation: u32,
    pub(crate) lanes: u32,
}

impl BarrierOperation {
    /// A barrier that has yet to complete and at which some of the lanes of `active` have arrived
    /// already, with its generation. They arrived without waiting, and arrive again only when it
    /// has completed.
    ///
    /// The hardware counts arrivals, not warps (PTX ISA, "bar": the count grows by the warp size),
    /// so there the barrier may complete early. Delaying the warp is always a legal order.
    pub(crate) fn comes_again(&self, execution: &Execution<'_>, active: u32) -> Option<(u32, u32)> {
        let ids = execution.registers.word(self.id);
        let warp = execution.warp as usize;
        lanes(active).find_map(|lane| {
            let barrier = execution.block.barriers.get(ids[lane] as usize)?;
            (barrier.arrived[warp] >> lane & 1 != 0).then_some((ids[lane], barrier.generation))
        })
    }

    /// The lanes of `active` arrive. Returns the lanes that now wait, by barrier.
    pub(crate) fn arrive(
        &self,
        execution: &mut Execution<'_>,
        active: u32,
    ) -> Result<Vec<Arrival>, Box<Failure>> {
        let ids = *execution.registers.word(self.id);
        let counts = self.count.map(|slot| *execution.registers.word(slot));
        let truths = if self.action == BarrierAction::Sync || self.action == BarrierAction::Arrive {
            0
        } else {
            execution.registers.predicate(self.predicate) ^ if self.negated { u32::MAX } else { 0 }
        };
        let mut arrivals = Vec::new();
        let mut left = active;
        while left != 0 {
            let leader = left.trailing_zeros() as usize;
            let alike = |lane: &usize| {
                ids[*lane] == ids[leader] && counts.is_none_or(|counts| counts[*lane] == counts[leader])
            };
            let group = lanes(left).filter(alike).fold(0, |mask, lane| mask | 1 << lane);
            left &= !group;
            let (id, count) = (ids[leader], counts.map(|counts| counts[leader]));
            self.check(id, count, group, execution.block.alive.len() as u32)?;
            let actor = execution.actor(group);
            let barrier = &mut execution.block.barriers[id as usize];
            let generation = barrier.arrive(id, actor, count, truths)?;
            execution.block.observer.report(Event::BarrierArrive {
                actor,
                barrier: id,
                generation,
                all: count.is_none(),
            });
            if self.action != BarrierAction::Arrive {
                arrivals.push(Arrival { id, generation, lanes: group });
            }
        }
        Ok(arrivals)
    }

    /// PTX ISA, "bar": sixteen barriers, counts in whole warps.
    fn check(&self, id: u32, count: Option<u32>, lanes: u32, warps: u32) -> Result<(), Box<Failure>> {
        let failure = |message: String| Err(Failure::new(FaultKind::Barrier, lanes, message));
        if id as usize >= BARRIERS {
            return failure(format!(
                "Barrier {id} does not exist: a CTA has barriers 0 to {}.",
                BARRIERS - 1
            ));
        }
        match count {
            Some(count) if count == 0 || count % 32 != 0 => failure(format!(
                "Barrier {id} has a count of {count} threads; it must be a multiple of the warp size, 32."
            )),
            Some(count) if count > 32 * warps => failure(format!(
                "Barrier {id} waits for {count} threads, and the CTA has {} in its {warps} warps.",
                32 * warps
            )),
            None if self.action == BarrierAction::Arrive => {
                failure(format!("An arrival at barrier {id} must name a count of threads."))
            }
            _ => Ok(()),
        }
    }
}

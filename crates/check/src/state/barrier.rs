//! The barriers of a CTA: arrivals, and what arriving threads publish.

use std::collections::BTreeSet;

use warpwright_events::Actor;

use crate::state::clock::Time;
use crate::state::knowledge::Knowledge;

/// Number of generations that are kept; the barriers themselves keep as many.
const GENERATIONS: usize = 4;

/// Lanes of a warp that arrive at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
    pub(crate) pc: u32,
    /// The warp's time.
    pub(crate) time: Time,
}

/// What arrives at one generation of a barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generation {
    generation: u32,
    published: Knowledge,
    /// Whether it waits for all threads of the CTA; an exit counts as an arrival.
    all: bool,
    /// Whether threads have proceeded from it. Later exits do not belong to it.
    proceeded: bool,
    arrivals: Vec<Arrival>,
}

/// A barrier with its last generations.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarrierHistory([Generation; GENERATIONS]);

impl BarrierHistory {
    /// The arrivals of a generation, if it has not been replaced.
    pub(crate) fn arrivals(&self, generation: u32) -> &[Arrival] {
        let kept = &self.0[generation as usize % GENERATIONS];
        if kept.generation == generation { &kept.arrivals } else { &[] }
    }

    /// Lanes arrive. Returns an arrival in the same generation at another instruction, that of the
    /// same warp if it has one.
    pub(crate) fn bring(
        &mut self,
        generation: u32,
        all: bool,
        knowledge: &Knowledge,
        (actor, time): (Actor, Time),
    ) -> Option<Arrival> {
        let current = &mut self.0[generation as usize % GENERATIONS];
        if current.generation != generation {
            *current = Generation { generation, ..Generation::default() };
        }
        current.all = all;
        current.published.join(knowledge);
        let arrivals = &mut current.arrivals;
        let is_same = |known: &&mut Arrival| (known.warp, known.pc) == (actor.warp, actor.pc);
        if let Some(known) = arrivals.iter_mut().find(is_same) {
            known.lanes |= actor.lanes;
            known.time = time;
            return None;
        }
        let elsewhere = arrivals.iter().filter(|known| known.pc != actor.pc);
        let elsewhere = elsewhere.max_by_key(|known| known.warp == actor.warp).copied();
        arrivals.push(Arrival { warp: actor.warp, lanes: actor.lanes, pc: actor.pc, time });
        elsewhere
    }

    /// The knowledge of threads that proceed from a generation, and the arrivals that completed it
    /// if they are the first to proceed; `exited` is what the exited threads knew.
    pub(crate) fn leave(&mut self, generation: u32, exited: &Knowledge) -> (Knowledge, &[Arrival]) {
        let current = &mut self.0[generation as usize % GENERATIONS];
        let is_first = !std::mem::replace(&mut current.proceeded, true);
        if current.all && is_first {
            current.published.join(exited);
        }
        (current.published.clone(), if is_first { &current.arrivals } else { &[] })
    }
}

/// The warps that meet at a barrier by one instruction: in each of its generations, a bit for each
/// warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meetings(BTreeSet<u32>);

impl Meetings {
    /// Adds the warps of a generation. Returns whether it is new.
    pub(crate) fn add(&mut self, warps: u32) -> bool {
        self.0.insert(warps)
    }

    /// Whether a warp comes to the barrier.
    pub(crate) fn has(&self, warp: u32) -> bool {
        self.0.iter().any(|warps| warps >> warp & 1 != 0)
    }

    /// Whether two warps come to the same generation of the barrier.
    pub(crate) fn meet(&self, a: u32, b: u32) -> bool {
        self.0.iter().any(|warps| warps >> a & warps >> b & 1 != 0)
    }

    /// Whether both warps come to the barrier, and never to the same generation.
    pub(crate) fn part(&self, a: u32, b: u32) -> bool {
        self.has(a) && self.has(b) && !self.meet(a, b)
    }

    /// The number of warps in a generation, and of all warps that come.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let most = self.0.iter().map(|warps| warps.count_ones()).max().unwrap_or(0);
        (most, self.0.iter().fold(0, |all, warps| all | warps).count_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_part_that_come_in_different_generations() {
        let mut meetings = Meetings::default();
        assert!(meetings.add(0b0011) && meetings.add(0b1100) && !meetings.add(0b0011));
        assert!(meetings.part(0, 2) && meetings.part(3, 1));
        assert!(!meetings.part(0, 1), "they meet");
        assert!(!meetings.part(0, 4), "one does not come");
        assert_eq!(meetings.counts(), (2, 4));
        assert!(meetings.add(0b0110));
        assert!(!meetings.part(1, 2), "they meet once");
    }
}

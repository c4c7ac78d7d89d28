//! The sixteen barriers of a CTA: `bar` and `barrier.cta`.

use warpwright_events::{BARRIERS, Event, FaultKind, lanes};

use crate::collective::Place;
use crate::memory::Trouble;
use crate::operation::Execution;
use crate::registers::Slot;

/// What arriving at a barrier does.
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
    /// The register that holds the count of threads, if one is given.
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
    /// The generation whose end they wait for.
    pub(crate) generation: u32,
    pub(crate) lanes: u32,
}

impl BarrierOperation {
    /// A barrier that has yet to complete and at which some of the lanes of `active` have arrived already, with its
    /// generation. They arrived without waiting, and arrive again only when it has completed.
    ///
    /// The hardware counts arrivals, and not who they are of (PTX ISA, "bar": the count grows by the size of the warp), so
    /// that there the barrier may complete early. To come late is an order that is always allowed.
    pub(crate) fn comes_again(&self, execution: &Execution<'_>, active: u32) -> Option<(u32, u32)> {
        let ids = execution.registers.word(self.id);
        let warp = execution.warp as usize;
        lanes(active).find_map(|lane| {
            let barrier = execution.block.barriers.get(ids[lane] as usize)?;
            (barrier.arrived[warp] >> lane & 1 != 0).then_some((ids[lane], barrier.generation))
        })
    }

    /// The lanes of `active` arrive. Returns those that now wait, by barrier.
    pub(crate) fn arrive(
        &self,
        execution: &mut Execution<'_>,
        active: u32,
    ) -> Result<Vec<Arrival>, Box<Trouble>> {
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
            let barrier = &mut execution.block.barriers[id as usize];
            let warp = execution.warp as usize;
            let generation = barrier.arrive(id as usize, warp, group, count, truths)?;
            execution.block.observer.report(Event::BarrierArrive {
                actor: execution.actor(group),
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
    fn check(&self, id: u32, count: Option<u32>, lanes: u32, warps: u32) -> Result<(), Box<Trouble>> {
        let trouble = |message: String| Err(Trouble::new(FaultKind::Barrier, lanes, message));
        if id as usize >= BARRIERS {
            return trouble(format!("There is no barrier {id}: a CTA has barriers 0 to {}.", BARRIERS - 1));
        }
        match count {
            Some(count) if count == 0 || count % 32 != 0 => trouble(format!(
                "Barrier {id} is given a count of {count} threads; it must be a multiple of the warp size, 32."
            )),
            Some(count) if count > 32 * warps => trouble(format!(
                "Barrier {id} waits for {count} threads, and the CTA has {} in its {warps} warps.",
                32 * warps
            )),
            None if self.action == BarrierAction::Arrive => {
                trouble(format!("An arrival at barrier {id} must name a count of threads."))
            }
            _ => Ok(()),
        }
    }
}

/// What a reduction at a barrier told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BarrierResult {
    pub(crate) population: u32,
    pub(crate) arrived: u32,
}

/// One barrier.
#[derive(Clone, Debug)]
pub(crate) struct BarrierState {
    /// Lanes that have arrived, by warp.
    arrived: Vec<u32>,
    /// Threads it waits for; `None` for all of the CTA.
    expected: Option<u32>,
    /// Whether anyone has arrived since it last completed.
    open: bool,
    /// How often it has completed.
    generation: u32,
    running: BarrierResult,
    /// Results of the last completions, by generation.
    results: [BarrierResult; 4],
}

impl BarrierState {
    pub(crate) fn new(warps: usize) -> Self {
        Self {
            arrived: vec![0; warps],
            expected: None,
            open: false,
            generation: 0,
            running: BarrierResult::default(),
            results: [BarrierResult::default(); 4],
        }
    }

    /// Forgets everything, for another CTA.
    pub(crate) fn reset(&mut self) {
        self.arrived.fill(0);
        (self.expected, self.open, self.generation) = (None, false, 0);
        self.running = BarrierResult::default();
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The result of the completion that ended `generation`.
    pub(crate) fn result(&self, generation: u32) -> BarrierResult {
        self.results[generation as usize % self.results.len()]
    }

    /// Lanes of a warp arrive. Returns the generation they wait to see the end of.
    pub(crate) fn arrive(
        &mut self,
        id: usize,
        warp: usize,
        lanes: u32,
        expected: Option<u32>,
        truths: u32,
    ) -> Result<u32, Box<Trouble>> {
        if self.open && self.expected != expected {
            let words = |count: Option<u32>| match count {
                Some(count) => format!("{count} threads"),
                None => "all threads of the CTA".to_owned(),
            };
            return Err(Trouble::new(
                FaultKind::Barrier,
                lanes,
                format!(
                    "Barrier {id} was opened for {}, and these lanes arrive expecting {}.",
                    words(self.expected),
                    words(expected)
                ),
            ));
        }
        self.open = true;
        self.expected = expected;
        self.arrived[warp] |= lanes;
        self.running.population += (lanes & truths).count_ones();
        self.running.arrived += lanes.count_ones();
        Ok(self.generation)
    }

    /// Threads counted so far and threads wanted. A thread that has exited, or that a warp's last lanes lack, counts
    /// with the rest of its warp.
    pub(crate) fn progress(&self, alive: &[u32]) -> (u32, u32) {
        let counted = |(arrived, alive): (&u32, &u32)| match self.expected {
            Some(_) if *arrived == 0 => 0,
            _ => (arrived | !alive).count_ones(),
        };
        let count = self.arrived.iter().zip(alive).map(counted).sum();
        (count, self.expected.unwrap_or(32 * alive.len() as u32))
    }

    /// Completes it if all have arrived.
    pub(crate) fn settle(&mut self, alive: &[u32]) -> bool {
        if !self.open {
            return false;
        }
        let (count, wanted) = self.progress(alive);
        if count < wanted {
            return false;
        }
        self.results[self.generation as usize % self.results.len()] = self.running;
        self.running = BarrierResult::default();
        self.generation = self.generation.wrapping_add(1);
        self.open = false;
        self.arrived.fill(0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completes_when_every_live_thread_has_arrived() {
        let mut barrier = BarrierState::new(2);
        let alive = [u32::MAX, 0xffff];
        let generation = barrier.arrive(0, 0, u32::MAX, None, 0).unwrap();
        assert!(!barrier.settle(&alive));
        barrier.arrive(0, 1, 0xff, None, 0).unwrap();
        assert!(!barrier.settle(&alive));
        assert!(barrier.settle(&[u32::MAX, 0xff]), "the rest exited");
        assert_eq!(barrier.generation(), generation + 1);
    }

    #[test]
    fn counts_are_of_whole_warps_and_must_agree() {
        let mut barrier = BarrierState::new(4);
        let alive = [u32::MAX; 4];
        barrier.arrive(3, 1, u32::MAX, Some(64), 0b111).unwrap();
        assert!(barrier.arrive(3, 2, u32::MAX, Some(96), 0).is_err());
        barrier.arrive(3, 3, u32::MAX, Some(64), 0b1).unwrap();
        assert!(barrier.settle(&alive));
        assert_eq!(barrier.result(0).population, 4);
        assert!(!barrier.settle(&alive));
    }
}

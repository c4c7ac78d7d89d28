//! The sixteen barriers of a CTA: `bar` and `barrier.cta`.

use warpwright_events::{Actor, FaultKind, lane_list};

use crate::launch::failure::Failure;

/// The result of a reduction at a barrier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BarrierResult {
    pub(crate) population: u32,
    pub(crate) arrived: u32,
}

/// One barrier.
#[derive(Clone, Debug)]
pub(crate) struct BarrierState {
    /// Lanes that have arrived, by warp.
    pub(crate) arrived: Vec<u32>,
    /// Threads it waits for; `None` for all of the CTA.
    expected: Option<u32>,
    /// The first arrival since it last completed.
    opener: Option<Actor>,
    /// The number of completions.
    pub(crate) generation: u32,
    running: BarrierResult,
    /// Results of the last completions, by generation.
    results: [BarrierResult; 4],
}

impl BarrierState {
    pub(crate) fn new(warps: usize) -> Self {
        Self {
            arrived: vec![0; warps],
            expected: None,
            opener: None,
            generation: 0,
            running: BarrierResult::default(),
            results: [BarrierResult::default(); 4],
        }
    }

    /// Resets the state, for another CTA.
    pub(crate) fn reset(&mut self) {
        self.arrived.fill(0);
        (self.expected, self.opener, self.generation) = (None, None, 0);
        self.running = BarrierResult::default();
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The result of the completion that ended `generation`.
    pub(crate) fn result(&self, generation: u32) -> BarrierResult {
        self.results[generation as usize % self.results.len()]
    }

    /// Lanes of a warp arrive. Returns the generation whose end they wait for.
    pub(crate) fn arrive(
        &mut self,
        id: u32,
        actor: Actor,
        expected: Option<u32>,
        truths: u32,
    ) -> Result<u32, Box<Failure>> {
        let lanes = actor.lanes;
        if let Some(opener) = self.opener.filter(|_| self.expected != expected) {
            let words = |count: Option<u32>| match count {
                Some(count) => format!("{count} threads"),
                None => "all threads of the CTA".to_owned(),
            };
            let mut failure = Failure::new(
                FaultKind::Barrier,
                lanes,
                format!(
                    "Barrier {id} was opened for {}, and these lanes arrive expecting {}.",
                    words(self.expected),
                    words(expected)
                ),
            );
            let who = format!("warp {}, {}", opener.warp, lane_list(opener.lanes));
            failure.also.push((opener.pc, format!("{who} opened it here for {}", words(self.expected))));
            failure.help = Some(
                "let all threads that the barrier counts execute the same calls that synchronize, in the same order, \
                 with the same count"
                    .to_owned(),
            );
            return Err(failure);
        }
        self.opener.get_or_insert(actor);
        self.expected = expected;
        self.arrived[actor.warp as usize] |= lanes;
        self.running.population += (lanes & truths).count_ones();
        self.running.arrived += lanes.count_ones();
        Ok(self.generation)
    }

    /// Threads counted so far and threads required. A thread that has exited, or that is missing in
    /// the last warp, counts with the rest of its warp.
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
        if self.opener.is_none() {
            return false;
        }
        let (count, wanted) = self.progress(alive);
        if count < wanted {
            return false;
        }
        self.results[self.generation as usize % self.results.len()] = self.running;
        self.running = BarrierResult::default();
        self.generation = self.generation.wrapping_add(1);
        self.opener = None;
        self.arrived.fill(0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(warp: u32, lanes: u32) -> Actor {
        Actor { rank: 0, warp, lanes, pc: 0 }
    }

    #[test]
    fn completes_when_every_live_thread_has_arrived() {
        let mut barrier = BarrierState::new(2);
        let alive = [u32::MAX, 0xffff];
        let generation = barrier.arrive(0, lanes(0, u32::MAX), None, 0).unwrap();
        assert!(!barrier.settle(&alive));
        barrier.arrive(0, lanes(1, 0xff), None, 0).unwrap();
        assert!(!barrier.settle(&alive));
        assert!(barrier.settle(&[u32::MAX, 0xff]), "the rest exited");
        assert_eq!(barrier.generation(), generation + 1);
    }

    #[test]
    fn counts_are_of_whole_warps_and_must_agree() {
        let mut barrier = BarrierState::new(4);
        let alive = [u32::MAX; 4];
        barrier.arrive(3, lanes(1, u32::MAX), Some(64), 0b111).unwrap();
        assert!(barrier.arrive(3, lanes(2, u32::MAX), Some(96), 0).is_err());
        barrier.arrive(3, lanes(3, u32::MAX), Some(64), 0b1).unwrap();
        assert!(barrier.settle(&alive));
        assert_eq!(barrier.result(0).population, 4);
        assert!(!barrier.settle(&alive));
    }
}

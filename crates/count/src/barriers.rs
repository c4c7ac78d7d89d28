//! Barriers of a CTA that no data crosses.
//!
//! Barriers divide a CTA's execution into intervals. A barrier is needed if a thread touches in the
//! interval after it what another thread touched in the interval before, and one of the two writes.
//! Accesses further apart are ordered by another barrier as well, so an unneeded barrier can be
//! removed while the others stay. The granularity is 4-byte words of shared memory and sectors of
//! global memory; coarser than bytes, it can only make a barrier appear needed. Other operations
//! that may rely on a barrier make those around it needed: asynchronous work, mbarriers, fences,
//! atomics and other strong accesses of global memory.

use std::collections::HashMap;

use warpwright_events::{Actor, LANES, MemorySpace, lanes, split_shared};

use crate::sectors::SECTOR_BYTES;

const WORD_BYTES: u64 = 4;

/// The threads that accessed a location in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    One(u32),
    Several,
}

impl Threads {
    fn and(this: Option<Self>, thread: u32) -> Option<Self> {
        Some(match this {
            None => Threads::One(thread),
            Some(Threads::One(same)) if same == thread => Threads::One(thread),
            Some(_) => Threads::Several,
        })
    }

    /// Whether any of them is another thread.
    fn other_than(this: Option<Self>, thread: u32) -> bool {
        this.is_some_and(|threads| threads != Threads::One(thread))
    }
}

/// The accesses to a location in one interval.
#[derive(Clone, Copy, Debug, Default)]
struct Touches {
    reads: Option<Threads>,
    writes: Option<Threads>,
}

/// The accesses to a location in its latest interval, and in the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    round: u64,
    now: Touches,
    before: Touches,
}

impl Place {
    /// A thread accesses it. Returns whether another thread did in the previous interval, and one
    /// of the two writes.
    fn touch(&mut self, round: u64, thread: u32, writes: bool) -> bool {
        if self.round != round {
            self.before = if self.round + 1 == round { self.now } else { Touches::default() };
            (self.round, self.now) = (round, Touches::default());
        }
        let after_write = Threads::other_than(self.before.writes, thread);
        if writes {
            self.now.writes = Threads::and(self.now.writes, thread);
            return after_write || Threads::other_than(self.before.reads, thread);
        }
        self.now.reads = Threads::and(self.now.reads, thread);
        after_write
    }
}

/// The barriers of one CTA.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    round: u64,
    /// The barrier instruction that began the interval, and whether it is needed.
    barrier: Option<(u32, bool)>,
    /// Whether the barrier that ends the interval is needed in any case.
    next_needed: bool,
    /// Barriers of all threads that are in progress.
    under_way: Vec<(u32, u32)>,
    /// Words of shared memory, as far as any was touched.
    shared: Vec<Place>,
    /// Sectors of global memory.
    global: HashMap<u64, Place>,
}

/// A barrier that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) pc: u32,
    pub(crate) needed: bool,
}

impl Rounds {
    /// Lanes arrive at a generation of a barrier that waits for all threads.
    pub(crate) fn arrive(&mut self, barrier: u32, generation: u32) {
        if !self.under_way.contains(&(barrier, generation)) {
            self.under_way.push((barrier, generation));
        }
    }

    /// Lanes proceed from a barrier. Returns the previous barrier's result, if this is the first
    /// event of the barrier's completion.
    pub(crate) fn leave(&mut self, pc: u32, barrier: u32, generation: u32) -> Option<Passed> {
        let index = self.under_way.iter().position(|&waiting| waiting == (barrier, generation))?;
        self.under_way.swap_remove(index);
        let passed = self.end();
        self.round += 1;
        self.barrier = Some((pc, std::mem::take(&mut self.next_needed)));
        passed
    }

    /// The CTA or the interval ends. Returns the previous barrier's result.
    pub(crate) fn end(&mut self) -> Option<Passed> {
        self.barrier.take().map(|(pc, needed)| Passed { pc, needed })
    }

    /// Something leans on the barriers around.
    pub(crate) fn lean(&mut self) {
        self.next_needed = true;
        self.need();
    }

    fn need(&mut self) {
        if let Some((_, needed)) = &mut self.barrier {
            *needed = true;
        }
    }

    /// Lanes touch bytes.
    pub(crate) fn touch(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        size: u64,
        writes: bool,
    ) {
        let granule = if space == MemorySpace::Shared { WORD_BYTES } else { SECTOR_BYTES };
        let (round, mut needed) = (self.round, false);
        for lane in lanes(actor.lanes) {
            let thread = actor.warp * LANES as u32 + lane as u32;
            for index in addresses[lane] / granule..(addresses[lane] + size).div_ceil(granule) {
                needed |= self.place(space, index).touch(round, thread, writes);
            }
        }
        if needed {
            self.need();
        }
    }

    fn place(&mut self, space: MemorySpace, index: u64) -> &mut Place {
        if space != MemorySpace::Shared {
            return self.global.entry(index).or_default();
        }
        let index = (split_shared(index * WORD_BYTES).1 / WORD_BYTES) as usize;
        if self.shared.len() <= index {
            self.shared.resize(index + 1, Place::default());
        }
        &mut self.shared[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(warp: u32, lane: u32) -> Actor {
        Actor { rank: 0, warp, lanes: 1 << lane, pc: 0 }
    }

    struct Cta {
        rounds: Rounds,
        generation: u32,
        passed: Vec<bool>,
    }

    impl Cta {
        fn new() -> Self {
            Self { rounds: Rounds::default(), generation: 0, passed: Vec::new() }
        }

        fn touch(&mut self, warp: u32, address: u64, writes: bool) {
            self.rounds.touch(lane(warp, 0), MemorySpace::Shared, &[address; LANES], 4, writes);
        }

        fn barrier(&mut self) {
            for _ in 0..2 {
                self.rounds.arrive(0, self.generation);
            }
            for _ in 0..2 {
                self.passed.extend(self.rounds.leave(7, 0, self.generation).map(|passed| passed.needed));
            }
            self.generation += 1;
        }

        fn needed(mut self) -> Vec<bool> {
            self.passed.extend(self.rounds.end().map(|passed| passed.needed));
            self.passed
        }
    }

    #[test]
    fn a_barrier_between_a_write_and_anothers_read_is_needed() {
        let mut cta = Cta::new();
        cta.touch(0, 16, true);
        cta.barrier();
        cta.touch(1, 16, false);
        cta.barrier();
        cta.touch(0, 16, true);
        cta.barrier();
        cta.touch(0, 16, false);
        cta.barrier();
        cta.touch(0, 20, true);
        assert_eq!(cta.needed(), [true, true, false, false]);
    }

    #[test]
    fn of_two_barriers_in_a_row_either_could_go() {
        let mut cta = Cta::new();
        cta.touch(0, 16, true);
        cta.barrier();
        cta.barrier();
        cta.touch(1, 16, false);
        assert_eq!(cta.needed(), [false, false]);
    }

    #[test]
    fn readers_of_the_same_word_need_none_and_fences_make_them_needed() {
        let mut cta = Cta::new();
        cta.touch(0, 16, false);
        cta.barrier();
        cta.touch(1, 16, false);
        cta.barrier();
        cta.rounds.lean();
        cta.barrier();
        assert_eq!(cta.needed(), [false, true, true]);
    }
}

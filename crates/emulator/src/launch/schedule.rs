//! When asynchronous work executes.

/// When asynchronous copies execute, between the earliest and the latest moment that the program
/// allows, and when a warp lets others run.
///
/// Warps take turns. A turn ends when the warp waits or has repeated a loop many times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// As soon as they are issued. A turn also ends with each test of an mbarrier that succeeds.
    /// Between two turns of a warp, each other warp therefore passes at most one such wait, and an
    /// mbarrier whose phases each follow a wait for the previous one never completes two phases
    /// between two tests by a waiting warp. This is as fair as warps that execute in parallel.
    #[default]
    Eager,
    /// When something waits for them and nothing else can proceed, so that a missing wait shows.
    Latest,
    /// At random moments from a generator with this seed. The same seed gives the same run.
    Random(u64),
}

/// Pseudo-random numbers: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift
/// generators, scrambled").
#[derive(Debug, Default)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// For the operations of a CTA: the same for each seed of the schedule. `purpose` separates
    /// uses with generators of their own.
    pub(crate) fn new(schedule: Schedule, cta: u64, purpose: u64) -> Self {
        let seed = if let Schedule::Random(seed) = schedule { seed } else { 0 };
        Self { state: (seed ^ cta.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose) | 1 }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A fair coin.
    pub(crate) fn toss(&mut self) -> bool {
        self.next() >> 63 != 0
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

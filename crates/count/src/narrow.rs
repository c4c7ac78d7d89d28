//! Accesses that could have been wider.
//!
//! Consecutive loads (or stores) of one source line in a warp, in which each lane's bytes continue
//! its previous ones, could be one instruction of up to 16 bytes, if the first address is a
//! multiple of the total.

use warpwright_events::{Actor, LANES, MemorySpace, lanes};

/// The widest access of a thread.
const WIDEST: u64 = 16;
/// Sequences followed at once per warp: a line may access several arrays alternately.
const OPEN_RUNS: usize = 4;

/// Accesses that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    line: u32,
    space: MemorySpace,
    writes: bool,
    lanes: u32,
    start: [u64; LANES],
    bytes: u64,
    /// Bytes of each access.
    size: u64,
    /// Accesses already reported.
    reported: u64,
}

/// The last access of a warp.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    open: Vec<Run>,
}

impl Runs {
    /// Lanes load or store `size` bytes each. How many accesses a wider one has just been found to
    /// save.
    pub(crate) fn access(
        &mut self,
        line: u32,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        size: u64,
        writes: bool,
    ) -> u64 {
        if size >= WIDEST {
            return 0;
        }
        let follows = |run: &Run| {
            (run.line, run.space, run.writes, run.lanes, run.size) == (line, space, writes, actor.lanes, size)
                && run.bytes + size <= WIDEST
                && lanes(actor.lanes).all(|lane| addresses[lane] == run.start[lane] + run.bytes)
        };
        if let Some(index) = self.open.iter().position(follows) {
            let run = &mut self.open[index];
            run.bytes += size;
            let whole = run.bytes.is_power_of_two()
                && lanes(actor.lanes).all(|lane| run.start[lane].is_multiple_of(run.bytes));
            let saved = if whole { run.bytes / size - 1 - run.reported } else { 0 };
            run.reported += saved;
            return saved;
        }
        if self.open.len() == OPEN_RUNS {
            self.open.remove(0);
        }
        let (lanes, start) = (actor.lanes, *addresses);
        self.open.push(Run { line, space, writes, lanes, start, bytes: size, size, reported: 0 });
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(accesses: &[(u32, u64, u64, bool)]) -> u64 {
        let mut runs = Runs::default();
        let actor = Actor { rank: 0, warp: 0, lanes: u32::MAX, pc: 0 };
        let one = |&(line, first, size, writes): &(u32, u64, u64, bool)| {
            let addresses = std::array::from_fn(|lane| first + 64 * lane as u64);
            runs.access(line, actor, MemorySpace::Global, &addresses, size, writes)
        };
        accesses.iter().map(one).sum()
    }

    #[test]
    fn four_words_of_a_line_are_one_vector() {
        assert_eq!(saved(&[(1, 0, 4, false), (1, 4, 4, false), (1, 8, 4, false), (1, 12, 4, false)]), 3);
        assert_eq!(saved(&[(1, 8, 4, true), (1, 12, 4, true), (1, 16, 4, true)]), 1, "8 to 15");
        assert_eq!(saved(&[(1, 0, 8, true), (1, 8, 8, true)]), 1);
        // Two arrays alternately.
        assert_eq!(saved(&[(1, 0, 4, false), (1, 8192, 4, false), (1, 4, 4, false), (1, 8196, 4, false)]), 2);
    }

    #[test]
    fn what_does_not_fit_one_vector_is_not_told() {
        assert_eq!(saved(&[(1, 4, 4, false), (1, 8, 4, false)]), 0, "not aligned");
        assert_eq!(saved(&[(1, 0, 4, false), (2, 4, 4, false)]), 0, "another line");
        assert_eq!(saved(&[(1, 0, 4, false), (1, 4, 4, true)]), 0, "a load and a store");
        assert_eq!(saved(&[(1, 0, 16, false), (1, 16, 16, false)]), 0, "wide already");
        assert_eq!(saved(&[(1, 0, 4, false), (1, 64, 4, false)]), 0, "apart");
    }
}

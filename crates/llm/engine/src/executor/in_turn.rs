//! Memory that steps use in turn.

use crate::error::Result;

/// Steps that use memory at most: those in flight, and one that is submitted.
pub(super) const STEPS: usize = 3;

/// Memory of a kind that the host fills for one step while the device reads what it has for earlier ones. To fill the
/// memory that an earlier step reads late would wait for it.
pub(super) struct InTurn<M> {
    all: Vec<M>,
    latest: usize,
}

impl<M> InTurn<M> {
    /// The memory of `count` uses.
    pub(super) fn new(count: usize, make: impl FnMut() -> Result<M>) -> Result<Self> {
        Ok(Self { all: std::iter::repeat_with(make).take(count).collect::<Result<_>>()?, latest: 0 })
    }

    /// The memory that was used longest ago.
    pub(super) fn next(&mut self) -> &mut M {
        self.latest = (self.latest + 1) % self.all.len();
        &mut self.all[self.latest]
    }

    /// The memory of the last call of [`next`](Self::next).
    pub(super) fn latest(&self) -> &M {
        &self.all[self.latest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_use_has_the_memory_of_the_ones_before_it() {
        let mut made = 0..;
        let mut memory = InTurn::new(STEPS, || Ok(made.next())).expect("memory");
        let used: Vec<_> = (0..STEPS + 1).map(|_| *memory.next()).collect();
        assert_eq!(used[0], used[STEPS]);
        assert!((1..STEPS).all(|at| used[at] != used[0]), "{used:?}");
        assert_eq!(*memory.latest(), used[STEPS]);
    }
}

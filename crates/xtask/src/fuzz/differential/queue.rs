//! The programs that processes still have to compare.

use std::collections::VecDeque;
use std::ops::Range;

/// Ranges of programs, each for one process.
#[derive(Debug)]
pub(super) struct Queue {
    ranges: VecDeque<Range<u64>>,
    /// Programs of a module.
    module: u64,
}

impl Queue {
    /// `all` in ranges of `batch` programs.
    pub(super) fn new(all: Range<u64>, batch: u64, module: u64) -> Self {
        let ranges = all.clone().step_by(batch as usize).map(|first| first..(first + batch).min(all.end));
        Self { ranges: ranges.collect(), module }
    }

    /// The next range. If it `is_late`, only a program of a module that failed: it is compared at any
    /// time, because nothing else says which program fails.
    pub(super) fn next(&mut self, is_late: bool) -> Option<Range<u64>> {
        self.ranges.pop_front_if(|numbers| !is_late || numbers.end - numbers.start == 1)
    }

    /// Takes back what a process has not compared: its first module, program by program, and the rest.
    /// Returns whether there was more than one program, so that the failure is not known yet.
    pub(super) fn take_back(&mut self, left: Range<u64>, was_alone: bool) -> bool {
        if was_alone || left.is_empty() {
            return false;
        }
        let last = (left.start + self.module).min(left.end);
        if last < left.end {
            self.ranges.push_front(last..left.end);
        }
        (left.start..last).rev().for_each(|number| self.ranges.push_front(number..number + 1));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_a_failed_module_are_next_one_by_one_also_when_it_is_late() {
        let mut queue = Queue::new(0..20, 8, 4);
        assert_eq!(queue.next(false), Some(0..8));
        assert!(queue.take_back(2..8, false));
        let alone: Vec<_> = std::iter::from_fn(|| queue.next(true)).collect();
        assert_eq!(alone, [2..3, 3..4, 4..5, 5..6]);
        assert!(!queue.take_back(3..4, true));
        let rest: Vec<_> = std::iter::from_fn(|| queue.next(false)).collect();
        assert_eq!(rest, [6..8, 8..16, 16..20]);
        assert!(!queue.take_back(20..20, false));
    }
}

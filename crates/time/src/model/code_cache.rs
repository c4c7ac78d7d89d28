//! The instruction cache of an SM.

use std::collections::VecDeque;

/// Bytes of a line.
pub(crate) const LINE_BYTES: u32 = 128;
/// Bytes of an instruction of the hardware.
pub(crate) const INSTRUCTION_BYTES: u32 = 16;

/// Lines that warps execute as fast as they issue: 32 KiB. This and the figures below are those of straight code of up to
/// 512 KiB on an H200, docs/results/2026-11-28-time-h200-seeded.md.
const LINES: usize = 256;
/// Lines of the cache behind it: 128 KiB. It has the code of a kernel that was launched before.
const LINES_BEHIND: usize = 1024;
/// Cycles for each line of that cache, and of the L2 cache.
const FETCH: u64 = 18;
const FETCH_FROM_L2: u64 = 45;
/// Further cycles of a line that does not follow another (assumed: no code with jumps was measured).
const JUMP: u64 = 36;

/// A cycle that a line has not.
const ABSENT: u64 = u64::MAX;

/// The lines of a kernel's code in the instruction cache.
#[derive(Debug)]
pub(super) struct CodeCache {
    /// The cycle from which on each line is there.
    filled: Vec<u64>,
    /// The lines that are there, the oldest first.
    resident: VecDeque<u32>,
    /// The cycle at which the last fetch ends.
    free: u64,
}

impl CodeCache {
    /// The cache of an SM that has executed nothing of a kernel's lines.
    pub(super) fn new(lines: usize) -> Self {
        Self { filled: vec![ABSENT; lines], resident: VecDeque::new(), free: 0 }
    }

    /// A warp comes to a line at a cycle. Returns the cycle from which on it can issue: a line is fetched after the line
    /// before it without a request.
    pub(super) fn execute(&mut self, line: u32, now: u64) -> u64 {
        let index = line as usize;
        if self.filled[index] == ABSENT {
            let fetch = if self.filled.len() > LINES_BEHIND { FETCH_FROM_L2 } else { FETCH };
            let before = index.checked_sub(1).map_or(ABSENT, |before| self.filled[before]);
            let start = if before == ABSENT { now + JUMP } else { before };
            self.free = self.free.max(start) + fetch;
            self.filled[index] = self.free;
            self.resident.push_back(line);
            if self.resident.len() > LINES {
                let oldest = self.resident.pop_front().expect("there are many");
                self.filled[oldest as usize] = ABSENT;
            }
        }
        self.filled[index].max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of a warp that executes all lines in turn, eight instructions each.
    fn rounds(lines: u32) -> [u64; 2] {
        let mut cache = CodeCache::new(lines as usize);
        let mut now = 0;
        [0, 1].map(|_| {
            let start = now;
            for line in 0..lines {
                now = cache.execute(line, now) + 8;
            }
            now - start
        })
    }

    #[test]
    fn straight_code_is_fetched_at_the_measured_rates() {
        for (kib, first, later) in [(4, 2.25, 1.0), (16, 2.24, 1.0), (64, 2.26, 2.25), (512, 5.6, 5.6)] {
            let instructions = f64::from(kib * 64);
            let cycles = rounds(kib * 8).map(|cycles| cycles as f64 / instructions);
            for (found, measured) in cycles.into_iter().zip([first, later]) {
                assert!((found / measured - 1.0).abs() < 0.12, "{kib} KiB: {cycles:?}");
            }
        }
    }
}

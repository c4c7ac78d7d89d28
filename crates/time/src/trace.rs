//! The trace of a cluster: what each warp executes, in its order, and what it waits for.
//!
//! A trace has no time. Polling is left out: of a loop that tests an mbarrier until a phase ends, one
//! test remains, which waits for the phase. Phases of mbarriers, generations of barriers and phases of
//! the cluster's barrier are all [`Moment`]s: each has a number of arrivals, and passes with the last.

use warpwright_events::AsyncKind;

/// The index of a moment of a cluster at which all arrivals of a barrier have happened.
pub(crate) type Moment = u32;

/// The trace of a cluster.
#[derive(Debug, Default)]
pub(crate) struct ClusterTrace {
    /// The linear index of its first CTA.
    pub(crate) first_cta: u32,
    /// The trace of each warp, CTA by CTA.
    pub(crate) warps: Vec<WarpTrace>,
    /// The arrivals of each moment.
    pub(crate) arrivals: Vec<u32>,
}

/// The trace of a warp, or a part of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WarpTrace {
    pub(crate) records: Vec<Record>,
    /// The lines that accesses and copies name.
    pub(crate) lines: Vec<Lines>,
}

/// What a turn of a warp has recorded.
#[derive(Debug, Default)]
pub(crate) struct Excerpt {
    pub(crate) trace: WarpTrace,
    /// Arrivals that the records name.
    pub(crate) arrivals: Vec<(Moment, u32)>,
}

impl ClusterTrace {
    /// The bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.warps.iter().map(WarpTrace::bytes).sum()
    }
}

impl WarpTrace {
    fn bytes(&self) -> u64 {
        (self.records.capacity() * size_of::<Record>() + self.lines.capacity() * size_of::<Lines>()) as u64
    }

    /// The lines of a range.
    pub(crate) fn lines(&self, range: LineRange) -> &[Lines] {
        &self.lines[range.first as usize..(range.first + range.count) as usize]
    }
}

/// Lines of 128 bytes of global memory, at a constant distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The first line, as its address divided by the bytes of a line.
    pub(crate) first: u64,
    /// From one line to the next.
    pub(crate) stride: i64,
    pub(crate) count: u32,
    /// The sectors of each line that are accessed, as a mask.
    pub(crate) sectors: u8,
}

/// Lines of a trace, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRange {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// A part of a warp's execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Record {
    /// Lanes execute the operations from `from` up to `end`. The details of these operations follow.
    Run { from: u32, end: u32, lanes: u32 },
    /// A detail of an operation of the run.
    Detail(u32, Detail),
    /// The lanes go on from a barrier when the moment has passed, after this operation.
    Wait { pc: u32, until: Moment },
}

/// The direction of an access to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Load,
    Store,
    /// An atomic operation or a reduction, with the most lanes that update one address.
    Update {
        conflicts: u8,
    },
}

/// What an operation does, as far as its lanes' values decide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Detail {
    /// An access to shared memory in these passes, of them those due to bank conflicts; of another CTA if it is
    /// `remote`.
    Shared { passes: u16, conflicts: u16, remote: bool },
    /// An access to global memory.
    Global { direction: Direction, lines: LineRange },
    /// An access to local memory, in these sectors.
    Local { sectors: u16 },
    /// `cp.async`: a load of these lines, and the passes of its stores.
    LaneCopy { lines: LineRange, passes: u16 },
    /// A bulk or tensor copy of these bytes, at whose end the moment gets an arrival.
    Copy { direction: Direction, lines: LineRange, bytes: u32, arrives: Option<Moment> },
    /// The same data as the copy before, in another CTA.
    Multicast { arrives: Moment },
    /// Lanes arrive.
    Arrive { at: Moment, count: u16 },
    /// An arrival when the lanes' earlier asynchronous work of a kind has ended.
    Track { at: Moment, kind: AsyncKind },
    /// The lanes go on when the moment has passed.
    Wait { until: Moment },
    /// A `tcgen05.mma` of this many operations of a unit, which reads bytes of the shared memory of each CTA.
    TensorMultiply { operations: u32, shared_bytes: u32 },
}

/// Bytes of a line of global memory.
pub(crate) const LINE: u64 = 128;

/// Adds lines, given as sorted ranges of bytes, in their order.
pub(crate) fn push_lines(lines: &mut Vec<Lines>, ranges: impl Iterator<Item = (u64, u64)>) -> LineRange {
    const SECTOR: u64 = 32;
    let start = lines.len();
    // The line that is not complete yet.
    let mut open: Option<(u64, u8)> = None;
    for (first, end) in ranges {
        let mut at = first;
        while at < end {
            let line = at / LINE;
            let stop = end.min((line + 1) * LINE);
            let (from, to) = ((at % LINE) / SECTOR, ((stop - 1) % LINE) / SECTOR);
            let mask = (from..=to).fold(0u8, |mask, sector| mask | 1 << sector);
            match &mut open {
                Some((same, sectors)) if *same == line => *sectors |= mask,
                _ => {
                    if let Some((line, sectors)) = open.replace((line, mask)) {
                        push_line(lines, start, line, sectors);
                    }
                }
            }
            at = stop;
        }
    }
    if let Some((line, sectors)) = open {
        push_line(lines, start, line, sectors);
    }
    LineRange { first: start as u32, count: (lines.len() - start) as u32 }
}

/// Adds a line to the last lines from `start` on if it continues them.
fn push_line(lines: &mut Vec<Lines>, start: usize, line: u64, sectors: u8) {
    if let Some(last) = lines[start..].last_mut()
        && last.sectors == sectors
    {
        let step = line as i64 - last.first as i64;
        if last.count == 1 || step == last.stride * i64::from(last.count) {
            if last.count == 1 {
                last.stride = step;
            }
            last.count += 1;
            return;
        }
    }
    lines.push(Lines { first: line, stride: 0, count: 1, sectors });
}

impl Lines {
    /// Each line, as its address divided by the bytes of a line.
    pub(crate) fn each(self) -> impl Iterator<Item = u64> {
        (0..i64::from(self.count)).map(move |index| (self.first as i64 + index * self.stride) as u64)
    }

    /// The bytes that are accessed of each line.
    pub(crate) fn bytes_of_line(self) -> u32 {
        32 * self.sectors.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(ranges: &[(u64, u64)]) -> Vec<Lines> {
        let mut lines = Vec::new();
        let range = push_lines(&mut lines, ranges.iter().copied());
        assert_eq!((range.first, range.count as usize), (0, lines.len()));
        lines
    }

    #[test]
    fn lines_at_a_constant_distance_are_one_entry() {
        assert_eq!(pushed(&[(0, 512)]), [Lines { first: 0, stride: 1, count: 4, sectors: 15 }]);
        let rows: Vec<(u64, u64)> = (0..64).map(|row| (row * 4096, row * 4096 + 128)).collect();
        assert_eq!(pushed(&rows), [Lines { first: 0, stride: 32, count: 64, sectors: 15 }]);
        assert_eq!(
            pushed(&[(32, 64), (96, 100), (256, 512)]),
            [
                Lines { first: 0, stride: 0, count: 1, sectors: 0b1010 },
                Lines { first: 2, stride: 1, count: 2, sectors: 15 }
            ]
        );
    }

    #[test]
    fn every_line_is_found_again() {
        let ranges: Vec<(u64, u64)> = (0..40).map(|n| (n * n * 96, n * n * 96 + 64)).collect();
        let lines = pushed(&ranges);
        let bytes: u32 = lines.iter().map(|lines| lines.count * lines.bytes_of_line()).sum();
        let mut expected = std::collections::BTreeSet::new();
        for (first, end) in &ranges {
            expected.extend(first / 32..end.div_ceil(32));
        }
        assert_eq!(bytes as usize, 32 * expected.len());
        let distinct: std::collections::BTreeSet<u64> = lines.iter().flat_map(|lines| lines.each()).collect();
        assert_eq!(distinct, expected.iter().map(|sector| sector / 4).collect());
    }
}

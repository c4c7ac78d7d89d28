//! What the tracks of a launch do over its cycles, as rows of colors.

use std::collections::BTreeMap;
use std::ops::Range;

use warpwright_runtime::{Prediction, Slice, Stall, Track};

/// A kind of time, with its color in pictures, which read well on light and dark ground.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) color: &'static str,
}

/// Kinds by stall reason, in the order of [`Stall::ALL`], and those of the other tracks.
pub(super) const KINDS: [Kind; Stall::ALL.len() + 2] = [
    Kind { name: "issues", color: "#2f9e44" },
    Kind { name: "wait", color: "#8a939b" },
    Kind { name: "long scoreboard", color: "#c92a4b" },
    Kind { name: "short scoreboard", color: "#f2b134" },
    Kind { name: "barrier", color: "#8d5fb0" },
    Kind { name: "mbarrier", color: "#e8793a" },
    Kind { name: "wgmma", color: "#7fa8d9" },
    Kind { name: "math pipe throttle", color: "#b5cc6a" },
    Kind { name: "MIO throttle", color: "#c9a227" },
    Kind { name: "membar", color: "#a05a2c" },
    Kind { name: "sleeping", color: "#c9ced3" },
    Kind { name: "branch resolving", color: "#5c6770" },
    Kind { name: "not selected", color: "#a8d8b0" },
    Kind { name: "no instruction", color: "#e3a0c8" },
    Kind { name: "tensor core multiplies", color: "#1f6fc2" },
    Kind { name: "copy in flight", color: "#12a594" },
];
const MULTIPLIES: usize = Stall::ALL.len();
const COPIES: usize = MULTIPLIES + 1;

/// A stretch of cycles of one kind, at an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) cycles: (u64, u64),
    pub(super) kind: usize,
    pub(super) instruction: u32,
    pub(super) lanes: u32,
}

/// A track.
pub(super) struct Row {
    track: Track,
    /// The CTA or the SM.
    pub(super) group: String,
    pub(super) name: String,
    pub(super) stretches: Vec<Stretch>,
}

impl Row {
    pub(super) fn is_of_warp(&self) -> bool {
        matches!(self.track, Track::Warp { .. })
    }
}

/// The tracks of a launch, in their order, over some of its cycles; of the warps, some.
pub(super) fn rows(prediction: &Prediction, cycles: &Range<u64>, warps: Option<&Range<u64>>) -> Vec<Row> {
    let mut tracks: BTreeMap<Track, Vec<Stretch>> = BTreeMap::new();
    for slice in &prediction.timeline {
        if let (Track::Warp { warp, .. }, Some(shown)) = (slice.track, warps)
            && !shown.contains(&warp.into())
        {
            continue;
        }
        let stretches = parts(slice).into_iter().filter_map(|stretch| {
            let (first, end) = (stretch.cycles.0.max(cycles.start), stretch.cycles.1.min(cycles.end));
            (first < end).then_some(Stretch { cycles: (first, end), ..stretch })
        });
        tracks.entry(slice.track).or_default().extend(stretches);
    }
    let row = |(track, mut stretches): (Track, Vec<Stretch>)| {
        stretches.sort_by_key(|stretch| stretch.cycles);
        let (group, name) = super::names(track);
        Row { track, group, name, stretches }
    };
    tracks.into_iter().map(row).collect()
}

/// The stretches of a slice: of a warp, the cycles that it waits, and the one in which it issues.
fn parts(slice: &Slice) -> Vec<Stretch> {
    let &Slice { cycles, instruction, stall, track, lanes } = slice;
    let of = |cycles, kind| Stretch { cycles, kind, instruction, lanes };
    match track {
        Track::Warp { .. } if stall == Stall::Selected => vec![of(cycles, 0)],
        Track::Warp { .. } => {
            let issue = cycles.1 - 1;
            vec![of((cycles.0, issue), stall as usize), of((issue, cycles.1), 0)]
        }
        Track::Copies { .. } => vec![of(cycles, COPIES)],
        Track::TensorCore { .. } => vec![of(cycles, MULTIPLIES)],
    }
}

/// The kind that takes most of each of `columns` equal parts of the cycles, as runs of equal columns.
pub(super) fn columns(row: &Row, cycles: &Range<u64>, columns: usize) -> Vec<(Range<usize>, usize)> {
    let width = (cycles.end - cycles.start) as f64 / columns as f64;
    let mut shares = vec![[0.0f64; KINDS.len()]; columns];
    for stretch in &row.stretches {
        let [first, end] =
            [stretch.cycles.0, stretch.cycles.1].map(|cycle| (cycle - cycles.start) as f64 / width);
        for (column, share) in shares.iter_mut().enumerate().take(end.ceil() as usize).skip(first as usize) {
            share[stretch.kind] += end.min(column as f64 + 1.0) - first.max(column as f64);
        }
    }
    let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
    for (column, share) in shares.iter().enumerate() {
        let idle = 1.0 - share.iter().sum::<f64>();
        let (kind, most) =
            share.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are kinds");
        if most <= idle || most == 0.0 {
            continue;
        }
        match runs.last_mut() {
            Some((range, same)) if *same == kind && range.end == column => range.end += 1,
            _ => runs.push((column..column + 1, kind)),
        }
    }
    runs
}

/// The kinds that a picture shows, with the part of the warps' cycles that each takes.
pub(super) fn legend(rows: &[Row]) -> Vec<(usize, Option<f64>)> {
    let mut totals = [0u64; KINDS.len()];
    for stretch in rows.iter().flat_map(|row| &row.stretches) {
        totals[stretch.kind] += stretch.cycles.1 - stretch.cycles.0;
    }
    let of_warps: u64 = totals[..MULTIPLIES].iter().sum();
    let mut shown: Vec<_> = (0..KINDS.len()).filter(|&kind| totals[kind] > 0).collect();
    shown.sort_by_key(|&kind| (kind >= MULTIPLIES, std::cmp::Reverse(totals[kind])));
    let part = |kind| (kind < MULTIPLIES).then(|| totals[kind] as f64 / of_warps as f64);
    shown.into_iter().map(|kind| (kind, part(kind))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_the_stall_reasons() {
        for stall in Stall::ALL.into_iter().skip(1) {
            assert_eq!(KINDS[stall as usize].name, stall.name());
        }
    }

    #[test]
    fn a_column_has_the_kind_that_takes_most_of_it() {
        let of = |cycles, kind| Stretch { cycles, kind, instruction: 0, lanes: 1 };
        let stretches = vec![of((100, 104), 1), of((104, 110), 2), of((110, 120), 2), of((130, 131), 3)];
        let track = Track::Warp { cta: 0, warp: 0 };
        let row = Row { track, group: String::new(), name: String::new(), stretches };
        assert_eq!(columns(&row, &(100..140), 4), [(0..2, 2)]);
        assert_eq!(columns(&row, &(100..140), 40), [(0..4, 1), (4..20, 2), (30..31, 3)]);
    }
}

//! The order of findings: causes before what follows from them.
//!
//! One mistake has several findings. A missing wait for a copy is a read of the copy's bytes in
//! flight; the reader then releases the buffer early, so that the next copy overwrites it; and the
//! mbarrier falls out of step, so that threads wait for ever. [`Rank`] sorts these, and a finding
//! that touches the lines or the mbarriers of one before it is listed under that one.

use std::collections::BTreeSet;

use warpwright_events::{Fault, FaultKind, Label};

use crate::report::finding::{Finding, FindingKind};

/// How far a finding usually is from its cause, the nearest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// A rule of a barrier, an mbarrier or an array is broken: it orders less than its text says.
    Protocol,
    /// Something is read that may not have been written yet.
    #[default]
    EarlyRead,
    /// Something is read that nothing has written.
    Unwritten,
    /// Something is overwritten that may still be read.
    Overwrite,
    /// Something is overwritten that may still be written.
    OverwrittenWrite,
    /// The kernel stops.
    Stop,
    /// Work is left over at the kernel's end.
    Leak,
}

impl Rank {
    /// That of findings of a kind that are no conflict of two accesses.
    pub(crate) fn of(kind: FindingKind) -> Self {
        match kind {
            FindingKind::Divergence
            | FindingKind::Barrier
            | FindingKind::Fault(FaultKind::OutOfBounds | FaultKind::PeerNotResident) => Self::Protocol,
            FindingKind::Fault(_) => Self::Stop,
            FindingKind::Leak => Self::Leak,
            FindingKind::Uninitialized => Self::Unwritten,
            _ => Self::EarlyRead,
        }
    }
}

/// The instructions between which an order is missing. One barrier or fence adds it for all pairs
/// with an instruction in common between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) kind: FindingKind,
    /// Whether the threads are of two CTAs, of two warps, or of one.
    pub(crate) extent: u32,
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Gap {
    fn meets(&self, other: &Self) -> bool {
        (self.kind, self.extent) == (other.kind, other.extent)
            && self.first.max(other.first) < self.last.min(other.last)
    }
}

/// A line: of the author's source, or of the PTX.
type Line<'f> = (Option<&'f str>, u32);

fn line(label: &Label) -> Line<'_> {
    match &label.source {
        Some(source) => (Some(&source.file), source.line),
        None => (None, label.ptx_line),
    }
}

/// What keeps peers resident that may not have started, or may have exited.
fn peer_help(finding: &Finding) -> Option<&str> {
    finding.help.as_deref().filter(|_| finding.kind == FindingKind::Fault(FaultKind::PeerNotResident))
}

/// A cause, and what the findings listed under it touch.
struct Cause<'f> {
    index: usize,
    lines: BTreeSet<Line<'f>>,
    mbarriers: BTreeSet<Line<'f>>,
    arrays: BTreeSet<Line<'f>>,
    gaps: Vec<Gap>,
    /// The lanes that are missing, with their warp.
    divergent: BTreeSet<&'f str>,
    /// How to keep peers resident.
    peers: BTreeSet<&'f str>,
}

impl<'f> Cause<'f> {
    fn of(index: usize, finding: &'f Finding) -> Self {
        let mut cause = Self {
            index,
            lines: BTreeSet::new(),
            mbarriers: BTreeSet::new(),
            arrays: BTreeSet::new(),
            gaps: Vec::new(),
            divergent: BTreeSet::new(),
            peers: BTreeSet::new(),
        };
        cause.add(finding);
        cause
    }

    fn add(&mut self, finding: &'f Finding) {
        self.lines.extend(finding.labels.iter().map(line));
        self.mbarriers.extend(mbarriers(finding));
        self.arrays.extend(arrays(finding));
        self.gaps.extend(finding.gap);
        if finding.kind == FindingKind::Divergence {
            self.divergent.extend(finding.labels.first().map(|label| &*label.text));
        }
        self.peers.extend(peer_help(finding));
    }

    /// Whether a finding may follow from this one.
    fn explains(&self, finding: &Finding) -> bool {
        let shares_line = finding.labels.iter().any(|label| self.lines.contains(&line(label)));
        let shares_mbarrier = mbarriers(finding).any(|object| self.mbarriers.contains(&object));
        let shares_gap = finding.gap.is_some_and(|gap| self.gaps.iter().any(|other| other.meets(&gap)));
        // Copies to the wrong place leave another place unwritten.
        let is_left =
            finding.rank == Rank::Unwritten && arrays(finding).any(|array| self.arrays.contains(&array));
        // Lanes that a warp lacks are missing at each instruction that needs them.
        let shares_lanes = finding.kind == FindingKind::Divergence
            && finding.labels.first().is_some_and(|label| self.divergent.contains(&*label.text));
        // One barrier of the cluster is for all accesses of peers.
        let shares_peers = peer_help(finding).is_some_and(|help| self.peers.contains(help));
        shares_line || shares_mbarrier || shares_gap || shares_lanes || is_left || shares_peers
    }
}

/// The lines that allocate the mbarriers of a finding.
fn mbarriers(finding: &Finding) -> impl Iterator<Item = Line<'_>> {
    finding.memory.iter().filter(|label| label.text.contains("mbarrier")).map(line)
}

/// The lines that allocate the arrays in shared memory of a finding.
fn arrays(finding: &Finding) -> impl Iterator<Item = Line<'_>> {
    finding.memory.iter().filter(|label| !label.text.contains("mbarrier")).map(line)
}

/// Findings and the fault that ended the launch, if one did: causes first, each before the findings
/// that may follow from it, whose [`Finding::cause`] is its index.
pub fn ordered(findings: &[Finding], fault: Option<&Fault>) -> Vec<Finding> {
    let mut sorted = findings.to_vec();
    sorted.extend(fault.map(Finding::from));
    sorted.sort_by_key(|finding| finding.rank);
    let mut causes: Vec<Cause<'_>> = Vec::new();
    let of: Vec<usize> = sorted
        .iter()
        .enumerate()
        .map(|(index, finding)| {
            if let Some(cause) = causes.iter_mut().find(|cause| cause.explains(finding)) {
                cause.add(finding);
                return cause.index;
            }
            causes.push(Cause::of(index, finding));
            index
        })
        .collect();
    // A cause and what follows from it stand together.
    let mut order: Vec<usize> = (0..sorted.len()).collect();
    order.sort_by_key(|&index| (of[index], index));
    let position = |index: usize| order.iter().position(|&other| other == index);
    let placed = order.iter().map(|&index| Finding {
        cause: (of[index] != index).then(|| position(of[index])).flatten(),
        ..sorted[index].clone()
    });
    placed.collect()
}

#[cfg(test)]
mod tests {
    use warpwright_events::{Inlining, Source};

    use super::*;

    fn finding(rank: Rank, lines: &[u32]) -> Finding {
        let label = |&line: &u32| Label {
            source: Some(Source { file: "kernel.rs".to_owned(), line, column: 1 }),
            inlining: Inlining::default(),
            ptx_line: line,
            ptx_text: String::new(),
            text: String::new(),
        };
        Finding {
            kind: FindingKind::Race,
            kernel: String::new(),
            message: format!("{lines:?}"),
            labels: lines.iter().map(label).collect(),
            memory: Vec::new(),
            notes: Vec::new(),
            help: None,
            count: 1,
            tile: None,
            cause: None,
            rank,
            gap: None,
        }
    }

    fn order(findings: &[Finding]) -> Vec<(String, Option<usize>)> {
        ordered(findings, None).into_iter().map(|finding| (finding.message, finding.cause)).collect()
    }

    #[test]
    fn what_follows_stands_behind_its_cause() {
        let findings = [
            finding(Rank::Leak, &[7]),
            finding(Rank::Overwrite, &[3, 7]),
            finding(Rank::EarlyRead, &[20, 21]),
            finding(Rank::EarlyRead, &[3, 9]),
        ];
        let expected = [("[20, 21]", None), ("[3, 9]", None), ("[3, 7]", Some(1)), ("[7]", Some(1))];
        assert_eq!(order(&findings), expected.map(|(text, cause)| (text.to_owned(), cause)));
    }

    #[test]
    fn one_barrier_between_both_pairs_is_one_mistake() {
        let pair = |first, last| {
            let gap = Gap { kind: FindingKind::Race, extent: 1, first, last };
            Finding { gap: Some(gap), ..finding(Rank::EarlyRead, &[first, last]) }
        };
        let causes =
            |pairs: &[Finding]| ordered(pairs, None).iter().map(|finding| finding.cause).collect::<Vec<_>>();
        assert_eq!(causes(&[pair(10, 20), pair(11, 21)]), [None, Some(0)]);
        assert_eq!(causes(&[pair(10, 20), pair(25, 30)]), [None, None]);
    }
}

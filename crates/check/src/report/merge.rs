//! One finding for one mistake: findings that have one cause are merged, and causes come first.

use std::collections::BTreeMap;

use warpwright_events::{Code, FaultKind, Source};

use crate::report::conflict::Conflict;
use crate::report::finding::{Finding, FindingKind};
use crate::state::agents::Role;

/// How far findings of a kind usually are from the cause. A barrier that some threads do not execute
/// causes races, an access outside its array conflicts with accesses of the next array, and a missing
/// wait is found again when the kernel ends.
pub(crate) fn distance(kind: FindingKind) -> u32 {
    match kind {
        FindingKind::Divergence | FindingKind::Barrier | FindingKind::Fault(FaultKind::OutOfBounds) => 0,
        FindingKind::Leak => 2,
        _ => 1,
    }
}

/// The location of an access: the author's, or the instruction.
type Location<'c> = Result<&'c Source, u32>;

/// A conflict with those that have the same cause.
pub(crate) struct Merged<'c> {
    pub(crate) conflict: &'c Conflict,
    pub(crate) count: u64,
    /// Whether either access came first. In a loop, a barrier on one side of them may be there.
    pub(crate) in_both_orders: bool,
}

/// Races of threads at the same two locations are one mistake, whichever access came first.
pub(crate) fn merged_races<'c>(
    code: &'c Code,
    conflicts: impl Iterator<Item = (&'c Conflict, u64)>,
) -> Vec<Merged<'c>> {
    let location = |pc: u32| -> Location<'c> { code.instruction(pc).source.as_ref().ok_or(pc) };
    let mut merged: Vec<Merged<'c>> = Vec::new();
    let mut races: BTreeMap<[Location<'c>; 2], usize> = BTreeMap::new();
    for (conflict, count) in conflicts {
        let of_threads = [&conflict.later, &conflict.earlier]
            .iter()
            .all(|party| matches!(party.role, Role::Warp(_)) && party.proxy.is_none());
        let alone = Merged { conflict, count, in_both_orders: false };
        if conflict.kind != FindingKind::Race || !of_threads {
            merged.push(alone);
            continue;
        }
        let (later, earlier) = (location(conflict.later.pc), location(conflict.earlier.pc));
        let index = *races.entry([later.min(earlier), later.max(earlier)]).or_insert(merged.len());
        let Some(known) = merged.get_mut(index) else {
            merged.push(alone);
            continue;
        };
        known.count += count;
        known.in_both_orders |= location(known.conflict.later.pc) != later;
        let order = |Conflict { later, earlier, .. }: &Conflict| {
            (later.kind.writes() && earlier.kind.writes(), earlier.pc > later.pc)
        };
        let order = |conflict: &Conflict| (conflict.extent(), order(conflict));
        if order(conflict) < order(known.conflict) {
            known.conflict = conflict;
        }
    }
    merged
}

/// Findings of one kind at the same source locations are merged: they come from several
/// instructions of one line. Those of different tiles are not.
pub(crate) fn reported_once<At>(findings: impl Iterator<Item = (Finding, At)>) -> Vec<(Finding, At)> {
    let mut reported: Vec<(Finding, At)> = Vec::new();
    for (finding, at) in findings {
        let alike = |(other, _): &&mut (Finding, At)| {
            other.kind == finding.kind
                && other.tile == finding.tile
                && other.labels.len() == finding.labels.len()
                && other
                    .labels
                    .iter()
                    .zip(&finding.labels)
                    .all(|(a, b)| a.source.is_some() && a.source == b.source)
        };
        match reported.iter_mut().find(alike) {
            Some((known, _)) => known.count += finding.count,
            None => reported.push((finding, at)),
        }
    }
    reported
}

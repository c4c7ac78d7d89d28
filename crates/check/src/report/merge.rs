//! One finding for one pair of lines: findings of the same two accesses are merged.

use std::collections::BTreeMap;

use warpwright_events::{Code, Source};

use crate::report::conflict::Conflict;
use crate::report::finding::{Finding, FindingKind};
use crate::state::agents::Role;

/// The location of an access: the author's, or the instruction.
type Location<'c> = Result<&'c Source, u32>;

/// A conflict with those that have the same cause.
pub(crate) struct Merged<'c> {
    pub(crate) conflict: &'c Conflict,
    /// The same of the other access first, if that came too.
    pub(crate) reverse: Option<&'c Conflict>,
    pub(crate) count: u64,
    /// Whether either access came first. In a loop, a barrier on one side of them may be there.
    pub(crate) in_both_orders: bool,
    /// How far apart the farthest of their threads are.
    pub(crate) extent: u32,
}

/// Races of threads at the same two locations are one mistake, whichever access came first; and so
/// are those of a thread and asynchronous work of a group, which a schedule may begin before the
/// thread's access or after it.
pub(crate) fn merged_races<'c>(
    code: &'c Code,
    conflicts: impl Iterator<Item = (&'c Conflict, u64)>,
) -> Vec<Merged<'c>> {
    let location = |pc: u32| -> Location<'c> { code.instruction(pc).source.as_ref().ok_or(pc) };
    let mut merged: Vec<Merged<'c>> = Vec::new();
    let mut races: BTreeMap<[Location<'c>; 2], usize> = BTreeMap::new();
    for (conflict, count) in conflicts {
        let parties = [&conflict.later, &conflict.earlier];
        let of_threads =
            parties.iter().all(|party| matches!(party.role, Role::Warp(_)) && party.proxy.is_none());
        let of_groups = parties.iter().any(|party| matches!(party.role, Role::Group(..)))
            && parties.iter().any(|party| matches!(party.role, Role::Warp(_)));
        let is_merged = match conflict.kind {
            FindingKind::Race => of_threads || of_groups,
            FindingKind::InFlight => of_groups && conflict.tile.is_none(),
            _ => false,
        };
        let extent = conflict.extent();
        let alone = Merged { conflict, reverse: None, count, in_both_orders: false, extent };
        if !is_merged {
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
        known.extent = known.extent.min(extent);
        known.in_both_orders |= of_threads && location(known.conflict.later.pc) != later;
        let order = |Conflict { later, earlier, .. }: &Conflict| {
            (later.kind.writes() && earlier.kind.writes(), earlier.pc > later.pc)
        };
        let order = |conflict: &Conflict| {
            let extent = if of_threads { conflict.extent() } else { 0 };
            (extent, order(conflict))
        };
        let is_reverse = location(known.conflict.later.pc) != later;
        if order(conflict) < order(known.conflict) {
            let before = std::mem::replace(&mut known.conflict, conflict);
            if is_reverse {
                known.reverse = Some(before);
            }
        } else if is_reverse {
            known.reverse.get_or_insert(conflict);
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

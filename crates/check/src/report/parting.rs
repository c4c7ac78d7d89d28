//! Barriers that count fewer threads than come: two warps both wait there, and not for each other.

use std::collections::BTreeMap;

use warpwright_events::{Code, LANES};

use crate::report::conflict::Conflict;
use crate::report::finding::Finding;
use crate::state::barrier::Meetings;

/// A barrier at which the two warps of a conflict arrive without meeting.
pub(crate) struct Parting {
    /// The instruction.
    pc: u32,
    barrier: u32,
    warps: [u32; 2],
    /// The threads that it counts, and those that come.
    counted: u32,
    coming: u32,
}

impl Parting {
    /// The barrier that explains why nothing orders the two accesses, if there is one.
    pub(crate) fn of(conflict: &Conflict, meetings: &BTreeMap<(u32, u32), Meetings>) -> Option<Self> {
        let (earlier, later) = (&conflict.earlier, &conflict.later);
        let warps = [earlier.warp?, later.warp?];
        if earlier.cta != later.cta || warps[0] == warps[1] {
            return None;
        }
        let (&(pc, barrier), found) = meetings.iter().find(|(_, found)| found.part(warps[0], warps[1]))?;
        let (counted, coming) = found.counts();
        let threads = |warps: u32| warps * LANES as u32;
        Some(Self { pc, barrier, warps, counted: threads(counted), coming: threads(coming) })
    }

    /// Names the barrier in the finding.
    pub(crate) fn explain(&self, code: &Code, finding: &mut Finding) {
        let Self { pc, barrier, warps: [a, b], counted, coming } = self;
        let (a, b) = (a.min(b), a.max(b));
        finding.labels.push(
            code.label(*pc, format!("warps {a} and {b} arrive at barrier {barrier} here, not together")),
        );
        finding.notes = vec![format!(
            "barrier {barrier} completes whenever {counted} threads have arrived, and {coming} threads come: it orders those of one \
             completion only"
        )];
        finding.help = Some(format!(
            "let the barrier count all threads that exchange data there, `NamedBarrier::new({barrier}, {coming})`; or give each group \
             of {counted} threads data of its own"
        ));
    }
}

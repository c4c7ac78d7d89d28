//! Barriers that do not order the two warps of a conflict: one that counts fewer threads than come, so
//! that both warps wait there, and not for each other; and one in a branch that only one of them takes.

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
    pub(crate) fn of(
        conflict: &Conflict,
        meetings: &BTreeMap<(u32, u32), Meetings>,
        completions: &BTreeMap<u32, Meetings>,
    ) -> Option<Self> {
        let (earlier, later) = (&conflict.earlier, &conflict.later);
        let warps = [earlier.warp?, later.warp?];
        if earlier.cta != later.cta || warps[0] == warps[1] {
            return None;
        }
        let at_one_line = meetings.iter().find(|(_, found)| found.part(warps[0], warps[1]));
        // Producers arrive at one line, and consumers wait at another.
        let at_two_lines = || {
            let mut parted = completions.iter().filter(|(_, found)| found.part(warps[0], warps[1]));
            parted.find_map(|(barrier, found)| {
                let mut lines = meetings.iter().filter(|((_, at), _)| at == barrier);
                lines.find(|(_, found)| found.has(warps[1])).map(|(at, _)| (at, found))
            })
        };
        let (&(pc, barrier), found) = at_one_line.or_else(at_two_lines)?;
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

/// A barrier of the block between two accesses that only one of the two warps executes.
pub(crate) struct Skipped {
    pc: u32,
    waits: u32,
    skips: u32,
}

/// Whether the two warps of a conflict meet at a barrier whose line is between those of the accesses.
pub(crate) fn meet_between(
    conflict: &Conflict,
    code: &Code,
    meetings: &BTreeMap<(u32, u32), Meetings>,
) -> bool {
    let (Some(first), Some(second)) = (conflict.earlier.warp, conflict.later.warp) else { return false };
    let line = |pc: u32| code.instruction(pc).line;
    let between = line(conflict.earlier.pc)..line(conflict.later.pc);
    meetings.iter().any(|(&(pc, _), found)| between.contains(&line(pc)) && found.meet(first, second))
}

impl Skipped {
    /// The barrier between the accesses of a conflict, if one of the warps does not execute it.
    pub(crate) fn of(
        conflict: &Conflict,
        code: &Code,
        meetings: &BTreeMap<(u32, u32), Meetings>,
    ) -> Option<Self> {
        let (earlier, later) = (&conflict.earlier, &conflict.later);
        let warps = [earlier.warp?, later.warp?];
        if earlier.cta != later.cta || warps[0] == warps[1] {
            return None;
        }
        let line = |pc: u32| code.instruction(pc).line;
        let lines = [line(earlier.pc), line(later.pc)];
        let between = lines[0].min(lines[1])..lines[0].max(lines[1]);
        // A barrier that counts its threads is for those that come.
        let is_of_block = |pc: u32, barrier: u32| barrier == 0 && !code.instruction(pc).text.contains(',');
        meetings.iter().find_map(|(&(pc, barrier), found)| {
            let [first, second] = warps.map(|warp| found.has(warp));
            let is_skipped = first != second && between.contains(&line(pc)) && is_of_block(pc, barrier);
            let [waits, skips] = if first { warps } else { [warps[1], warps[0]] };
            is_skipped.then_some(Self { pc, waits, skips })
        })
    }

    /// Names the barrier in the finding.
    pub(crate) fn explain(&self, code: &Code, finding: &mut Finding) {
        let Self { pc, waits, skips } = self;
        finding.message.push_str(": the barrier between them is in a branch");
        let text = format!("warp {waits} executes this barrier, and warp {skips} does not");
        finding.labels.push(code.label(*pc, text));
        finding.notes = vec![format!(
            "a barrier orders only the threads that execute it: warp {skips} passes it by, and it completes without warp {skips} \
             when that has exited"
        )];
        finding.help =
            Some("move the barrier out of the branch: every thread of the block must execute it".to_owned());
    }
}

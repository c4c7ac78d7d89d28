//! The turns of warps that the emulator runs as the simulation asks: each executes an ordered instruction in the
//! cycle of its issue, so that tickets, flags, locks and clocks follow the simulated order.

use warpwright_events::TurnEnd;

use super::Simulation;
use super::sm::NEVER;
use crate::stall::Stall;

/// Turns in a row in which a warp has only polled, after which it waits in vain if all others do.
const MOST_IDLE_TURNS: u32 = 4096;

/// The trace of a warp after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It has more.
    More,
    /// It has more once the warp comes to its next operation, or another has changed something.
    Later,
    /// It has ended.
    Ended,
}

impl Simulation<'_> {
    /// All that is known of a warp's trace has been simulated.
    pub(super) fn extend(&mut self, index: u32) -> Known {
        let warp = &mut self.warps[index as usize];
        if warp.is_complete {
            return Known::Ended;
        }
        if let Some(pc) = warp.ordered {
            warp.comes_to_ordered = true;
            let operation = &self.program.operations[pc as usize];
            warp.pc = pc;
            let (mut ready, mut stall) = warp.readiness(self.program.of(&operation.reads));
            if operation.releases {
                // ptxas puts a fence before it.
                (ready, stall) =
                    (ready.max(warp.stored).max(warp.since) + self.memory.latencies.l2, Stall::Membar);
            }
            (warp.ready, warp.stall, warp.pipe) = (ready, stall, operation.pipe as u8);
            let partition = warp.partition;
            self.wake(partition, ready);
            return Known::Later;
        }
        let cycle = warp.not_before.0;
        self.run_turn(index, cycle)
    }

    /// A warp can issue the ordered operation that it has come to.
    pub(super) fn resume_ordered(&mut self, index: u32, now: u64) {
        self.warps[index as usize].ordered = None;
        let known = self.run_turn(index, now);
        if known == Known::More && !self.advance(index) || known == Known::Ended {
            self.end(index, now);
        }
    }

    /// The emulator runs a turn of a warp.
    fn run_turn(&mut self, index: u32, cycle: u64) -> Known {
        let warp = &mut self.warps[index as usize];
        let cluster = self.clusters[warp.cluster as usize].as_mut().expect("it runs");
        self.excerpt.trace.records.clear();
        self.excerpt.trace.lines.clear();
        let turn = self.source.run_warp(cluster.number, warp.number as usize, cycle, &mut self.excerpt);
        std::mem::swap(&mut warp.trace, &mut self.excerpt.trace);
        (warp.cursor, warp.details) = (0, 0..0);
        for (moment, count) in self.excerpt.arrivals.drain(..) {
            let moment = moment as usize;
            if cluster.moments.len() <= moment {
                cluster.moments.resize_with(moment + 1, Default::default);
            }
            cluster.moments[moment].arrivals += count;
            cluster.moments[moment].left += count;
        }
        let polls = !turn.changed && turn.end != TurnEnd::Yields;
        warp.idle_turns = if polls { warp.idle_turns.saturating_add(1) } else { 0 };
        let is_idle = warp.idle_turns >= MOST_IDLE_TURNS && warp.idle_turns.is_multiple_of(MOST_IDLE_TURNS);
        if turn.changed {
            self.retried.append(&mut cluster.parked);
        }
        warp.ordered = match turn.end {
            TurnEnd::Before(pc) => Some(pc),
            _ => None,
        };
        warp.is_complete = turn.end == TurnEnd::Exits;
        self.has_stopped |= turn.end == TurnEnd::Fails || is_idle && self.waits_in_vain();
        let warp = &mut self.warps[index as usize];
        let cluster = self.clusters[warp.cluster as usize].as_mut().expect("it runs");
        if !warp.trace.records.is_empty() {
            return Known::More;
        }
        match turn.end {
            TurnEnd::Exits => Known::Ended,
            TurnEnd::Before(_) => self.extend(index),
            TurnEnd::Yields | TurnEnd::Waits | TurnEnd::Fails => {
                warp.ready = NEVER;
                cluster.parked.push(index);
                Known::Later
            }
        }
    }

    /// Whether every warp that runs only polls, or waits for another.
    fn waits_in_vain(&self) -> bool {
        let is_parked =
            |warp: u32| self.clusters.iter().flatten().any(|cluster| cluster.parked.contains(&warp));
        let running = self.partitions.iter().flat_map(|partition| &partition.warps);
        running
            .copied()
            .all(|warp| self.warps[warp as usize].idle_turns >= MOST_IDLE_TURNS || is_parked(warp))
    }

    /// Runs the warps that another's change may let go on.
    pub(super) fn retry(&mut self, now: u64) {
        while let Some(index) = self.retried.pop() {
            self.warps[index as usize].hold(now, Stall::Wait);
            if !self.advance(index) {
                self.end(index, now);
            }
        }
    }

    /// Nothing can issue: runs all warps that wait again, or ends asynchronous work that they wait for. Returns
    /// whether any can go on.
    pub(super) fn unpark(&mut self) -> bool {
        let now = self.outcome.cycles;
        for completes in [false, true] {
            for slot in 0..self.clusters.len() {
                let Some(cluster) = &mut self.clusters[slot] else { continue };
                if cluster.parked.is_empty() || completes && !self.source.complete(cluster.number) {
                    continue;
                }
                self.retried.append(&mut cluster.parked);
                self.retry(now);
            }
            if !self.queue.is_empty() {
                return true;
            }
        }
        false
    }
}

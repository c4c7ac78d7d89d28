//! Asynchronous work that a warp's lanes commit to groups and wait for.

use std::collections::VecDeque;

use warpwright_events::{Awaited, LANES, lanes};

use crate::state::clock::Time;

/// What the issuer of asynchronous work has done towards its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has committed the work to no group. `wait` is a wait for groups after the issue.
    Uncommitted { wait: Option<u32> },
    /// It has committed the work, and has not waited since. `early_wait` is a wait between the issue
    /// and the commit.
    Committed { early_wait: Option<u32> },
    /// It has waited until at most `allowed` groups were in flight. A wait that allows `needed`
    /// covers the work.
    Left { wait: u32, allowed: u32, needed: u32 },
    /// It has waited for the work.
    Awaited,
}

/// The waits, and the groups already waited for, that are kept: a thread that runs behind the issuer
/// has seen fewer of the issuer's waits.
const KEPT: usize = 8;

/// A wait of lanes for their groups.
#[derive(Clone, Copy, Debug)]
struct Wait {
    pc: u32,
    /// The warp's time then.
    clock: Time,
    mask: u32,
    /// The groups that may still be in flight.
    allowed: u32,
    awaited: Awaited,
    /// The time of work issued then.
    time: Time,
    /// Whether work of that time had been issued.
    after_issue: bool,
}

/// Asynchronous work of one kind that the lanes of a warp have issued.
#[derive(Debug)]
pub(crate) struct Work {
    /// The time of work issued now. It advances when a group is committed.
    time: Time,
    /// Groups committed, by the lanes that did, and the time of their work.
    commits: Vec<(u32, Time)>,
    /// The time up to which each lane knows its work to be complete: all of it, and the reads of
    /// its sources.
    done: [[Time; LANES]; 2],
    /// For each lane, the last time at which it issued work, and the instruction.
    issued: [Time; LANES],
    last: u32,
    /// The latest waits, the last one at the end.
    waits: VecDeque<Wait>,
    /// Whether `done` has changed since it was last propagated.
    news: bool,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self {
            time: 1,
            commits: Vec::new(),
            done: [[0; LANES]; 2],
            issued: [0; LANES],
            last: 0,
            waits: VecDeque::new(),
            news: false,
        }
    }

    /// Work is issued; returns its time.
    pub(crate) fn issue(&mut self, mask: u32, pc: u32) -> Time {
        self.last = pc;
        lanes(mask).for_each(|lane| self.issued[lane] = self.time);
        self.time
    }

    /// The work that lanes have issued so far is committed to an mbarrier; returns its time.
    pub(crate) fn hand_over(&mut self, mask: u32) -> Time {
        lanes(mask).for_each(|lane| self.issued[lane] = 0);
        self.close()
    }

    /// The time of the work issued so far, if any; work issued from now on is later.
    pub(crate) fn close_issued(&mut self) -> Option<Time> {
        if self.issued.contains(&self.time) {
            self.close();
        }
        (self.time > 1).then_some(self.time - 1)
    }

    /// Separates the work issued so far from later work; returns its time.
    pub(crate) fn close(&mut self) -> Time {
        self.time += 1;
        self.time - 1
    }

    pub(crate) fn commit(&mut self, mask: u32) {
        let time = self.close();
        self.commits.push((mask, time));
    }

    /// Lanes wait, at a time of their warp.
    pub(crate) fn wait(
        &mut self,
        mask: u32,
        (pc, clock): (u32, Time),
        latest: Option<u32>,
        awaited: Awaited,
    ) {
        let after_issue = lanes(mask).any(|lane| self.issued[lane] == self.time);
        if self.waits.len() == KEPT {
            self.waits.pop_front();
        }
        let time = self.time;
        self.waits.extend(latest.map(|allowed| Wait {
            pc,
            clock,
            mask,
            allowed,
            awaited,
            time,
            after_issue,
        }));
        let closed = if latest.is_none() { self.close() } else { 0 };
        for lane in lanes(mask) {
            let time = match latest {
                None => closed,
                Some(latest) => {
                    let mut own = self.commits.iter().rev().filter(|(mask, _)| mask >> lane & 1 != 0);
                    own.nth(latest as usize).map_or(0, |(_, time)| *time)
                }
            };
            let [everything, sources] = &mut self.done;
            sources[lane] = sources[lane].max(time);
            if awaited == Awaited::Everything {
                everything[lane] = everything[lane].max(time);
            }
        }
        self.news = true;
        let everything = &self.done[0];
        let mut newer = self.commits.len();
        self.commits.retain(|(mask, time)| {
            newer -= 1;
            newer < KEPT || lanes(*mask).any(|lane| everything[lane] < *time)
        });
    }

    /// The time up to which a lane knows its work to be complete.
    pub(crate) fn done(&self, lane: usize, awaited: Awaited) -> Time {
        self.done[awaited as usize][lane]
    }

    /// The same of all lanes.
    pub(crate) fn all_done(&self, awaited: Awaited) -> &[Time; LANES] {
        &self.done[awaited as usize]
    }

    /// Whether a lane has waited for work.
    pub(crate) fn has_news(&self) -> bool {
        self.news
    }

    /// The instruction that last issued work.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// The time of the last work of lanes.
    pub(crate) fn latest(&self, mask: u32) -> Time {
        lanes(mask).map(|lane| self.issued[lane]).max().unwrap_or(0)
    }

    /// What lanes have done towards the completion of the work that they issued at a time, as far as
    /// someone `knows` who has synchronized with a time of their warp.
    pub(crate) fn progress(
        &self,
        mask: u32,
        time: Time,
        awaited: Awaited,
        knows: impl Fn(Time) -> bool,
    ) -> Progress {
        let pending = lanes(mask).find(|&lane| self.done(lane, awaited) < time);
        let lane = pending.unwrap_or(mask.trailing_zeros() as usize % LANES);
        let wait = self.waits.iter().rev().find(|wait| {
            wait.mask >> lane & 1 != 0
                && (wait.awaited == Awaited::Everything || awaited == Awaited::Sources)
                && knows(wait.clock)
        });
        let own = self.commits.iter().filter(|(mask, at)| mask >> lane & 1 != 0 && *at >= time);
        let mut own = own.map(|(_, at)| *at);
        let committed = own.next();
        let left = committed.zip(wait).and_then(|(committed, wait)| {
            let needed = own.filter(|at| *at < wait.time).count() as u32;
            (wait.time > committed && wait.allowed > needed).then_some(Progress::Left {
                wait: wait.pc,
                allowed: wait.allowed,
                needed,
            })
        });
        if let Some(left) = left {
            return left;
        }
        match (committed, wait) {
            _ if pending.is_none() => Progress::Awaited,
            (None, wait) => {
                let followed = wait.filter(|wait| wait.time > time || wait.time == time && wait.after_issue);
                Progress::Uncommitted { wait: followed.map(|wait| wait.pc) }
            }
            (Some(_), Some(wait)) if wait.time == time && wait.after_issue => {
                Progress::Committed { early_wait: Some(wait.pc) }
            }
            _ => Progress::Committed { early_wait: None },
        }
    }

    /// Lanes whose work is in flight, as far as they know.
    pub(crate) fn under_way(&self, awaited: Awaited) -> u32 {
        (0..LANES)
            .filter(|&lane| self.issued[lane] > self.done(lane, awaited))
            .fold(0, |m, lane| m | 1 << lane)
    }
}

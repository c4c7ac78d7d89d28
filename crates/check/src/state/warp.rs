//! A warp's state in the checkers: its time, the knowledge of its lanes, and its work in flight.

use warpwright_events::{AsyncKind, Awaited, FULL, LANES, Scope, lanes};

use crate::state::agents::Role;
use crate::state::bypass::Bypass;
use crate::state::clock::{Clock, Time};
use crate::state::knowledge::Knowledge;
use crate::state::locations::Releases;
use crate::state::registers::RegisterState;
use crate::state::undefined::UndefinedRegisters;

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
    /// Whether `done` has changed since it was last propagated.
    news: bool,
}

impl Work {
    fn new() -> Self {
        Self { time: 1, commits: Vec::new(), done: [[0; LANES]; 2], issued: [0; LANES], last: 0, news: false }
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
    fn close_issued(&mut self) -> Option<Time> {
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

    pub(crate) fn wait(&mut self, mask: u32, latest: Option<u32>, awaited: Awaited) {
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
        self.commits.retain(|(mask, time)| lanes(*mask).any(|lane| everything[lane] < *time));
    }

    /// The time up to which a lane knows its work to be complete.
    pub(crate) fn done(&self, lane: usize, awaited: Awaited) -> Time {
        self.done[awaited as usize][lane]
    }

    /// Lanes whose work is in flight, as far as they know.
    pub(crate) fn under_way(&self, awaited: Awaited) -> u32 {
        (0..LANES)
            .filter(|&lane| self.issued[lane] > self.done(lane, awaited))
            .fold(0, |m, lane| m | 1 << lane)
    }
}

/// Lanes with the same knowledge.
#[derive(Clone, Debug)]
struct Group {
    lanes: u32,
    knowledge: Knowledge,
}

/// One warp.
#[derive(Debug)]
pub(crate) struct WarpState {
    /// Advances whenever a lane publishes.
    pub(crate) time: Time,
    /// Lanes that existed at the start.
    pub(crate) population: u32,
    /// Lanes that have not exited.
    pub(crate) alive: u32,
    /// The last aligned barrier that part of the warp reached without the rest.
    pub(crate) bypass: Option<Box<Bypass>>,
    groups: Vec<Group>,
    work: [Work; AsyncKind::ALL.len()],
    /// What lanes knew at their last fence, for the strong stores after it.
    fences: Vec<(u32, Scope, Knowledge)>,
    /// What lanes have read with strong loads, and observe at their next fence.
    read: Vec<(u32, Releases)>,
    pub(crate) registers: RegisterState,
    pub(crate) undefined: UndefinedRegisters,
}

impl WarpState {
    pub(crate) fn new(population: u32) -> Self {
        Self {
            time: 1,
            population,
            alive: population,
            bypass: None,
            groups: vec![Group { lanes: FULL, knowledge: Knowledge::default() }],
            work: AsyncKind::ALL.map(|_| Work::new()),
            fences: Vec::new(),
            read: Vec::new(),
            registers: RegisterState::default(),
            undefined: UndefinedRegisters::default(),
        }
    }

    pub(crate) fn work(&mut self, kind: AsyncKind) -> &mut Work {
        &mut self.work[kind as usize]
    }

    /// The time up to which a lane knows its own work to be complete.
    pub(crate) fn done(&self, lane: usize, kind: AsyncKind, awaited: Awaited) -> Time {
        self.work[kind as usize].done(lane, awaited)
    }

    /// Lanes that have not waited for work they issued, the last issuing instruction, and the kind.
    /// For bulk copies, reading their sources is sufficient.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = (u32, u32, AsyncKind)> {
        AsyncKind::ALL.into_iter().filter_map(|kind| {
            let awaited = if kind == AsyncKind::Bulk { Awaited::Sources } else { Awaited::Everything };
            let work = &self.work[kind as usize];
            let lanes = work.under_way(awaited);
            (lanes != 0).then_some((lanes, work.last, kind))
        })
    }

    /// A lane's knowledge of other agents.
    pub(crate) fn knowledge(&self, lane: u32) -> &Knowledge {
        let group = self.groups.iter().find(|group| group.lanes >> lane & 1 != 0);
        &group.expect("every lane is in a group").knowledge
    }

    /// The lanes of a mask, grouped by knowledge.
    pub(crate) fn parts(&self, mask: u32) -> impl Iterator<Item = (u32, &Knowledge)> {
        self.groups
            .iter()
            .map(move |group| (group.lanes & mask, &group.knowledge))
            .filter(|(lanes, _)| *lanes != 0)
    }

    /// What lanes publish: their knowledge, and what they have done so far.
    pub(crate) fn release(&mut self, cta: u32, warp: u32, mask: u32) -> Knowledge {
        let mut released = Knowledge::default();
        for (_, knowledge) in self.parts(mask) {
            released.join(knowledge);
        }
        // Lanes that do not exist have no events.
        let doers = if mask | !self.population == FULL { FULL } else { mask };
        released.known.raise(cta, Role::Warp(warp).agent(), doers, self.time);
        self.time += 1;
        if let Some(time) = self.work[AsyncKind::TensorCore as usize].close_issued() {
            released.known.raise(cta, Role::Issuer(warp).agent(), mask, time);
        }
        for kind in AsyncKind::ALL {
            let work = &mut self.work[kind as usize];
            if !work.news {
                continue;
            }
            for awaited in [Awaited::Everything, Awaited::Sources] {
                let agent = Role::of_work(warp, kind, awaited).agent();
                let done = work.done[awaited as usize];
                for lane in lanes(mask) {
                    // Operations of a whole warp: what one lane knows to be complete is complete
                    // for all.
                    let over = if kind.is_of_warp() { FULL } else { 1 << lane };
                    released.known.raise(cta, agent, over, done[lane]);
                }
            }
        }
        released
    }

    /// Adds to the knowledge of each lane.
    pub(crate) fn learn(&mut self, mask: u32, knowledge: &Knowledge) {
        let mut split = Vec::new();
        for group in &mut self.groups {
            let learning = group.lanes & mask;
            if learning == 0 {
                continue;
            }
            if learning != group.lanes {
                group.lanes &= !learning;
                let mut part = Group { lanes: learning, knowledge: group.knowledge.clone() };
                part.knowledge.join(knowledge);
                split.push(part);
            } else {
                group.knowledge.join(knowledge);
            }
        }
        self.groups.extend(split);
    }

    /// Gives lanes the same knowledge, which includes what they knew.
    pub(crate) fn agree(&mut self, mask: u32, knowledge: Knowledge) {
        // The knowledge of lanes that never existed or have exited is irrelevant.
        let mask = if mask | !self.population == FULL { FULL } else { mask };
        self.groups.retain_mut(|group| {
            group.lanes &= !mask;
            group.lanes != 0
        });
        self.groups.push(Group { lanes: mask, knowledge });
    }

    /// Lanes execute a fence: their next strong stores release what they know now, and they acquire
    /// what they have read.
    pub(crate) fn fence(&mut self, cta: u32, warp: u32, mask: u32, scope: Scope) {
        let mut acquired = Vec::new();
        self.read.retain_mut(|(lanes, release)| {
            if *lanes & mask != 0 {
                acquired.push((*lanes & mask, release.knowledge.clone()));
            }
            *lanes &= !mask;
            *lanes != 0
        });
        for (lanes, knowledge) in acquired {
            self.learn(lanes, &knowledge);
        }
        let released = self.release(cta, warp, mask);
        self.fences.retain_mut(|(lanes, ..)| {
            *lanes &= !mask;
            *lanes != 0
        });
        self.fences.push((mask, scope, released));
    }

    /// What a strong store of a lane releases because of an earlier fence.
    pub(crate) fn fenced(&self, lane: usize, cta: u32, scope: Scope) -> Vec<Releases> {
        let of_lane = self.fences.iter().filter(|(lanes, ..)| lanes >> lane & 1 != 0);
        of_lane
            .map(|(_, fence, knowledge)| Releases {
                cta,
                scope: (*fence).min(scope),
                knowledge: knowledge.clone(),
            })
            .collect()
    }

    /// What a strong store of a lane passes to another thread's `fence.sc` because of earlier ones,
    /// also of other threads. The first fence precedes the second in the order of all such fences,
    /// or the store would not be observed (PTX ISA, "Fence-SC Order"). A thread may therefore
    /// publish for others that have executed a fence and synchronized with it.
    pub(crate) fn sequenced(&self, lane: usize, cta: u32, scope: Scope) -> Option<Releases> {
        let sequenced = &self.knowledge(lane as u32).sequenced;
        let knowledge = Knowledge { observed: sequenced.clone(), ..Knowledge::default() };
        (!sequenced.is_empty()).then_some(Releases { cta, scope, knowledge })
    }

    /// Lanes execute a `fence.sc` of the GPU's threads, having known `before`.
    pub(crate) fn sequence(&mut self, mask: u32, before: Clock) {
        self.learn(mask, &Knowledge { sequenced: before, ..Knowledge::default() });
        for group in self.groups.iter_mut().filter(|group| group.lanes & mask != 0) {
            let observed = group.knowledge.observed.clone();
            group.knowledge.known.join(&observed);
        }
    }

    /// Lanes have read a released value; they observe it at their next fence.
    pub(crate) fn learn_at_fence(&mut self, mask: u32, release: Releases) {
        self.read.push((mask, release));
    }
}

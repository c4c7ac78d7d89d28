//! A warp's state in the checkers: its time, the knowledge of its lanes, and its work in flight.

use std::collections::VecDeque;

use warpwright_events::{Actor, AsyncKind, Awaited, FULL, Register, Scope, lanes};

use crate::state::agents::Role;
use crate::state::bypass::Bypass;
use crate::state::clock::{Clock, Time};
use crate::state::knowledge::Knowledge;
use crate::state::locations::Releases;
use crate::state::registers::RegisterState;
use crate::state::undefined::UndefinedRegisters;
use crate::state::work::{Progress, Work};

/// Lanes with the same knowledge.
#[derive(Clone, Debug)]
struct Group {
    lanes: u32,
    knowledge: Knowledge,
}

/// An arrival of lanes at an mbarrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneArrival {
    pub(crate) pc: u32,
    pub(crate) lanes: u32,
    /// The warp's time then.
    pub(crate) time: Time,
}

/// The start of a CTA: a time of its first warp.
pub(crate) const START: Time = 1;

/// The arrivals of a warp that are kept: as many as a pipeline has stages.
const KEPT_ARRIVALS: usize = 16;

/// One warp.
#[derive(Debug)]
pub(crate) struct WarpState {
    /// Advances whenever a lane publishes.
    pub(crate) time: Time,
    /// Lanes that existed at the start.
    pub(crate) population: u32,
    /// Lanes that have not exited.
    pub(crate) alive: u32,
    /// Aligned barriers and exchanges that part of the warp has reached without the rest.
    pub(crate) bypasses: Vec<Bypass>,
    /// The last synchronization of lanes that stood at two instructions, and the lanes at each.
    pub(crate) met_apart: Option<[Actor; 2]>,
    /// Whether its lanes have exchanged values with lanes at another line. What they do afterwards is
    /// a consequence.
    pub(crate) has_mixed_exchanges: bool,
    groups: Vec<Group>,
    /// The latest arrivals of lanes at mbarriers.
    pub(crate) arrivals: VecDeque<LaneArrival>,
    work: [Work; AsyncKind::ALL.len()],
    /// What lanes knew at their last fence, for the strong stores after it.
    fences: Vec<(u32, Scope, Knowledge)>,
    /// What lanes have read with strong loads, and observe at their next fence.
    read: Vec<(u32, Releases)>,
    pub(crate) registers: RegisterState,
    pub(crate) undefined: UndefinedRegisters,
}

impl WarpState {
    pub(crate) fn new(population: u32, unset: &[Register]) -> Self {
        Self {
            time: START + 1,
            population,
            alive: population,
            bypasses: Vec::new(),
            met_apart: None,
            has_mixed_exchanges: false,
            arrivals: VecDeque::new(),
            groups: vec![Group { lanes: FULL, knowledge: Knowledge::default() }],
            work: AsyncKind::ALL.map(|_| Work::new()),
            fences: Vec::new(),
            read: Vec::new(),
            registers: RegisterState::default(),
            undefined: UndefinedRegisters::unset(unset, population),
        }
    }

    pub(crate) fn work(&mut self, kind: AsyncKind) -> &mut Work {
        &mut self.work[kind as usize]
    }

    /// The time up to which a lane knows its own work to be complete.
    pub(crate) fn done(&self, lane: usize, kind: AsyncKind, awaited: Awaited) -> Time {
        self.work[kind as usize].done(lane, awaited)
    }

    /// Lanes that have not waited for work they issued, the last issuing instruction, the kind, and
    /// what they have done towards its completion.
    /// For bulk copies, reading their sources is sufficient.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = (u32, u32, AsyncKind, Progress)> {
        AsyncKind::ALL.into_iter().filter_map(|kind| {
            let awaited = if kind == AsyncKind::Bulk { Awaited::Sources } else { Awaited::Everything };
            let work = &self.work[kind as usize];
            let lanes = work.under_way(awaited);
            (lanes != 0).then(|| {
                (lanes, work.last(), kind, work.progress(lanes, work.latest(lanes), awaited, |_| true))
            })
        })
    }

    /// What lanes have done towards the completion of work that they issued at a time, as far as
    /// someone `knows` who has synchronized with a time of the warp.
    pub(crate) fn progress(
        &self,
        lanes: u32,
        (kind, awaited): (AsyncKind, Awaited),
        time: Time,
        knows: impl Fn(Time) -> bool,
    ) -> Progress {
        self.work[kind as usize].progress(lanes, time, awaited, knows)
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
            if !work.has_news() {
                continue;
            }
            for awaited in [Awaited::Everything, Awaited::Sources] {
                let agent = Role::of_work(warp, kind, awaited).agent();
                let done = *work.all_done(awaited);
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

    /// Lanes arrive at an mbarrier.
    pub(crate) fn note_arrival_at_mbarrier(&mut self, lanes: u32, pc: u32) {
        if self.arrivals.len() == KEPT_ARRIVALS {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(LaneArrival { pc, lanes, time: self.time });
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

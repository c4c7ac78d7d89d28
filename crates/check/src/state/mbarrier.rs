//! The state of an mbarrier: expected and received arrivals, bytes and copies.

use std::collections::HashMap;

use warpwright_events::{LANES, LaunchInfo, MbarrierAddress, Scope, Strength};

use crate::report::conflict::Passed;
use crate::state::agents::Role;
use crate::state::clock::{Agent, Time};
use crate::state::knowledge::Knowledge;
use crate::state::mark::Mark;

/// The size of an mbarrier object.
pub(crate) const MBARRIER_BYTES: u64 = 8;

/// How operations access an mbarrier, once it is initialized.
pub(crate) const OBJECT: Strength =
    Strength::Strong { scope: Scope::Cluster, acquire: false, release: false };

/// What overwrites an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwriting {
    Store,
    Atomic,
    Copy,
}

/// An mbarrier object.
#[derive(Debug)]
pub(crate) struct MbarrierState {
    /// Its agent.
    pub(crate) role: Role,
    /// The open phase, counted over all initializations.
    pub(crate) phase: Time,
    /// The phase that it was initialized with.
    pub(crate) first: Time,
    /// What the arrivals of this phase publish.
    pub(crate) arrived: Knowledge,
    /// What a thread observes with the end of the last completed phase.
    pub(crate) ended: Knowledge,
    /// The initializing thread, and its warp's time then.
    pub(crate) initialized: (Mark, Time),
    /// Whether the initializing thread has executed a fence since that other CTAs' copies need.
    pub(crate) is_fenced: bool,
    /// The arrivals of a phase, as it was initialized.
    pub(crate) count: u32,
    /// Whether it has not been invalidated since.
    pub(crate) valid: bool,
    /// What has overwritten it since, before any use.
    pub(crate) overwritten: Option<(Mark, Overwriting)>,
    /// Bytes expected and not yet arrived, over all phases.
    pub(crate) bytes: i64,
    /// Of the open phase.
    pub(crate) announced: u64,
    pub(crate) expectation: Option<Mark>,
    pub(crate) arrival: Option<Mark>,
    /// The last arrival of another CTA that does not release for this one.
    pub(crate) narrow_arrival: Option<Mark>,
    /// The lanes that executed the instruction of the last arrival.
    pub(crate) together: u32,
    /// The last arrival of the last completed phase, and those lanes.
    pub(crate) completion: Option<(Mark, u32)>,
    /// Whether one execution of an instruction has completed several phases.
    pub(crate) has_surplus: bool,
    /// Copies in flight that complete at it, the issuer of the last one, and the open phase then.
    pub(crate) copies: i64,
    pub(crate) copy: Option<Mark>,
    pub(crate) copy_phase: Time,
    /// The latest phases in which copies were issued.
    pub(crate) filled: [Time; 2],
    /// The last phase whose end any thread has observed.
    pub(crate) seen: Time,
    /// By CTA rank and warp: the phases that its lanes last found open.
    pub(crate) waiting: HashMap<(u32, u32), [Time; LANES]>,
    /// By CTA rank and warp: the last wait at it that has returned.
    pub(crate) passed: HashMap<(u32, u32), Passed>,
}

/// `shared address 0x100`
pub(crate) fn named(address: MbarrierAddress) -> String {
    format!("the mbarrier at shared address {:#x}", address.offset)
}

impl MbarrierState {
    pub(crate) fn new(role: Role, initialized: (Mark, Time)) -> Self {
        Self {
            role,
            phase: 0,
            first: 1,
            arrived: Knowledge::default(),
            ended: Knowledge::default(),
            initialized,
            is_fenced: false,
            count: 0,
            valid: false,
            overwritten: None,
            bytes: 0,
            announced: 0,
            expectation: None,
            arrival: None,
            narrow_arrival: None,
            together: 0,
            completion: None,
            has_surplus: false,
            copies: 0,
            copy: None,
            copy_phase: 0,
            filled: [0; 2],
            seen: 0,
            waiting: HashMap::new(),
            passed: HashMap::new(),
        }
    }

    /// The phase of a time, counted from 0.
    pub(crate) fn number(&self, phase: Time) -> u32 {
        phase.saturating_sub(self.first)
    }

    /// Whether it is unused since its initialization.
    pub(crate) fn is_fresh(&self) -> bool {
        self.phase == self.first
            && (self.bytes, self.copies) == (0, 0)
            && self.expectation.is_none()
            && self.arrival.is_none()
            && self.waiting.is_empty()
    }

    /// The copy, and the expectation of its bytes or the last arrival.
    pub(crate) fn copy_and_expectation(&self, launch: &LaunchInfo, state: &str) -> Vec<(Mark, String)> {
        let copy = self.copy.map(|mark| (mark, format!("copy issued by {}{state}", mark.who(launch))));
        let announced =
            self.expectation.map(|mark| (mark, format!("bytes expected by {}", mark.who(launch))));
        let arrived = self.arrival.map(|mark| (mark, format!("arrival of {}", mark.who(launch))));
        copy.into_iter().chain(announced.or(arrived)).collect()
    }
}

/// A delayed arrival at an mbarrier, which waits for the lane's copies, and the lane's knowledge at
/// that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateArrival {
    pub(crate) address: MbarrierAddress,
    pub(crate) cta: u32,
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
    pub(crate) agent: Agent,
    pub(crate) time: Time,
}

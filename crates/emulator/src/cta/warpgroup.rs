//! A warpgroup's work in flight: its `wgmma` instructions between issue and execution.
//!
//! The four warps of a warpgroup issue an MMA each at its own time. Once all four have, it can
//! execute for all of them, after those issued before it. The schedule determines when: as early as
//! possible (`eager`), when each warp of the group waits for it or nothing else in the CTA can
//! proceed (`latest`), or at a random moment (`random`). It reads shared memory and registers, and
//! writes the accumulators, at that moment.

use std::collections::VecDeque;

use warpwright_events::{FULL, FaultKind};

use crate::launch::failure::Failure;
use crate::launch::schedule::{Random, Schedule};
use crate::registers::FrameBase;
use crate::tensor::warpgroup::WARPS;
use crate::tensor::warpgroup_operands::Operands;

/// One warp's share of an issued MMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) pc: u32,
    /// The frame its registers are in.
    pub(crate) base: FrameBase,
    /// The operands that must be the same in all four warps.
    pub(crate) operands: IssueOperands,
}

/// The operands that the warps of a warpgroup have in common, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IssueOperands {
    /// The descriptor of A, if it is in shared memory.
    pub(crate) a: Option<u64>,
    /// The descriptor of B.
    pub(crate) b: u64,
    /// Whether the accumulator is added to the product (scale-d).
    pub(crate) accumulates: bool,
}

/// The MMAs that one warp has issued and not yet waited for.
#[derive(Debug, Default)]
struct WarpState {
    /// MMAs that have not executed, oldest first.
    issues: VecDeque<Issue>,
    /// The number of MMAs it has issued.
    issued: u64,
    /// The number of issued MMAs at each committed group, oldest first.
    groups: VecDeque<u64>,
    /// The number of MMAs that must have executed before it proceeds.
    awaited: u64,
}

/// The MMAs of four warps.
#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    warps: [WarpState; WARPS],
    /// The number of executed MMAs.
    happened: u64,
    random: Random,
}

/// The warpgroups of a CTA.
#[derive(Debug, Default)]
pub(crate) struct Warpgroups {
    pub(crate) groups: Vec<Warpgroup>,
    /// Issued shares that have not executed; zero means nothing to do.
    pub(crate) pending: usize,
    /// Memory for the operands of the executing MMA.
    pub(crate) operands: Box<Operands>,
}

impl Warpgroups {
    /// For a CTA of `warps` warps.
    pub(crate) fn new(warps: u32, schedule: Schedule, cta: u64) -> Self {
        let mut warpgroups = Self::default();
        warpgroups.groups.resize_with((warps as usize).div_ceil(WARPS), Warpgroup::default);
        warpgroups.reset(schedule, cta);
        warpgroups
    }

    /// Resets the state, for another CTA.
    pub(crate) fn reset(&mut self, schedule: Schedule, cta: u64) {
        for (index, group) in self.groups.iter_mut().enumerate() {
            let random = Random::new(schedule, cta, (index as u64 + 1) << 40);
            *group = Warpgroup { random, ..Warpgroup::default() };
        }
        self.pending = 0;
    }

    /// Memory for the operands of an MMA that executes immediately.
    pub(crate) fn operands(&mut self) -> &mut Operands {
        &mut self.operands
    }

    /// Whether an issued MMA has not executed.
    pub(crate) fn is_busy(&self) -> bool {
        self.pending > 0
    }

    fn of(&mut self, warp: u32) -> (&mut Warpgroup, usize) {
        (&mut self.groups[warp as usize / WARPS], warp as usize % WARPS)
    }

    /// A warp issues its share of an MMA.
    pub(crate) fn issue(&mut self, warp: u32, issue: Issue) -> Result<(), Box<Failure>> {
        self.pending += 1;
        let (group, own) = self.of(warp);
        group.check(warp, own, issue)?;
        group.warps[own].issues.push_back(issue);
        group.warps[own].issued += 1;
        Ok(())
    }

    /// A warp commits a group of what it has issued since the last one.
    pub(crate) fn commit(&mut self, warp: u32) {
        let (group, own) = self.of(warp);
        let state = &mut group.warps[own];
        state.groups.push_back(state.issued);
    }

    /// A warp waits for all its groups except the `latest` committed last. Returns whether it has
    /// to wait.
    pub(crate) fn wait(&mut self, warp: u32, latest: usize) -> bool {
        let (group, own) = self.of(warp);
        let state = &mut group.warps[own];
        if let Some(index) = state.groups.len().checked_sub(latest + 1) {
            state.awaited = state.groups[index];
            state.groups.drain(..=index);
        }
        state.awaited > group.happened
    }

    /// Whether a warp has issued an MMA that has not executed.
    pub(crate) fn has_issued(&self, warp: u32) -> bool {
        self.pending > 0 && !self.groups[warp as usize / WARPS].warps[warp as usize % WARPS].issues.is_empty()
    }

    /// A warp waits for all it has issued, in groups or not. Returns whether it has to wait.
    pub(crate) fn wait_for_all(&mut self, warp: u32) -> bool {
        let (group, own) = self.of(warp);
        let state = &mut group.warps[own];
        state.awaited = state.issued;
        state.awaited > group.happened
    }

    /// Whether the MMAs that a warp waits for have executed.
    pub(crate) fn is_over(&self, warp: u32) -> bool {
        let group = &self.groups[warp as usize / WARPS];
        group.warps[warp as usize % WARPS].awaited <= group.happened
    }

    /// The warps of a waiting warp's group that have not issued the next MMA.
    pub(crate) fn missing(&self, warp: u32) -> Vec<u32> {
        let first = warp / WARPS as u32 * WARPS as u32;
        let group = &self.groups[warp as usize / WARPS];
        let missing = (0..WARPS as u32).filter(|&own| group.warps[own as usize].issues.is_empty());
        missing.map(|own| first + own).collect()
    }
}

impl Warpgroup {
    /// PTX ISA, "wgmma.mma_async": all threads of the warpgroup execute the same instruction with
    /// the same descriptors.
    fn check(&self, warp: u32, own: usize, issue: Issue) -> Result<(), Box<Failure>> {
        let index = self.warps[own].issues.len();
        let first = warp - own as u32;
        let others = self.warps.iter().zip(first..).filter(|&(_, other)| other != warp);
        for (state, other) in others {
            let Some(theirs) = state.issues.get(index) else { continue };
            let what = if theirs.pc != issue.pc {
                "another instruction".to_owned()
            } else if theirs.operands == issue.operands {
                continue;
            } else {
                differences(theirs.operands, issue.operands)
            };
            let mut failure = Failure::new(
                FaultKind::Warpgroup,
                FULL,
                format!(
                    "The four warps of a warpgroup must execute the same wgmma with the same operands; \
                     warp {other} has {what} instead."
                ),
            );
            failure.help = (theirs.pc == issue.pc).then(|| {
                "index the operands' tiles by values that the four warps share, such as `thread / 128`"
                    .to_owned()
            });
            return Err(failure);
        }
        Ok(())
    }

    /// Whether every live warp waits for the next MMA.
    fn is_awaited(&self, alive: &[u32]) -> bool {
        let awaits = |(state, &lanes): (&WarpState, &u32)| lanes == 0 || state.awaited > self.happened;
        self.warps.iter().zip(alive).all(awaits)
    }

    /// Takes the next MMA, if it executes now: the shares of the four warps, whose live lanes are
    /// `alive`.
    pub(crate) fn next(
        &mut self,
        schedule: Schedule,
        moment: Moment,
        alive: &[u32],
    ) -> Option<[Issue; WARPS]> {
        if self.warps.iter().any(|state| state.issues.is_empty()) {
            return None;
        }
        let happens = match schedule {
            _ if moment == Moment::Last => true,
            Schedule::Eager => true,
            Schedule::Latest => self.is_awaited(alive),
            Schedule::Random(_) => self.is_awaited(alive) || self.random.toss(),
        };
        if !happens {
            return None;
        }
        self.happened += 1;
        Some(self.warps.each_mut().map(|state| state.issues.pop_front().expect("every warp has issued it")))
    }
}

/// The difference from this warp's operands, as a message.
fn differences(theirs: IssueOperands, own: IssueOperands) -> String {
    if theirs.a != own.a {
        format!("the descriptor {:#x} of A, not {:#x}", theirs.a.unwrap_or(0), own.a.unwrap_or(0))
    } else if theirs.b != own.b {
        format!("the descriptor {:#x} of B, not {:#x}", theirs.b, own.b)
    } else {
        format!("scale-d {}, not {}", theirs.accumulates, own.accumulates)
    }
}

/// Which of the executable MMAs execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Those that the schedule selects.
    Now,
    /// All: nothing else can proceed.
    Last,
}

//! What a warpgroup has under way: its `wgmma` instructions between their issue and the moment they happen.
//!
//! The four warps of a warpgroup issue a multiply each at its own time. Once all four have, it may happen, at once for all
//! of them, after those issued before it. When it does happen is for the schedule to say: as soon as it may (`eager`),
//! when each warp of the group waits for it or nothing else in the CTA can go on (`latest`), or at a drawn moment. It reads
//! shared memory and registers at that moment, and writes the accumulators.

use std::collections::VecDeque;

use warpwright_events::{FULL, FaultKind};

use crate::launch::failure::Failure;
use crate::launch::schedule::{Random, Schedule};
use crate::registers::FrameBase;
use crate::tensor::warpgroup::WARPS;
use crate::tensor::warpgroup_operands::Operands;

/// One warp's share of a multiply that it has issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) pc: u32,
    /// The frame its registers are in.
    pub(crate) base: FrameBase,
    /// What must be the same in all four warps.
    pub(crate) operands: IssueOperands,
}

/// The operands that the warps of a warpgroup have in common, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IssueOperands {
    /// The descriptor of A, if it is in shared memory.
    pub(crate) a: Option<u64>,
    /// The descriptor of B.
    pub(crate) b: u64,
    /// Whether the accumulator counts.
    pub(crate) accumulates: bool,
}

/// What one warp has issued and not seen the end of.
#[derive(Debug, Default)]
struct WarpState {
    /// Multiplies that have not happened, oldest first.
    issues: VecDeque<Issue>,
    /// How many it has issued.
    issued: u64,
    /// How many it had issued when it closed each of its groups, oldest first.
    groups: VecDeque<u64>,
    /// How many must have happened before it goes on.
    awaited: u64,
}

/// The multiplies of four warps.
#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    warps: [WarpState; WARPS],
    /// How many multiplies have happened.
    happened: u64,
    random: Random,
}

/// The warpgroups of a CTA.
#[derive(Debug, Default)]
pub(crate) struct Warpgroups {
    pub(crate) groups: Vec<Warpgroup>,
    /// Shares of multiplies that were issued and have not happened: nothing is to do while there are none.
    pub(crate) pending: usize,
    /// Memory for the operands of the multiply that happens.
    pub(crate) operands: Box<Operands>,
}

impl Warpgroups {
    /// For a CTA of so many warps.
    pub(crate) fn new(warps: u32, schedule: Schedule, cta: u64) -> Self {
        let mut warpgroups = Self::default();
        warpgroups.groups.resize_with((warps as usize).div_ceil(WARPS), Warpgroup::default);
        warpgroups.reset(schedule, cta);
        warpgroups
    }

    /// Forgets everything, for another CTA.
    pub(crate) fn reset(&mut self, schedule: Schedule, cta: u64) {
        for (index, group) in self.groups.iter_mut().enumerate() {
            let random = Random::new(schedule, cta, (index as u64 + 1) << 40);
            *group = Warpgroup { random, ..Warpgroup::default() };
        }
        self.pending = 0;
    }

    /// Memory for the operands of a multiply that happens at once.
    pub(crate) fn operands(&mut self) -> &mut Operands {
        &mut self.operands
    }

    /// Whether a multiply was issued that has not happened.
    pub(crate) fn is_busy(&self) -> bool {
        self.pending > 0
    }

    fn of(&mut self, warp: u32) -> (&mut Warpgroup, usize) {
        (&mut self.groups[warp as usize / WARPS], warp as usize % WARPS)
    }

    /// A warp issues its share of a multiply.
    pub(crate) fn issue(&mut self, warp: u32, issue: Issue) -> Result<(), Box<Failure>> {
        self.pending += 1;
        let (group, own) = self.of(warp);
        group.check(warp, own, issue)?;
        group.warps[own].issues.push_back(issue);
        group.warps[own].issued += 1;
        Ok(())
    }

    /// A warp closes a group of what it has issued since it closed the last one.
    pub(crate) fn commit(&mut self, warp: u32) {
        let (group, own) = self.of(warp);
        let state = &mut group.warps[own];
        state.groups.push_back(state.issued);
    }

    /// A warp waits for all its groups but the `latest` closed last. Whether it has to.
    pub(crate) fn wait(&mut self, warp: u32, latest: usize) -> bool {
        let (group, own) = self.of(warp);
        let state = &mut group.warps[own];
        if let Some(index) = state.groups.len().checked_sub(latest + 1) {
            state.awaited = state.groups[index];
            state.groups.drain(..=index);
        }
        state.awaited > group.happened
    }

    /// Whether a warp has issued a multiply that has not happened.
    pub(crate) fn has_issued(&self, warp: u32) -> bool {
        self.pending > 0 && !self.groups[warp as usize / WARPS].warps[warp as usize % WARPS].issues.is_empty()
    }

    /// A warp waits for all it has issued, in groups or not. Whether it has to.
    pub(crate) fn wait_for_all(&mut self, warp: u32) -> bool {
        let (group, own) = self.of(warp);
        let state = &mut group.warps[own];
        state.awaited = state.issued;
        state.awaited > group.happened
    }

    /// Whether what a warp waits for has happened.
    pub(crate) fn is_over(&self, warp: u32) -> bool {
        let group = &self.groups[warp as usize / WARPS];
        group.warps[warp as usize % WARPS].awaited <= group.happened
    }

    /// The warps that have yet to issue the next multiply of the group of a warp that waits.
    pub(crate) fn missing(&self, warp: u32) -> Vec<u32> {
        let first = warp / WARPS as u32 * WARPS as u32;
        let group = &self.groups[warp as usize / WARPS];
        let missing = (0..WARPS as u32).filter(|&own| group.warps[own as usize].issues.is_empty());
        missing.map(|own| first + own).collect()
    }
}

impl Warpgroup {
    /// PTX ISA, "wgmma.mma_async": all threads of the warpgroup execute the same instruction with the same descriptors.
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
            return Err(Failure::new(
                FaultKind::Warpgroup,
                FULL,
                format!(
                    "The four warps of a warpgroup execute the same wgmma with the same operands; for this one, warp {other} came with {what}."
                ),
            ));
        }
        Ok(())
    }

    /// Whether every warp that is alive waits for the next multiply.
    fn is_awaited(&self, alive: &[u32]) -> bool {
        let awaits = |(state, &lanes): (&WarpState, &u32)| lanes == 0 || state.awaited > self.happened;
        self.warps.iter().zip(alive).all(awaits)
    }

    /// Takes the next multiply, if it happens now: the shares of the four warps, whose live lanes are `alive`.
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

/// In words, how operands differ from those of this warp.
fn differences(theirs: IssueOperands, own: IssueOperands) -> String {
    if theirs.a != own.a {
        format!("the descriptor {:#x} of A, not {:#x}", theirs.a.unwrap_or(0), own.a.unwrap_or(0))
    } else if theirs.b != own.b {
        format!("the descriptor {:#x} of B, not {:#x}", theirs.b, own.b)
    } else {
        format!("scale-d {}, not {}", theirs.accumulates, own.accumulates)
    }
}

/// Which of the multiplies that may happen do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Those that the schedule says.
    Now,
    /// All: nothing else can go on.
    Last,
}

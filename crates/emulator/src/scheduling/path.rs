//! Paths: the lanes of a warp at the same instruction.

use std::cmp::Ordering;

use crate::execution::effect::Watched;
use crate::registers::FrameBase;

/// Why a path does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    /// It is runnable.
    Ready,
    /// Its instruction needs all live lanes of the warp.
    Together,
    /// Its instruction needs the lanes of this member mask.
    Members(u32),
    /// It waits for MMAs of its warpgroup.
    Warpgroup,
    /// It has arrived at a barrier of the CTA, and waits for this generation to end.
    Barrier { id: u32, generation: u32 },
    /// It has arrived at a barrier of the CTA without waiting, and arrives again when this
    /// generation has ended.
    Again { id: u32, generation: u32 },
    /// It has arrived at the barrier of the cluster, and waits for the phase to complete.
    Cluster,
    /// The resources of its instruction are not available; it retries in its next turn.
    Attempt,
}

/// A caller's frame, to which a path returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    /// The call instruction.
    pub(crate) pc: u32,
    pub(crate) base: FrameBase,
    /// The function that called.
    pub(crate) function: u32,
}

/// Lanes that share a program counter and a call stack.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Path {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) base: FrameBase,
    /// The running function.
    pub(crate) function: u32,
    /// The frames below, outermost first.
    pub(crate) callers: Vec<Caller>,
    pub(crate) wait: Wait,
    /// It has run in this iteration, and lets other paths run first.
    pub(crate) yielded: bool,
    /// The ordered instruction that it executes in its next turn.
    pub(crate) next_ordered: Option<u32>,
    /// Whether it has done something typical of a waiting thread since its last backward branch.
    pub(crate) polled: bool,
    /// The location it last read while it waits.
    pub(crate) watched: Option<Watched>,
    /// Backward branches taken in this turn: those of waiting loops, and all.
    pub(crate) polls: u32,
    pub(crate) loops: u32,
    /// A hash of the registers when this turn had a certain number of backward branches.
    pub(crate) kept: u64,
    /// Whether an earlier turn ended because the registers repeated an earlier iteration's.
    pub(crate) repeated: bool,
}

impl Path {
    pub(crate) fn start(mask: u32) -> Self {
        Self {
            pc: 0,
            mask,
            base: FrameBase::default(),
            function: 0,
            callers: Vec::new(),
            wait: Wait::Ready,
            yielded: false,
            next_ordered: None,
            polled: false,
            watched: None,
            polls: 0,
            loops: 0,
            kept: 0,
            repeated: false,
        }
    }

    /// A new turn: no backward branch was taken in it.
    pub(crate) fn begin_turn(&mut self) {
        (self.polls, self.loops, self.kept) = (0, 0, 0);
    }

    /// Some of its lanes, at another instruction of the same frame.
    pub(crate) fn split(&self, mask: u32, pc: u32) -> Self {
        Self { pc, mask, wait: Wait::Ready, ..self.clone() }
    }

    /// Which of two paths is behind the other in program order, compared frame by frame from the
    /// outermost.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        if self.callers.is_empty() && other.callers.is_empty() {
            return self.pc.cmp(&other.pc);
        }
        let position =
            |path: &Self, depth: usize| path.callers.get(depth).map_or(path.pc, |caller| caller.pc);
        let depth = self.callers.len().min(other.callers.len());
        for level in 0..=depth {
            match position(self, level).cmp(&position(other, level)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        other.callers.len().cmp(&self.callers.len())
    }

    /// Whether the two are at the same instruction, so that they can merge.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.pc == other.pc && self.base == other.base && self.callers == other.callers
    }
}

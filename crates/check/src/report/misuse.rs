//! Violated rules of barriers and registers, where no two accesses conflict.

use warpwright_events::{Code, MbarrierAddress, MemorySpace};

use crate::report::finding::{Finding, FindingKind};
use crate::report::order::Rank;
use crate::state::mark::Mark;

/// A broken rule, in words.
#[derive(Clone, Debug)]
pub(crate) struct Misuse {
    pub(crate) kind: FindingKind,
    pub(crate) message: String,
    /// The instructions and what each did, the reported one first.
    pub(crate) locations: Vec<(Mark, String)>,
    /// The mbarrier concerned.
    pub(crate) mbarrier: Option<MbarrierAddress>,
    pub(crate) note: String,
    pub(crate) help: String,
}

impl Misuse {
    /// Misuses with the same key are reported once.
    pub(crate) fn key(&self) -> (FindingKind, u32, u32) {
        let pc = |index: usize| self.locations.get(index).map_or(u32::MAX, |(mark, _)| mark.pc);
        (self.kind, pc(0), pc(1))
    }

    /// Of several misuses with the same key, the first in the grid is reported.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        let mark = |index: usize| self.locations.get(index).map(|(mark, _)| *mark);
        (mark(0), mark(1))
    }

    /// The address concerned.
    pub(crate) fn at(&self) -> Option<(MemorySpace, u64)> {
        self.mbarrier.map(|address| (MemorySpace::Shared, address.shared()))
    }

    pub(crate) fn finding(&self, code: &Code, count: u64) -> Finding {
        let locations = self.locations.iter();
        Finding {
            kind: self.kind,
            kernel: code.kernel.clone(),
            message: self.message.clone(),
            labels: locations.map(|(mark, what)| code.label(mark.pc, what.clone())).collect(),
            memory: Vec::new(),
            notes: vec![self.note.clone()],
            help: Some(self.help.clone()),
            count,
            tile: None,
            cause: None,
            rank: Rank::of(self.kind),
            gap: None,
        }
    }
}

/// How a register of an MMA in flight is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    Read,
    Written,
    /// As the accumulator of an MMA of another shape.
    Multiplied,
    /// As A of another MMA, while it is an accumulator.
    Multiplicand,
}

//! Programmatic dependent launch: accesses that conflict with the predecessor, or with a launch in
//! front of it.
//!
//! A dependent launch may begin once every CTA of its predecessor has executed
//! `griddepcontrol.launch_dependents` or exited. The predecessor has ended, and its writes are
//! visible, only after `griddepcontrol.wait` (PTX ISA, "griddepcontrol"). The emulator runs
//! launches one after another, so the result never shows a missing wait. The checkers therefore
//! record which instructions of each launch accessed which bytes, and check a dependent launch
//! against that record.

use std::sync::Arc;

use warpwright_events::{Class, Code, FULL, LaunchInfo, LoadPath, MemorySpace};

use crate::report::conflict::{Party, byte_count, with_article};
use crate::report::finding::{Finding, FindingKind};
use crate::report::order::Rank;
use crate::state::clock::{Agent, Clock, Time};
use crate::state::footprint::{Footprint, Use, UseKind};
use crate::state::shadow::Access;

/// The end of the predecessor, as an event of a CTA outside every grid.
const END: (u32, Agent, Time) = (u32::MAX, Agent(0), 1);

/// A clock that includes the end of the predecessor.
pub(crate) fn ended() -> Clock {
    let (cta, agent, time) = END;
    let mut clock = Clock::default();
    clock.raise(cta, agent, FULL, time);
    clock
}

/// Whether a clock includes the end of the predecessor.
pub(crate) fn has_ended(known: &Clock) -> bool {
    let (cta, agent, time) = END;
    known.whole(cta, agent) >= time
}

/// The accesses of a launch to global memory.
#[derive(Debug, Default)]
pub struct PreviousLaunch {
    /// Absent if it stands for any kernel.
    code: Option<Arc<Code>>,
    accesses: Arc<Footprint>,
    /// Whether it writes all of global memory.
    writes_everything: bool,
    /// Its own predecessor, if that may still run when the next launch begins.
    predecessor: Option<Arc<PreviousLaunch>>,
}

impl PreviousLaunch {
    pub(crate) fn new(
        code: Arc<Code>,
        accesses: Arc<Footprint>,
        predecessor: Option<Arc<PreviousLaunch>>,
    ) -> Self {
        Self { code: Some(code), accesses, predecessor, writes_everything: false }
    }

    /// A launch that writes all of global memory: the worst predecessor that a library's kernel has.
    pub fn writing_everything() -> Self {
        Self { writes_everything: true, ..Self::default() }
    }

    fn kernel(&self) -> &str {
        self.code.as_ref().map_or("", |code| &code.kernel)
    }

    /// The bytes of an access that this launch uses too, or one before it that may still run.
    pub(crate) fn conflict_with(&self, access: &Access, granule: u64) -> Option<(u16, Earlier)> {
        if self.writes_everything {
            return Some((access.bytes, Earlier { pc: u32::MAX, wrote: true, launches_between: 0 }));
        }
        // Strong accesses order themselves.
        let is_weak = |used: &&Use| !matches!(used.kind, UseKind::StrongRead | UseKind::StrongWrite);
        let common = |wrote: bool| {
            let uses = self.accesses.at(granule).iter().filter(is_weak);
            let uses = uses.filter(|used| used.kind.writes() == wrote && used.bytes & access.bytes != 0);
            uses.fold(None, |common: Option<(u16, Earlier)>, used| {
                let bytes = common.map_or(0, |(bytes, _)| bytes) | used.bytes & access.bytes;
                Some((bytes, Earlier { pc: used.pc, wrote, launches_between: 0 }))
            })
        };
        let read = || if access.kind.writes() { common(false) } else { None };
        common(true).or_else(read).or_else(|| {
            let (bytes, earlier) = self.predecessor.as_ref()?.conflict_with(access, granule)?;
            Some((bytes, Earlier { launches_between: earlier.launches_between + 1, ..earlier }))
        })
    }

    /// An earlier launch: the one from which `launches_between` launches separate the access.
    fn in_front(&self, launches_between: u32) -> &Self {
        let mut launch = self;
        for _ in 0..launches_between {
            launch = launch.predecessor.as_deref().unwrap_or(launch);
        }
        launch
    }
}

/// The access of an earlier launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier {
    pc: u32,
    wrote: bool,
    /// The launches between the two.
    launches_between: u32,
}

/// An access to bytes that an earlier launch may still use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlap {
    pub(crate) later: Party,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) earlier: Earlier,
}

impl Overlap {
    /// Conflicts with the same key are reported once.
    pub(crate) fn key(&self) -> (u32, u32, u32) {
        (self.later.pc, self.earlier.pc, self.earlier.launches_between)
    }

    /// Of several conflicts with the same key, the first in the grid is reported.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        (self.later.cta, self.later.warp, self.later.lanes, self.address)
    }

    pub(crate) fn at(&self) -> (MemorySpace, u64) {
        (MemorySpace::Global, self.address)
    }

    pub(crate) fn finding(
        &self,
        launch: &LaunchInfo,
        code: &Code,
        previous: &PreviousLaunch,
        count: u64,
    ) -> Finding {
        let (what, who) = (self.later.what(), self.later.who(launch));
        let (doing, done) = if self.earlier.wrote { ("writing", "written") } else { ("reading", "read") };
        let is_predecessor = self.earlier.launches_between == 0;
        let which = if is_predecessor { "the predecessor" } else { "a launch before the predecessor" };
        let earlier = previous.in_front(self.earlier.launches_between);
        let mut labels = vec![code.label(self.later.pc, format!("{what} by {who}"))];
        let text = format!("{done} by `{}`, {which}", earlier.kernel());
        labels.extend(earlier.code.as_ref().map(|code| code.label(self.earlier.pc, text)));
        let is_non_coherent = code.instruction(self.later.pc).class == Class::Load(LoadPath::NonCoherent);
        let (note, help) = if is_non_coherent {
            (
                "this is a dependent launch, which runs beside its predecessor, and `ld.global.nc` reads what does not change while the kernel runs: ptxas moves it across griddepcontrol.wait".to_owned(),
                "load without the read-only path, after the wait: `load()` (`ld.global`)",
            )
        } else if is_predecessor {
            (
                "this is a dependent launch: its predecessor on the stream has ended, and its writes are visible, only after griddepcontrol.wait".to_owned(),
                "call `grid_dependency_wait()` (`griddepcontrol.wait`) before it, in this thread or in one that this thread then synchronizes with",
            )
        } else {
            (
                format!(
                    "`{}`, the predecessor, lets this launch begin (`griddepcontrol.launch_dependents`) before it has waited for the launch before it",
                    previous.kernel()
                ),
                "call `grid_dependency_wait()` (`griddepcontrol.wait`) before it; or, in the predecessor, before `grid_dependency_launch()`",
            )
        };
        Finding {
            kind: FindingKind::Overlap,
            kernel: code.kernel.clone(),
            message: format!(
                "{} of {} at global address {:#x} that {which} may still be {doing}",
                with_article(what),
                byte_count(self.length),
                self.address
            ),
            labels,
            memory: Vec::new(),
            notes: vec![note],
            help: Some(help.to_owned()),
            count,
            tile: None,
            cause: None,
            rank: Rank::of(FindingKind::Overlap),
            gap: None,
        }
    }
}

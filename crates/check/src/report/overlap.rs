//! Programmatic dependent launch: accesses that conflict with the predecessor.
//!
//! A dependent launch may begin once every CTA of its predecessor has executed
//! `griddepcontrol.launch_dependents` or exited. The predecessor has ended, and its writes are
//! visible, only after `griddepcontrol.wait` (PTX ISA, "griddepcontrol"). The emulator runs
//! launches one after another, so the result never shows a missing wait. The checkers therefore
//! record which instructions of each launch accessed which bytes, and check a dependent launch
//! against that record.

use std::collections::{BTreeMap, HashMap};

use warpwright_events::{Code, FULL, GRANULE, Label, LaunchInfo, MemorySpace, PAGE, Strength};

use crate::report::conflict::{Party, byte_count, with_article};
use crate::report::finding::{Finding, FindingKind};
use crate::state::clock::{Agent, Clock, Time};
use crate::state::shadow::{Access, Page};

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

/// The uses of a granule: bytes written and read, and an instruction of each kind.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    written: u16,
    read: u16,
    writer: u32,
    reader: u32,
}

/// The accesses of a launch to global memory, without strong ones, which order themselves.
#[derive(Debug)]
pub struct PreviousLaunch {
    kernel: String,
    pages: HashMap<u64, Box<[Use]>>,
    /// The instructions that accessed it.
    locations: BTreeMap<u32, Label>,
}

impl PreviousLaunch {
    pub(crate) fn new(code: &Code) -> Self {
        Self { kernel: code.kernel.clone(), pages: HashMap::new(), locations: BTreeMap::new() }
    }

    /// Records the accesses to a page.
    pub(crate) fn keep(&mut self, code: &Code, number: u64, page: &Page) {
        let mut uses = vec![Use::default(); (PAGE / GRANULE) as usize];
        for (granule, used) in page.iter().zip(&mut uses) {
            for access in &granule.accesses {
                let is_strong = access.strength != Strength::Weak && access.proxy.is_none();
                if is_strong {
                    continue;
                }
                let (bytes, instruction) = match access.kind.writes() {
                    true => (&mut used.written, &mut used.writer),
                    false => (&mut used.read, &mut used.reader),
                };
                *bytes |= access.bytes;
                *instruction = access.pc;
                self.locations.entry(access.pc).or_insert_with(|| code.label(access.pc, String::new()));
            }
        }
        self.pages.insert(number, uses.into());
    }

    /// The conflict of an access with the predecessor: the bytes, the predecessor's instruction,
    /// and whether it wrote.
    pub(crate) fn conflict_with(&self, access: &Access, granule: u64) -> Option<(u16, u32, bool)> {
        let page = self.pages.get(&(granule / PAGE))?;
        let used = page[(granule % PAGE / GRANULE) as usize];
        let (written, read) = (used.written & access.bytes, used.read & access.bytes);
        if written != 0 {
            Some((written, used.writer, true))
        } else if read != 0 && access.kind.writes() {
            Some((read, used.reader, false))
        } else {
            None
        }
    }
}

/// An access to bytes that the predecessor may still use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlap {
    pub(crate) later: Party,
    pub(crate) address: u64,
    pub(crate) length: u64,
    /// The predecessor's instruction, and whether it wrote.
    pub(crate) pc: u32,
    pub(crate) wrote: bool,
}

impl Overlap {
    /// Conflicts with the same key are reported once.
    pub(crate) fn key(&self) -> (u32, u32) {
        (self.later.pc, self.pc)
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
        let (doing, done) = if self.wrote { ("writing", "written") } else { ("reading", "read") };
        let mut labels = vec![code.label(self.later.pc, format!("{what} by {who}"))];
        let predecessor_label = |label: &Label| Label {
            text: format!("{done} by `{}`, the predecessor", previous.kernel),
            ..label.clone()
        };
        labels.extend(previous.locations.get(&self.pc).map(predecessor_label));
        Finding {
            kind: FindingKind::Overlap,
            kernel: code.kernel.clone(),
            message: format!(
                "{} of {} at global address {:#x} that the predecessor may still be {doing}",
                with_article(what),
                byte_count(self.length),
                self.address
            ),
            labels,
            memory: Vec::new(),
            notes: vec![
                "this is a dependent launch: its predecessor on the stream has ended, and its writes are visible, only after griddepcontrol.wait".to_owned(),
            ],
            help: Some(
                "call `grid_dependency_wait()` (`griddepcontrol.wait`) before it, in this thread or in one that this thread then synchronizes with".to_owned(),
            ),
            count,
            tile: None,
        }
    }
}

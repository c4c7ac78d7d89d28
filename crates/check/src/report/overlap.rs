//! The launch in front, of which a launch that overlaps it knows nothing before it has waited.
//!
//! The launches of a stream follow one another, unless one asks to overlap (programmatic dependent launch): it may begin once every
//! CTA of the one in front has executed `griddepcontrol.launch_dependents` or ended. Only behind `griddepcontrol.wait` has the one in front
//! ended, and only there is what it wrote (PTX ISA, "griddepcontrol"). The emulator runs a launch after the other, and would never
//! show it; so of each checked launch is kept which instructions touched which bytes, and an overlapping one is told of what it meets.

use std::collections::{BTreeMap, HashMap};

use warpwright_events::{Code, FULL, GRANULE, Label, LaunchInfo, MemorySpace, PAGE, Strength};

use crate::report::conflict::{Party, byte_count, with_article};
use crate::report::finding::{Finding, FindingKind};
use crate::state::clock::{Agent, Clock, Time};
use crate::state::shadow::{Access, Page};

/// The end of the launch in front, as an agent's moment that a clock may know of: that of a CTA which no grid has.
const END: (u32, Agent, Time) = (u32::MAX, Agent(0), 1);

/// The clock of one who knows that the launch in front has ended.
pub(crate) fn ended() -> Clock {
    let (cta, agent, time) = END;
    let mut clock = Clock::default();
    clock.raise(cta, agent, FULL, time);
    clock
}

/// Whether it is known by then that the launch in front has ended.
pub(crate) fn has_ended(known: &Clock) -> bool {
    let (cta, agent, time) = END;
    known.whole(cta, agent) >= time
}

/// What was done to a granule: its bytes that were written, and those that were read, and an instruction that did it.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    written: u16,
    read: u16,
    writer: u32,
    reader: u32,
}

/// What a launch did to global memory, but for strong accesses, which order themselves.
#[derive(Debug)]
pub struct PreviousLaunch {
    kernel: String,
    pages: HashMap<u64, Box<[Use]>>,
    /// The instructions that did it.
    places: BTreeMap<u32, Label>,
}

impl PreviousLaunch {
    pub(crate) fn new(code: &Code) -> Self {
        Self { kernel: code.kernel.clone(), pages: HashMap::new(), places: BTreeMap::new() }
    }

    /// Keeps what was done to a page.
    pub(crate) fn keep(&mut self, code: &Code, number: u64, page: &Page) {
        let mut uses = vec![Use::default(); (PAGE / GRANULE) as usize];
        for (granule, used) in page.iter().zip(&mut uses) {
            for access in &granule.accesses {
                let is_strong = access.strength != Strength::Weak && access.proxy.is_none();
                if is_strong {
                    continue;
                }
                let (bytes, instruction) = match access.touch.writes() {
                    true => (&mut used.written, &mut used.writer),
                    false => (&mut used.read, &mut used.reader),
                };
                *bytes |= access.bytes;
                *instruction = access.pc;
                self.places.entry(access.pc).or_insert_with(|| code.label(access.pc, String::new()));
            }
        }
        self.pages.insert(number, uses.into());
    }

    /// What an access of a granule meets: the bytes, the instruction in front, and whether that wrote.
    pub(crate) fn met_by(&self, access: &Access, granule: u64) -> Option<(u16, u32, bool)> {
        let page = self.pages.get(&(granule / PAGE))?;
        let used = page[(granule % PAGE / GRANULE) as usize];
        let (written, read) = (used.written & access.bytes, used.read & access.bytes);
        if written != 0 {
            Some((written, used.writer, true))
        } else if read != 0 && access.touch.writes() {
            Some((read, used.reader, false))
        } else {
            None
        }
    }
}

/// An access of what the launch in front may still be using.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlap {
    pub(crate) later: Party,
    pub(crate) address: u64,
    pub(crate) length: u64,
    /// The instruction in front, and whether it wrote.
    pub(crate) pc: u32,
    pub(crate) wrote: bool,
}

impl Overlap {
    /// What is told once.
    pub(crate) fn key(&self) -> (u32, u32) {
        (self.later.pc, self.pc)
    }

    /// What of several of one key is told: the first in the grid.
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
        let of_front = |label: &Label| Label {
            text: format!("{done} by `{}`, the launch in front", previous.kernel),
            ..label.clone()
        };
        labels.extend(previous.places.get(&self.pc).map(of_front));
        Finding {
            kind: FindingKind::Overlap,
            kernel: code.kernel.clone(),
            message: format!(
                "{} of {} at global address {:#x} that the launch in front may still be {doing}",
                with_article(what),
                byte_count(self.length),
                self.address
            ),
            labels,
            memory: Vec::new(),
            notes: vec![
                "the launch asks to overlap the one in front of it on the stream: that has ended, and what it wrote is there, only behind griddepcontrol.wait".to_owned(),
            ],
            help: Some(
                "execute `griddepcontrol.wait` before it, in this thread, or in one that this thread meets at a barrier after that".to_owned(),
            ),
            count,
        }
    }
}

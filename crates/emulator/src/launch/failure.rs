//! Failures: faults whose location is not yet known.

use warpwright_events::{FaultKind, MemorySpace};

/// A fault, before its location is known.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FaultKind,
    /// The lanes it concerns.
    pub(crate) lanes: u32,
    pub(crate) message: String,
    pub(crate) notes: Vec<String>,
    /// Notes that end with the location of an instruction.
    pub(crate) located_notes: Vec<(String, u32)>,
    /// A description of the event, if it says more than the lanes concerned.
    pub(crate) what: Option<String>,
    /// Related instructions, and what happened there.
    pub(crate) also: Vec<(u32, String)>,
    /// How to correct it.
    pub(crate) help: Option<String>,
    /// Whether it names the mistake itself.
    pub(crate) is_cause: bool,
    /// The addresses that it is about.
    pub(crate) addresses: Vec<(MemorySpace, u64)>,
}

impl Failure {
    pub(crate) fn new(kind: FaultKind, lanes: u32, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            kind,
            lanes,
            message: message.into(),
            notes: Vec::new(),
            located_notes: Vec::new(),
            what: None,
            also: Vec::new(),
            help: None,
            is_cause: false,
            addresses: Vec::new(),
        })
    }

    pub(crate) fn note(mut self: Box<Self>, note: impl Into<String>) -> Box<Self> {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn advise(mut self: Box<Self>, help: impl Into<String>) -> Box<Self> {
        self.help = Some(help.into());
        self
    }

    /// Adds the address, so that its name is reported. Shared addresses are those of
    /// `.shared::cluster`.
    pub(crate) fn at(mut self: Box<Self>, site: MemorySpace, address: u64) -> Box<Self> {
        self.addresses.push((site, address));
        self
    }
}

/// A failure, and the instruction it happened at.
#[derive(Debug)]
pub(crate) struct LocatedFailure {
    pub(crate) pc: u32,
    pub(crate) warp: u32,
    pub(crate) failure: Box<Failure>,
}

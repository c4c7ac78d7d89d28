//! What the 32 addresses of an access have in common, and what goes wrong with them.

use warpwright_events::{FULL, FaultKind, LANES, MemorySpace, lanes};

/// Something that stops the launch, before it is known where it happened.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) kind: FaultKind,
    /// The lanes it concerns.
    pub(crate) lanes: u32,
    pub(crate) message: String,
    pub(crate) notes: Vec<String>,
    /// What happened where it is told, if that is more than who was there.
    pub(crate) what: Option<String>,
    /// Other instructions that have to do with it, and what happened there.
    pub(crate) also: Vec<(u32, String)>,
    /// What to do about it.
    pub(crate) help: Option<String>,
    /// The addresses that it is about.
    pub(crate) addresses: Vec<(MemorySpace, u64)>,
}

impl Trouble {
    pub(crate) fn new(kind: FaultKind, lanes: u32, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            kind,
            lanes,
            message: message.into(),
            notes: Vec::new(),
            what: None,
            also: Vec::new(),
            help: None,
            addresses: Vec::new(),
        })
    }

    pub(crate) fn note(mut self: Box<Self>, note: impl Into<String>) -> Box<Self> {
        self.notes.push(note.into());
        self
    }

    /// Says which address it is about, so that what lies there is told. Shared addresses are those of `.shared::cluster`.
    pub(crate) fn at(mut self: Box<Self>, site: MemorySpace, address: u64) -> Box<Self> {
        self.addresses.push((site, address));
        self
    }
}

/// The extent and shape of the addresses of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The lowest address.
    pub(crate) first: u64,
    /// The highest address.
    pub(crate) last: u64,
    /// All addresses or'ed together: its low bits tell whether all are aligned.
    pub(crate) bits: u64,
    /// Lane `i` is at `first + i * stride`, in all 32 lanes.
    pub(crate) contiguous: bool,
}

/// The span of the lanes of a mask, which is not empty.
#[inline(always)]
pub(crate) fn span(addresses: &[u64; LANES], mask: u32, stride: u64) -> Span {
    if mask == FULL {
        let start = addresses[0];
        let (mut first, mut last, mut bits, mut off) = (u64::MAX, 0, 0, 0);
        for lane in 0..LANES {
            let address = addresses[lane];
            first = first.min(address);
            last = last.max(address);
            bits |= address;
            off |= address ^ start.wrapping_add(lane as u64 * stride);
        }
        Span { first, last, bits, contiguous: off == 0 }
    } else {
        let mut span = Span { first: u64::MAX, last: 0, bits: 0, contiguous: false };
        for lane in lanes(mask) {
            span.first = span.first.min(addresses[lane]);
            span.last = span.last.max(addresses[lane]);
            span.bits |= addresses[lane];
        }
        span
    }
}

/// The address that the lanes of a mask have in common, if it is one.
#[inline(always)]
pub(crate) fn common_address(addresses: &[u64; LANES], mask: u32) -> Option<u64> {
    let first = addresses[mask.trailing_zeros() as usize & 31];
    let differing = (0..LANES).fold(0, |bits, lane| bits | u32::from(addresses[lane] != first) << lane);
    (differing & mask == 0).then_some(first)
}

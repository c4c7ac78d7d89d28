//! Operations of two streams that use the same bytes, with nothing that orders them.

use std::ops::Range;

use warpwright_events::{AddressNames, Label, MemorySpace, Source};

use crate::host::clock::Number;
use crate::host::operation::{Operation, Transfer, host_label, shown_indices};
use crate::host::shadow::OperationUse;
use crate::report::conflict::byte_count;
use crate::report::finding::{Finding, FindingKind};
use crate::report::order::Rank;
use crate::state::footprint::{Use, UseKind};

/// The uses of the same bytes by an operation and an earlier one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clash {
    pub(crate) earlier: Number,
    /// The buffer that they are in.
    buffer: (u64, u64),
    /// The lowest address.
    first: u64,
    end: u64,
    /// The number of bytes before the last granule, and those of the last granule.
    bytes: u64,
    granule: (u64, u16),
    /// Of the lowest address: how the operation uses it, and how the earlier one does.
    uses: [(UseKind, u32); 2],
}

impl Clash {
    pub(crate) fn new(
        buffer: &Range<u64>,
        (granule, common): (u64, u16),
        used: &Use,
        earlier: &OperationUse,
    ) -> Self {
        let first = granule + u64::from(common.trailing_zeros());
        Self {
            earlier: earlier.operation,
            buffer: (buffer.start, buffer.end),
            first,
            end: first,
            bytes: 0,
            granule: (granule, 0),
            uses: [(used.kind, used.pc), (earlier.kind, earlier.pc)],
        }
    }

    /// Adds bytes of a granule, if it is in the same buffer. Granules come in the order of their
    /// addresses.
    pub(crate) fn add(&mut self, granule: u64, common: u16) {
        if !(self.buffer.0..self.buffer.1).contains(&granule) {
            return;
        }
        if self.granule.0 != granule {
            self.bytes += u64::from(self.granule.1.count_ones());
            self.granule = (granule, 0);
        }
        self.granule.1 |= common;
        self.end = granule + u64::from(u16::BITS - self.granule.1.leading_zeros());
    }

    fn bytes(&self) -> u64 {
        self.bytes + u64::from(self.granule.1.count_ones())
    }
}

/// One of the two operations, and where the host put it on its stream.
pub(crate) struct Side<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) call: &'a Source,
    /// The number of the stream, and where it was made, if that is known.
    pub(crate) stream: u32,
    pub(crate) stream_call: Option<&'a Source>,
}

/// What the later stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Nothing of the earlier stream.
    Nothing,
    /// An event that was never recorded.
    Unrecorded,
    /// An event of the earlier stream, recorded before the operation.
    TooEarly,
}

impl Side<'_> {
    fn host_label(&self, what: &str) -> Label {
        host_label(self.call, format!("{} in stream {}{what}", self.operation.name(), self.stream))
    }

    fn kernel_label(&self, (kind, pc): (UseKind, u32)) -> Option<Label> {
        let what = kind.what().trim_start_matches("a ").trim_start_matches("an ");
        let code = self.operation.code()?;
        Some(code.label(pc, format!("{what} by `{}`", code.kernel)))
    }

    fn stream_label(&self) -> Option<Label> {
        Some(host_label(self.stream_call?, format!("stream {}", self.stream)))
    }
}

impl Clash {
    pub(crate) fn finding(
        &self,
        [later, earlier]: [&Side<'_>; 2],
        awaited: Awaited,
        names: Option<&dyn AddressNames>,
    ) -> Finding {
        let [used, used_earlier] = self.uses;
        let host = [later.host_label(""), earlier.host_label(", which may still run")];
        let in_kernels = [later.kernel_label(used), earlier.kernel_label(used_earlier)];
        let streams = [earlier.stream_label(), later.stream_label()];
        let (first, second) = (earlier.operation.name(), later.operation.name());
        let mut notes: Vec<String> = self.place(later.operation, names).into_iter().collect();
        notes.extend(match awaited {
            Awaited::Nothing => None,
            Awaited::Unrecorded => Some(format!(
                "stream {} waits for an event that is not recorded, which orders nothing",
                later.stream
            )),
            Awaited::TooEarly => Some(format!(
                "stream {} waits for an event that stream {} recorded before {first}",
                later.stream, earlier.stream
            )),
        });
        let kernel = [later, earlier].iter().find_map(|side| side.operation.code());
        Finding {
            kind: FindingKind::StreamOrder,
            kernel: kernel.map_or_else(String::new, |code| code.kernel.clone()),
            message: format!(
                "nothing orders {} by {} and {} by {}, in two streams, of {} at global address {:#x}",
                used_earlier.0.what(),
                earlier.operation.actor(),
                used.0.what(),
                later.operation.actor(),
                byte_count(self.bytes()),
                self.first
            ),
            labels: host.into_iter().chain(in_kernels.into_iter().flatten()).collect(),
            memory: streams.into_iter().flatten().collect(),
            notes,
            help: Some(format!(
                "record an event in stream {} after {first}, and let stream {} wait for it before {second}: `let event = stream_{}.record()?; stream_{}.wait(&event)?`; or put both on one stream, or let them use different elements",
                earlier.stream, later.stream, earlier.stream, later.stream
            )),
            count: 1,
            tile: None,
            cause: None,
            rank: Rank::of(FindingKind::StreamOrder),
            gap: None,
        }
    }

    /// The elements of the buffer.
    fn place(&self, later: &Operation, names: Option<&dyn AddressNames>) -> Option<String> {
        let are = if self.bytes() == self.end - self.first { "these are" } else { "these are among" };
        if let Some(names) = names {
            let elements = names.elements(self.first, self.end);
            return match elements {
                Some(elements) => Some(format!("{are} {elements}")),
                None => names.name(MemorySpace::Global, self.first).note,
            };
        }
        let Operation::Transfer(transfer) = later else { return None };
        let of = [transfer.read(), transfer.written()].into_iter().flatten();
        let of = of.into_iter().find(|of| of.range().contains(&self.first))?;
        let which = match transfer {
            Transfer::Copy { from, .. } if from.buffer == of.buffer => "the source of the copy",
            Transfer::Copy { .. } => "the target of the copy",
            _ => "the buffer",
        };
        let elements = shown_indices(&of.indices(&(self.first..self.end)));
        Some(format!("{are} {elements} of {which}, which has {} elements of {}", of.count(), of.element))
    }
}

//! What the host does between launches.
//!
//! The emulator runs the operations of all streams one after another, in the order of the host's
//! calls. A GPU orders only those of one stream. The checkers keep which operation has certainly
//! ended when another one begins, as a vector clock over the streams, and which operations have
//! used each byte since the host last waited for all of them. Two operations that use the same
//! bytes conflict unless one of them writes none, both are strong, or one has ended before the
//! other begins.
//!
//! An operation has ended before another one begins if it is earlier on its stream; if an event
//! that is recorded after it is awaited by the other one's stream; or if the host has waited for
//! it, by its stream, by an event or by the device, when it calls for the other one. The host's
//! threads count as one: what one of them has waited for, all know.

mod clock;
mod operation;
mod order;
mod outputs;
mod shadow;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpwright_events::{AddressNames, Code, GRANULE, InitializedBytes, LaunchInfo, PAGE, Source};

pub use crate::host::operation::{Elements, Transfer};

use crate::host::clock::{Number, StreamClock};
use crate::host::operation::Operation;
use crate::host::order::{Awaited, Clash, Side};
use crate::host::outputs::{BufferLaunch, Outputs};
use crate::host::shadow::{DeviceShadow, OperationUse};
use crate::report::finding::Finding;
use crate::state::footprint::{Footprint, Use, UseKind};
use crate::state::shadow::bytes_in;

/// A transfer has no instruction.
const NO_INSTRUCTION: u32 = u32::MAX;

/// Checks what the host does between the launches of a device.
#[derive(Debug, Default)]
pub struct HostChecks {
    state: Mutex<HostState>,
}

#[derive(Debug, Default)]
struct HostState {
    /// The number of operations.
    operations: Number,
    /// What the host knows to have ended.
    host: StreamClock,
    /// By handle.
    streams: HashMap<usize, StreamState>,
    /// The number of streams so far.
    numbered: u32,
    /// By handle: the events that are recorded.
    events: HashMap<usize, Recorded>,
    /// The operations that may still run.
    running: BTreeMap<Number, Running>,
    shadow: DeviceShadow,
    outputs: Outputs,
}

/// An operation that may still run, and the call that it is of.
#[derive(Debug)]
struct Running {
    operation: Operation,
    call: Source,
    stream: u32,
    /// Where the stream was made.
    stream_call: Option<Arc<Source>>,
}

#[derive(Debug)]
struct StreamState {
    number: u32,
    /// Where it was made, if it was made under the checkers.
    call: Option<Arc<Source>>,
    /// What has ended when its next operation begins: its earlier ones, and what it has waited for.
    clock: StreamClock,
    /// By stream: the operation at which the last event that this stream waits for was recorded.
    awaited: BTreeMap<u32, Number>,
    /// Whether it has waited for an event that was not recorded.
    awaits_nothing: bool,
}

/// A recorded event.
#[derive(Clone, Debug)]
struct Recorded {
    stream: u32,
    /// The last operation before it.
    operation: Number,
    /// What has ended when it is reached.
    clock: StreamClock,
}

/// An operation that has begun.
#[derive(Clone, Debug)]
struct Begun {
    number: Number,
    handle: usize,
    stream: u32,
    /// What ended before.
    known: StreamClock,
}

impl HostState {
    fn stream(&mut self, handle: usize, call: Option<Source>) -> &mut StreamState {
        let numbered = &mut self.numbered;
        self.streams.entry(handle).or_insert_with(|| {
            *numbered += 1;
            StreamState {
                number: *numbered,
                call: call.map(Arc::new),
                clock: StreamClock::default(),
                awaited: BTreeMap::new(),
                awaits_nothing: false,
            }
        })
    }

    fn begin(&mut self, handle: usize, operation: Operation, call: Source) -> Begun {
        self.operations += 1;
        let (number, host) = (self.operations, self.host.clone());
        let state = self.stream(handle, None);
        state.clock.join(&host);
        let (stream, known) = (state.number, state.clock.clone());
        state.clock.raise(stream, number);
        let stream_call = state.call.clone();
        self.running.insert(number, Running { operation, call, stream, stream_call });
        Begun { number, handle, stream, known }
    }

    /// The host has waited for what a clock knows.
    fn host_learns(&mut self, clock: &StreamClock) {
        self.host.join(clock);
        let host = &self.host;
        self.running.retain(|&number, running| !host.covers(running.stream, number));
        if self.running.is_empty() {
            self.host = StreamClock::up_to(self.operations);
            self.shadow.clear();
        }
    }

    /// Records the uses of an operation, and returns its conflicts, one for each other stream: that
    /// with the last operation, which an event would have to follow.
    fn record(&mut self, begun: &Begun, uses: impl Iterator<Item = (u64, Use)>) -> BTreeMap<u32, Clash> {
        let mut clashes: BTreeMap<u32, BTreeMap<Number, Clash>> = BTreeMap::new();
        if self.host.covers(begun.stream, begun.number) {
            return BTreeMap::new();
        }
        for (granule, used) in uses {
            let Use { bytes, kind, pc } = used;
            let own = OperationUse { stream: begun.stream, operation: begun.number, pc, bytes, kind };
            self.shadow.record(granule, own, (&begun.known, &self.host), |earlier, common| {
                let of_stream = clashes.entry(earlier.stream).or_default();
                let new = || {
                    let buffer = self.outputs.around(granule).unwrap_or(granule..granule + PAGE);
                    Clash::new(&buffer, (granule, common), &used, earlier)
                };
                of_stream.entry(earlier.operation).or_insert_with(new).add(granule, common);
            });
        }
        clashes
            .into_iter()
            .filter_map(|(stream, mut clashes)| Some((stream, clashes.pop_last()?.1)))
            .collect()
    }

    /// The findings for conflicts of an operation. Each is reported once: later operations count as
    /// ordered.
    fn findings(
        &mut self,
        begun: &Begun,
        clashes: BTreeMap<u32, Clash>,
        names: Option<&dyn AddressNames>,
    ) -> Vec<Finding> {
        let findings = clashes.iter().filter_map(|(&stream, clash)| {
            let side = |number: Number| {
                let Running { operation, call, stream, stream_call } = self.running.get(&number)?;
                Some(Side { operation, call, stream: *stream, stream_call: stream_call.as_deref() })
            };
            let (later, earlier) = (side(begun.number)?, side(clash.earlier)?);
            let state = self.streams.get(&begun.handle)?;
            let awaited = match state.awaited.get(&stream) {
                Some(_) => Awaited::TooEarly,
                None if state.awaits_nothing => Awaited::Unrecorded,
                None => Awaited::Nothing,
            };
            Some(clash.finding([&later, &earlier], awaited, names))
        });
        let findings = findings.collect();
        if let Some(state) = self.streams.get_mut(&begun.handle) {
            clashes.iter().for_each(|(&stream, clash)| state.clock.raise(stream, clash.earlier));
        }
        findings
    }
}

impl HostChecks {
    fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory was allocated.
    pub fn allocated(&self, address: u64, bytes: u64) {
        self.state().outputs.allocated(address, bytes);
    }

    /// Memory was freed, which waits for the work that uses it.
    pub fn freed(&self, address: u64) {
        self.state().outputs.freed(address);
    }

    /// A stream was made by a call.
    pub fn stream_made(&self, stream: usize, call: Source) {
        self.state().stream(stream, Some(call));
    }

    /// A stream was dropped. Its work goes on.
    pub fn stream_dropped(&self, stream: usize) {
        self.state().streams.remove(&stream);
    }

    /// The host waited for the device.
    pub fn synchronized(&self) {
        let mut state = self.state();
        let all = StreamClock::up_to(state.operations);
        state.host_learns(&all);
    }

    /// The host waited for a stream, or found it idle.
    pub fn stream_synchronized(&self, stream: usize) {
        let mut state = self.state();
        let clock = state.stream(stream, None).clock.clone();
        state.host_learns(&clock);
    }

    /// An event was recorded on a stream.
    pub fn event_recorded(&self, event: usize, stream: usize) {
        let mut state = self.state();
        let operation = state.operations;
        let on = state.stream(stream, None);
        let recorded = Recorded { stream: on.number, operation, clock: on.clock.clone() };
        state.events.insert(event, recorded);
    }

    /// A stream waits for an event.
    pub fn event_awaited(&self, stream: usize, event: usize) {
        let mut state = self.state();
        let recorded = state.events.get(&event).cloned();
        let waiting = state.stream(stream, None);
        match recorded {
            Some(Recorded { stream, operation, clock }) => {
                waiting.clock.join(&clock);
                waiting.awaited.insert(stream, operation);
            }
            None => waiting.awaits_nothing = true,
        }
    }

    /// The host waited for an event, or found it reached.
    pub fn event_reached(&self, event: usize) {
        let mut state = self.state();
        if let Some(recorded) = state.events.get(&event).cloned() {
            state.host_learns(&recorded.clock);
        }
    }

    /// An event was dropped.
    pub fn event_dropped(&self, event: usize) {
        self.state().events.remove(&event);
    }

    /// A copy or a fill on a stream, by a call. Returns what is wrong with it.
    pub fn transfer(&self, stream: usize, transfer: Transfer, call: Source) -> Vec<Finding> {
        let mut state = self.state();
        if let Some(to) = transfer.written() {
            state.outputs.written(to.address(), to.bytes, matches!(transfer, Transfer::Fill(_)));
        }
        let begun = state.begin(stream, Operation::Transfer(transfer), call);
        let ranges = [(transfer.read(), UseKind::Read), (transfer.written(), UseKind::Write)];
        let uses = ranges.into_iter().filter_map(|(elements, kind)| Some((elements?, kind)));
        let uses = uses.flat_map(|(elements, kind)| {
            let Range { start: first, end } = elements.range();
            (first - first % GRANULE..end).step_by(GRANULE as usize).map(move |granule| {
                let bytes = bytes_in(granule, first, end);
                (granule, Use { bytes, kind, pc: NO_INSTRUCTION })
            })
        });
        let clashes = state.record(&begun, uses);
        state.findings(&begun, clashes, None)
    }

    /// A launch on a stream, by a call, with these bytes of parameters.
    pub fn launch(
        self: &Arc<Self>,
        stream: usize,
        call: Source,
        info: &LaunchInfo,
        parameters: &[u8],
    ) -> HostLaunch {
        let begun = self.state().begin(stream, Operation::Launch(info.code.clone()), call.clone());
        let words = parameters.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        HostLaunch { checks: self.clone(), begun, call, words }
    }

    /// The host writes bytes, and has waited for all work before.
    pub fn written(&self, address: u64, bytes: u64, is_uniform: bool) {
        self.state().outputs.written(address, bytes, is_uniform);
    }

    /// The remark for a read by the host of elements that still are what the host filled the buffer
    /// with, although launches write others. A buffer has one.
    pub fn left(&self, read: &Elements, call: &Source) -> Option<Finding> {
        self.state().outputs.left(read, call)
    }

    /// The finding for a read by the host of elements that nothing has written.
    pub fn unwritten(
        &self,
        read: &Elements,
        call: &Source,
        initialized: &InitializedBytes,
    ) -> Option<Finding> {
        self.state().outputs.unwritten(read, call, initialized)
    }
}

/// A launch as an operation of the host.
#[derive(Debug)]
pub struct HostLaunch {
    checks: Arc<HostChecks>,
    begun: Begun,
    call: Source,
    /// The parameters, as addresses.
    words: Vec<u64>,
}

impl HostLaunch {
    /// Adds to a finding for a read of what nothing has written which earlier launch has written other
    /// elements of the buffer.
    pub(crate) fn explain_unwritten(&self, address: u64, finding: &mut Finding) {
        if let Some(writer) = self.checks.state().outputs.writer(address) {
            finding.labels.extend(writer.labels());
            finding.notes.push(writer.note());
            finding.help = Some(format!(
                "check that `{}` writes the element: its grid, the index that it stores to, and the condition that it stores under",
                writer.kernel
            ));
        }
    }

    /// The launch has ended with these accesses.
    pub(crate) fn end(
        &self,
        launch: &LaunchInfo,
        code: &Code,
        accesses: &Footprint,
        names: &dyn AddressNames,
    ) -> Vec<Finding> {
        let mut state = self.checks.state();
        let mut output = BufferLaunch {
            kernel: code.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            call: self.call.clone(),
            store: None,
        };
        for &word in &self.words {
            if let Some(buffer) = state.outputs.around(word) {
                state.outputs.note(buffer.start, &output);
            }
        }
        let (mut noted, mut buffer) = (0..0, 0..0);
        for (granule, uses) in accesses.granules() {
            let store = uses.iter().find(|used| used.kind.writes());
            if let Some(store) = store.filter(|_| !noted.contains(&granule)) {
                output.store =
                    Some(code.label(store.pc, format!("`{}` writes the buffer here", code.kernel)));
                noted = state.outputs.around(granule).unwrap_or(granule..granule + GRANULE);
                state.outputs.note(noted.start, &output);
            }
            if !buffer.contains(&granule) {
                buffer = state.outputs.around(granule).unwrap_or(granule..granule + GRANULE);
            }
            state.outputs.used(buffer.start, granule, uses);
        }
        let uses =
            accesses.granules().flat_map(|(granule, uses)| uses.iter().map(move |&used| (granule, used)));
        let clashes = state.record(&self.begun, uses);
        state.findings(&self.begun, clashes, Some(names))
    }
}

//! The observer that records the traces of a launch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpwright_arch::limits::WARP_SIZE;
use warpwright_count::{Sharing, interleaved, passes, ranges};
use warpwright_events::{
    AccessKind, Actor, AsyncKind, ByteRange, ClusterObserver, Completion, Event, LANES, LaunchInfo,
    LaunchObserver, MbarrierAddress, MemorySpace, Proxy, lanes, split_shared,
};

use crate::predication::Predication;
use crate::trace::{
    ClusterTrace, Detail, Direction, Excerpt, LINE, LineRange, Moment, Record, WarpTrace, push_lines,
};

/// Records the traces of a launch's clusters.
#[derive(Debug)]
pub(crate) struct LaunchRecorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    launch: LaunchInfo,
    warps_per_cta: u32,
    traces: Mutex<Vec<ClusterTrace>>,
    predication: Predication,
    /// The bytes of the traces so far, and those after which no further cluster is recorded.
    bytes: AtomicU64,
    most_bytes: u64,
    /// What the last turn of a warp has recorded, if the launch is scheduled.
    excerpt: Mutex<Excerpt>,
    is_scheduled: bool,
    /// The first CTA of the cluster that has started last.
    last_started: AtomicU32,
}

impl LaunchRecorder {
    /// Records clusters until their traces have this many bytes, or each turn of a warp if the launch is scheduled.
    pub(crate) fn new(launch: &LaunchInfo, most_bytes: u64, is_scheduled: bool) -> Self {
        Self(Arc::new(Shared {
            warps_per_cta: launch.threads_per_cta().div_ceil(WARP_SIZE),
            launch: launch.clone(),
            predication: Predication::of(&launch.code),
            traces: Mutex::default(),
            bytes: AtomicU64::new(0),
            most_bytes,
            excerpt: Mutex::default(),
            is_scheduled,
            last_started: AtomicU32::new(0),
        }))
    }

    pub(crate) fn launch(&self) -> &LaunchInfo {
        &self.0.launch
    }

    /// The branches of the kernel that are predicates.
    pub(crate) fn predication(&self) -> &Predication {
        &self.0.predication
    }

    /// Whether the simulation schedules the launch.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.0.is_scheduled
    }

    /// The trace of the cluster that has started last, at its start.
    pub(crate) fn started(&self) -> ClusterTrace {
        let warps = self.0.launch.ctas_per_cluster() * self.0.warps_per_cta;
        ClusterTrace {
            first_cta: self.0.last_started.load(Ordering::Relaxed),
            warps: vec![WarpTrace::default(); warps as usize],
            arrivals: Vec::new(),
        }
    }

    /// What the last turn of a warp has recorded.
    pub(crate) fn excerpt(&self) -> MutexGuard<'_, Excerpt> {
        self.0.excerpt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The traces of the clusters that have ended, in the order of the grid.
    pub(crate) fn take(&self) -> Vec<ClusterTrace> {
        let mut traces = std::mem::take(&mut *self.0.traces.lock().unwrap_or_else(PoisonError::into_inner));
        traces.sort_by_key(|trace| trace.first_cta);
        traces
    }
}

impl LaunchObserver for LaunchRecorder {
    fn wants_instructions(&self) -> bool {
        true
    }

    fn cluster(&self, ctas: &[u32]) -> Box<dyn ClusterObserver> {
        if self.0.bytes.load(Ordering::Relaxed) > self.0.most_bytes {
            return Box::new(Unrecorded);
        }
        self.0.last_started.store(ctas[0], Ordering::Relaxed);
        let warps = ctas.len() * self.0.warps_per_cta as usize;
        Box::new(Recorder {
            shared: self.0.clone(),
            trace: ClusterTrace {
                first_cta: ctas[0],
                warps: vec![WarpTrace::default(); warps],
                arrivals: Vec::new(),
            },
            warps: vec![WarpState::default(); warps],
            phases: HashMap::new(),
            fresh: Vec::new(),
        })
    }
}

/// A cluster that is not recorded.
struct Unrecorded;

impl ClusterObserver for Unrecorded {
    fn event(&mut self, _: &Event<'_>) {}
}

/// A barrier of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Barrier {
    Mbarrier(MbarrierAddress),
    Cta { rank: u32, number: u32 },
    Cluster,
}

/// The state of the recording of a warp.
#[derive(Clone, Debug, Default)]
struct WarpState {
    /// The details of operations whose run is not reported yet.
    details: Vec<(u32, Detail)>,
    /// The operation that tests an mbarrier in vain in the run that is not reported yet, and its lanes.
    failed: Option<(u32, u32)>,
    /// The test that lanes repeat.
    polling: Option<(u32, u32)>,
    /// The end of the last run.
    end: u32,
    /// The barriers at which lanes have arrived and wait: the operation, the moment, and the lanes.
    waits: Vec<(u32, Moment, u32)>,
}

/// Records the trace of one cluster.
struct Recorder {
    shared: Arc<Shared>,
    trace: ClusterTrace,
    warps: Vec<WarpState>,
    /// The phases of each barrier that have passed, and the moment at which the current one ends.
    phases: HashMap<Barrier, Phase>,
    /// Arrivals since the last turn of a warp ended, if the launch is scheduled.
    fresh: Vec<(Moment, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    previous: Option<Moment>,
    current: Moment,
}

impl Recorder {
    fn index(&self, rank: u32, warp: u32) -> usize {
        (rank * self.shared.warps_per_cta + warp) as usize
    }

    fn warp(&mut self, actor: Actor) -> &mut WarpState {
        let index = self.index(actor.rank, actor.warp);
        &mut self.warps[index]
    }

    fn phase(&mut self, barrier: Barrier) -> &mut Phase {
        let arrivals = &mut self.trace.arrivals;
        self.phases.entry(barrier).or_insert_with(|| {
            arrivals.push(0);
            Phase { previous: None, current: arrivals.len() as Moment - 1 }
        })
    }

    /// The moment at which the current phase of a barrier ends.
    fn current(&mut self, barrier: Barrier) -> Moment {
        self.phase(barrier).current
    }

    /// A phase ends.
    fn pass(&mut self, barrier: Barrier) {
        let ended = self.current(barrier);
        self.trace.arrivals.push(0);
        let current = self.trace.arrivals.len() as Moment - 1;
        self.phases.insert(barrier, Phase { previous: Some(ended), current });
    }

    /// The operation of the run that the warp is in has a detail.
    fn detail(&mut self, actor: Actor, detail: Detail) {
        self.warp(actor).details.push((actor.pc, detail));
    }

    /// The same of an operation that ends a run which is reported already.
    fn late_detail(&mut self, actor: Actor, detail: Detail) {
        let index = self.index(actor.rank, actor.warp);
        if self.warps[index].end == actor.pc + 1 && self.warps[index].polling.is_none() {
            self.keep(index, actor.pc, detail);
        } else {
            self.warps[index].details.push((actor.pc, detail));
        }
    }

    fn keep(&mut self, warp: usize, pc: u32, detail: Detail) {
        let (at, count) = match detail {
            Detail::Arrive { at, count } => (Some(at), u32::from(count)),
            Detail::Track { at, .. } | Detail::Multicast { arrives: at } => (Some(at), 1),
            Detail::Copy { arrives, .. } => (arrives, 1),
            _ => (None, 0),
        };
        if let Some(at) = at {
            self.trace.arrivals[at as usize] += count;
            if self.shared.is_scheduled {
                self.fresh.push((at, count));
            }
        }
        self.trace.warps[warp].records.push(Record::Detail(pc, detail));
    }

    /// Keeps a part of a run, with its details: as more of the last run, if the two are one sequence.
    fn keep_run(&mut self, warp: usize, from: u32, end: u32, lanes: u32) {
        if from < end {
            let records = &mut self.trace.warps[warp].records;
            let last = records.iter_mut().rev().find(|record| !matches!(record, Record::Detail(..)));
            match last {
                Some(Record::Run { end: last, .. }) if self.shared.predication.continues(*last, from) => {
                    *last = end;
                }
                _ => records.push(Record::Run { from, end, lanes }),
            }
            self.warps[warp].end = end;
            let details = std::mem::take(&mut self.warps[warp].details);
            for &(pc, detail) in details.iter().filter(|(pc, _)| (from..end).contains(pc)) {
                self.keep(warp, pc, detail);
            }
            self.warps[warp].details = details;
        }
        self.warps[warp].details.clear();
    }

    /// Lanes have executed the operations up to `end`.
    fn ran(&mut self, actor: Actor, end: u32) {
        let (from, lanes) = (actor.pc, actor.lanes);
        if from == end {
            return;
        }
        let index = self.index(actor.rank, actor.warp);
        // Lanes that execute have left the barriers at which they waited.
        let trace = &mut self.trace.warps[index].records;
        self.warps[index].waits.retain(|&(pc, until, waiting)| {
            if waiting & lanes != 0 {
                trace.push(Record::Wait { pc, until });
            }
            waiting & lanes == 0
        });
        let failed = self.warps[index].failed.take();
        let polling = self.warps[index].polling;
        if let Some((pc, among)) = polling.filter(|(_, among)| among & lanes != 0) {
            let waits = |&(at, detail): &(u32, Detail)| at == pc && matches!(detail, Detail::Wait { .. });
            if failed.is_none() && self.warps[index].details.iter().any(waits) {
                self.warps[index].polling = None;
                self.keep_run(index, pc, end, lanes);
            } else {
                self.warps[index].polling = failed.or(Some((pc, among)));
                self.warps[index].details.clear();
            }
        } else if let Some((pc, among)) = failed {
            self.keep_run(index, from, pc, lanes);
            self.warps[index].polling = Some((pc, among));
        } else {
            self.keep_run(index, from, end, lanes);
        }
    }

    fn lines(&mut self, actor: Actor, ranges: impl Iterator<Item = (u64, u64)>) -> LineRange {
        let index = self.index(actor.rank, actor.warp);
        push_lines(&mut self.trace.warps[index].lines, ranges)
    }

    fn access(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        bytes: u64,
        kind: AccessKind,
    ) {
        if self.shared.launch.code.instruction(actor.pc).is_parameter_access {
            return;
        }
        let mask = actor.lanes;
        let detail = match space {
            MemorySpace::Shared => {
                let first = addresses[mask.trailing_zeros() as usize % LANES];
                let taken = passes(addresses, mask, bytes, Sharing::of(kind));
                Detail::Shared {
                    passes: taken.wavefronts as u16,
                    conflicts: taken.wavefronts.saturating_sub(taken.ideal) as u16,
                    remote: split_shared(first).0 != actor.rank,
                }
            }
            MemorySpace::Global => {
                let lines = self.lines(actor, ranges(addresses, mask, bytes).into_iter());
                let direction = match kind {
                    AccessKind::Read | AccessKind::ReadTile => Direction::Load,
                    AccessKind::Write | AccessKind::Object => Direction::Store,
                    AccessKind::Atomic => Direction::Update { conflicts: conflicts(addresses, mask) },
                };
                Detail::Global { direction, lines }
            }
            MemorySpace::Local => {
                let bytes: u64 =
                    interleaved(addresses, mask, bytes).iter().map(|(first, end)| end - first).sum();
                Detail::Local { sectors: bytes.div_ceil(32) as u16 }
            }
            MemorySpace::Tensor => return,
        };
        self.detail(actor, detail);
    }

    /// Bulk and tensor copies. `wgmma` and `cp.async` are known by their instructions.
    fn issue(&mut self, actor: Actor, proxy: Proxy, completion: Completion, ranges: &[ByteRange]) {
        let arrives = match completion {
            Completion::Mbarrier(address) => Some(self.current(Barrier::Mbarrier(address))),
            Completion::Group(AsyncKind::Bulk) => None,
            Completion::Group(_) => return,
        };
        if proxy == Proxy::Tensormap || proxy == Proxy::Generic && arrives.is_none() {
            return;
        }
        let shared = |range: &&ByteRange| range.space == MemorySpace::Shared;
        let written = ranges.iter().filter(shared).filter(|range| range.kind.writes());
        let bytes = written.map(|range| range.bytes as u32).sum::<u32>();
        let global = ranges.iter().filter(|range| range.space == MemorySpace::Global && range.bytes > 0);
        if let (Some(arrives), [range]) = (arrives, ranges)
            && range.space == MemorySpace::Shared
            && self.warp(actor).details.last().is_some_and(|(pc, last)| {
                *pc == actor.pc && matches!(last, Detail::Copy { .. } | Detail::Multicast { .. })
            })
        {
            return self.detail(actor, Detail::Multicast { arrives });
        }
        let direction = match global.clone().next().map(|range| range.kind) {
            Some(AccessKind::Write | AccessKind::Object) => Direction::Store,
            Some(AccessKind::Atomic) => Direction::Update { conflicts: 1 },
            _ => Direction::Load,
        };
        let read: u32 = ranges.iter().filter(shared).map(|range| range.bytes as u32).sum();
        // A row of a box of at least a line is read in whole lines: GEMMs whose rows begin inside of lines take up to twice
        // as long (H200, docs/results/2026-11-29-time-h200.md).
        let reach = |range: &ByteRange| {
            let (first, end) = (range.first, range.first + range.bytes);
            match direction {
                Direction::Load if range.bytes >= LINE => (first / LINE * LINE, end.next_multiple_of(LINE)),
                _ => (first, end),
            }
        };
        let lines = self.lines(actor, global.map(reach));
        self.detail(actor, Detail::Copy { direction, lines, bytes: bytes.max(read), arrives });
    }

    fn tests(&mut self, actor: Actor, mbarrier: MbarrierAddress, ended: bool) {
        if !ended {
            let warp = self.warp(actor);
            let lanes = warp.failed.map_or(0, |(_, lanes)| lanes) | actor.lanes;
            warp.failed = Some((actor.pc, lanes));
            return;
        }
        // A phase that was complete from the start has nothing to wait for.
        if let Some(until) = self.phase(Barrier::Mbarrier(mbarrier)).previous {
            let wait = Detail::Wait { until };
            if self.warp(actor).details.last() != Some(&(actor.pc, wait)) {
                self.detail(actor, wait);
            }
        } else if self.warp(actor).polling.is_some() {
            self.warp(actor).polling = None;
        }
    }
}

/// The most lanes that update one address.
fn conflicts(addresses: &[u64; LANES], mask: u32) -> u8 {
    let most =
        lanes(mask).map(|lane| lanes(mask).filter(|&other| addresses[other] == addresses[lane]).count());
    most.max().unwrap_or(1) as u8
}

impl ClusterObserver for Recorder {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Executed { actor, end } => self.ran(actor, end),
            Event::Access { actor, space, addresses, bytes, kind, .. } => {
                self.access(actor, space, addresses, bytes, kind);
            }
            Event::LaneCopies { actor, sources, targets, bytes, reading } => {
                let lines = self.lines(actor, ranges(sources, reading, bytes).into_iter());
                let passes = passes(targets, actor.lanes, bytes, Sharing::Nothing).wavefronts as u16;
                self.detail(actor, Detail::LaneCopy { lines, passes });
            }
            Event::AsyncIssue { actor, proxy, completion, ranges } => {
                self.issue(actor, proxy, completion, ranges)
            }
            Event::TensorMultiply { actor, operations, shared_bytes, .. } => {
                self.detail(actor, Detail::TensorMultiply { operations: operations as u32, shared_bytes });
            }
            Event::MbarrierArrive { actor, mbarrier, .. } => {
                let at = self.current(Barrier::Mbarrier(mbarrier));
                if let Some((pc, Detail::Arrive { at: same, count })) = self.warp(actor).details.last_mut()
                    && (*pc, *same) == (actor.pc, at)
                {
                    *count += 1;
                    return;
                }
                self.detail(actor, Detail::Arrive { at, count: 1 });
            }
            Event::MbarrierTrack { actor, mbarrier, kind } => {
                let at = self.current(Barrier::Mbarrier(mbarrier));
                self.detail(actor, Detail::Track { at, kind });
            }
            Event::MbarrierPhaseEnd { mbarrier } => self.pass(Barrier::Mbarrier(mbarrier)),
            Event::MbarrierInit { mbarrier, .. } | Event::MbarrierInvalidate { mbarrier, .. } => {
                self.phases.remove(&Barrier::Mbarrier(mbarrier));
            }
            Event::MbarrierTest { actor, mbarrier, ended, .. } => self.tests(actor, mbarrier, ended),
            Event::BarrierArrive { actor, barrier, generation, .. } => {
                self.arrives(actor, barrier, generation)
            }
            Event::ClusterArrive { actor, .. } => {
                let at = self.current(Barrier::Cluster);
                self.detail(actor, Detail::Arrive { at, count: 1 });
            }
            Event::ClusterComplete => self.pass(Barrier::Cluster),
            Event::ClusterLeave { actor } => {
                if let Some(until) = self.phase(Barrier::Cluster).previous {
                    let index = self.index(actor.rank, actor.warp);
                    // Lanes that have waited ended a run with it; others are in the middle of one.
                    if self.warps[index].end == actor.pc + 1 {
                        self.trace.warps[index].records.push(Record::Wait { pc: actor.pc, until });
                    } else {
                        self.detail(actor, Detail::Wait { until });
                    }
                }
            }
            Event::TurnEnd { rank, warp } => {
                let index = self.index(rank, warp);
                let mut excerpt = self.shared.excerpt.lock().unwrap_or_else(PoisonError::into_inner);
                // The simulation has left empty buffers here.
                std::mem::swap(&mut excerpt.trace, &mut self.trace.warps[index]);
                excerpt.arrivals.append(&mut self.fresh);
            }
            Event::End if self.shared.is_scheduled => {}
            Event::End => {
                self.shared.bytes.fetch_add(self.trace.bytes(), Ordering::Relaxed);
                let mut traces = self.shared.traces.lock().unwrap_or_else(PoisonError::into_inner);
                traces.push(std::mem::take(&mut self.trace));
            }
            _ => {}
        }
    }
}

impl Recorder {
    /// Lanes arrive at a barrier of the CTA, and wait unless it is `bar.arrive`.
    fn arrives(&mut self, actor: Actor, number: u32, generation: u32) {
        // Generations follow one another: the barrier has passed as often as this says.
        let barrier = Barrier::Cta { rank: actor.rank, number: number | generation << 8 };
        let at = self.current(barrier);
        self.late_detail(actor, Detail::Arrive { at, count: 1 });
        let waits = !self.shared.launch.code.instruction(actor.pc).text.contains(".arrive");
        if waits {
            self.warp(actor).waits.push((actor.pc, at, actor.lanes));
        }
    }
}

#[cfg(test)]
mod tests {
    use warpwright_events::{Class, Code, Inlining, Instruction, Unit, Work};

    use super::*;

    #[test]
    fn clusters_are_recorded_until_their_traces_have_too_many_bytes() {
        let instruction = Instruction {
            line: 1,
            text: "".into(),
            source: None,
            inlining: Inlining::default(),
            form: None,
            class: Class::Other,
            is_parameter_access: false,
            work: Work { unit: Unit::Control, by_lane: 0, by_warp: 0 },
            guard: None,
            writes: Box::default(),
            reads: Box::default(),
            arrays: Box::default(),
            bases: Box::default(),
        };
        let launch = LaunchInfo {
            code: Arc::new(Code {
                instructions: vec![instruction],
                of_operation: vec![0; 4],
                ..Code::default()
            }),
            grid: [10, 1, 1],
            block: [32, 1, 1],
            cluster: [1; 3],
            shared_bytes: 0,
            most_registers: None,
            least_ctas_per_sm: None,
            system_shared: 0,
            initialized: Arc::default(),
        };
        let recorder = LaunchRecorder::new(&launch, 3 * 4 * size_of::<Record>() as u64, false);
        for cta in 0..10 {
            let mut cluster = recorder.cluster(&[cta]);
            cluster.event(&Event::Executed { actor: Actor { lanes: 1, ..Actor::default() }, end: 4 });
            cluster.event(&Event::End);
        }
        let traces = recorder.take();
        assert_eq!(traces.iter().map(|trace| trace.first_cta).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(traces[0].warps[0].records, [Record::Run { from: 0, end: 4, lanes: 1 }]);
    }
}

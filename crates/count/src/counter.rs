//! The observers that count: of a launch, and of a cluster.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use warpwright_events::{
    AccessKind, Actor, AsyncKind, ByteRange, Class, ClusterObserver, Completion, Event, LANES, LaunchInfo,
    LaunchObserver, MemorySpace, Proxy, Strength, Unit, Work, lanes,
};

use crate::banks::{self, Sharing};
use crate::barriers::{Passed, Rounds};
use crate::counters::{Counters, Counts, InstructionCounts, SectorCounts, SharedCounts};
use crate::narrow::Runs;
use crate::sectors::{self, SectorSet};

/// Counts the work of each instruction of a launch.
#[derive(Debug)]
pub struct LaunchCounting(Arc<Shared>);

/// State that the counters of all clusters of a launch share.
#[derive(Debug)]
struct Shared {
    launch: LaunchInfo,
    /// The source line of each operation, by a number.
    lines: Vec<u32>,
    /// Whether the kernel has barriers of the CTA to follow.
    has_barriers: bool,
    /// Whether clusters have one CTA. Otherwise any barrier may order other CTAs' accesses to
    /// shared memory.
    alone: bool,
    /// Tables that no cluster uses now.
    spare: Mutex<Vec<Tables>>,
}

/// Executions and lanes that begin, or end, at an operation.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    executions: i64,
    lanes: i64,
}

/// Counts by operation.
#[derive(Debug)]
struct Tables {
    /// The change from each operation to the next; one more entry than operations.
    changes: Vec<Change>,
    counts: Vec<Counts>,
    /// The units of `tcgen05.mma` by operation: its types are known only when it is issued.
    tensor_units: BTreeMap<u32, Unit>,
    read: SectorSet,
    written: SectorSet,
}

impl Tables {
    fn new(operations: usize) -> Self {
        Self {
            changes: vec![Change::default(); operations + 1],
            counts: vec![Counts::default(); operations],
            tensor_units: BTreeMap::new(),
            read: SectorSet::default(),
            written: SectorSet::default(),
        }
    }

    fn absorb(&mut self, other: Self) {
        for (change, more) in self.changes.iter_mut().zip(other.changes) {
            change.executions += more.executions;
            change.lanes += more.lanes;
        }
        for (counts, more) in self.counts.iter_mut().zip(other.counts) {
            *counts += more;
        }
        self.tensor_units.extend(other.tensor_units);
        self.read.absorb(other.read);
        self.written.absorb(other.written);
    }

    fn touch(&mut self, range: (u64, u64), kind: AccessKind) {
        if kind.writes() {
            self.written.insert(range);
        }
        if kind != AccessKind::Write {
            self.read.insert(range);
        }
    }
}

impl LaunchCounting {
    /// Counting for a launch.
    pub fn new(launch: &LaunchInfo) -> Self {
        let mut numbers = HashMap::new();
        let code = &launch.code;
        let lines = code.of_operation.iter().map(|&index| {
            let instruction = &code.instructions[index as usize];
            let line = match &instruction.source {
                Some(source) => (Some(source.file.as_str()), source.line),
                None => (None, instruction.line),
            };
            let next = numbers.len() as u32;
            *numbers.entry(line).or_insert(next)
        });
        Self(Arc::new(Shared {
            lines: lines.collect(),
            has_barriers: code
                .instructions
                .iter()
                .any(|instruction| matches!(instruction.class, Class::CtaBarrier { .. })),
            alone: launch.ctas_per_cluster() == 1,
            spare: Mutex::default(),
            launch: launch.clone(),
        }))
    }

    /// The totals, once the launch has ended.
    pub fn counters(&self) -> Counters {
        let Shared { launch, lines, spare, .. } = &*self.0;
        let code = &launch.code;
        let mut tables = Tables::new(lines.len());
        let mut spare = spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.drain(..).for_each(|more| tables.absorb(more));
        let mut instructions: Vec<InstructionCounts> = Vec::new();
        let mut running = Change::default();
        for (operation, &index) in code.of_operation.iter().enumerate() {
            running.executions += tables.changes[operation].executions;
            running.lanes += tables.changes[operation].lanes;
            let mut counts = tables.counts[operation];
            // An instruction that was decoded to several operations is executed once.
            if let Some(instruction) = instructions.get_mut(index as usize) {
                counts.lanes = 0;
                instruction.counts += counts;
                continue;
            }
            counts.executions = running.executions as u64;
            // The table holds the lanes that were predicated off.
            counts.lanes = running.lanes as u64 - counts.lanes;
            let instruction = &code.instructions[index as usize];
            let unit = tables.tensor_units.get(&(operation as u32)).copied();
            instructions.push(InstructionCounts {
                ptx_line: instruction.line,
                text: instruction.text.to_string(),
                source: instruction.source.clone(),
                work: Work { unit: unit.unwrap_or(instruction.work.unit), ..instruction.work },
                counts,
            });
        }
        Counters {
            kernel: code.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            estimated_registers: launch.estimated_registers(),
            launches: 1,
            sectors_read: tables.read.len(),
            sectors_written: tables.written.len(),
            instructions,
        }
    }
}

impl LaunchObserver for LaunchCounting {
    fn wants_instructions(&self) -> bool {
        true
    }

    fn cluster(&self, ctas: &[u32]) -> Box<dyn ClusterObserver> {
        Box::new(Counter::new(&self.0, ctas.len()))
    }
}

/// Counts the work of one cluster.
#[derive(Debug)]
struct Counter {
    launch: Arc<Shared>,
    tables: Option<Tables>,
    /// By rank.
    rounds: Vec<Rounds>,
    /// By rank and warp.
    runs: HashMap<(u32, u32), Runs>,
}

impl Counter {
    /// Counts a cluster of `ctas` CTAs.
    fn new(launch: &Arc<Shared>, ctas: usize) -> Self {
        let spare = launch.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let tables = spare.unwrap_or_else(|| Tables::new(launch.lines.len()));
        Self {
            launch: launch.clone(),
            tables: Some(tables),
            rounds: (0..ctas).map(|_| Rounds::default()).collect(),
            runs: HashMap::new(),
        }
    }

    fn tables(&mut self) -> &mut Tables {
        self.tables.as_mut().expect("a counter has its tables until it is dropped")
    }

    fn counts(&mut self, pc: u32) -> &mut Counts {
        &mut self.tables().counts[pc as usize]
    }

    /// A path executed the operations from `from` up to `end`.
    fn ran(&mut self, from: u32, end: u32, lanes: u32) {
        let lanes = i64::from(lanes.count_ones());
        let changes = &mut self.tables().changes;
        changes[from as usize].executions += 1;
        changes[from as usize].lanes += lanes;
        changes[end as usize].executions -= 1;
        changes[end as usize].lanes -= lanes;
    }

    /// Lanes access `size` bytes each at their addresses.
    fn access(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        size: u64,
        kind: AccessKind,
        strength: Strength,
    ) {
        if space == MemorySpace::Local && self.launch.launch.code.instruction(actor.pc).is_parameter_access {
            return;
        }
        self.request(actor, space, addresses, size, kind);
        if kind == AccessKind::Atomic {
            self.atomic(actor, addresses);
        }
        if self.launch.has_barriers && space != MemorySpace::Local {
            let rounds = &mut self.rounds[actor.rank as usize];
            rounds.touch(actor, space, addresses, size, kind.writes());
            if space == MemorySpace::Global && strength != Strength::Weak {
                rounds.lean();
            }
        }
        let scalar = matches!(kind, AccessKind::Read | AccessKind::Write) && strength == Strength::Weak;
        if scalar && size < 16 {
            let line = self.launch.lines[actor.pc as usize];
            let runs = self.runs.entry((actor.rank, actor.warp)).or_default();
            let saved = runs.access(line, actor, space, addresses, size, kind.writes());
            self.counts(actor.pc).narrow += saved;
        }
    }

    /// The passes or sectors of an access.
    fn request(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        size: u64,
        kind: AccessKind,
    ) {
        let mask = actor.lanes;
        let counts = self.counts(actor.pc);
        if space == MemorySpace::Shared {
            let passes = banks::passes(addresses, mask, size, Sharing::of(kind));
            counts.shared += SharedCounts {
                requests: 1,
                wavefronts: passes.wavefronts,
                ideal: passes.ideal,
                bytes: size * u64::from(mask.count_ones()),
            };
            return;
        }
        let ranges = match space {
            MemorySpace::Local => sectors::interleaved(addresses, mask, size),
            _ => sectors::ranges(addresses, mask, size),
        };
        let touched = sectors::touched(&ranges);
        let counted = SectorCounts {
            requests: 1,
            sectors: touched.sectors,
            ideal: touched.ideal,
            bytes: touched.bytes,
        };
        if space == MemorySpace::Local {
            counts.local += counted;
            return;
        }
        match kind {
            AccessKind::Read => counts.global_loads += counted,
            _ => counts.global_stores += counted,
        }
        ranges.into_iter().for_each(|range| self.tables().touch(range, kind));
    }

    fn atomic(&mut self, actor: Actor, addresses: &[u64; LANES]) {
        let mut distinct: Vec<u64> = lanes(actor.lanes).map(|lane| addresses[lane]).collect();
        let operations = distinct.len() as u64;
        distinct.sort_unstable();
        distinct.dedup();
        let counts = self.counts(actor.pc);
        counts.atomics += operations;
        counts.atomic_conflicts += operations - distinct.len() as u64;
    }

    /// `cp.async` of lanes, from global to shared memory; lanes of `reading` read their sources,
    /// the others fill with zeros.
    fn lane_copies(
        &mut self,
        actor: Actor,
        sources: &[u64; LANES],
        targets: &[u64; LANES],
        size: u64,
        reading: u32,
    ) {
        if reading != 0 {
            self.request(
                Actor { lanes: reading, ..actor },
                MemorySpace::Global,
                sources,
                size,
                AccessKind::Read,
            );
        }
        self.request(actor, MemorySpace::Shared, targets, size, AccessKind::Write);
    }

    /// Asynchronous work is issued.
    fn issue(&mut self, actor: Actor, proxy: Proxy, completion: Completion, ranges: &[ByteRange]) {
        self.lean(actor);
        // `cp.async` is counted by warps. Accesses of tensor cores and moves of tensor memory are
        // not copies.
        let counted_elsewhere = matches!(completion, Completion::Group(kind) if kind != AsyncKind::Bulk);
        if counted_elsewhere || proxy == Proxy::Tensormap {
            return;
        }
        let copies = &mut self.counts(actor.pc).copies;
        copies.copies += 1;
        copies.bytes +=
            ranges.iter().filter(|range| range.kind.writes()).map(|range| range.bytes).sum::<u64>();
        let global = ranges.iter().filter(|range| range.space == MemorySpace::Global && range.bytes > 0);
        let mut of_global: Vec<(u64, u64)> =
            global.clone().map(|range| (range.first, range.first + range.bytes)).collect();
        for range in global {
            self.tables().touch((range.first, range.first + range.bytes), range.kind);
        }
        of_global.sort_unstable();
        let touched = sectors::touched(&of_global);
        let copies = &mut self.counts(actor.pc).copies;
        copies.sectors += touched.sectors;
        copies.ideal += touched.ideal;
    }

    /// A `tcgen05.mma` is issued.
    fn multiply(&mut self, actor: Actor, unit: Unit, operations: u64) {
        self.tables().tensor_units.insert(actor.pc, unit);
        self.counts(actor.pc).tensor_operations += operations;
    }

    /// Something that may lean on the barriers around it.
    fn lean(&mut self, actor: Actor) {
        if self.launch.has_barriers {
            self.rounds[actor.rank as usize].lean();
        }
    }

    fn passed(&mut self, passed: Option<Passed>) {
        if let Some(Passed { pc, needed }) = passed {
            let idle = !needed && self.launch.alone;
            let counts = self.counts(pc);
            counts.barriers += 1;
            counts.idle_barriers += u64::from(idle);
        }
    }
}

impl ClusterObserver for Counter {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Executed { actor, end } => self.ran(actor.pc, end, actor.lanes),
            Event::PredicatedOff { actor } => {
                self.counts(actor.pc).lanes += u64::from(actor.lanes.count_ones())
            }
            Event::Diverged { actor } => self.counts(actor.pc).divergent_branches += 1,
            Event::Access { actor, space, addresses, bytes, kind, strength, .. } => {
                self.access(actor, space, addresses, bytes, kind, strength);
            }
            Event::LaneCopies { actor, sources, targets, bytes, reading } => {
                self.lane_copies(actor, sources, targets, bytes, reading);
            }
            Event::TensorMultiply { actor, unit, operations, .. } => self.multiply(actor, unit, operations),
            Event::AsyncIssue { actor, proxy, completion, ranges } => {
                self.issue(actor, proxy, completion, ranges);
            }
            Event::BarrierArrive { actor, barrier, generation, all: true } if self.launch.has_barriers => {
                self.rounds[actor.rank as usize].arrive(barrier, generation);
            }
            Event::BarrierLeave { actor, barrier, generation } if self.launch.has_barriers => {
                let passed = self.rounds[actor.rank as usize].leave(actor.pc, barrier, generation);
                self.passed(passed);
            }
            Event::Fence { actor, .. }
            | Event::MbarrierInit { actor, .. }
            | Event::MbarrierInvalidate { actor, .. }
            | Event::MbarrierArrive { actor, .. }
            | Event::MbarrierTrack { actor, .. }
            | Event::MbarrierTest { actor, .. }
            | Event::AsyncWait { actor, .. } => self.lean(actor),
            Event::End => {
                for rank in 0..self.rounds.len() {
                    let passed = self.rounds[rank].end();
                    self.passed(passed);
                }
            }
            _ => {}
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let tables = self.tables.take();
        self.launch.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(tables);
    }
}

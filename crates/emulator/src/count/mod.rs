//! Counts what a launch does, by instruction: "not wrong, but slow".
//!
//! A [`Counter`] watches one cluster through the [`Observer`](crate::check::Observer), as the checkers do, and hands its tables
//! to the next cluster when it is done; [`LaunchCounting`] adds up all tables at the end. Executions are not counted one by
//! one: a path reports the stretch of code it has run, and both ends of the stretch are noted; a running sum over the code gives
//! the executions of each instruction. `docs/report.md` tells the rules and what they do not model.

mod banks;
mod barriers;
mod counters;
mod narrow;
mod sectors;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use banks::Sharing;
use barriers::{Passed, Rounds};
pub use counters::{CopyCounts, Counters, Counts, InstructionCounts, LineCounts, SectorCounts, SharedCounts};
use narrow::Runs;
use sectors::SectorSet;
pub use work::{Unit, Work};

use crate::check::{Actor, Completion, GroupKind, Proxy, Range, Site, Strength, Touch};
use crate::launch::LaunchContext;
use crate::operation::Kind;
use crate::program::Kernel;
use crate::registers::{LANES, lanes};

/// What the counters of all clusters of a launch share.
#[derive(Debug)]
pub(crate) struct LaunchCounting {
    /// The line of each operation, by a number.
    lines: Vec<u32>,
    /// Whether each operation passes parameters to a function. Such variables are in the emulator's local memory, and in the
    /// hardware's registers.
    passes_parameters: Vec<bool>,
    /// Whether the kernel has barriers of the CTA to follow.
    has_barriers: bool,
    /// Whether clusters are of one CTA. What other CTAs do with shared memory may lean on any barrier.
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

/// What was counted, by operation.
#[derive(Debug)]
struct Tables {
    /// What changes from each operation to the next; one more than there are operations.
    changes: Vec<Change>,
    counts: Vec<Counts>,
    read: SectorSet,
    written: SectorSet,
}

impl Tables {
    fn new(operations: usize) -> Self {
        Self {
            changes: vec![Change::default(); operations + 1],
            counts: vec![Counts::default(); operations],
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
        self.read.absorb(other.read);
        self.written.absorb(other.written);
    }

    fn touch(&mut self, range: (u64, u64), touch: Touch) {
        if touch.writes() {
            self.written.insert(range);
        }
        if touch != Touch::Write {
            self.read.insert(range);
        }
    }
}

impl LaunchCounting {
    /// Counting for launches of a kernel in clusters of so many CTAs.
    pub(crate) fn new(kernel: &Kernel, ctas_per_cluster: u32) -> Self {
        let mut numbers = HashMap::new();
        let line = |origin: &crate::program::Origin| match origin.location {
            Some(location) => (Some(location.file), location.line),
            None => (None, origin.line),
        };
        let lines = kernel.origins.iter().map(|origin| {
            let next = numbers.len() as u32;
            *numbers.entry(line(origin)).or_insert(next)
        });
        Self {
            lines: lines.collect(),
            passes_parameters: kernel.origins.iter().map(|origin| origin.text.contains(".param")).collect(),
            has_barriers: kernel
                .operations
                .iter()
                .any(|operation| matches!(operation.kind, Kind::Barrier(_))),
            alone: ctas_per_cluster == 1,
            spare: Mutex::default(),
        }
    }

    /// What was counted in all.
    pub(crate) fn counters(&self, launch: &LaunchContext<'_>) -> Counters {
        let kernel = launch.kernel;
        let mut tables = Tables::new(kernel.operations.len());
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.drain(..).for_each(|more| tables.absorb(more));
        let mut instructions: Vec<InstructionCounts> = Vec::new();
        let mut running = Change::default();
        for (index, origin) in kernel.origins.iter().enumerate() {
            running.executions += tables.changes[index].executions;
            running.lanes += tables.changes[index].lanes;
            let mut counts = tables.counts[index];
            // An instruction that was decoded to several operations is executed once.
            let continues = index > 0 && Arc::ptr_eq(&origin.text, &kernel.origins[index - 1].text);
            if let (true, Some(instruction)) = (continues, instructions.last_mut()) {
                counts.lanes = 0;
                instruction.counts += counts;
                continue;
            }
            counts.executions = running.executions as u64;
            // The table holds the lanes that were predicated off.
            counts.lanes = running.lanes as u64 - counts.lanes;
            instructions.push(InstructionCounts {
                ptx_line: origin.line,
                text: origin.text.to_string(),
                source: origin.location.map(|location| kernel.source(location)),
                work: Work::of(&origin.text),
                counts,
            });
        }
        Counters {
            kernel: kernel.name.clone(),
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            launches: 1,
            sectors_read: tables.read.len(),
            sectors_written: tables.written.len(),
            instructions,
        }
    }
}

/// Counts what one cluster does.
#[derive(Debug)]
pub(crate) struct Counter {
    launch: Arc<LaunchCounting>,
    tables: Option<Tables>,
    /// By rank.
    rounds: Vec<Rounds>,
    /// By rank and warp.
    runs: HashMap<(u32, u32), Runs>,
}

impl Counter {
    /// Counts a cluster of so many CTAs.
    pub(crate) fn new(launch: &Arc<LaunchCounting>, ctas: usize) -> Self {
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

    /// A path ran the operations from one place up to another.
    pub(crate) fn ran(&mut self, from: u32, end: u32, lanes: u32) {
        let lanes = i64::from(lanes.count_ones());
        let changes = &mut self.tables().changes;
        changes[from as usize].executions += 1;
        changes[from as usize].lanes += lanes;
        changes[end as usize].executions -= 1;
        changes[end as usize].lanes -= lanes;
    }

    /// Lanes were on the path of an operation and did not execute it.
    pub(crate) fn predicated_off(&mut self, pc: u32, lanes: u32) {
        self.counts(pc).lanes += u64::from(lanes.count_ones());
    }

    /// Lanes of a warp parted at a branch.
    pub(crate) fn diverged(&mut self, pc: u32) {
        self.counts(pc).divergent_branches += 1;
    }

    /// Lanes access `size` bytes each at their addresses.
    pub(crate) fn access(
        &mut self,
        actor: Actor,
        site: Site,
        addresses: &[u64; LANES],
        size: u64,
        touch: Touch,
        strength: Strength,
    ) {
        if site == Site::Local && self.launch.passes_parameters[actor.pc as usize] {
            return;
        }
        self.request(actor, site, addresses, size, touch);
        if touch == Touch::Atomic {
            self.atomic(actor, addresses);
        }
        if self.launch.has_barriers && site != Site::Local {
            let rounds = &mut self.rounds[actor.rank as usize];
            rounds.touch(actor, site, addresses, size, touch.writes());
            if site == Site::Global && strength != Strength::Weak {
                rounds.lean();
            }
        }
        let scalar = matches!(touch, Touch::Read | Touch::Write) && strength == Strength::Weak;
        if scalar && size < 16 {
            let line = self.launch.lines[actor.pc as usize];
            let runs = self.runs.entry((actor.rank, actor.warp)).or_default();
            let saved = runs.access(line, actor, site, addresses, size, touch.writes());
            self.counts(actor.pc).narrow += saved;
        }
    }

    /// The passes or sectors of an access.
    fn request(&mut self, actor: Actor, site: Site, addresses: &[u64; LANES], size: u64, touch: Touch) {
        let mask = actor.lanes;
        let counts = self.counts(actor.pc);
        if site == Site::Shared {
            let sharing = if touch == Touch::Read { Sharing::Pairs } else { Sharing::Nothing };
            let passes = banks::passes(addresses, mask, size, sharing);
            counts.shared += SharedCounts {
                requests: 1,
                wavefronts: passes.wavefronts,
                ideal: passes.ideal,
                bytes: size * u64::from(mask.count_ones()),
            };
            return;
        }
        let ranges = match site {
            Site::Local => sectors::interleaved(addresses, mask, size),
            _ => sectors::ranges(addresses, mask, size),
        };
        let touched = sectors::touched(&ranges);
        let counted = SectorCounts {
            requests: 1,
            sectors: touched.sectors,
            ideal: touched.ideal,
            bytes: touched.bytes,
        };
        if site == Site::Local {
            counts.local += counted;
            return;
        }
        counts.global += counted;
        ranges.into_iter().for_each(|range| self.tables().touch(range, touch));
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

    /// `cp.async` of lanes, from global to shared memory; lanes of `reading` read their sources, the others fill with zeros.
    pub(crate) fn lane_copies(
        &mut self,
        actor: Actor,
        sources: &[u64; LANES],
        targets: &[u64; LANES],
        size: u64,
        reading: u32,
    ) {
        if reading != 0 {
            self.request(Actor { lanes: reading, ..actor }, Site::Global, sources, size, Touch::Read);
        }
        self.request(actor, Site::Shared, targets, size, Touch::Write);
    }

    /// Asynchronous work is issued.
    pub(crate) fn issue(&mut self, actor: Actor, proxy: Proxy, completion: Completion, ranges: &[Range]) {
        self.lean(actor);
        // `cp.async` is counted by warps, and what tensor cores read and write is no copy, nor are moves of tensor memory.
        let counted_elsewhere = matches!(completion, Completion::Group(kind) if kind != GroupKind::Bulk);
        if counted_elsewhere || proxy == Proxy::Tensormap {
            return;
        }
        let copies = &mut self.counts(actor.pc).copies;
        copies.copies += 1;
        copies.bytes +=
            ranges.iter().filter(|range| range.touch.writes()).map(|range| range.bytes).sum::<u64>();
        let global = ranges.iter().filter(|range| range.site == Site::Global && range.bytes > 0);
        let mut of_global: Vec<(u64, u64)> =
            global.clone().map(|range| (range.first, range.first + range.bytes)).collect();
        for range in global {
            self.tables().touch((range.first, range.first + range.bytes), range.touch);
        }
        of_global.sort_unstable();
        let touched = sectors::touched(&of_global);
        let copies = &mut self.counts(actor.pc).copies;
        copies.sectors += touched.sectors;
        copies.ideal += touched.ideal;
    }

    /// Something that may lean on the barriers around it.
    pub(crate) fn lean(&mut self, actor: Actor) {
        if self.launch.has_barriers {
            self.rounds[actor.rank as usize].lean();
        }
    }

    /// Lanes arrive at a barrier of the CTA that waits for all its threads.
    pub(crate) fn barrier_arrive(&mut self, actor: Actor, barrier: u32, generation: u32) {
        if self.launch.has_barriers {
            self.rounds[actor.rank as usize].arrive(barrier, generation);
        }
    }

    /// Lanes go on from a barrier of the CTA.
    pub(crate) fn barrier_leave(&mut self, actor: Actor, barrier: u32, generation: u32) {
        if self.launch.has_barriers {
            let passed = self.rounds[actor.rank as usize].leave(actor.pc, barrier, generation);
            self.passed(passed);
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

    /// All CTAs of the cluster have ended.
    pub(crate) fn finish(&mut self) {
        for rank in 0..self.rounds.len() {
            let passed = self.rounds[rank].end();
            self.passed(passed);
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let tables = self.tables.take();
        self.launch.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(tables);
    }
}

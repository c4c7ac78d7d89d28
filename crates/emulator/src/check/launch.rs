//! What the checkers of all clusters of a launch share.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::clock::Clock;
use super::event::{Site, Touch};
use super::finding::{Finding, FindingKind};
use super::firsts::Firsts;
use super::guess::Guesses;
use super::in_front::{InFront, Overtaking};
use super::locations::SyncLocations;
use super::memory::GlobalShadow;
use super::misuse::Misuse;
use super::report::Conflict;
use super::trusting::trusting_loads;
use crate::launch::LaunchContext;
use crate::memory::InitialisedBytes;
use crate::program::Kernel;
use crate::registers::LANES;

/// The checkers of a launch.
#[derive(Debug)]
pub(crate) struct LaunchChecks {
    grid: [u32; 3],
    /// Whether the kernel fences what it does in tensor memory. One that never does is not asked to: Triton and CUTLASS write none, and rely on
    /// the waits.
    pub(super) fences_tensor_memory: bool,
    /// The lanes of a CTA's warps.
    pub(super) populations: Vec<u32>,
    /// Held by the CTA that is within a strong access to global memory.
    turn: Mutex<()>,
    /// What strong accesses to global memory have released.
    locations: Mutex<SyncLocations>,
    pub(super) global: GlobalShadow,
    pub(super) guesses: Guesses,
    /// By kind, between two lines.
    conflicts: Firsts<(FindingKind, u32, u32), Conflict>,
    misuses: Firsts<(FindingKind, u32, u32), Misuse>,
    /// The launch that this one may overlap.
    pub(super) in_front: Option<Arc<InFront>>,
    /// By a line of this launch, and one of the launch in front.
    overtakings: Firsts<(u32, u32), Overtaking>,
    /// What this one did, once it has ended.
    done: OnceLock<Arc<InFront>>,
    /// Loads of shared memory that have read something which was written. What else their lines read may be the end of a
    /// tile that a problem does not fill, whose values nobody uses.
    good_reads: Mutex<BTreeSet<u32>>,
    /// Loads that take what they find.
    pub(super) trusting: HashSet<u32>,
    /// If there are any: what a thread has heard of that reads a location which strong accesses have written.
    rumours: Mutex<HashMap<u64, Clock>>,
}

/// Locations at which threads hear of others at most. Of more of them nothing is told.
const MOST_RUMOURS: usize = 1 << 16;

impl LaunchChecks {
    /// The checkers of a launch, which may begin before `in_front` has ended.
    pub(crate) fn new(
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        initialised: Arc<InitialisedBytes>,
        in_front: Option<Arc<InFront>>,
    ) -> Self {
        let threads: u32 = block.iter().product();
        let warps = threads.div_ceil(LANES as u32);
        let population = |warp: u32| match threads - warp * LANES as u32 {
            left if left >= LANES as u32 => u32::MAX,
            left => (1 << left) - 1,
        };
        let mut texts = kernel.origins.iter().map(|origin| &*origin.text);
        Self {
            grid,
            fences_tensor_memory: texts.any(|text| text.contains("tcgen05.fence::after_thread_sync")),
            populations: (0..warps).map(population).collect(),
            turn: Mutex::default(),
            locations: Mutex::default(),
            global: GlobalShadow::new(initialised),
            guesses: Guesses::default(),
            conflicts: Firsts::default(),
            misuses: Firsts::default(),
            in_front,
            overtakings: Firsts::default(),
            done: OnceLock::new(),
            good_reads: Mutex::default(),
            trusting: trusting_loads(kernel),
            rumours: Mutex::default(),
        }
    }

    /// Waits for the turn of a strong access to global memory.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn locations(&self) -> MutexGuard<'_, SyncLocations> {
        self.locations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread hears that reads a location.
    pub(super) fn heard_at(&self, address: u64) -> Option<Clock> {
        self.rumours.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }

    /// A location is written by a thread that knows and has heard so much: by a store, which `replaces` what was told there, or by an
    /// atomic operation, which adds to it.
    pub(super) fn tell(&self, address: u64, replaces: bool, heard: Clock) {
        let mut rumours = self.rumours.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = rumours.len() < MOST_RUMOURS;
        match rumours.get_mut(&address) {
            Some(told) if replaces => *told = heard,
            Some(told) => told.join(&heard),
            None if has_room => drop(rumours.insert(address, heard)),
            None => {}
        }
    }

    /// The index in the grid of a CTA.
    pub(super) fn cta_index(&self, linear: u32) -> [u32; 3] {
        let [width, height, _] = self.grid;
        [linear % width, linear / width % height, linear / (width * height)]
    }

    /// `CTA (1, 0, 0)`
    pub(super) fn cta_name(&self, linear: u32) -> String {
        let [x, y, z] = self.cta_index(linear);
        format!("CTA ({x}, {y}, {z})")
    }

    pub(super) fn report(&self, conflict: Conflict) {
        self.conflicts.note(conflict.key(), conflict, Conflict::rank);
    }

    pub(super) fn report_misuse(&self, misuse: Misuse) {
        self.misuses.note(misuse.key(), misuse, Misuse::rank);
    }

    pub(super) fn report_overtaking(&self, overtaking: Overtaking) {
        self.overtakings.note(overtaking.key(), overtaking, Overtaking::rank);
    }

    /// What the launch did, once it has ended and its findings were asked for.
    pub(crate) fn done(&self) -> Option<Arc<InFront>> {
        self.done.get().cloned()
    }

    pub(super) fn note_good_reads(&self, instructions: impl Iterator<Item = u32>) {
        self.good_reads.lock().unwrap_or_else(PoisonError::into_inner).extend(instructions);
    }

    /// All that was found, in the order of the program.
    pub(crate) fn findings(&self, context: &LaunchContext<'_>) -> Vec<Finding> {
        let kernel = context.kernel;
        let mut done = InFront::new(kernel);
        self.global.finish(|number, page| done.keep(kernel, number, page));
        self.done.get_or_init(|| Arc::new(done));
        self.guesses.take().into_iter().for_each(|conflict| self.report(conflict));
        let conflicts = self.conflicts.lock();
        let good = self.good_reads.lock().unwrap_or_else(PoisonError::into_inner);
        // A line that is unrolled is one load: the last of a pipeline may look ahead to a tile that never comes.
        let line =
            |pc: u32| kernel.origins[pc as usize].location.map(|location| (location.file, location.line));
        let good_lines: BTreeSet<_> = good.iter().filter_map(|&pc| line(pc)).collect();
        let is_good = |pc: u32| good.contains(&pc) || line(pc).is_some_and(|line| good_lines.contains(&line));
        let of_padding = |conflict: &Conflict| {
            conflict.kind == FindingKind::Uninitialised
                && matches!(conflict.site, Site::Shared | Site::Local)
                && conflict.later.touch == Touch::Read
                && is_good(conflict.later.pc)
        };
        let misuses = self.misuses.lock();
        // One who initialises an mbarrier again races with who did before.
        let of_misuse = |&(_, later, earlier): &(FindingKind, u32, u32)| {
            misuses.contains_key(&(FindingKind::Barrier, later, earlier))
        };
        let told = conflicts.iter().filter(|(key, (conflict, _))| !of_padding(conflict) && !of_misuse(key));
        let told = told
            .map(|(key, (conflict, count))| (*key, conflict.at(), conflict.finding(self, kernel, *count)));
        let misused = misuses.iter().filter(|(_, (misuse, _))| misuse.holds(kernel));
        let misused =
            misused.map(|(key, (misuse, count))| (*key, misuse.at(), misuse.finding(kernel, *count)));
        let overtakings = self.overtakings.lock();
        let overtook = self.in_front.iter().flat_map(|in_front| {
            overtakings.iter().map(|(&(later, earlier), (overtaking, count))| {
                let finding = overtaking.finding(self, kernel, in_front, *count);
                ((FindingKind::Overlap, later, earlier), Some(overtaking.at()), finding)
            })
        });
        let mut findings: Vec<_> = told.chain(misused).chain(overtook).collect();
        findings.sort_by_key(|&((kind, later, earlier), ..)| (later, earlier, kind));
        let told = told_once(findings.into_iter().map(|(_, at, finding)| (finding, at)));
        let with_place = |(mut finding, at): (Finding, Option<(Site, u64)>)| {
            if let Some((site, address)) = at {
                context.place(site, address).tell(&mut finding.memory, &mut finding.notes);
            }
            finding
        };
        told.into_iter().map(with_place).collect()
    }
}

/// Findings of the same kind at the same places of the author's source are one: of several instructions that a line became.
fn told_once<At>(findings: impl Iterator<Item = (Finding, At)>) -> Vec<(Finding, At)> {
    let mut told: Vec<(Finding, At)> = Vec::new();
    for (finding, at) in findings {
        let alike = |(other, _): &&mut (Finding, At)| {
            other.kind == finding.kind
                && other.labels.len() == finding.labels.len()
                && other
                    .labels
                    .iter()
                    .zip(&finding.labels)
                    .all(|(a, b)| a.source.is_some() && a.source == b.source)
        };
        match told.iter_mut().find(alike) {
            Some((known, _)) => known.count += finding.count,
            None => told.push((finding, at)),
        }
    }
    told
}

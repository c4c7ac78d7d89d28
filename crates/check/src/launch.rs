//! State that the checkers of all clusters of a launch share.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpwright_events::{
    AccessKind, AddressNames, Class, Code, Inlining, Instruction, LANES, LaunchInfo, MemorySpace, Origins,
    Register, TileOperand, split_shared, unset_registers,
};

use crate::host::HostLaunch;
use crate::report::conflict::Conflict;
use crate::report::finding::{Finding, FindingKind};
use crate::report::firsts::Firsts;
use crate::report::guess::Guesses;
use crate::report::merge::{Merged, merged_races, reported_once};
use crate::report::misuse::Misuse;
use crate::report::overlap::{Overlap, PreviousLaunch};
use crate::report::overrun::Overrun;
use crate::report::parting::{Parting, Skipped, meet_between};
use crate::rules::loads::{Rivals, non_coherent_loads, racing_loads, trusting_loads};
use crate::state::barrier::Meetings;
use crate::state::clock::Clock;
use crate::state::footprint::Footprint;
use crate::state::locations::SyncLocations;
use crate::state::memory::GlobalShadow;

/// State that the checkers of all clusters of a launch share.
#[derive(Debug)]
pub(crate) struct LaunchState {
    pub(crate) info: LaunchInfo,
    /// Whether the kernel uses tensor-memory fences. A kernel without any, as Triton and CUTLASS
    /// emit, is not checked for them.
    pub(crate) fences_tensor_memory: bool,
    /// The lanes of a CTA's warps.
    pub(crate) populations: Vec<u32>,
    /// What strong accesses to global memory have released.
    locations: Mutex<SyncLocations>,
    pub(crate) global: GlobalShadow,
    pub(crate) guesses: Guesses,
    /// Unordered accesses, by kind and pair of lines.
    conflicts: Firsts<(FindingKind, u32, u32, Option<TileOperand>), Conflict>,
    misuses: Firsts<(FindingKind, u32, u32), Misuse>,
    /// Whether the code is of the kernel language: no compiler has repeated or moved its instructions.
    pub(crate) is_recorded: bool,
    /// The arrays that addresses are computed from.
    pub(crate) origins: Origins,
    /// By instruction and array.
    overruns: Firsts<(u32, u32), Overrun>,
    /// The launch that this one may overlap.
    pub(crate) previous: Option<Arc<PreviousLaunch>>,
    /// The launch as an operation of the host.
    on_stream: Option<HostLaunch>,
    /// Whether the predecessor has ended when the next launch begins.
    ends_predecessor: AtomicBool,
    /// By instruction of this launch and of an earlier one.
    overlaps: Firsts<(u32, u32, u32), Overlap>,
    /// Loads of shared memory that have read written bytes. Unwritten bytes that their instructions
    /// read elsewhere may be the unused end of a partial tile, unless their value is used.
    good_reads: Mutex<BTreeSet<u32>>,
    /// Loads of unwritten memory whose values are used, and the first use of each.
    used_loads: Mutex<BTreeMap<u32, u32>>,
    /// MMAs that have read a tile of which all is written. Rows that nothing has written are
    /// padding in other tiles of theirs.
    whole_tiles: Mutex<BTreeSet<(u32, TileOperand)>>,
    /// Bulk and tensor stores that several lanes issue with the same operands.
    repeated_stores: Mutex<BTreeSet<u32>>,
    /// Loads that rely on an order.
    pub(crate) trusting: HashSet<u32>,
    /// Strong loads that race with strong stores.
    pub(crate) racing: HashMap<u32, Rivals>,
    /// Registers that a kernel of the kernel language may read before it writes them. Compilers leave registers
    /// unset whose bits they do not use: Triton, halves of a pair.
    pub(crate) unset: Vec<Register>,
    /// Loads through the read-only path.
    pub(crate) non_coherent: HashSet<u32>,
    /// By instruction and barrier: the warps that meet there, in any CTA.
    meetings: Mutex<BTreeMap<(u32, u32), Meetings>>,
    /// By named barrier: the warps that meet there, in any CTA.
    completions: Mutex<BTreeMap<u32, Meetings>>,
    /// If the kernel has such loads: what a thread observes when it reads a location written by
    /// strong accesses.
    observed: Mutex<HashMap<u64, Clock>>,
}

/// The maximum number of locations tracked in this way; further ones are not checked.
const MAX_OBSERVED: usize = 1 << 16;

/// Whether code has Rust's source lines and no calls that a compiler has inlined.
fn is_recorded(code: &Code) -> bool {
    let mut sources =
        code.instructions.iter().filter_map(|instruction| instruction.source.as_ref()).peekable();
    sources.peek().is_some()
        && sources.all(|source| source.file.ends_with(".rs"))
        && code.instructions.iter().all(|instruction| instruction.inlining == Inlining::default())
}

/// How to correct a store that several threads issue.
const REPEATED_STORE: &str = "let one thread issue the copy (`elect`, or `if lane == 0`), and the same thread commit and wait: each lane that \
                              executes it issues a copy of its own, for which the wait of another lane does not count";

/// What an instruction uses an undefined value for.
fn used_here(instruction: &Instruction) -> &'static str {
    match instruction.class {
        Class::Load(_) | Class::Store | Class::Atomic | Class::Reduction => {
            "its value, or a result of it, is stored here, is the address, or decides whether this is executed"
        }
        _ => "its value, or a result of it, decides what this does",
    }
}

impl LaunchState {
    /// The checkers of a launch, which may begin before the `previous` one has ended.
    pub(crate) fn new(
        launch: LaunchInfo,
        previous: Option<Arc<PreviousLaunch>>,
        on_stream: Option<HostLaunch>,
    ) -> Self {
        let threads = launch.threads_per_cta();
        let warps = threads.div_ceil(LANES as u32);
        let population = |warp: u32| match threads - warp * LANES as u32 {
            left if left >= LANES as u32 => u32::MAX,
            left => (1 << left) - 1,
        };
        let fences = |instruction: &Instruction| instruction.class == Class::TensorMemoryFence;
        Self {
            fences_tensor_memory: launch.code.instructions.iter().any(fences),
            populations: (0..warps).map(population).collect(),
            locations: Mutex::default(),
            global: GlobalShadow::new(launch.initialized.clone()),
            guesses: Guesses::default(),
            conflicts: Firsts::default(),
            misuses: Firsts::default(),
            is_recorded: is_recorded(&launch.code),
            origins: Origins::of(&launch.code),
            overruns: Firsts::default(),
            previous,
            on_stream,
            ends_predecessor: AtomicBool::new(false),
            overlaps: Firsts::default(),
            good_reads: Mutex::default(),
            used_loads: Mutex::default(),
            whole_tiles: Mutex::default(),
            repeated_stores: Mutex::default(),
            trusting: trusting_loads(&launch.code),
            racing: racing_loads(&launch.code),
            non_coherent: non_coherent_loads(&launch.code),
            unset: if is_recorded(&launch.code) { unset_registers(&launch.code) } else { Vec::new() },
            meetings: Mutex::default(),
            completions: Mutex::default(),
            observed: Mutex::default(),
            info: launch,
        }
    }

    pub(crate) fn locations(&self) -> MutexGuard<'_, SyncLocations> {
        self.locations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread observes when it reads a location.
    pub(crate) fn observed_at(&self, address: u64) -> Option<Clock> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }

    /// A location is written by a thread with this knowledge: by a store, which replaces the
    /// earlier value (`replaces`), or by an atomic operation, which adds to it.
    pub(crate) fn publish_observed(&self, address: u64, replaces: bool, clock: Clock) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = observed.len() < MAX_OBSERVED;
        match observed.get_mut(&address) {
            Some(held) if replaces => *held = clock,
            Some(held) => held.join(&clock),
            None if has_room => drop(observed.insert(address, clock)),
            None => {}
        }
    }

    pub(crate) fn report(&self, conflict: Conflict) {
        self.conflicts.note(conflict.key(), conflict, Conflict::rank);
    }

    pub(crate) fn report_misuse(&self, misuse: Misuse) {
        self.misuses.note(misuse.key(), misuse, Misuse::rank);
    }

    pub(crate) fn report_overrun(&self, overrun: Overrun) {
        self.overruns.note(overrun.key(), overrun, |overrun| *overrun);
    }

    /// A CTA waits for the predecessor before it lets the next launch begin.
    pub(crate) fn note_end_of_predecessor(&self) {
        self.ends_predecessor.store(true, Ordering::Relaxed);
    }

    pub(crate) fn report_overlap(&self, overlap: Overlap) {
        self.overlaps.note(overlap.key(), overlap, Overlap::rank);
    }

    pub(crate) fn note_good_reads(&self, instructions: impl Iterator<Item = u32>) {
        self.good_reads.lock().unwrap_or_else(PoisonError::into_inner).extend(instructions);
    }

    pub(crate) fn note_meeting(&self, at: (u32, u32), warps: u32) {
        self.meetings.lock().unwrap_or_else(PoisonError::into_inner).entry(at).or_default().add(warps);
    }

    pub(crate) fn note_completion(&self, barrier: u32, warps: u32) {
        self.completions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(barrier)
            .or_default()
            .add(warps);
    }

    pub(crate) fn note_used_load(&self, load: u32, by: u32) {
        let mut used = self.used_loads.lock().unwrap_or_else(PoisonError::into_inner);
        used.entry(load).and_modify(|first| *first = by.min(*first)).or_insert(by);
    }

    pub(crate) fn note_repeated_store(&self, pc: u32) {
        self.repeated_stores.lock().unwrap_or_else(PoisonError::into_inner).insert(pc);
    }

    fn is_repeated_store(&self, pc: u32) -> bool {
        self.repeated_stores.lock().unwrap_or_else(PoisonError::into_inner).contains(&pc)
    }

    pub(crate) fn note_whole_tiles(&self, tiles: &BTreeSet<(u32, TileOperand)>) {
        self.whole_tiles.lock().unwrap_or_else(PoisonError::into_inner).extend(tiles);
    }

    /// All findings in program order, and the record for a dependent launch.
    pub(crate) fn end(&self, names: &dyn AddressNames) -> (Vec<Finding>, PreviousLaunch) {
        let code = &*self.info.code;
        let still_runs = !self.ends_predecessor.load(Ordering::Relaxed);
        let mut accesses = Footprint::default();
        self.global.finish(|number, page| accesses.add(number, page));
        let accesses = Arc::new(accesses);
        let predecessor = self.previous.clone().filter(|_| still_runs);
        let done = PreviousLaunch::new(self.info.code.clone(), accesses.clone(), predecessor);
        self.guesses.take().into_iter().for_each(|conflict| self.report(conflict));
        let conflicts = self.conflicts.lock();
        let good = self.good_reads.lock().unwrap_or_else(PoisonError::into_inner);
        // An unrolled source line is one load: the last one of a pipeline may prefetch an unused
        // tile.
        let line = |pc: u32| code.instruction(pc).source.as_ref().map(|source| (&source.file, source.line));
        let good_lines: BTreeSet<_> = good.iter().filter_map(|&pc| line(pc)).collect();
        let is_good = |pc: u32| good.contains(&pc) || line(pc).is_some_and(|line| good_lines.contains(&line));
        // What is written only after a read of it that found nothing: by instruction of the read.
        let writes_later = |conflict: &Conflict| {
            matches!(conflict.kind, FindingKind::Race | FindingKind::InFlight)
                && conflict.later.kind.writes()
                && !conflict.earlier.kind.writes()
        };
        let written_later: BTreeMap<u32, &Conflict> = conflicts
            .values()
            .filter(|(conflict, _)| writes_later(conflict))
            .map(|(conflict, _)| (conflict.earlier.pc, conflict))
            .collect();
        // A load that is not ordered after the writes finds bytes unwritten: one mistake.
        let unordered: BTreeSet<u32> = conflicts
            .keys()
            .filter(|(kind, ..)| *kind != FindingKind::Uninitialized)
            .flat_map(|&(_, later, earlier, _)| [later, earlier])
            .collect();
        let used = self.used_loads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used = |pc: u32| used.contains_key(&pc) && !unordered.contains(&pc);
        let of_padding = |conflict: &Conflict| {
            conflict.kind == FindingKind::Uninitialized
                && matches!(conflict.space, MemorySpace::Shared | MemorySpace::Local)
                && conflict.later.proxy.is_none()
                && conflict.later.kind == AccessKind::Read
                && is_good(conflict.later.pc)
                && !is_used(conflict.later.pc)
        };
        let tiles = self.whole_tiles.lock().unwrap_or_else(PoisonError::into_inner);
        let tile_lines: BTreeSet<_> =
            tiles.iter().filter_map(|&(pc, operand)| Some((line(pc)?, operand))).collect();
        let is_padding = |conflict: &Conflict| {
            let pc = conflict.later.pc;
            conflict.tile.filter(|tile| tile.is_of_rows).is_some_and(|tile| {
                let operand = tile.part.operand;
                tiles.contains(&(pc, operand))
                    || line(pc).is_some_and(|line| tile_lines.contains(&(line, operand)))
            })
        };
        let misuses = self.misuses.lock();
        // Initializing an mbarrier twice races with the first initialization.
        let of_misuse = |&(_, later, earlier, _): &(FindingKind, u32, u32, Option<TileOperand>)| {
            misuses.contains_key(&(FindingKind::Barrier, later, earlier))
        };
        let overruns = self.overruns.lock();
        // An access outside its array conflicts with the accesses of the array that it is in.
        let of_overrun = |conflict: &Conflict| {
            let is_one = |pc: u32| {
                let mut arrays = overruns.range((pc, 0)..=(pc, u32::MAX)).map(|(&(_, array), _)| array);
                let (_, first) = split_shared(conflict.address);
                arrays.any(|array| {
                    let array = &code.arrays[array as usize];
                    array.space == conflict.space && array.is_outside(first, 1)
                })
            };
            is_one(conflict.later.pc) || is_one(conflict.earlier.pc)
        };
        let reported = conflicts.iter().filter(|(key, (conflict, _))| {
            !of_padding(conflict) && !is_padding(conflict) && !of_misuse(key) && !of_overrun(conflict)
        });
        let races = merged_races(code, reported.map(|(_, (conflict, count))| (conflict, *count)));
        let meetings = self.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        let completions = self.completions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_contended = |(kind, later, earlier, _): &&(FindingKind, u32, u32, Option<TileOperand>)| {
            *kind == FindingKind::Race && later == earlier
        };
        let contended: BTreeSet<u32> = conflicts.keys().filter(is_contended).map(|&(_, pc, ..)| pc).collect();
        let reported =
            races.into_iter().map(|Merged { conflict, reverse, count, in_both_orders, extent }| {
                // A barrier between the two leaves the other order: that of the next iteration.
                let asynchronous = conflict.kind == FindingKind::InFlight;
                let reverse = reverse.filter(|_| asynchronous && meet_between(conflict, code, &meetings));
                let conflict = reverse.unwrap_or(conflict);
                let mut finding = conflict.finding(&self.info, code, count, &contended, extent);
                if self.is_repeated_store(conflict.earlier.pc) && conflict.kind == FindingKind::InFlight {
                    finding.help = Some(REPEATED_STORE.to_owned());
                }
                if conflict.kind == FindingKind::Uninitialized
                    && (is_good(conflict.later.pc) || conflict.space == MemorySpace::Global)
                    && let Some(&by) = used.get(&conflict.later.pc)
                {
                    finding.labels.push(code.label(by, used_here(code.instruction(by)).to_owned()));
                }
                if let FindingKind::Uninitialized = conflict.kind
                    && let Some(write) = written_later.get(&conflict.later.pc)
                    && (conflict.tile.is_none() || write.address == conflict.address)
                {
                    write.explain_early_read(&self.info, code, &mut finding);
                } else if let Some(parting) = Parting::of(conflict, &meetings, &completions) {
                    parting.explain(code, &mut finding);
                } else if let Some(skipped) = Skipped::of(conflict, code, &meetings) {
                    skipped.explain(code, &mut finding);
                } else if let Some(help) =
                    finding.help.as_mut().filter(|help| in_both_orders && help.contains("sync"))
                {
                    help.push_str("; in a loop, also between the second and the first of the next iteration");
                }
                let (kind, later, earlier, tile) = conflict.key();
                ((later, earlier, kind, tile), [conflict.at(), conflict.mbarrier()], finding)
            });
        let of_no_tile = |(kind, later, earlier)| (later, earlier, kind, None);
        let misused = misuses.iter().map(|(key, (misuse, count))| {
            (of_no_tile(*key), [misuse.at(), None], misuse.finding(code, *count))
        });
        let overlaps = self.overlaps.lock();
        let overlapping = self.previous.iter().flat_map(|previous| {
            overlaps.iter().map(|(&(later, earlier, _), (overlap, count))| {
                let finding = overlap.finding(&self.info, code, previous, *count);
                (of_no_tile((FindingKind::Overlap, later, earlier)), [Some(overlap.at()), None], finding)
            })
        });
        let overrunning = overruns.iter().map(|(&(pc, array), (overrun, count))| {
            let finding = overrun.finding(&self.info, code, names, *count);
            (of_no_tile((finding.kind, pc, array)), [None, None], finding)
        });
        let mut findings: Vec<_> = reported.chain(misused).chain(overlapping).chain(overrunning).collect();
        findings.sort_by_key(|&(key, ..)| key);
        let reported = reported_once(findings.into_iter().map(|(_, at, finding)| (finding, at)));
        let with_places = |(mut finding, at): (Finding, [Option<(MemorySpace, u64)>; 2])| {
            if let (FindingKind::Uninitialized, Some((MemorySpace::Global, address))) = (finding.kind, at[0])
                && let Some(launch) = &self.on_stream
            {
                launch.explain_unwritten(address, &mut finding);
            }
            for (space, address) in at.into_iter().flatten() {
                names.name(space, address).add_to(&mut finding.memory, &mut finding.notes);
            }
            finding
        };
        let between = self.on_stream.iter().flat_map(|launch| launch.end(&self.info, code, &accesses, names));
        (reported.into_iter().map(with_places).chain(between).collect(), done)
    }
}

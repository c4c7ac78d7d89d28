//! The report of a deadlock: where each thread waits, for what, and which arrivals are missing.
//! `diagnosis.rs` finds the wait that is probably the cause.

use warpwright_events::{Fault, FaultKind, MbarrierAddress, MemorySpace, lane_list};

use crate::cta::block::Block;
use crate::cta::mbarrier::{Arrivals, Initialization, Mbarrier, arrivals};
use crate::execution::effect::Watched;
use crate::execution::resolve::memory_space;
use crate::launch::context::LaunchContext;
use crate::launch::failure::{Failure, LocatedFailure};
use crate::operation::kind::{Kind, Operation};
use crate::scheduling::cluster::{Cluster, Proof};
use crate::scheduling::diagnosis::Diagnosis;
use crate::scheduling::path::{Path, Wait};
use crate::scheduling::warp::Warp;

/// Maximum number of listed locations; most threads of a grid wait for the same thing.
const MOST_PLACES: usize = 24;
/// Maximum number of further locations with a label.
const MOST_LABELS: usize = 3;

/// Warps of a CTA that wait at the same instruction for the same reason.
pub(super) struct Waiting<'a> {
    pub(super) rank: usize,
    pub(super) warps: Vec<&'a Warp>,
    pub(super) path: &'a Path,
    reason: String,
}

impl Waiting<'_> {
    /// What they poll. A path that waits otherwise has polled it before.
    pub(super) fn watched(&self) -> Option<Watched> {
        self.path.watched.filter(|_| matches!(self.path.wait, Wait::Ready))
    }

    /// Whether one warp waits, or one lane.
    pub(super) fn is_one(&self) -> bool {
        self.warps.len() == 1 && (self.path.mask == self.warps[0].alive || self.path.mask.count_ones() == 1)
    }

    fn verb(&self) -> &'static str {
        if self.is_one() { "waits" } else { "wait" }
    }
}

impl Cluster {
    /// Reports where each thread waits.
    pub(crate) fn deadlock(
        &self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
        proof: Proof,
    ) -> Box<Fault> {
        let places = self.places(launch, code);
        let whole = if self.ctas.len() == 1 { "CTA" } else { "cluster" };
        let message = match proof {
            Proof::Blocked => format!(
                "Deadlock: every thread of the {whole} that has not exited waits, and none of them can be released."
            ),
            Proof::WithoutPeer => format!(
                "Deadlock: every thread of the {whole} that has not exited waits, and another device or the program \
                 of the host, which could end the wait, has done nothing for a minute."
            ),
            Proof::Still { others: 0 } => format!(
                "Deadlock: every thread of the {whole} that has not exited waits, and nothing changes what it waits for."
            ),
            Proof::Still { others } => format!(
                "Deadlock: every thread of the {whole} that has not exited waits, and nothing changes what it waits for; \
                 the same holds for the {others} others that are resident."
            ),
        };
        let diagnosed = places.iter().map(|waiting| (self.diagnosis(launch, waiting), waiting));
        let first = diagnosed.min_by_key(|(diagnosis, _)| *diagnosis);
        let (diagnosis, first) = first.unwrap_or((Diagnosis::Other, &places[0]));
        let named = self.named(diagnosis, first);
        let proof =
            named.is_some().then(|| message.replace("Deadlock: ", "").trim_end_matches('.').to_owned());
        let mut failure = Failure::new(FaultKind::Deadlock, first.path.mask, named.unwrap_or(message));
        failure.notes.extend(proof);
        failure.is_cause = diagnosis.is_cause();
        failure.what = Some(format!("{} {} here", self.who(first), first.verb()));
        for waiting in places.iter().filter(|waiting| waiting.path.pc != first.path.pc).take(MOST_LABELS) {
            failure.also.push((waiting.path.pc, format!("{} {} here", self.who(waiting), waiting.verb())));
        }
        if let Some(Watched::Mbarrier { address, .. }) = first.watched() {
            failure.also.extend(self.arrival_labels(address));
            failure.also.extend(self.copy_labels(address));
        }
        failure.help = self.help(diagnosis, first);
        // The main location's memory comes first.
        for waiting in std::iter::once(first).chain(&places).take(MOST_PLACES) {
            failure = match waiting.watched() {
                Some(Watched::Mbarrier { address, .. }) => failure.at(MemorySpace::Shared, address.shared()),
                Some(Watched::Memory { space, address }) => match memory_space(space) {
                    Some(site) => failure.at(site, address),
                    None => failure,
                },
                None => failure,
            };
        }
        for waiting in places.iter().take(MOST_PLACES) {
            failure = failure.note(format!(
                "{} at {}: {}",
                self.who(waiting),
                self.place(launch, waiting.path.pc),
                waiting.reason
            ));
        }
        if places.len() > MOST_PLACES {
            failure = failure.note(format!("and at {} more instructions", places.len() - MOST_PLACES));
        }
        for (rank, cta) in self.ctas.iter().enumerate() {
            let gone: Vec<&Warp> = cta.warps.iter().filter(|warp| warp.paths.is_empty()).collect();
            if !gone.is_empty() {
                let verb = if gone.len() == 1 { "has" } else { "have" };
                failure = failure.note(format!("{}{} {verb} exited", self.cta_words(rank), warp_list(&gone)));
            }
        }
        let located = LocatedFailure { pc: first.path.pc, warp: first.warps[0].index, failure };
        self.fault(launch, first.rank, located)
    }

    /// The locations of threads that have not exited, with like warps merged.
    fn places(&self, launch: &LaunchContext<'_>, code: &[Operation]) -> Vec<Waiting<'_>> {
        let mut places: Vec<Waiting<'_>> = Vec::new();
        for (rank, cta) in self.ctas.iter().enumerate() {
            for warp in &cta.warps {
                for path in &warp.paths {
                    let reason = self.reason(launch, code, rank, warp, path);
                    let alike = |other: &&mut Waiting<'_>| {
                        (other.rank, other.path.pc, other.path.mask) == (rank, path.pc, path.mask)
                            && other.reason == reason
                    };
                    match places.iter_mut().find(alike) {
                        Some(known) => known.warps.push(warp),
                        None => places.push(Waiting { rank, warps: vec![warp], path, reason }),
                    }
                }
            }
        }
        places
    }

    fn cta_words(&self, rank: usize) -> String {
        if self.ctas.len() == 1 { String::new() } else { format!("CTA of rank {rank}, ") }
    }

    /// `CTA of rank 1, warps 0-3`, with their lanes unless all wait.
    pub(super) fn who(&self, waiting: &Waiting<'_>) -> String {
        let who = format!("{}{}", self.cta_words(waiting.rank), warp_list(&waiting.warps));
        if waiting.warps.iter().all(|warp| warp.alive == waiting.path.mask) {
            who
        } else {
            format!("{who}, {}", lane_list(waiting.path.mask))
        }
    }

    /// The arrivals at an awaited mbarrier, or those of the previous phase if the open one has
    /// none.
    fn arrival_labels(&self, address: MbarrierAddress) -> Vec<(u32, String)> {
        let Some(record) = self.blocks[address.rank as usize].mbarriers.get(&address.offset) else {
            return Vec::new();
        };
        let (arrivals, when) = match record.arrivals.as_slice() {
            [] => (&record.arrivals_before, ", in the previous phase"),
            _ => (&record.arrivals, ""),
        };
        let mut labels: Vec<(u32, String)> = Vec::new();
        for arrival in arrivals {
            let who = format!("{}warp {}", self.cta_words(arrival.rank as usize), arrival.warp);
            let text = format!("{who} arrived here {}{when}", times(arrival.count));
            match labels.iter_mut().find(|(pc, _)| *pc == arrival.pc) {
                Some((_, known)) => *known = format!("{known}; {who} {}", times(arrival.count)),
                None => labels.push((arrival.pc, text)),
            }
        }
        labels
    }

    /// The copies that have completed at an awaited mbarrier, if the bytes of its phase are not
    /// those expected. Those of a tensor copy are the bytes of its map's box.
    fn copy_labels(&self, address: MbarrierAddress) -> Vec<(u32, String)> {
        let block = &self.blocks[address.rank as usize];
        let differs = block.mbarrier(address.offset).is_ok_and(|barrier| barrier.bytes != 0);
        let record = block.mbarriers.get(&address.offset).filter(|_| differs);
        let copies = record.iter().flat_map(|record| &record.copies);
        copies.map(|(pc, bytes)| (*pc, format!("{bytes} bytes arrived from a copy issued here"))).collect()
    }

    /// The source line of an instruction, or of the PTX with its text.
    pub(crate) fn place(&self, launch: &LaunchContext<'_>, pc: u32) -> String {
        let instruction = launch.kernel.code.instruction(pc);
        match &instruction.source {
            Some(source) => source.to_string(),
            None => format!("PTX line {} (`{}`)", instruction.line, instruction.text),
        }
    }

    fn reason(
        &self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
        rank: usize,
        warp: &Warp,
        path: &Path,
    ) -> String {
        let block = &self.blocks[rank];
        match path.wait {
            Wait::Ready => self.looks_at(launch, path),
            Wait::Together => {
                format!(
                    "waiting for {}: the instruction needs the whole warp",
                    lane_list(warp.alive & !path.mask)
                )
            }
            Wait::Members(members) => {
                let missing = members & warp.alive & !path.mask;
                let verb = if missing.count_ones() == 1 { "is" } else { "are" };
                format!("its member mask is {members:#010x}, and {} {verb} elsewhere", lane_list(missing))
            }
            Wait::Barrier { id, .. } => {
                let (count, wanted) = block.barriers[id as usize].progress(&block.alive);
                format!("waiting at barrier {id}, where {count} of {wanted} threads have arrived")
            }
            Wait::Again { id, .. } => {
                let (count, wanted) = block.barriers[id as usize].progress(&block.alive);
                format!(
                    "arriving at barrier {id} a second time before it has completed: {count} of {wanted} threads have \
                     arrived"
                )
            }
            Wait::Warpgroup => {
                let missing = block.warpgroups.missing(warp.index);
                let missing: Vec<String> = missing.iter().map(|warp| format!("warp {warp}")).collect();
                format!("waiting for a wgmma that {} of its warpgroup did not issue", missing.join(" and "))
            }
            Wait::Attempt => match &code[path.pc as usize].kind {
                Kind::Attempt(attempt) => attempt.reason(block, warp.index),
                _ => "waiting".to_owned(),
            },
            Wait::Cluster => {
                let missing: Vec<String> = self
                    .blocks
                    .iter()
                    .map(|block| (block.rank, block.cluster_barrier.missing(&block.alive)))
                    .filter(|(_, missing)| *missing > 0)
                    .map(|(rank, missing)| format!("{missing} threads of the CTA of rank {rank}"))
                    .collect();
                format!(
                    "waiting at the barrier of the cluster, where {} have not arrived",
                    missing.join(" and ")
                )
            }
        }
    }

    /// What a path polls.
    fn looks_at(&self, launch: &LaunchContext<'_>, path: &Path) -> String {
        match path.watched {
            Some(Watched::Mbarrier { address, parity }) => self.awaits(launch, address, parity),
            Some(Watched::Memory { space, address }) => {
                format!("polling {} address {address:#x}, to which nothing is stored", space.name())
            }
            None => "repeating a loop that changes nothing and reads nothing that may change".to_owned(),
        }
    }

    /// The state of an awaited mbarrier, and what its phase lacks.
    fn awaits(&self, launch: &LaunchContext<'_>, address: MbarrierAddress, parity: bool) -> String {
        let block = &self.blocks[address.rank as usize];
        let of_rank =
            if self.blocks.len() == 1 { String::new() } else { format!(" of rank {}", address.rank) };
        let parity = u32::from(parity);
        let at = format!("the mbarrier at shared address {:#x}{of_rank}", address.offset);
        let phase = block.mbarriers.get(&address.offset).map_or(0, |record| record.phase);
        let named = format!("waiting for phase {phase} (parity {parity}) of {at}");
        match block.mbarrier(address.offset) {
            Err(_) => {
                format!("waiting for a phase of parity {parity} of {at}, which is no longer initialized")
            }
            Ok(barrier) if u32::from(barrier.parity) != parity => {
                format!("waiting for the phase before phase {phase} of {at}, which has ended in the meantime")
            }
            Ok(barrier) => {
                let record = block.mbarriers.get(&address.offset);
                let initialized = record.map_or_else(String::new, |record| {
                    let Initialization { pc, count } = record.initialization;
                    format!(
                        "; it is initialized for {} a phase at {}",
                        arrivals(count),
                        self.place(launch, pc)
                    )
                });
                let lacks = lacks(barrier);
                let arrived = self.arrived(launch, block, address.offset);
                format!("{named}, which {lacks}; {arrived}{initialized}")
            }
        }
    }

    /// The arrivals in the open phase of an mbarrier.
    fn arrived(&self, launch: &LaunchContext<'_>, block: &Block, offset: u64) -> String {
        let Some(record) = block.mbarriers.get(&offset) else { return String::new() };
        let described = |arrivals: &Arrivals| {
            format!(
                "{}warp {} arrived {} at {}",
                self.cta_words(arrivals.rank as usize),
                arrivals.warp,
                times(arrivals.count),
                self.place(launch, arrivals.pc)
            )
        };
        let mut parts: Vec<String> = record.arrivals.iter().map(described).collect();
        if parts.is_empty() {
            let before: Vec<String> = record.arrivals_before.iter().map(described).collect();
            parts.push(match before.as_slice() {
                [] => "no thread has arrived in this phase".to_owned(),
                _ => format!(
                    "no thread has arrived in this phase; in the previous phase, {}",
                    before.join(", ")
                ),
            });
        }
        if record.bytes_expected > 0 || record.bytes_arrived > 0 {
            parts.push(format!(
                "{} bytes were expected and {} arrived",
                record.bytes_expected, record.bytes_arrived
            ));
        }
        parts.join(", ")
    }
}

/// What the open phase of an mbarrier lacks.
fn lacks(barrier: Mbarrier) -> String {
    let arrivals = format!("{} of {} arrivals", barrier.pending, barrier.expected);
    match (barrier.pending, barrier.bytes) {
        (_, 0) => format!("lacks {arrivals}"),
        (0, bytes) if bytes > 0 => format!("has all its arrivals and lacks {bytes} of the bytes expected"),
        (_, bytes) if bytes > 0 => format!("lacks {arrivals} and {bytes} of the bytes expected"),
        (0, bytes) => format!("has all its arrivals, and {} bytes more than were expected", -bytes),
        (_, bytes) => format!("lacks {arrivals}, and has {} bytes more than were expected", -bytes),
    }
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// `warp 3`, `warps 0, 2, 4-7`.
fn warp_list(warps: &[&Warp]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for warp in warps {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == warp.index => *last = warp.index,
            _ => runs.push((warp.index, warp.index)),
        }
    }
    let word = if warps.len() == 1 { "warp" } else { "warps" };
    let runs: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    format!("{word} {}", runs.join(", "))
}

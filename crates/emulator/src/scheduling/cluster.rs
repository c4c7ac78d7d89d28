//! Clusters: CTAs that are co-scheduled and access each other's shared memory (PTX ISA, "Cluster of
//! Cooperative Thread Arrays"). A host thread runs one cluster at a time; a launch without clusters
//! has clusters of one CTA.
//!
//! An address of `.shared::cluster` is the CTA's rank in bits 24 and up, and the offset in its
//! shared memory below. The addresses that a CTA has of its own variables carry its own rank, as on
//! the device, so that they mean the same to every CTA of the cluster.

use std::sync::atomic::Ordering;

use warpwright_events::{
    AddressNames, Code, Event, Fault, FaultKind, MemoryArray, MemorySpace, Origins, split_shared,
};

use crate::cta::asynchronous::progress;
use crate::cta::block::{Block, Blocks};
use crate::cta::tensor_memory::pipeline;
use crate::cta::warpgroup::Moment;
use crate::launch::context::LaunchContext;
use crate::launch::failure::LocatedFailure;
use crate::launch::observer::Observer;
use crate::launch::schedule::{Random, Schedule};
use crate::launch::time;
use crate::operation::kind::Operation;
use crate::scheduling::cta::{Cta, Round, complete_copies};
use crate::scheduling::step::Counts;
use crate::scheduling::stillness::Stillness;
use crate::scheduling::warp::{Pause, Warp};

/// Iterations in which every warp only polls, before the thread runs another cluster.
const WAITING_ROUNDS: u32 = 4;
/// Iterations without a change, polling or not, before the thread runs another cluster.
const QUIET_ROUNDS: u32 = 8;

/// The proof that nothing can proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// No thread of the cluster can proceed.
    Blocked,
    /// Threads of all resident clusters run, but only poll memory that nothing changes.
    Still { others: u64 },
    /// As above, and another device of the host could make a change, but runs nothing.
    WithoutPeer,
}

/// Why a cluster stopped running for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterPause {
    /// All its threads have exited.
    Done,
    /// It waits for another cluster.
    Waiting,
    /// It waits until another cluster makes a change.
    Still,
    /// It lets other clusters run, at a random moment.
    Yielded,
}

/// A cluster that is resident on the device.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The shared state of each CTA, by rank.
    pub(crate) blocks: Vec<Block>,
    /// The warps of each CTA, by rank.
    pub(crate) ctas: Vec<Cta>,
    /// Its number in the grid.
    pub(crate) linear: u64,
    pub(crate) stillness: Stillness,
    /// For the moments at which it lets others run.
    random: Random,
}

/// The purpose of their generator.
const INTERLEAVING: u64 = 0x6c62_272e_07bb_0142;
/// Under the schedule `random`, a cluster that made progress in a round yields to others once in so many rounds.
const ROUNDS_TO_YIELD: u32 = 2;

impl Cluster {
    /// A cluster of a launch, by its number in the grid.
    pub(crate) fn new(launch: &LaunchContext<'_>, linear: u64) -> Self {
        let ranks = 0..launch.ctas_per_cluster();
        let blocks = ranks
            .clone()
            .map(|rank| Block::new(launch, launch.cta_of_cluster(linear, rank), rank))
            .collect::<Vec<_>>();
        let ctas = ranks.map(|rank| Cta::new(launch, &blocks[rank as usize])).collect();
        let random = Random::new(launch.schedule, linear, INTERLEAVING);
        let mut cluster = Self { blocks, ctas, linear, stillness: Stillness::default(), random };
        cluster.observe(launch);
        cluster
    }

    /// Reuses a finished cluster for another one of the same launch, at its start.
    pub(crate) fn restart(&mut self, launch: &LaunchContext<'_>, linear: u64) {
        self.linear = linear;
        self.stillness = Stillness::default();
        self.random = Random::new(launch.schedule, linear, INTERLEAVING);
        for (block, cta) in self.blocks.iter_mut().zip(&mut self.ctas) {
            block.restart(launch, launch.cta_of_cluster(linear, block.rank));
            cta.restart(launch, block);
        }
        self.observe(launch);
    }

    /// Attaches the launch's observers.
    fn observe(&mut self, launch: &LaunchContext<'_>) {
        if launch.observers.is_empty() {
            return;
        }
        let ctas: Vec<u32> = self.blocks.iter().map(|block| launch.linear_cta(block.index) as u32).collect();
        let observer = Observer::new(launch.observers, &ctas);
        self.blocks.iter_mut().for_each(|block| block.observer = observer.clone());
    }

    /// The number of operations its warps have executed since the last call.
    pub(crate) fn take_counts(&mut self) -> Counts {
        self.ctas.iter_mut().map(Cta::take_counts).sum()
    }

    /// Runs until all threads have exited, or all runnable threads only poll.
    pub(crate) fn run(
        &mut self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
    ) -> Result<ClusterPause, Box<Fault>> {
        self.stillness.begin_visit(launch.changes().load(Ordering::SeqCst));
        let before = self.blocks[0].time_stands_at;
        let stands_at = self
            .stillness
            .compares()
            .then(|| before.unwrap_or_else(|| time::Moment::Elapsed(launch.clock.elapsed())));
        self.blocks.iter_mut().for_each(|block| block.time_stands_at = stands_at);
        let (pause, changed) = self.visit(launch, code)?;
        if changed {
            launch.running.host.note_change();
            return Ok(pause);
        }
        let warps = self.ctas.iter().flat_map(|cta| cta.warps.iter());
        let is_still = self.stillness.end_quiet_visit(warps.map(Warp::fingerprint));
        Ok(if is_still { ClusterPause::Still } else { pause })
    }

    /// Runs all CTAs once. Returns why it stopped, and whether anything changed that other threads
    /// can observe.
    fn visit(
        &mut self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
    ) -> Result<(ClusterPause, bool), Box<Fault>> {
        let (mut waiting_rounds, mut quiet_rounds, mut changed) = (0, 0, false);
        loop {
            let mut round = Round::default();
            for rank in 0..self.ctas.len() {
                let of_cta = self.ctas[rank].round(launch, code, &mut self.blocks, rank);
                round |= of_cta.map_err(|located| self.fault(launch, rank, located))?;
            }
            if !round.left {
                self.end(launch)?;
                return Ok((ClusterPause::Done, true));
            }
            if launch.stop.load(Ordering::Relaxed) {
                return Ok((ClusterPause::Waiting, true));
            }
            changed |= round.changed;
            if round.worked && round.changed && self.yields(launch) {
                return Ok((ClusterPause::Yielded, true));
            }
            waiting_rounds = if round.worked { 0 } else { waiting_rounds + 1 };
            quiet_rounds = if round.changed { 0 } else { quiet_rounds + 1 };
            let waits = !round.worked || quiet_rounds >= QUIET_ROUNDS;
            if waits && self.complete(launch, code)? {
                (waiting_rounds, quiet_rounds, changed) = (0, 0, true);
                continue;
            }
            if !round.moved {
                return Err(self.deadlock(launch, code, Proof::Blocked));
            }
            if waiting_rounds >= WAITING_ROUNDS || quiet_rounds >= QUIET_ROUNDS {
                return Ok((ClusterPause::Waiting, changed));
            }
        }
    }

    /// Whether it lets other clusters run now, so that one may begin before an earlier one has ended.
    fn yields(&mut self, launch: &LaunchContext<'_>) -> bool {
        matches!(launch.schedule, Schedule::Random(_)) && self.random.below(ROUNDS_TO_YIELD) == 0
    }

    /// Runs one warp, numbered CTA by CTA, at a cycle of the clock. Returns why it stopped, and whether it changed
    /// anything.
    pub(crate) fn turn(
        &mut self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
        warp: usize,
        cycle: u64,
    ) -> Result<(Pause, bool), Box<Fault>> {
        let per_cta = self.ctas[0].warps.len();
        let (rank, warp) = (warp / per_cta, warp % per_cta);
        self.blocks.iter_mut().for_each(|block| block.time_stands_at = Some(time::Moment::Cycle(cycle)));
        let mut round = Round::default();
        let mut blocks = Blocks::of(&mut self.blocks, rank);
        let pause = self.ctas[rank].turn(launch, code, &mut blocks, warp, &mut round);
        blocks.own.observer.report(Event::TurnEnd { rank: rank as u32, warp: warp as u32 });
        Ok((pause.map_err(|located| self.fault(launch, rank, located))?, round.changed))
    }

    /// The ordered instruction before which a warp has stopped, of the path furthest behind.
    pub(crate) fn next_ordered(&self, warp: usize) -> Option<u32> {
        let per_cta = self.ctas[0].warps.len();
        let paths = self.ctas[warp / per_cta].warps[warp % per_cta].paths.iter();
        paths.filter_map(|path| path.next_ordered).min()
    }

    /// Whether all threads have exited.
    pub(crate) fn has_ended(&self) -> bool {
        self.ctas.iter().flat_map(|cta| &cta.warps).all(|warp| warp.paths.is_empty())
    }

    /// All threads have exited: ends what they have left in flight.
    pub(crate) fn end(&mut self, launch: &LaunchContext<'_>) -> Result<(), Box<Fault>> {
        self.each_cta(launch, |blocks| complete_copies(blocks.own, launch))?;
        self.each_cta(launch, |blocks| progress::finish(blocks, launch))?;
        self.each_cta(launch, pipeline::finish)?;
        self.blocks[0].observer.report(Event::End);
        Ok(())
    }

    /// Ends some asynchronous work, as late as possible: no thread can proceed without it. Returns whether there
    /// was any.
    pub(crate) fn complete(
        &mut self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
    ) -> Result<bool, Box<Fault>> {
        Ok(self.go_on_with_copies(launch)? || self.multiply(launch, code)?)
    }

    /// Completes some of the copies in flight, as late as possible: no thread can proceed without
    /// them. Returns whether there were any.
    fn go_on_with_copies(&mut self, launch: &LaunchContext<'_>) -> Result<bool, Box<Fault>> {
        let mut awaited = Vec::new();
        self.each_cta(launch, |blocks| {
            awaited.extend(progress::awaited(blocks));
            Ok(false)
        })?;
        Ok(self.each_cta(launch, |blocks| progress::finish_awaited(blocks, launch, &awaited))?
            || self.each_cta(launch, |blocks| pipeline::finish_awaited(blocks, &awaited))?
            || self.each_cta(launch, |blocks| complete_copies(blocks.own, launch))?
            || self.each_cta(launch, |blocks| progress::finish_oldest(blocks, launch))?
            || self.each_cta(launch, pipeline::finish_oldest)?)
    }

    /// Applies a function to each CTA. Returns whether any call had an effect.
    fn each_cta(
        &mut self,
        launch: &LaunchContext<'_>,
        mut work: impl FnMut(&mut Blocks<'_>) -> Result<bool, LocatedFailure>,
    ) -> Result<bool, Box<Fault>> {
        let mut any = false;
        for rank in 0..self.blocks.len() {
            let done = work(&mut Blocks::of(&mut self.blocks, rank));
            any |= done.map_err(|located| self.fault(launch, rank, located))?;
        }
        Ok(any)
    }

    /// Executes all warpgroup MMAs that may execute. Returns whether any did.
    fn multiply(&mut self, launch: &LaunchContext<'_>, code: &[Operation]) -> Result<bool, Box<Fault>> {
        let mut any = false;
        for rank in 0..self.ctas.len() {
            let happened = self.ctas[rank].multiply(launch, code, &mut self.blocks[rank], Moment::Last);
            any |= happened.map_err(|located| self.fault(launch, rank, located))?;
        }
        Ok(any)
    }

    pub(crate) fn fault(
        &self,
        launch: &LaunchContext<'_>,
        rank: usize,
        located: LocatedFailure,
    ) -> Box<Fault> {
        let instruction = launch.kernel.code.instruction(located.pc);
        let mut failure = *located.failure;
        for (note, pc) in std::mem::take(&mut failure.located_notes) {
            failure.notes.push(format!("{note} at {}", self.place(launch, pc)));
        }
        let mut memory = Vec::new();
        // A deadlock is about the addresses of several instructions.
        let indexed = match failure.kind {
            FaultKind::Deadlock => None,
            _ => indexed_array(&launch.kernel.code, located.pc),
        };
        for &(site, address) in &failure.addresses {
            let (_, offset) = split_shared(address);
            let outside = indexed.filter(|array| {
                [site, array.space] == [MemorySpace::Shared; 2] && array.is_outside(offset, 1)
            });
            let name =
                outside.map_or_else(|| launch.name(site, address), |array| launch.outside(array, address));
            name.add_to(&mut memory, &mut failure.notes);
        }
        Box::new(Fault {
            kind: failure.kind,
            kernel: launch.kernel.name.clone(),
            cta: Some(self.blocks[rank].index),
            warp: Some(located.warp),
            lanes: failure.lanes,
            ptx_line: Some(instruction.line),
            ptx_text: Some(instruction.text.to_string()),
            source: instruction.source.clone(),
            inlining: instruction.inlining.clone(),
            message: failure.message,
            what: failure.what,
            also: failure.also.into_iter().map(|(pc, what)| launch.kernel.code.label(pc, what)).collect(),
            memory,
            notes: failure.notes,
            help: failure.help,
            output: String::new(),
            is_cause: failure.is_cause,
        })
    }
}

/// The array of shared memory that an instruction indexes, if it is one.
fn indexed_array(code: &Code, pc: u32) -> Option<&MemoryArray> {
    let (instruction, origins) = (code.instruction(pc), Origins::of(code));
    let mut arrays = (0..instruction.bases.len()).filter_map(|base| origins.array(instruction, base));
    let array = arrays.next().filter(|_| arrays.next().is_none())?;
    code.arrays.get(array as usize)
}

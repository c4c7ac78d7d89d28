//! Clusters: CTAs that are resident together and reach each other's shared memory (PTX ISA, "Cluster of Cooperative
//! Thread Arrays"). A cluster is what one host thread runs at a time; a launch without clusters has clusters of one CTA.
//!
//! An address of `.shared::cluster` is the CTA's rank in bits 24 and up, and the offset in its shared memory below. The
//! addresses that a CTA has of its own variables carry its own rank, as on the device, so that they mean the same to
//! every CTA of the cluster.

use std::sync::atomic::Ordering;

use warpwright_events::{AddressNames, Event, Fault, FaultKind};

use crate::asynchronous;
use crate::cta::{Block, Cta, Round};
use crate::deadlock::Proof;
use crate::launch::LaunchContext;
use crate::memory::Trouble;
use crate::observer::Observer;
use crate::stillness::Stillness;
use crate::tensor_memory::pipeline;
use crate::warp::{Counts, Located, Warp};
use crate::warpgroup::Moment;

/// Rounds in which every warp only polled, before another cluster gets the thread.
const WAITING_ROUNDS: u32 = 4;
/// Rounds without a change, polling or not, before another cluster gets the thread.
const QUIET_ROUNDS: u32 = 8;

/// The CTAs of a cluster but the one that is running.
#[derive(Debug)]
pub(crate) struct Peers<'a> {
    before: &'a mut [Block],
    after: &'a mut [Block],
}

impl<'a> Peers<'a> {
    /// Takes the running CTA out of its cluster.
    pub(crate) fn split(blocks: &'a mut [Block], rank: usize) -> (&'a mut Block, Peers<'a>) {
        let (before, rest) = blocks.split_at_mut(rank);
        let (own, after) = rest.split_first_mut().expect("the rank is that of a CTA of the cluster");
        (own, Peers { before, after })
    }

    /// The same peers for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Peers<'_> {
        Peers { before: self.before, after: self.after }
    }

    /// The peer of a rank; `None` if no other CTA of the cluster has it.
    pub(crate) fn get(&mut self, rank: u32) -> Option<&mut Block> {
        let (rank, own) = (rank as usize, self.before.len());
        match rank.cmp(&own) {
            std::cmp::Ordering::Less => self.before.get_mut(rank),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => self.after.get_mut(rank - own - 1),
        }
    }
}

/// All CTAs of a cluster, the running one apart.
#[derive(Debug)]
pub(crate) struct Blocks<'a> {
    pub(crate) own: &'a mut Block,
    pub(crate) peers: Peers<'a>,
}

impl<'a> Blocks<'a> {
    /// The CTAs of a cluster as the one of this rank sees them.
    pub(crate) fn of(blocks: &'a mut [Block], rank: usize) -> Self {
        let (own, peers) = Peers::split(blocks, rank);
        Self { own, peers }
    }

    /// The CTA of a rank; `None` if the cluster has none.
    pub(crate) fn get(&mut self, rank: u32) -> Option<&mut Block> {
        if rank == self.own.rank { Some(self.own) } else { self.peers.get(rank) }
    }

    /// All of them, by rank.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.peers.before.iter().chain(std::iter::once(&*self.own)).chain(self.peers.after.iter())
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.peers.before.iter_mut().chain(std::iter::once(&mut *self.own)).chain(self.peers.after.iter_mut())
    }

    /// Completes the barrier of the cluster if every thread that has not exited has arrived.
    pub(crate) fn settle_barrier(&mut self) {
        let complete = self.iter().any(|block| block.cluster_barrier.any_arrived())
            && self.iter().all(|block| block.cluster_barrier.all_arrived(&block.alive));
        if complete {
            self.own.observer.report(Event::ClusterComplete);
            self.iter_mut().for_each(|block| block.cluster_barrier.complete());
        }
    }
}

/// A CTA's part in the barrier of its cluster (PTX ISA, "barrier.cluster").
#[derive(Clone, Debug)]
pub(crate) struct ClusterBarrier {
    /// Lanes that have arrived in the phase that is open, by warp.
    arrived: Vec<u32>,
    /// Lanes that have arrived and not waited since, by warp.
    unwaited: Vec<u32>,
}

impl ClusterBarrier {
    pub(crate) fn new(warps: usize) -> Self {
        Self { arrived: vec![0; warps], unwaited: vec![0; warps] }
    }

    pub(crate) fn reset(&mut self) {
        self.arrived.fill(0);
        self.unwaited.fill(0);
    }

    fn any_arrived(&self) -> bool {
        self.arrived.iter().any(|&lanes| lanes != 0)
    }

    fn all_arrived(&self, alive: &[u32]) -> bool {
        self.arrived.iter().zip(alive).all(|(arrived, alive)| alive & !arrived == 0)
    }

    fn complete(&mut self) {
        self.arrived.fill(0);
    }

    /// Lanes of a warp that are still to arrive in the open phase.
    pub(crate) fn missing(&self, alive: &[u32]) -> u32 {
        self.arrived.iter().zip(alive).map(|(arrived, alive)| (alive & !arrived).count_ones()).sum()
    }

    /// Lanes of a warp arrive.
    pub(crate) fn arrive(&mut self, warp: u32, lanes: u32) -> Result<(), Box<Trouble>> {
        let warp = warp as usize;
        let twice = self.unwaited[warp] & lanes;
        if twice != 0 {
            return Err(Trouble::new(
                FaultKind::Barrier,
                twice,
                "These lanes arrive at the barrier of the cluster a second time without a wait in between.",
            ));
        }
        self.arrived[warp] |= lanes;
        self.unwaited[warp] |= lanes;
        Ok(())
    }

    /// Lanes of a warp begin to wait. Whether the phase they arrived in has completed already.
    pub(crate) fn wait(&mut self, warp: u32, lanes: u32) -> Result<bool, Box<Trouble>> {
        let warp = warp as usize;
        let strangers = lanes & !self.unwaited[warp];
        if strangers != 0 {
            return Err(Trouble::new(
                FaultKind::Barrier,
                strangers,
                "These lanes wait at the barrier of the cluster without having arrived at it.",
            ));
        }
        self.unwaited[warp] &= !lanes;
        Ok(!self.holds(warp as u32, lanes))
    }

    /// Whether the phase that lanes of a warp arrived in is still open.
    pub(crate) fn holds(&self, warp: u32, lanes: u32) -> bool {
        self.arrived[warp as usize] & lanes != 0
    }
}

/// Why a cluster stopped running for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterPause {
    /// All its threads have exited.
    Done,
    /// It waits for something another cluster does.
    Waiting,
    /// It will wait for ever, unless another cluster does something.
    Still,
}

/// A cluster that is resident on the device.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// What the warps of each CTA share, by rank.
    pub(crate) blocks: Vec<Block>,
    /// The warps of each CTA, by rank.
    pub(crate) ctas: Vec<Cta>,
    /// Its number in the grid.
    pub(crate) linear: u64,
    pub(crate) stillness: Stillness,
}

impl Cluster {
    /// A cluster of a launch, by its number in the grid.
    pub(crate) fn new(launch: &LaunchContext<'_>, linear: u64) -> Self {
        let ranks = 0..launch.ctas_per_cluster();
        let blocks = ranks
            .clone()
            .map(|rank| Block::new(launch, launch.cta_of_cluster(linear, rank), rank))
            .collect::<Vec<_>>();
        let ctas = ranks.map(|rank| Cta::new(launch, &blocks[rank as usize])).collect();
        let mut cluster = Self { blocks, ctas, linear, stillness: Stillness::default() };
        cluster.observe(launch);
        cluster
    }

    /// Makes a finished cluster another one of the same launch, at its start.
    pub(crate) fn restart(&mut self, launch: &LaunchContext<'_>, linear: u64) {
        self.linear = linear;
        self.stillness = Stillness::default();
        for (block, cta) in self.blocks.iter_mut().zip(&mut self.ctas) {
            block.restart(launch, launch.cta_of_cluster(linear, block.rank));
            cta.restart(launch, block);
        }
        self.observe(launch);
    }

    /// Lets the launch's observers watch.
    fn observe(&mut self, launch: &LaunchContext<'_>) {
        if launch.observers.is_empty() {
            return;
        }
        let ctas: Vec<u32> = self.blocks.iter().map(|block| launch.linear_cta(block.index) as u32).collect();
        let observer = Observer::new(launch.observers, &ctas);
        self.blocks.iter_mut().for_each(|block| block.observer = observer.clone());
    }

    /// How much its warps have executed since this was last asked.
    pub(crate) fn take_counts(&mut self) -> Counts {
        self.ctas.iter_mut().map(Cta::take_counts).sum()
    }

    /// Runs until all threads have exited, or all that can move only poll.
    pub(crate) fn run(&mut self, launch: &LaunchContext<'_>) -> Result<ClusterPause, Box<Fault>> {
        self.stillness.begin_visit(launch.changes.load(Ordering::SeqCst));
        let before = self.blocks[0].time_stands_at;
        let stands_at = self.stillness.compares().then(|| before.unwrap_or_else(|| launch.clock.elapsed()));
        self.blocks.iter_mut().for_each(|block| block.time_stands_at = stands_at);
        let (pause, changed) = self.visit(launch)?;
        if changed {
            launch.changes.fetch_add(1, Ordering::SeqCst);
            return Ok(pause);
        }
        let warps = self.ctas.iter().flat_map(|cta| cta.warps.iter());
        let is_still = self.stillness.end_quiet_visit(warps.map(Warp::fingerprint));
        Ok(if is_still { ClusterPause::Still } else { pause })
    }

    /// Goes round the CTAs. Why it stopped, and whether anything changed that other threads may see.
    fn visit(&mut self, launch: &LaunchContext<'_>) -> Result<(ClusterPause, bool), Box<Fault>> {
        let (mut waiting_rounds, mut quiet_rounds, mut changed) = (0, 0, false);
        loop {
            let mut round = Round::default();
            for rank in 0..self.ctas.len() {
                let of_cta = self.ctas[rank].round(launch, &mut self.blocks, rank);
                round |= of_cta.map_err(|located| self.fault(launch, rank, located))?;
            }
            if !round.left {
                self.each_cta(launch, |blocks| blocks.own.complete_copies(launch))?;
                self.each_cta(launch, |blocks| asynchronous::finish(blocks, launch))?;
                self.each_cta(launch, pipeline::finish)?;
                self.blocks[0].observer.report(Event::End);
                return Ok((ClusterPause::Done, true));
            }
            if launch.stop.load(Ordering::Relaxed) {
                return Ok((ClusterPause::Waiting, true));
            }
            changed |= round.changed;
            waiting_rounds = if round.worked { 0 } else { waiting_rounds + 1 };
            quiet_rounds = if round.changed { 0 } else { quiet_rounds + 1 };
            let waits = !round.worked || quiet_rounds >= QUIET_ROUNDS;
            if waits && (self.go_on_with_copies(launch)? || self.multiply(launch)?) {
                (waiting_rounds, quiet_rounds, changed) = (0, 0, true);
                continue;
            }
            if !round.moved {
                return Err(self.deadlock(launch, Proof::Blocked));
            }
            if waiting_rounds >= WAITING_ROUNDS || quiet_rounds >= QUIET_ROUNDS {
                return Ok((ClusterPause::Waiting, changed));
            }
        }
    }

    /// Makes some of the copies that are under way: the last moment for them has come, since no thread can go on without
    /// them. Whether there were any.
    fn go_on_with_copies(&mut self, launch: &LaunchContext<'_>) -> Result<bool, Box<Fault>> {
        let mut awaited = Vec::new();
        self.each_cta(launch, |blocks| {
            awaited.extend(asynchronous::awaited(blocks));
            Ok(false)
        })?;
        Ok(self.each_cta(launch, |blocks| asynchronous::finish_awaited(blocks, launch, &awaited))?
            || self.each_cta(launch, |blocks| pipeline::finish_awaited(blocks, &awaited))?
            || self.each_cta(launch, |blocks| blocks.own.complete_copies(launch))?
            || self.each_cta(launch, |blocks| asynchronous::finish_oldest(blocks, launch))?)
    }

    /// Does something for each CTA. Whether any of it had an effect.
    fn each_cta(
        &mut self,
        launch: &LaunchContext<'_>,
        mut work: impl FnMut(&mut Blocks<'_>) -> Result<bool, Located>,
    ) -> Result<bool, Box<Fault>> {
        let mut any = false;
        for rank in 0..self.blocks.len() {
            let done = work(&mut Blocks::of(&mut self.blocks, rank));
            any |= done.map_err(|located| self.fault(launch, rank, located))?;
        }
        Ok(any)
    }

    /// Lets all multiplies of the warpgroups happen that may. Whether any did.
    fn multiply(&mut self, launch: &LaunchContext<'_>) -> Result<bool, Box<Fault>> {
        let mut any = false;
        for rank in 0..self.ctas.len() {
            let happened = self.ctas[rank].multiply(launch, &mut self.blocks[rank], Moment::Last);
            any |= happened.map_err(|located| self.fault(launch, rank, located))?;
        }
        Ok(any)
    }

    pub(crate) fn fault(&self, launch: &LaunchContext<'_>, rank: usize, located: Located) -> Box<Fault> {
        let instruction = launch.kernel.code.instruction(located.pc);
        let mut trouble = *located.trouble;
        let mut memory = Vec::new();
        for &(site, address) in &trouble.addresses {
            launch.name(site, address).add_to(&mut memory, &mut trouble.notes);
        }
        Box::new(Fault {
            kind: trouble.kind,
            kernel: launch.kernel.name.clone(),
            cta: Some(self.blocks[rank].index),
            warp: Some(located.warp),
            lanes: trouble.lanes,
            ptx_line: Some(instruction.line),
            ptx_text: Some(instruction.text.to_string()),
            source: instruction.source.clone(),
            message: trouble.message,
            what: trouble.what,
            also: trouble.also.into_iter().map(|(pc, what)| launch.kernel.code.label(pc, what)).collect(),
            memory,
            notes: trouble.notes,
            help: trouble.help,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_barrier_holds_a_lane_until_its_phase_completes() {
        let mut barrier = ClusterBarrier::new(2);
        let alive = [u32::MAX, 0xffff];
        assert!(barrier.wait(0, 1).is_err(), "no arrival before");
        barrier.arrive(0, u32::MAX).unwrap();
        assert!(barrier.arrive(0, 1).is_err(), "no wait between");
        assert!(!barrier.all_arrived(&alive));
        assert!(!barrier.wait(0, u32::MAX).unwrap());
        barrier.arrive(1, 0xffff).unwrap();
        assert!(barrier.all_arrived(&alive) && barrier.missing(&alive) == 0);
        barrier.complete();
        assert!(!barrier.holds(0, u32::MAX));
        assert!(barrier.wait(1, 0xffff).unwrap(), "its phase is over already");
        barrier.arrive(0, u32::MAX).unwrap();
        assert_eq!(barrier.missing(&alive), 16);
    }
}

//! The shared state of a CTA's warps, and access between the CTAs of a cluster.

use warpwright_events::{Actor, BARRIERS, Event, LANES};

use crate::cta::asynchronous::lane_copy::CopyQueue;
use crate::cta::asynchronous::queue::Transfers;
use crate::cta::barrier::BarrierState;
use crate::cta::cluster_barrier::ClusterBarrier;
use crate::cta::mbarrier::MbarrierRecords;
use crate::cta::register_budget::RegisterBudget;
use crate::cta::tensor_memory::TensorMemory;
use crate::cta::tensor_memory::queue::Pipeline;
use crate::cta::warpgroup::Warpgroups;
use crate::launch::context::LaunchContext;
use crate::launch::observer::Observer;
use crate::launch::time::Moment;
use crate::memory::SharedMemory;

/// The shared state of a CTA's warps.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its index in the grid.
    pub(crate) index: [u32; 3],
    /// Its rank in the cluster.
    pub(crate) rank: u32,
    /// The observer of its events.
    pub(crate) observer: Observer,
    pub(crate) shared: SharedMemory,
    pub(crate) barriers: Vec<BarrierState>,
    pub(crate) cluster_barrier: ClusterBarrier,
    /// The mbarriers in its shared memory.
    pub(crate) mbarriers: MbarrierRecords,
    /// The registers its warps hold.
    pub(crate) registers: RegisterBudget,
    /// Whether any of its threads has run. Before that, other CTAs must not access its shared
    /// memory.
    pub(crate) started: bool,
    /// Lanes that have not exited, by warp.
    pub(crate) alive: Vec<u32>,
    /// Asynchronous copies in flight, by warp.
    pub(crate) copies: Vec<CopyQueue>,
    /// The work of its warpgroups in flight.
    pub(crate) warpgroups: Warpgroups,
    /// Bulk and tensor copies in flight.
    pub(crate) transfers: Transfers,
    pub(crate) tensor_memory: TensorMemory,
    /// The tensor-memory work of its threads in flight.
    pub(crate) tensor_pipeline: Pipeline,
    /// The query that found a cancellation failed.
    pub(crate) failed_cancellation: Option<u32>,
    /// Its printed output.
    pub(crate) output: String,
    pub(crate) mma_multiply_adds: u64,
    /// The value of its clocks while nothing changes.
    pub(crate) time_stands_at: Option<Moment>,
}

/// The lanes of a warp that exist: the last warp of a CTA may be partial.
fn lanes_of(threads: u32, warp: u32) -> u32 {
    let left = threads - warp * LANES as u32;
    if left >= LANES as u32 { u32::MAX } else { (1 << left) - 1 }
}

impl Block {
    pub(crate) fn new(launch: &LaunchContext<'_>, index: [u32; 3], rank: u32) -> Self {
        let threads = launch.threads_per_cta();
        let warps = threads.div_ceil(LANES as u32);
        Self {
            index,
            rank,
            observer: Observer::default(),
            shared: SharedMemory::new(u64::from(launch.reachable_shared_bytes()), rank),
            barriers: vec![BarrierState::new(warps as usize); BARRIERS],
            cluster_barrier: ClusterBarrier::new(warps as usize),
            mbarriers: MbarrierRecords::new(),
            registers: RegisterBudget::new(launch, warps as usize),
            started: false,
            alive: (0..warps).map(|warp| lanes_of(threads, warp)).collect(),
            copies: (0..warps)
                .map(|warp| CopyQueue::new(launch.schedule, launch.linear_cta(index), warp))
                .collect(),
            warpgroups: Warpgroups::new(warps, launch.schedule, launch.linear_cta(index)),
            transfers: Transfers::new(launch.schedule, launch.linear_cta(index)),
            tensor_memory: TensorMemory::default(),
            tensor_pipeline: Pipeline::new(warps as usize, launch.schedule, launch.linear_cta(index)),
            failed_cancellation: None,
            output: String::new(),
            mma_multiply_adds: 0,
            time_stands_at: None,
        }
    }

    /// Reuses it as the block of another CTA of the same launch and rank, at its start.
    pub(crate) fn restart(&mut self, launch: &LaunchContext<'_>, index: [u32; 3]) {
        let threads = launch.threads_per_cta();
        self.index = index;
        self.shared.poison();
        self.mbarriers.clear();
        self.registers.reset();
        self.started = false;
        for (warp, queue) in self.copies.iter_mut().enumerate() {
            queue.reset(launch.schedule, launch.linear_cta(index), warp as u32);
        }
        self.warpgroups.reset(launch.schedule, launch.linear_cta(index));
        self.transfers.reset(launch.schedule, launch.linear_cta(index));
        self.failed_cancellation = None;
        self.tensor_memory.reset();
        self.tensor_pipeline.reset(launch.schedule, launch.linear_cta(index));
        for (warp, alive) in self.alive.iter_mut().enumerate() {
            *alive = lanes_of(threads, warp as u32);
        }
        for barrier in &mut self.barriers {
            barrier.reset();
        }
        self.cluster_barrier.reset();
        self.time_stands_at = None;
    }

    /// Completes the barriers whose threads have all arrived.
    pub(crate) fn settle(&mut self) {
        for barrier in &mut self.barriers {
            barrier.settle(&self.alive);
        }
    }

    /// Lanes exit at an instruction; barriers no longer wait for them.
    pub(crate) fn exit(&mut self, warp: u32, lanes: u32, pc: u32) {
        self.observer.report(Event::Exit { actor: Actor { rank: self.rank, warp, lanes, pc } });
        self.alive[warp as usize] &= !lanes;
        self.settle();
    }

    /// Whether all its threads have exited.
    pub(crate) fn has_exited(&self) -> bool {
        self.alive.iter().all(|&lanes| lanes == 0)
    }

    /// Whether other CTAs may access its shared memory.
    pub(crate) fn is_running(&self) -> bool {
        self.started && !self.has_exited()
    }
}

/// The CTAs of a cluster without the running one.
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

    /// The same peers with a shorter lifetime.
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

//! A CTA: its warps, and what they share.

use std::ops::BitOrAssign;
use std::time::Duration;

use warpwright_events::{Actor, BARRIERS, Event, LANES};

use crate::asynchronous::{CopyQueue, Transfers};
use crate::barrier::BarrierState;
use crate::cluster::{Blocks, ClusterBarrier};
use crate::instructions::settle;
use crate::launch::LaunchContext;
use crate::mbarrier::MbarrierRecords;
use crate::memory::SharedMemory;
use crate::observer::Observer;
use crate::register_budget::RegisterBudget;
use crate::tensor_memory::TensorMemory;
use crate::tensor_memory::pipeline::Pipeline;
use crate::warp::{Counts, Located, Pause, Warp};
use crate::warpgroup::{self, Moment, Warpgroups};

/// What the warps of a CTA share.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its index in the grid.
    pub(crate) index: [u32; 3],
    /// Its rank in the cluster.
    pub(crate) rank: u32,
    /// Who is told of what it does.
    pub(crate) observer: Observer,
    pub(crate) shared: SharedMemory,
    pub(crate) barriers: Vec<BarrierState>,
    pub(crate) cluster_barrier: ClusterBarrier,
    /// The mbarriers in its shared memory.
    pub(crate) mbarriers: MbarrierRecords,
    /// The registers its warps hold.
    pub(crate) registers: RegisterBudget,
    /// Whether any of its threads has run: before, other CTAs must leave its shared memory alone.
    pub(crate) started: bool,
    /// Lanes that have not exited, by warp.
    pub(crate) alive: Vec<u32>,
    /// Asynchronous copies under way, by warp.
    pub(crate) copies: Vec<CopyQueue>,
    /// What its warpgroups have under way.
    pub(crate) warpgroups: Warpgroups,
    /// Bulk and tensor copies under way.
    pub(crate) transfers: Transfers,
    pub(crate) tensor_memory: TensorMemory,
    /// What its threads have under way in tensor memory.
    pub(crate) tensor_pipeline: Pipeline,
    /// What it printed.
    pub(crate) output: String,
    pub(crate) mma_multiply_adds: u64,
    /// What its clocks show as long as nothing changes.
    pub(crate) time_stands_at: Option<Duration>,
}

/// The lanes of a warp that exist: the last warp of a CTA may be short.
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
            output: String::new(),
            mma_multiply_adds: 0,
            time_stands_at: None,
        }
    }

    /// Makes it the block of another CTA of the same launch and rank, at its start.
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

    /// Whether other CTAs may reach its shared memory.
    pub(crate) fn is_running(&self) -> bool {
        self.started && !self.has_exited()
    }

    /// Makes the lanes' copies that nothing has waited for so far. Whether there were any.
    pub(crate) fn complete_copies(&mut self, launch: &LaunchContext<'_>) -> Result<bool, Located> {
        let mut any = false;
        for warp in 0..self.copies.len() as u32 {
            any |= self.copies[warp as usize].drain(launch.memory, &mut self.shared);
            settle(self, warp).map_err(|trouble| Located { pc: 0, warp, trouble })?;
        }
        Ok(any)
    }
}

/// What came of giving every warp a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// There are threads that have not exited.
    pub(crate) left: bool,
    /// Some instruction was executed.
    pub(crate) moved: bool,
    /// Something was done besides polling.
    pub(crate) worked: bool,
    /// Something changed that other threads may see.
    pub(crate) changed: bool,
}

impl BitOrAssign for Round {
    fn bitor_assign(&mut self, other: Self) {
        self.left |= other.left;
        self.moved |= other.moved;
        self.worked |= other.worked;
        self.changed |= other.changed;
    }
}

/// The warps of a CTA that is resident on the device.
#[derive(Debug)]
pub(crate) struct Cta {
    pub(crate) warps: Vec<Warp>,
}

impl Cta {
    /// Its warps at the start of the kernel.
    pub(crate) fn new(launch: &LaunchContext<'_>, block: &Block) -> Self {
        let warps = block.alive.iter().enumerate();
        Self { warps: warps.map(|(warp, &mask)| Warp::new(launch, block.index, warp as u32, mask)).collect() }
    }

    /// Makes a finished CTA another one of the same launch, at its start.
    pub(crate) fn restart(&mut self, launch: &LaunchContext<'_>, block: &Block) {
        for warp in &mut self.warps {
            warp.restart(launch, block.index, block.alive[warp.index as usize]);
        }
    }

    /// How much its warps have executed since this was last asked.
    pub(crate) fn take_counts(&mut self) -> Counts {
        self.warps.iter_mut().map(|warp| std::mem::take(&mut warp.counts)).sum()
    }

    /// Gives every warp a turn. `blocks` are those of the whole cluster.
    pub(crate) fn round(
        &mut self,
        launch: &LaunchContext<'_>,
        blocks: &mut [Block],
        rank: usize,
    ) -> Result<Round, Located> {
        let mut round = Round::default();
        let mut blocks = Blocks::of(blocks, rank);
        blocks.own.started = true;
        for index in 0..self.warps.len() {
            let warp = &mut self.warps[index];
            if warp.paths.is_empty() {
                continue;
            }
            let before = warp.counts.warp_instructions;
            let pause = warp.run(launch, &mut blocks)?;
            let ran = warp.counts.warp_instructions != before;
            round.changed |= warp.take_changed();
            round.left |= pause != Pause::Exited;
            round.moved |= ran;
            round.worked |= ran && pause != Pause::Turn { waiting: true };
            if blocks.own.warpgroups.is_busy() && self.multiply(launch, blocks.own, Moment::Now)? {
                (round.moved, round.worked, round.changed) = (true, true, true);
            }
        }
        Ok(round)
    }

    /// Lets multiplies of the warpgroups happen. Whether any did.
    pub(crate) fn multiply(
        &mut self,
        launch: &LaunchContext<'_>,
        block: &mut Block,
        moment: Moment,
    ) -> Result<bool, Located> {
        let mut registers: Vec<_> = self.warps.iter_mut().map(|warp| &mut warp.registers).collect();
        warpgroup::advance(launch, block, &mut registers, moment)
    }
}

//! The model of a GPU: SMs with their schedulers and pipes, and the memory behind them.
//!
//! Each partition of an SM issues an instruction a cycle at most, of the oldest warp that can issue. A
//! warp issues in the order of its trace, once the registers that an instruction reads are there
//! (scoreboard) and its pipe is free. Partitions are simulated in the order of their next cycles; memory,
//! shared memory, the tensor memory accelerator and the tensor cores are resources with a bandwidth and a
//! latency, which answer a request at once with the cycle of its end.

mod bandwidth;
mod cache;
pub(crate) mod code_cache;
mod issue;
mod memory;
mod placement;
mod sm;
mod turns;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use self::memory::Memory;
use self::sm::{NEVER, Partition, Sm, Warp};
use crate::gpu::Gpu;
use crate::program::Program;
use crate::source::Source;
use crate::stall::STALLS;
use crate::timeline::Timeline;
use crate::trace::{Excerpt, Moment};

/// A moment of a cluster in the simulation.
#[derive(Debug, Default)]
struct MomentState {
    /// Its arrivals, and those that have not happened.
    arrivals: u32,
    left: u32,
    /// The cycle of the last arrival so far.
    at: u64,
    /// Warps that wait for it.
    waiting: Vec<u32>,
}

/// A cluster that runs.
#[derive(Debug, Default)]
struct Cluster {
    /// Its number at the source of its traces.
    number: usize,
    /// The linear index of its first CTA.
    first_cta: u32,
    /// The SM of each CTA.
    sms: Vec<u32>,
    moments: Vec<MomentState>,
    /// Warps of each CTA that have not ended.
    left: Vec<u32>,
    /// Warps that the emulator cannot run until another has changed something.
    parked: Vec<u32>,
}

/// The clusters of a launch, and their CTAs on an SM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// CTAs of a cluster.
    pub(crate) ctas: u32,
    pub(crate) warps_per_cta: u32,
    pub(crate) ctas_per_sm: u32,
    /// Shared memory of a CTA, in bytes.
    pub(crate) shared_bytes: u64,
}

/// The result of a simulation.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Cycles from the first instruction to the end of the last warp.
    pub(crate) cycles: u64,
    /// CTAs that were simulated.
    pub(crate) simulated_ctas: u64,
    /// Cycles of warps by operation and stall reason.
    pub(crate) stalls: Vec<[u64; STALLS]>,
    /// Instructions issued by operation.
    pub(crate) issued: Vec<u64>,
    /// Cycles in which the tensor cores were busy, of all partitions.
    pub(crate) tensor_cycles: u64,
    /// Bytes that device memory has read and written.
    pub(crate) device_bytes: u64,
    /// Bytes that the L2 cache has served.
    pub(crate) l2_bytes: u64,
    /// What happened when in some CTAs.
    pub(crate) timeline: Timeline,
    /// Warps that waited for a moment that the model never reached, and were let go.
    pub(crate) released: u64,
}

/// A simulation of a launch.
struct Simulation<'a> {
    program: &'a Program,
    gpu: &'a Gpu,
    source: &'a mut dyn Source,
    shape: Shape,
    /// Clusters of the grid have not started.
    is_pending: bool,
    /// The last turn of a warp.
    excerpt: Excerpt,
    /// Warps that the emulator may be able to run, since another has changed something.
    retried: Vec<u32>,
    /// The launch has failed, or waits in vain.
    has_stopped: bool,
    memory: Memory,
    sms: Vec<Sm>,
    /// The partitions of all SMs, SM by SM.
    partitions: Vec<Partition>,
    /// Partitions with the cycle at which each looks for a warp to issue.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    warps: Vec<Warp>,
    /// Warps that have ended, by index, for reuse.
    spare: Vec<u32>,
    clusters: Vec<Option<Cluster>>,
    /// The end of the last copy, whose data other CTAs may get, too.
    last_copy: u64,
    /// A CTA has ended, so that there is room for another.
    cta_ended: bool,
    outcome: Outcome,
}

/// Simulates the clusters of a launch, in the order of the grid.
pub(crate) fn simulate(
    program: &Program,
    gpu: &Gpu,
    clock: f64,
    source: &mut dyn Source,
    shape: Shape,
    traced_ctas: u32,
) -> Outcome {
    let arch = gpu.arch;
    let l1 = u64::from(arch.capability.shared_bytes_per_sm) + 28 * 1024;
    let l1 = l1.saturating_sub(shape.shared_bytes * u64::from(shape.ctas_per_sm)).max(16 * 1024);
    let code_lines = program.code_lines.last().map_or(1, |line| line + 1) as usize;
    let sms =
        (0..arch.sm_count as usize).map(|sm| Sm::new(sm, shape.ctas_per_sm, l1, code_lines, &gpu.timing));
    let partitions = (0..arch.sm_count * gpu.partitions()).map(|_| Partition::new());
    let operations = program.operations.len();
    let mut simulation = Simulation {
        program,
        gpu,
        source,
        shape,
        is_pending: true,
        excerpt: Excerpt::default(),
        retried: Vec::new(),
        has_stopped: false,
        memory: Memory::new(gpu, clock),
        sms: sms.collect(),
        partitions: partitions.collect(),
        queue: BinaryHeap::new(),
        warps: Vec::new(),
        spare: Vec::new(),
        clusters: Vec::new(),
        last_copy: 0,
        cta_ended: false,
        outcome: Outcome {
            cycles: 0,
            simulated_ctas: 0,
            stalls: vec![[0; STALLS]; operations],
            issued: vec![0; operations],
            tensor_cycles: 0,
            device_bytes: 0,
            l2_bytes: 0,
            released: 0,
            timeline: Timeline { ctas: traced_ctas, ..Timeline::default() },
        },
    };
    simulation.run();
    let sectors = |sectors: u64| 32 * sectors;
    let Simulation { memory, mut outcome, .. } = simulation;
    // A launch ends when its stores are visible to the whole system.
    if memory.stored > 0 {
        outcome.cycles = outcome.cycles.max(memory.stored) + gpu.timing.flush_latency.value as u64;
    }
    outcome.device_bytes = sectors(memory.device_sectors);
    outcome.l2_bytes = sectors(memory.l2_sectors);
    outcome
}

impl Simulation<'_> {
    fn run(&mut self) {
        self.place(0);
        self.retry(0);
        loop {
            while let Some(Reverse((now, partition))) = self.queue.pop() {
                self.step(now, partition);
                self.retry(now);
                if self.has_stopped {
                    return;
                }
                if std::mem::take(&mut self.cta_ended) {
                    let later = now + self.gpu.timing.cta_latency.value as u64;
                    self.place(later);
                    self.retry(later);
                }
            }
            // Arrivals that the trace does not have, as of threads of a kernel that failed.
            if !self.unpark() && !self.release() {
                break;
            }
        }
    }

    /// A partition issues an instruction if a warp can.
    fn step(&mut self, now: u64, partition: u32) {
        let state = &mut self.partitions[partition as usize];
        if state.wakes_at != now {
            return;
        }
        state.wakes_at = NEVER;
        let mut earliest = NEVER;
        let mut chosen = None;
        for &warp in &state.warps {
            let Warp { ready, pipe, .. } = self.warps[warp as usize];
            let at = ready.max(state.pipes[pipe as usize]);
            if at <= now {
                chosen = Some(warp);
                break;
            }
            earliest = earliest.min(at);
        }
        let Some(warp) = chosen else {
            self.wake(partition, earliest);
            return;
        };
        if std::mem::take(&mut self.warps[warp as usize].comes_to_ordered) {
            self.resume_ordered(warp, now);
            self.wake(partition, now);
            return;
        }
        let slots = u64::from(self.program.operations[self.warps[warp as usize].pc as usize].slots);
        self.issue(warp, now);
        self.wake(partition, now + slots);
    }

    /// The SM of a warp.
    fn sm_of(&self, warp: u32) -> usize {
        (self.warps[warp as usize].partition / self.gpu.partitions()) as usize
    }

    /// A partition looks for a warp to issue at a cycle, or earlier.
    fn wake(&mut self, partition: u32, at: u64) {
        let state = &mut self.partitions[partition as usize];
        let at = at.max(state.free_at);
        if at < state.wakes_at {
            state.wakes_at = at;
            self.queue.push(Reverse((at, partition)));
        }
    }

    /// Lets warps go whose moments cannot come. Returns whether there were any.
    fn release(&mut self) -> bool {
        let mut waiting = Vec::new();
        for cluster in self.clusters.iter_mut().flatten() {
            for moment in &mut cluster.moments {
                waiting.append(&mut moment.waiting);
            }
        }
        waiting.sort_unstable();
        self.outcome.released += waiting.len() as u64;
        for &warp in &waiting {
            let now = self.outcome.cycles;
            self.resume(warp, now, 0);
        }
        !waiting.is_empty()
    }

    /// Arrivals at a moment of a cluster happen at a cycle.
    fn arrive(&mut self, cluster: u32, moment: Moment, count: u32, at: u64) {
        let state = &mut self.clusters[cluster as usize].as_mut().expect("it runs").moments[moment as usize];
        state.left = state.left.saturating_sub(count);
        state.at = state.at.max(at);
        if state.left == 0 {
            let (at, arrivals) = (state.at, state.arrivals);
            let waiting = std::mem::take(&mut state.waiting);
            for warp in waiting {
                self.resume(warp, at, arrivals);
            }
        }
    }
}

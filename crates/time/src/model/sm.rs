//! The state of SMs and of their warps.

use std::collections::VecDeque;
use std::ops::Range;

use warpwright_arch::instructions::Pipe;
use warpwright_arch::timing::Timing;

use super::code_cache::CodeCache;
use super::memory::Port;
use crate::stall::Stall;
use crate::trace::WarpTrace;

/// A cycle that does not come.
pub(super) const NEVER: u64 = u64::MAX;
/// Pipes of a partition, by their order in [`Pipe::ALL`](warpwright_arch::instructions::Pipe::ALL).
pub(super) const PIPES: usize = warpwright_arch::instructions::Pipe::ALL.len();

/// Accesses of shared memory that a partition has in flight at most (assumed).
const QUEUE: usize = 8;

/// A partition of an SM.
#[derive(Debug)]
pub(super) struct Partition {
    /// Its warps, the oldest first.
    pub(super) warps: Vec<u32>,
    /// The cycle from which on each pipe is free.
    pub(super) pipes: [u64; PIPES],
    /// The ends of its last accesses of shared memory, the oldest first.
    accesses: VecDeque<u64>,
    /// The cycle from which on its tensor core is free.
    pub(super) tensor_free: u64,
    /// The cycle from which on it may issue.
    pub(super) free_at: u64,
    /// The cycle of its entry in the queue that counts.
    pub(super) wakes_at: u64,
}

/// An SM.
#[derive(Debug)]
pub(super) struct Sm {
    pub(super) port: Port,
    pub(super) code: CodeCache,
    /// CTAs that it has room for.
    pub(super) room: u32,
    /// Warps that have been placed on it.
    pub(super) placed: u32,
    /// The cycle from which on it may start another CTA.
    pub(super) starts_at: u64,
    /// The cycle from which on the load/store unit is free.
    pub(super) load_store_free: u64,
    /// The cycle from which on shared memory is free.
    pub(super) shared_free: u64,
    /// The cycle from which on the tensor memory accelerator is free.
    pub(super) tma_free: u64,
    /// The cycle from which on the queue of `tcgen05` work is empty.
    pub(super) tensor_queue_free: u64,
}

impl Partition {
    pub(super) fn new() -> Self {
        Self {
            warps: Vec::new(),
            pipes: [0; PIPES],
            accesses: VecDeque::from([0; QUEUE]),
            tensor_free: 0,
            free_at: 0,
            wakes_at: NEVER,
        }
    }

    /// An access of shared memory enters the queue, at the end of which it takes so many cycles of the partition. Each
    /// pass takes two, and one of the SM (`red.shared` with conflicts of one and of four warps, H200,
    /// docs/results/2026-11-28-time-h200-seeded.md). The next access issues when the queue has a place.
    pub(super) fn enqueue(&mut self, start: u64, cycles: u64) {
        let end = self.accesses.back().copied().unwrap_or(0).max(start) + cycles;
        self.accesses.pop_front();
        self.accesses.push_back(end);
        let lsu = &mut self.pipes[Pipe::Lsu as usize];
        *lsu = (*lsu).max(self.accesses[0]);
    }
}

impl Sm {
    pub(super) fn new(index: usize, ctas: u32, l1_bytes: u64, code_lines: usize, timing: &Timing) -> Self {
        Self {
            port: Port::new(index, l1_bytes, timing),
            code: CodeCache::new(code_lines),
            room: ctas,
            placed: 0,
            starts_at: 0,
            load_store_free: 0,
            shared_free: 0,
            tma_free: 0,
            tensor_queue_free: 0,
        }
    }

    /// An access takes cycles of the load/store unit. Returns the first.
    pub(super) fn load_store(&mut self, now: u64, cycles: u64) -> u64 {
        let start = self.load_store_free.max(now);
        self.load_store_free = start + cycles;
        start
    }
}

/// The asynchronous work of one kind of a warp.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// The end of the work that is in no group yet.
    pub(super) open: u64,
    /// The ends of groups, oldest first.
    pub(super) committed: VecDeque<u64>,
}

impl Groups {
    pub(super) fn add(&mut self, end: u64) {
        self.open = self.open.max(end);
    }

    pub(super) fn commit(&mut self) {
        self.committed.push_back(std::mem::take(&mut self.open));
    }

    /// The cycle at which at most `latest` groups are in flight.
    pub(super) fn wait(&mut self, latest: u32) -> u64 {
        let mut end = 0;
        while self.committed.len() > latest as usize {
            end = end.max(self.committed.pop_front().unwrap_or(0));
        }
        end
    }

    /// The end of all work.
    pub(super) fn end(&self) -> u64 {
        self.committed.iter().copied().fold(self.open, u64::max)
    }
}

/// A warp on an SM.
#[derive(Debug, Default)]
pub(super) struct Warp {
    /// The cluster, among those that run.
    pub(super) cluster: u32,
    /// The rank of its CTA.
    pub(super) rank: u32,
    /// Its partition, among those of all SMs.
    pub(super) partition: u32,
    /// Its number in the cluster.
    pub(super) number: u32,
    /// Its trace, as far as it is known.
    pub(super) trace: WarpTrace,
    /// The operation that the emulator executes when this warp can issue it.
    pub(super) ordered: Option<u32>,
    /// The next operation is that one.
    pub(super) comes_to_ordered: bool,
    /// Turns in a row in which it has changed nothing.
    pub(super) idle_turns: u32,
    /// Its trace is complete.
    pub(super) is_complete: bool,
    /// The record after its run's details.
    pub(super) cursor: usize,
    /// The details of its run.
    pub(super) details: Range<usize>,
    /// The run, and the position in it.
    pub(super) run: (u32, u32),
    pub(super) position: u32,
    /// The lanes that execute its run.
    pub(super) lanes: u32,
    /// The line of the instruction cache that it executes, plus 1.
    pub(super) code_line: u32,
    /// The next operation.
    pub(super) pc: u32,
    /// The cycle at which the next operation can issue, as far as its registers decide; `NEVER` if it waits for
    /// a moment.
    pub(super) ready: u64,
    /// The reason that it cannot issue before.
    pub(super) stall: Stall,
    /// The pipe of the next operation.
    pub(super) pipe: u8,
    /// The cycle after its last instruction.
    pub(super) since: u64,
    /// The cycle before which it does not go on, and why.
    pub(super) not_before: (u64, Stall),
    /// The cycle at which each register is there, and the reason that it is not before.
    pub(super) registers: Vec<(u64, Stall)>,
    pub(super) lane_copies: Groups,
    pub(super) bulk_copies: Groups,
    pub(super) multiplications: Groups,
    /// The cycle from which on its stores to global memory do not delay a fence.
    pub(super) stored: u64,
    /// The end of its last load or store of tensor memory.
    pub(super) tensor_memory: u64,
}

//! Synchronizing the threads of a CTA, and reductions, scans and broadcasts over them. PTX ISA,
//! `barrier`.

mod collective;

pub use self::collective::{
    broadcast, exclusive_scan, exclusive_sum, inclusive_scan, inclusive_sum, reduce, reduce_max, reduce_min,
    reduce_sum,
};
use warpwright_arch::limits::{NAMED_BARRIERS, THREADS_PER_CTA, WARP_SIZE};
use warpwright_ir::Operand;

use crate::launch::demand_threads;
use crate::operation::{compute, perform, refuse};
use crate::value::{Reg, Value};

/// Waits until all threads of the CTA arrive. What they wrote before is then visible to all of
/// them.
#[track_caller]
pub fn sync_threads() {
    perform("bar.sync", [Operand::Integer(0)]);
}

/// [`sync_threads`], and the number of threads whose `predicate` holds.
#[track_caller]
pub fn sync_threads_count(predicate: impl Value<bool>) -> Reg<u32> {
    compute("bar.red.popc.u32", [Operand::Integer(0), predicate.operand()])
}

/// [`sync_threads`], and whether every thread's `predicate` holds.
#[track_caller]
pub fn sync_threads_and(predicate: impl Value<bool>) -> Reg<bool> {
    compute("bar.red.and.pred", [Operand::Integer(0), predicate.operand()])
}

/// [`sync_threads`], and whether some thread's `predicate` holds.
#[track_caller]
pub fn sync_threads_or(predicate: impl Value<bool>) -> Reg<bool> {
    compute("bar.red.or.pred", [Operand::Integer(0), predicate.operand()])
}

/// One of the CTA's 16 hardware barriers, for some of its warps. Barrier 0 is the one of
/// [`sync_threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBarrier {
    id: u32,
    threads: u32,
}

impl NamedBarrier {
    /// Barrier `id` (1 to 15) for `threads` threads, a multiple of 32.
    #[track_caller]
    pub fn new(id: u32, threads: u32) -> Self {
        if !(1..NAMED_BARRIERS).contains(&id) {
            let last = NAMED_BARRIERS - 1;
            refuse(format!("a CTA has named barriers 1 to {last} (0 is sync_threads()'s); this one is {id}"));
        }
        check_threads(threads);
        Self { id, threads }
    }

    /// Waits until all the barrier's threads have arrived, here or by [`arrive`](Self::arrive).
    #[track_caller]
    pub fn sync(self) {
        perform("bar.sync", [Operand::Integer(self.id.into()), Operand::Integer(self.threads.into())]);
    }

    /// Counts this warp as arrived, without waiting.
    #[track_caller]
    pub fn arrive(self) {
        perform("bar.arrive", [Operand::Integer(self.id.into()), Operand::Integer(self.threads.into())]);
    }
}

/// [`NamedBarrier::sync`] of barrier `id`, a device value: for example, one barrier per consumer
/// warpgroup.
#[track_caller]
pub fn barrier_sync(id: impl Value<u32>, threads: u32) {
    named("bar.sync", id.operand(), threads);
}

/// [`NamedBarrier::arrive`] at barrier `id`, a device value.
#[track_caller]
pub fn barrier_arrive(id: impl Value<u32>, threads: u32) {
    named("bar.arrive", id.operand(), threads);
}

#[track_caller]
fn named(opcode: &'static str, id: Operand, threads: u32) {
    if let Operand::Integer(known) = id
        && !(0..NAMED_BARRIERS.into()).contains(&known)
    {
        refuse(format!("a CTA has barriers 0 to {}; this one is {known}", NAMED_BARRIERS - 1));
    }
    check_threads(threads);
    perform(opcode, [id, Operand::Integer(threads.into())]);
}

#[track_caller]
fn check_threads(threads: u32) {
    if threads == 0 || !threads.is_multiple_of(WARP_SIZE) || threads > THREADS_PER_CTA {
        refuse(format!(
            "a named barrier counts whole warps: its threads are a multiple of {WARP_SIZE} up to {THREADS_PER_CTA}, not {threads}"
        ));
    } else {
        demand_threads("the named barrier waits for", threads);
    }
}

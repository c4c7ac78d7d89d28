//! The checkers: they watch a launch and say what is wrong with it, in the terms of the PTX memory model.
//!
//! **The hooks.** [`Observer`] is the whole of what the rest of the emulator sees. Every block holds one; the CTAs of a
//! cluster share what is behind it: the checkers, or the counters of [`count`](crate::count), or both. Each of its methods is
//! an event. When nobody listens, an event is one branch.
//!
//! What an instruction must report:
//!
//! | it does | it calls |
//! |---|---|
//! | loads, stores, atomics in the generic proxy | nothing: `memory::resolve` does. Strong ones call [`Observer::publish`] before and [`Observer::acquire`] after |
//! | issues asynchronous work | [`Observer::issue`], once, with every range of bytes it will touch |
//! | commits a group, waits for groups | [`Observer::commit`], [`Observer::wait`] |
//! | touches an mbarrier | [`Observer::mbarrier_initialise`], `..._arrive`, `..._phase_ends`, `..._test` |
//! | arrives at, or leaves, a barrier of the CTA or the cluster | [`Observer::barrier_arrive`], [`Observer::barrier_leave`], and the same of `cluster` |
//! | fences | [`Observer::fence`] |
//!
//! Asynchronous work is reported when it is issued, with all it will ever touch, whatever the schedule: the checkers hold
//! that it may touch them at any moment until the program has learnt of its completion.

mod agents;
mod checker;
mod clock;
mod event;
mod explain;
mod finding;
mod firsts;
mod guess;
mod in_front;
mod launch;
mod locations;
mod mbarrier;
mod memory;
mod misuse;
mod place;
mod race;
mod registers;
mod render;
mod report;
mod shadow;
mod tensor_memory;
mod trusting;
mod unwritten;
mod warp;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard};

use checker::Checker;
pub(crate) use event::{
    Actor, Awaited, Completion, Fence, FenceOrder, GroupKind, Proxy, Range, Scope, Site, Strength, Touch,
};
pub use explain::{codes, explain};
pub(crate) use finding::write_more;
pub use finding::{Finding, FindingKind, Label};
pub(crate) use in_front::InFront;
pub(crate) use launch::LaunchChecks;
pub use render::{SourceFiles, render};
pub(crate) use shadow::Value;

use crate::count::{Counter, LaunchCounting};
use crate::mbarrier::MbarrierAddress;
use crate::program::RegisterUse;
use crate::registers::LANES;

/// Whether a launch is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checks {
    /// It only runs. Faults that no kernel survives are still told.
    #[default]
    Off,
    /// Every checker watches it.
    On,
}

/// What a block tells of itself; nobody listens unless the launch is checked or counted.
#[derive(Clone, Default)]
pub(crate) struct Observer(Option<Rc<Listeners>>);

/// Those who are told.
struct Listeners {
    checks: Option<Arc<LaunchChecks>>,
    checker: Option<RefCell<Checker>>,
    counter: Option<RefCell<Counter>>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer(on)" } else { "Observer(off)" })
    }
}

impl Observer {
    /// An observer of the CTAs of a cluster, of the given linear indices in the order of their ranks. Their blocks share
    /// it, by cloning. Shared memory past `own_shared` bytes of each is the system's.
    pub(crate) fn new(
        checks: Option<&Arc<LaunchChecks>>,
        counting: Option<&Arc<LaunchCounting>>,
        ctas: &[(u64, [u32; 3])],
        own_shared: u64,
    ) -> Self {
        if checks.is_none() && counting.is_none() {
            return Self(None);
        }
        Self(Some(Rc::new(Listeners {
            checks: checks.cloned(),
            checker: checks.map(|checks| RefCell::new(Checker::new(checks.clone(), ctas, own_shared))),
            counter: counting.map(|counting| RefCell::new(Counter::new(counting, ctas.len()))),
        })))
    }

    /// Whether anyone listens. Where collecting what an event tells takes work, ask this first.
    #[inline(always)]
    pub(crate) fn listens(&self) -> bool {
        self.0.is_some()
    }

    #[inline(always)]
    fn tell(&self, event: impl FnOnce(&mut Checker)) {
        if let Some(Listeners { checker: Some(checker), .. }) = self.0.as_deref() {
            event(&mut checker.borrow_mut());
        }
    }

    #[inline(always)]
    fn count(&self, event: impl FnOnce(&mut Counter)) {
        if let Some(Listeners { counter: Some(counter), .. }) = self.0.as_deref() {
            event(&mut counter.borrow_mut());
        }
    }

    /// Waits until no other CTA is within a strong access to global memory: the checkers are to see them in the order in which they
    /// take place.
    #[inline(always)]
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.as_deref()?.checks.as_ref().map(|checks| checks.turn())
    }

    /// Whether executions are counted.
    #[inline(always)]
    pub(crate) fn counts(&self) -> bool {
        matches!(self.0.as_deref(), Some(Listeners { counter: Some(_), .. }))
    }

    /// A path ran the operations from one place up to another.
    #[inline(always)]
    pub(crate) fn ran(&self, from: u32, end: u32, lanes: u32) {
        self.count(|counter| counter.ran(from, end, lanes));
    }

    /// Lanes were on the path of an operation and did not execute it.
    pub(crate) fn predicated_off(&self, pc: u32, lanes: u32) {
        self.count(|counter| counter.predicated_off(pc, lanes));
    }

    /// Lanes of a warp parted at a branch.
    pub(crate) fn diverged(&self, pc: u32) {
        self.count(|counter| counter.diverged(pc));
    }

    /// Lanes access `size` bytes each of their local memory, which is theirs alone.
    pub(crate) fn local(&self, actor: Actor, addresses: &[u64; LANES], size: u64, touch: Touch) {
        self.count(|counter| counter.access(actor, Site::Local, addresses, size, touch, Strength::Weak));
    }

    /// `cp.async` of lanes, from global to shared memory; lanes of `reading` read their sources. Each lane's copy is
    /// issued besides.
    pub(crate) fn lane_copies(
        &self,
        actor: Actor,
        sources: &[u64; LANES],
        targets: &[u64; LANES],
        size: u64,
        reading: u32,
    ) {
        self.count(|counter| counter.lane_copies(actor, sources, targets, size, reading));
    }

    /// Lanes access `size` bytes each at their addresses, in the generic proxy. `values` are what a store writes, where it
    /// is no more than 16 bytes a lane: writing what is there already is harmless.
    #[allow(clippy::too_many_arguments)] // An access is all of these.
    pub(crate) fn access(
        &self,
        actor: Actor,
        site: Site,
        addresses: &[u64; LANES],
        size: u64,
        touch: Touch,
        strength: Strength,
        values: Option<&[Value; LANES]>,
    ) {
        self.tell(|checker| checker.access(actor, site, addresses, size, touch, strength, values));
        self.count(|counter| counter.access(actor, site, addresses, size, touch, strength));
    }

    /// Lanes load `size` bytes each from local memory, of which some lanes have written none.
    pub(crate) fn local_load(&self, actor: Actor, unwritten: u32, addresses: &[u64; LANES], size: u64) {
        self.tell(|checker| checker.local_load(actor, unwritten, addresses, size));
    }

    /// Before a strong store or an atomic takes place: what it releases becomes visible with it.
    #[inline(always)]
    pub(crate) fn publish(
        &self,
        actor: Actor,
        site: Site,
        addresses: &[u64; LANES],
        touch: Touch,
        strength: Strength,
    ) {
        self.tell(|checker| checker.publish(actor, site, addresses, touch, strength));
    }

    /// After a strong load or an atomic took place: what it acquires has happened before.
    #[inline(always)]
    pub(crate) fn acquire(
        &self,
        actor: Actor,
        site: Site,
        addresses: &[u64; LANES],
        touch: Touch,
        strength: Strength,
    ) {
        self.tell(|checker| checker.acquire(actor, site, addresses, touch, strength));
    }

    /// Lanes execute a fence.
    pub(crate) fn fence(&self, actor: Actor, fence: Fence) {
        self.tell(|checker| checker.fence(actor, fence));
        self.count(|counter| counter.lean(actor));
    }

    /// All lanes of the actor meet (`bar.warp.sync`), wherever in the program each of them is.
    pub(crate) fn warp_meets(&self, actor: Actor) {
        self.tell(|checker| checker.warp_meets(actor));
    }

    /// Lanes arrive at a barrier of the CTA, in this generation; whether it waits for `all` threads of the CTA.
    pub(crate) fn barrier_arrive(&self, actor: Actor, barrier: u32, generation: u32, all: bool) {
        self.tell(|checker| checker.barrier_arrive(actor, barrier, generation, all));
        if all {
            self.count(|counter| counter.barrier_arrive(actor, barrier, generation));
        }
    }

    /// Lanes come to a barrier of the CTA that they have arrived at, before it has completed.
    pub(crate) fn barrier_again(&self, actor: Actor, barrier: u32) {
        self.tell(|checker| checker.report_second_arrival(barrier, actor));
    }

    /// Lanes go on, since this generation of a barrier has ended.
    pub(crate) fn barrier_leave(&self, actor: Actor, barrier: u32, generation: u32) {
        self.tell(|checker| checker.barrier_leave(actor, barrier, generation));
        self.count(|counter| counter.barrier_leave(actor, barrier, generation));
    }

    /// Lanes arrive at the cluster's barrier; `releases` unless it is `.relaxed`.
    pub(crate) fn cluster_arrive(&self, actor: Actor, releases: bool) {
        self.tell(|checker| checker.cluster_arrive(actor, releases));
    }

    /// All threads of the cluster have arrived at its barrier.
    pub(crate) fn cluster_completes(&self) {
        self.tell(Checker::cluster_completes);
    }

    /// Lanes go on from `barrier.cluster.wait`.
    pub(crate) fn cluster_leave(&self, actor: Actor) {
        self.tell(|checker| checker.cluster_leave(actor));
    }

    /// Lanes exit.
    pub(crate) fn exit(&self, actor: Actor) {
        self.tell(|checker| checker.exit(actor));
    }

    /// A lane initialises an mbarrier for `count` arrivals a phase. The write itself is reported here, too.
    pub(crate) fn mbarrier_initialise(&self, actor: Actor, address: MbarrierAddress, count: u32) {
        self.tell(|checker| checker.mbarrier_initialise(actor, address, count));
        self.count(|counter| counter.lean(actor));
    }

    /// A lane invalidates an mbarrier.
    pub(crate) fn mbarrier_invalidate(&self, actor: Actor, address: MbarrierAddress) {
        self.tell(|checker| checker.mbarrier_invalidate(actor, address));
        self.count(|counter| counter.lean(actor));
    }

    /// A lane arrives at an mbarrier, or adds to the bytes it expects; `releases` unless it is `.relaxed`.
    pub(crate) fn mbarrier_arrive(&self, actor: Actor, address: MbarrierAddress, releases: bool) {
        self.tell(|checker| checker.mbarrier_arrive(actor, address, releases));
        self.count(|counter| counter.lean(actor));
    }

    /// A lane has issued a store that completes at an mbarrier of the cluster. That is a release: what the lane knows goes with it.
    pub(crate) fn mbarrier_hears(&self, actor: Actor, address: MbarrierAddress) {
        self.tell(|checker| checker.mbarrier_hears(actor, address));
    }

    /// `cp.async.mbarrier.arrive` and `tcgen05.commit`: the mbarrier learns of the work of a lane that was issued so far.
    pub(crate) fn mbarrier_arrive_after(&self, actor: Actor, address: MbarrierAddress, kind: GroupKind) {
        self.tell(|checker| checker.mbarrier_arrive_after(actor, address, kind));
        self.count(|counter| counter.lean(actor));
    }

    /// The arrival of a lane that waited for its copies takes place.
    pub(crate) fn mbarrier_copies_arrive(&self, warp: u32, lane: u32, address: MbarrierAddress) {
        self.tell(|checker| checker.mbarrier_copies_arrive(warp, lane, address));
    }

    /// A lane announces bytes to an mbarrier.
    pub(crate) fn mbarrier_expect(&self, actor: Actor, address: MbarrierAddress, bytes: u32) {
        self.tell(|checker| checker.mbarrier_counts_bytes(Some(actor), address, bytes.into()));
    }

    /// Bytes arrive at an mbarrier; before its phase ends on account of that.
    pub(crate) fn mbarrier_bytes_arrive(&self, address: MbarrierAddress, bytes: u32) {
        self.tell(|checker| checker.mbarrier_counts_bytes(None, address, -i64::from(bytes)));
    }

    /// A copy that was issued to an mbarrier has moved its bytes, which arrive next.
    pub(crate) fn mbarrier_copy_completes(&self, address: MbarrierAddress) {
        self.tell(|checker| checker.mbarrier_copy_completes(address));
    }

    /// A phase of an mbarrier ends: after the last arrival, or the last bytes.
    pub(crate) fn mbarrier_phase_ends(&self, address: MbarrierAddress) {
        self.tell(|checker| checker.mbarrier_phase_ends(address));
    }

    /// A lane asks whether a phase of an mbarrier has `ended` (`test_wait`, `try_wait`); if it has, it `acquires` unless
    /// it is `.relaxed`.
    pub(crate) fn mbarrier_test(&self, actor: Actor, address: MbarrierAddress, ended: bool, acquires: bool) {
        self.tell(|checker| checker.mbarrier_test(actor, address, ended, acquires));
        self.count(|counter| counter.lean(actor));
    }

    /// The one lane of the actor issues asynchronous work that touches these ranges (for `wgmma`: the whole warp does).
    pub(crate) fn issue(&self, actor: Actor, proxy: Proxy, completion: Completion, ranges: &[Range]) {
        self.tell(|checker| checker.issue(actor, proxy, completion, ranges));
        self.count(|counter| counter.issue(actor, proxy, completion, ranges));
    }

    /// Lanes commit the work they have issued to a group.
    pub(crate) fn commit(&self, actor: Actor, kind: GroupKind) {
        self.tell(|checker| checker.commit(actor, kind));
    }

    /// Lanes have waited until at most `latest` of the groups they committed are under way; `None` for all work,
    /// committed or not (`cp.async.wait_all`).
    pub(crate) fn wait(&self, actor: Actor, kind: GroupKind, latest: Option<u32>, awaited: Awaited) {
        self.tell(|checker| checker.wait(actor, kind, latest, awaited));
        self.count(|counter| counter.lean(actor));
    }

    /// A warp executes `wgmma.fence`.
    pub(crate) fn registers_fenced(&self, actor: Actor) {
        self.tell(|checker| checker.registers_fenced(actor));
    }

    /// A warp waits for all its multiplies, as ptxas makes it do before it moves accumulators.
    pub(crate) fn registers_settled(&self, actor: Actor) {
        self.tell(|checker| checker.registers_settled(actor));
    }

    /// A warp issues a multiply that uses these columns of its registers, as accumulators and as A; `shape` is
    /// the columns and the depth of its tile.
    pub(crate) fn registers_multiplied(
        &self,
        actor: Actor,
        accumulators: &[u32],
        fragments: &[u32],
        shape: (usize, usize),
    ) {
        self.tell(|checker| checker.registers_multiplied(actor, accumulators, fragments, shape));
    }

    /// A warp is given columns of its CTA's tensor memory.
    pub(crate) fn tensor_allocated(&self, actor: Actor, first: u32, columns: u32) {
        self.tell(|checker| checker.tensor_allocated(actor, first, columns));
    }

    /// A warp gives columns of its CTA's tensor memory back.
    pub(crate) fn tensor_freed(&self, actor: Actor, first: u32, columns: u32) {
        self.tell(|checker| checker.tensor_freed(actor, first, columns));
    }

    /// A warp issues a load of tensor memory into these columns of its registers.
    pub(crate) fn registers_loaded(&self, actor: Actor, columns: &[u32]) {
        self.tell(|checker| checker.registers_loaded(actor, columns));
    }

    /// A warp executes an ordinary instruction on registers that multiplies use, too. Their columns count from `base`.
    pub(crate) fn registers_used(&self, actor: Actor, base: u32, uses: &[RegisterUse]) {
        self.tell(|checker| checker.registers_used(actor, base, uses));
    }

    /// All CTAs of the cluster have ended.
    pub(crate) fn finish(&self) {
        self.tell(Checker::finish);
        self.count(Counter::finish);
    }
}

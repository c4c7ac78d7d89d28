//! mbarriers: barriers in shared memory that count arrivals and bytes. PTX ISA, "mbarrier".
//!
//! A barrier goes through phases. A phase completes when as many threads have arrived as
//! [`Mbarrier::init`] states, and as many bytes have been copied as the arrivals expected. The next
//! phase then begins with the same count. Threads wait for the end of a phase by its parity (0 for
//! the first phase, 1 for the second, 0 for the third, ...) or by the state that an arrival in it
//! returned. A barrier must not run two phases ahead of its waiters, because the parity would be
//! ambiguous.

mod arrival;
mod phase;

use warpwright_arch::limits::{MBARRIER_BYTES, MBARRIER_MAX_COUNT};
use warpwright_ir::Operand;

pub use arrival::Arrival;
pub use phase::PhaseEnd;

use crate::DeviceValue;
use crate::access::Scope;
use crate::control::wait_until;
use crate::index::{ElementOffset, Index};
use crate::object;
use crate::operation::{compute, fresh, here, perform, record, refuse};
use crate::pointer::{ClusterShared, Shared};
use crate::recorder::{self, Stages};
use crate::requirement::{Feature, require, target};
use crate::shared::shared_bytes;
use crate::value::{Reg, Value};

/// A barrier in the CTA's shared memory, by its address.
///
/// ```
/// use warpwright_lang::mbarrier::Mbarrier;
/// use warpwright_lang::pointer::Global;
/// use warpwright_lang::shared::shared_array;
/// use warpwright_lang::{block, kernel, launch, special::thread_idx};
///
/// /// One warp fills a buffer, another empties it.
/// #[kernel]
/// fn hand_over(source: &Global<f32>, target: &mut Global<f32>) {
///     launch::threads(64);
///     let (buffer, full) = (shared_array::<f32>(32), Mbarrier::new());
///     let thread = thread_idx().x;
///     if thread == 0 {
///         full.init(32);
///     }
///     block::sync_threads();
///     if thread < 32 {
///         buffer[thread] = source[thread];
///         full.arrive();
///     } else {
///         full.wait_parity(0);
///         target[thread - 32] = buffer[thread - 32];
///     }
/// }
/// assert!(hand_over().is_ok());
/// ```
#[derive(Clone, Copy, DeviceValue)]
pub struct Mbarrier {
    object: Shared<u64>,
}

impl Mbarrier {
    /// A barrier in static shared memory, not initialized.
    #[track_caller]
    #[allow(clippy::new_without_default, reason = "it takes shared memory: no value stands for it")]
    pub fn new() -> Self {
        Self::at(barriers("mbarrier", 1))
    }

    /// The barrier at `object`, whose address is a multiple of 8.
    pub fn at(object: Shared<u64>) -> Self {
        Self { object }
    }

    /// The barrier's object in shared memory.
    pub fn object(self) -> Shared<u64> {
        self.object
    }

    /// The barrier at the same shared-memory address in CTA `rank` of the cluster; sm_90.
    #[track_caller]
    pub fn at_rank(self, rank: impl Value<u32>) -> RemoteMbarrier {
        RemoteMbarrier { object: self.object.map_to_block(rank) }
    }

    /// Initializes the barrier for `count` arrivals per phase. One thread does it. Other threads
    /// may use the barrier after they have synchronized with that thread; asynchronous copies and
    /// the cluster's other CTAs need [`fence_mbarrier_init`](crate::fence::fence_mbarrier_init) in
    /// addition.
    #[track_caller]
    pub fn init(self, count: u32) {
        if !(1..=MBARRIER_MAX_COUNT).contains(&count) {
            refuse(format!(
                "a phase of an mbarrier waits for 1 to {MBARRIER_MAX_COUNT} arrivals, not {count}"
            ));
        }
        self.perform("init", &[Operand::Integer(count.into())]);
    }

    /// Invalidates the barrier, so that its memory can be reused.
    #[track_caller]
    pub fn invalidate(self) {
        self.perform("inval", &[]);
    }

    /// Arrives. Returns the state of the current phase, to wait for its end.
    #[track_caller]
    pub fn arrive(self) -> Reg<u64> {
        self.arrive_as(Arrival::new())
    }

    /// Arrives, as [`arrive`](Self::arrive), with a release among the threads of `scope`; sm_90.
    #[track_caller]
    pub fn arrive_in(self, scope: Scope) -> Reg<u64> {
        self.arrive_as(Arrival::new().releasing(scope))
    }

    /// Arrives with a count of `count`; sm_90.
    #[track_caller]
    pub fn arrive_count(self, count: impl Value<u32>) -> Reg<u64> {
        self.arrive_as(Arrival::new().times(count))
    }

    /// Arrives `count` times without ending the phase: others arrive later in it.
    #[track_caller]
    pub fn arrive_no_complete(self, count: impl Value<u32>) -> Reg<u64> {
        self.arrive_as(Arrival::new().times(count).without_ending())
    }

    /// Arrives as a thread that does not take part in later phases, which then expect one arrival
    /// fewer.
    #[track_caller]
    pub fn arrive_drop(self) -> Reg<u64> {
        self.arrive_as(Arrival::new().dropping())
    }

    /// [`arrive_drop`](Self::arrive_drop) for `count` threads, without ending the phase.
    #[track_caller]
    pub fn arrive_drop_no_complete(self, count: impl Value<u32>) -> Reg<u64> {
        self.arrive_as(Arrival::new().dropping().times(count).without_ending())
    }

    /// Adds `bytes` expected transaction bytes to the phase, and arrives: for the thread that
    /// starts the copies; sm_90.
    #[track_caller]
    pub fn arrive_and_expect(self, bytes: impl Value<u32>) -> Reg<u64> {
        self.arrive_as(Arrival::new().expecting(bytes))
    }

    /// Arrives as `arrival` states. Returns the state of the current phase.
    #[track_caller]
    pub fn arrive_as(self, arrival: Arrival) -> Reg<u64> {
        let state = fresh();
        if let Some((words, operands)) = arrival.parts(false) {
            record_on("shared", &words, Some(Reg::operand(state)), self.object.operand(), &operands);
        }
        state
    }

    /// Adds `bytes` expected transaction bytes to the phase; sm_90.
    #[track_caller]
    pub fn expect(self, bytes: impl Value<u32>) {
        require(Feature::TransactionBarriers);
        self.perform("expect_tx", &[bytes.operand()]);
    }

    /// [`expect`](Self::expect) at `scope`: the cluster's if other CTAs arrive or copy; sm_90.
    #[track_caller]
    pub fn expect_in(self, bytes: impl Value<u32>, scope: Scope) {
        count_bytes("shared", "expect_tx", self.object.operand(), bytes.operand(), scope);
    }

    /// Counts `bytes` transaction bytes as complete, as asynchronous copies do; sm_90.
    #[track_caller]
    pub fn complete(self, bytes: impl Value<u32>) {
        require(Feature::TransactionBarriers);
        self.perform("complete_tx", &[bytes.operand()]);
    }

    /// [`complete`](Self::complete) at `scope`; sm_90.
    #[track_caller]
    pub fn complete_in(self, bytes: impl Value<u32>, scope: Scope) {
        count_bytes("shared", "complete_tx", self.object.operand(), bytes.operand(), scope);
    }

    /// Arrives when all `cp.async` copies that this thread has started are complete: one of the
    /// arrivals that [`init`](Self::init) counted.
    #[track_caller]
    pub fn arrive_after_copies(self) {
        perform("cp.async.mbarrier.arrive.noinc.shared.b64", [self.object.operand()]);
    }

    /// [`arrive_after_copies`](Self::arrive_after_copies) as an additional arrival, which
    /// [`init`](Self::init) did not count.
    #[track_caller]
    pub fn arrive_after_copies_uncounted(self) {
        perform("cp.async.mbarrier.arrive.shared.b64", [self.object.operand()]);
    }

    /// Whether the phase of `state` has ended.
    #[track_caller]
    pub fn test_wait(self, state: Reg<u64>) -> Reg<bool> {
        self.test(PhaseEnd::of_state(state))
    }

    /// Whether the phase of `parity` has ended: true while the barrier is in the phase after it.
    #[track_caller]
    pub fn test_wait_parity(self, parity: impl Value<u32>) -> Reg<bool> {
        self.test(PhaseEnd::of_parity(parity))
    }

    /// Whether a phase has ended, without waiting: `test_wait`.
    #[track_caller]
    pub fn test(self, end: PhaseEnd) -> Reg<bool> {
        self.look(false, end)
    }

    /// [`test_wait`](Self::test_wait), suspended for up to a time that the hardware sets; sm_90.
    #[track_caller]
    pub fn try_wait(self, state: Reg<u64>) -> Reg<bool> {
        self.attempt(PhaseEnd::of_state(state))
    }

    /// [`test_wait_parity`](Self::test_wait_parity), suspended for up to a time that the hardware
    /// sets; sm_90.
    #[track_caller]
    pub fn try_wait_parity(self, parity: impl Value<u32>) -> Reg<bool> {
        self.attempt(PhaseEnd::of_parity(parity))
    }

    /// [`try_wait_parity`](Self::try_wait_parity), with an acquire among the threads of `scope`.
    #[track_caller]
    pub fn try_wait_parity_in(self, parity: impl Value<u32>, scope: Scope) -> Reg<bool> {
        self.attempt(PhaseEnd::of_parity(parity).acquiring(scope))
    }

    /// Whether a phase has ended, suspended for up to a time if it has not: `try_wait`; sm_90.
    #[track_caller]
    pub fn attempt(self, end: PhaseEnd) -> Reg<bool> {
        self.look(true, end)
    }

    /// Waits until the phase of `state` has ended. What the arriving threads and the counted copies
    /// wrote is then visible to this thread.
    #[track_caller]
    pub fn wait(self, state: Reg<u64>) {
        self.wait_for(PhaseEnd::of_state(state));
    }

    /// Waits until the phase of `parity` has ended; returns immediately if it is the phase before
    /// the current one. What the arriving threads and the counted copies wrote is then visible to
    /// this thread.
    #[track_caller]
    pub fn wait_parity(self, parity: impl Value<u32>) {
        self.wait_for(PhaseEnd::of_parity(parity));
    }

    /// [`wait_parity`](Self::wait_parity) with an acquire among the threads of `scope`: for what
    /// threads of the cluster's other CTAs wrote before they arrived with
    /// [`arrive_in`](RemoteMbarrier::arrive_in); sm_90.
    #[track_caller]
    pub fn wait_parity_in(self, parity: impl Value<u32>, scope: Scope) {
        self.wait_for(PhaseEnd::of_parity(parity).acquiring(scope));
    }

    /// Waits until a phase has ended: a loop of [`attempt`](Self::attempt), or of
    /// [`test`](Self::test) before sm_90.
    #[track_caller]
    pub fn wait_for(self, end: PhaseEnd) {
        let before_hopper = target().is_some_and(|capability| capability.compute_capability < (9, 0));
        let suspends = !(before_hopper && end.is_plain());
        wait_until(|| self.look(suspends, end));
    }

    #[track_caller]
    fn perform(self, operation: &str, operands: &[Operand]) {
        record_on("shared", operation, None, self.object.operand(), operands);
    }

    #[track_caller]
    fn look(self, suspends: bool, end: PhaseEnd) -> Reg<bool> {
        let ended = fresh();
        if let Some((words, operands)) = end.parts(suspends) {
            let word = if suspends { "try_wait" } else { "test_wait" };
            let destination = Some(Reg::operand(ended));
            record_on("shared", &format!("{word}{words}"), destination, self.object.operand(), &operands);
        }
        ended
    }
}

/// Several consecutive barriers in the CTA's shared memory, for example one per stage of a
/// pipeline.
///
/// ```
/// use warpwright_lang::mbarrier::Mbarriers;
/// use warpwright_lang::{kernel, launch, special::thread_idx};
///
/// #[kernel]
/// fn initialized(stage: u32) {
///     launch::threads(32);
///     let full = Mbarriers::new(4);
///     if thread_idx().x == 0 {
///         for barrier in full.iter() {
///             barrier.init(1);
///         }
///         full.at(stage).arrive();
///     }
/// }
/// assert!(initialized().is_ok());
/// ```
#[derive(Clone, Copy, DeviceValue)]
pub struct Mbarriers {
    first: Shared<u64>,
    count: u32,
}

impl Mbarriers {
    /// `count` barriers in static shared memory, not initialized.
    #[track_caller]
    pub fn new(count: u32) -> Self {
        Self::called("mbarrier", count)
    }

    /// Barriers with a name for reports, which ends in `mbarrier`.
    #[track_caller]
    pub(crate) fn called(name: &'static str, count: u32) -> Self {
        Self { first: barriers(name, count), count }
    }

    /// The number of barriers.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Barrier `index`, known at build time or on the device.
    #[track_caller]
    pub fn at(self, index: impl Index) -> Mbarrier {
        if let ElementOffset::Known(known) = index.element_offset()
            && !(0..i64::from(self.count)).contains(&known)
        {
            refuse(format!("barrier {known} is out of range: the first of {} is barrier 0", self.count));
            return Mbarrier::at(self.first);
        }
        self.note_stage(index.element_offset());
        Mbarrier::at(self.first.at(index))
    }

    /// Notes that a device value is the index of one of these barriers: a stage.
    #[track_caller]
    fn note_stage(self, index: ElementOffset) {
        let ElementOffset::Device { index: Operand::Register(index), .. } = index else { return };
        let (array, location) = (self.first.parts().0, here());
        recorder::with(|recorder| recorder.note_mbarrier_index(array, self.count, index, location));
        recorder::with(|recorder| {
            if recorder.stages_of(index).is_none() {
                recorder.note_stages(index, Stages { count: self.count, pipeline: None });
            }
        });
    }

    /// All of them in order.
    pub fn iter(self) -> impl Iterator<Item = Mbarrier> {
        (0..self.count).map(move |index| Mbarrier::at(self.first.at(index)))
    }
}

/// `count` barriers in static shared memory.
#[track_caller]
fn barriers(name: &'static str, count: u32) -> Shared<u64> {
    let call = if count == 1 { "Mbarrier::new()".to_owned() } else { format!("Mbarriers::new({count})") };
    let bytes = u64::from(count) * u64::from(MBARRIER_BYTES);
    let first = shared_bytes(call, bytes, MBARRIER_BYTES, MBARRIER_BYTES).cast();
    object::array(first, name, MBARRIER_BYTES, count.into());
    first
}

/// A barrier in the shared memory of some CTA of the cluster, by its cluster address; sm_90. Only
/// its own CTA can wait for it.
///
/// Arrivals release at CTA scope, PTX's default: a release at cluster scope costs 15 to 45 percent
/// of a GEMM's speed (measured on H200). CTA scope suffices to report that a buffer has been read.
/// A thread that has *written* for the other CTA arrives with [`arrive_in`](Self::arrive_in).
#[derive(Clone, Copy, DeviceValue)]
pub struct RemoteMbarrier {
    object: ClusterShared<u64>,
}

impl RemoteMbarrier {
    /// The barrier's object in shared memory.
    pub fn object(self) -> ClusterShared<u64> {
        self.object
    }

    /// Arrives.
    #[track_caller]
    pub fn arrive(self) {
        self.arrive_as(Arrival::new());
    }

    /// Arrives, with a release among the threads of `scope`: what this thread has written is
    /// visible to those that wait with [`wait_parity_in`](Mbarrier::wait_parity_in).
    #[track_caller]
    pub fn arrive_in(self, scope: Scope) {
        self.arrive_as(Arrival::new().releasing(scope));
    }

    /// Arrives with a count of `count`.
    #[track_caller]
    pub fn arrive_count(self, count: impl Value<u32>) {
        self.arrive_as(Arrival::new().times(count));
    }

    /// Arrives as a thread that does not take part in later phases, which then expect one arrival
    /// fewer.
    #[track_caller]
    pub fn arrive_drop(self) {
        self.arrive_as(Arrival::new().dropping());
    }

    /// Adds `bytes` expected transaction bytes to the phase, and arrives.
    #[track_caller]
    pub fn arrive_and_expect(self, bytes: impl Value<u32>) {
        self.arrive_as(Arrival::new().expecting(bytes));
    }

    /// Arrives as `arrival` states.
    #[track_caller]
    pub fn arrive_as(self, arrival: Arrival) {
        if let Some((words, operands)) = arrival.parts(true) {
            record_on("shared::cluster", &words, Some(Operand::Sink), self.object.operand(), &operands);
        }
    }

    /// Adds `bytes` expected transaction bytes to the phase.
    #[track_caller]
    pub fn expect(self, bytes: impl Value<u32>) {
        self.expect_in(bytes, Scope::Cluster);
    }

    /// [`expect`](Self::expect) at `scope`; for the CTA's own barrier, CTA scope suffices.
    #[track_caller]
    pub fn expect_in(self, bytes: impl Value<u32>, scope: Scope) {
        count_bytes("shared::cluster", "expect_tx", self.object.operand(), bytes.operand(), scope);
    }

    /// Counts `bytes` transaction bytes as complete.
    #[track_caller]
    pub fn complete(self, bytes: impl Value<u32>) {
        self.complete_in(bytes, Scope::Cluster);
    }

    /// [`complete`](Self::complete) at `scope`; for the CTA's own barrier, CTA scope suffices.
    #[track_caller]
    pub fn complete_in(self, bytes: impl Value<u32>, scope: Scope) {
        count_bytes("shared::cluster", "complete_tx", self.object.operand(), bytes.operand(), scope);
    }
}

/// The number of arrivals that the phase of `state` still waited for when the arrival returned it.
#[track_caller]
pub fn pending_arrivals(state: Reg<u64>) -> Reg<u32> {
    compute("mbarrier.pending_count.b64", [state.operand()])
}

#[track_caller]
fn record_on(space: &str, operation: &str, state: Option<Operand>, object: Operand, operands: &[Operand]) {
    let destinations = usize::from(state.is_some());
    let operands = state.into_iter().chain([object]).chain(operands.iter().cloned()).collect();
    record(format!("mbarrier.{operation}.{space}.b64"), destinations, operands);
}

/// Changes the expected bytes of the phase, ordered with other operations on the barrier by the
/// threads of `scope`.
#[track_caller]
fn count_bytes(space: &str, operation: &str, object: Operand, bytes: Operand, scope: Scope) {
    require(Feature::TransactionBarriers);
    if check_scope(scope).is_some() {
        record_on(space, &format!("{operation}.relaxed{}", scope.word()), None, object, &[bytes]);
    }
}

/// Refuses scopes that mbarrier operations do not have: PTX has CTA and cluster.
#[track_caller]
fn check_scope(scope: Scope) -> Option<()> {
    match scope {
        Scope::Block | Scope::Cluster => Some(()),
        Scope::Device | Scope::System => {
            refuse(format!(
                "an mbarrier synchronizes threads of one CTA or cluster, and Scope::{scope:?} is wider: use Scope::Block or \
                 Scope::Cluster, and `fence` for threads of other clusters"
            ));
            None
        }
    }
}

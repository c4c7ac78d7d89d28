//! Bulk copies: TMA moves contiguous memory asynchronously; one thread starts the copy. sm_90. PTX
//! ISA, "Bulk copy".
//!
//! Addresses and sizes are multiples of 16 bytes. A copy *into* shared memory completes at an
//! mbarrier, which counts its bytes. A copy *from* shared memory to global memory completes in
//! groups, per thread: [`bulk_commit`] closes a group, and [`bulk_wait_read`] and [`bulk_wait`]
//! wait for all but the latest ones.
//!
//! ```
//! use warpwright_lang::bulk::{self, bulk_commit, bulk_wait};
//! use warpwright_lang::fence::{fence_mbarrier_init, fence_proxy_async_shared};
//! use warpwright_lang::mbarrier::Mbarrier;
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::shared::shared_array;
//! use warpwright_lang::{block::sync_threads, kernel, launch, special::thread_idx};
//!
//! /// Doubles 1024 elements.
//! #[kernel]
//! fn double(input: &Global<f32>, output: &mut Global<f32>) {
//!     launch::threads(256);
//!     let (tile, full) = (shared_array::<f32>(1024), Mbarrier::new());
//!     let thread = thread_idx().x;
//!     if thread == 0 {
//!         full.init(1);
//!         fence_mbarrier_init();
//!         full.arrive_and_expect(4096);
//!         bulk::load(*input, 1024, tile, full);
//!     }
//!     sync_threads();
//!     full.wait_parity(0);
//!     for i in 0..4u32 {
//!         tile[thread + i * 256] *= 2.0;
//!     }
//!     fence_proxy_async_shared();
//!     sync_threads();
//!     if thread == 0 {
//!         bulk::store(*output, 1024, tile);
//!         bulk_commit();
//!         bulk_wait(0);
//!     }
//! }
//! assert!(double().is_ok());
//! ```

use warpwright_arch::limits::BULK_COPY_BYTES;
use warpwright_ir::Operand;

use crate::cta_group::CtaGroup;
use crate::element::{Element, bf16, f16};
use crate::launch::demand_ranks;
use crate::mbarrier::{Mbarrier, RemoteMbarrier};
use crate::operation::{compute, perform, record, refuse};
use crate::pointer::{ClusterShared, Global, Pointer, Shared};
use crate::requirement::{Feature, require};
use crate::space::{ClusterSpace, SharedSpace, Space};
use crate::value::{Reg, Value};

/// A space whose addresses name shared memory of the cluster; the CTA's own shared memory is part
/// of it.
pub trait InCluster: Space {}

impl InCluster for SharedSpace {}
impl InCluster for ClusterSpace {}

/// An mbarrier at which a copy completes, in the shared memory of the CTA that receives the copy.
pub trait CompletionBarrier: Copy {
    /// The barrier's address.
    fn address(self) -> Operand;
}

impl CompletionBarrier for Mbarrier {
    fn address(self) -> Operand {
        self.object().operand()
    }
}

impl CompletionBarrier for RemoteMbarrier {
    fn address(self) -> Operand {
        self.object().operand()
    }
}

/// Copies `elements` consecutive elements into shared memory; when they have arrived, `barrier`
/// counts their bytes.
#[track_caller]
pub fn load<T: Element, S: InCluster>(
    from: Global<T>,
    elements: impl Value<u32>,
    to: Pointer<T, S>,
    barrier: impl CompletionBarrier,
) {
    Load::new(from, elements).start(to, barrier);
}

/// Copies `elements` consecutive elements of shared memory to global memory.
#[track_caller]
pub fn store<T: Element>(to: Global<T>, elements: impl Value<u32>, from: Shared<T>) {
    Store::new(to, elements).start(from);
}

/// A copy of consecutive elements from global memory.
#[derive(Clone, Copy)]
pub struct Load<T> {
    from: Global<T>,
    bytes: Bytes,
    multicast: Option<Reg<u16>>,
    policy: Option<Reg<u64>>,
}

impl<T: Element> Load<T> {
    /// A copy of `elements` elements.
    #[track_caller]
    pub fn new(from: Global<T>, elements: impl Value<u32>) -> Self {
        Self { from, bytes: Bytes::of::<T>(elements), multicast: None, policy: None }
    }

    /// To every CTA of the cluster whose rank's bit is set in `mask`, at the same shared-memory
    /// offset as in this CTA. Each receiving CTA's own barrier counts the bytes.
    #[track_caller]
    pub fn multicast(self, mask: impl Value<u16>) -> Self {
        demand_ranks("multicast", mask.operand(), true);
        Self { multicast: Some(mask.reg()), ..self }
    }

    /// With an L2 cache policy.
    pub fn with_policy(self, policy: Reg<u64>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Starts it, into shared memory; when the elements have arrived, `barrier` counts their bytes.
    #[track_caller]
    pub fn start<S: InCluster>(self, to: Pointer<T, S>, barrier: impl CompletionBarrier) {
        require(Feature::TensorCopies);
        to.demand_writable();
        let mut words = vec!["shared::cluster.global.mbarrier::complete_tx::bytes"];
        let mut operands = vec![to.operand(), self.from.operand(), self.bytes.operand(), barrier.address()];
        add_options(&mut words, &mut operands, (self.multicast, None), self.policy);
        record(format!("cp.async.bulk.{}", words.join(".")), 0, operands);
    }

    /// Starts it, into L2 alone.
    #[track_caller]
    pub fn prefetch(self) {
        require(Feature::TensorCopies);
        refuse_multicast_prefetch(self.multicast);
        let mut words = vec!["prefetch.L2.global"];
        let mut operands = vec![self.from.operand(), self.bytes.operand()];
        add_options(&mut words, &mut operands, (None, None), self.policy);
        record(format!("cp.async.bulk.{}", words.join(".")), 0, operands);
    }
}

/// Adds the optional modifiers and operands of a copy.
pub(crate) fn add_options(
    words: &mut Vec<&'static str>,
    operands: &mut Vec<Operand>,
    (multicast, group): (Option<Reg<u16>>, Option<CtaGroup>),
    policy: Option<Reg<u64>>,
) {
    if let Some(mask) = multicast {
        words.push("multicast::cluster");
        operands.push(mask.operand());
    }
    if let Some(group) = group {
        words.push(group.name());
    }
    if let Some(policy) = policy {
        words.push("L2::cache_hint");
        operands.push(policy.operand());
    }
}

#[track_caller]
pub(crate) fn refuse_multicast_prefetch(multicast: Option<Reg<u16>>) {
    if multicast.is_some() {
        refuse("a prefetch has no multicast: it loads into L2, which the CTAs of a cluster share");
    }
}

/// A copy of consecutive elements to global memory, or a reduction into it.
#[derive(Clone, Copy)]
pub struct Store<T> {
    to: Global<T>,
    bytes: Bytes,
    policy: Option<Reg<u64>>,
}

impl<T: Element> Store<T> {
    /// A copy of `elements` elements.
    #[track_caller]
    pub fn new(to: Global<T>, elements: impl Value<u32>) -> Self {
        Self { to, bytes: Bytes::of::<T>(elements), policy: None }
    }

    /// With an L2 cache policy.
    pub fn with_policy(self, policy: Reg<u64>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Starts it, from shared memory.
    #[track_caller]
    pub fn start(self, from: Shared<T>) {
        self.record("cp.async.bulk.global.shared::cta.bulk_group", "", from);
    }

    /// Starts it, from shared memory: each element is reduced into the element in global memory,
    /// atomically.
    #[track_caller]
    pub fn start_reducing(self, reduction: BulkReduction, from: Shared<T>)
    where
        T: BulkReduced,
    {
        match reduction.in_global::<T>() {
            Some(operation) => {
                self.record(
                    "cp.reduce.async.bulk.global.shared::cta.bulk_group",
                    &format!(".{operation}"),
                    from,
                );
            }
            None => refuse_reduction::<T>(reduction, "global memory"),
        }
    }

    #[track_caller]
    fn record(self, opcode: &str, operation: &str, from: Shared<T>) {
        require(Feature::TensorCopies);
        self.to.demand_writable();
        let hint = if self.policy.is_some() { ".L2::cache_hint" } else { "" };
        let mut operands = vec![self.to.operand(), from.operand(), self.bytes.operand()];
        operands.extend(self.policy.map(Reg::operand));
        record(format!("{opcode}{hint}{operation}"), 0, operands);
    }
}

/// Copies `elements` consecutive elements from this CTA's shared memory to that of another CTA of
/// the cluster. When they have arrived, `barrier`, in the receiving CTA, counts their bytes.
#[track_caller]
pub fn send<T: Element>(
    to: ClusterShared<T>,
    elements: impl Value<u32>,
    from: Shared<T>,
    barrier: RemoteMbarrier,
) {
    require(Feature::TensorCopies);
    to.demand_writable();
    let bytes = Bytes::of::<T>(elements).operand();
    perform(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
        [to.operand(), from.operand(), bytes, barrier.address()],
    );
}

/// [`send`] that reduces each element into the element at the destination, atomically.
#[track_caller]
pub fn send_reducing<T: BulkReduced>(
    reduction: BulkReduction,
    to: ClusterShared<T>,
    elements: impl Value<u32>,
    from: Shared<T>,
    barrier: RemoteMbarrier,
) {
    require(Feature::TensorCopies);
    to.demand_writable();
    let Some(operation) = reduction.in_cluster::<T>() else {
        return refuse_reduction::<T>(reduction, "another CTA's shared memory");
    };
    let bytes = Bytes::of::<T>(elements).operand();
    perform(
        format!("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}"),
        [to.operand(), from.operand(), bytes, barrier.address()],
    );
}

#[track_caller]
fn refuse_reduction<T: Element>(reduction: BulkReduction, memory: &str) {
    refuse(format!("no bulk copy reduces elements of {} in {memory} by {reduction:?}", T::NAME));
}

/// Commits the stores and reductions to global memory that this thread has started since the last
/// commit to a group.
#[track_caller]
pub fn bulk_commit() {
    require(Feature::TensorCopies);
    perform("cp.async.bulk.commit_group", []);
}

/// Waits until at most the `pending` latest groups of this thread are in flight. The writes of the
/// other groups are then complete.
#[track_caller]
pub fn bulk_wait(pending: u32) {
    require(Feature::TensorCopies);
    perform("cp.async.bulk.wait_group", [Operand::Integer(pending.into())]);
}

/// Waits until at most the `pending` latest groups of this thread still read shared memory. The
/// sources of the other groups may then be overwritten.
#[track_caller]
pub fn bulk_wait_read(pending: u32) {
    require(Feature::TensorCopies);
    perform("cp.async.bulk.wait_group.read", [Operand::Integer(pending.into())]);
}

/// The size of a bulk copy.
#[derive(Clone, Copy)]
enum Bytes {
    Known(u32),
    Device(Reg<u32>),
}

impl Bytes {
    #[track_caller]
    fn of<T: Element>(elements: impl Value<u32>) -> Self {
        let Operand::Integer(elements) = elements.operand() else {
            let scale = Operand::Integer(T::BYTES.into());
            return Self::Device(compute("mul.lo.u32", [elements.operand(), scale]));
        };
        let bytes = elements as u64 * u64::from(T::BYTES);
        match u32::try_from(bytes) {
            Ok(bytes) if bytes.is_multiple_of(BULK_COPY_BYTES) && bytes > 0 => Self::Known(bytes),
            _ => {
                refuse(format!(
                    "a bulk copy moves a multiple of {BULK_COPY_BYTES} bytes; {elements} elements of {} are {bytes}",
                    T::NAME
                ));
                Self::Known(BULK_COPY_BYTES)
            }
        }
    }

    fn operand(self) -> Operand {
        match self {
            Self::Known(bytes) => Operand::Integer(bytes.into()),
            Self::Device(bytes) => bytes.operand(),
        }
    }
}

/// The operation of a bulk or tensor reduction on each element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkReduction {
    /// Adds the new element.
    Add,
    /// Takes the minimum.
    Min,
    /// Takes the maximum.
    Max,
    /// Increments up to the new element, then restarts from 0.
    Increment,
    /// Decrements; from 0 and from above the new element, restarts at it.
    Decrement,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

impl BulkReduction {
    /// The word in opcodes.
    pub(crate) fn word(self) -> &'static str {
        match self {
            BulkReduction::Add => "add",
            BulkReduction::Min => "min",
            BulkReduction::Max => "max",
            BulkReduction::Increment => "inc",
            BulkReduction::Decrement => "dec",
            BulkReduction::And => "and",
            BulkReduction::Or => "or",
            BulkReduction::Xor => "xor",
        }
    }

    /// The operation and its type in global memory, if there is one. PTX ISA,
    /// `cp.reduce.async.bulk`.
    fn in_global<T: BulkReduced>(self) -> Option<String> {
        let word = self.word();
        match (self, T::PTX) {
            // Two's complement: a signed 64-bit sum is the unsigned one.
            (BulkReduction::Add, "s64") => Some("add.u64".to_owned()),
            (BulkReduction::Add, "f16" | "bf16") => Some(format!("add.noftz.{}", T::PTX)),
            (BulkReduction::Add, ty) => Some(format!("add.{ty}")),
            (BulkReduction::Min | BulkReduction::Max, "f32" | "f64") => None,
            (BulkReduction::Min | BulkReduction::Max, ty) => Some(format!("{word}.{ty}")),
            (BulkReduction::Increment | BulkReduction::Decrement, "u32") => Some(format!("{word}.u32")),
            (BulkReduction::And | BulkReduction::Or | BulkReduction::Xor, "u32" | "s32" | "u64" | "s64") => {
                Some(format!("{word}.b{}", 8 * T::BYTES))
            }
            _ => None,
        }
    }

    /// The operation and its type in the cluster's shared memory, if there is one.
    fn in_cluster<T: BulkReduced>(self) -> Option<String> {
        let exists = match T::PTX {
            "u32" | "s32" => true,
            "u64" | "s64" => self == BulkReduction::Add,
            _ => false,
        };
        self.in_global::<T>().filter(|_| exists)
    }
}

/// A type that memory can be reduced into by a bulk copy.
pub trait BulkReduced: Element {}

impl BulkReduced for u32 {}
impl BulkReduced for i32 {}
impl BulkReduced for u64 {}
impl BulkReduced for i64 {}
impl BulkReduced for f16 {}
impl BulkReduced for bf16 {}
impl BulkReduced for f32 {}
impl BulkReduced for f64 {}

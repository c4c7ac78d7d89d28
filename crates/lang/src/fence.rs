//! Fences: the order of memory accesses as observed by other threads and the asynchronous units.
//! PTX ISA, `membar`/`fence`.
//!
//! A *proxy* is a path to memory. Plain loads and stores use the generic proxy, tensor and bulk
//! copies and `wgmma` the async proxy, and reads of a tensor map a proxy of their own. Accesses
//! through different proxies are unordered unless a proxy fence is between them. PTX ISA,
//! "Proxies".

use warpwright_ir::Operand;

use crate::access::Scope;
use crate::operation::perform;
use crate::requirement::{Feature, require};
use crate::tensor_map::{TENSOR_MAP_BYTES, TensorMap};

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Earlier accesses before later ones, between threads that synchronize: sufficient for most
    /// uses.
    AcquireRelease,
    /// Later accesses come after what the thread has observed before: half of
    /// [`AcquireRelease`](Self::AcquireRelease). PTX 8.6, sm_90.
    Acquire,
    /// Earlier accesses come before what the thread does after it: the other half. PTX 8.6, sm_90.
    Release,
    /// One order of all such fences, on which all threads agree.
    SequentiallyConsistent,
}

/// Orders this thread's accesses before and after it, for the threads of `scope`.
#[track_caller]
pub fn fence(semantics: Semantics, scope: Scope) {
    let semantics = match semantics {
        Semantics::AcquireRelease => "acq_rel",
        Semantics::Acquire => "acquire",
        Semantics::Release => "release",
        Semantics::SequentiallyConsistent => "sc",
    };
    if scope == Scope::Cluster {
        require(Feature::Clusters);
    }
    if matches!(semantics, "acquire" | "release") {
        require(Feature::OneWayFences);
    }
    perform(format!("fence.{semantics}{}", scope.word()), []);
}

/// CUDA's `__threadfence_block`.
#[track_caller]
pub fn fence_block() {
    fence(Semantics::AcquireRelease, Scope::Block);
}

/// CUDA's `__threadfence`.
#[track_caller]
pub fn fence_device() {
    fence(Semantics::AcquireRelease, Scope::Device);
}

/// CUDA's `__threadfence_system`.
#[track_caller]
pub fn fence_system() {
    fence(Semantics::AcquireRelease, Scope::System);
}

/// [`fence`] among the cluster's threads; sm_90.
#[track_caller]
pub fn fence_cluster() {
    fence(Semantics::AcquireRelease, Scope::Cluster);
}

/// Makes the [`Mbarrier::init`](crate::mbarrier::Mbarrier::init)s before it visible to asynchronous
/// copies and to the cluster's other CTAs, once these have synchronized with this thread; sm_90.
#[track_caller]
pub fn fence_mbarrier_init() {
    require(Feature::TransactionBarriers);
    perform("fence.mbarrier_init.release.cluster", []);
}

/// Orders plain accesses before it with asynchronous ones after it, and the reverse, in all memory;
/// sm_90.
///
/// After writing to shared memory for a tensor store or for `wgmma`, a thread executes such a fence
/// and then synchronizes with the thread that starts the operation. [`fence_proxy_async_shared`] is
/// sufficient for that.
#[track_caller]
pub fn fence_proxy_async() {
    async_proxy("");
}

/// [`fence_proxy_async`] for the CTA's shared memory alone.
#[track_caller]
pub fn fence_proxy_async_shared() {
    async_proxy(".shared::cta");
}

/// [`fence_proxy_async`] for the shared memory of the cluster's CTAs alone.
#[track_caller]
pub fn fence_proxy_async_cluster() {
    async_proxy(".shared::cluster");
}

/// [`fence_proxy_async`] for global memory alone.
#[track_caller]
pub fn fence_proxy_async_global() {
    async_proxy(".global");
}

#[track_caller]
fn async_proxy(space: &str) {
    require(Feature::TensorCopies);
    perform(format!("fence.proxy.async{space}"), []);
}

/// Orders accesses to one memory location through several virtual addresses.
#[track_caller]
pub fn fence_proxy_alias() {
    perform("fence.proxy.alias", []);
}

/// Releases tensor maps that were written before it (by plain stores, or field by field) to the
/// threads of `scope`; sm_90.
#[track_caller]
pub fn fence_tensor_map_release(scope: Scope) {
    require(Feature::TensorCopies);
    perform(format!("fence.proxy.tensormap::generic.release{}", scope.word()), []);
}

/// Lets later copies use the tensor map `map`, which a thread of `scope` wrote and released; sm_90.
#[track_caller]
pub fn fence_tensor_map_acquire(map: TensorMap, scope: Scope) {
    require(Feature::TensorCopies);
    let operands = [map.bytes().operand(), Operand::Integer(TENSOR_MAP_BYTES as i128)];
    perform(format!("fence.proxy.tensormap::generic.acquire{}", scope.word()), operands);
}

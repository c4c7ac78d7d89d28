//! Fences: the order of memory accesses as other threads, and the asynchronous units, see them. PTX
//! ISA, `membar`/`fence`.
//!
//! A *proxy* is a path to memory. Plain loads and stores take the generic proxy; tensor and bulk
//! copies and `wgmma` the async proxy, and reading a tensor map one of its own. What went by one
//! proxy is not ordered with what goes by another until a proxy fence says so. PTX ISA, "Proxies".

use warpwright_ir::Operand;

use crate::access::Scope;
use crate::operation::perform;
use crate::requirement::{Feature, require};
use crate::tensor_map::{TENSOR_MAP_BYTES, TensorMap};

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Earlier accesses before later ones, between threads that synchronize: enough for almost
    /// everything.
    AcquireRelease,
    /// Later accesses come after what the thread has seen before it: half of
    /// [`AcquireRelease`](Self::AcquireRelease). PTX 8.6, sm_90.
    Acquire,
    /// Earlier accesses come before what the thread does after it: the other half. PTX 8.6, sm_90.
    Release,
    /// One order of all such fences that all threads agree on.
    SequentiallyConsistent,
}

/// Orders this thread's accesses before and after it, as the threads of `scope` see them.
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
/// What a thread has written to shared memory for a tensor store, or for `wgmma` to read, wants
/// such a fence between the write and the synchronization with the thread that starts the store;
/// [`fence_proxy_async_shared`] is the one that says just that.
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

/// Makes tensor maps that were written before it (by plain stores, or field by field) ready to be
/// acquired by the threads of `scope`; sm_90.
#[track_caller]
pub fn fence_tensor_map_release(scope: Scope) {
    require(Feature::TensorCopies);
    perform(format!("fence.proxy.tensormap::generic.release{}", scope.word()), []);
}

/// Lets the copies after it use the tensor map `map`, which a thread of `scope` wrote and released;
/// sm_90.
#[track_caller]
pub fn fence_tensor_map_acquire(map: TensorMap, scope: Scope) {
    require(Feature::TensorCopies);
    let operands = [map.bytes().operand(), Operand::Integer(TENSOR_MAP_BYTES as i128)];
    perform(format!("fence.proxy.tensormap::generic.acquire{}", scope.word()), operands);
}

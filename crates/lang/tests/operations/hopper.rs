//! What came with sm_90: mbarriers, clusters, and the tensor memory accelerator.

use warpwright_lang::access::Scope;
use warpwright_lang::kernel::KernelParameter;
use warpwright_lang::mbarrier::{Mbarrier, Mbarriers, RemoteMbarrier, pending_arrivals};
use warpwright_lang::tensor_map::TensorMap;

use super::{Case, x};

/// A barrier: its symbol's address is the first instruction.
fn barrier() -> Mbarrier {
    Mbarrier::new()
}

/// The barrier of another CTA: two instructions.
fn remote() -> RemoteMbarrier {
    barrier().at_rank(x::<u32>())
}

/// A tensor map: two instructions.
fn map() -> TensorMap {
    <&TensorMap as KernelParameter>::declare("map")
}

pub(crate) const CASES: &[Case] = cases! {
    "sm_90a" "mov.b64 cvta.param.u64 prefetch.tensormap": map().prefetch();
    "sm_80" "mov.u32 mbarrier.init.shared.b64": barrier().init(3);
    "sm_80" "mov.u32 mbarrier.inval.shared.b64": barrier().invalidate();
    "sm_80" "mov.u32 mbarrier.arrive.shared.b64": barrier().arrive();
    "sm_90a" "mov.u32 mbarrier.arrive.release.cluster.shared.b64": barrier().arrive_in(Scope::Cluster);
    "sm_90a" "mov.u32 mbarrier.arrive.shared.b64": barrier().arrive_count(x::<u32>());
    "sm_80" "mov.u32 mbarrier.arrive.noComplete.shared.b64": barrier().arrive_no_complete(2);
    "sm_80" "mov.u32 mbarrier.arrive_drop.shared.b64": barrier().arrive_drop();
    "sm_90a" "mov.u32 mbarrier.arrive.expect_tx.shared.b64": barrier().arrive_and_expect(4096);
    "sm_90a" "mov.u32 mbarrier.expect_tx.shared.b64": barrier().expect(x::<u32>());
    "sm_90a" "mov.u32 mbarrier.complete_tx.shared.b64": barrier().complete(64);
    "sm_80" "mov.u32 cp.async.mbarrier.arrive.noinc.shared.b64": barrier().arrive_after_copies();
    "sm_80" "mov.u32 cp.async.mbarrier.arrive.shared.b64": barrier().arrive_after_copies_uncounted();
    "sm_80" "mov.u32 mbarrier.test_wait.shared.b64": barrier().test_wait(x::<u64>());
    "sm_80" "mov.u32 mbarrier.test_wait.parity.shared.b64": barrier().test_wait_parity(x::<u32>());
    "sm_90a" "mov.u32 mbarrier.try_wait.shared.b64": barrier().try_wait(x::<u64>());
    "sm_90a" "mov.u32 mbarrier.try_wait.parity.shared.b64": barrier().try_wait_parity(0);
    "sm_90a" "mov.u32 mbarrier.try_wait.parity.acquire.cluster.shared.b64":
        barrier().try_wait_parity_in(1, Scope::Cluster);
    "sm_80" "mbarrier.pending_count.b64": pending_arrivals(x::<u64>());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mbarrier.arrive.shared::cluster.b64": remote().arrive();
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mbarrier.arrive.release.cluster.shared::cluster.b64":
        remote().arrive_in(Scope::Cluster);
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mbarrier.arrive.shared::cluster.b64": remote().arrive_count(2);
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mbarrier.arrive.expect_tx.shared::cluster.b64":
        remote().arrive_and_expect(64);
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64":
        remote().expect(64);
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64":
        remote().complete(64);
    "sm_90a" "mov.u32 mad.lo.u32 mbarrier.arrive.shared.b64": Mbarriers::new(4).at(x::<u32>()).arrive();
    "sm_90a" "mov.u32 mbarrier.arrive.shared.b64": Mbarriers::new(4).at(3).arrive();
};

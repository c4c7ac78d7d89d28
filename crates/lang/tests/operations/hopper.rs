//! What came with sm_90: mbarriers, clusters, and the tensor memory accelerator.

use half::{bf16, f16};
use warpwright_arch::tensor_map::{ElementType, Fill, Interleave, Swizzle};
use warpwright_lang::access::Scope;
use warpwright_lang::atomic::Atomicity;
use warpwright_lang::bulk::{self, BulkReduction, bulk_commit, bulk_wait, bulk_wait_read};
use warpwright_lang::cluster::{self, AsyncReduction};
use warpwright_lang::mbarrier::{Mbarrier, Mbarriers, RemoteMbarrier, pending_arrivals};
use warpwright_lang::memory::{L2Eviction, cache_policy};
use warpwright_lang::parameter::KernelParameter;
use warpwright_lang::pointer::ClusterShared;
use warpwright_lang::registers::{decrease_registers, increase_registers};
use warpwright_lang::shared::shared_array;
use warpwright_lang::space::GlobalSpace;
use warpwright_lang::tensor_map::{TensorMap, TensorMaps};
use warpwright_lang::tensor_map_draft::TensorMapDraft;
use warpwright_lang::{block, element::Element, fence, launch, tma};

use super::{Case, global, map, tile, x, y};

/// A barrier: its symbol's address is the first instruction.
fn barrier() -> Mbarrier {
    Mbarrier::new()
}

/// The barrier of another CTA: two instructions.
fn remote() -> RemoteMbarrier {
    barrier().at_rank(x::<u32>())
}

/// The shared memory of another CTA: two instructions.
fn far<T: Element>() -> ClusterShared<T> {
    shared_array::<T>(16).map_to_block(1)
}

/// A tensor map in global memory, being written.
fn draft() -> TensorMapDraft<GlobalSpace> {
    TensorMapDraft::at(global())
}

pub(crate) const CASES: &[Case] = cases! {
    "sm_90a" "mov.b64 cvta.param.u64 prefetch.tensormap": map().prefetch();
    "sm_90a" "mov.b64 cvta.param.u64 mad.wide.u32 prefetch.tensormap":
        { let at = x::<u32>(); <&TensorMaps<8> as KernelParameter>::declare("maps").at(at).prefetch() };
    "sm_90a" "mov.b64 cvta.param.u64 add.u64 prefetch.tensormap":
        <&TensorMaps<8> as KernelParameter>::declare("maps").at(7).prefetch();
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
    "sm_80" "bar.sync": block::barrier_sync(x::<u32>(), 128);
    "sm_80" "bar.arrive": block::barrier_arrive(3, 256);
    "sm_90a" "fence.acq_rel.cluster": fence::fence_cluster();
    "sm_90a" "fence.sc.cluster": fence::fence(fence::Semantics::SequentiallyConsistent, Scope::Cluster);
    "sm_90a" "fence.mbarrier_init.release.cluster": fence::fence_mbarrier_init();
    "sm_90a" "fence.proxy.async": fence::fence_proxy_async();
    "sm_90a" "fence.proxy.async.shared::cta": fence::fence_proxy_async_shared();
    "sm_90a" "fence.proxy.async.shared::cluster": fence::fence_proxy_async_cluster();
    "sm_90a" "fence.proxy.async.global": fence::fence_proxy_async_global();
    "sm_80" "fence.proxy.alias": fence::fence_proxy_alias();
    "sm_90a" "fence.proxy.tensormap::generic.release.gpu": fence::fence_tensor_map_release(Scope::Device);
    "sm_90a" "cvta.global.u64 fence.proxy.tensormap::generic.acquire.cta":
        fence::fence_tensor_map_acquire(TensorMap::in_global(global()), Scope::Block);
    "sm_90a" "setmaxnreg.dec.sync.aligned.u32 setmaxnreg.inc.sync.aligned.u32":
        { launch::threads(256); decrease_registers(24); increase_registers(240) };
    "sm_90a" "setmaxnreg.dec.sync.aligned.u32": { launch::threads(256); decrease_registers(24) };
    "sm_90a" "griddepcontrol.wait griddepcontrol.launch_dependents":
        { launch::grid_dependency_wait(); launch::grid_dependency_launch() };
    "sm_90a" "barrier.cluster.arrive.aligned barrier.cluster.wait.aligned": cluster::cluster_sync();
    "sm_90a" "barrier.cluster.arrive.relaxed.aligned": cluster::cluster_arrive_relaxed();
    "sm_90a" "barrier.cluster.arrive barrier.cluster.wait": cluster::cluster_sync_diverged();
    "sm_90a" "barrier.cluster.arrive.relaxed": cluster::cluster_arrive_relaxed_diverged();
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 ld.shared::cluster.v4.f32": far::<f32>().load_vector::<4>();
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 st.shared::cluster.b16": far::<bf16>().store(x::<bf16>());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 atom.relaxed.gpu.shared::cluster.add.u32": far::<u32>().atomic_add(1);
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 atom.relaxed.gpu.shared::cluster.cas.b64":
        far::<u64>().atomic_compare_exchange(x::<u64>(), 1, Atomicity::default());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mapa.shared::cluster.u32 \
              st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32":
        far::<f32>().store_async(x::<f32>(), remote());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mapa.shared::cluster.u32 \
              st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64":
        far::<f64>().store_vector_async([x(), y()], remote());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mapa.shared::cluster.u32 \
              st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32":
        far::<u32>().store_vector_async([x(), y(), x(), y()], remote());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mapa.shared::cluster.u32 \
              red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64":
        far::<u64>().reduce_async(AsyncReduction::Add, 1, remote());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mapa.shared::cluster.u32 \
              red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32":
        far::<i32>().reduce_async(AsyncReduction::Max, x::<i32>(), remote());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mapa.shared::cluster.u32 \
              red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32":
        far::<u32>().reduce_async(AsyncReduction::Increment, 7, remote());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mapa.shared::cluster.u32 \
              red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.xor.b32":
        far::<i32>().reduce_async(AsyncReduction::Xor, 7, remote());
    "sm_90a" "mov.u32 mov.u32 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes":
        bulk::load(global::<f32>(), 64, tile(), barrier());
    "sm_90a" "mov.u32 mov.u32 mul.lo.u32 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes":
        { let (tile, barrier) = (tile::<f32>(), barrier()); bulk::load(global(), x::<u32>(), tile, barrier) };
    "sm_90a" "mov.u32 mov.u32 mov.u16 mov.u64 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.\
              multicast::cluster.L2::cache_hint":
        {
            let (tile, barrier) = (tile::<u8>(), barrier());
            bulk::Load::new(global(), 256).multicast(3).with_policy(cache_policy(L2Eviction::First)).start(tile, barrier)
        };
    "sm_90a" "cp.async.bulk.prefetch.L2.global": bulk::Load::new(global::<f16>(), 8).prefetch();
    "sm_90a" "mov.u32 cp.async.bulk.global.shared::cta.bulk_group": bulk::store(global::<f64>(), 2, tile());
    "sm_90a" "mov.u64 mov.u32 cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint":
        bulk::Store::new(global::<f64>(), 2).with_policy(cache_policy(L2Eviction::Last)).start(tile());
    "sm_90a" "mov.u32 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32":
        bulk::Store::new(global::<f32>(), 4).start_reducing(BulkReduction::Add, tile());
    "sm_90a" "mov.u32 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16":
        bulk::Store::new(global::<bf16>(), 8).start_reducing(BulkReduction::Add, tile());
    "sm_90a" "mov.u32 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64":
        bulk::Store::new(global::<i64>(), 8).start_reducing(BulkReduction::Add, tile());
    "sm_90a" "mov.u32 cp.reduce.async.bulk.global.shared::cta.bulk_group.max.f16":
        bulk::Store::new(global::<f16>(), 8).start_reducing(BulkReduction::Max, tile());
    "sm_90a" "mov.u32 cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s64":
        bulk::Store::new(global::<i64>(), 8).start_reducing(BulkReduction::Min, tile());
    "sm_90a" "mov.u32 cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b64":
        bulk::Store::new(global::<i64>(), 8).start_reducing(BulkReduction::Xor, tile());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mov.u32 mapa.shared::cluster.u32 \
              cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes":
        bulk::send(far::<f32>(), 4, tile(), remote());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mov.u32 mapa.shared::cluster.u32 \
              cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.dec.u32":
        bulk::send_reducing(BulkReduction::Decrement, far::<u32>(), 4, tile(), remote());
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 mov.u32 mov.u32 mapa.shared::cluster.u32 \
              cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u64":
        bulk::send_reducing(BulkReduction::Add, far::<i64>(), 4, tile(), remote());
    "sm_90a" "cp.async.bulk.commit_group cp.async.bulk.wait_group cp.async.bulk.wait_group.read":
        { bulk_commit(); bulk_wait(0); bulk_wait_read(3) };
    "sm_90a" "mov.b64 cvta.param.u64 mov.u32 mov.u32 \
              cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes":
        tma::load(map(), (x::<u32>(), 64), tile::<f32>(), barrier());
    "sm_90a" "mov.b64 cvta.param.u64 mov.u32 mov.u32 \
              cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes":
        tma::load(map(), [-1, 0, 0, 0, 7], tile::<f32>(), barrier());
    "sm_90a" "mov.b64 cvta.param.u64 mov.u16 mov.u64 mov.u32 mov.u32 \
              cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.\
              L2::cache_hint":
        tma::Load::new(map(), [0])
            .multicast(5)
            .with_policy(cache_policy(L2Eviction::Normal))
            .start(tile::<f32>(), barrier());
    "sm_90a" "mov.b64 cvta.param.u64 mov.u16 mov.u16 mov.u32 mov.u32 \
              cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes":
        tma::Load::new(map(), (0, -1, x::<i32>(), 0)).im2col([1, 2]).start(tile::<f32>(), barrier());
    "sm_90a" "mov.b64 cvta.param.u64 mov.u16 mov.u32 mov.u32 \
              cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster":
        tma::Load::new(map(), [x::<i32>(); 3]).im2col([x::<u16>()]).multicast(3).start(tile::<f32>(), barrier());
    "sm_90a" "mov.b64 cvta.param.u64 cp.async.bulk.prefetch.tensor.2d.L2.global.tile": tma::prefetch(map(), [0, 64]);
    "sm_90a" "mov.b64 cvta.param.u64 mov.u16 mov.u16 mov.u16 cp.async.bulk.prefetch.tensor.5d.L2.global.im2col":
        tma::Load::new(map(), [0; 5]).im2col([0, 1, 2]).prefetch();
    "sm_90a" "mov.b64 cvta.param.u64 mov.u32 cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group":
        tma::store(map(), (0, x::<i32>(), 3), tile::<f32>());
    "sm_90a" "mov.b64 cvta.param.u64 mov.u32 cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group":
        tma::Store::new(map(), [0; 4]).im2col().start(tile::<f32>());
    "sm_90a" "mov.b64 cvta.param.u64 mov.u32 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group":
        tma::reduce(BulkReduction::Add, map(), [0, 0], tile::<f32>());
    "sm_90a" "mov.b64 cvta.param.u64 mov.u64 mov.u32 \
              cp.reduce.async.bulk.tensor.3d.global.shared::cta.min.im2col_no_offs.bulk_group.L2::cache_hint":
        tma::Store::new(map(), [0; 3])
            .im2col()
            .with_policy(cache_policy(L2Eviction::First))
            .start_reducing(BulkReduction::Min, tile::<u32>());
    "sm_90a" "mov.u32 tensormap.replace.tile.rank.shared::cta.b1024.b32": TensorMapDraft::shared().set_axes(5);
    "sm_90a" "mov.u32 cvta.global.u64 tensormap.replace.tile.global_address.shared::cta.b1024.b64":
        TensorMapDraft::shared().set_address(global::<f32>());
    "sm_90a" "tensormap.replace.tile.box_dim.global.b1024.b32": draft().set_box_extent(4, 64);
    "sm_90a" "tensormap.replace.tile.global_dim.global.b1024.b32": draft().set_extent(0, x::<u32>());
    "sm_90a" "tensormap.replace.tile.global_stride.global.b1024.b64": draft().set_stride(4, x::<u64>());
    "sm_90a" "tensormap.replace.tile.element_stride.global.b1024.b32": draft().set_element_stride(1, 2);
    "sm_90a" "tensormap.replace.tile.elemtype.global.b1024.b32": draft().set_element(ElementType::Bf16);
    "sm_90a" "tensormap.replace.tile.interleave_layout.global.b1024.b32": draft().set_interleave(Interleave::None);
    "sm_90a" "tensormap.replace.tile.swizzle_mode.global.b1024.b32": draft().set_swizzle(Swizzle::Bytes128);
    "sm_90a" "tensormap.replace.tile.fill_mode.global.b1024.b32": draft().set_fill(Fill::Nan);
    "sm_90a" "mov.u32 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned cvta.global.u64":
        TensorMapDraft::shared().publish(global(), Scope::Device);
    "sm_90a" "mov.u32 mov.b64 cvta.param.u64 mad.lo.u32 mad.wide.u32 ld.u32 st.shared.u32 bar.warp.sync":
        TensorMapDraft::shared().copy(map(), x::<u32>());
    "sm_80" "mov.u32 mbarrier.arrive_drop.noComplete.shared.b64": barrier().arrive_drop_no_complete(2);
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 getctarank.shared::cluster.u32": far::<f32>().rank();
    "sm_90a" "mov.u32 mapa.shared::cluster.u32 cvt.u64.u32 cvta.shared::cluster.u64 isspacep.shared::cluster":
        far::<f32>().generic().is_cluster_shared();
    "sm_90a" "mov.u32 cvt.u64.u32 cvta.shared.u64 cvta.to.shared::cluster.u64 cvt.u32.u64 ld.shared::cluster.u32":
        tile::<u32>().generic().to_cluster_shared().load();
};

//! What came with sm_100a: tensor memory, and what computes in it.

use half::bf16;
use warpwright_arch::DataType;
use warpwright_lang::mbarrier::Mbarrier;
use warpwright_lang::shared::dynamic_shared_aligned;
use warpwright_lang::space::SharedSpace;
use warpwright_lang::tensor::{Accumulate, Tensor, TensorCoreMma, TensorCoreTypes, TmaTile};
use warpwright_lang::tensor_memory::*;
use warpwright_lang::tma;
use warpwright_layout::All;
use warpwright_layout::atom::Major;

use super::{Case, map, tile, x};

const ONE: CtaGroup = CtaGroup::One;
const TWO: CtaGroup = CtaGroup::Two;

/// Cells by an address that an argument gives.
fn cells() -> TensorMemory {
    TensorMemory::from_address(x::<u32>())
}

/// A tile of 64 deep, of bf16, as TMA writes it.
fn operand(rows: u32, major: Major) -> Tensor<bf16, SharedSpace> {
    let layout =
        TmaTile::new::<bf16>((rows, 64), major).and_then(|tile| tile.layout(1)).expect("TMA writes it");
    Tensor::new(dynamic_shared_aligned::<bf16>(rows * 64, 1024), layout)
}

fn multiply(group: CtaGroup, rows: u32, columns: u32, major: Major) {
    let types = TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };
    let mma = TensorCoreMma::new(group, types, rows, columns);
    let share = group.ctas();
    let (a, b) = (operand(rows / share, major), operand(columns / share, Major::K));
    let whole = || (All, All, 0);
    mma.issue(cells(), &mma.a_operand(&a).slice(whole()), &mma.b_operand(&b).slice(whole()), Accumulate::No);
}

pub(crate) const CASES: &[Case] = cases! {
    "sm_100a" "mov.u32 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32": allocate_tensor_memory(ONE, 64, tile());
    "sm_100a" "mov.u32 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32": allocate_tensor_memory(TWO, 512, tile());
    "sm_100a" "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned": relinquish_tensor_memory(ONE);
    "sm_100a" "tcgen05.dealloc.cta_group::1.sync.aligned.b32": cells().free(ONE, 32);
    "sm_100a" "mov.u32 ld.shared.u32 mov.u32 add.u32 tcgen05.ld.sync.aligned.32x32b.x1.b32":
        TensorMemory::at(tile()).column(7).load::<1>();
    "sm_100a" "shl.b32 add.u32 tcgen05.ld.sync.aligned.32x32b.x128.b32": { let row = x::<u32>(); cells().row(row).load::<128>() };
    "sm_100a" "tcgen05.st.sync.aligned.32x32b.x2.b32": { let value = x::<u32>(); cells().store([value, value]) };
    "sm_100a" "tcgen05.wait::ld.sync.aligned": wait_tensor_loads();
    "sm_100a" "tcgen05.wait::st.sync.aligned": wait_tensor_stores();
    "sm_100a" "tcgen05.fence::before_thread_sync": tensor_fence_before_sync();
    "sm_100a" "tcgen05.fence::after_thread_sync": tensor_fence_after_sync();
    "sm_100a" "mov.u32 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64":
        commit_tensor_core(ONE, Mbarrier::new());
    "sm_100a" "mov.u32 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64":
        commit_tensor_core_to(TWO, Mbarrier::new(), x::<u16>());
    "sm_100a" "mov.u32 mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 add.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 mov.u32 mov.pred \
         tcgen05.mma.cta_group::1.kind::f16 mov.pred add.s64 add.s64 tcgen05.mma.cta_group::1.kind::f16 \
         add.s64 add.s64 tcgen05.mma.cta_group::1.kind::f16 add.s64 add.s64 tcgen05.mma.cta_group::1.kind::f16":
        multiply(ONE, 128, 256, Major::K);
    "sm_100a" "mov.u32 mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 add.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 mov.u32 mov.pred \
         tcgen05.mma.cta_group::2.kind::f16 mov.pred add.s64 add.s64 tcgen05.mma.cta_group::2.kind::f16 \
         add.s64 add.s64 tcgen05.mma.cta_group::2.kind::f16 add.s64 add.s64 tcgen05.mma.cta_group::2.kind::f16":
        multiply(TWO, 256, 128, Major::K);
    "sm_100a" "mov.u32 mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 add.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 mov.u32 mov.pred \
         tcgen05.mma.cta_group::1.kind::f16 mov.pred add.s64 add.s64 tcgen05.mma.cta_group::1.kind::f16 \
         add.s64 add.s64 tcgen05.mma.cta_group::1.kind::f16 add.s64 add.s64 tcgen05.mma.cta_group::1.kind::f16":
        multiply(ONE, 64, 24, Major::Mn);
    "sm_100a" "mov.b64 cvta.param.u64 mov.u32 mov.u32 \
              cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes":
        tma::gather4(map(), 64, [x::<u32>(); 4], tile::<bf16>(), Mbarrier::new());
    "sm_100a" "mov.b64 cvta.param.u64 mov.u16 mov.u32 mov.u32 \
              cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.multicast::cluster":
        tma::Load::gather4(map(), 0, [3, 1, 4, 1]).multicast(3).start(tile::<bf16>(), Mbarrier::new());
    "sm_100a" "mov.b64 cvta.param.u64 mov.u32 mov.u32 mapa.shared::cluster.u32 \
              cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2":
        tma::Load::new(map(), [3, 1]).group(TWO).start(tile::<bf16>(), Mbarrier::new().at_rank(0));
    "sm_100a" "mov.b64 cvta.param.u64 cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4":
        tma::Load::gather4(map(), 0, [3, 1, 4, 1]).prefetch();
    "sm_100a" "mov.b64 cvta.param.u64 mov.u32 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group":
        tma::scatter4(map(), x::<u32>(), [3, 1, 4, 2], tile::<bf16>());
};

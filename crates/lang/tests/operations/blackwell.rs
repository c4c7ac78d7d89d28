//! What came with sm_100a: tensor memory, and what computes in it.

use half::bf16;
use warpwright_arch::DataType::{self, E2m1, E4m3};
use warpwright_lang::cluster_launch::CancelResponses;
use warpwright_lang::element::{Element, e4m3};
use warpwright_lang::mbarrier::Mbarrier;
use warpwright_lang::shared::dynamic_shared_aligned;
use warpwright_lang::space::SharedSpace;
use warpwright_lang::tensor::{
    Accumulate, BlockScales, SCALE_BYTES, Tensor, TensorCoreMma, TensorCoreTypes, TensorMemoryCopy as Copy,
    TmaTile,
};
use warpwright_lang::tensor_memory::{TensorMemoryShape as Shape, *};
use warpwright_lang::tma;
use warpwright_layout::atom::{Major, SharedSwizzle, SharedTile};
use warpwright_layout::{All, Layout};

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

fn shaped(shape: Shape) -> TensorMemoryAccess {
    TensorMemoryAccess::new(shape)
}

/// Rows of bytes that are copied to tensor memory.
fn copy(copy: Copy, rows: u32, row_bytes: u32) {
    let swizzle = SharedSwizzle::None;
    let layout =
        SharedTile { major: Major::K, swizzle, element_bits: 8 }.layout().expect("8 rows of 16 bytes");
    let tile = match rows {
        4 => Layout::new((4, (16, 2)), (16, (1, 128))).expect("a layout").into(),
        _ => layout.map_inner(|block| block.tile_to_shape((rows, row_bytes), None)).expect("whole blocks"),
    };
    let memory = dynamic_shared_aligned::<u8>(rows.max(8) * row_bytes, 128);
    cells().copy_from(ONE, copy, &Tensor::new(memory, tile));
}

fn left_in_tensor_memory() {
    let types = TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };
    let mma = TensorCoreMma::new(ONE, types, 128, 64);
    let b = operand(64, Major::K);
    mma.issue(cells(), &cells(), &mma.b_operand(&b).slice((All, All, 0)), Accumulate::No);
}

/// Two instructions with scales, of tiles whose rows are `row_bytes` bytes.
fn scaled<T: Element>(element: DataType, scales: BlockScales, row_bytes: u32) {
    let types = TensorCoreTypes { a: element, b: element, d: DataType::F32 };
    let mma = TensorCoreMma::block_scaled(ONE, types, scales, 128, 64);
    let operand = |rows: u32| {
        let layout = TmaTile::new::<T>((rows, row_bytes), Major::K).and_then(|tile| tile.layout(1));
        Tensor::new(dynamic_shared_aligned::<T>(rows * row_bytes, 1024), layout.expect("TMA writes it"))
    };
    let (a, b) = (operand(128), operand(64));
    let whole = || (All, All, 0);
    let (a, b) = (mma.a_operand(&a).slice(whole()), mma.b_operand(&b).slice(whole()));
    mma.issue_scaled(cells(), &a, &b, [cells(), cells()], Accumulate::No);
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
    "sm_100a" "tcgen05.ld.sync.aligned.16x64b.x2.b32": cells().load_with::<2>(shaped(Shape::Rows16x64b));
    "sm_100a" "tcgen05.ld.sync.aligned.16x128b.x64.b32": cells().load_with::<128>(shaped(Shape::Rows16x128b));
    "sm_100a" "tcgen05.ld.sync.aligned.16x256b.x1.pack::16b.b32": cells().load_with::<4>(shaped(Shape::Rows16x256b).packed());
    "sm_100a" "tcgen05.ld.sync.aligned.16x32bx2.x1.b32": cells().load_with::<1>(shaped(Shape::Rows16x32bx2 { apart: 32 }));
    "sm_100a" "tcgen05.st.sync.aligned.16x32bx2.x2.unpack::16b.b32":
        { let value = x::<u32>(); cells().store_with(shaped(Shape::Rows16x32bx2 { apart: 4 }).packed(), [value; 2]) };
    "sm_100a" "tcgen05.st.sync.aligned.16x256b.x1.b32":
        { let value = x::<u32>(); cells().store_with(shaped(Shape::Rows16x256b), [value; 4]) };
    "sm_100a" "mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 tcgen05.cp.cta_group::1.128x256b": copy(Copy::Rows128x256b, 128, 32);
    "sm_100a" "mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 tcgen05.cp.cta_group::1.4x256b": copy(Copy::Rows4x256b, 4, 32);
    "sm_100a" "mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 tcgen05.cp.cta_group::1.128x128b": copy(Copy::Rows128x128b, 128, 16);
    "sm_100a" "mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 tcgen05.cp.cta_group::1.64x128b.warpx2::02_13":
        copy(Copy::Rows64x128bTwice, 64, 16);
    "sm_100a" "mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 tcgen05.cp.cta_group::1.64x128b.warpx2::01_23":
        copy(Copy::Rows64x128bByHalves, 64, 16);
    "sm_100a" "mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 tcgen05.cp.cta_group::2.32x128b.warpx4":
        cells().copy_scales(TWO, dynamic_shared_aligned::<u8>(SCALE_BYTES, 128));
    "sm_100a" "tcgen05.shift.cta_group::2.down": cells().shift_down(TWO);
    "sm_100a" "mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 mov.u32 mov.pred tcgen05.mma.cta_group::1.kind::f16 mov.pred \
         mov.u32 add.u32 add.s64 tcgen05.mma.cta_group::1.kind::f16 mov.u32 add.u32 add.s64 \
         tcgen05.mma.cta_group::1.kind::f16 mov.u32 add.u32 add.s64 tcgen05.mma.cta_group::1.kind::f16":
        left_in_tensor_memory();
    "sm_100a" "mov.u32 mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 add.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 mov.u32 mov.pred \
         tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X mov.pred add.s64 add.s64 \
         mov.u32 add.u32 mov.u32 add.u32 \
         tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X":
        scaled::<u8>(E2m1, BlockScales::NVFP4, 64);
    "sm_100a" "mov.u32 mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 add.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 mov.u32 mov.pred \
         tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X mov.pred mov.u32 add.s64 add.s64 \
         tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X":
        scaled::<u8>(E2m1, BlockScales::MX, 64);
    "sm_100a" "mov.u32 mov.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 add.u32 shr.u32 and.b32 cvt.u64.u32 or.b64 mov.u32 mov.pred \
         tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X mov.pred mov.u32 add.s64 add.s64 \
         tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X":
        scaled::<e4m3>(E4m3, BlockScales::MX, 64);
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
    "sm_100a" "mov.u32 mov.u32 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128":
        CancelResponses::new(2).at(1).try_cancel(Mbarrier::new());
    "sm_100a" "mov.u32 mov.u32 \
              clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128":
        CancelResponses::new(2).at(1).try_cancel_multicast(Mbarrier::new());
    "sm_100a" "mov.u32 ld.shared.b128 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128":
        CancelResponses::new(2).at(0).query().is_canceled();
    "sm_100a" "mov.u32 ld.shared.b128 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128":
        CancelResponses::new(2).at(0).query().first_block_idx();
};

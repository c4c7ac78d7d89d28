//! Misuse of the instructions: what is said of each, where it is written.

use half::{bf16, f16};
use warpwright_arch::Capability;
use warpwright_arch::DataType;
use warpwright_arch::tensor_map::{ElementType, Swizzle};
use warpwright_lang::access::Scope;
use warpwright_lang::atomic::Atomicity;
use warpwright_lang::bulk::{self, BulkReduction};
use warpwright_lang::cluster::{AsyncReduction, cluster_sync};
use warpwright_lang::cluster_launch::CancelResponses;
use warpwright_lang::conversion::{Rounding, Saturate};
use warpwright_lang::element::{Element, b1x32, bf16x2, e4m3, tf32, u16x2};
use warpwright_lang::mbarrier::{Arrival, Mbarrier, Mbarriers, PhaseEnd, RemoteMbarrier};
use warpwright_lang::multicast::ClusterGrid;
use warpwright_lang::parameter::KernelParameter;
use warpwright_lang::pipeline::{ConsumerSchedule, Pipeline, PipelineState, TransactionPipeline};
use warpwright_lang::pointer::{ClusterShared, Global, Shared};
use warpwright_lang::recorder::stage;
use warpwright_lang::registers::{decrease_registers, increase_registers};
use warpwright_lang::requirement::{Feature, for_target};
use warpwright_lang::role::{roles, warpgroups};
use warpwright_lang::shared::{dynamic_shared_aligned, shared_array};
use warpwright_lang::space::SharedSpace;
use warpwright_lang::tensor::{
    Accumulate, BlockScaledMma, BlockScales, Fragment, LeftOperand, MatrixOperand, Sparse, Tensor,
    TensorCoreMma, TensorCoreTypes, TensorMemoryCopy, TiledMma, TmaTile, gemm_block_scaled, multiply,
};
use warpwright_lang::tensor_map::{TensorMap, TensorMaps, UntypedTensorMap};
use warpwright_lang::tensor_map_draft::TensorMapDraft;
use warpwright_lang::tensor_memory::{
    CtaGroup, TensorMemory, TensorMemoryAccess, TensorMemoryShape, allocate_tensor_memory, wait_tensor_loads,
};
use warpwright_lang::value::constant;
use warpwright_lang::wmma::{Wmma, WmmaLayout};
use warpwright_lang::{Reg, block, device, fence, launch, matrix, tma, warp};
use warpwright_layout::atom::Major;
use warpwright_layout::{All, Layout};

/// One misuse, as it is written.
type Misuse = (&'static str, fn());

macro_rules! misuses {
    ($($body:expr;)*) => {
        &[$((stringify!($body), || { let _ = $body; })),*]
    };
}

fn map() -> TensorMap {
    <&mut UntypedTensorMap as KernelParameter>::declare("map")
}

/// A map that a launch compares with what its copies need.
fn typed() -> TensorMap {
    <&mut TensorMap as KernelParameter>::declare("map")
}

/// A map that the kernel only reads.
fn read_only_map() -> TensorMap {
    let map = <&TensorMap as KernelParameter>::declare("map");
    map.boxes(tma_tile());
    map
}

/// Multiplies 64 x 64 elements of e2m1, with that many registers of A's scales and from that byte
/// on.
fn narrow_product(registers: usize, byte: u32) {
    let mma = TiledMma::atom("SM80_16x8x16_F32BF16BF16F32_TN");
    let part = mma.thread(input());
    let mut c: Fragment<f32> = part.c_fragment((64, 64));
    let (a, b) = (part.a_fragment::<bf16>((64, 16)), part.b_fragment::<bf16>((64, 16)));
    let (a, b) = (a.slice((All, All, 0)), b.slice((All, All, 0)));
    let scaled = BlockScaledMma::new(FOUR_BITS, BlockScales::MX);
    let (of_a, of_b) = (vec![input::<u32>(); registers], [input::<u32>(); 2]);
    gemm_block_scaled(&mma, scaled, &mut c, &a, &b, [&of_a, &of_b], byte);
}

/// Gathers four rows of 128 bytes.
fn single_rows(full: Mbarrier) {
    let map = typed();
    map.boxes(tma_tile().map(|tile| tile.single_rows()));
    tma::gather4(map, 0, [0; 4], tile::<bf16>(), full);
}

/// One of two maps, selected on the device.
#[device]
fn either(a: TensorMap, b: TensorMap) -> TensorMap {
    if input::<u32>() == 0 { a } else { b }
}

fn global<T: Element>() -> Global<T> {
    <&mut Global<T> as KernelParameter>::declare("memory")
}

fn read_only<T: Element>() -> Global<T> {
    <&Global<T> as KernelParameter>::declare("memory")
}

fn tile<T: Element>() -> Shared<T> {
    shared_array(64)
}

fn far<T: Element>() -> ClusterShared<T> {
    tile().map_to_block(1)
}

fn remote() -> RemoteMbarrier {
    Mbarrier::new().at_rank(1)
}

fn half_products() -> Wmma<f16> {
    Wmma::new([16, 16, 16], WmmaLayout::RowMajor, WmmaLayout::RowMajor)
}

/// bf16 into f32.
const BRAIN_FLOATS: TensorCoreTypes =
    TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };

const FOUR_BITS: TensorCoreTypes = TensorCoreTypes { a: DataType::E2m1, b: DataType::E2m1, d: DataType::F32 };

fn mma(atom: &str) -> TiledMma {
    TiledMma::warpgroups(atom, 1)
}

/// 64 rows in shared memory, as `wgmma` reads them.
fn rows<T: Element>(depth: u32, major: Major) -> Tensor<T, SharedSpace> {
    let layout = TmaTile::new::<T>((64, depth), major).and_then(|tile| tile.layout(1));
    Tensor::new(dynamic_shared_aligned(64 * depth, 1024), layout.expect("whole blocks"))
}

/// 64 rows of one instruction's depth of bf16.
fn operand() -> MatrixOperand {
    mma("SM90_64x64x16_F32BF16BF16_SS").b_operand(&rows::<bf16>(16, Major::K)).slice((All, All, 0))
}

#[track_caller]
fn product<C: Element>(atom: &str, a: &impl LeftOperand) {
    let mma = mma(atom);
    let mut sums: Fragment<C> = mma.thread(input()).c_fragment((64, 64));
    multiply(&mma, &mut sums, a, &operand(), Accumulate::Yes);
}

fn left<T: Element>() -> Fragment<T> {
    mma("SM90_64x64x16_F32BF16BF16_RS").thread(input()).a_fragment((64, 16))
}

/// A register of metadata.
fn words() -> Fragment<u32> {
    Fragment::with_layout(Layout::column_major((1, 1)).expect("it is known"))
}

/// A tile of bf16 that TMA loads.
fn tma_tile() -> Result<TmaTile, warpwright_layout::Error> {
    TmaTile::new::<bf16>((64, 64), Major::K)
}

/// A pipeline of two stages whose producer loads `tile` of an operand: its own, or another
/// pipeline's.
#[track_caller]
fn load_of(own: bool, tile: TmaTile, multicast: bool) {
    let [_, consumer] = roles([warpgroups(1), warpgroups(1)]);
    let cluster = ClusterGrid::new((2, 1));
    let mut stages = Pipeline::stages(2);
    let mine = stages.operand::<bf16>(Ok(tile));
    let others = Pipeline::stages(4).operand::<bf16>(tma_tile());
    let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
    let operand = if own { mine } else { others };
    let multicast = if multicast { cluster.multicast_b() } else { None };
    pipeline.producer().load([operand.load(map(), (input(), input()), multicast)]);
}

const ANYWHERE: &[Misuse] = misuses! {
    Pipeline::stages(0);
    TransactionPipeline::stages(0);
    TransactionPipeline::stages(2).synchronized_by_cta().acquire(PipelineState::start());
    TransactionPipeline::stages(2).synchronized_by_cta().release(input(), input());
    load_of(false, tma_tile().unwrap(), false);
    load_of(true, tma_tile().unwrap().sliced(2), false);
    load_of(true, tma_tile().unwrap().in_parts(4), false);
    load_of(true, tma_tile().unwrap(), true);
    roles([warpgroups(1).registers(41)]);
    roles([warpgroups(1).registers(40), warpgroups(2).registers(240)]);
    roles([warpgroups(1).registers(32), warpgroups(2).registers(240)]);
    <&TensorMaps<8> as KernelParameter>::declare("maps").at(8);
    Mbarrier::new().init(0);
    Mbarrier::new().init(1 << 20);
    Mbarriers::new(4).at(4);
    Mbarrier::new().arrive_in(Scope::Device);
    Mbarrier::new().wait_parity_in(0, Scope::System);
    Mbarrier::new().arrive_as(Arrival::new().times(2).expecting(16));
    Mbarrier::new().arrive_as(Arrival::new().without_ending());
    Mbarrier::new().arrive_as(Arrival::new().expecting(16).without_ending());
    Mbarrier::new().arrive_as(Arrival::new().times(2).without_ending().relaxed(Scope::Block));
    Mbarrier::new().arrive_as(Arrival::new().relaxed(Scope::Device));
    remote().arrive_as(Arrival::new().times(2).without_ending());
    remote().expect_in(16, Scope::System);
    Mbarrier::new().test(PhaseEnd::of_parity(0).within(100));
    Mbarrier::new().wait_for(PhaseEnd::of_parity(0).relaxed(Scope::Device));
    block::barrier_sync(16, 128);
    block::barrier_arrive(1, 100);
    increase_registers(240);
    { launch::threads(128); increase_registers(250) };
    { launch::threads(128); decrease_registers(16) };
    far::<f16>().store_async(f16::ONE, remote());
    far::<u64>().store_vector_async([constant(1); 4], remote());
    far::<u64>().reduce_async(AsyncReduction::Max, 1, remote());
    far::<i32>().reduce_async(AsyncReduction::Increment, 1, remote());
    bulk::load(global::<f32>(), 3, tile(), Mbarrier::new());
    bulk::load(global::<u8>(), 0, tile(), Mbarrier::new());
    bulk::store(read_only::<f32>(), 4, tile());
    bulk::Load::new(global::<f32>(), 4).multicast(3).prefetch();
    bulk::Store::new(global::<f32>(), 4).start_reducing(BulkReduction::Min, tile());
    bulk::send_reducing(BulkReduction::Max, far::<u64>(), 2, tile(), remote());
    tma::load(map(), [0; 6], tile::<f32>(), Mbarrier::new());
    tma::Load::new(map(), [0; 4]).im2col([0u16]).prefetch();
    tma::Load::new(map(), [0; 2]).im2col([0u16; 0]).prefetch();
    tma::Store::new(map(), [0; 2]).im2col().start(tile::<f32>());
    tma::Load::new(map(), [0, 0]).multicast(1).prefetch();
    tma::load(typed(), [0, 0], tile::<f32>(), Mbarrier::new());
    { let map = typed(); map.boxes(tma_tile()); map.boxes(TmaTile::new::<bf16>((128, 64), Major::K)) };
    { let map = typed(); map.boxes(tma_tile()); map.boxes(TmaTile::new::<f16>((64, 64), Major::K)) };
    { let map = typed(); map.boxes(tma_tile()); map.boxes(TmaTile::dense::<bf16>((64, 64), Major::K)) };
    { let map = typed(); map.boxes(tma_tile()); tma::load(map, [0; 3], tile::<bf16>(), Mbarrier::new()) };
    { let map = typed(); map.boxes(tma_tile()); tma::store(map, [0; 2], tile::<f16>()) };
    { let map = typed(); map.boxes(tma_tile()); tma::Store::new(map, [0; 3]).im2col().start(tile::<bf16>()) };
    { let map = typed(); map.boxes(tma_tile()); tma::gather4(map, 0, [0; 4], tile::<bf16>(), Mbarrier::new()) };
    { let map = typed(); map.boxes(tma_tile()); tma::scatter4(map, 0, [0; 4], tile::<bf16>()) };
    tma::store(read_only_map(), [0; 2], tile::<bf16>());
    tma::reduce(BulkReduction::Add, read_only_map(), [0; 2], tile::<bf16>());
    tma::store(read_only_map().untyped(), [0; 2], tile::<bf16>());
    tma::store(<&TensorMaps<2> as KernelParameter>::declare("maps").at(input::<u32>()), [0; 2], tile::<bf16>());
    tma::Store::scatter4(map(), 0, [0; 4]).start_reducing(BulkReduction::Add, tile::<f32>());
    tma::Load::gather4(map(), 0, [0; 4]).im2col([0u16]).prefetch();
    { let full = Mbarrier::new(); full.arrive_and_expect(1024); single_rows(full) };
    { let map = typed(); map.assume_extent(0, 64); map.assume_extent(0, 128) };
    typed().assume_extent(5, 64);
    { let map = either(typed(), typed()); map.boxes(tma_tile()) };
    { let pair = <&TensorMaps<2> as KernelParameter>::declare("maps"); pair.at(1).boxes(tma_tile()); tma::prefetch(pair.at(0), [0, 0]) };
    TensorMapDraft::shared().set_axes(6);
    TensorMapDraft::shared().set_stride(0, 16);
    TensorMapDraft::shared().set_extent(5, 16);
    TensorMapDraft::shared().set_swizzle(Swizzle::Bytes128Atom64);
    TensorMapDraft::shared().set_element(ElementType::B4x16);
    global::<f32>().reduce_add_vector([constant(0.0); 8], Atomicity::default());
    allocate_tensor_memory(CtaGroup::One, 48, tile());
    TensorMemory::from_address(0).load::<3>();
    TensorMemory::from_address(0).load_with::<2>(TensorMemoryAccess::new(TensorMemoryShape::Rows16x256b));
    TensorMemory::from_address(0).copy_from(CtaGroup::One, TensorMemoryCopy::Rows128x128b, &rows::<bf16>(64, Major::K));
    TensorCoreMma::new(CtaGroup::One, BRAIN_FLOATS, 96, 64);
    TensorCoreMma::new(CtaGroup::Two, BRAIN_FLOATS, 64, 64);
    TensorCoreMma::new(CtaGroup::One, BRAIN_FLOATS, 128, 24);
    TensorCoreMma::new(CtaGroup::One, TensorCoreTypes { b: DataType::F16, ..BRAIN_FLOATS }, 128, 64);
    TensorCoreMma::block_scaled(CtaGroup::One, BRAIN_FLOATS, BlockScales::MX, 128, 64);
    TensorCoreMma::block_scaled(CtaGroup::One, FOUR_BITS, BlockScales::NVFP4, 64, 64);
    TensorCoreMma::block_scaled(CtaGroup::One, FOUR_BITS, BlockScales::NVFP4, 128, 64).a_operand(&rows::<e4m3>(128, Major::K));
    {
        let mma = TensorCoreMma::block_scaled(CtaGroup::One, FOUR_BITS, BlockScales::NVFP4, 128, 64);
        let cells = TensorMemory::from_address(0);
        mma.issue(cells, &cells, &mma.b_operand(&rows::<u8>(128, Major::K)).slice((All, All, 0)), Accumulate::No)
    };
    BlockScaledMma::new(FOUR_BITS, BlockScales { block: 64, ..BlockScales::MX });
    narrow_product(1, 0);
    CancelResponses::new(2).at(2);
    narrow_product(2, 1);
    Wmma::<f64>::new([16, 16, 16], WmmaLayout::RowMajor, WmmaLayout::ColumnMajor);
    Wmma::<b1x32>::new([8, 8, 128], WmmaLayout::RowMajor, WmmaLayout::RowMajor);
    half_products().zeros::<f64>();
    half_products().multiply::<i32, i32>(&half_products().load_a(global(), 16), &half_products().load_b(global(), 16), &half_products().zeros());
    mma("SM80_16x8x16_F32BF16BF16F32_TN");
    mma("SM90_64x64x32_S32S8S8_SS").negating_a();
    TiledMma::atom("SM80_16x8x16_F32BF16BF16F32_TN").negating_b();
    mma("SM90_64x64x16_F32BF16BF16_SS").saturating();
    mma("SM90_64x64x256_S32U1U1_SS").saturating();
    mma("SM90_64x64x32_F32E4M3E4M3_SS").b_operand(&rows::<e4m3>(32, Major::Mn));
    mma("SM90_64x64x8_F32TF32TF32_SS").a_operand(&rows::<bf16>(16, Major::K), 0);
    mma("SM90_64x64x256_S32U1U1_SS").b_operand(&rows::<u8>(32, Major::K));
    product::<f32>("SM90_64x64x16_F32BF16BF16_SS", &left::<bf16>());
    product::<f32>("SM90_64x64x16_F32BF16BF16_RS", &operand());
    product::<f32>("SM90_64x64x16_F32BF16BF16_RS", &left::<f32>());
    product::<f16>("SM90_64x64x16_F32BF16BF16_RS", &left::<bf16>());
    product::<f32>("SM90_SPARSE_64x64x32_F32BF16BF16_SS", &operand());
    product::<f32>("SM90_64x64x16_F32BF16BF16_SS", &Sparse { stored: &operand(), metadata: &words() });
    product::<f32>("SM80_16x8x16_F32BF16BF16F32_TN", &operand());
    mma("SM90_64x64x16_F32BF16BF16_SS").thread(input()).metadata_fragment((64, 16));
    left::<bf16>().set_word(1, 0);
};

/// What sm_80 has not.
const TOO_NEW: &[Misuse] = misuses! {
    map();
    Mbarrier::new().try_wait_parity(0);
    Mbarrier::new().arrive_and_expect(16);
    Mbarrier::new().arrive_as(Arrival::new().times(2));
    Mbarrier::new().arrive_as(Arrival::new().relaxed(Scope::Block));
    Mbarrier::new().test(PhaseEnd::of_parity(0).acquiring(Scope::Cluster));
    Mbarrier::new().wait_for(PhaseEnd::of_parity(0).within(100));
    Mbarrier::new().at_rank(0);
    cluster_sync();
    fence::fence_cluster();
    fence::fence(fence::Semantics::Acquire, Scope::Device);
    fence::fence_proxy_async();
    fence::fence_mbarrier_init();
    launch::grid_dependency_wait();
    { launch::threads(128); decrease_registers(40) };
    warp::elect(warp::ALL_LANES);
    bulk::load(global::<f32>(), 4, tile(), Mbarrier::new());
    TensorMapDraft::shared().set_axes(5);
    global::<f32>().reduce_add_vector([constant(0.0); 4], Atomicity::default());
    input::<f32>().convert::<e4m3>();
    input::<f32>().convert_with::<tf32>(Rounding::Zero, Saturate::No);
    matrix::stmatrix(tile::<f16>(), [input::<u32>()]);
    global::<f32>().load_vector::<8>();
    input::<f32>().warp_max(warp::ALL_LANES);
    input::<bf16x2>().tanh_approx();
    input::<u16x2>().add_lanes(input::<u16x2>());
    input::<f32>().min3(0.0, 1.0);
    global::<bf16>().reduce_add(input::<bf16>());
    wait_tensor_loads();
    tma::scatter4(map(), 0, [0; 4], tile::<f32>());
    BlockScaledMma::new(FOUR_BITS, BlockScales::NVFP4);
    CancelResponses::new(1).at(0).try_cancel(Mbarrier::new());
};

/// What sm_120a has not, although it is later than sm_100a.
const OF_TENSOR_MEMORY: &[Misuse] = misuses! {
    wait_tensor_loads();
    tma::scatter4(map(), 0, [0; 4], tile::<f32>());
    input::<f32>().warp_max(warp::ALL_LANES);
};

fn input<T: Element>() -> Reg<T> {
    <T as KernelParameter>::declare("x")
}

/// What is said of each misuse, and that it is said where it was written.
fn said(misuses: &[Misuse]) -> String {
    let mut said = String::new();
    for (written, misuse) in misuses {
        let errors = stage("misuse", misuse).err().unwrap_or_else(|| panic!("{written} is no misuse"));
        said.push_str(&format!("{}\n", written.split_whitespace().collect::<Vec<_>>().join(" ")));
        for error in errors {
            assert!(error.location.file.ends_with("misuse.rs"), "{written}: {:?}", error.location);
            said.push_str(&format!("    {}\n", error.message));
        }
    }
    said
}

#[test]
fn misuse_is_explained_where_it_is_written() {
    insta::assert_snapshot!(said(ANYWHERE));
}

#[test]
fn what_the_target_lacks_is_refused_where_it_is_written() {
    let capability = Capability::for_target("sm_80").expect("in the table");
    let said = for_target(capability, || said(TOO_NEW));
    for feature in Feature::ALL {
        let (name, _) = feature.requirement();
        assert!(said.contains(name), "no misuse of {feature:?}");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn what_needs_tensor_memory_is_refused_by_later_targets_without_it() {
    let capability = Capability::for_target("sm_120a").expect("in the table");
    insta::assert_snapshot!(for_target(capability, || said(OF_TENSOR_MEMORY)), @r"
    wait_tensor_loads()
        not available on sm_120a, which this kernel is built for: tensor memory (tcgen05) (sm_100a and sm_103a)
    tma::scatter4(map(), 0, [0; 4], tile::<f32>())
        not available on sm_120a, which this kernel is built for: tensor copies of single rows (gather4, scatter4) (sm_100a and sm_103a)
    input::<f32>().warp_max(warp::ALL_LANES)
        not available on sm_120a, which this kernel is built for: warp reductions of f32 (redux.sync) (sm_100a and sm_103a)
    ");
}

#[test]
fn a_wait_suits_the_target() {
    for (name, word) in [("sm_80", "test_wait"), ("sm_90a", "try_wait")] {
        let capability = Capability::for_target(name).expect("in the table");
        let kernel = for_target(capability, || stage("waits", || Mbarrier::new().wait_parity(0)));
        let mut opcodes = Vec::new();
        kernel
            .expect("it has no mistakes")
            .for_each_instruction(&mut |found| opcodes.push(found.opcode.to_string()));
        assert_eq!(opcodes[1..], [format!("mbarrier.{word}.parity.shared.b64")]);
    }
}

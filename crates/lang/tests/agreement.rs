//! Shapes, element types, stages, owners and extents that disagree: each mistake is refused where it
//! is written, and its right twin is built.

use half::{bf16, f16};
use warpwright_arch::DataType;
use warpwright_lang::block::{NamedBarrier, barrier_sync};
use warpwright_lang::cluster::{cluster_rank, cluster_sync};
use warpwright_lang::element::{Element, bf16x2, f16x2};
use warpwright_lang::matrix::mma_sync;
use warpwright_lang::mbarrier::{Mbarrier, Mbarriers};
use warpwright_lang::multicast::ClusterGrid;
use warpwright_lang::parameter::KernelParameter;
use warpwright_lang::pipeline::{Consumer, ConsumerSchedule, Pipeline};
use warpwright_lang::pointer::{Global, Shared};
use warpwright_lang::recorder::stage;
use warpwright_lang::role::{Role, roles, warpgroups};
use warpwright_lang::shared::{dynamic_shared, dynamic_shared_aligned, local_array, shared_array};
use warpwright_lang::space::{GlobalSpace, SharedSpace};
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::tensor::{
    Accumulate, Fragment, MatrixOperand, Sparse, StagedOperand, StoreBuffers, Tensor, TensorCoreMma,
    TensorCoreTypes, ThreadCopy, ThreadMma, TiledCopy, TiledMma, TmaTile, gemm, multiply,
};
use warpwright_lang::tensor_map::TensorMap;
use warpwright_lang::tensor_memory::{CtaGroup, TensorMemory, allocate_tensor_memory};
use warpwright_lang::value::{Reg, constant};
use warpwright_lang::wmma::{Wmma, WmmaInput, WmmaLayout};
use warpwright_lang::{async_copy, block, bulk, device, launch, tma, warp};
use warpwright_layout::atom::{Major, MmaAtom};
use warpwright_layout::{All, Layout, Swizzle};

/// A mistake and its right twin, as they are written.
pub(crate) struct Row {
    pub(crate) wrong: (&'static str, fn()),
    pub(crate) right: (&'static str, fn()),
}

macro_rules! rows {
    ($($wrong:expr => $right:expr;)*) => {
        &[$($crate::agreement::Row {
            wrong: (stringify!($wrong), || { let _ = $wrong; }),
            right: (stringify!($right), || { let _ = $right; }),
        }),*]
    };
}

pub(crate) use rows;

/// What is said of each mistake, after its right twin was built.
pub(crate) fn said(file: &str, rows: &[Row]) -> String {
    let mut said = String::new();
    for Row { wrong: (written, wrong), right: (twin, right) } in rows {
        if let Err(errors) = stage("right", right) {
            panic!("{twin} is right: {errors:#?}");
        }
        let errors = stage("wrong", wrong).err().unwrap_or_else(|| panic!("{written} is no mistake"));
        said.push_str(&format!("{}\n", written.split_whitespace().collect::<Vec<_>>().join(" ")));
        for error in errors {
            assert!(error.location.file.ends_with(file), "{written}: {:?}", error.location);
            said.push_str(&format!("    {}\n", error.message));
        }
    }
    said
}

fn global<T: Element>() -> Global<T> {
    <&mut Global<T> as KernelParameter>::declare("memory")
}

fn index() -> Reg<u32> {
    thread_idx().x
}

fn rows_of<T: Element>(shape: (u32, u32)) -> Tensor<T, GlobalSpace> {
    Tensor::with_layout(global(), Layout::row_major(shape))
}

fn view(shape: (u32, u32)) -> Tensor<f32, SharedSpace> {
    Tensor::with_layout(dynamic_shared(shape.0 * shape.1), Layout::row_major(shape))
}

const BF16: &str = "SM80_16x8x16_F32BF16BF16F32_TN";
const F16: &str = "SM80_16x8x16_F32F16F16F32_TN";

fn warps(atom: &str) -> TiledMma {
    TiledMma::new(atom, (2, 2))
}

/// A product by four warps of a tile of A (m, k) and one of B (n, k) into C.
#[track_caller]
fn product<T: Element>(atom: &str, a: (u32, u32), b: (u32, u32), c: (u32, u32)) {
    let mma = warps(atom);
    let part = mma.thread(index());
    let (a, b): (Fragment<T>, Fragment<T>) = (part.a_fragment(a), part.b_fragment(b));
    let mut c: Fragment<f32> = part.c_fragment(c);
    gemm(&mma, &mut c, &a.slice((All, All, 0)), &b.slice((All, All, 0)));
}

/// A copy of a tile of bf16 by 128 threads.
fn copy() -> ThreadCopy {
    TiledCopy::new::<bf16>(
        "SM80_CP_ASYNC_CACHEGLOBAL<128>",
        Layout::row_major((32, 4)),
        Layout::row_major((1, 8)),
    )
    .thread(index())
}

/// A swizzled tile in shared memory.
fn tile<T: Element>(shape: (u32, u32)) -> Tensor<T, SharedSpace> {
    Tensor::swizzled(dynamic_shared(shape.0 * shape.1), Layout::row_major(shape), Swizzle::new(2, 3, 3))
}

#[track_caller]
fn copied<T: Element>(from: (u32, u32), to: (u32, u32)) {
    let copy = copy();
    copy.copy_async(&copy.target(&tile::<T>(to)), &copy.source(&rows_of::<T>(from)), |_| None);
}

#[track_caller]
fn copied_by_elements(from: (u32, u32), to: (u32, u32)) {
    let copy = copy();
    copy.copy_elements(&copy.target(&tile::<bf16>(to)), &copy.source(&rows_of(from)), |_| None);
}

/// Fills the registers of A (64, 32) from a tile of that shape.
#[track_caller]
fn loaded(shape: (u32, u32), fragment: (u32, u32)) {
    let mma = warps(BF16);
    let copy = TiledCopy::into_a::<bf16>("SM75_U32x4_LDSM_N", &mma).thread(index());
    let fragment: Fragment<bf16> = mma.thread(index()).a_fragment(fragment);
    copy.load_matrix(&copy.retile(&fragment), &copy.source(&tile(shape)));
}

/// Stores accumulators of one tile to another.
#[track_caller]
fn stored(fragment: (u32, u32), shape: (u32, u32)) {
    let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
    let copy = TiledCopy::from_c::<bf16>("SM90_U32x4_STSM_N", &mma).thread(index());
    let sums: Fragment<f32> = mma.thread(index()).c_fragment(fragment);
    let rounded = sums.packed::<bf16>(|low, _| low.convert());
    copy.store_matrix(&copy.target(&tile(shape)), &copy.retile(&rounded));
}

fn warpgroup(atom: &str) -> TiledMma {
    TiledMma::warpgroups(atom, 1)
}

/// A tile as TMA loads it.
fn staged<T: Element>(shape: (u32, u32)) -> Tensor<T, SharedSpace> {
    let tile = TmaTile::new::<T>(shape, Major::K).expect("whole blocks");
    let memory = dynamic_shared_aligned(shape.0 * shape.1, 1024);
    Tensor::new(memory, tile.layout(1).expect("whole blocks")).slice((All, All, 0))
}

const WIDE: &str = "SM90_64x128x16_F32BF16BF16_SS";

/// A product by a warpgroup of tiles in shared memory.
#[track_caller]
fn of_tiles(a: (u32, u32), b: (u32, u32), c: (u32, u32)) {
    let mma = warpgroup(WIDE);
    let mut sums: Fragment<f32> = mma.thread(index()).c_fragment(c);
    let (a, b) = (mma.a_operand(&staged::<bf16>(a), 0), mma.b_operand(&staged::<bf16>(b)));
    multiply(&mma, &mut sums, &a, &b, Accumulate::No);
}

fn sums(mma: &TiledMma) -> Fragment<f32> {
    mma.thread(index()).c_fragment((64, 128))
}

/// A B of 128 columns that instructions of `atom` read.
fn right(atom: &str) -> MatrixOperand {
    warpgroup(atom).b_operand(&staged::<bf16>((128, 64)))
}

#[track_caller]
fn of_operands(a: &MatrixOperand, b: &MatrixOperand) {
    let mma = warpgroup(WIDE);
    multiply(&mma, &mut sums(&mma), a, b, Accumulate::No);
}

fn left() -> MatrixOperand {
    warpgroup(WIDE).a_operand(&staged::<bf16>((64, 64)), 0)
}

#[track_caller]
fn sparse(metadata: (u32, u32)) {
    let mma = warpgroup("SM90_SPARSE_64x8x32_F32F16F16_SS");
    let part = mma.thread(index());
    let (a, b) = (mma.a_operand(&staged::<f16>((64, 32)), 0), mma.b_operand(&staged::<f16>((8, 64))));
    let mut sums: Fragment<f32> = part.c_fragment((64, 8));
    let words = part.metadata_fragment(metadata);
    multiply(&mma, &mut sums, &Sparse { stored: &a, metadata: &words }, &b, Accumulate::No);
}

fn flat<T: Element>(elements: u32) -> Fragment<T> {
    Fragment::with_layout(Layout::column_major(elements).expect("a line"))
}

const FRAGMENTS: &[Row] = rows! {
    warps(BF16).thread(index()).a_fragment::<f16>((64, 32)) => warps(BF16).thread(index()).a_fragment::<bf16>((64, 32));
    warps(F16).thread(index()).b_fragment::<bf16>((32, 32)) => warps(F16).thread(index()).b_fragment::<f16>((32, 32));
    warps(BF16).thread(index()).c_fragment::<f16>((32, 32)) => warps(BF16).thread(index()).c_fragment::<f32>((32, 32));
    product::<f16>(BF16, (64, 32), (32, 32), (64, 32)) => product::<f16>(F16, (64, 32), (32, 32), (64, 32));
    product::<bf16>(BF16, (64, 32), (32, 32), (64, 64)) => product::<bf16>(BF16, (64, 32), (64, 32), (64, 64));
    product::<bf16>(BF16, (64, 32), (64, 32), (128, 64)) => product::<bf16>(BF16, (128, 32), (64, 32), (128, 64));
    { let (mma, one) = (warps(BF16), TiledMma::atom("SM80_16x8x8_F32BF16BF16F32_TN")); let part = one.thread(index());
      gemm(&mma, &mut mma.thread(index()).c_fragment::<f32>((32, 32)), &part.a_fragment::<bf16>((16, 8)).slice((All, All, 0)),
           &part.b_fragment::<bf16>((8, 8)).slice((All, All, 0))) }
        => product::<bf16>(BF16, (32, 16), (32, 16), (32, 32));
    { let mma = warps(BF16); let part = mma.thread(index());
      gemm(&mma, &mut part.c_fragment::<f32>((32, 32)), &part.a_fragment::<bf16>((32, 32)), &part.b_fragment::<bf16>((32, 32))) }
        => product::<bf16>(BF16, (32, 32), (32, 32), (32, 32));
    { let mma = warpgroup(WIDE); gemm(&mma, &mut sums(&mma), &flat::<bf16>(8),
      &flat::<bf16>(4)) } => of_operands(&left(), &right(WIDE));
    flat::<f32>(8).window(4, Layout::column_major(8))
        => flat::<f32>(8).window(4, Layout::column_major(4));
};

const WARPGROUPS: &[Row] = rows! {
    of_tiles((64, 64), (128, 32), (64, 128)) => of_tiles((64, 64), (128, 64), (64, 128));
    of_tiles((64, 64), (128, 64), (64, 256)) => of_tiles((64, 64), (256, 64), (64, 256));
    of_tiles((128, 64), (128, 64), (64, 128)) => of_tiles((128, 64), (128, 64), (128, 128));
    warpgroup("SM90_64x256x16_F32BF16BF16_SS").b_operand(&staged::<bf16>((128, 64))) => right(WIDE);
    warpgroup(WIDE).a_operand(&staged::<f16>((64, 64)), 0) => left();
    of_operands(&left(), &right("SM90_64x64x16_F32BF16BF16_SS")) => of_operands(&left(), &right(WIDE));
    of_operands(&right(WIDE), &right(WIDE)) => of_operands(&left(), &right(WIDE));
    { let mma = warpgroup(WIDE); let tile = TmaTile::new::<bf16>((128, 64), Major::K).expect("whole blocks");
      let tile = Tensor::new(dynamic_shared_aligned::<bf16>(4 * 128 * 64, 1024), tile.layout(4).expect("whole blocks"));
      of_operands(&left(), &mma.b_operand(&tile)) }
        => { let mma = warpgroup(WIDE); let tile = TmaTile::new::<bf16>((128, 64), Major::K).expect("whole blocks");
      let tile = Tensor::new(dynamic_shared_aligned::<bf16>(4 * 128 * 64, 1024), tile.layout(4).expect("whole blocks"));
      of_operands(&left(), &mma.b_operand(&tile).slice((All, All, 3))) };
    sparse((64, 64)) => sparse((64, 32));
};

/// bf16 into f32, 128 by 64.
fn tensor_core() -> TensorCoreMma {
    let types = TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };
    TensorCoreMma::new(CtaGroup::One, types, 128, 64)
}

const COPIES: &[Row] = rows! {
    copied::<bf16>((64, 64), (32, 64)) => copied::<bf16>((64, 64), (64, 64));
    copied::<bf16>((32, 64), (64, 64)) => copied::<bf16>((32, 64), (32, 64));
    copied::<f32>((64, 64), (64, 64)) => copied::<f16>((64, 64), (64, 64));
    copied_by_elements((64, 64), (64, 32)) => copied_by_elements((64, 32), (64, 32));
    { let copy = copy(); copy.copy_async(&tile::<bf16>((64, 64)), &rows_of((64, 64)), |_| None) } => copied::<bf16>((64, 64), (64, 64));
    loaded((128, 32), (64, 32)) => loaded((64, 32), (64, 32));
    loaded((64, 32), (64, 64)) => loaded((64, 64), (64, 64));
    stored((64, 64), (64, 128)) => stored((64, 64), (64, 64));
    copied::<bf16>((16, 32), (16, 32)) => copied::<bf16>((32, 32), (32, 32));
    copied::<bf16>((48, 32), (48, 32)) => copied::<bf16>((64, 32), (64, 32));
    copy().coordinates((32, 40)) => copy().coordinates((32, 64));
    stored((64, 64), (32, 64)) => stored((64, 64), (64, 64));
};

const PARTITIONS: &[Row] = rows! {
    part().c(&rows_of::<f32>((16, 8))) => part().c(&rows_of::<f32>((32, 32)));
    part().c(&rows_of::<f32>((48, 32))) => part().c(&rows_of::<f32>((64, 32)));
    part().c(&rows_of::<f32>((32, 16))) => part().c(&rows_of::<f32>((32, 64)));
    part().a(&rows_of::<bf16>((32, 8))) => part().a(&rows_of::<bf16>((32, 16)));
    part().b(&rows_of::<bf16>((16, 16))) => part().b(&rows_of::<bf16>((32, 16)));
    part().c_coordinates((32, 16)) => part().c_coordinates((32, 32));
    part().c_fragment::<f32>((32, 16)) => part().c_fragment::<f32>((32, 32));
    warpgroup(WIDE).thread(index()).c(&rows_of::<f32>((64, 64))) => warpgroup(WIDE).thread(index()).c(&rows_of::<f32>((64, 128)));
    TiledMma::warpgroups(WIDE, 2).a_operand(&staged::<bf16>((192, 64)), 0) => TiledMma::warpgroups(WIDE, 2).a_operand(&staged::<bf16>((128, 64)), 0);
};

/// A thread's part in a product by four warps.
#[track_caller]
fn part() -> ThreadMma {
    warps(BF16).thread(index())
}

/// A load of a tile at (m, 0) or (0, n) by a cluster of 2 x 2; `of_a` is the operand that the multicast is
/// for.
#[device]
fn shared_load(along_m: bool, of_a: bool, at: impl Fn(ClusterGrid) -> Reg<u32>) {
    let [producer, consumer] = roles([warpgroups(1), warpgroups(1)]);
    let cluster = ClusterGrid::new((2, 2));
    let mut stages = Pipeline::stages(2);
    let operand = stages.operand::<bf16>(TmaTile::new::<bf16>((64, 64), Major::K).map(|tile| tile.sliced(2)));
    let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
    let map = <&TensorMap as KernelParameter>::declare("map");
    let (own, zero) = (at(cluster) * 64, constant(0));
    let at = if along_m { (own, zero) } else { (zero, own) };
    let multicast = if of_a { cluster.multicast_a() } else { cluster.multicast_b() };
    if producer.leads() {
        pipeline.producer().load([operand.load(map, at, multicast)]);
    }
}

/// The tile of a CTA along m by its index in the grid, of clusters of 2 x 2 in rows of `tiles`.
fn row_of_grid(_: ClusterGrid) -> Reg<u32> {
    let tiles = <u32 as KernelParameter>::declare("tiles");
    let (cluster, rank) = (block_idx().x / 4, block_idx().x % 4);
    cluster / tiles * 2 + rank % 2
}

const MULTICASTS: &[Row] = rows! {
    shared_load(true, false, |cluster| cluster.m()) => shared_load(true, true, |cluster| cluster.m());
    shared_load(true, true, |cluster| cluster.n()) => shared_load(true, false, |cluster| cluster.n());
    shared_load(true, false, |cluster| block_idx().x / 4 * 2 + cluster.m()) => shared_load(true, true, |cluster| block_idx().x / 4 * 2 + cluster.m());
    shared_load(false, true, |cluster| cluster.n()) => shared_load(false, false, |cluster| cluster.n());
    shared_load(true, false, row_of_grid) => shared_load(true, true, row_of_grid);
};

const COORDINATES: &[Row] = rows! {
    view((8, 8)).set((0, 9), 1.0) => view((8, 8)).set((0, 7), 1.0);
    view((8, 8)).get((8, 0)) => view((8, 8)).get((7, 0));
    view((8, 8)).get((-1, 0)) => view((8, 8)).get((index(), 0));
    view((8, 8)).get(64) => view((8, 8)).get(63);
    view((8, 8)).get((1, 1, 1)) => view((8, 8)).get((1, 1));
    view((8, 8)).get_if((0, 8), constant(true)) => view((8, 8)).get_if((0, 0), constant(true));
    view((8, 8)).slice((All, 8)) => view((8, 8)).slice((All, 1));
    view((8, 8)).local_tile((4, 4), (2, 0)) => view((8, 8)).local_tile((4, 4), (1, 0));
    { let columns = Tensor::with_layout(shared_array::<f32>(64), Layout::column_major((8, 8))); columns.get_vector::<4>((2, 0)) }
        => { let columns = Tensor::with_layout(shared_array::<f32>(64), Layout::column_major((8, 8))); columns.get_vector::<4>((4, 0)) };
    view((8, 8)).get_vector::<4>((0, 0)) => view((8, 8)).get((0, 0));
    { let columns = Tensor::with_layout(shared_array::<f32>(64), Layout::column_major((8, 8))); columns.set_vector((6, 0), [constant(0.0); 4]) }
        => { let columns = Tensor::with_layout(shared_array::<f32>(64), Layout::column_major((8, 8))); columns.set_vector((4, 0), [constant(0.0); 4]) };
    warps(BF16).thread(index()).c_fragment::<f32>((32, 32)).get(8) => warps(BF16).thread(index()).c_fragment::<f32>((32, 32)).get(7);
    warps(BF16).thread(index()).c_fragment::<f32>((32, 32)).set((4, 0, 0), 1.0) => warps(BF16).thread(index()).c_fragment::<f32>((32, 32)).set((3, 0, 0), 1.0);
    warps(BF16).thread(index()).a_fragment::<bf16>((32, 16)).slice((All, All, 1)) => warps(BF16).thread(index()).a_fragment::<bf16>((32, 16)).slice((All, All, 0));
    warps(BF16).thread(index()).a_fragment::<bf16>((32, 16)).set_word(8, 0) => warps(BF16).thread(index()).a_fragment::<bf16>((32, 16)).set_word(6, 0);
    warps(BF16).thread(index()).c_coordinates((32, 32)).row(8) => warps(BF16).thread(index()).c_coordinates((32, 32)).row(7);
};

fn array() -> Shared<f32> {
    shared_array(64)
}

const ARRAYS: &[Row] = rows! {
    array().at(64).load() => array().at(63).load();
    array().at(-1).load() => array().at(0).load();
    array().at(1).load_vector::<4>() => array().at(4).load_vector::<4>();
    array().at(62).store_vector([constant(0.0); 4]) => array().at(60).store_vector([constant(0.0); 4]);
    dynamic_shared::<u16>(8).at(8).store(1u16) => dynamic_shared::<u16>(8).at(7).store(1u16);
    local_array::<u32>(4).at(4).store(1u32) => local_array::<u32>(4).at(3).store(1u32);
    Tensor::with_layout(array(), Layout::row_major((8, 16))) => Tensor::with_layout(array(), Layout::row_major((8, 8)));
    async_copy::copy_async(array().at(2), global(), 4) => async_copy::copy_async(array().at(4), global(), 4);
    global::<f32>().at(1).load_vector::<4>() => global::<f32>().at(-4).load_vector::<4>();
    global::<bf16>().at(4).cast::<u64>().store_vector([constant(0u64); 2]) => global::<bf16>().at(8).cast::<u64>().store_vector([constant(0u64); 2]);
    async_copy::copy_async(array(), global().at(2), 4) => async_copy::copy_async(array(), global().at(2), 2);
    bulk::load(global::<f32>().at(1), 8, array(), Mbarrier::new()) => bulk::load(global::<f32>().at(4), 8, array(), Mbarrier::new());
};

/// An operand of 4 stages, and the consumer's end of its pipeline.
fn ring() -> (StagedOperand<bf16>, Consumer) {
    let [_, consumer] = roles([warpgroups(1), warpgroups(1)]);
    let (operand, pipeline) = ring_of(4, consumer);
    (operand, pipeline.consumer())
}

fn ring_of(stages: u32, consumer: Role) -> (StagedOperand<bf16>, Pipeline) {
    let mut stages = Pipeline::stages(stages);
    let operand = stages.operand::<bf16>(TmaTile::new::<bf16>((64, 64), Major::K));
    let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, ClusterGrid::new((1, 1)));
    (operand, pipeline)
}

/// Tiles of a ring of the kernel's own.
fn stages(count: u32) -> Tensor<bf16, SharedSpace> {
    let tile = TmaTile::new::<bf16>((64, 64), Major::K).expect("whole blocks");
    Tensor::new(
        dynamic_shared_aligned::<bf16>(count * 64 * 64, 1024),
        tile.layout(count).expect("whole blocks"),
    )
}

#[track_caller]
fn own_ring(barriers: u32, tiles: u32) {
    let (full, stage) = (Mbarriers::new(barriers), index() % barriers);
    full.at(stage).wait_parity(0);
    stages(tiles).slice((All, All, stage));
}

/// A ring whose producer and consumer count stages by remainders.
#[track_caller]
fn ring_indices(barriers: u32, producer: u32, consumer: u32) {
    let full = Mbarriers::new(barriers);
    full.at(index() % producer).arrive();
    full.at(index() % consumer).wait_parity(0);
}

#[track_caller]
fn waits_for_groups(commits: bool) {
    async_copy::copy_async(array(), global(), 4);
    if commits {
        async_copy::commit_async_copies();
    }
    async_copy::wait_async_copies(0);
}

/// The pipelines of two operands of 4 stages; the stage is of one, the operand of the same or of the
/// other.
#[track_caller]
fn two_rings(same: bool) {
    let [_, consumer] = roles([warpgroups(1), warpgroups(1)]);
    let ((a, first), (b, _)) = (ring_of(4, consumer), ring_of(4, consumer));
    let stage = first.consumer().wait();
    let operand = if same { a } else { b };
    operand.tensor().slice((All, All, stage));
}

const STAGES: &[Row] = rows! {
    { let (_, mut consumer) = ring(); stages(3).slice((All, All, consumer.wait())) } => { let (_, mut consumer) = ring(); stages(4).slice((All, All, consumer.wait())) };
    { let (operand, _) = ring(); operand.tensor().slice((All, All, 4)) } => { let (operand, _) = ring(); operand.tensor().slice((All, All, 3)) };
    { let (operand, mut consumer) = ring(); warpgroup(WIDE).a_operand(operand.tensor(), 0).slice((All, All, 4)); consumer.wait() }
        => { let (operand, mut consumer) = ring(); warpgroup(WIDE).a_operand(operand.tensor(), 0).slice((All, All, consumer.wait())) };
    two_rings(false) => two_rings(true);
    own_ring(4, 3) => own_ring(4, 4);
    ring_indices(2, 4, 4) => ring_indices(4, 4, 4);
    ring_indices(4, 4, 3) => ring_indices(4, 4, 4);
    waits_for_groups(false) => waits_for_groups(true);
    own_ring(3, 4) => own_ring(3, 3);
};

const ONE: CtaGroup = CtaGroup::One;

/// `columns` columns of tensor memory.
#[track_caller]
fn tensor_memory(columns: u32) -> TensorMemory {
    let holder = shared_array::<u32>(1);
    allocate_tensor_memory(ONE, columns, holder);
    TensorMemory::at(holder)
}

/// A product of tiles in tensor memory.
#[track_caller]
fn of_tensor_core<A: Element>(a: (u32, u32), b: (u32, u32), columns: u32) {
    let mma = tensor_core();
    let (a, b) = (mma.a_operand(&staged::<A>(a)), mma.b_operand(&staged::<bf16>(b)));
    mma.issue(tensor_memory(columns), &a, &b, Accumulate::No);
}

const TENSOR_CORES: &[Row] = rows! {
    of_tensor_core::<f16>((128, 64), (64, 64), 64) => of_tensor_core::<bf16>((128, 64), (64, 64), 64);
    of_tensor_core::<bf16>((128, 64), (64, 32), 64) => of_tensor_core::<bf16>((128, 64), (64, 64), 64);
    of_tensor_core::<bf16>((256, 64), (64, 64), 64) => of_tensor_core::<bf16>((128, 64), (64, 64), 64);
    of_tensor_core::<bf16>((128, 64), (128, 64), 64) => of_tensor_core::<bf16>((128, 64), (64, 64), 64);
    of_tensor_core::<bf16>((64, 64), (64, 64), 64) => of_tensor_core::<bf16>((128, 64), (64, 64), 64);
    of_tensor_core::<bf16>((128, 64), (64, 64), 32) => of_tensor_core::<bf16>((128, 64), (64, 64), 64);
    tensor_memory(64).load::<128>() => tensor_memory(128).load::<128>();
    tensor_memory(64).column(32).store([constant(0); 64]) => tensor_memory(64).column(32).store([constant(0); 32]);
    tensor_memory(64).column(64) => tensor_memory(64).column(32);
    tensor_memory(64).free(ONE, 32) => tensor_memory(64).free(ONE, 64);
    tensor_memory(64).free(CtaGroup::Two, 64) => tensor_memory(64).free(ONE, 64);
};

const LAUNCHES: &[Row] = rows! {
    { launch::threads(256); roles([warpgroups(1), warpgroups(2)]) } => { launch::threads(384); roles([warpgroups(1), warpgroups(2)]) };
    { roles([warpgroups(1), warpgroups(2)]); launch::threads(256) } => roles([warpgroups(1), warpgroups(2)]);
    { launch::cluster(2, 1, 1); ClusterGrid::new((2, 2)) } => { launch::cluster(4, 1, 1); ClusterGrid::new((2, 2)) };
    { launch::maximum_threads(128); launch::threads(256) } => { launch::maximum_threads(256); launch::threads(256) };
    { launch::threads(64); warps(BF16).thread(index()) } => { launch::threads(128); warps(BF16).thread(index()) };
    { launch::threads(256); warps(BF16).thread(index()) } => { launch::threads(256); warps(BF16).thread(index() % 128) };
    part_in_branch(64) => part_in_branch(128);
    { let part = copy(); launch::threads(256); part } => { let part = copy(); launch::threads(128); part };
    { let part = copy(); launch::threads(64); part } => { let part = copy(); launch::threads(128); part };
    { let [_, consumer] = roles([warpgroups(1), warpgroups(2)]); warpgroup(WIDE).thread(consumer.thread()) }
        => { let [_, consumer] = roles([warpgroups(1), warpgroups(2)]); TiledMma::warpgroups(WIDE, 2).thread(consumer.thread()) };
    { launch::threads(128); NamedBarrier::new(1, 256) } => { launch::threads(256); NamedBarrier::new(1, 256) };
    { launch::threads(128); barrier_sync(2, 256) } => { launch::threads(128); barrier_sync(2, 128) };
    { launch::cluster(2, 1, 1); bulk::Load::new(global::<f32>(), 4).multicast(0b101) } => { launch::cluster(2, 1, 1); bulk::Load::new(global::<f32>(), 4).multicast(0b11) };
    { launch::cluster(2, 1, 1); array().map_to_block(2) } => { launch::cluster(2, 1, 1); array().map_to_block(1) };
};

/// The threads where the condition holds do something together.
#[device]
fn together(condition: impl Fn() -> Reg<bool>, together: impl Fn()) {
    launch::threads(96);
    for _ in 0..<u32 as KernelParameter>::declare("rounds") {
        if condition() {
            together();
        }
    }
}

const COLLECTIVES: &[Row] = rows! {
    together(|| index().lt(16), || { warp::reduce_sum(index()); }) => together(|| index().lt(32), || { warp::reduce_sum(index()); });
    together(|| (index() % 32).lt(8), || { index().shuffle(0); }) => together(|| (index() / 32).eq(1), || { index().shuffle(0); });
    together(|| index().eq(0), || { warp::ballot(index().eq(0), warp::ALL_LANES); }) => together(|| index().ge(0), || { warp::ballot(index().eq(0), warp::ALL_LANES); });
    together(|| index().lt(48), || warp::sync_warp(warp::ALL_LANES)) => together(|| index().lt(64), || warp::sync_warp(warp::ALL_LANES));
    together(|| index().lt(20), || warp::sync_warp(0xffff)) => together(|| index().lt(16), || warp::sync_warp(0xffff));
    together(|| index().lt(32), || block::sync_threads()) => together(|| index().lt(96), || block::sync_threads());
    together(|| index().lt(8), || { warp::Lanes::first(16).reduce_sum(index()); }) => together(|| index().lt(16), || { warp::Lanes::first(16).reduce_sum(index()); });
    together(|| index().lt(32), || { block::reduce_sum(index()); }) => together(|| index().lt(96), || { block::reduce_sum(index()); });
    together(|| index().lt(32), || cluster_sync()) => together(|| index().lt(96), || cluster_sync());
    together(|| index().lt(32), || { block::sync_threads_count(index().eq(0)); }) => together(|| index().lt(32), || barrier_sync(1, 32));
};

#[test]
fn collectives_are_reached_by_their_group() {
    insta::assert_snapshot!(said("agreement.rs", COLLECTIVES));
}

/// The threads from one on take part in an MMA of 128.
#[device]
fn part_in_branch(first: u32) {
    launch::threads(256);
    let thread = thread_idx().x;
    if thread >= first {
        warps(BF16).thread(thread - first);
    }
}

/// An mbarrier of `expected` arrivals, at which the threads arrive where the condition holds.
#[device]
fn arrived(expected: u32, condition: impl Fn() -> Reg<bool>) {
    launch::threads(384);
    let full = Mbarrier::new();
    if thread_idx().x == 0 {
        full.init(expected);
    }
    if condition() {
        full.arrive();
    }
    full.wait_parity(0);
}

/// The second role of two.
fn consumer() -> Role {
    let [_, consumer] = roles([warpgroups(1), warpgroups(2)]);
    consumer
}

/// The first thread of each warpgroup.
fn consumer_warpgroup_leads() -> Reg<bool> {
    (index() % 128).eq(0)
}

/// The first threads of the second and the third warpgroup.
fn leads_second_or_third() -> Reg<bool> {
    (index() % 128).eq(0) & index().ge(128)
}

/// Every thread arrives but those that have returned, twice in a phase.
#[device]
fn arrived_after_return(expected: u32) {
    launch::threads(128);
    let full = Mbarriers::new(2).at(1);
    full.init(expected);
    if thread_idx().x / 32 == 3 {
        warpwright_lang::control::exit();
    }
    full.arrive();
    full.arrive();
}

/// A ring whose stages the threads release where the condition holds.
#[device]
fn released(expected: u32, condition: impl Fn() -> Reg<bool>) {
    launch::threads(384);
    let empty = Mbarriers::new(4);
    if index() == 0 {
        for barrier in empty.iter() {
            barrier.init(expected);
        }
    }
    let steps = <u32 as KernelParameter>::declare("steps");
    let (mut stage, mut parity) = (constant(0u32), constant(1u32));
    for _ in 0..steps {
        empty.at(stage).wait_parity(parity);
        if condition() {
            empty.at(stage).arrive();
        }
        stage += 1;
        if stage == 4 {
            stage = constant(0);
            parity ^= 1;
        }
    }
}

/// Each warp arrives at an mbarrier of its own.
#[device]
fn arrived_by_warps(expected: u32) {
    launch::threads(128);
    let full = Mbarriers::new(4);
    if index() < 4 {
        full.at(index()).init(expected);
    }
    full.at(index() / 32).arrive();
}

/// A stage that is announced once for each of its two loads.
#[device]
fn announced_twice(expected: u32) {
    launch::threads(32);
    let full = Mbarriers::new(4);
    let steps = <u32 as KernelParameter>::declare("steps");
    if index() == 0 {
        full.iter().for_each(|barrier| barrier.init(expected));
        for step in 0..steps {
            for column in 0..2 {
                full.at(step % 4).arrive_and_expect(16);
                bulk::load(global::<f32>(), 4, array().at(column * 4), full.at(step % 4));
            }
        }
    }
}

/// The threads of both CTAs of a pair arrive at the first one's mbarrier.
#[device]
fn arrived_at_first(expected: u32) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let empty = Mbarrier::new();
    empty.init(expected);
    empty.at_rank(0).arrive();
}

/// Stages that two CTAs fill together; a consumer releases each in its own CTA, or in both.
#[device]
fn released_to_own(expected: u32, to_both: bool) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let empty = Mbarriers::new(2);
    if index() == 0 {
        empty.iter().for_each(|barrier| barrier.init(expected));
    }
    for step in 0..<u32 as KernelParameter>::declare("steps") {
        if to_both {
            if index() < 2 {
                empty.at(step % 2).at_rank(index()).arrive();
            }
        } else if index() == 0 {
            empty.at(step % 2).arrive();
        }
    }
}

/// A thread arrives in a CTA of a pair by a rank that a register holds.
#[device]
fn arrived_at(rank: u32) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let full = Mbarrier::new();
    full.init(64);
    full.at_rank(constant(rank)).arrive();
}

const ARRIVALS: &[Row] = rows! {
    released(2, consumer_warpgroup_leads) => released(2, leads_second_or_third);
    released(1, leads_second_or_third) => released(2, leads_second_or_third);
    released(256, leads_second_or_third) => released(256, || index().ge(128));
    released(2, || index().ge(128)) => released(256, || index().ge(128));
    arrived_by_warps(1) => arrived_by_warps(32);
    arrived_by_warps(128) => arrived_by_warps(32);
    announced_twice(1) => announced_twice(2);
    arrived_at_first(32) => arrived_at_first(64);
    released_to_own(2, false) => released_to_own(2, true);
    arrived_at(2) => arrived_at(1);
    arrived(1, || index().lt(128)) => arrived(128, || index().lt(128));
    arrived(384, || index().eq(0)) => arrived(384, || index().ge(0));
    arrived(2, || consumer().is_mine()) => arrived(256, || consumer().is_mine());
    arrived(256, || consumer().leads()) => arrived(1, || consumer().leads());
    arrived(1, || warp::elect(warp::ALL_LANES)) => arrived(12, || warp::elect(warp::ALL_LANES));
    arrived_after_return(256) => arrived_after_return(192);
};

/// Copies 16 elements onto an mbarrier that expects `bytes`.
#[track_caller]
fn loaded_in_bulk(bytes: u32) {
    let full = Mbarriers::new(2).at(1);
    full.arrive_and_expect(bytes);
    bulk::load(global::<f32>(), 8, array(), full);
    bulk::load(global::<f32>(), 8, array(), full);
}

/// Loads 64 elements into an array of as many as given.
fn load_into(elements: u32) {
    bulk::load(global::<f32>(), 64, shared_array(elements), Mbarrier::new());
}

/// Loads two boxes onto an mbarrier that expects `bytes`.
#[track_caller]
fn loaded_by_map(bytes: u32) {
    let map = <&TensorMap as KernelParameter>::declare("map");
    map.boxes(TmaTile::new::<bf16>((64, 64), Major::K));
    let (memory, full) = (dynamic_shared_aligned::<bf16>(2 * 64 * 64, 1024), Mbarrier::new());
    full.arrive_and_expect(bytes);
    tma::load(map, [0, 0], memory, full);
    tma::load(map, [64, 0], memory.at(64 * 64), full);
}

/// The map of boxes of 8192 bytes, and memory for one of them in each of `count` stages.
#[track_caller]
fn boxes(count: u32) -> (TensorMap, Shared<bf16>) {
    let map = <&TensorMap as KernelParameter>::declare("map");
    map.boxes(TmaTile::new::<bf16>((64, 64), Major::K));
    (map, dynamic_shared_aligned::<bf16>(count * 64 * 64, 1024))
}

/// A number that only the launch gives.
fn number() -> Reg<u32> {
    <u32 as KernelParameter>::declare("number")
}

/// Loads a box onto an mbarrier of a ring, which expects `bytes`; `load_at` gives its index anew.
#[device]
fn loaded_into_ring(bytes: u32, load_at: impl Fn(Reg<u32>) -> Reg<u32>) {
    let ((map, memory), full) = (boxes(4), Mbarriers::new(4));
    for step in 0..number() {
        let stage = step % 4;
        full.at(stage).arrive_and_expect(bytes);
        tma::load(map, [constant(0), step * 64], memory.at(stage * 4096), full.at(load_at(stage)));
    }
}

/// Loads two boxes onto an mbarrier of a ring that the variable `stage` counts; each is expected by itself
/// where `each` is true.
#[device]
fn loaded_at_counted_stage(bytes: u32) {
    let ((map, memory), full) = (boxes(8), Mbarriers::new(4));
    let (mut stage, mut step) = (constant(0u32), constant(0u32));
    while step < number() {
        full.at(stage).arrive_and_expect(bytes);
        tma::load(map, [constant(0), step * 64], memory.at(stage * 8192), full.at(stage));
        tma::load(map, [constant(64), step * 64], memory.at(stage * 8192 + 4096), full.at(stage));
        stage += 1;
        if stage == 4 {
            stage = constant(0);
        }
        step += 1;
    }
}

/// One thread expects the bytes of a load that another starts: once, or in loops of equal bounds.
#[device]
fn loaded_by_another_thread(bytes: u32) {
    launch::threads(64);
    let ((map, memory), full, steps) = (boxes(4), Mbarriers::new(4), number());
    if index() == 0 {
        for step in 0..steps {
            full.at(step % 4).arrive_and_expect(bytes);
        }
    } else if index() == 32 {
        for step in 0..steps {
            tma::load(map, [constant(0), step * 64], memory.at(step % 4 * 4096), full.at(step % 4));
        }
    }
}

/// Each of the first threads loads a box, and one expects all of them.
#[device]
fn loaded_by_threads(bytes: u32) {
    launch::threads(64);
    let ((map, memory), full) = (boxes(4), Mbarrier::new());
    if index() == 0 {
        full.arrive_and_expect(bytes);
    }
    if index() < 4 {
        tma::load(map, [constant(0), index() * 64], memory.at(index() * 4096), full);
    }
}

/// The CTAs of a pair each load a box; with `mask` they load it for those CTAs.
#[device]
fn loaded_for_cluster(bytes: u32, mask: Option<u16>) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let ((map, memory), full) = (boxes(2), Mbarrier::new());
    let rank = cluster_rank();
    if index() == 0 {
        full.arrive_and_expect(bytes);
        let load = tma::Load::new(map, [constant(0), rank * 64]);
        let load = match mask {
            Some(mask) => load.multicast(mask),
            None => load,
        };
        load.start(memory.at(rank * 4096), full);
    }
}

/// The first CTA of a pair loads a box for both.
#[device]
fn loaded_by_first(expects_both: bool) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let ((map, memory), full) = (boxes(1), Mbarrier::new());
    if index() == 0 && (expects_both || cluster_rank() == 0) {
        full.arrive_and_expect(8192);
    }
    if index() == 0 && cluster_rank() == 0 {
        tma::Load::new(map, [0, 0]).multicast(0b11).start(memory, full);
    }
}

/// Both CTAs of a pair load onto the first one's mbarrier.
#[device]
fn loaded_onto_first(bytes: u32) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let ((map, memory), full) = (boxes(1), Mbarrier::new());
    if index() == 0 {
        if cluster_rank() == 0 {
            full.arrive_and_expect(bytes);
        }
        tma::Load::new(map, [0, 0]).group(CtaGroup::Two).start(memory, full.at_rank(0));
    }
}

/// A load for which nothing is expected.
#[track_caller]
fn loaded_unexpected(expects: bool) {
    let ((map, memory), full) = (boxes(1), Mbarriers::new(2));
    full.iter().for_each(|barrier| barrier.init(1));
    match expects {
        true => full.at(number()).arrive_and_expect(8192),
        false => full.at(number()).arrive(),
    };
    tma::load(map, [0, 0], memory, full.at(number()));
}

/// Each CTA of a pair stores elements into the other's memory, asynchronously.
#[track_caller]
fn stored_async(bytes: u32) {
    launch::cluster(2, 1, 1);
    let (memory, full) = (shared_array::<f32>(4), Mbarrier::new());
    full.arrive_and_expect(bytes);
    let other = cluster_rank() ^ 1;
    memory.map_to_block(other).store_vector_async([constant(0.0f32); 4], full.at_rank(other));
}

const BYTES: &[Row] = rows! {
    loaded_in_bulk(32) => loaded_in_bulk(64);
    loaded_by_map(64 * 64 * 2) => loaded_by_map(2 * 64 * 64 * 2);
    loaded_into_ring(4096, |stage| stage) => loaded_into_ring(8192, |stage| stage);
    loaded_into_ring(16384, |stage| stage + 0) => loaded_into_ring(8192, |stage| stage + 0);
    loaded_at_counted_stage(8192) => loaded_at_counted_stage(16384);
    loaded_by_another_thread(4096) => loaded_by_another_thread(8192);
    loaded_by_threads(8192) => loaded_by_threads(4 * 8192);
    loaded_for_cluster(8192, Some(0b11)) => loaded_for_cluster(2 * 8192, Some(0b11));
    loaded_for_cluster(2 * 8192, None) => loaded_for_cluster(8192, None);
    loaded_by_first(false) => loaded_by_first(true);
    loaded_onto_first(8192) => loaded_onto_first(2 * 8192);
    loaded_unexpected(false) => loaded_unexpected(true);
    stored_async(4) => stored_async(16);
    load_into(32) => load_into(64);
};

/// A tile of bf16 at `memory` under a swizzle of 16, 32, 64 or 128 bytes.
fn swizzled(memory: Shared<bf16>, bits: u32) -> Tensor<bf16, SharedSpace> {
    Tensor::swizzled(memory, Layout::row_major((64, 64)), Swizzle::new(bits, 3, 3))
}

fn memory() -> Shared<bf16> {
    dynamic_shared_aligned(64 * 64, 1024)
}

/// Writes a tile under one swizzle and reads it under another.
#[track_caller]
fn read_under(written: u32, read: u32) {
    let memory = memory();
    swizzled(memory, written).set((index(), 0), bf16::ZERO);
    swizzled(memory, read).get((0, index()));
}

/// Writes and reads a tile, and uses its memory again under other swizzles.
#[track_caller]
fn used_again_under(written: u32, read: u32) {
    let memory = memory();
    for (written, read) in [(3, 3), (written, read)] {
        swizzled(memory, written).set((index(), 0), bf16::ZERO);
        swizzled(memory, read).get((0, index()));
    }
}

/// Loads a box of 128-byte rows and reads it under a swizzle.
#[track_caller]
fn read_box_under(bits: u32) {
    let (map, memory) = (<&TensorMap as KernelParameter>::declare("map"), memory());
    map.boxes(TmaTile::new::<bf16>((64, 64), Major::K));
    tma::load(map, [0, 0], memory, Mbarrier::new());
    swizzled(memory, bits).get((0, index()));
}

/// Multiplies a tile that is copied under a swizzle by elements of 16 bytes.
#[track_caller]
fn multiplied_under(bits: u32) {
    let (memory, copy) = (memory(), copy());
    let (to, from) = (swizzled(memory, bits), rows_of::<bf16>((64, 64)));
    copy.copy_async(&copy.target(&to), &copy.source(&from), |_| None);
    warpgroup(WIDE).a_operand(&swizzled(memory, 3), 0);
}

const SWIZZLES: &[Row] = rows! {
    read_under(3, 2) => read_under(3, 3);
    read_under(0, 3) => read_under(0, 0);
    read_box_under(0) => read_box_under(3);
    multiplied_under(2) => multiplied_under(3);
    used_again_under(2, 1) => used_again_under(2, 2);
    read_box_at(64) => read_box_at(512);
    multiplied_at(64) => multiplied_at(512);
    { let copy = copy(); let to = swizzled(shared_array(64 * 64), 3); copy.copy_async(&copy.target(&to), &copy.source(&rows_of::<bf16>((64, 64))), |_| None); warpgroup(WIDE).a_operand(&to, 0) }
        => multiplied_at(0);
};

/// Loads a box to the element at `start`, and reads it as a tile that begins there.
#[track_caller]
fn read_box_at(start: u32) {
    let map = <&TensorMap as KernelParameter>::declare("map");
    map.boxes(TmaTile::new::<bf16>((64, 64), Major::K));
    let memory = dynamic_shared_aligned::<bf16>(2 * 64 * 64, 1024).at(start);
    tma::load(map, [0, 0], memory, Mbarrier::new());
    swizzled(memory, 3).get((0, index()));
}

/// Writes a tile that begins at the element `start`, and multiplies it.
#[track_caller]
fn multiplied_at(start: u32) {
    let tile = swizzled(dynamic_shared_aligned::<bf16>(2 * 64 * 64, 1024).at(start), 3);
    tile.set((index(), 0), bf16::ZERO);
    warpgroup(WIDE).a_operand(&tile, 0);
}

/// Sets every element of the smaller of a fragment of C and a thread's part of C to the one of that
/// index.
#[track_caller]
fn transferred(from: (u32, u32), to: (u32, u32)) {
    let part = warps(BF16).thread(index());
    let (sums, target): (Fragment<f32>, _) = (part.c_fragment(from), part.c(&rows_of::<f32>(to)));
    for index in
        0..sums.len().min(target.layout().size().expect("it is known").known().expect("it is known") as u32)
    {
        target.set(index, sums.get(index) * 2.0);
    }
}

/// Sets all of a tile from a larger one, whose part is sliced.
fn transferred_by_slices() {
    let part = warps(BF16).thread(index());
    let (sums, target): (Fragment<f32>, _) = (part.c_fragment((64, 32)), part.c(&rows_of::<f32>((32, 32))));
    let half = sums.slice((All, 1, All));
    for index in 0..half.len() {
        target.set(index, half.get(index));
    }
}

const INDICES: &[Row] = rows! {
    transferred((32, 32), (64, 32)) => transferred((64, 32), (64, 32));
    transferred((64, 32), (32, 32)) => transferred_by_slices();
};

fn wmma<T: WmmaInput>(shape: [u32; 3], a: WmmaLayout) -> Wmma<T> {
    Wmma::new(shape, a, WmmaLayout::RowMajor)
}

/// A product whose A was loaded by another MMA.
#[track_caller]
fn opaque<A: WmmaInput<Register = u32>>(loads: Wmma<A>) {
    let mma = wmma::<f16>([16, 16, 16], WmmaLayout::RowMajor);
    let (a, b) = (loads.load_a(global(), 16), mma.load_b(global(), 16));
    mma.multiply::<f32, f32>(&a, &b, &mma.zeros());
}

#[track_caller]
fn of_registers<A: Element>() {
    let atom = MmaAtom::named(F16).expect("an atom");
    let (a, b) = ([index().bit_cast::<A>(); 4], [index(); 2]);
    mma_sync(&mut [constant(0.0f32); 4], &a, &b, &atom);
}

const REGISTERS: &[Row] = rows! {
    opaque(wmma::<bf16>([16, 16, 16], WmmaLayout::RowMajor)) => opaque(wmma::<f16>([16, 16, 16], WmmaLayout::RowMajor));
    opaque(wmma::<f16>([16, 16, 16], WmmaLayout::ColumnMajor)) => opaque(wmma::<f16>([16, 16, 16], WmmaLayout::RowMajor));
    opaque(wmma::<f16>([32, 8, 16], WmmaLayout::RowMajor)) => opaque(wmma::<f16>([16, 16, 16], WmmaLayout::RowMajor));
    of_registers::<bf16x2>() => of_registers::<f16x2>();
    of_registers::<f32>() => of_registers::<u32>();
};

/// Uses the first coordinates of a tile of C for the elements of another.
#[track_caller]
fn coordinates_of(fragment: (u32, u32), tile: (u32, u32)) {
    let part = warps(BF16).thread(index());
    let (sums, places): (Fragment<f32>, _) = (part.c_fragment(fragment), part.c_coordinates(tile));
    for index in 0..sums.len() {
        global::<f32>().at(places.row(index) * 64u32 + places.column(index)).store(sums.get(index));
    }
}

/// Copies a part that `source` makes to one that `target` makes.
#[track_caller]
fn between(source: &ThreadCopy, target: &ThreadCopy) {
    source.copy_async(&target.target(&tile::<bf16>((64, 64))), &source.source(&rows_of((64, 64))), |_| None);
}

/// [`copy`] by rows of 64 elements.
fn copy_of_rows() -> ThreadCopy {
    let threads = Layout::row_major((16, 8));
    TiledCopy::new::<bf16>("SM80_CP_ASYNC_CACHEGLOBAL<128>", threads, Layout::row_major((1, 8)))
        .thread(index())
}

/// A stage that is filled by two loads.
#[device]
fn filled(twice: bool) {
    let [_, consumer] = roles([warpgroups(1), warpgroups(1)]);
    let mut stages = Pipeline::stages(2);
    let tile = || TmaTile::new::<bf16>((64, 64), Major::K);
    let (a, b) = (stages.operand::<bf16>(tile()), stages.operand::<bf16>(tile()));
    let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, ClusterGrid::new((1, 1)));
    let map = <&TensorMap as KernelParameter>::declare("map");
    let load = |operand: &StagedOperand<bf16>| operand.load(map, (constant(0), constant(0)), None);
    if index() == 0 {
        pipeline.producer().load([load(&a), load(if twice { &a } else { &b })]);
    }
}

const PARTS: &[Row] = rows! {
    coordinates_of((32, 32), (64, 32)) => coordinates_of((64, 32), (64, 32));
    coordinates_of((64, 32), (32, 32)) => coordinates_of((32, 32), (32, 32));
    between(&copy(), &copy_of_rows()) => between(&copy_of_rows(), &copy_of_rows());
    filled(true) => filled(false);
    StoreBuffers::<bf16>::new(TmaTile::new::<bf16>((64, 64), Major::K), 2).store(<&mut TensorMap as KernelParameter>::declare("map"), (constant(0), constant(0)), 2)
        => StoreBuffers::<bf16>::new(TmaTile::new::<bf16>((64, 64), Major::K), 2).store(<&mut TensorMap as KernelParameter>::declare("map"), (constant(0), constant(0)), 1);
    [index(); 4][from_host(4)] + 1u32 => [index(); 4][from_host(3)] + 1u32;
};

/// A number that the compiler does not know.
fn from_host(number: usize) -> usize {
    std::hint::black_box(number)
}

/// A value of a kernel that was staged before.
fn foreign() -> Reg<u32> {
    let mut value = None;
    let _ = stage("before", || value = Some(index() + 1u32));
    value.expect("it is staged")
}

const OWNERS: &[Row] = rows! {
    foreign() + 1u32 => index() + 1u32;
    array().at(foreign()).load() => array().at(index()).load();
    view((8, 8)).set((foreign(), 0), 1.0) => view((8, 8)).set((index(), 0), 1.0);
};

#[test]
fn fragments_agree_with_their_mma() {
    insta::assert_snapshot!(said("agreement.rs", FRAGMENTS));
}

#[test]
fn operands_of_a_warpgroup_agree() {
    insta::assert_snapshot!(said("agreement.rs", WARPGROUPS));
}

#[test]
fn copies_agree() {
    insta::assert_snapshot!(said("agreement.rs", COPIES));
}

#[test]
fn parts_are_of_whole_tiles() {
    insta::assert_snapshot!(said("agreement.rs", PARTITIONS));
}

#[test]
fn ctas_that_share_a_load_share_its_tile() {
    insta::assert_snapshot!(said("agreement.rs", MULTICASTS));
}

#[test]
fn coordinates_are_inside_their_shape() {
    insta::assert_snapshot!(said("agreement.rs", COORDINATES));
}

#[test]
fn constant_offsets_are_inside_their_array() {
    insta::assert_snapshot!(said("agreement.rs", ARRAYS));
}

#[test]
fn stages_agree_with_their_ring() {
    insta::assert_snapshot!(said("agreement.rs", STAGES));
}

#[test]
fn operands_of_tensor_cores_agree() {
    insta::assert_snapshot!(said("agreement.rs", TENSOR_CORES));
}

#[test]
fn the_launch_agrees_with_the_kernel() {
    insta::assert_snapshot!(said("agreement.rs", LAUNCHES));
}

#[test]
fn arrivals_agree_with_their_mbarrier() {
    insta::assert_snapshot!(said("agreement.rs", ARRIVALS));
}

#[test]
fn bytes_agree_with_what_is_expected() {
    insta::assert_snapshot!(said("agreement.rs", BYTES));
}

#[test]
fn memory_is_read_through_the_swizzle_of_its_writes() {
    insta::assert_snapshot!(said("agreement.rs", SWIZZLES));
}

#[test]
fn indices_belong_to_one_tile() {
    insta::assert_snapshot!(said("agreement.rs", INDICES));
}

#[test]
fn registers_agree_with_their_mma() {
    insta::assert_snapshot!(said("agreement.rs", REGISTERS));
}

#[test]
fn parts_belong_together() {
    insta::assert_snapshot!(said("agreement.rs", PARTS));
}

#[test]
fn values_belong_to_their_kernel() {
    insta::assert_snapshot!(said("agreement.rs", OWNERS));
}

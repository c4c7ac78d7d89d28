//! Bulk and tensor copies, asynchronous stores and tensor maps made by kernels, on every device
//! that has them; on the emulator under each schedule.

use warpwright_arch::tensor_map::{ElementType, Requirement, Swizzle};
use warpwright_lang::access::Scope;
use warpwright_lang::block::sync_threads;
use warpwright_lang::bulk::{self, BulkReduction, bulk_commit, bulk_wait};
use warpwright_lang::cluster::{AsyncReduction, cluster_rank, cluster_sync};
use warpwright_lang::fence::{fence_mbarrier_init, fence_proxy_async_shared, fence_tensor_map_acquire};
use warpwright_lang::mbarrier::Mbarrier;
use warpwright_lang::pointer::{Global, Shared};
use warpwright_lang::shared::{dynamic_shared_aligned, shared_array};
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::tensor::{Tensor, TmaTile};
use warpwright_lang::tensor_map::{TensorMap, TensorMaps, UntypedTensorMap};
use warpwright_lang::tensor_map_draft::TensorMapDraft;
use warpwright_lang::value::constant;
use warpwright_lang::{device, kernel, launch, tma, warp};
use warpwright_layout::atom::Major;
use warpwright_runtime::{self as runtime, Device, MappedBuffer, Schedule};

/// The emulated H200 under each schedule with checkers, and the GPU if it has TMA.
fn devices() -> Vec<Device> {
    let gpu = Device::named("cuda:0").ok();
    let is_hopper = |device: &Device| device.properties().capability.compute_capability >= (9, 0);
    gpu.filter(is_hopper).into_iter().chain(emulated("emu:h200")).collect()
}

/// An emulated device under each schedule, with checkers.
fn emulated(name: &str) -> [Device; 3] {
    [Schedule::Eager, Schedule::Latest, Schedule::Random(7)].map(|schedule| {
        let device = Device::with_schedule(name, schedule).expect("the emulator always starts");
        device.checked().expect("an emulator checks")
    })
}

const ROWS: u32 = 16;
const COLUMNS: u32 = 32;
const TILE_BYTES: u32 = ROWS * COLUMNS * 4;

/// An mbarrier that one thread has initialized for one arrival, and that all threads see.
#[device]
fn ready_barrier() -> Mbarrier {
    let barrier = Mbarrier::new();
    if thread_idx().x == 0 {
        barrier.init(1);
        fence_mbarrier_init();
    }
    sync_threads();
    barrier
}

#[device]
fn wait_for_stores() {
    bulk_commit();
    bulk_wait(0);
}

fn tma_tile() -> Result<TmaTile, warpwright_layout::Error> {
    TmaTile::dense::<u32>((ROWS, COLUMNS), Major::K)
}

fn tile() -> Shared<u32> {
    dynamic_shared_aligned(ROWS * COLUMNS, 1024)
}

/// Adds 1 to each element of the tensor, one tile per CTA, whatever the swizzle of both maps is.
#[kernel]
fn increments(source: &UntypedTensorMap, target: &mut UntypedTensorMap) {
    launch::threads(32);
    let tile = tile();
    let full = ready_barrier();
    let at = (block_idx().x * COLUMNS, block_idx().y * ROWS);
    if thread_idx().x == 0 {
        full.arrive_and_expect(TILE_BYTES);
        tma::load(*source, at, tile, full);
    }
    full.wait_parity(0);
    for row in 0..ROWS {
        tile[row * COLUMNS + thread_idx().x] += 1;
    }
    fence_proxy_async_shared();
    sync_threads();
    if thread_idx().x == 0 {
        tma::store(*target, at, tile);
        wait_for_stores();
    }
}

fn matrix(rows: usize, columns: usize) -> Vec<u32> {
    (0..rows * columns).map(|i| (i * 7 % 1013) as u32).collect()
}

fn map(buffer: impl MappedBuffer<u32>, rows: usize, columns: usize, swizzle: Swizzle) -> runtime::TensorMap {
    runtime::TensorMap::row_major(buffer, &[rows as u64, columns as u64], &[ROWS, COLUMNS], swizzle)
        .expect("legal")
}

#[test]
fn tiles_are_loaded_and_stored_within_the_tensor() {
    // The last tiles extend out of the tensor; elements outside are neither read nor written.
    let (rows, columns) = (37, 72);
    let source = matrix(rows, columns);
    let expected: Vec<u32> = source.iter().map(|value| value + 1).collect();
    for device in devices() {
        let kernel = device.compile(&increments().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        for swizzle in [Swizzle::None, Swizzle::Bytes128] {
            let source = device.buffer_from(&source).expect("it fits");
            let mut target = device.zeros::<u32>(rows * columns).expect("it fits");
            let from = map(&source, rows, columns, swizzle);
            let mut to = map(&mut target, rows, columns, swizzle);
            kernel.launch(&stream, (3, 3), (&from, &mut to)).expect("it fits");
            stream.synchronize().expect("it ran");
            assert_eq!(target.to_vec().expect("readable"), expected, "{swizzle:?}");
        }
    }
}

/// Adds every tile of the source to the first tile of the target.
#[kernel]
fn adds_tiles(source: &TensorMap, target: &mut TensorMap) {
    launch::threads(32);
    source.boxes(tma_tile());
    target.boxes(tma_tile());
    let tile = tile();
    let full = ready_barrier();
    if thread_idx().x == 0 {
        full.arrive_and_expect(TILE_BYTES);
        tma::load(*source, (block_idx().x * COLUMNS, block_idx().y * ROWS), tile, full);
        full.wait_parity(0);
        tma::reduce(BulkReduction::Add, *target, (0, 0), tile);
        wait_for_stores();
    }
}

#[test]
fn tiles_are_reduced_into_the_tensor() {
    let (rows, columns) = (32, 64);
    let source = matrix(rows, columns);
    let at = |row: usize, column: usize| source[row * columns + column];
    let expected: Vec<u32> = (0..16 * 32)
        .map(|i| (i / 32, i % 32))
        .map(|(row, column)| {
            5 + at(row, column) + at(row + 16, column) + at(row, column + 32) + at(row + 16, column + 32)
        })
        .collect();
    for device in devices() {
        let kernel = device.compile(&adds_tiles().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let source = device.buffer_from(&source).expect("it fits");
        let mut target = device.buffer_from(&[5u32; 16 * 32]).expect("it fits");
        let from = map(&source, rows, columns, Swizzle::None);
        let mut to = map(&mut target, 16, 32, Swizzle::None);
        kernel.launch(&stream, (2, 2), (&from, &mut to)).expect("it fits");
        stream.synchronize().expect("it ran");
        assert_eq!(target.to_vec().expect("readable"), expected);
    }
}

/// Each CTA copies the first tile of one of three tensors.
#[kernel]
fn copies_of_many(maps: &TensorMaps<3>, output: &mut Global<u32>) {
    launch::threads(32);
    maps.at(block_idx().x).boxes(tma_tile());
    let tile = tile();
    let full = ready_barrier();
    if thread_idx().x == 0 {
        full.arrive_and_expect(TILE_BYTES);
        tma::load(maps.at(block_idx().x), (0, 0), tile, full);
    }
    full.wait_parity(0);
    for row in 0..ROWS {
        let at = row * COLUMNS + thread_idx().x;
        output[block_idx().x * (ROWS * COLUMNS) + at] = tile[at];
    }
}

#[test]
fn the_device_chooses_among_tensor_maps() {
    let sources =
        [1, 2, 3].map(|factor| matrix(16, 32).iter().map(|value| value * factor).collect::<Vec<u32>>());
    for device in devices() {
        let kernel = device.compile(&copies_of_many().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let buffers = sources.clone().map(|source| device.buffer_from(&source).expect("it fits"));
        let maps = buffers.each_ref().map(|buffer| map(buffer, 16, 32, Swizzle::None));
        let mut output = device.uninitialized::<u32>(3 * 16 * 32).expect("it fits");
        kernel.launch(&stream, 3, (maps.each_ref(), &mut output)).expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), sources.concat());
    }
}

/// One CTA of each pair loads a tile for both.
#[kernel]
fn shares_a_tile(source: &TensorMap, output: &mut Global<u32>) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    source.boxes(tma_tile());
    let tile = tile();
    let full = ready_barrier();
    if thread_idx().x == 0 {
        full.arrive_and_expect(TILE_BYTES);
    }
    cluster_sync();
    if cluster_rank() == 0 {
        if thread_idx().x == 0 {
            tma::Load::new(*source, (0, 0)).multicast(3).start(tile, full);
        }
    }
    full.wait_parity(0);
    for row in 0..ROWS {
        let at = row * COLUMNS + thread_idx().x;
        output[block_idx().x * (ROWS * COLUMNS) + at] = tile[at];
    }
    cluster_sync();
}

#[test]
fn a_tile_is_sent_to_several_ctas() {
    let source = matrix(16, 32);
    let expected = [source.clone(), source.clone()].concat();
    for device in devices() {
        let kernel = device.compile(&shares_a_tile().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let source = device.buffer_from(&source).expect("it fits");
        let mut output = device.uninitialized::<u32>(expected.len()).expect("it fits");
        let map = map(&source, 16, 32, Swizzle::None);
        kernel.launch(&stream, 2, (&map, &mut output)).expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), expected);
    }
}

const CHANNELS: u32 = 4;
const PIXELS: u32 = 32;

/// The pixels of a filter of 3 x 3 with one pixel of padding.
fn pixels() -> Requirement {
    Requirement::im2col(ElementType::U32, (&[-1, -1], &[-1, -1]), CHANNELS, PIXELS)
}

/// For each tap of a 3 x 3 filter, the pixels under it: the columns of a convolution's matrix,
/// padded by one pixel.
#[kernel]
fn gathers_pixels(image: &TensorMap, output: &mut Global<u32>) {
    launch::threads(32);
    image.boxes(pixels());
    let columns = dynamic_shared_aligned::<u32>(PIXELS * CHANNELS, 128);
    let full = ready_barrier();
    for tap in 0..9u32 {
        if thread_idx().x == 0 {
            full.arrive_and_expect(PIXELS * CHANNELS * 4);
            let offsets = [(tap % 3) as u16, (tap / 3) as u16];
            tma::Load::new(*image, (0, -1, -1, 0)).im2col(offsets).start(columns, full);
        }
        full.wait_parity(tap % 2);
        for channel in 0..CHANNELS {
            let at = thread_idx().x * CHANNELS + channel;
            output[tap * (PIXELS * CHANNELS) + at] = columns[at];
        }
        sync_threads();
    }
}

#[test]
fn pixels_are_gathered_for_each_tap_of_a_filter() {
    let (height, width) = (6, 8);
    let image = matrix(height * width, CHANNELS as usize);
    let pixel = |row: i64, column: i64, channel: usize| {
        let inside = (0..height as i64).contains(&row) && (0..width as i64).contains(&column);
        if inside { image[(row as usize * width + column as usize) * CHANNELS as usize + channel] } else { 0 }
    };
    let mut expected = Vec::new();
    for tap in 0..9 {
        for base in 0..i64::from(PIXELS) {
            let (row, column) = (base / width as i64 - 1 + tap / 3, base % width as i64 - 1 + tap % 3);
            expected.extend((0..CHANNELS as usize).map(|channel| pixel(row, column, channel)));
        }
    }
    let extents = [1, height as u64, width as u64, u64::from(CHANNELS)];
    for device in devices() {
        let kernel = device.compile(&gathers_pixels().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let image = device.buffer_from(&image).expect("it fits");
        let map = kernel.tensor_map("image", &image, &extents).expect("legal");
        let mut output = device.uninitialized::<u32>(expected.len()).expect("it fits");
        kernel.launch(&stream, 1, (&map, &mut output)).expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), expected);
    }
}

/// Gathers eight rows, adds 1 to their elements, and scatters them to other rows.
#[kernel]
fn permutes(source: &TensorMap, target: &mut TensorMap, from: &Global<u32>, to: &Global<u32>) {
    launch::threads(32);
    let shape = TmaTile::new::<u32>((8, 32), Major::K).expect("legal");
    for map in [*source, *target] {
        map.boxes(shape.single_rows());
    }
    let memory = dynamic_shared_aligned::<u32>(8 * 32, 1024);
    let tile = Tensor::new(memory, shape.layout(1).expect("legal"));
    let full = ready_barrier();
    if thread_idx().x == 0 {
        full.arrive_and_expect(shape.bytes());
        for first in [0u32, 4] {
            let rows = from.at(first).load_vector::<4>();
            tma::gather4(*source, 0, rows, memory.at(first * 32), full);
        }
    }
    full.wait_parity(0);
    for row in 0..8u32 {
        tile[(row, thread_idx().x, 0)] += 1;
    }
    fence_proxy_async_shared();
    sync_threads();
    if thread_idx().x == 0 {
        for first in [0u32, 4] {
            let rows = to.at(first).load_vector::<4>();
            tma::scatter4(*target, 0, rows, memory.at(first * 32));
        }
        wait_for_stores();
    }
}

#[test]
fn rows_are_gathered_and_scattered_by_their_indices() {
    let extents = [10u64, 32];
    let source = matrix(10, 32);
    let row = |index: usize| source.get(32 * index..32 * (index + 1)).unwrap_or(&[0; 32]);
    // Row 99 is outside of the matrix: it is filled when gathered, and skipped when scattered.
    let (from, to) = ([3, 9, 0, 99, 5, 5, 1, 2], [7, 0, 3, 4, 99, 1, 2, 6]);
    let mut expected = vec![0; source.len()];
    for (from, to) in from.into_iter().zip(to).filter(|(_, to)| *to < 10) {
        let values = row(from as usize).iter().map(|value| value + 1);
        expected.splice(32 * to as usize..32 * (to as usize + 1), values);
    }
    for device in emulated("emu:b200") {
        let kernel = device.compile(&permutes().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let source = device.buffer_from(&source).expect("it fits");
        let mut target = device.zeros::<u32>(expected.len()).expect("it fits");
        let [from, to] = [from, to].map(|rows| device.buffer_from::<u32>(&rows).expect("it fits"));
        let from_map = kernel.tensor_map("source", &source, &extents).expect("legal");
        let mut to_map = kernel.tensor_map("target", &mut target, &extents).expect("legal");
        kernel.launch(&stream, 1, (&from_map, &mut to_map, &from, &to)).expect("it fits");
        assert_eq!(target.to_vec().expect("readable"), expected);
    }
}

/// Each CTA of a pair loads 256 elements and sends them to the other CTA, which adds them to
/// memory.
#[kernel]
fn passes_on(input: &Global<f32>, output: &mut Global<f32>) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let (mine, theirs) = (shared_array::<f32>(256), shared_array::<f32>(256));
    let loaded = ready_barrier();
    let arrived = ready_barrier();
    if thread_idx().x == 0 {
        arrived.arrive_and_expect(1024);
    }
    cluster_sync();
    if thread_idx().x == 0 {
        let other = cluster_rank() ^ 1;
        loaded.arrive_and_expect(1024);
        bulk::load(*input + block_idx().x * 256, 256, mine, loaded);
        loaded.wait_parity(0);
        bulk::send(theirs.map_to_block(other), 256, mine, arrived.at_rank(other));
        arrived.wait_parity(0);
        bulk::Store::new(*output + block_idx().x * 256, 256).start_reducing(BulkReduction::Add, theirs);
        wait_for_stores();
    }
    cluster_sync();
}

#[test]
fn bulk_copies_go_in_every_direction() {
    let input: Vec<f32> = (0..1024).map(|i| (i * 5 % 97) as f32).collect();
    let expected: Vec<f32> = (0..1024).map(|i| 0.5 + input[i ^ 256]).collect();
    for device in devices() {
        let kernel = device.compile(&passes_on().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let input = device.buffer_from(&input).expect("it fits");
        let mut output = device.buffer_from(&[0.5f32; 1024]).expect("it fits");
        kernel.launch(&stream, 4, (&input, &mut output)).expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), expected);
    }
}

/// Each CTA of a pair stores into the other's shared memory and counts the stores there.
#[kernel]
fn stores_to_the_neighbor(output: &mut Global<u32>) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let (inbox, count) = (shared_array::<u32>(32), shared_array::<u32>(1));
    let arrived = ready_barrier();
    let (thread, rank) = (thread_idx().x, cluster_rank());
    if thread == 0 {
        count[0] = constant(0u32);
        arrived.arrive_and_expect(32 * 4 + 32 * 4);
    }
    cluster_sync();
    let other = rank ^ 1;
    let there = arrived.at_rank(other);
    inbox.map_to_block(other).at(thread).store_async(rank * 100 + thread, there);
    count.map_to_block(other).reduce_async(AsyncReduction::Add, 2, there);
    arrived.wait_parity(0);
    output[block_idx().x * 32 + thread] = inbox[thread] + count[0];
    cluster_sync();
}

#[test]
fn neighbors_store_to_each_other_asynchronously() {
    let expected: Vec<u32> = (100..132).chain(0..32).map(|value| value + 64).collect();
    for device in devices() {
        let kernel =
            device.compile(&stores_to_the_neighbor().expect("it has no mistakes")).expect("it compiles");
        let mut output = device.uninitialized::<u32>(64).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, 2, (&mut output,)).expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), expected);
    }
}

/// Copies the first tile of a matrix with a map that the kernel derives from the map of another
/// matrix with fewer rows.
#[kernel]
fn makes_a_map(
    like: &TensorMap,
    matrix: &Global<u32>,
    rows: u32,
    room: &mut Global<u8>,
    output: &mut Global<u32>,
) {
    launch::threads(32);
    let tile = tile();
    let full = ready_barrier();
    let thread = thread_idx().x;
    let draft = TensorMapDraft::shared();
    draft.copy(*like, thread);
    if thread == 0 {
        draft.set_address(*matrix);
        draft.set_extent(1, rows);
    }
    warp::sync_warp(warp::ALL_LANES);
    let map = draft.publish(*room, Scope::Device);
    if thread == 0 {
        fence_tensor_map_acquire(map, Scope::Device);
        full.arrive_and_expect(TILE_BYTES);
        tma::load(map, (0, 0), tile, full);
    }
    full.wait_parity(0);
    for row in 0..ROWS {
        output[row * COLUMNS + thread] = tile[row * COLUMNS + thread];
    }
}

#[test]
fn a_kernel_makes_a_tensor_map() {
    let (first, second) = (vec![1u32; 16 * 32], matrix(16, 32));
    let rows = 10;
    let expected: Vec<u32> = (0..16 * 32).map(|i| if i / 32 < rows { second[i] } else { 0 }).collect();
    for device in devices() {
        let kernel = device.compile(&makes_a_map().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let (first, second) =
            (device.buffer_from(&first).expect("it fits"), device.buffer_from(&second).expect("it fits"));
        let mut room = device.uninitialized::<u8>(128).expect("it fits");
        let mut output = device.uninitialized::<u32>(expected.len()).expect("it fits");
        let like = map(&first, 16, 32, Swizzle::None);
        kernel.launch(&stream, 1, (&like, &second, rows as u32, &mut room, &mut output)).expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), expected);
    }
}

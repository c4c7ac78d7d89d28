//! Tensor maps that a launch compares with what the kernel's copies need, on every device that has
//! them.

use half::{bf16, f16};
use warpwright_arch::tensor_map::{Access, Description, ElementType, Interleave, Requirement, Swizzle};
use warpwright_lang::block::sync_threads;
use warpwright_lang::bulk::{bulk_commit, bulk_wait};
use warpwright_lang::element::{e4m3, e5m2};
use warpwright_lang::fence::fence_mbarrier_init;
use warpwright_lang::mbarrier::Mbarrier;
use warpwright_lang::shared::dynamic_shared_aligned;
use warpwright_lang::special::thread_idx;
use warpwright_lang::tensor::TmaTile;
use warpwright_lang::tensor_map::{TensorMap, TensorMaps, UntypedTensorMap};
use warpwright_lang::{kernel, launch, tma};
use warpwright_layout::atom::Major;
use warpwright_runtime::{self as runtime, Buffer, Device, Error, Storable};

const ROWS: u32 = 16;
const COLUMNS: u32 = 64;

/// The emulated H200 with checkers, and the GPU if it has TMA.
fn devices() -> Vec<Device> {
    let emulator = Device::named("emu:h200").expect("in the table").checked().expect("an emulator checks");
    let gpu = Device::named("cuda:0").ok();
    let is_hopper = |device: &Device| device.properties().capability.compute_capability >= (9, 0);
    gpu.filter(is_hopper).into_iter().chain([emulator]).collect()
}

fn tile() -> Result<TmaTile, warpwright_layout::Error> {
    TmaTile::new::<bf16>((ROWS, COLUMNS), Major::K)
}

/// Copies the first tile of a matrix of 64 columns.
#[kernel]
fn copies(source: &TensorMap, target: &mut TensorMap) {
    launch::threads(32);
    source.boxes(tile());
    source.assume_extent(0, 64);
    target.boxes(tile());
    let tile = dynamic_shared_aligned::<bf16>(ROWS * COLUMNS, 1024);
    let full = Mbarrier::new();
    if thread_idx().x == 0 {
        full.init(1);
        fence_mbarrier_init();
    }
    sync_threads();
    if thread_idx().x == 0 {
        full.arrive_and_expect(ROWS * COLUMNS * 2);
        tma::load(*source, (0, 0), tile, full);
        full.wait_parity(0);
        tma::store(*target, (0, 0), tile);
        bulk_commit();
        bulk_wait(0);
    }
}

/// The map that the kernel needs, as plain data.
fn needed() -> Description {
    tile().expect("legal").requirement().row_major(0, &[64, 64])
}

/// A map with another value of each property. On a GPU, the kernel would hang with the box and the
/// element stride, and compute wrong elements with the others.
fn wrong_maps() -> Vec<(&'static str, Description)> {
    let wider = |extents: &[u64], boxes: &Requirement| boxes.row_major(0, extents);
    let im2col = Requirement::im2col(ElementType::Bf16, (&[0, 0], &[0, 0]), 64, 16);
    let interleaved = Requirement::tiled(ElementType::Bf16, &[64, 2, 1]).interleaved(Interleave::Bytes16);
    vec![
        ("element type", Description { element: ElementType::F16, ..needed() }),
        ("mode", wider(&[1, 8, 8, 64], &im2col.swizzled(Swizzle::Bytes128))),
        ("interleave", wider(&[4, 8, 64], &interleaved)),
        ("rank", wider(&[1, 64, 64], &Requirement::of(&needed()).of_rank(3))),
        ("box", Description { access: Access::Tiled { box_extents: vec![64, 8] }, ..needed() }),
        ("element stride", Description { element_strides: vec![1, 2], ..needed() }),
        ("swizzle", Description { swizzle: Swizzle::None, ..needed() }),
        ("extent of axis 0", Requirement::of(&needed()).row_major(0, &[32, 128])),
    ]
}

fn matrix(device: &Device) -> Buffer<bf16> {
    let elements: Vec<bf16> = (0..64 * 64).map(|i| bf16::from_f32((i % 251) as f32)).collect();
    device.buffer_from(&elements).expect("it fits")
}

#[test]
fn a_map_that_differs_in_any_property_is_refused() {
    for device in devices() {
        let kernel = device.compile(&copies().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let (source, mut target) = (matrix(&device), matrix(&device));
        let mut right = kernel.tensor_map("target", &mut target, &[64, 64]).expect("legal");
        let mut messages = Vec::new();
        for (property, description) in wrong_maps() {
            let map = runtime::TensorMap::new(&source, description).expect(property);
            let refused = kernel.launch(&stream, 1, (&map, &mut right)).expect_err(property);
            let Error::TensorMapMismatch(mismatch) = &refused else { panic!("{property}: {refused}") };
            assert_eq!(mismatch.difference.property, property);
            messages.push(format!("{property}\n    {}", without_lines(&refused.to_string())));
        }
        insta::assert_snapshot!(messages.join("\n"));
        // Nothing has run.
        assert_eq!(target.to_vec().expect("readable"), source.to_vec().expect("readable"));
    }
}

/// A message without the numbers of lines and columns.
fn without_lines(message: &str) -> String {
    let (before, after) = message.split_once(".rs:").expect("it names a file");
    format!("{before}.rs:LINE{}", after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':'))
}

#[test]
fn the_line_is_that_of_the_statement() {
    let device = Device::named("emu:h200").expect("in the table");
    let kernel = device.compile(&copies().expect("it has no mistakes")).expect("it compiles");
    let mut source = matrix(&device);
    let right = kernel.tensor_map("source", &source, &[64, 64]).expect("legal");
    let wrong = Description { swizzle: Swizzle::None, ..needed() };
    let mut wrong = runtime::TensorMap::new(&mut source, wrong).expect("legal");
    let refused =
        kernel.launch(&device.stream().expect("a stream"), 1, (&right, &mut wrong)).expect_err("wrong");
    let Error::TensorMapMismatch(mismatch) = refused else { panic!("{refused}") };
    let line = include_str!("tensor_map_checks.rs").lines().nth(mismatch.location.line as usize - 1);
    assert_eq!(line.map(str::trim), Some("target.boxes(tile());"));
}

#[test]
fn the_map_built_for_the_kernel_runs() {
    for device in devices() {
        let kernel = device.compile(&copies().expect("it has no mistakes")).expect("it compiles");
        let source = matrix(&device);
        let mut target = device.zeros::<bf16>(64 * 64).expect("it fits");
        let mut maps = (
            kernel.tensor_map("source", &source, &[64, 64]).expect("legal"),
            kernel.tensor_map("target", &mut target, &[64, 64]).expect("legal"),
        );
        let boxes = kernel.boxes("source").expect("stated");
        assert_eq!(
            *maps.0.description(),
            Description { address: source.address(), ..boxes.row_major(0, &[64, 64]) }
        );
        kernel.launch(&device.stream().expect("a stream"), 1, (&maps.0, &mut maps.1)).expect("it fits");
        let (given, found) = (source.to_vec().expect("readable"), target.to_vec().expect("readable"));
        let tile = (ROWS * COLUMNS) as usize;
        assert_eq!(found[..tile], given[..tile]);
        assert!(found[tile..].iter().all(|element| *element == bf16::ZERO));
    }
}

#[test]
fn a_kernel_writes_through_the_map_of_a_buffer_that_may_be_written() {
    let device = Device::named("emu:h200").expect("in the table");
    let kernel = device.compile(&copies().expect("it has no mistakes")).expect("it compiles");
    let (source, target) = (matrix(&device), matrix(&device));
    let from = kernel.tensor_map("source", &source, &[64, 64]).expect("legal");
    let mut to = kernel.tensor_map("target", &target, &[64, 64]).expect("legal");
    let refused =
        kernel.launch(&device.stream().expect("a stream"), 1, (&from, &mut to)).expect_err("read-only");
    let message = "kernel `copies` cannot be launched: it writes through tensor map `target` \
                   (crates/runtime/tests/tensor_map_checks.rs:LINE), and the map passed was made from a `&Buffer`: make it from \
                   a `&mut Buffer`, as `kernel.tensor_map(\"target\", &mut buffer, extents)`";
    assert_eq!(without_lines(&refused.to_string()), message);
}

/// Copies a tile and then fails.
#[kernel]
fn copies_and_fails(source: &TensorMap, target: &mut TensorMap) {
    launch::threads(1);
    for map in [*source, *target] {
        map.boxes(tile());
    }
    let (tile, full) = (dynamic_shared_aligned::<bf16>(ROWS * COLUMNS, 1024), Mbarrier::new());
    full.init(1);
    fence_mbarrier_init();
    full.arrive_and_expect(ROWS * COLUMNS * 2);
    tma::load(*source, (0, 0), tile, full);
    full.wait_parity(0);
    tma::store(*target, (0, 0), tile);
    warpwright_lang::control::trap();
}

/// A failed kernel leaves half-written what it may have written through a map, and nothing else.
#[test]
fn a_failed_launch_marks_what_it_wrote_through_a_map() {
    let device = Device::named("emu:h200").expect("in the table");
    let kernel = device.compile(&copies_and_fails().expect("it has no mistakes")).expect("it compiles");
    let (source, mut target) = (matrix(&device), matrix(&device));
    let from = kernel.tensor_map("source", &source, &[64, 64]).expect("legal");
    let mut to = kernel.tensor_map("target", &mut target, &[64, 64]).expect("legal");
    kernel.launch(&device.stream().expect("a stream"), 1, (&from, &mut to)).expect_err("it traps");
    assert!(matches!(target.to_vec(), Err(Error::HalfWritten { .. })));
    assert!(source.to_vec().is_ok());
}

#[test]
fn maps_are_built_for_the_kernel_alone() {
    let device = Device::named("emu:h200").expect("in the table");
    let kernel = device.compile(&copies().expect("it has no mistakes")).expect("it compiles");
    let halves = device.zeros::<f16>(64 * 64).expect("it fits");
    let refusals = [
        kernel.tensor_map("source", &halves, &[64, 64]).expect_err("another type"),
        kernel.tensor_map("sauce", &matrix(&device), &[64, 64]).expect_err("no parameter"),
        runtime::TensorMap::of_tile(&halves, (64, 64), &tile().expect("legal")).expect_err("another type"),
    ];
    insta::assert_snapshot!(refusals.map(|error| error.to_string()).join("\n"), @r"
    tensor map `source` of kernel `copies`: the tile has elements of type bf16, and the buffer of type f16; take a tile of f16, or cast the buffer
    kernel `copies` states no boxes of a tensor map `sauce`; it states those of `source`, `target`
    the tile has elements of type bf16, and the buffer of type f16; take a tile of f16, or cast the buffer
    ");
}

/// Prefetches a tile of each of two tensors.
#[kernel]
fn prefetches(maps: &TensorMaps<2>, any: &UntypedTensorMap) {
    launch::threads(1);
    maps.at(0).boxes(tile());
    maps.at(1).boxes(TmaTile::dense::<f32>((8, 16), Major::K));
    tma::prefetch(maps.at(0), [0, 0]);
    tma::prefetch(maps.at(1), [0, 0]);
    tma::prefetch(*any, [0, 0]);
}

#[test]
fn each_map_of_an_array_has_its_own_boxes() {
    for device in devices() {
        let kernel = device.compile(&prefetches().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let (halves, floats) = (matrix(&device), device.zeros::<f32>(64 * 64).expect("it fits"));
        let first = runtime::TensorMap::of_tile(&halves, (64, 64), &tile().expect("legal")).expect("legal");
        let second =
            runtime::TensorMap::row_major(&floats, &[64, 64], &[8, 16], Swizzle::None).expect("legal");
        for any in [&first, &second] {
            kernel.launch(&stream, 1, ([&first, &second], any)).expect("it fits");
        }
        let refused = kernel.launch(&stream, 1, ([&first, &first], &first)).expect_err("another type");
        let message = refused.to_string();
        assert!(message.contains("the element type of tensor map 1 of `maps` is bf16, and"), "{message}");
        stream.synchronize().expect("it ran");
    }
}

/// Loads a tile by a map that no launch checks.
#[kernel]
fn loads_any(source: &UntypedTensorMap) {
    launch::threads(32);
    let tile = dynamic_shared_aligned::<bf16>(ROWS * COLUMNS, 1024);
    let full = Mbarrier::new();
    if thread_idx().x == 0 {
        full.init(1);
        fence_mbarrier_init();
        full.arrive_and_expect(ROWS * COLUMNS * 2);
        tma::load(*source, (0, 0), tile, full);
        full.wait_parity(0);
    }
}

/// A GPU hangs with the first box, and overwrites other memory with the second.
#[test]
fn the_emulator_finds_an_untyped_map_with_another_box() {
    let device = Device::named("emu:h200").expect("in the table");
    let kernel = device.compile(&loads_any().expect("it has no mistakes")).expect("it compiles");
    let stream = device.stream().expect("a stream");
    let cases = [
        (8, "2048 bytes were expected and 1024 arrived"),
        (8, "1024 bytes arrived from a copy issued here"),
        (32, "a copy accesses 4096 bytes from offset 0x0 on, which are outside shared memory"),
    ];
    for (rows, words) in cases {
        let source = matrix(&device);
        let map = runtime::TensorMap::row_major(&source, &[64, 64], &[rows, 64], Swizzle::Bytes128);
        let fault = kernel.launch(&stream, 1, (&map.expect("legal"),)).expect_err("its bytes differ");
        assert!(fault.to_string().contains(words), "{fault}");
    }
}

/// A kernel of `f32` takes a map whose reductions flush, and one of `tf32` takes both.
#[kernel]
fn prefetches_floats(floats: &TensorMap, rounded: &TensorMap) {
    launch::threads(1);
    floats.boxes(Requirement::tiled(ElementType::F32, &[32]));
    rounded.boxes(Requirement::tiled(ElementType::Tf32, &[32]));
    tma::prefetch(*floats, [0]);
    tma::prefetch(*rounded, [0]);
}

#[test]
fn types_that_copies_read_alike_are_accepted() {
    let device = Device::named("emu:h200").expect("in the table");
    let kernel = device.compile(&prefetches_floats().expect("it has no mistakes")).expect("it compiles");
    let stream = device.stream().expect("a stream");
    let floats = device.zeros::<f32>(64).expect("it fits");
    let map = |element| {
        let map = Requirement::tiled(element, &[32]).row_major(0, &[64]);
        runtime::TensorMap::new(&floats, map).expect("legal")
    };
    let maps = [ElementType::F32, ElementType::F32Ftz, ElementType::Tf32].map(map);
    for (first, second) in [(0, 2), (1, 1), (0, 0)] {
        kernel.launch(&stream, 1, (&maps[first], &maps[second])).expect("it reads them alike");
    }
    assert!(kernel.launch(&stream, 1, (&maps[2], &maps[2])).is_err(), "it would read rounded numbers");
}

/// Elements of 8 bits have one type in tensor maps.
#[kernel]
fn prefetches_narrow_floats(floats: &TensorMap) {
    launch::threads(1);
    floats.boxes(TmaTile::dense::<e4m3>((8, 16), Major::K));
    tma::prefetch(*floats, [0, 0]);
}

#[test]
fn a_map_of_another_narrow_float_is_refused() {
    let device = Device::named("emu:h200").expect("in the table");
    let kernel =
        device.compile(&prefetches_narrow_floats().expect("it has no mistakes")).expect("it compiles");
    let stream = device.stream().expect("a stream");
    fn map<T: Storable>(device: &Device) -> runtime::TensorMap {
        let buffer = device.uninitialized::<T>(8 * 16).expect("it fits");
        runtime::TensorMap::row_major(&buffer, &[8, 16], &[8, 16], Swizzle::None).expect("legal")
    }
    kernel.launch(&stream, 1, (&map::<e4m3>(&device),)).expect("it has the type");
    kernel.launch(&stream, 1, (&map::<u8>(&device),)).expect("bytes may be any");
    let refused = kernel.launch(&stream, 1, (&map::<e5m2>(&device),)).expect_err("another type").to_string();
    assert!(
        refused.contains("the element type of tensor map `floats` is e5m2, and the kernel needs e4m3"),
        "{refused}"
    );
}

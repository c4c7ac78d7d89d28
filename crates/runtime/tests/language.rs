//! Kernels of the language, compiled and launched with typed arguments.

use half::f16;
use warpwright_arch::tensor_map::Swizzle;
use warpwright_lang::block::sync_threads;
use warpwright_lang::element::s8x4;
use warpwright_lang::pointer::Global;
use warpwright_lang::shared::{dynamic_shared, shared_array};
use warpwright_lang::special::{block_dim, block_idx, thread_idx};
use warpwright_lang::tensor::TiledMma;
use warpwright_lang::tensor_map::TensorMap;
use warpwright_lang::wmma::{Accumulator, Wmma, WmmaLayout};
use warpwright_lang::{DeviceValue, KernelParameter, Reg, kernel, launch, printf};
use warpwright_runtime::{Device, Error};

/// out[i] = a x[i] + y[i] for i < n
#[kernel]
fn scaled_sum(x: &Global<f32>, y: &Global<f32>, out: &mut Global<f32>, a: f32, n: u32) {
    let i = block_idx().x * block_dim().x + thread_idx().x;
    if i < n {
        out.at(i).store(a * x.at(i).load() + y.at(i).load());
    }
}

/// Writes out[0], then out of bounds.
#[kernel]
fn stray(x: &Global<f32>, out: &mut Global<f32>) {
    out.at(0u32).store(x.at(0u32).load());
    out.at(1u32 << 28).store(x.at(0u32).load());
}

/// Prints from one thread.
#[kernel]
fn speaks(n: u32) {
    if thread_idx().x == 0u32 {
        printf!("n is %u, half of it %f\n", n, n.convert::<f32>() * 0.5);
    }
}

#[test]
fn a_kernel_prints() {
    use warpwright_ir::Statement;
    let kernel = speaks().expect("it has no mistakes");
    let printed = |statement: &Statement| match statement {
        Statement::If { then, .. } => then
            .iter()
            .any(|inner| matches!(inner, Statement::Print { arguments, .. } if arguments.len() == 2)),
        _ => false,
    };
    assert!(kernel.ir().body.iter().any(printed), "{:?}", kernel.ir().body);
    for device in devices() {
        let speaks = device.compile(&speaks().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        speaks.launch(&stream, speaks.shape(1).block(32), (7,)).expect("it runs");
        stream.synchronize().expect("it ran");
    }
}

#[kernel]
fn states_its_block() {
    launch::threads(64);
}

#[test]
fn the_block_is_stated_once() {
    let device = Device::named("emu:h200").expect("the emulator always starts");
    let stream = device.stream().expect("a stream");
    let stated = device.compile(&states_its_block().expect("it has no mistakes")).expect("it compiles");
    stated.launch(&stream, 1, ()).expect("the kernel states 64 threads");
    stated.launch(&stream, stated.shape(1).block(64), ()).expect("the launch agrees");
    let refused =
        stated.launch(&stream, stated.shape(1).block(32), ()).expect_err("it disagrees").to_string();
    assert!(refused.contains("[32, 1, 1] threads, and the kernel states [64, 1, 1]"), "{refused}");
    let unstated = device.compile(&speaks().expect("it has no mistakes")).expect("it compiles");
    let refused = unstated.launch(&stream, 1, (7,)).expect_err("nobody states it").to_string();
    assert!(refused.contains("states no block: call `launch::threads(n)`"), "{refused}");
}

#[kernel]
fn multiplies_by_one_warp() {
    TiledMma::atom("SM80_16x8x16_F32BF16BF16F32_TN").thread(thread_idx().x);
}

#[test]
fn a_launch_has_no_more_threads_than_the_plan() {
    let device = Device::named("emu:h200").expect("the emulator always starts");
    let stream = device.stream().expect("a stream");
    let kernel = device.compile(&multiplies_by_one_warp().expect("it has no mistakes")).expect("it compiles");
    kernel.launch(&stream, kernel.shape(1).block(32), ()).expect("the plan has 32 threads");
    let refused = kernel.launch(&stream, kernel.shape(1).block(64), ()).expect_err("it has no more");
    let (refused, advice) =
        refused.to_string().rsplit_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (refused, place) = refused.split_once(" (").unwrap();
    insta::assert_snapshot!(
        refused,
        @"kernel `multiplies_by_one_warp` cannot be launched: the launch has a block of [64, 1, 1] threads, and a `TiledMma` or `TiledCopy` that all of them take part in has 32"
    );
    assert!(place.starts_with(file!()), "{place}");
    assert_eq!(advice, "launch `kernel.shape(grid).block(32)`");
}

#[test]
fn a_buffer_of_another_type_is_refused_where_rust_does_not_compare() {
    for device in devices() {
        let kernel = device.compile(&stray().expect("it has no mistakes")).expect("it compiles");
        let (floats, integers) = (device.zeros::<f32>(4), device.zeros::<u32>(4));
        let (floats, integers) = (floats.expect("it fits"), integers.expect("it fits"));
        let stream = device.stream().expect("a stream");
        let refused = kernel.function().launch(&stream, kernel.shape(1).block(1), (&floats, &integers));
        insta::assert_snapshot!(
            refused.expect_err("it computes with f32"),
            @"argument 1 of kernel `stray` does not fit: parameter `out` is a pointer to f32, and the launch passes a buffer of u32"
        );
    }
}

#[kernel]
fn states_its_cluster() {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let shared = dynamic_shared::<u32>(256);
    shared[thread_idx().x] = thread_idx().x;
}

#[test]
fn a_launch_keeps_to_what_the_kernel_states() {
    for device in devices() {
        // A GPU before Hopper has no clusters.
        let kernel = states_its_cluster().expect("it has no mistakes");
        let Ok(kernel) = device.compile(&kernel) else { continue };
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, 2, ()).expect("it fits");
        let of_ptx = kernel.function();
        let whole = kernel.shape(4);
        // As a launch of CUDA without the attribute of clusters.
        of_ptx.launch(&stream, whole.cluster(1), ()).expect("the PTX states the cluster");
        let refusals = [
            kernel.launch(&stream, whole.cluster(4), ()),
            kernel.launch(&stream, whole.dynamic_shared(1020), ()),
            of_ptx.launch(&stream, whole.cluster(4), ()),
            of_ptx.launch(&stream, whole.block(64), ()),
        ];
        let refusals = refusals.map(|refused| refused.expect_err("it differs").to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        kernel `states_its_cluster` cannot be launched: the launch has clusters of [4, 1, 1] CTAs, and the kernel states [2, 1, 1]: omit the cluster in the launch
        kernel `states_its_cluster` cannot be launched: the launch has 1020 bytes of dynamic shared memory, and the kernel allocates 1024: launch `kernel.shape(grid)`
        kernel `states_its_cluster` cannot be launched: the launch has clusters of [4, 1, 1] CTAs, and the PTX requires [2, 1, 1] (`.reqnctapercluster`)
        kernel `states_its_cluster` cannot be launched: the launch has a block of [64, 1, 1] threads, and the PTX requires [32, 1, 1] (`.reqntid`)
        ");
    }
}

fn devices() -> Vec<Device> {
    let emulator = Device::named("emu:h200").expect("the emulator always starts");
    std::iter::once(emulator).chain(Device::named("cuda:0").ok()).collect()
}

#[test]
fn a_kernel_runs_with_typed_arguments() {
    for device in devices() {
        let scaled_sum = device.compile(&scaled_sum().expect("it has no mistakes")).expect("it compiles");
        let x: Vec<f32> = (0..1000).map(|index| index as f32).collect();
        let (a, b) =
            (device.buffer_from(&x).expect("it fits"), device.buffer_from(&[1.0; 1000]).expect("it fits"));
        let mut out = device.uninitialized::<f32>(1000).expect("it fits");
        let stream = device.stream().expect("a stream");
        scaled_sum
            .launch(&stream, scaled_sum.shape(8).block(128), (&a, &b, &mut out, 2.0, 1000))
            .expect("it fits");
        let expected: Vec<f32> = x.iter().map(|x| 2.0 * x + 1.0).collect();
        assert_eq!(out.to_vec().expect("readable"), expected);
    }
}

/// out[i] = factors[i] if chosen[i], else 0, for i < 3
#[kernel]
fn takes_arrays(factors: [f32; 3], chosen: [bool; 3], offset: u8, out: &mut Global<f32>) {
    for i in 0..3usize {
        out.at(i).store(if chosen[i] { factors[i] + offset.convert::<f32>() } else { 0.0 });
    }
}

#[test]
fn arrays_are_passed_by_value() {
    for device in devices() {
        let kernel = device.compile(&takes_arrays().expect("it has no mistakes")).expect("it compiles");
        let mut out = device.uninitialized::<f32>(3).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel
            .launch(&stream, kernel.shape(1).block(1), ([1.5, 2.5, 3.5], [true, false, true], 7, &mut out))
            .expect("it fits");
        assert_eq!(out.to_vec().expect("readable"), [8.5, 0.0, 10.5]);
    }
}

#[derive(Clone, Copy, DeviceValue, KernelParameter)]
struct Range {
    start: Reg<u32>,
    step: Reg<i32>,
}

#[derive(Clone, Copy, DeviceValue, KernelParameter)]
struct Ramp {
    range: Range,
    factors: [Reg<f32>; 2],
}

/// out[i] = (start + i * step) * factors[i % 2]
#[kernel]
fn takes_a_struct(ramp: Ramp, out: &mut Global<f32>) {
    let i = thread_idx().x;
    let value = (ramp.range.start + i).convert::<i32>() * ramp.range.step;
    let factor = if i % 2 == 0 { ramp.factors[0] } else { ramp.factors[1] };
    out[i] = value.convert::<f32>() * factor;
}

#[test]
fn structs_are_passed_by_value() {
    let expected: Vec<f32> = (0..32).map(|i| ((5 + i) * -3) as f32 * [0.5, 2.0][i as usize % 2]).collect();
    for device in devices() {
        let kernel = device.compile(&takes_a_struct().expect("it has no mistakes")).expect("it compiles");
        let mut out = device.uninitialized::<f32>(32).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel
            .launch(&stream, kernel.shape(1).block(32), (((5, -3), [0.5, 2.0]), &mut out))
            .expect("it fits");
        assert_eq!(out.to_vec().expect("readable"), expected);
    }
}

/// Four values per thread as bytes, clamped.
#[kernel]
fn packs(values: &Global<i32>, bytes: &mut Global<u32>, halves: &mut Global<u32>) {
    let i = thread_idx().x;
    let values = (*values + i * 4).load_vector::<4>();
    bytes[i] = Reg::<s8x4>::pack_saturating(values).bit_cast::<u32>();
    halves[i] = values[0].pack_s16x2(values[3]).bit_cast::<u32>();
}

#[test]
fn integers_are_packed_with_saturation() {
    let values: Vec<i32> = (0..128).map(|i: i32| (i - 64).pow(3) / 7).collect();
    let clamped = |value: i32, least: i32, most: i32| value.clamp(least, most) as u32;
    let bytes =
        |four: &[i32]| (0..4).map(|at| (clamped(four[at], -128, 127) & 0xff) << (8 * at)).sum::<u32>();
    let halves =
        |four: &[i32]| clamped(four[0], -32768, 32767) & 0xffff | clamped(four[3], -32768, 32767) << 16;
    for device in devices() {
        let kernel = device.compile(&packs().expect("it has no mistakes")).expect("it compiles");
        let input = device.buffer_from(&values).expect("it fits");
        let mut packed = device.uninitialized::<u32>(32).expect("it fits");
        let mut pairs = device.uninitialized::<u32>(32).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel
            .launch(&stream, kernel.shape(1).block(32), (&input, &mut packed, &mut pairs))
            .expect("it fits");
        assert_eq!(packed.to_vec().expect("readable"), values.chunks(4).map(bytes).collect::<Vec<_>>());
        assert_eq!(pairs.to_vec().expect("readable"), values.chunks(4).map(halves).collect::<Vec<_>>());
    }
}

/// Copies the 32-bit words of a tensor map through its generic address.
#[kernel]
fn reads_a_map(map: &TensorMap, out: &mut Global<u32>) {
    let i = thread_idx().x;
    out.at(i).store(map.bytes().cast::<u32>().at(i).load());
}

#[test]
fn a_tensor_map_is_passed_by_value() {
    for device in devices() {
        let kernel = device.compile(&reads_a_map().expect("it has no mistakes")).expect("it compiles");
        let mut out = device.uninitialized::<u32>(32).expect("it fits");
        let stream = device.stream().expect("a stream");
        let matrix = device.buffer_from(&vec![0.0f32; 64 * 64]).expect("it fits");
        let map = warpwright_runtime::TensorMap::row_major(&matrix, &[64, 64], &[8, 32], Swizzle::None);
        // A GPU before Hopper has no tensor maps to pass.
        let Ok(map) = map else { continue };
        kernel.launch(&stream, kernel.shape(1).block(32), (&map, &mut out)).expect("it fits");
        let words = map.as_bytes().as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        assert!(out.to_vec().expect("readable").into_iter().eq(words));
    }
}

#[test]
fn a_fault_marks_what_the_kernel_could_write_and_nothing_else() {
    let device = Device::named("emu:h200").expect("the emulator always starts");
    let stray = device.compile(&stray().expect("it has no mistakes")).expect("it compiles");
    let x = device.buffer_from(&[1.0f32]).expect("it fits");
    let mut out = device.zeros::<f32>(1).expect("it fits");
    let stream = device.stream().expect("a stream");
    let fault =
        stray.launch(&stream, stray.shape(1).block(1), (&x, &mut out)).expect_err("it writes to nowhere");
    assert!(matches!(fault, Error::Fault { .. }), "{fault}");
    assert!(fault.to_string().contains("language.rs"), "the author's file: {fault}");
    assert!(matches!(out.to_vec(), Err(Error::HalfWritten { .. })));
    assert_eq!(x.to_vec().expect("the kernel only read it"), [1.0]);
}

/// A missing barrier, and then a store to nowhere.
#[kernel]
fn races_and_strays(out: &mut Global<u32>) {
    launch::threads(64);
    let shared = shared_array::<u32>(32);
    let i = thread_idx().x;
    shared.at(i % 32).store(i);
    sync_threads();
    out.at(i + 100_000).store(1);
}

#[test]
fn a_fault_says_what_the_checkers_found_before_it() {
    let device = Device::named("emu:h200").expect("the emulator always starts").checked().expect("emulated");
    let kernel = device.compile(&races_and_strays().expect("it has no mistakes")).expect("it compiles");
    let mut out = device.zeros::<u32>(64).expect("it fits");
    let stream = device.stream().expect("a stream");
    let error = kernel.launch(&stream, 1, (&mut out,)).expect_err("it writes to nowhere");
    let message = error.to_string();
    let (found, stopped) = message.split_once("The kernel then stopped:\n\n").expect("both");
    assert!(found.starts_with("error[race]") && found.contains("language.rs"), "{message}");
    assert!(stopped.starts_with("error[out-of-bounds]"), "{message}");
    assert!(stopped.contains("out.at(i + 100_000).store(1);"), "the author's line: {message}");
    // What `main` prints of an error that it returns.
    assert_eq!(format!("{error:?}"), message);
}

#[test]
fn the_text_is_for_the_capability_asked_for() {
    let kernel = scaled_sum().expect("it has no mistakes");
    for capability in &warpwright_arch::CAPABILITIES {
        let text = warpwright_runtime::ptx(&kernel, capability).expect("plain instructions are everywhere");
        assert!(text.contains(&format!(".target {}", capability.target)), "{text}");
    }
}

/// D = A B + 1, 16 by 16.
#[kernel]
fn multiplies_by_fragments(a: &Global<f16>, b: &Global<f16>, d: &mut Global<f32>) {
    let mma = Wmma::<f16>::new([16, 16, 16], WmmaLayout::RowMajor, WmmaLayout::ColumnMajor);
    let (a, b) = (mma.load_a(*a, 16), mma.load_b(*b, 16));
    let product = mma.multiply::<f32, f32>(&a, &b, &mma.zeros());
    let raised = product.registers().iter().map(|value| *value + 1.0).collect();
    mma.store(*d, 16, WmmaLayout::RowMajor, &Accumulator::from_registers(raised));
}

#[test]
fn fragments_multiply() {
    let a: Vec<f16> = (0..256).map(|i| f16::from_f32((i % 7) as f32)).collect();
    let b: Vec<f16> = (0..256).map(|i| f16::from_f32((i % 5) as f32 - 2.0)).collect();
    let expected: Vec<f32> = (0..256)
        .map(|i| {
            let (row, column) = (i / 16, i % 16);
            1.0 + (0..16).map(|k| a[row * 16 + k].to_f32() * b[column * 16 + k].to_f32()).sum::<f32>()
        })
        .collect();
    for device in devices() {
        let kernel =
            device.compile(&multiplies_by_fragments().expect("it has no mistakes")).expect("it compiles");
        let (a, b) = (device.buffer_from(&a).expect("it fits"), device.buffer_from(&b).expect("it fits"));
        let mut d = device.uninitialized::<f32>(256).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, kernel.shape(1).block(32), (&a, &b, &mut d)).expect("it fits");
        assert_eq!(d.to_vec().expect("readable"), expected);
    }
}

#[test]
fn a_fault_names_an_empty_buffer() {
    let device = Device::named("emu:h200").expect("the emulator always starts");
    let kernel = device.compile(&reads_a_part().expect("it has no mistakes")).expect("it compiles");
    let empty = device.buffer_from::<f32>(&[]).expect("it fits");
    let mut out = device.zeros::<f32>(1).expect("it fits");
    let stream = device.stream().expect("a stream");
    let fault = kernel.launch(&stream, 1, (&empty, &mut out)).expect_err("it has no elements").to_string();
    assert!(fault.contains("the allocation of 0 bytes"), "{fault}");
    assert!(fault.contains("would be element 0 of `values`, which has no elements"), "{fault}");
}

/// Reads one element.
#[kernel]
fn reads_a_part(values: &Global<f32>, out: &mut Global<f32>) {
    launch::threads(1);
    out[0] = values[0];
}

//! One suite for every device: a GPU must behave like the emulator.
//!
//! The GPU half runs if there is a GPU; with `WARPWRIGHT_REQUIRE_GPU=1` a missing GPU is a failure.
//! The binary needs no file of the machine that built it.

use half::{bf16, f16};
use warpwright_runtime::{Argument, Buffer, Device, Error, Function, Launch, Storable, Stream};

const VECTOR: &str = include_str!("ptx/vector.ptx");
const CLUSTER: &str = include_str!("ptx/cluster.ptx");

fn emulator() -> Option<Device> {
    Some(Device::named("emu:h200").expect("the emulator always starts"))
}

fn gpu() -> Option<Device> {
    warpwright_testing::gpu(Device::named("cuda:0"))
}

macro_rules! suite {
    ($($test:ident)*) => {
        mod on_emulator {
            $(#[test] fn $test() { super::emulator().iter().for_each(super::$test) })*
        }
        mod on_gpu {
            $(#[test] fn $test() { super::gpu().iter().for_each(super::$test) })*
        }
    };
}

suite! {
    buffers_keep_every_type
    buffers_check_lengths_and_ranges
    empty_buffers_are_buffers
    too_much_memory_is_refused
    host_buffers_copy_in_order
    streams_wait_for_events
    events_tell_time
    kernels_run
    parameters_arrive_bit_for_bit
    slices_of_arguments_work
    arguments_that_do_not_fit_are_refused
    every_thread_of_a_grid_runs_once
    dynamic_shared_memory_reaches_the_limit
    bad_launches_are_refused_and_harm_nothing
    launch_bounds_are_kept
    occupancy_is_reported
    variables_are_found
    text_that_is_not_ptx_is_refused
    unknown_instructions_are_refused_with_their_line
    unknown_kernels_are_refused_with_the_known
    devices_do_not_mix
    threads_share_a_device
    clusters_are_formed_or_refused
}

fn kernel(device: &Device, name: &str) -> Function {
    device.load_ptx(VECTOR).expect("the module loads").function(name).expect("the kernel is there")
}

fn stream(device: &Device) -> Stream {
    device.stream().expect("a stream can be made")
}

fn round_trip<T: Storable + PartialEq + std::fmt::Debug>(device: &Device, elements: &[T]) {
    let mut buffer = device.buffer_from(elements).expect("it fits");
    assert_eq!(buffer.to_vec().expect("readable"), elements);
    buffer.fill_zero().expect("writable");
    assert_eq!(buffer.to_vec().expect("readable"), vec![T::zeroed(); elements.len()]);
    buffer.write_at(1, &elements[1..2]).expect("in range");
    assert_eq!(buffer.read(1..2).expect("in range"), &elements[1..2]);
    assert_eq!(buffer.read(0..1).expect("in range"), [T::zeroed()]);
}

fn buffers_keep_every_type(device: &Device) {
    round_trip(device, &[1u8, 2, 255]);
    round_trip(device, &[-1i8, 2, i8::MIN]);
    round_trip(device, &[1u16, 2, u16::MAX]);
    round_trip(device, &[-1i16, 2, i16::MIN]);
    round_trip(device, &[1u32, 2, u32::MAX]);
    round_trip(device, &[-1i32, 2, i32::MIN]);
    round_trip(device, &[1u64, 2, u64::MAX]);
    round_trip(device, &[-1i64, 2, i64::MIN]);
    round_trip(device, &[f16::ONE, f16::MAX, f16::from_f32(-0.1)]);
    round_trip(device, &[bf16::ONE, bf16::MAX, bf16::from_f32(-0.1)]);
    round_trip(device, &[1.5f32, -0.1, f32::MAX]);
    round_trip(device, &[1.5f64, -0.1, f64::MAX]);
    // More than one chunk of the zeros that are written.
    let large: Vec<u32> = (0..(3 << 20) + 5).collect();
    round_trip(device, &large);
}

fn buffers_check_lengths_and_ranges(device: &Device) {
    let mut buffer = device.zeros::<u32>(4).expect("it fits");
    let wrong = buffer.copy_from(&[1, 2, 3]);
    assert!(matches!(wrong, Err(Error::Length { expected: 4, given: 3, .. })), "{wrong:?}");
    let wrong = buffer.read(3..5);
    assert!(matches!(wrong, Err(Error::Range { start: 3, end: 5, length: 4 })), "{wrong:?}");
    let wrong = buffer.write_at(usize::MAX, &[1]);
    assert!(matches!(wrong, Err(Error::Range { .. })), "{wrong:?}");
    assert_eq!(buffer.to_vec().expect("readable"), [0; 4]);
}

fn empty_buffers_are_buffers(device: &Device) {
    let empty = device.buffer_from::<f32>(&[]).expect("nothing always fits");
    assert!(empty.is_empty() && empty.bytes() == 0);
    assert_ne!(empty.address(), 0);
    assert_eq!(empty.to_vec().expect("readable"), [0.0f32; 0]);
}

fn too_much_memory_is_refused(device: &Device) {
    let elements = usize::try_from(device.properties().global_bytes).expect("64 bits") / 4 + (1 << 30);
    let refused = device.uninitialized::<u64>(elements);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    let refused = device.uninitialized::<u64>(usize::MAX / 2);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    assert!(device.zeros::<u8>(100).is_ok(), "the device stays usable");
}

fn host_buffers_copy_in_order(device: &Device) {
    let stream = stream(device);
    let length = 100_000;
    let mut host = device.host_buffer::<u32>(length).expect("it fits");
    let mut back = device.host_buffer::<u32>(length).expect("it fits");
    let mut first = device.zeros::<u32>(length).expect("it fits");
    let mut second = device.uninitialized::<u32>(length).expect("it fits");
    for round in 0..3u32 {
        for (value, index) in host.as_mut_slice().expect("idle").iter_mut().zip(0..) {
            *value = index * 3 + round;
        }
        stream.copy_to_device(&mut first, &mut host).expect("same lengths");
        stream.copy(&mut second, &first).expect("same lengths");
        stream.copy_to_host(&mut back, &second).expect("same lengths");
        // Neither of these may overtake the copies.
        host.as_mut_slice().expect("idle").fill(0);
        stream.fill_zero(&mut second).expect("writable");
        let seen = back.as_slice().expect("done");
        assert!(seen.iter().zip(0..).all(|(value, index)| *value == index * 3 + round), "round {round}");
    }
    assert_eq!(second.to_vec().expect("readable"), vec![0; length]);
    let mut short = device.host_buffer::<u32>(1).expect("it fits");
    assert!(matches!(stream.copy_to_host(&mut short, &first), Err(Error::Length { .. })));
}

fn streams_wait_for_events(device: &Device) {
    let (producer, consumer) = (stream(device), stream(device));
    let add = kernel(device, "add");
    let length = 1 << 16;
    let ones = device.buffer_from(&vec![1.0f32; length]).expect("it fits");
    let mut sum = device.zeros::<f32>(length).expect("it fits");
    let mut copy = device.zeros::<f32>(length).expect("it fits");
    for _ in 0..20 {
        let launch = Launch::new(length as u32 / 256, 256);
        add.launch(&producer, launch, (&sum, &ones, &sum, length as u32)).expect("it fits");
    }
    let event = producer.record().expect("recordable");
    consumer.wait(&event).expect("same device");
    consumer.copy(&mut copy, &sum).expect("same lengths");
    consumer.synchronize().expect("nothing failed");
    assert!(event.is_reached().expect("nothing failed"));
    assert!(consumer.is_idle().expect("nothing failed"));
    assert_eq!(copy.to_vec().expect("readable"), vec![20.0; length]);
    sum.fill_zero().expect("writable");
}

fn events_tell_time(device: &Device) {
    let stream = stream(device);
    let (start, end) = (device.event().expect("an event"), device.event().expect("an event"));
    assert!(matches!(end.since(&start), Err(Error::EventNotReached)), "neither is recorded");
    stream.record_into(&start).expect("recordable");
    stream.record_into(&end).expect("recordable");
    end.synchronize().expect("nothing failed");
    let forth = end.since(&start).expect("both are reached");
    assert!(forth.as_secs_f64() < 60.0, "{forth:?}");
}

fn kernels_run(device: &Device) {
    let add = kernel(device, "add");
    let stream = stream(device);
    for length in [1usize, 31, 32, 255, 256, 257, 1000] {
        let x: Vec<f32> = (0..length).map(|index| index as f32 * 0.5).collect();
        let y: Vec<f32> = (0..length).map(|index| 100.0 - index as f32).collect();
        let (a, b) = (device.buffer_from(&x).expect("it fits"), device.buffer_from(&y).expect("it fits"));
        let mut out = device.uninitialized::<f32>(length).expect("it fits");
        let launch = Launch::new(length.div_ceil(128) as u32, 128);
        add.launch(&stream, launch, (&a, &b, &mut out, length as u32)).expect("it fits");
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        assert_eq!(out.to_vec().expect("readable"), expected);
    }
}

fn parameters_arrive_bit_for_bit(device: &Device) {
    let parameters = kernel(device, "parameters");
    let mut out = device.zeros::<u64>(11).expect("it fits");
    let structure: Vec<u8> = (1..=24).collect();
    let arguments = (
        &mut out,
        0xabu8,
        0xcdefu16,
        bf16::from_f32(1.0),
        -5i32,
        f32::MIN_POSITIVE,
        true,
        -0.1f64,
        Argument::bytes(structure.clone()),
        i64::MIN + 1,
    );
    parameters.launch(&stream(device), Launch::new(1, 1), arguments).expect("it fits");
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let expected = [
        0xab,
        0xcdef,
        u64::from(bf16::from_f32(1.0).to_bits()),
        -5i64 as u64,
        u64::from(f32::MIN_POSITIVE.to_bits()),
        1,
        (-0.1f64).to_bits(),
        word(&structure[..8]),
        word(&structure[8..16]),
        word(&structure[16..]),
        (i64::MIN + 1) as u64,
    ];
    assert_eq!(out.to_vec().expect("readable"), expected);
}

fn slices_of_arguments_work(device: &Device) {
    let x = device.buffer_from(&[1.0f32, 2.0]).expect("it fits");
    let out = device.zeros::<f32>(2).expect("it fits");
    let arguments =
        [Argument::buffer(&x), Argument::scalar(x.address()), Argument::buffer(&out), Argument::scalar(2u32)];
    let add = kernel(device, "add");
    add.launch(&stream(device), Launch::new(1, 32), &arguments[..]).expect("it fits");
    assert_eq!(out.to_vec().expect("readable"), [2.0, 4.0]);
}

fn arguments_that_do_not_fit_are_refused(device: &Device) {
    let (add, stream) = (kernel(device, "add"), stream(device));
    let x = device.zeros::<f32>(4).expect("it fits");
    let launch = Launch::new(1, 32);
    let message = |refused: Result<_, Error>| refused.expect_err("it does not fit").to_string();
    let count = message(add.launch(&stream, launch, (&x, &x, &x)));
    assert!(count.contains("takes 4 arguments, and the launch passes 3") && count.contains("`n`"), "{count}");
    let address = message(add.launch(&stream, launch, (&x, &x, &x, &x)));
    assert!(address.contains("argument 3") && address.contains("a buffer of f32"), "{address}");
    let float = message(add.launch(&stream, launch, (&x, &x, &x, 1.0f32)));
    assert!(float.contains("`n` is a 4-byte integer") && float.contains("a scalar f32"), "{float}");
    let wide = message(add.launch(&stream, launch, (&x, &x, &x, 4u64)));
    assert!(wide.contains("a scalar u64"), "{wide}");
    let scalar = message(add.launch(&stream, launch, (1.0f64, &x, &x, 4u32)));
    assert!(scalar.contains("`x` is a pointer"), "{scalar}");
    assert_eq!(x.to_vec().expect("nothing was launched"), [0.0; 4]);
}

fn every_thread_of_a_grid_runs_once(device: &Device) {
    let (shape, stream) = (kernel(device, "shape"), stream(device));
    for (grid, block) in [([3, 4, 5], [7, 2, 3]), ([1, 1, 1], [1024, 1, 1]), ([2, 1, 3], [1, 1, 64])] {
        let threads = grid.iter().chain(&block).product::<u32>() as usize;
        let mut out = device.zeros::<u32>(threads).expect("it fits");
        shape.launch(&stream, Launch::new(grid, block), (&mut out,)).expect("it fits");
        assert_eq!(out.to_vec().expect("readable"), vec![1; threads], "{grid:?} {block:?}");
    }
}

fn dynamic_shared_memory_reaches_the_limit(device: &Device) {
    let (reverse, stream) = (kernel(device, "reverse"), stream(device));
    let most = device.properties().capability.shared_bytes_per_cta_opt_in;
    for bytes in [1024, 48 << 10, (48 << 10) + 4, most] {
        let block = 64u32;
        let input: Vec<u32> = (0..=block).collect();
        let mut out = device.buffer_from(&input).expect("it fits");
        let launch = Launch::new(1, block).dynamic_shared(bytes);
        reverse.launch(&stream, launch, (&mut out, bytes - 4)).expect("it fits");
        let expected: Vec<u32> = (0..block).rev().chain([77]).collect();
        assert_eq!(out.to_vec().expect("readable"), expected, "{bytes} bytes");
    }
    let mut out = device.zeros::<u32>(65).expect("it fits");
    let launch = Launch::new(1, 64).dynamic_shared(most + 1);
    let refused = reverse.launch(&stream, launch, (&mut out, 0u32)).expect_err("one byte too many");
    assert!(refused.to_string().contains(&format!("at most {most} dynamic")), "{refused}");
}

fn bad_launches_are_refused_and_harm_nothing(device: &Device) {
    let (add, stream) = (kernel(device, "add"), stream(device));
    let x = device.buffer_from(&[3.0f32; 4]).expect("it fits");
    for launch in [Launch::new(0, 32), Launch::new(1, 0), Launch::new(1, 1025), Launch::new((1, 1, 70000), 1)]
    {
        let refused = add.launch(&stream, launch, (&x, &x, &x, 4u32));
        assert!(matches!(refused, Err(Error::BadLaunch { .. })), "{refused:?}");
    }
    assert_eq!(x.to_vec().expect("no kernel ran"), [3.0; 4]);
    add.launch(&stream, Launch::new(1, 32), (&x, &x, &x, 4u32)).expect("the device stays usable");
    assert_eq!(x.to_vec().expect("readable"), [6.0; 4]);
}

fn launch_bounds_are_kept(device: &Device) {
    let (bounded, stream) = (kernel(device, "bounded"), stream(device));
    let mut out = device.zeros::<u32>(1).expect("it fits");
    let refused = bounded.launch(&stream, Launch::new(1, 65), (&mut out,)).expect_err("one thread too many");
    assert!(refused.to_string().contains("65 threads; use at most 64"), "{refused}");
    bounded.launch(&stream, Launch::new(1, 64), (&mut out,)).expect("it fits");
    assert_eq!(out.to_vec().expect("readable"), [1]);
}

fn occupancy_is_reported(device: &Device) {
    let add = kernel(device, "add");
    let occupancy = add.occupancy(&Launch::new(1, 1024)).expect("it fits");
    assert!(
        occupancy.ctas_per_sm >= 1 && occupancy.warps_per_sm == occupancy.ctas_per_sm * 32,
        "{occupancy:?}"
    );
    assert!(matches!(add.occupancy(&Launch::new(1, 2048)), Err(Error::BadLaunch { .. })));
}

fn variables_are_found(device: &Device) {
    let module = device.load_ptx(VECTOR).expect("the module loads");
    let mut table = module.variable::<u32>("table").expect("it is there");
    assert!(table.address() != 0 && table.bytes() == 16, "{:#x}, {}", table.address(), table.bytes());
    let absent = module.variable::<u32>("chair").expect_err("there is none").to_string();
    assert_eq!(absent, "the module has no variable `chair`; its variables are `table`");
    let mut out = device.buffer_from(&[1u32, 2, 3, 4]).expect("it fits");
    let add_table = module.function("add_table").expect("it is there");
    add_table.launch(&stream(device), Launch::new(1, 4), (&mut out,)).expect("it fits");
    assert_eq!(out.to_vec().expect("readable"), [11, 22, 33, 44]);
    // The host sets it, as `cudaMemcpyToSymbol` does, and kernels read what it sets.
    assert_eq!(table.to_vec().expect("readable"), [10, 20, 30, 40]);
    table.copy_from(&[100, 200, 300, 400]).expect("it fits");
    add_table.launch(&stream(device), Launch::new(1, 4), (&mut out,)).expect("it fits");
    assert_eq!(out.to_vec().expect("readable"), [111, 222, 333, 444]);
    // It outlives the module's other owners.
    drop((module, add_table));
    assert_eq!(table.to_vec().expect("readable"), [100, 200, 300, 400]);
}

fn text_that_is_not_ptx_is_refused(device: &Device) {
    for text in ["", "fn main() {}", ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k( {"] {
        let refused = device.load_ptx(text);
        if let Ok(module) = refused {
            assert_eq!(module.kernels(), [] as [String; 0], "nothing came from {text:?}");
        }
    }
    let refused = device.load_ptx("fn main() {}");
    assert!(refused.is_err());
}

fn unknown_instructions_are_refused_with_their_line(device: &Device) {
    let text = VECTOR.replacen("add.rn.f32 %f2, %f0, %f1;", "frobnicate.f32 %f2, %f0, %f1;", 1);
    let line = 1 + text.lines().position(|line| line.contains("frobnicate")).expect("it was put in");
    let refused = match device.load_ptx(&text) {
        Err(refused) => refused, // by the driver's compiler
        Ok(module) => {
            let (a, b) = (device.zeros::<f32>(4).expect("it fits"), device.zeros::<f32>(4).expect("it fits"));
            let mut sum = device.zeros::<f32>(4).expect("it fits");
            let add = module.function("add").expect("it is there");
            let launch = add.launch(&stream(device), Launch::new(1, 4), (&a, &b, &mut sum, 4u32));
            launch.map(|_| ()).expect_err("there is no such instruction")
        }
    };
    let refused = refused.to_string();
    assert!(refused.contains("frobnicate") && refused.contains(&line.to_string()), "{refused}");
}

fn unknown_kernels_are_refused_with_the_known(device: &Device) {
    let module = device.load_ptx(VECTOR).expect("the module loads");
    let refused = module.function("subtract").expect_err("there is none").to_string();
    assert!(refused.contains("`subtract`") && refused.contains("`add`"), "{refused}");
    assert!(module.function("nul\0inside").is_err());
}

fn devices_do_not_mix(device: &Device) {
    let other = Device::named("emu:a100").expect("the emulator always starts");
    let here = device.zeros::<f32>(4).expect("it fits");
    let mut there = other.zeros::<f32>(4).expect("it fits");
    let (add, stream) = (kernel(device, "add"), stream(device));
    let refused = add.launch(&stream, Launch::new(1, 4), (&here, &there, &here, 4u32));
    let message = refused.expect_err("a buffer of another device").to_string();
    assert!(message.contains("emu:a100") && message.contains(device.name()), "{message}");
    let refused = stream.copy(&mut there, &here);
    assert!(matches!(refused, Err(Error::WrongDevice { .. })), "{refused:?}");
    let foreign = other.stream().expect("a stream");
    let refused = add.launch(&foreign, Launch::new(1, 4), (&here, &here, &here, 4u32));
    assert!(matches!(refused, Err(Error::WrongDevice { .. })), "{refused:?}");
}

fn threads_share_a_device(device: &Device) {
    let add = kernel(device, "add");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let add = &add;
            scope.spawn(move || {
                let stream = stream(device);
                let x: Buffer<f32> = device.buffer_from(&vec![thread as f32; 500]).expect("it fits");
                let out = device.zeros::<f32>(500).expect("it fits");
                for _ in 0..10 {
                    add.launch(&stream, Launch::new(4, 128), (&out, &x, &out, 500u32)).expect("it fits");
                }
                assert_eq!(out.to_vec().expect("readable"), vec![10.0 * thread as f32; 500]);
            });
        }
    });
}

fn clusters_are_formed_or_refused(device: &Device) {
    if device.properties().capability.ctas_per_cluster == 1 {
        return;
    }
    let ranks = device.load_ptx(CLUSTER).and_then(|module| module.function("ranks"));
    let ranks = match ranks {
        // An emulated GPU without clusters reports it at load or launch.
        Err(Error::Load(_)) if device.properties().is_emulated => return,
        ranks => ranks.expect("the module loads"),
    };
    let stream = stream(device);
    for cluster in [2u32, 4, 8, 16] {
        let mut out = device.zeros::<u32>(32).expect("it fits");
        let launch = Launch::new(32, 64).cluster(cluster);
        match ranks.launch(&stream, launch, (&mut out,)) {
            Err(Error::BadLaunch { .. }) if device.properties().is_emulated => return,
            outcome => outcome.expect("it fits"),
        };
        let expected: Vec<u32> = (0..32).map(|cta| cluster * 100 + cta % cluster).collect();
        assert_eq!(out.to_vec().expect("readable"), expected);
    }
}

//! Memory, streams and contexts of other libraries, on the emulator and on a GPU.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use warpwright_arch::tensor_map::Swizzle;
use warpwright_runtime::{
    Buffer, Device, Error, Function, Launch, LaunchCounts, Storable, Stream, TensorMap,
};

const VECTOR: &str = include_str!("ptx/vector.ptx");

fn emulator() -> Device {
    Device::named("emu:h200").expect("the emulator always starts")
}

fn gpu() -> Option<Device> {
    warpwright_testing::gpu(Device::named("cuda:0"))
}

fn add(device: &Device) -> Function {
    device.load_ptx(VECTOR).and_then(|module| module.function("add")).expect("the kernel is there")
}

/// `length` elements that another owner keeps until the test ends.
fn view<T: Storable>(device: &Device, address: u64, length: usize) -> Result<Buffer<T>, Error> {
    // SAFETY: each test keeps the memory until the views are dropped and their work is complete.
    unsafe { Buffer::from_raw_parts(device, address, length) }
}

/// x = 2 x.
fn double(device: &Device, stream: &Stream, x: &mut Buffer<f32>) -> Result<LaunchCounts, Error> {
    add(device).launch(stream, Launch::new(1, 64), (&*x, &*x, &*x, x.len() as u32))
}

#[test]
fn memory_of_another_owner_is_a_buffer() {
    for device in [Some(emulator()), gpu()].iter().flatten() {
        let owner = device.buffer_from(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("it fits");
        let mut middle = view::<f32>(device, owner.address() + 8, 3).expect("inside the buffer");
        double(device, &device.stream().expect("a stream"), &mut middle).expect("it fits");
        assert_eq!(middle.to_vec().expect("readable"), [6.0, 8.0, 10.0]);
        middle.write_at(0, &[7.0]).expect("in range");
        drop(middle);
        assert_eq!(owner.to_vec().expect("still there"), [1.0, 2.0, 7.0, 8.0, 10.0, 6.0]);
        assert_eq!(view::<f32>(device, 0, 0).expect("nothing is accessed").len(), 0);
    }
}

#[test]
fn the_emulator_accesses_memory_of_the_host_where_it_is() {
    static NUMBERS: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];
    let numbers = || NUMBERS.each_ref().map(|number| f32::from_bits(number.load(Ordering::Relaxed)));
    NUMBERS.iter().zip(1u8..).for_each(|(bits, it)| bits.store(f32::from(it).to_bits(), Ordering::Relaxed));
    let address = NUMBERS.as_ptr().expose_provenance() as u64;
    let device = emulator().checked().expect("the emulator checks");
    let stream = device.stream().expect("a stream");
    let mut all = view::<f32>(&device, address, 8).expect("memory of the host");
    assert_eq!(all.address(), address);
    double(&device, &stream, &mut all).expect("it fits");
    assert_eq!(numbers(), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]);
    // A view of a part keeps the whole, and a kernel reaches no byte beyond.
    let mut part = view::<f32>(&device, address + 16, 4).expect("it is adopted");
    drop(all);
    double(&device, &stream, &mut part).expect("it fits");
    assert_eq!(part.to_vec().expect("readable"), [20.0, 24.0, 28.0, 32.0]);
    let beyond = add(&device).launch(&stream, Launch::new(1, 64), (&part, &part, &part, 8u32));
    assert!(matches!(beyond, Err(Error::Fault { .. })), "{beyond:?}");
    assert_eq!(numbers()[..4], [2.0, 4.0, 6.0, 8.0]);
    drop(part);
    let last = view::<f32>(&device, address + 4, 7).expect("the whole was released with its last view");
    assert_eq!(last.len(), 7);
}

#[test]
fn memory_that_a_device_cannot_access_is_refused() {
    for device in [Some(emulator()), gpu()].iter().flatten() {
        let owner = device.zeros::<f32>(64).expect("it fits");
        let refused =
            |address, length| view::<f32>(device, address, length).expect_err("no buffer").to_string();
        let message = refused(owner.address() + 2, 1);
        assert!(message.contains("an element of f32 is aligned to 4 bytes"), "{message}");
        let message = refused(owner.address(), usize::MAX);
        assert!(message.contains("exceed the address space"), "{message}");
        let message = refused(0x7e00_0000_0000, 1);
        let reason = if device.properties().is_emulated { "other state spaces" } else { "does not know it" };
        assert!(message.contains(reason) && message.contains(device.name()), "{message}");
        // A tensor map needs more than an element does.
        let shifted = view::<f32>(device, owner.address() + 8, 32).expect("aligned for its elements");
        let refused =
            TensorMap::row_major(&shifted, &[4, 8], &[2, 8], Swizzle::None).expect_err("not aligned");
        assert!(refused.to_string().contains("must be a multiple of 16 bytes"), "{refused}");
    }
}

#[test]
fn a_stream_of_another_owner_is_used_and_not_destroyed() {
    for device in [Some(emulator()), gpu()].iter().flatten() {
        let owner = device.stream().expect("a stream");
        let mut x = device.buffer_from(&[1.0f32; 50]).expect("it fits");
        // SAFETY: the stream lives until the end of the test.
        let foreign = unsafe { Stream::from_raw(device, owner.as_raw()) }.expect("a stream of the device");
        assert_ne!(foreign.id(), owner.id(), "it may have data of its own");
        double(device, &foreign, &mut x).expect("it fits");
        let graph = foreign.capture(|stream| double(device, stream, &mut x)).expect("a graph");
        graph.launch(&foreign).expect("it fits");
        drop(foreign);
        double(device, &owner, &mut x).expect("it fits");
        owner.synchronize().expect("nothing failed");
        // SAFETY: null is the default stream.
        let default = unsafe { Stream::from_raw(device, null_mut()) }.expect("every context has it");
        double(device, &default, &mut x).expect("it fits");
        default.record().expect("an event").synchronize().expect("nothing failed");
        assert_eq!(x.to_vec().expect("readable"), [16.0; 50]);
    }
}

#[test]
fn the_context_of_another_library_is_shared() {
    let without = std::thread::spawn(Device::of_current_context).join().expect("no panic");
    let refused = without.expect_err("a new thread has none").to_string();
    assert!(refused.contains("there is none") || refused.starts_with("no GPU is available"), "{refused}");
    let Some(gpu) = gpu() else { return };
    let mut x = gpu.buffer_from(&[1.0f32; 4]).expect("it fits"); // makes the context current
    let current = Device::of_current_context().expect("the context of the GPU is current");
    assert_eq!(current.name(), gpu.name());
    double(&current, &current.stream().expect("a stream"), &mut x).expect("it fits");
    drop((gpu, current));
    assert_eq!(x.to_vec().expect("readable"), [2.0; 4]);
}

//! Devices of one host: kernels that access another device's memory and wait for one another.

use std::thread;

use warpwright_arch::Arch;
use warpwright_lang::access::{Access, Ordering, Scope};
use warpwright_lang::block::sync_threads;
use warpwright_lang::control::wait_until;
use warpwright_lang::pointer::Global;
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::{kernel, launch};
use warpwright_runtime::{Buffer, Device, Error, Schedule};

/// Elements of a message.
const LENGTH: u32 = 128;
/// Threads of a CTA.
const THREADS: u32 = 64;

/// Writes a message to the other device, CTA by CTA, and copies the one that arrives. A message is
/// there once its flag is `round`.
#[kernel]
fn exchange(message: &Global<u32>, copy: &mut Global<u32>, own: u64, peer: u64, round: u32) {
    launch::threads(THREADS);
    let (cta, at) = (block_idx().x, block_idx().x * THREADS + thread_idx().x);
    let inbox = |address| Global::<u32>::from_address_mut(address);
    inbox(peer).at(at).store(message.at(at).load());
    sync_threads();
    if thread_idx().x == 0u32 {
        let release = Access::new().ordered(Ordering::Release(Scope::System));
        inbox(peer).at(cta + LENGTH).store_with(round, release);
        let acquire = Access::new().ordered(Ordering::Acquire(Scope::System));
        wait_until(|| inbox(own).at(cta + LENGTH).load_with(acquire).ge(round));
    }
    sync_threads();
    copy.at(at).store(inbox(own).at(at).load());
}

fn h200() -> &'static Arch {
    Arch::named("h200").expect("a known GPU")
}

/// Both devices send and receive `rounds` messages. The last message that arrives on each.
fn exchanged(devices: &[Device], rounds: u32) -> Vec<Vec<u32>> {
    let inboxes = Device::peer_buffers::<u32>(devices, LENGTH as usize + 2).expect("peers");
    let of_device = |index: usize| {
        let (device, inboxes) = (&devices[index], &inboxes);
        let exchange = device.compile(&exchange().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        let mut copy = device.uninitialized(LENGTH as usize).expect("it fits");
        for round in 1..=rounds {
            let message: Vec<u32> = (0..LENGTH).map(|at| round * 1000 * (index as u32 + 1) + at).collect();
            let message = device.buffer_from(&message).expect("it fits");
            let (own, peer) = (inboxes[index].address(), inboxes[1 - index].address());
            exchange.launch(&stream, 2, (&message, &mut copy, own, peer, round)).expect("it runs");
            stream.synchronize().expect("it ends");
        }
        copy.to_vec().expect("it was written")
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| of_device(0));
        let second = of_device(1);
        vec![first.join().expect("no panic"), second]
    })
}

fn expect_messages(devices: &[Device]) {
    let message = |from: u32| (0..LENGTH).map(|at| 3000 * from + at).collect::<Vec<_>>();
    assert_eq!(exchanged(devices, 3), [message(2), message(1)]);
}

#[test]
fn emulated_devices_exchange_messages_and_checks_find_nothing() {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(5)] {
        let devices = Device::emulated_peers(h200(), schedule, 2).expect("they start");
        expect_messages(&devices);
        let checked = devices.into_iter().map(|device| device.checked().expect("emulated"));
        expect_messages(&checked.collect::<Vec<_>>());
    }
}

#[test]
fn gpus_exchange_messages() {
    if warpwright_testing::several_gpus(Device::cuda_count().unwrap_or(0)).is_some() {
        expect_messages(&Device::peers("cuda:0", 2).expect("two GPUs"));
    }
}

/// Waits for a flag that nobody sets.
#[kernel]
fn wait_for_nobody(own: u64) {
    let acquire = Access::new().ordered(Ordering::Acquire(Scope::System));
    wait_until(|| Global::<u32>::from_address_mut(own).load_with(acquire).eq(7u32));
}

#[test]
fn devices_that_all_wait_are_deadlocked() {
    let devices = Device::peers("emu:h200", 2).expect("they start");
    let flags = Device::peer_buffers::<u32>(&devices, 1).expect("peers");
    let wait = |device: &Device, flag: &Buffer<u32>| {
        let wait = device.compile(&wait_for_nobody().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        wait.launch(&stream, wait.shape(1).block(32), (flag.address(),)).map(drop)
    };
    let outcomes = thread::scope(|scope| {
        let first = scope.spawn(|| wait(&devices[0], &flags[1]));
        [wait(&devices[1], &flags[0]), first.join().expect("no panic")]
    });
    for outcome in outcomes {
        let text = outcome.expect_err("nobody sets the flag").to_string();
        assert!(text.contains("nothing changes what it waits for"), "{text}");
    }
}

#[test]
fn only_peers_share_memory() {
    let strangers =
        [Device::named("emu:h200").expect("it starts"), Device::named("emu:h200").expect("it starts")];
    let refused = Device::peer_buffers::<f32>(&strangers, 4).expect_err("two hosts");
    assert!(matches!(refused, Error::NoPeerAccess { .. }), "{refused}");
    let devices = Device::peers("emu:h200", 3).expect("they start");
    let refused = Device::peer_buffers::<f32>(&devices, 1 << 50).expect_err("too much");
    assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
    // Memory is written and read by its own device, and is of zeros at first.
    let mut buffers = Device::peer_buffers::<f32>(&devices, 4).expect("peers");
    buffers[1].write_at(2, &[5.0]).expect("it is in range");
    let numbers: Vec<_> = buffers.iter().map(|buffer| buffer.to_vec().expect("no kernel failed")).collect();
    assert_eq!(numbers, [[0.0; 4], [0.0, 0.0, 5.0, 0.0], [0.0; 4]]);
}

/// Reads one number.
#[kernel]
fn read(from: u64, to: &mut Global<f32>) {
    to.at(0u32).store(Global::<f32>::from_address(from).load());
}

#[test]
fn freed_memory_is_freed_on_every_device() {
    let devices = Device::peers("emu:h200", 2).expect("they start");
    let mut buffers = Device::peer_buffers::<f32>(&devices, 4).expect("peers");
    let read = devices[0].compile(&read().expect("it has no mistakes")).expect("it compiles");
    let stream = devices[0].stream().expect("a stream");
    let mut number = devices[0].zeros::<f32>(1).expect("it fits");
    let address = buffers[1].address();
    read.launch(&stream, read.shape(1).block(1), (address, &mut number)).expect("it is mapped");
    drop(buffers.pop());
    let fault =
        read.launch(&stream, read.shape(1).block(1), (address, &mut number)).expect_err("it is freed");
    assert!(fault.to_string().contains("freed"), "{fault}");
}

//! All-reduce and all-gather: every rank has the sum of all ranks, rounded once, or the rows of all.

use std::thread;

use warpwright::arch::Arch;
use warpwright::prelude::{bf16, f16};
use warpwright::runtime::{Device, Schedule, Storable};
use warpwright_harness::HostNumber;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;
use warpwright_testing::ptxas::Assembler;

/// Lengths of one message and several, of whole vectors and not; the last ones take several rounds of
/// all CTAs.
const LENGTHS: [usize; 9] = [1, 7, 8, 2048, 2050, 4096, 100_003, 400_000, 1];

/// Number `at` of a rank in a message. Sums of them are exact in f32, and mostly not in 16 bits.
fn number(rank: usize, message: usize, at: usize) -> f64 {
    ((at * 37 + rank * 101 + message * 11) % 255) as f64 / 64.0 * [1.0, -0.75][rank % 2]
}

/// What a rank makes of all messages: stored ones, and each added to the numbers of rank 9.
fn reduced<T: RowElement + HostNumber + Storable>(devices: &[Device], lengths: &[usize]) -> Vec<Vec<Vec<T>>> {
    let ranks = Communicator::of_devices(devices).expect("peers");
    let of_rank = |device: &Device, communicator: &Communicator| {
        let (operations, stream) = (Operations::new(device), device.stream().expect("a stream"));
        let numbers = |rank, message, length| {
            let numbers: Vec<T> = (0..length).map(|at| T::nearest(number(rank, message, at))).collect();
            device.buffer_from(&numbers).expect("it fits")
        };
        let message = |(message, &length): (usize, &usize)| {
            let x = numbers(communicator.rank() as usize, message, length);
            let mut y = numbers(9, message, length);
            let reduce = |y: &mut _| match message % 2 {
                0 => communicator.all_reduce(&operations, &stream, &x, y),
                _ => communicator.all_reduce_add(&operations, &stream, &x, y),
            };
            reduce(&mut y).expect("it runs");
            y.to_vec().expect("it ran")
        };
        lengths.iter().enumerate().map(message).collect()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = devices
            .iter()
            .zip(&ranks)
            .map(|(device, rank)| scope.spawn(move || of_rank(device, rank)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn expect_sums<T: RowElement + HostNumber + Storable>(devices: &[Device], lengths: &[usize]) {
    let found = reduced::<T>(devices, lengths);
    for (message, &length) in lengths.iter().enumerate() {
        for at in 0..length {
            let ranks = (0..devices.len()).chain((message % 2 == 1).then_some(9));
            let exact = ranks.map(|rank| T::nearest(number(rank, message, at)).exact()).sum();
            let expected = T::nearest(exact).exact();
            for (rank, found) in found.iter().enumerate() {
                let what =
                    || format!("rank {rank} of {}, {} number {at} of {length}", devices.len(), T::NAME);
                assert_eq!(found[message][at].exact(), expected, "{}", what());
            }
        }
    }
}

fn peers(count: u32) -> Vec<Device> {
    Device::peers("emu:h200", count).expect("they start")
}

#[test]
fn every_rank_has_the_sum_of_all() {
    expect_sums::<f32>(&peers(2), &LENGTHS);
    expect_sums::<bf16>(&peers(2), &LENGTHS);
    expect_sums::<f16>(&peers(4), &LENGTHS[..7]);
    expect_sums::<bf16>(&peers(3), &[5, 3000]);
    expect_sums::<f32>(&peers(8), &[64, 9]);
}

#[test]
fn gpus_have_the_sum_of_all() {
    let Some(count) = warpwright_testing::several_gpus(Device::cuda_count().unwrap_or(0)) else { return };
    let devices = Device::peers("cuda:0", count.min(8)).expect("peers");
    let lengths: Vec<usize> = (0..40).flat_map(|_| LENGTHS).collect();
    expect_sums::<f32>(&devices, &lengths);
    expect_sums::<bf16>(&devices, &lengths);
    expect_sums::<f16>(&devices[..2], &lengths);
}

#[test]
fn checks_find_nothing_under_any_schedule() {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(3)] {
        let h200 = Arch::named("h200").expect("a known GPU");
        let devices = Device::emulated_peers(h200, schedule, 2).expect("they start");
        let devices: Vec<_> = devices.into_iter().map(|device| device.checked().expect("emulated")).collect();
        expect_sums::<bf16>(&devices, &[2048, 7, 5000]);
    }
}

/// A graph has the same arguments at each launch: the rounds are counted on the device.
#[test]
fn graphs_reduce_again_and_again() {
    let devices = peers(2);
    let ranks = Communicator::of_devices(&devices).expect("peers");
    let of_rank = |device: &Device, communicator: &Communicator| {
        let (operations, stream) = (Operations::new(device), device.stream().expect("a stream"));
        let x = device.buffer_from(&[1.0f32 + communicator.rank() as f32; 300]).expect("it fits");
        let mut y = device.zeros::<f32>(300).expect("it fits");
        let graph = stream
            .capture(|stream| {
                communicator.all_reduce_add(&operations, stream, &x, &mut y)?;
                communicator.all_reduce_add(&operations, stream, &x, &mut y)
            })
            .expect("it is recorded");
        for _ in 0..5 {
            graph.launch(&stream).expect("it runs");
        }
        assert_eq!(y.to_vec().expect("it ran"), [30.0; 300]);
    };
    thread::scope(|scope| {
        for (device, rank) in devices.iter().zip(&ranks) {
            scope.spawn(move || of_rank(device, rank));
        }
    });
}

#[test]
fn gathered_rows_are_those_of_all_ranks() {
    let gather = |device: &Device, communicator: &Communicator, rows: usize, columns: usize| {
        let (operations, stream) = (Operations::new(device), device.stream().expect("a stream"));
        let rank = communicator.rank() as usize;
        let x: Vec<f32> = (0..rows * columns).map(|at| number(rank, 0, at) as f32).collect();
        let x = device.buffer_from(&x).expect("it fits");
        let mut y = device.uninitialized(x.len() * communicator.ranks() as usize).expect("it fits");
        communicator.all_gather(&operations, &stream, (&x, columns as u32), &mut y).expect("it runs");
        y.to_vec().expect("it ran")
    };
    for (ranks, rows, columns) in [(2, 3, 8), (2, 1, 50_001), (4, 5, 60), (2, 40, 12_000)] {
        let devices = peers(ranks);
        let communicators = Communicator::of_devices(&devices).expect("peers");
        let found: Vec<Vec<f32>> = thread::scope(|scope| {
            let start = |(device, rank)| scope.spawn(move || gather(device, rank, rows, columns));
            let threads: Vec<_> = devices.iter().zip(&communicators).map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let ranks = 0..ranks as usize;
        let row = |row: usize| {
            let part = move |rank| (0..columns).map(move |at| number(rank, 0, row * columns + at) as f32);
            ranks.clone().flat_map(part)
        };
        let expected: Vec<f32> = (0..rows).flat_map(row).collect();
        assert!(found.iter().all(|found| *found == expected), "{rows} rows of {columns}");
    }
}

#[test]
fn a_rank_that_aborts_ends_the_waits_of_the_others() {
    let devices = peers(2);
    let communicators = Communicator::of_devices(&devices).expect("peers");
    let rank = |rank: usize| {
        let (device, communicator) = (&devices[rank], &communicators[rank]);
        let (operations, stream) = (Operations::new(device), device.stream().expect("a stream"));
        let x = device.zeros::<f32>(5000).expect("it fits");
        let mut y = device.zeros(5000).expect("it fits");
        // The second rank makes one call only.
        for call in 0..4 {
            if rank == 1 && call == 1 {
                return communicator.abort(&operations, &stream).expect("it runs");
            }
            communicator.all_reduce(&operations, &stream, &x, &mut y).expect("it ends");
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| rank(0));
        rank(1);
    });
}

#[test]
fn kernels_assemble_without_spills() {
    let Some(ptxas) = Assembler::from_environment() else { return };
    let devices = peers(2);
    let communicators = Communicator::of_devices(&devices).expect("peers");
    let launch = |device: &Device, communicator: &Communicator| {
        let (operations, stream) = (Operations::new(device), device.stream().expect("a stream"));
        let (_, log) = device.log_launches(|| {
            for length in [7, 4096, 400_000] {
                let x = device.zeros::<bf16>(length).expect("it fits");
                let mut y = device.zeros(length).expect("it fits");
                communicator.all_reduce_add(&operations, &stream, &x, &mut y).expect("it runs");
            }
            let x = device.zeros::<f32>(64).expect("it fits");
            let mut y = device.zeros(128).expect("it fits");
            communicator.all_gather(&operations, &stream, (&x, 64), &mut y).expect("it runs");
        });
        log
    };
    let log = thread::scope(|scope| {
        scope.spawn(|| launch(&devices[1], &communicators[1]));
        launch(&devices[0], &communicators[0])
    });
    for record in log {
        let target = record.capability.target;
        ptxas.assemble_without_spills(target, &record.ptx).unwrap_or_else(|messages| panic!("{messages}"));
    }
}

#[test]
fn wrong_ranks_and_lengths_are_refused() {
    let text = |error: warpwright_kernels::operations::OperationError| error.to_string();
    let alone = Communicator::of_devices(&peers(1)).err().map(text);
    assert_eq!(alone.as_deref(), Some("a collective operation: 1 devices; give 2 to 8"));
    let strangers: Vec<_> = (0..2).map(|_| Device::named("emu:h200").expect("it starts")).collect();
    let refused = Communicator::of_devices(&strangers).err().map(text).expect("two hosts");
    assert!(refused.contains("cannot access each other's memory"), "{refused}");
    let devices = peers(2);
    let ranks = Communicator::of_devices(&devices).expect("peers");
    let (operations, stream) = (Operations::new(&devices[0]), devices[0].stream().expect("a stream"));
    let (x, mut y) =
        (devices[0].zeros::<f32>(4).expect("it fits"), devices[0].zeros::<f32>(5).expect("it fits"));
    let refused = ranks[0].all_reduce_add(&operations, &stream, &x, &mut y).expect_err("two lengths");
    assert_eq!(text(refused), "the result of an all-reduce: expected a length of 4, found 5");
    let refused = ranks[0].all_gather(&operations, &stream, (&x, 3), &mut y).expect_err("no whole rows");
    assert_eq!(text(refused), "an all-gather: 4 elements are not rows of 3");
    let none = devices[0].zeros::<f32>(0).expect("it fits");
    let mut result = devices[0].zeros::<f32>(0).expect("it fits");
    ranks[0].all_reduce_add(&operations, &stream, &none, &mut result).expect("no elements, no launch");
}

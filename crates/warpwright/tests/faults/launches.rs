//! Row 25, between launches: a kernel that may begin before the one in front of it has ended.

use warpwright::lang::bulk;
use warpwright::lang::fence::fence_mbarrier_init;
use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::{Device, Error};

use crate::faults::fault::{FromArrayToArray, Staged, Twin, faults, input};

faults! {
    sum_read_before_the_wait: [25], "overlap", run_twice;
    launch_awaited_by_one_warp: [25], "overlap", run_twice;
    sums_copied_before_the_wait: [25], "overlap", run_twice;
    successor_that_loads_through_the_read_only_path: [25], "overlap", run_chain;
    launch_begun_before_its_predecessor_waited: [25], "overlap", run_three;
    halves_on_two_streams: [25], "stream-order", run_on_two_streams;
}

type FromHalves = Staged<(In<u32>, Out<u32>, u32)>;

/// A kernel that adds an array to another, launched twice; the second launch overlaps the first.
fn run_twice(device: &Device, kernel: FromArrayToArray) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let given = device.buffer_from(&(0..64).map(input).collect::<Vec<_>>())?;
    let mut sums = device.buffer_from(&[0u32; 64])?;
    let stream = device.stream()?;
    kernel.launch(&stream, kernel.shape(1).block(64).overlapping(), (&given, &mut sums))?;
    kernel.launch(&stream, kernel.shape(1).block(64).overlapping(), (&given, &mut sums))?;
    assert_eq!(sums.to_vec()?, (0..64).map(|i| 2 * input(i)).collect::<Vec<_>>());
    Ok(())
}

/// A kernel that adds 1 to each element, launched twice; the second launch overlaps the first, and
/// reads what it writes.
fn run_chain(device: &Device, kernel: FromArrayToArray) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let given = device.buffer_from(&(0..64).map(input).collect::<Vec<_>>())?;
    let mut first = device.buffer_from(&[0u32; 64])?;
    let mut second = device.buffer_from(&[0u32; 64])?;
    let stream = device.stream()?;
    let shape = kernel.shape(1).block(64).overlapping();
    kernel.launch(&stream, shape, (&given, &mut first))?;
    kernel.launch(&stream, shape, (&first, &mut second))?;
    assert_eq!(second.to_vec()?, (0..64).map(|i| 2 + input(i)).collect::<Vec<_>>());
    Ok(())
}

/// A kernel that adds 1 to each element, launched three times, each overlapping the one in front.
/// The third reads what the first writes, and nothing of the second.
fn run_three(device: &Device, kernel: FromArrayToArray) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let given = device.buffer_from(&(0..64).map(input).collect::<Vec<_>>())?;
    let mut sums = [(); 3].map(|()| device.buffer_from(&[0u32; 64]));
    let [Ok(first), Ok(second), Ok(third)] = &mut sums else { panic!("they fit") };
    let stream = device.stream()?;
    let shape = kernel.shape(1).block(64).overlapping();
    kernel.launch(&stream, shape, (&given, &mut *first))?;
    kernel.launch(&stream, shape, (&given, second))?;
    kernel.launch(&stream, shape, (&*first, &mut *third))?;
    assert_eq!(third.to_vec()?, (0..64).map(|i| 2 + input(i)).collect::<Vec<_>>());
    Ok(())
}

/// A kernel that takes one half of its input to the output, launched on two streams, once for each
/// half.
fn run_on_two_streams(device: &Device, kernel: FromHalves) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let given = device.buffer_from(&(0..64).map(input).collect::<Vec<_>>())?;
    let mut taken = device.buffer_from(&[0u32; 64])?;
    let streams = [device.stream()?, device.stream()?];
    for (half, stream) in (0..).zip(&streams) {
        kernel.launch(stream, kernel.shape(1).block(32), (&given, &mut taken, half))?;
    }
    assert_eq!(taken.to_vec()?, (0..64).map(input).collect::<Vec<_>>());
    Ok(())
}

impl Twin {
    /// Each launch takes its half, and may run beside the other one.
    #[kernel]
    fn halves_on_two_streams(&self, input: &Global<u32>, taken: &mut Global<u32>, half: u32) {
        let thread = thread_idx().x;
        let from = half * 32 + thread;
        if self.mended {
            taken[from] = input[from];
        } else {
            taken[thread] = input[from]; // (1)
        }
    }

    /// Each thread adds an element.
    #[kernel]
    fn sum_read_before_the_wait(&self, input: &Global<u32>, sums: &mut Global<u32>) {
        let thread = thread_idx().x;
        if self.mended {
            launch::grid_dependency_wait();
        }
        let sum = sums[thread]; // (1)
        if !self.mended {
            launch::grid_dependency_wait();
        }
        sums[thread] = sum + input[thread]; // (2)
    }

    /// A warp waits for all, and does not tell them.
    #[kernel]
    fn launch_awaited_by_one_warp(&self, input: &Global<u32>, sums: &mut Global<u32>) {
        let thread = thread_idx().x;
        if thread < 32 {
            launch::grid_dependency_wait();
        }
        if self.mended {
            sync_threads();
        }
        sums[thread] = sums[thread] + input[thread]; // (1) (2)
    }

    /// A thread brings the sums to shared memory.
    #[kernel]
    fn sums_copied_before_the_wait(&self, input: &Global<u32>, sums: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let barrier = Mbarrier::new();
        let thread = thread_idx().x;
        if thread == 0 {
            barrier.init(1);
            fence_mbarrier_init();
            if self.mended {
                launch::grid_dependency_wait();
            }
            barrier.arrive_and_expect(256);
            bulk::load(*sums, 64, tile, barrier); // (1)
        }
        launch::grid_dependency_wait();
        sync_threads();
        barrier.wait_parity(0);
        sums[thread] = tile[thread] + input[thread]; // (2)
    }

    /// No wait orders a load through the read-only path.
    #[kernel]
    fn successor_that_loads_through_the_read_only_path(&self, input: &Global<u32>, sums: &mut Global<u32>) {
        let thread = thread_idx().x;
        launch::grid_dependency_wait();
        let element = input.at(thread);
        let value = if self.mended { element.load() } else { element.load_read_only() }; // (1)
        sums[thread] = value + 1; // (2)
    }

    /// The elements are read before the wait, since the predecessor does not write them.
    #[kernel]
    fn launch_begun_before_its_predecessor_waited(&self, input: &Global<u32>, sums: &mut Global<u32>) {
        let thread = thread_idx().x;
        let value = input[thread]; // (1)
        if !self.mended {
            launch::grid_dependency_launch();
        }
        launch::grid_dependency_wait();
        if self.mended {
            launch::grid_dependency_launch();
        }
        sums[thread] = value + 1; // (2)
    }
}

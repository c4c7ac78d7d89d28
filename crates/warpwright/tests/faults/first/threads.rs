//! Threads that share memory: barriers, counters, indices.

use warpwright::lang::access::Ordering;
use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::fault::input;
use crate::faults::first::{Error, Mistaken};

/// Elements of the input and of the output.
const LENGTH: u32 = 256;

/// The sum of a value and the neighboring lane's.
#[device]
fn with_neighbor(value: Reg<u32>) -> Reg<u32> {
    value + value.shuffle_xor(1)
}

impl Mistaken {
    /// Counts elements.
    #[kernel]
    fn count(&self, x: &Global<u32>, y: &mut Global<u32>) {
        let thread = thread_idx().x;
        if self.is("lanes update one element") {
            launch::threads(32);
            y[0] = y[0] + 1;
        } else if self.is("lanes update one element by +=") {
            launch::threads(32);
            y[0] += x[thread];
        } else if self.is("warps update one element") {
            launch::threads(128);
            y[0] = y[0] + 1;
        } else if self.is("blocks update one element") {
            launch::threads(32);
            if thread == 0 {
                y[0] += 1;
            }
        } else if self.is("lanes update a shared counter") {
            launch::threads(32);
            let counter = shared_array::<u32>(1);
            if thread == 0 {
                counter[0] = constant(0u32);
            }
            sync_threads();
            counter[0] += 1;
            sync_threads();
            y[thread] = counter[0];
        } else if self.is("histogram") {
            launch::threads(64);
            let bins = shared_array::<u32>(8);
            if thread < 8 {
                bins[thread] = constant(0u32);
            }
            sync_threads();
            bins[x[thread] % 8] += 1;
            sync_threads();
            if thread < 8 {
                y[thread] = bins[thread];
            }
        } else if self.is("update in two lines") {
            launch::threads(32);
            let old = y[0];
            y[0] = old + 1;
        } else if self.is("lanes write one element") {
            launch::threads(32);
            let tile = shared_array::<u32>(1);
            tile[0] = x[thread];
            sync_warp(ALL_LANES);
            y[thread] = tile[0];
        } else if self.is("lanes write one of two elements") {
            launch::threads(32);
            y[thread % 2] = x[thread];
        } else if self.is("warps write one element") {
            launch::threads(64);
            let tile = shared_array::<u32>(1);
            tile[0] = x[thread];
            sync_threads();
            y[thread] = tile[0];
        }
    }

    /// Reverses 64 elements by way of shared memory.
    #[kernel]
    fn reverse(&self, x: &Global<u32>, y: &mut Global<u32>) {
        launch::threads(64);
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        if self.is("no write") {
        } else if self.is("half of it written") {
            if thread < 32 {
                tile[thread] = x[thread];
            }
        } else {
            tile[thread] = x[thread];
        }
        if self.is("barrier in a branch") {
            if thread < 32 {
                sync_threads();
            }
        } else if self.is("barrier in half a warp") {
            if thread < 16 {
                sync_threads();
            }
        } else if self.is("warp barrier for a block") {
            sync_warp(ALL_LANES);
        } else if self.is("fence for a barrier") {
            fence_block();
        } else if self.is("barriers in both branches") {
            if thread < 32 {
                sync_threads();
            } else {
                sync_threads();
            }
        } else if self.is("named barrier counts half") {
            NamedBarrier::new(1, 32).sync();
        } else if self.is("different named barriers") {
            barrier_sync(1 + thread / 32, 64);
        } else if !self.is("no barrier") {
            sync_threads();
        }
        if self.is("negative shared index") {
            y[thread] = tile[thread - 1];
        } else if self.is("shared index past the end") {
            y[thread] = tile[64 - thread];
        } else {
            y[thread] = tile[63 - thread];
        }
    }

    /// The sum of 128 elements by halving.
    #[kernel]
    fn halving(&self, x: &Global<u32>, y: &mut Global<u32>) {
        launch::threads(128);
        let sums = shared_array::<u32>(128);
        let thread = thread_idx().x;
        sums[thread] = x[thread];
        if !self.is("no barrier before the loop") {
            sync_threads();
        }
        if self.is("barrier of one lane before an exchange") {
            let most = warp::reduce(x[thread], |a, b| a.max(b));
            if thread % 32 == 0 {
                sums[thread / 32] = most;
            }
            if x[thread] == most {
                sync_threads();
            }
            y[thread] = warp::reduce(sums[thread % 4], |a, b| a.max(b));
        }
        let mut stride = constant(64u32);
        while stride > 0 {
            if thread < stride {
                sums[thread] += sums[thread + stride];
                if self.is("barrier inside the branch of the loop") {
                    sync_threads();
                }
            }
            if !self.is("barrier inside the branch of the loop") && !self.is("no barrier in the loop") {
                sync_threads();
            }
            stride = stride / 2;
        }
        y[thread] = sums[0];
    }

    /// Neighbors in global memory.
    #[kernel]
    fn neighbors(&self, x: &Global<u32>, y: &mut Global<u32>, n: u32) {
        launch::threads(64);
        let thread = block_idx().x * 64 + thread_idx().x;
        if self.is("negative index") {
            y[thread] = x[thread] - x[thread - 1];
        } else if self.is("negative signed index") {
            y[thread] = x[thread.bit_cast::<i32>() - 1];
        } else if self.is("negative index of a write") {
            y[thread - 1] = x[thread];
        } else if self.is("no bounds check") {
            y[thread] = x[thread];
        } else if self.is("bounds off by one") {
            if thread <= n {
                y[thread] = x[thread];
            }
        } else if self.is("stride too large") {
            y[thread] = x[thread * 8];
        } else if self.is("misaligned vector") {
            let [a, b] = (*x + thread).load_vector::<2>();
            y[thread] = a + b;
        }
    }

    /// Publishes through a flag between blocks, and other things of warps.
    #[kernel]
    fn flag(&self, x: &Global<u32>, y: &mut Global<u32>) {
        launch::threads(32);
        let thread = thread_idx().x;
        if self.is("flag without a fence") {
            if block_idx().x == 0 {
                y[thread + 1] = x[thread];
                sync_warp(ALL_LANES);
                if thread == 0 {
                    y.store_with(1u32, Access::new().ordered(Ordering::Relaxed(Scope::Device)));
                }
            } else {
                wait_until(|| y.load_with(Access::new().ordered(Ordering::Relaxed(Scope::Device))).eq(1u32));
                y[thread + 64] = y[thread + 1];
            }
        } else if self.is("flag by a plain store") {
            if block_idx().x == 0 {
                y[thread + 1] = x[thread];
                y[0] = constant(1u32);
            } else {
                wait_until(|| y[0].eq(1u32));
                y[thread + 64] = y[thread + 1];
            }
        } else if self.is("shuffle in a branch") {
            let mut v = x[thread];
            if thread < 16 {
                v = v + v.shuffle_down(16);
            }
            y[thread] = v;
        } else if self.is("exchange of a function in both branches") {
            if x[thread] < 500 {
                y[thread] = with_neighbor(x[thread]);
            } else {
                y[thread] = with_neighbor(1000 - x[thread]);
            }
        } else if self.is("neighbor lanes without a warp barrier") {
            let tile = shared_array::<u32>(32);
            tile[thread] = x[thread];
            y[thread] = tile[31 - thread];
        }
    }
}

impl Mistaken {
    /// Copies small elements.
    #[kernel]
    fn limited(&self, x: &Global<u32>, y: &mut Global<u32>) {
        launch::required_block(8, 4, 1);
        let thread = block_idx().x * 32 + thread_idx().y * 8 + thread_idx().x;
        let limit = if self.is("above the limit") { 45 } else { 1000 };
        device_assert(thread.lt(limit), "an element is above the limit");
        y[thread] = x[thread];
    }
}

type Staged = Result<Kernel<(In<u32>, Out<u32>)>, StagingErrors>;

fn launched(device: &Device, kernel: Staged, blocks: u32) -> Result<Vec<u32>, Error> {
    let kernel = device.compile(&kernel?)?;
    let x = device.buffer_from(&(0..LENGTH).map(input).collect::<Vec<_>>())?;
    let mut y = device.zeros::<u32>(LENGTH as usize)?;
    kernel.launch(&device.stream()?, blocks, (&x, &mut y))?;
    Ok(y.to_vec()?)
}

pub(super) fn count(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let blocks = if mistaken.is("blocks update one element") { 4 } else { 1 };
    launched(device, mistaken.count(), blocks).map(drop)
}

pub(super) fn reverse(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    launched(device, mistaken.reverse(), 1).map(drop)
}

pub(super) fn halving(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    launched(device, mistaken.halving(), 1).map(drop)
}

pub(super) fn flag(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let blocks = if mistaken.name().starts_with("flag") { 2 } else { 1 };
    launched(device, mistaken.flag(), blocks).map(drop)
}

pub(super) fn neighbors(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let kernel = device.compile(&mistaken.neighbors()?)?;
    let x = device.buffer_from(&(0..LENGTH).map(input).collect::<Vec<_>>())?;
    let length = if mistaken.is("bounds off by one") { 100 } else { LENGTH };
    let mut y = device.zeros::<u32>(length as usize)?;
    let blocks = if mistaken.is("no bounds check") { 5 } else { 2 };
    kernel.launch(&device.stream()?, blocks, (&x, &mut y, length))?;
    Ok(())
}

pub(super) fn asserted(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    launched(device, mistaken.limited(), 2).map(drop)
}

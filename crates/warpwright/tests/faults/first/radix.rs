//! A radix pass: a histogram, a scan and a scatter of two arrays on two streams, and a kernel that reads both.

use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Compiled, Device, Stream};

use crate::faults::first::{Error, Mistaken};

const DIGITS: u32 = 16;
const THREADS: u32 = 128;
const WARPS: u32 = THREADS / 32;
const LENGTH: u32 = 1000;
const BLOCKS: u32 = LENGTH.div_ceil(THREADS);

impl Mistaken {
    /// The number of keys of each digit in each block: (digit, block).
    #[kernel]
    fn histogram(&self, keys: &Global<u32>, counts: &mut Global<u32>, length: u32) {
        launch::threads(THREADS);
        let bins = shared_array::<u32>(DIGITS);
        let (thread, block) = (thread_idx().x, block_idx().x);
        if thread < DIGITS {
            bins[thread] = constant(0u32);
        }
        sync_threads();
        let i = block * THREADS + thread;
        if self.is("leaders add plainly") {
            let key = if i < length { keys[i] % DIGITS } else { constant(DIGITS) };
            let same = key.match_any(ALL_LANES);
            if (same & lane_mask_lt()) == 0 && i < length {
                bins[key] += same.count_ones();
            }
        } else if i < length {
            bins.at(keys[i] % DIGITS).reduce_add(1);
        }
        sync_threads();
        if thread < DIGITS {
            counts[thread * BLOCKS + block] = bins[thread];
        }
    }

    /// The sum of all counts before each.
    #[kernel]
    fn offsets(&self, counts: &Global<u32>, offsets: &mut Global<u32>) {
        launch::threads(THREADS);
        let thread = thread_idx().x;
        if self.is("leaves before the scan") {
            if thread >= DIGITS * BLOCKS - 28 {
                return;
            }
        }
        let count = counts[thread];
        offsets[thread] = block::exclusive_sum(count);
    }

    /// Keys in the order of their digits.
    #[kernel]
    fn scatter(&self, keys: &Global<u32>, offsets: &Global<u32>, sorted: &mut Global<u32>, length: u32) {
        launch::threads(THREADS);
        let bins = shared_array::<u32>(WARPS * DIGITS);
        let (thread, block) = (thread_idx().x, block_idx().x);
        let (lane, warp) = (thread % 32, thread / 32);
        let i = block * THREADS + thread;
        if lane < DIGITS {
            bins[warp * DIGITS + lane] = constant(0u32);
        }
        if !self.is("no warp barrier after clearing") {
            sync_warp(ALL_LANES);
        }
        let mut digit = constant(DIGITS);
        let mut key = constant(0u32);
        let mut same = constant(0u32);
        if i < length {
            key = keys[i];
            digit = key % DIGITS;
            if self.is("match in a branch") {
                same = digit.match_any(ALL_LANES);
            }
        }
        if !self.is("match in a branch") {
            same = digit.match_any(ALL_LANES);
        }
        let rank = (same & lane_mask_lt()).count_ones();
        if rank == 0 && i < length {
            bins[warp * DIGITS + digit] = same.count_ones();
        }
        sync_threads();
        if i < length {
            let mut to = offsets[digit * BLOCKS + block] + rank;
            for before in 0..warp {
                to += bins[before * DIGITS + digit];
            }
            sorted[to] = key;
        }
    }

    /// z = x + y.
    #[kernel]
    fn joined(&self, x: &Global<u32>, y: &Global<u32>, z: &mut Global<u32>, length: u32) {
        launch::threads(THREADS);
        let i = block_idx().x * THREADS + thread_idx().x;
        if i < length {
            z[i] = x[i] + y[i];
        }
    }
}

type Staged<A> = Result<Kernel<A>, StagingErrors>;
type HistogramArguments = (In<u32>, Out<u32>, u32);
type OffsetsArguments = (In<u32>, Out<u32>);
type ScatterArguments = (In<u32>, In<u32>, Out<u32>, u32);

/// The kernels of a pass.
struct Pass {
    histogram: Compiled<HistogramArguments>,
    offsets: Compiled<OffsetsArguments>,
    scatter: Compiled<ScatterArguments>,
}

impl Pass {
    fn launch(
        &self,
        stream: &Stream,
        keys: &Buffer<u32>,
        counts: &mut Buffer<u32>,
        offsets: &mut Buffer<u32>,
        sorted: &mut Buffer<u32>,
        blocks: u32,
    ) -> Result<(), Error> {
        self.histogram.launch(stream, blocks, (keys, &mut *counts, LENGTH))?;
        self.offsets.launch(stream, 1, (&*counts, &mut *offsets))?;
        self.scatter.launch(stream, blocks, (keys, &*offsets, sorted, LENGTH))?;
        Ok(())
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let histogram: Staged<HistogramArguments> = mistaken.histogram();
    let offsets: Staged<OffsetsArguments> = mistaken.offsets();
    let scatter: Staged<ScatterArguments> = mistaken.scatter();
    let pass = Pass {
        histogram: device.compile(&histogram?)?,
        offsets: device.compile(&offsets?)?,
        scatter: device.compile(&scatter?)?,
    };
    let joined = device.compile(&mistaken.joined()?)?;
    let key = |i: u32| i.wrapping_mul(2_654_435_761) >> 20;
    let keys: Vec<u32> = (0..LENGTH).map(key).collect();
    let others: Vec<u32> = (0..LENGTH).map(|i| key(i + LENGTH)).collect();
    let (first, second) = (device.stream()?, device.stream()?);
    let table = (DIGITS * BLOCKS) as usize;
    let length = LENGTH as usize;
    let (keys_there, others_there) = (device.buffer_from(&keys)?, device.buffer_from(&others)?);
    let (mut counts, mut offsets) = (device.uninitialized(table)?, device.uninitialized(table)?);
    let (mut x, mut y) = (device.uninitialized(length)?, device.uninitialized(length)?);
    let mut z = device.uninitialized::<u32>(length)?;
    let blocks = if mistaken.is("one block too few") { BLOCKS - 1 } else { BLOCKS };
    pass.launch(&first, &keys_there, &mut counts, &mut offsets, &mut x, blocks)?;
    let (mut other_counts, mut other_offsets) = (device.uninitialized(table)?, device.uninitialized(table)?);
    let early = second.record()?;
    if mistaken.is("one table for both streams") {
        pass.launch(&second, &others_there, &mut counts, &mut offsets, &mut y, BLOCKS)?;
    } else {
        pass.launch(&second, &others_there, &mut other_counts, &mut other_offsets, &mut y, BLOCKS)?;
    }
    if mistaken.is("event of before") {
        first.wait(&early)?;
    } else {
        first.wait(&second.record()?)?;
    }
    joined.launch(&first, BLOCKS, (&x, &y, &mut z, LENGTH))?;
    let mut back = device.host_buffer::<u32>(length)?;
    let reading = if mistaken.is("copied by the other stream") { &second } else { &first };
    reading.copy_to_host(&mut back, &z)?;
    let found = back.as_slice()?.to_vec();
    let sorted = |keys: &[u32]| {
        let mut keys = keys.to_vec();
        keys.sort_by_key(|key| key % DIGITS);
        keys
    };
    let expected: Vec<u32> = sorted(&keys).iter().zip(sorted(&others)).map(|(a, b)| a + b).collect();
    assert_eq!(found, expected, "{}", mistaken.name());
    Ok(())
}

//! Reductions, scans and broadcasts over warps and blocks, and atomic operations: compared with
//! loops over the threads, for block sizes about the multiples of a warp.

use warpwright_lang::element::f16;
use warpwright_lang::pointer::Global;
use warpwright_lang::special::thread_idx;
use warpwright_lang::value::constant;
use warpwright_lang::{Reg, block, device, kernel, launch, warp};

use crate::emulated;

/// The block, and whether it is a single warp that makes the calls of `warp`.
struct Collectives {
    block: [u32; 3],
    of_warp: bool,
}

/// x -> x * factor + addend, one after another: associative, and no two commute.
#[device]
fn then(first: (Reg<u32>, Reg<u32>), second: (Reg<u32>, Reg<u32>)) -> (Reg<u32>, Reg<u32>) {
    (first.0 * second.0, first.1 * second.0 + second.1)
}

const OF_WORDS: usize = 12;
const OF_LONGS: usize = 3;
const ROUNDS: usize = 2;

impl Collectives {
    /// Everything twice, so that shared memory is used again.
    #[kernel]
    fn run(&self, x: &Global<u32>, words: &mut Global<u32>, longs: &mut Global<u64>) {
        let [width, height, depth] = self.block;
        launch::required_block(width, height, depth);
        let threads = width * height * depth;
        let thread = thread_idx().x + thread_idx().y * width + thread_idx().z * (width * height);
        for round in 0..constant(ROUNDS as u32) {
            let at = thread + round * threads;
            let mine = x[at];
            let map = (mine | 1, mine >> 3);
            let none = (constant(1u32), constant(0u32));
            let small = (mine >> 20) as i8;
            let half = (mine >> 24) as f16;
            let wide = mine as u64 * 3_000_000_000u64;
            let (reduced, inclusive, exclusive, sent, sum, least, most, flags, long) = if self.of_warp {
                let lanes = warp::Lanes::first(threads);
                (
                    lanes.reduce(map, then),
                    lanes.inclusive_scan(map, then),
                    lanes.exclusive_scan(map, none, then),
                    lanes.broadcast(map, threads / 2),
                    lanes.reduce_sum(mine),
                    lanes.reduce_min(small),
                    lanes.reduce_max(half),
                    lanes.exclusive_sum((mine > 1 << 31) as u32),
                    (lanes.reduce_sum(wide), lanes.inclusive_sum(wide), lanes.reduce_max(wide)),
                )
            } else {
                (
                    block::reduce(map, then),
                    block::inclusive_scan(map, then),
                    block::exclusive_scan(map, none, then),
                    block::broadcast(map, threads / 2),
                    block::reduce_sum(mine),
                    block::reduce_min(small),
                    block::reduce_max(half),
                    block::exclusive_sum((mine > 1 << 31) as u32),
                    (block::reduce_sum(wide), block::inclusive_sum(wide), block::reduce_max(wide)),
                )
            };
            let found = [
                reduced.0,
                reduced.1,
                inclusive.0,
                inclusive.1,
                exclusive.0,
                exclusive.1,
                sent.0,
                sent.1,
                sum,
                least as i32 as u32,
                most as f32 as u32,
                flags,
            ];
            for i in 0..OF_WORDS as u32 {
                words[at * OF_WORDS as u32 + i] = found[i as usize];
            }
            let found = [long.0, long.1, long.2];
            for i in 0..OF_LONGS as u32 {
                longs[at * OF_LONGS as u32 + i] = found[i as usize];
            }
        }
    }
}

fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

fn random(count: usize) -> Vec<u32> {
    let mut state = 0x1234_5678_9abc_def1u64;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        })
        .collect()
}

/// What each thread finds, by a loop over all.
fn expected(x: &[u32]) -> (Vec<u32>, Vec<u64>) {
    let then =
        |a: (u32, u32), b: (u32, u32)| (a.0.wrapping_mul(b.0), a.1.wrapping_mul(b.0).wrapping_add(b.1));
    let map = |x: &u32| (x | 1, x >> 3);
    let all = |x: &[u32]| x.iter().map(map).fold((1, 0), then);
    let wide = |x: &u32| u64::from(*x) * 3_000_000_000;
    let (mut words, mut longs) = (Vec::new(), Vec::new());
    let (reduced, sent) = (all(x), map(&x[x.len() / 2]));
    let sum = x.iter().fold(0, |a: u32, b| a.wrapping_add(*b));
    let least = x.iter().map(|x| (x >> 20) as i8).min().expect("a thread") as i32 as u32;
    let most = x.iter().map(|x| x >> 24).max().expect("a thread");
    let long = |x: &[u32]| x.iter().fold(0, |a: u64, b| a.wrapping_add(wide(b)));
    let (sum_of_long, most_of_long) = (long(x), x.iter().map(wide).max().expect("a thread"));
    for thread in 0..x.len() {
        let (inclusive, exclusive) = (all(&x[..=thread]), all(&x[..thread]));
        let flags = x[..thread].iter().filter(|x| **x > 1 << 31).count() as u32;
        words.extend([reduced.0, reduced.1, inclusive.0, inclusive.1, exclusive.0, exclusive.1]);
        words.extend([sent.0, sent.1, sum, least, most, flags]);
        longs.extend([sum_of_long, long(&x[..=thread]), most_of_long]);
    }
    (words, longs)
}

fn agree(block: [u32; 3], of_warp: bool) {
    let threads = block.iter().product::<u32>() as usize;
    let x = random(ROUNDS * threads);
    let kernel = Collectives { block, of_warp }.run().unwrap_or_else(|errors| panic!("{errors}"));
    let mut buffers =
        [bytemuck::cast_slice(&x).to_vec(), vec![0; 4 * OF_WORDS * x.len()], vec![0; 8 * OF_LONGS * x.len()]];
    emulated::launch(kernel.into_ir(), [1, 1, 1], block, &mut buffers);
    let (mut words, mut longs) = (Vec::new(), Vec::new());
    for of_round in x.chunks(threads) {
        let (more_words, more_longs) = expected(of_round);
        words.extend(more_words);
        longs.extend(more_longs);
    }
    let found: Vec<u32> = numbers(&buffers[1]);
    for (thread, (found, expected)) in found.chunks(OF_WORDS).zip(words.chunks(OF_WORDS)).enumerate() {
        assert_eq!(found, expected, "thread {thread} of {block:?}, of a warp: {of_warp}");
    }
    assert_eq!(numbers::<u64>(&buffers[2]), longs, "{block:?}");
}

#[test]
fn blocks_of_any_size_agree_with_loops() {
    for block in [
        [1, 1, 1],
        [5, 1, 1],
        [32, 1, 1],
        [33, 1, 1],
        [96, 1, 1],
        [70, 1, 1],
        [7, 5, 3],
        [255, 1, 1],
        [32, 2, 16],
    ] {
        agree(block, false);
    }
}

#[test]
fn warps_of_any_size_agree_with_loops() {
    for threads in [1, 2, 5, 16, 31, 32] {
        agree([threads, 1, 1], true);
    }
}

/// Every thread combines its number with one element, by each atomic operation.
#[kernel]
fn atomics(
    x: &Global<f32>,
    singles: &mut Global<f32>,
    doubles: &mut Global<f64>,
    halves: &mut Global<f16>,
    words: &mut Global<u32>,
) {
    launch::threads(256);
    let mine = x[thread_idx().x];
    singles.at(0).reduce_min(mine);
    singles.at(1).reduce_max(mine);
    singles.at(2).atomic_min(mine);
    singles.at(3).atomic_max(mine);
    singles.at(4).atomic_update(|old| old + mine);
    doubles.at(0).reduce_min(mine as f64);
    doubles.at(1).atomic_max(mine as f64);
    halves.at(0).reduce_min(mine as f16);
    halves.at(1).atomic_max(mine as f16);
    words.at(0).reduce_max(mine as u32);
    words.at(1).atomic_update(|old| old ^ mine as u32);
}

#[test]
fn atomic_minima_and_maxima_of_floats_agree_with_loops() {
    for (low, high) in [(-500, 500), (3, 1000), (-1000, -3)] {
        let x: Vec<f32> =
            random(256).iter().map(|x| (low + (x % (high - low) as u32) as i32) as f32).collect();
        let start = 7.0f32;
        let mut buffers = [
            bytemuck::cast_slice(&x).to_vec(),
            bytemuck::cast_slice(&[start; 5]).to_vec(),
            bytemuck::cast_slice(&[f64::from(start); 2]).to_vec(),
            bytemuck::cast_slice(&[f16::from_f32(start); 2]).to_vec(),
            bytemuck::cast_slice(&[7u32; 2]).to_vec(),
        ];
        let kernel = atomics().unwrap_or_else(|errors| panic!("{errors}"));
        emulated::launch(kernel.into_ir(), [1, 1, 1], [256, 1, 1], &mut buffers);
        let (least, most) = x.iter().fold((start, start), |(least, most), x| (least.min(*x), most.max(*x)));
        let sum = x.iter().fold(start, |a, b| a + b);
        let singles: Vec<f32> = numbers(&buffers[1]);
        assert_eq!(singles, [least, most, least, most, sum]);
        assert_eq!(numbers::<f64>(&buffers[2]), [least, most].map(f64::from));
        assert_eq!(numbers::<f16>(&buffers[3]), [least, most].map(f16::from_f32));
        let words: Vec<u32> = numbers(&buffers[4]);
        assert_eq!(words, [most.max(7.0) as u32, x.iter().fold(7, |a, b| a ^ *b as u32)]);
    }
}

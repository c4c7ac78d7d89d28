//! Top-k sampling: the k largest of a row of logits, their probabilities, and one of them at random.
//! A CTA for each row: shared-memory atomics, block scans, reductions and broadcasts. The chapter is
//! `book/src/simt/warps_and_blocks.md`.
//!
//! `cargo run --release -p warpwright --example top_k`

use std::error::Error;

use warpwright::prelude::*;
use warpwright::runtime::Device;

/// What is known when the kernel is built.
struct TopK {
    /// The threads of a CTA, at least 256 and at least `k`.
    threads: u32,
    k: u32,
}

/// The bits of `x` as an integer that is larger where the number is.
#[device]
fn key(x: Reg<f32>) -> Reg<u32> {
    let bits = x.to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 }
}

/// A number in [0, 1) for a seed and a row.
fn uniform(seed: Reg<u32>, row: Reg<u32>) -> Reg<f32> {
    let mut x = seed + row * 0x9e37_79b9;
    x ^= x >> 16;
    x *= 0x7feb_352d;
    x ^= x >> 15;
    (x >> 8).convert::<f32>() * (1.0 / 16_777_216.0)
}

impl TopK {
    /// Logits are (rows, length), row-major; indices and probabilities (rows, k), the largest first,
    /// and of equal logits the one with the smaller index.
    #[kernel]
    fn run(
        &self,
        logits: &Global<f32>,
        indices: &mut Global<u32>,
        probabilities: &mut Global<f32>,
        tokens: &mut Global<u32>,
        length: u32,
        temperature: f32,
        seed: u32,
    ) {
        launch::threads(self.threads);
        let (row, thread) = (block_idx().x, thread_idx().x);
        let logits = logits.at(row as u64 * length as u64);

        // The k-th largest key, eight bits at a time: a histogram of the next digit, over the keys
        // that begin with the digits found so far.
        let counts = shared_array::<u32>(256);
        let found = shared_array::<u32>(2);
        let mut prefix = constant(0u32);
        let mut wanted = constant(self.k);
        for shift in [24u32, 16, 8, 0] {
            if thread < 256 {
                counts[thread] = 0;
            }
            sync_threads();
            let known = u32::MAX.checked_shl(shift + 8).unwrap_or(0);
            for i in (thread..length).step_by(self.threads) {
                let key = key(logits[i]);
                if key & known == prefix {
                    counts.at((key >> shift) & 255).reduce_add(1);
                }
            }
            sync_threads();
            // Thread t takes digit 255 - t, so that the scan counts the larger digits.
            let mut count = constant(0u32);
            if thread < 256 {
                count = counts[255 - thread];
            }
            let through = block::inclusive_sum(count);
            let larger = through - count;
            if larger < wanted && wanted <= through {
                found[0] = 255 - thread;
                found[1] = wanted - larger;
            }
            sync_threads();
            prefix |= found[0] << shift;
            wanted = found[1];
        }

        // Collect, in the order of the indices, the larger keys and the first `wanted` equal ones.
        // One scan counts both: larger keys in the low half of a word, equal ones in the high half.
        let keys = shared_array::<u32>(self.k);
        let positions = shared_array::<u32>(self.k);
        let larger = self.k - wanted;
        let mut before = constant(0u32);
        for start in (0..length).step_by(self.threads) {
            let i = start + thread;
            let mut mine = constant(0u32);
            if i < length {
                mine = key(logits[i]);
            }
            let is_larger = i < length && mine > prefix;
            let is_equal = i < length && mine == prefix;
            // The condition is the same in all threads, so all of them make the calls inside.
            if sync_threads_or(is_larger || is_equal && before >> 16 < wanted) {
                let flags = is_larger as u32 | (is_equal as u32) << 16;
                let sum = block::exclusive_sum(flags);
                let at = before + sum;
                if is_larger {
                    keys[at & 0xffff] = mine;
                    positions[at & 0xffff] = i;
                }
                if is_equal && at >> 16 < wanted {
                    keys[larger + (at >> 16)] = mine;
                    positions[larger + (at >> 16)] = i;
                }
                before += block::broadcast(sum + flags, self.threads - 1);
            }
        }
        sync_threads();

        // Sort by rank: thread t counts the keys that come before its own.
        let sorted = shared_array::<f32>(self.k);
        if thread < self.k {
            let (mine, position) = (keys[thread], positions[thread]);
            let mut rank = constant(0u32);
            for j in 0..constant(self.k) {
                if keys[j] > mine || keys[j] == mine && positions[j] < position {
                    rank += 1;
                }
            }
            sorted[rank] = logits[position];
            indices[row * self.k + rank] = position;
        }
        sync_threads();

        // The softmax of the k logits, and the first of them whose cumulative weight exceeds a
        // random fraction of the total.
        let mut weight = constant(0.0f32);
        if thread < self.k {
            weight = ((sorted[thread] - sorted[0]) / temperature).exp();
        }
        let through = block::inclusive_sum(weight);
        let total = block::broadcast(through, self.threads - 1);
        if thread < self.k {
            probabilities[row * self.k + thread] = weight / total;
        }
        let target = uniform(seed, row) * total;
        let skipped = sync_threads_count(thread < self.k - 1 && through <= target);
        if thread == 0 {
            tokens[row] = indices[row * self.k + skipped];
        }
    }
}

/// `uniform` on the host.
fn uniform_on_host(seed: u32, row: u32) -> f64 {
    let mut x = seed.wrapping_add(row.wrapping_mul(0x9e37_79b9));
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    f64::from(x >> 8) / 16_777_216.0
}

/// Four rows of logits: two of different numbers, one of few, one of equal numbers only.
fn inputs(length: usize) -> Vec<f32> {
    let noise = |i: usize| ((i as u32 + 1).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0;
    let logit = |i: usize| match i / length {
        2 => (noise(i) * 8.0).round(),
        3 => 1.5,
        _ => noise(i).powi(3) * 12.0,
    };
    (0..4 * length).map(logit).collect()
}

/// The outputs of the kernel that are wrong: of 2k + 1 for each row.
pub(crate) fn wrong_elements(device: &Device, length: u32) -> Result<usize, Box<dyn Error>> {
    let (temperature, seed) = (0.8f32, 2026);
    let top = TopK { threads: 512, k: 50 };
    let (logits, k) = (inputs(length as usize), top.k as usize);
    let rows = logits.len() / length as usize;

    let kernel = device.compile(&top.run()?)?;
    let there = device.buffer_from(&logits)?;
    let mut indices = device.uninitialized::<u32>(rows * k)?;
    let mut probabilities = device.uninitialized::<f32>(rows * k)?;
    let mut tokens = device.uninitialized::<u32>(rows)?;
    let arguments = (&there, &mut indices, &mut probabilities, &mut tokens, length, temperature, seed);
    kernel.launch(&device.stream()?, rows as u32, arguments)?;

    let (indices, probabilities, tokens) = (indices.to_vec()?, probabilities.to_vec()?, tokens.to_vec()?);
    let is_close = |found: f32, expected: f64| (f64::from(found) - expected).abs() <= 1e-6;
    let mut wrong = 0;
    for (row, logits) in logits.chunks(length as usize).enumerate() {
        let mut order: Vec<u32> = (0..length).collect();
        let logit = |i: u32| logits[i as usize];
        order.sort_by(|a, b| logit(*b).total_cmp(&logit(*a)).then(a.cmp(b)));
        order.truncate(k);
        let exponent = |i: &u32| f64::from(logit(*i) - logit(order[0])) / f64::from(temperature);
        let weights: Vec<f64> = order.iter().map(|i| exponent(i).exp()).collect();
        let total: f64 = weights.iter().sum();
        let target = uniform_on_host(seed, row as u32);
        let (mut through, mut token_is_right) = (0.0, false);
        for (j, weight) in weights.iter().enumerate() {
            let (index, probability) = (indices[row * k + j], probabilities[row * k + j]);
            wrong += usize::from(index != order[j]);
            wrong += usize::from(!is_close(probability, weight / total));
            // The target may be within a rounding error of the token's interval.
            let begin = through - 1e-5;
            through += weight / total;
            token_is_right |= tokens[row] == order[j] && begin <= target && target <= through + 1e-5;
        }
        wrong += usize::from(!token_is_right);
    }
    Ok(wrong)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    match wrong_elements(&device, 151_936)? {
        0 => println!("{}: every output is right", device.name()),
        wrong => return Err(format!("{wrong} outputs are wrong").into()),
    }
    Ok(())
}

//! Attention of one query per head, its keys split over the blocks of a cluster: each block sends its maximum and
//! its sum to all, and a quarter of the output is added up from the shared memory of all.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const BLOCKS: u32 = 4;
/// Elements of a query, and threads of a block: one for each key, then one for each element.
const DEPTH: u32 = 64;
const HEADS: u32 = 2;
const KEYS: u32 = 230;
/// Elements of the output that a block stores.
const SHARE: u32 = DEPTH / BLOCKS;

impl Mistaken {
    /// o = softmax(q * k^T) * v, for each head.
    #[kernel]
    fn combined(&self, q: &Global<f32>, k: &Global<f32>, v: &Global<f32>, o: &mut Global<f32>, length: u32) {
        launch::threads(DEPTH);
        launch::cluster(BLOCKS, 1, 1);
        let query = shared_array::<f32>(DEPTH);
        let weights = shared_array::<f32>(DEPTH);
        let part = shared_array::<f32>(DEPTH);
        let (maxima, sums) = (shared_array::<f32>(BLOCKS), shared_array::<f32>(BLOCKS));
        let met = Mbarrier::new();
        let (thread, rank, head) = (thread_idx().x, cluster_rank(), block_idx().x / BLOCKS);
        if thread == 0 || self.is("each thread initializes") {
            met.init(if self.is("counts every block") { BLOCKS } else { 1 });
            if !self.is("no fence of the barrier") {
                fence_mbarrier_init();
            }
        }
        if thread < DEPTH / 2 || !self.is("half of the query loaded") {
            query[thread] = q[head * DEPTH + thread];
        }
        if self.is("block barrier at the start") {
            sync_threads();
        } else if self.is("no fence of the barrier") {
            cluster_arrive_relaxed();
            sync_threads();
            cluster_wait();
        } else {
            cluster_sync();
        }

        // The scores of this block's keys, one a thread.
        let key = rank * DEPTH + thread;
        let mut score = constant(f32::NEG_INFINITY);
        if key < length || self.is("keys past the end") {
            let row = (head * length + key) * DEPTH;
            score = constant(0.0f32);
            for i in 0..DEPTH {
                score = score + query[i] * k[row + i];
            }
            if self.is("maximum of the valid keys") {
                score = warp::reduce_max(score);
            }
        }
        let most = block::reduce(score, |a, b| a.max(b));
        let weight = (score - most).exp();
        let sum = block::reduce_sum(weight);
        weights[thread] = weight;

        // All blocks learn the maximum and the sum of each.
        if thread == 0 {
            let bytes = match self.name() {
                "expects one value a block" => 4 * BLOCKS,
                "expects the peers alone" => 8 * (BLOCKS - 1),
                _ => 8 * BLOCKS,
            };
            if self.is("expects no bytes") {
                met.arrive();
            } else {
                met.arrive_and_expect(bytes);
            }
        }
        if thread == 0 || self.is("each thread sends") {
            for to in 0..BLOCKS {
                let to = if self.is("sends to itself") { rank } else { constant(to) };
                let signal = if self.is("signals its own barrier") { rank } else { to };
                let place = if self.is("sends to one place") { constant(0u32) } else { rank };
                maxima.at(place).map_to_block(to).store_async(most, met.at_rank(signal));
                if !self.is("sums not sent") {
                    sums.at(place).map_to_block(to).store_async(sum, met.at_rank(signal));
                }
            }
        }
        match self.name() {
            "not awaited" => {}
            "one thread waits" => {
                if thread == 0 {
                    met.wait_parity(0);
                }
            }
            "waits for the other parity" => met.wait_parity(1),
            _ => met.wait_parity(0),
        }
        let mut highest = maxima[0];
        for other in 1..BLOCKS {
            highest = highest.max(maxima[other]);
        }
        let mut total = constant(0.0f32);
        for other in 0..BLOCKS {
            total = total + sums[other] * (maxima[other] - highest).exp();
        }

        // This block's part of every element.
        if self.is("warps meet for the weights") {
            sync_warp(ALL_LANES);
        } else if !self.is("no barrier before the weights") {
            sync_threads();
        }
        let mut element = constant(0.0f32);
        let valid =
            if self.is("values past the end") { constant(DEPTH) } else { (length - rank * DEPTH).min(DEPTH) };
        for i in 0..valid {
            let row = (head * length + rank * DEPTH + i) * DEPTH;
            element = element + weights[i] * v[row + thread];
        }
        part[thread] = element * (most - highest).exp();
        match self.name() {
            "block barrier before the sum" => sync_threads(),
            "arrives before the sum" => cluster_arrive(),
            "relaxed before the sum" => {
                cluster_arrive_relaxed();
                cluster_wait();
            }
            _ => cluster_sync(),
        }
        if thread < SHARE || self.is("every thread adds up") {
            let mut all = constant(0.0f32);
            for from in 0..BLOCKS {
                let from = if self.is("adds up past the cluster") { from + 1 } else { from };
                all = all + part.map_to_block(from)[rank * SHARE + thread];
            }
            let first = if self.is("shares at one place") { constant(0u32) } else { rank * SHARE };
            o[head * DEPTH + first + thread] = all / total;
        }
        if self.is("arrives before the sum") {
            cluster_wait();
        } else if !self.is("leaves while others add up") {
            cluster_sync();
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let element = |i: u32| (i * 7919 % 17) as f32 / 16.0 - 0.5;
    let values = |length: u32, first: u32| (0..length).map(|i| element(i + first)).collect::<Vec<f32>>();
    let (q, k, v) =
        (values(HEADS * DEPTH, 0), values(HEADS * KEYS * DEPTH, 3), values(HEADS * KEYS * DEPTH, 8));
    let kernel = device.compile(&mistaken.combined()?)?;
    let q_there = match mistaken.is("query not written") {
        true => device.uninitialized::<f32>(q.len())?,
        false => device.buffer_from(&q)?,
    };
    let (k_there, v_there) = (device.buffer_from(&k)?, device.buffer_from(&v)?);
    let mut o = device.uninitialized::<f32>((HEADS * DEPTH) as usize)?;
    let heads = match mistaken.name() {
        "one head launched" => 1,
        "a head too many" => HEADS + 1,
        _ => HEADS,
    };
    let length = if mistaken.is("length of all heads") { HEADS * KEYS } else { KEYS };
    kernel.launch(&device.stream()?, heads * BLOCKS, (&q_there, &k_there, &v_there, &mut o, length))?;
    let found = o.to_vec()?;
    let of_head = (KEYS * DEPTH) as usize;
    let heads = q.chunks(DEPTH as usize).zip(k.chunks(of_head)).zip(v.chunks(of_head));
    for (((q, k), v), found) in heads.zip(found.chunks(DEPTH as usize)) {
        let mut sums = vec![0.0f32; DEPTH as usize];
        let mut total = 0.0;
        for (k, v) in k.chunks(DEPTH as usize).zip(v.chunks(DEPTH as usize)) {
            let weight = k.iter().zip(q).map(|(a, b)| a * b).sum::<f32>().exp();
            total += weight;
            sums.iter_mut().zip(v).for_each(|(sum, value)| *sum += weight * value);
        }
        let is_near = |(found, sum): (&f32, &f32)| (found - sum / total).abs() <= 1e-4;
        assert!(found.iter().zip(&sums).all(is_near), "{}", mistaken.name());
    }
    Ok(())
}

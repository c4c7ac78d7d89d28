//! A step of paged attention for one head: pages of keys and values by `cp.async`, two in flight, and a
//! softmax that runs along.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const HEAD: u32 = 32;
const PAGE: u32 = 32;
const THREADS: u32 = 64;
const PAGES: u32 = 6;
const SEQUENCES: u32 = 2;

impl Mistaken {
    /// o = softmax(q * K^T) * V, where the table says which pages a sequence has.
    #[kernel]
    fn paged(
        &self,
        q: &Global<f32>,
        keys: &Global<f32>,
        values: &Global<f32>,
        table: &Global<u32>,
        lengths: &Global<u32>,
        o: &mut Global<f32>,
        columns: u32,
    ) {
        launch::threads(THREADS);
        let held = if self.is("memory of one page for two") { 1 } else { 2 };
        let k_pages = dynamic_shared_aligned::<f32>(held * PAGE * HEAD, 16);
        let v_pages = dynamic_shared_aligned::<f32>(2 * PAGE * HEAD, 16);
        let scores = shared_array::<f32>(PAGE);
        let query = shared_array::<f32>(HEAD);
        let (thread, sequence) = (thread_idx().x, block_idx().x);
        let length = lengths[sequence];
        let pages = (length + (PAGE - 1)) / PAGE;
        if thread < HEAD {
            query[thread] = q[sequence * HEAD + thread];
        }
        sync_threads();
        let load = |page: Reg<u32>| {
            let from = table[sequence * columns + page];
            for part in 0..PAGE * HEAD / 4 / THREADS {
                let index = (part * THREADS + thread) * 4;
                let source = if self.is("pages counted in elements") {
                    from + index
                } else {
                    from * (PAGE * HEAD) + index
                };
                let to = page % 2 * (PAGE * HEAD) + index;
                copy_async(k_pages.at(to), keys.at(source), 4);
                if !self.is("values not loaded") {
                    copy_async(v_pages.at(to), values.at(source), 4);
                }
            }
            if !self.is("no commit of a page") {
                commit_async_copies();
            }
        };
        load(constant(0u32));
        let mut largest = constant(f32::NEG_INFINITY);
        let mut sum = constant(0.0f32);
        let mut mine = constant(0.0f32);
        for page in 0..pages {
            if self.is("waits for the page before") {
                wait_async_copies(1);
            } else if !self.is("page not awaited") {
                wait_async_copies(0);
            }
            if !self.is("no barrier after the page's wait") {
                sync_threads();
            }
            if page + 1 < pages {
                load(page + 1);
            }
            let base = page % 2 * (PAGE * HEAD);
            if self.is("barrier for the first warp alone") {
                if thread < PAGE {
                    sync_threads();
                }
            }
            if thread < PAGE {
                let mut score = constant(0.0f32);
                for d in 0..HEAD {
                    let d = if self.is("a dimension too many") { d + 1 } else { d };
                    score += query[d] * k_pages[base + thread * HEAD + d];
                }
                let position = page * PAGE + thread;
                scores[thread] = position.lt(length).select(score, f32::NEG_INFINITY);
            }
            if self.is("scores read without a barrier") {
            } else if self.is("scores read after a warp barrier") {
                sync_warp(ALL_LANES);
            } else {
                sync_threads();
            }
            let score = scores[thread % PAGE];
            let mut high = score;
            if self.is("maximum of the valid lanes") {
                if page * PAGE + thread % PAGE < length {
                    high = warp::reduce_max(score);
                }
            } else {
                high = warp::reduce_max(score);
            }
            let next = largest.max(high);
            let scale = (largest - next).exp();
            let weight = (score - next).exp();
            sum = sum * scale + warp::reduce_sum(weight);
            mine = mine * scale;
            for token in 0..PAGE {
                let value = v_pages[base + token * HEAD + thread % HEAD];
                let weight = (scores[token] - next).exp();
                mine += (page * PAGE + token).lt(length).select(weight * value, 0.0f32);
            }
            largest = next;
            sync_threads();
        }
        if self.is("both warps store") {
            o[sequence * HEAD + thread] = mine / sum;
        } else if self.is("output of the first sequence") {
            if thread < HEAD {
                o[thread] = mine / sum;
            }
        } else if thread < HEAD {
            o[sequence * HEAD + thread] = mine / sum;
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let lengths = [70u32, 33];
    let table = if mistaken.is("no page in the table") {
        [4u32, 2, u32::MAX, 5, 1, 0]
    } else {
        [4u32, 2, 3, 5, 1, 0]
    };
    let count = PAGES * PAGE * HEAD;
    let keys: Vec<f32> = (0..count).map(|i| (i * 7919 % 17) as f32 / 16.0 - 0.5).collect();
    let values: Vec<f32> = (0..count).map(|i| (i * 31 % 23) as f32 / 8.0).collect();
    let q: Vec<f32> = (0..SEQUENCES * HEAD).map(|i| (i % 5) as f32 / 4.0 - 0.5).collect();
    let kernel = device.compile(&mistaken.paged()?)?;
    let (q_there, v_there) = (device.buffer_from(&q)?, device.buffer_from(&values)?);
    let k_there = device.buffer_from(&keys)?;
    let (table_there, lengths_there) = (device.buffer_from(&table)?, device.buffer_from(&lengths)?);
    let mut o = device.uninitialized::<f32>((SEQUENCES * HEAD) as usize)?;
    let blocks = if mistaken.is("one sequence launched") { 1 } else { SEQUENCES };
    kernel.launch(
        &device.stream()?,
        blocks,
        (&q_there, &k_there, &v_there, &table_there, &lengths_there, &mut o, 3u32),
    )?;
    let found = o.to_vec()?;
    for sequence in 0..SEQUENCES {
        let at = |token: u32, d: u32| {
            let page = table[(sequence * 3 + token / PAGE) as usize];
            (page * PAGE * HEAD + token % PAGE * HEAD + d) as usize
        };
        let tokens = 0..lengths[sequence as usize];
        let score = |token: u32| {
            (0..HEAD).map(|d| q[(sequence * HEAD + d) as usize] * keys[at(token, d)]).sum::<f32>()
        };
        let weights: Vec<f32> = tokens.clone().map(|token| score(token).exp()).collect();
        let sum: f32 = weights.iter().sum();
        for d in 0..HEAD {
            let expected: f32 =
                tokens.clone().map(|t| weights[t as usize] * values[at(t, d)]).sum::<f32>() / sum;
            let found = found[(sequence * HEAD + d) as usize];
            assert!((found - expected).abs() < 1e-3, "{}: {found} {expected}", mistaken.name());
        }
    }
    Ok(())
}

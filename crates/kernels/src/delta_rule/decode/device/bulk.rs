//! One token of each of many sequences: a CTA has the state of a head in shared
//! memory, which bulk copies load and store.
//!
//! ```text
//! state (key_dim, value_dim) of a head
//! +-------------+
//! |   warp 0    |  a warp: neighboring rows, one after another
//! |   warp 1    |  a lane: neighboring columns of each
//! |     ..      |
//! +-------------+
//! ```
//!
//! The products are those of [`super::clusters`], whose registers hold the state while the CTAs of a
//! cluster wait for one another. Here copies of one CTA of an SM are in flight while another computes,
//! and a CTA has all columns that the norm adds up.
//!
//! The CTAs of the value heads of a key head all convolve q and k while their states arrive. The last of
//! them to read what q and k are convolved from stores the columns that the next token needs.

use warpwright::lang::bulk::{self, bulk_commit, bulk_wait_read};
use warpwright::lang::fence::{fence_mbarrier_init, fence_proxy_async_shared};
use warpwright::lang::mbarrier::Mbarrier;
use warpwright::lang::warp::sync_warp;
use warpwright::prelude::*;

use super::convolution::convolved;
use super::inputs::{ConvInputs, GateInputs, SequenceInputs};
use crate::collective::sum_group;
use crate::delta_rule::decode::problem::DecodeShape;
use crate::delta_rule::problem::EPSILON;
use crate::overlap;
use crate::rows::RowElement;
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bulk {
    shape: DecodeShape,
}

/// Warps of a CTA.
const WARPS: u32 = 8;
/// Neighboring channels that a thread convolves.
const PAIR: u32 = 2;

/// CTAs of an SM: as many as its shared memory holds of 128 x 128 f32, at 80 registers of a thread; in
/// bf16, as many as 64 registers allow.
const fn ctas_per_sm<S: Element>() -> u32 {
    if S::BYTES == 4 { 3 } else { 4 }
}

impl Bulk {
    /// The kernel, if it takes the heads with states of type `S`.
    pub(crate) fn new<S: Element>(shape: DecodeShape) -> Option<Self> {
        let DecodeShape { key_dim, value_dim, .. } = shape;
        let dims_fit = [key_dim, value_dim].iter().all(|dim| matches!(dim, 32 | 64 | 128));
        // A lane has whole words of a row.
        (dims_fit && value_dim / 32 * S::BYTES >= 4).then_some(Self { shape })
    }

    /// What a CTA convolves: a query, a key and a value.
    fn channels(&self) -> u32 {
        2 * self.shape.key_dim + self.shape.value_dim
    }

    /// `conv_states` is (slots, width - 1, columns), `states` (slots, value heads, key_dim, value_dim), `y`
    /// (sequences, value heads, value_dim). `readers` is (sequences, key heads): the CTAs that have read
    /// what q and k are convolved from, zero before and after.
    #[kernel]
    pub(crate) fn run<T: RowElement, S: RowElement>(
        &self,
        conv: ConvInputs<T>,
        inputs: GateInputs<T>,
        sequences: SequenceInputs,
        conv_states: &mut Global<T>,
        states: &mut Global<S>,
        readers: &mut Global<u32>,
        y: &mut Global<T>,
    ) {
        launch::threads(32 * WARPS);
        launch::blocks_per_sm(ctas_per_sm::<S>());
        let DecodeShape { value_heads, key_dim, value_dim, .. } = self.shape;
        let (head, sequence) = (block_idx().x, block_idx().y);
        let (thread, warp, lane) = (thread_idx().x, thread_idx().x / 32, lane_id());
        let (rows, lanes) = (key_dim / WARPS, value_dim / 32);
        let (row, column) = (warp * rows, lane * lanes);
        let (initial, has_zeros) = sequences.initial(sequence);
        let after = sequences.slot(sequence);
        let of_slot = |slot: Reg<u32>| self.shape.slot_of_head(*states, slot, head);

        // What the predecessor does not write: weights, and the states that the step before left.
        let state = dynamic_shared::<S>(key_dim * value_dim);
        let loaded = Mbarrier::new();
        if thread == 0 {
            loaded.init(1);
            fence_mbarrier_init();
            if !has_zeros {
                loaded.arrive_and_expect(key_dim * value_dim * S::BYTES);
                bulk::load(of_slot(initial), key_dim * value_dim, state, loaded);
            }
        }
        // Threads without channels have the last ones, which they do not store.
        let channel = (thread * PAIR).min(self.channels() - PAIR);
        let is_mine = thread.lt(self.channels() / PAIR);
        let conv_column = self.column(channel);
        let window = self.window(self.shape.slot_of_conv(*conv_states, initial).at(conv_column), has_zeros);
        let filters = self.filters(conv.weights.at(conv_column * self.shape.width));
        let rate = -inputs.a_log[head].exp();
        let bias = inputs.dt_bias[head];
        let weights = vector::load_lanes(inputs.norm.at(column), lanes, Access::new());
        overlap::wait(true);
        let newest = load_pair(conv.x.at(sequence.mul_wide(conv.stride)).at(conv_column));
        let [b, a] = inputs.gates_of(sequence, head);
        let first_of_head = head * value_dim + column;
        let z = inputs.z.at(sequence.mul_wide(inputs.z_stride)).at(inputs.z_column + first_of_head);
        let z = vector::load_widened(z, lanes);
        overlap::launch(true);

        // q, k and v.
        let vectors = shared_array::<f32>(self.channels());
        let tokens: Vec<_> = window.iter().chain([&newest]).map(|words| widen::<T>(words)).collect();
        let values = [0, 1].map(|of_pair| {
            let of_channel: Vec<_> = tokens.iter().map(|token| token[of_pair]).collect();
            let (newest, window) = of_channel.split_last().expect("a filter has a width");
            convolved(window, *newest, &filters[of_pair])
        });
        if is_mine {
            vectors.at(channel).store_vector(values);
        }
        sync_threads();
        // Every thread has read what it convolves; the CTA learns the answer at the next barrier.
        let is_last = shared_array::<u32>(1);
        if thread == 0 {
            is_last.store(self.is_last_reader(readers.at(sequence * self.shape.key_heads)));
        }
        let of_lane = |first: u32| {
            let count = key_dim / 32;
            vector::load_lanes(vectors.at(lane * count + first), count, Access::new())
        };
        let (q, k) = (of_lane(0), of_lane(key_dim));
        let v = vector::load_lanes(vectors.at(column + 2 * key_dim), lanes, Access::new());
        let dot = |x: &[Reg<f32>], y: &[Reg<f32>]| {
            let mine = x.iter().zip(y).fold(constant(0f32), |sum, (x, y)| x.mul_add(*y, sum));
            sum_group(mine, 32)
        };
        let of_key = (dot(&k, &k) + EPSILON).rsqrt();
        let of_query = (dot(&q, &q) + EPSILON).rsqrt() * (1.0 / (key_dim as f32).sqrt());
        let overlap = dot(&q, &k) * (of_key * of_query);
        let decay = (rate * (a + bias).softplus()).exp();
        let beta = b.sigmoid();

        let mine = state.at(row * value_dim + column).cast::<u32>();
        let words_of_row = value_dim * S::BYTES / 4;
        let words = lanes * S::BYTES / 4;
        if has_zeros {
            for i in 0..rows {
                let zeros = vec![constant(0u32); words as usize];
                vector::store_lanes(mine.at(i * words_of_row), &zeros, Access::new());
            }
        } else {
            loaded.wait_parity(0);
        }
        let row_of_lane = |i: u32| -> Vec<Reg<f32>> {
            let words = vector::load_lanes(mine.at(i * words_of_row), words, Access::new());
            words.into_iter().flat_map(|word| S::widen(word)).collect()
        };

        let mut recalled = vec![constant(0f32); lanes as usize];
        let mut read = vec![constant(0f32); lanes as usize];
        // A warp's elements of q or k, of 4 rows.
        let of_rows = |first: u32| vectors.at(row + first).load_vector::<4>();
        for first in (0..rows).step_by(4) {
            let (q, k) = (of_rows(first), of_rows(first + key_dim));
            for (i, (q, k)) in (first..).zip(q.into_iter().zip(k)) {
                for (at, s) in row_of_lane(i).into_iter().enumerate() {
                    recalled[at] = k.mul_add(s, recalled[at]);
                    read[at] = q.mul_add(s, read[at]);
                }
            }
        }
        let sums = shared_array::<f32>(2 * WARPS * value_dim);
        let to = sums.at(warp * (2 * value_dim) + column);
        vector::store_lanes(to, &recalled, Access::new());
        vector::store_lanes(to.at(value_dim), &read, Access::new());
        sync_threads();
        let total = |first: u32| {
            let mut total = vec![constant(0f32); lanes as usize];
            for warp in 0..WARPS {
                let from = sums.at(column + (2 * warp * value_dim + first));
                let of_warp = vector::load_lanes(from, lanes, Access::new());
                total =
                    total.iter().zip(of_warp).map(|(total, of_warp)| *total + of_warp).collect::<Vec<_>>();
            }
            total
        };
        let of_recall = decay * of_key;
        let delta: Vec<Reg<f32>> =
            v.iter().zip(total(0)).map(|(v, recalled)| beta * (*v - of_recall * recalled)).collect();
        for first in (0..rows).step_by(4) {
            for (i, k) in (first..).zip(of_rows(first + key_dim)) {
                let key = k * of_key;
                let row = row_of_lane(i);
                let row: Vec<Reg<f32>> =
                    row.iter().zip(&delta).map(|(s, delta)| key.mul_add(*delta, decay * *s)).collect();
                let words: Vec<Reg<u32>> =
                    row.chunks(4 / S::BYTES as usize).map(|values| S::narrow(values)).collect();
                vector::store_lanes(mine.at(i * words_of_row), &words, Access::new());
            }
        }
        // A warp stores its rows when its lanes have written them.
        fence_proxy_async_shared();
        sync_warp(u32::MAX);
        if lane == 0 {
            let to = of_slot(after).at(row * value_dim);
            bulk::store(to, rows * value_dim, state.at(row * value_dim));
            bulk_commit();
        }
        if warp == 0 {
            let of_old = decay * of_query;
            let o: Vec<Reg<f32>> = delta
                .iter()
                .zip(total(value_dim))
                .map(|(delta, read)| delta.mul_add(overlap, of_old * read))
                .collect();
            let squares = o.iter().fold(constant(0f32), |sum, o| o.mul_add(*o, sum));
            let root = (sum_group(squares, 32) * (1.0 / value_dim as f32) + inputs.epsilon).rsqrt();
            let to = y.at(sequence.mul_wide(value_heads * value_dim)).at(first_of_head);
            for (at, (o, (weight, z))) in o.iter().zip(weights.iter().zip(&z)).enumerate() {
                to.at(at as u32).store((*o * root * *weight * z.silu()).convert::<T>());
            }
        }
        if is_mine & (is_last.load().ne(0u32) | channel.ge(2 * key_dim)) {
            let to = self.shape.slot_of_conv(*conv_states, after).at(conv_column);
            for (at, words) in window[1..].iter().chain([&newest]).enumerate() {
                let to = to.at(at as u32 * self.shape.columns()).cast::<u32>();
                vector::store_lanes(to, words, Access::new());
            }
        }
        if lane == 0 {
            bulk_wait_read(0);
        }
    }
}

#[device]
impl Bulk {
    /// 1 in the last CTA of a key head's to call this, which sets the count of the calls back; else 0.
    /// Called by a thread that has synchronized with those that have read.
    fn is_last_reader(&self, readers: Global<u32>) -> Reg<u32> {
        let (last, count) = (self.shape.group() - 1, readers.at(block_idx().x / self.shape.group()));
        let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
        count.atomic_increment(last, counting).eq(last).select(1u32, 0u32)
    }

    /// The column of the projection of a channel.
    fn column(&self, channel: Reg<u32>) -> Reg<u32> {
        let DecodeShape { key_heads, key_dim, value_dim, .. } = self.shape;
        let head = block_idx().x;
        let of_q = head / self.shape.group() * key_dim + channel;
        // A channel of k is `key_dim` from that of q, its column all queries.
        let of_k = of_q + (key_heads - 1) * key_dim;
        let of_v = head * value_dim + channel + 2 * (key_heads - 1) * key_dim;
        channel.lt(key_dim).select(of_q, channel.lt(2 * key_dim).select(of_k, of_v))
    }

    /// The tokens of two columns before the newest one, as words.
    fn window<T: RowElement>(&self, from: Global<T>, has_zeros: Reg<bool>) -> Vec<Vec<Reg<u32>>> {
        let token = |at: u32| load_pair(from.at(at * self.shape.columns()));
        let or_zeros =
            |words: Vec<Reg<u32>>| words.iter().map(|word| has_zeros.select(0u32, *word)).collect();
        (0..self.shape.width - 1).map(|at| or_zeros(token(at))).collect()
    }

    /// The filters of two columns.
    fn filters<T: RowElement>(&self, from: Global<T>) -> Vec<Vec<Reg<f32>>> {
        let width = self.shape.width;
        let weights: Vec<_> = (0..width).flat_map(|at| widen::<T>(&load_pair(from.at(at * PAIR)))).collect();
        weights.chunks(width as usize).map(<[_]>::to_vec).collect()
    }
}

/// The words of two neighboring elements.
#[track_caller]
fn load_pair<T: RowElement>(from: Global<T>) -> Vec<Reg<u32>> {
    vector::load_lanes(from.cast::<u32>(), PAIR * T::BYTES / 4, Access::new())
}

/// The elements of words.
#[track_caller]
fn widen<T: RowElement>(words: &[Reg<u32>]) -> Vec<Reg<f32>> {
    words.iter().flat_map(|word| T::widen(*word)).collect()
}

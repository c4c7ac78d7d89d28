//! One token of each sequence: a CTA has some columns of a head's state, a thread 8 rows of 4 columns.
//!
//! ```text
//! state (key_dim, value_dim) of a head   a CTA: `columns`        a thread: 8 rows, 16 bytes
//! +---+---+                              +--------+
//! |   |   |                      ->      | row 0  |  threads side by side along the columns
//! | 0 | 1 |  CTAs                        | row 8  |
//! |   |   |                              |   ..   |  groups of threads along the rows
//! +---+---+                              +--------+
//! ```
//!
//! Both products with the state are taken of the state as it was, so that one reduction serves both:
//!
//! ```text
//! r = Sᵀ k, w = Sᵀ q, k·k, q·q, q·k     sums over rows of what registers hold
//! δ = β (v - e^g r)
//! o = e^g w + δ (q·k)                   as S' = e^g S + k δᵀ
//! ```
//!
//! The CTAs of the value heads of a key head are a cluster. They all convolve q and k, whose columns the
//! first stores when all have read those before; the CTAs of a value head add up the squares of o.

use warpwright::prelude::*;

use super::convolution::{convolved, moved};
use super::inputs::{ConvInputs, GateInputs, SequenceInputs};
use crate::delta_rule::decode::problem::DecodeShape;
use crate::delta_rule::problem::EPSILON;
use crate::overlap;
use crate::rows::RowElement;
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clusters {
    shape: DecodeShape,
    /// Columns of the state of a CTA.
    columns: u32,
}

/// CTAs of a cluster on every GPU that has clusters.
pub(super) const CLUSTER: u32 = 8;
/// Rows and columns of a thread.
const ROWS: u32 = 8;
const LANES: u32 = 4;

impl Clusters {
    /// The kernel for that many sequences; `None` if it does not take the heads.
    pub(crate) fn new(shape: DecodeShape, sequences: u32, sm_count: u32) -> Option<Self> {
        let heads = sequences * shape.value_heads;
        // Smaller CTAs, to occupy every SM.
        let columns = if heads * (shape.value_dim / 64).max(1) < 2 * sm_count { [32, 64] } else { [64, 32] };
        columns.into_iter().map(|columns| Self { shape, columns }).find(Self::is_possible)
    }

    fn is_possible(&self) -> bool {
        let DecodeShape { key_dim, value_dim, .. } = self.shape;
        value_dim.is_multiple_of(self.columns)
            && key_dim.is_multiple_of(ROWS)
            && self.threads().is_multiple_of(32)
            && self.threads() <= 512
            && self.cluster() <= CLUSTER
    }

    /// CTAs of a head.
    fn parts(&self) -> u32 {
        self.shape.value_dim / self.columns
    }

    /// CTAs of a cluster.
    fn cluster(&self) -> u32 {
        self.shape.group() * self.parts()
    }

    /// CTAs of a sequence.
    pub(crate) fn ctas(&self) -> u32 {
        self.shape.value_heads * self.parts()
    }

    /// Threads side by side along the columns.
    fn along_columns(&self) -> u32 {
        self.columns / LANES
    }

    fn threads(&self) -> u32 {
        self.along_columns() * (self.shape.key_dim / ROWS)
    }

    /// What a CTA convolves: a query, a key, and its columns of a value.
    fn channels(&self) -> u32 {
        2 * self.shape.key_dim + self.columns
    }

    /// `conv_states` is (slots, width - 1, columns), `states` (slots, value heads, key_dim, value_dim), `y`
    /// (sequences, value heads, value_dim).
    #[kernel]
    pub(crate) fn run<T: RowElement, S: RowElement>(
        &self,
        conv: ConvInputs<T>,
        inputs: GateInputs<T>,
        sequences: SequenceInputs,
        conv_states: &mut Global<T>,
        states: &mut Global<S>,
        y: &mut Global<T>,
    ) {
        launch::threads(self.threads());
        launch::cluster(self.cluster(), 1, 1);
        cluster_arrive_relaxed();
        let DecodeShape { value_heads, key_dim, value_dim, .. } = self.shape;
        let (sequence, thread) = (block_idx().y, thread_idx().x);
        let (head, part) = (block_idx().x / self.parts(), block_idx().x % self.parts());
        let column = part * self.columns + thread % self.along_columns() * LANES;
        let row = thread / self.along_columns() * ROWS;
        let (initial, has_zeros) = sequences.initial(sequence);
        let after = sequences.slot(sequence);
        let of_slot =
            |slot: Reg<u32>| self.shape.slot_of_head(*states, slot, head).at(row * value_dim + column);

        // What the predecessor does not write: weights, and the states that the step before left. A step
        // ends with kernels that wait for all before them.
        let load_words = |i| {
            vector::load_lanes(
                of_slot(initial).at(i * value_dim).cast::<u32>(),
                LANES * S::BYTES / 4,
                Access::new(),
            )
        };
        let loaded: Vec<Vec<Reg<u32>>> = (0..ROWS).map(load_words).collect();
        let before: Vec<Vec<Reg<f32>>> = loaded
            .iter()
            .map(|row| row.iter().flat_map(|word| S::widen(has_zeros.select(0u32, *word))).collect())
            .collect();
        let channels = self.channels_of_thread();
        let mut windows = vec![];
        let mut filters = vec![];
        for (channel, _) in &channels {
            let column = self.column(*channel);
            windows.push(
                self.shape.window(self.shape.slot_of_conv(*conv_states, initial).at(column), has_zeros),
            );
            filters.push(self.shape.filter(conv.weights, column));
        }
        let rate = -inputs.a_log[head].exp();
        let bias = inputs.dt_bias[head];
        let weights = inputs.norm.at(column).load_vector::<4>();
        overlap::wait(true);
        let x = conv.x.at(sequence.mul_wide(conv.stride));
        let newest: Vec<Reg<f32>> =
            channels.iter().map(|(channel, _)| x.at(self.column(*channel)).load().convert::<f32>()).collect();
        let [b, a] = inputs.gates_of(sequence, head);
        let first_of_head = head * value_dim + column;
        let z = inputs.z.at(sequence.mul_wide(inputs.z_stride)).at(inputs.z_column + first_of_head);
        let z = vector::load_widened(z, LANES);
        overlap::launch(true);

        // q, k and this CTA's columns of v.
        let vectors = shared_array::<f32>(self.channels());
        for (index, (channel, is_mine)) in channels.iter().enumerate() {
            let value = convolved(&windows[index], newest[index], &filters[index]);
            if *is_mine {
                vectors.at(*channel).store(value);
            }
        }
        sync_threads();
        let rows = |first: u32| -> Vec<Reg<f32>> {
            let from = vectors.at(row + first);
            (0..ROWS).step_by(4).flat_map(|i| from.at(i).load_vector::<4>()).collect()
        };
        let (q, k) = (rows(0), rows(key_dim));
        let v = vectors.at(thread % self.along_columns() * LANES + 2 * key_dim).load_vector::<4>();

        let mut recalled = [(); 4].map(|()| constant(0f32));
        let mut read = [(); 4].map(|()| constant(0f32));
        let mut dots = [(); 3].map(|()| constant(0f32));
        for (i, s) in before.iter().enumerate() {
            for lane in 0..LANES as usize {
                recalled[lane] = k[i].mul_add(s[lane], recalled[lane]);
                read[lane] = q[i].mul_add(s[lane], read[lane]);
            }
            for (dot, (x, y)) in dots.iter_mut().zip([(k[i], k[i]), (q[i], q[i]), (q[i], k[i])]) {
                *dot = x.mul_add(y, *dot);
            }
        }
        let [recalled, read, dots] = self.totals(recalled, read, dots);
        let decay = (rate * (a + bias).softplus()).exp();
        let of_key = (dots[0] + EPSILON).rsqrt();
        let of_query = (dots[1] + EPSILON).rsqrt() * (1.0 / (key_dim as f32).sqrt());
        let beta = b.sigmoid();
        let of_recall = decay * of_key;
        let delta: [Reg<f32>; 4] = std::array::from_fn(|lane| beta * (v[lane] - of_recall * recalled[lane]));
        let (of_old, of_new) = (decay * of_query, dots[2] * (of_key * of_query));
        let o: [Reg<f32>; 4] = std::array::from_fn(|lane| delta[lane].mul_add(of_new, of_old * read[lane]));

        // The squares of the CTAs of the head.
        let squares = o.iter().fold(constant(0f32), |sum, o| o.mul_add(*o, sum));
        let squares = self.sum_along_columns(squares);
        let of_parts = shared_array::<f32>(self.parts());
        cluster_wait();
        if thread == 0 {
            let first = cluster_rank() / self.parts() * self.parts();
            for peer in 0..self.parts() {
                of_parts.map_to_block(first + peer).at(part).store(squares);
            }
        }
        cluster_arrive();
        let to = of_slot(after);
        for (i, s) in before.iter().enumerate() {
            let key = k[i] * of_key;
            let after: Vec<Reg<f32>> =
                (0..LANES as usize).map(|lane| key.mul_add(delta[lane], decay * s[lane])).collect();
            let words: Vec<Reg<u32>> =
                after.chunks(4 / S::BYTES as usize).map(|values| S::narrow(values)).collect();
            vector::store_lanes(to.at(i as u32 * value_dim).cast::<u32>(), &words, Access::new());
        }
        cluster_wait();
        let all = (0..self.parts()).fold(constant(0f32), |sum, part| sum + of_parts.at(part).load());
        let root = (all * (1.0 / value_dim as f32) + inputs.epsilon).rsqrt();
        if thread < self.along_columns() {
            let to = y.at(sequence.mul_wide(value_heads * value_dim)).at(first_of_head);
            for (lane, (o, (weight, z))) in o.iter().zip(weights.iter().zip(&z)).enumerate() {
                to.at(lane as u32).store((*o * root * *weight * z.silu()).convert::<T>());
            }
        }
        let is_first = cluster_rank().eq(0u32);
        for (index, (channel, is_mine)) in channels.iter().enumerate() {
            if *is_mine & (is_first | channel.ge(2 * key_dim)) {
                let to = self.shape.slot_of_conv(*conv_states, after).at(self.column(*channel));
                self.shape.store(to, &moved(&windows[index], newest[index]));
            }
        }
    }
}

#[device]
impl Clusters {
    /// The channels that the thread convolves, and whether there are such. Others are the last one.
    fn channels_of_thread(&self) -> Vec<(Reg<u32>, Reg<bool>)> {
        let mut channels = vec![];
        for first in (0..self.channels()).step_by(self.threads() as usize) {
            let channel = thread_idx().x + first;
            channels.push((channel.min(self.channels() - 1), channel.lt(self.channels())));
        }
        channels
    }

    /// The column of the projection of a channel.
    fn column(&self, channel: Reg<u32>) -> Reg<u32> {
        let DecodeShape { key_heads, key_dim, value_dim, .. } = self.shape;
        let (head, part) = (block_idx().x / self.parts(), block_idx().x % self.parts());
        let key_head = head / self.shape.group();
        let of_q = key_head * key_dim + channel;
        // A channel of k is `key_dim` from that of q, its column all queries.
        let of_k = of_q + (key_heads - 1) * key_dim;
        let first = head * value_dim + part * self.columns + 2 * key_heads * key_dim;
        let of_v = first + channel - 2 * key_dim;
        channel.lt(key_dim).select(of_q, channel.lt(2 * key_dim).select(of_k, of_v))
    }

    /// The sum over the threads side by side.
    fn sum_along_columns(&self, value: Reg<f32>) -> Reg<f32> {
        let mut sum = value;
        let mut distance = 1;
        while distance < self.along_columns() {
            sum = sum + sum.shuffle_xor(distance);
            distance *= 2;
        }
        sum
    }

    /// The sums over the CTA's rows: shuffles within a warp, then one exchange through shared memory.
    fn totals(
        &self,
        recalled: [Reg<f32>; 4],
        read: [Reg<f32>; 4],
        dots: [Reg<f32>; 3],
    ) -> [[Reg<f32>; 4]; 3] {
        let along = self.along_columns();
        let mut sums: Vec<Reg<f32>> = recalled.into_iter().chain(read).chain(dots).collect();
        let mut distance = along;
        while distance < 32 {
            sums = sums.iter().map(|sum| *sum + sum.shuffle_xor(distance)).collect::<Vec<_>>();
            distance *= 2;
        }
        // For each warp the sums of each thread along the columns, and the dots.
        let stride = along * 2 * LANES + 4;
        let exchanged = shared_array::<f32>(self.threads() / 32 * stride);
        let (warp, lane) = (thread_idx().x / 32, lane_id());
        let mine = exchanged.at(warp * stride);
        if lane < along {
            mine.at(lane * (2 * LANES)).store_vector([sums[0], sums[1], sums[2], sums[3]]);
            mine.at(lane * (2 * LANES) + LANES).store_vector([sums[4], sums[5], sums[6], sums[7]]);
        }
        if lane == 0 {
            mine.at(along * 2 * LANES).store_vector([sums[8], sums[9], sums[10], sums[10]]);
        }
        sync_threads();
        let mut totals = [[constant(0f32); 4]; 3];
        for warp in 0..self.threads() / 32 {
            let of_warp = exchanged.at(warp * stride);
            let of_columns = of_warp.at(thread_idx().x % along * (2 * LANES));
            let from = [of_columns, of_columns.at(LANES), of_warp.at(along * 2 * LANES)];
            for (total, from) in totals.iter_mut().zip(from) {
                let values = from.load_vector::<4>();
                *total = std::array::from_fn(|lane| total[lane] + values[lane]);
            }
        }
        totals
    }
}

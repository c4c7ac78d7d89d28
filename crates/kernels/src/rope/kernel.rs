//! The kernel: a few heads of a token for each group of threads, 8 columns for each thread.

use warpwright::prelude::*;

use super::problem::{LANES, NO_SLOT, Pairing, RopeShape};
use crate::collective::sum_group;
use crate::overlap;
use crate::rows::{Chunk, Gain, RowElement};

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rope {
    pub(super) shape: RopeShape,
    /// The gain of RMSNorm, if there is one.
    pub(super) norm: Option<Gain>,
    /// Heads of a thread, whose loads are in flight together.
    pub(super) heads: u32,
    /// Whether the launch overlaps its predecessor.
    pub(super) overlaps: bool,
}

/// What the kernel reads.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct RopeInputs<T: Element> {
    queries: Global<T>,
    keys: Global<T>,
    values: Global<T>,
    /// Offset, token stride and head stride of each.
    of_queries: [Reg<u32>; 3],
    of_keys: [Reg<u32>; 3],
    of_values: [Reg<u32>; 3],
    query_weights: Global<T>,
    key_weights: Global<T>,
    rotations: Global<f32>,
    positions: Global<u32>,
    slots: Global<u32>,
    /// Tokens, positions and slots.
    limits: [Reg<u32>; 3],
    epsilon: Reg<f32>,
}

/// Threads of a CTA.
pub(super) const THREADS: u32 = 128;

/// A head of a token, with what of it this thread has loaded.
struct Head<T> {
    /// Among those of Q, K and V.
    index: Reg<u32>,
    /// Among those of its matrix.
    of_matrix: Reg<u32>,
    is_query: Reg<bool>,
    is_value: Reg<bool>,
    /// The thread's columns, and their weights.
    chunk: Chunk<T>,
    weights: Option<Chunk<T>>,
}

impl Rope {
    /// Threads of a head: a power of two, so that a warp has whole heads.
    fn group(&self) -> u32 {
        (self.shape.head_dim / LANES).next_power_of_two()
    }

    /// Threads of a token.
    fn groups_of_token(&self) -> u32 {
        self.shape.heads().div_ceil(self.heads)
    }

    /// CTAs for that many tokens.
    pub(super) fn ctas(&self, tokens: u32) -> u64 {
        (u64::from(tokens) * u64::from(self.groups_of_token())).div_ceil((THREADS / self.group()).into())
    }

    /// `output` is (tokens, query heads, head_dim), the caches are (slots, key heads, head_dim).
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        inputs: RopeInputs<T>,
        output: &mut Global<T>,
        key_cache: &mut Global<T>,
        value_cache: &mut Global<T>,
    ) {
        launch::threads(THREADS);
        let RopeShape { query_heads, key_heads, head_dim, rotary_dim, .. } = self.shape;
        let (groups, thread) = (self.groups_of_token(), thread_idx().x);
        let [tokens, positions, slots] = inputs.limits;
        let group = block_idx().x * (THREADS / self.group()) + thread / self.group();
        let column = thread % self.group() * LANES;
        // All threads take part in exchanges; those without a token have the last one's heads.
        let is_mine = group.lt(tokens * groups) & column.lt(head_dim);
        let group = group.min(tokens * groups - 1);
        let (token, first) = (group / groups, group % groups * self.heads);

        overlap::launch(self.overlaps);
        overlap::wait(self.overlaps);
        // Everything that is loaded, at once; the cosines and sines as soon as the position is there.
        let (slot, mut position) = (inputs.slots[token], constant(0u32));
        if rotary_dim > 0 {
            position = inputs.positions[token];
        }
        let heads: Vec<Head<T>> =
            (0..self.heads).map(|i| self.load(&inputs, token, first + i, column)).collect();
        let mut angles = None;
        if rotary_dim > 0 {
            device_assert(position.lt(positions), "a position has no cosines and sines");
            let row = inputs.rotations.at(position as u64 * u64::from(rotary_dim));
            angles = Some(self.angles(row, column));
        }

        for head in &heads {
            let mut values = self.columns(&head.chunk, column);
            if let (Some(gain), Some(weights)) = (self.norm, &head.weights) {
                let squares = values.iter().fold(constant(0f32), |sum, value| value.mul_add(*value, sum));
                let squares = sum_group(squares, self.group());
                let root = (squares * (1.0 / head_dim as f32) + inputs.epsilon).rsqrt();
                let normalized = values.iter().zip(weights.values());
                values = normalized
                    .map(|(value, weight)| head.is_value.select(*value, gain.times(*value * root, weight)))
                    .collect::<Vec<_>>();
            }
            if let Some(angles) = &angles {
                values = self.rotated(values.clone(), angles, column, column.lt(rotary_dim) & !head.is_value);
            }
            let chunk = Chunk::<T>::of(&values);
            let is_mine = is_mine & head.index.lt(self.shape.heads());
            if is_mine && head.is_query {
                let to = output.at(token as u64 * u64::from(query_heads * head_dim));
                chunk.store(to.at(head.index * head_dim).at(column), Access::new());
            }
            if is_mine && !head.is_query {
                device_assert(slot.lt(slots) | slot.eq(NO_SLOT), "a slot is beyond the cache");
                if slot != NO_SLOT {
                    let mut cache = *key_cache;
                    if head.is_value {
                        cache = *value_cache;
                    }
                    let to = cache.at(slot as u64 * u64::from(key_heads * head_dim));
                    chunk.store(to.at(head.of_matrix * head_dim).at(column), Access::new());
                }
            }
        }
    }
}

/// Cosines and sines of a thread's columns.
type Angles = (Vec<Reg<f32>>, Vec<Reg<f32>>);

impl Rope {
    /// The columns of a chunk; zeros for a thread past the end of the head.
    #[track_caller]
    fn columns<T: RowElement>(&self, chunk: &Chunk<T>, column: Reg<u32>) -> Vec<Reg<f32>> {
        let values = chunk.values();
        if self.group() * LANES == self.shape.head_dim {
            return values;
        }
        values.into_iter().map(|value| column.lt(self.shape.head_dim).select(value, 0f32)).collect()
    }
}

#[device]
impl Rope {
    /// Loads a head; past the last one of a token, the last.
    fn load<T: RowElement>(
        &self,
        inputs: &RopeInputs<T>,
        token: Reg<u32>,
        index: Reg<u32>,
        column: Reg<u32>,
    ) -> Head<T> {
        let RopeShape { query_heads, key_heads, head_dim, .. } = self.shape;
        let head = index.min(self.shape.heads() - 1);
        let (is_query, is_value) = (head.lt(query_heads), head.ge(query_heads + key_heads));
        let mut of_matrix = head;
        let mut from = start(inputs.queries, inputs.of_queries, token, head);
        let mut weights = inputs.query_weights;
        if is_value {
            of_matrix = head - (query_heads + key_heads);
            from = start(inputs.values, inputs.of_values, token, of_matrix);
        } else if !is_query {
            of_matrix = head - query_heads;
            from = start(inputs.keys, inputs.of_keys, token, of_matrix);
            weights = inputs.key_weights;
        }
        let column = column.min(head_dim - LANES);
        let load = |from: Global<T>| Chunk::load(from.at(column), LANES, Access::new());
        let (chunk, weights) = (load(from), self.norm.map(|_| load(weights)));
        Head { index, of_matrix, is_query, is_value, chunk, weights }
    }

    /// Those of `row`.
    fn angles(&self, row: Global<f32>, column: Reg<u32>) -> Angles {
        let half = self.shape.rotary_dim / 2;
        let (first, angles) = match self.shape.pairing {
            Pairing::Halves => (column % half, LANES),
            Pairing::Neighbors => (column / 2, LANES / 2),
        };
        let first = column.lt(self.shape.rotary_dim).select(first, 0u32);
        let load = |at: Global<f32>| -> Vec<Reg<f32>> {
            (0..angles).step_by(4).flat_map(|i| at.at(i).load_vector::<4>()).collect()
        };
        (load(row.at(first)), load(row.at(first).at(half)))
    }

    /// The values, rotated where `is_rotated` holds.
    fn rotated(
        &self,
        values: Vec<Reg<f32>>,
        (cosines, sines): &Angles,
        column: Reg<u32>,
        is_rotated: Reg<bool>,
    ) -> Vec<Reg<f32>> {
        let half = self.shape.rotary_dim / 2;
        let rotate = |index: usize, partner: Reg<f32>, angle: usize, is_second: Reg<bool>| {
            let sine = is_second.select(sines[angle], -sines[angle]);
            let rotated = partner.mul_add(sine, values[index] * cosines[angle]);
            is_rotated.select(rotated, values[index])
        };
        match self.shape.pairing {
            Pairing::Halves => {
                // The partner's thread is half of what is rotated away.
                let distance = half / LANES;
                let is_second = column.ge(half);
                let lane = lane_id();
                let other = is_second.select(lane - distance, lane + distance);
                let other = is_rotated.select(other, lane);
                let partners: Vec<Reg<f32>> = values.iter().map(|value| value.shuffle(other)).collect();
                (0..values.len()).map(|i| rotate(i, partners[i], i, is_second)).collect()
            }
            Pairing::Neighbors => {
                (0..values.len()).map(|i| rotate(i, values[i ^ 1], i / 2, constant(i % 2 == 1))).collect()
            }
        }
    }
}

/// The first element of a head of a token.
#[track_caller]
fn start<T: RowElement>(
    rows: Global<T>,
    [offset, token_stride, head_stride]: [Reg<u32>; 3],
    token: Reg<u32>,
    head: Reg<u32>,
) -> Global<T> {
    rows.at(token.mul_wide(token_stride)).at(head.mul_wide(head_stride)).at(offset)
}

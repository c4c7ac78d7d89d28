//! The kernel: a head of a token for each group of threads, 8 columns for each thread.

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

impl Rope {
    /// Threads of a head: a power of two, so that a warp has whole heads.
    fn group(&self) -> u32 {
        (self.shape.head_dim / LANES).next_power_of_two()
    }

    /// CTAs for that many tokens.
    pub(super) fn ctas(&self, tokens: u32) -> u64 {
        (u64::from(tokens) * u64::from(self.shape.heads())).div_ceil((THREADS / self.group()).into())
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
        let (heads, thread) = (self.shape.heads(), thread_idx().x);
        let [tokens, positions, slots] = inputs.limits;
        let unit = block_idx().x * (THREADS / self.group()) + thread / self.group();
        let column = thread % self.group() * LANES;
        // All threads take part in exchanges; those without a head have the last token's.
        let is_mine = unit.lt(tokens * heads) & column.lt(head_dim);
        let unit = unit.min(tokens * heads - 1);
        let (token, head) = (unit / heads, unit % heads);
        let is_query = head.lt(query_heads);
        let is_value = head.ge(query_heads + key_heads);

        overlap::launch(self.overlaps);
        overlap::wait(self.overlaps);
        let mut from = start(inputs.queries, inputs.of_queries, token, head);
        let mut head_of = head;
        if is_value {
            head_of = head - (query_heads + key_heads);
            from = start(inputs.values, inputs.of_values, token, head_of);
        } else if head >= query_heads {
            head_of = head - query_heads;
            from = start(inputs.keys, inputs.of_keys, token, head_of);
        }
        let mut values = self.load(is_mine, from.at(column));
        if let Some(gain) = self.norm {
            let squares = values.iter().fold(constant(0f32), |sum, value| value.mul_add(*value, sum));
            let squares = sum_group(squares, self.group());
            let root = (squares * (1.0 / head_dim as f32) + inputs.epsilon).rsqrt();
            let mut weights = inputs.key_weights;
            if is_query {
                weights = inputs.query_weights;
            }
            let weights = self.load(is_mine, weights.at(column));
            values = values
                .iter()
                .zip(weights)
                .map(|(value, weight)| is_value.select(*value, gain.times(*value * root, weight)))
                .collect::<Vec<_>>();
        }
        if rotary_dim > 0 {
            let position = inputs.positions[token];
            device_assert(position.lt(positions), "a position has no cosines and sines");
            let row = inputs.rotations.at(position as u64 * u64::from(rotary_dim));
            let is_rotated = column.lt(rotary_dim) & !is_value;
            values = self.rotated(values.clone(), row, column, is_rotated);
        }

        let chunk = Chunk::<T>::of(&values);
        if is_mine && is_query {
            let to = output.at(token as u64 * u64::from(query_heads * head_dim)).at(head * head_dim);
            chunk.store(to.at(column), Access::new());
        }
        if is_mine && head >= query_heads {
            let slot = inputs.slots[token];
            device_assert(slot.lt(slots) | slot.eq(NO_SLOT), "a slot is beyond the cache");
            if slot != NO_SLOT {
                let mut cache = *key_cache;
                if is_value {
                    cache = *value_cache;
                }
                let to = cache.at(slot as u64 * u64::from(key_heads * head_dim)).at(head_of * head_dim);
                chunk.store(to.at(column), Access::new());
            }
        }
    }
}

#[device]
impl Rope {
    /// The thread's columns; zeros without a head.
    fn load<T: RowElement>(&self, is_mine: Reg<bool>, from: Global<T>) -> Vec<Reg<f32>> {
        let mut chunk = Chunk::<T>::filled(0, LANES);
        if is_mine {
            chunk = Chunk::load(from, LANES, Access::new());
        }
        chunk.values()
    }

    /// The values, rotated by the cosines and sines of `row` where `is_rotated` holds.
    fn rotated(
        &self,
        values: Vec<Reg<f32>>,
        row: Global<f32>,
        column: Reg<u32>,
        is_rotated: Reg<bool>,
    ) -> Vec<Reg<f32>> {
        let half = self.shape.rotary_dim / 2;
        let (first, angles) = match self.shape.pairing {
            Pairing::Halves => (column % half, LANES),
            Pairing::Neighbors => (column / 2, LANES / 2),
        };
        let first = is_rotated.select(first, 0u32);
        let load = |at: Global<f32>| -> Vec<Reg<f32>> {
            (0..angles).step_by(4).flat_map(|i| at.at(i).load_vector::<4>()).collect()
        };
        let (cosines, sines) = (load(row.at(first)), load(row.at(first).at(half)));
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

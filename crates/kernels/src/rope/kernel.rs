//! The kernel: a few heads of Q, of K or of V of a token for each group of threads, 8 columns for each
//! thread.

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
    pub(super) queries: Global<T>,
    pub(super) keys: Global<T>,
    pub(super) values: Global<T>,
    /// Offset, token stride and head stride of each.
    pub(super) of_queries: [Reg<u32>; 3],
    pub(super) of_keys: [Reg<u32>; 3],
    pub(super) of_values: [Reg<u32>; 3],
    pub(super) query_weights: Global<T>,
    pub(super) key_weights: Global<T>,
    pub(super) rotations: Global<f32>,
    pub(super) positions: Global<u32>,
    pub(super) slots: Global<u32>,
    /// Tokens, positions and slots.
    pub(super) limits: [Reg<u32>; 3],
    pub(super) epsilon: Reg<f32>,
}

/// Threads of a CTA.
pub(super) const THREADS: u32 = 128;

/// A thread's part of its heads, which are consecutive ones of Q, of K or of V of one token.
#[derive(Clone, Copy, DeviceValue)]
struct Heads<T: Element> {
    is_query: Reg<bool>,
    is_value: Reg<bool>,
    /// The first one, and the number of those of the token.
    first: Reg<u32>,
    count: Reg<u32>,
    /// The thread's columns of the token's first head, and elements from head to head.
    from: Global<T>,
    stride: Reg<u32>,
    /// The weights of RMSNorm.
    weights: Global<T>,
}

/// Cosines and sines of a thread's columns. The sine is negative where a column is the first of two.
#[derive(Clone, DeviceValue)]
struct Angles {
    cosines: Vec<Reg<f32>>,
    sines: Vec<Reg<f32>>,
}

impl Rope {
    /// Threads of a head: a power of two, so that a warp has whole heads.
    fn group(&self) -> u32 {
        (self.shape.head_dim / LANES).next_power_of_two()
    }

    /// Groups of threads for the heads of Q of a token, and for those of K.
    fn groups(&self) -> [u32; 2] {
        [self.shape.query_heads, self.shape.key_heads].map(|heads| heads.div_ceil(self.heads))
    }

    /// Groups of threads of a token.
    fn groups_of_token(&self) -> u32 {
        let [of_queries, of_keys] = self.groups();
        of_queries + 2 * of_keys
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
        let (token, part) = (group / groups, group % groups);

        overlap::launch(self.overlaps);
        overlap::wait(self.overlaps);
        // Everything that is loaded, at once; the cosines and sines as soon as the position is there.
        let (slot, mut position) = (inputs.slots[token], constant(0u32));
        if rotary_dim > 0 {
            position = inputs.positions[token];
        }
        let heads = self.heads_of(&inputs, token, part, column);
        let load = |from: Global<T>| Chunk::<T>::load(from, LANES, Access::new());
        let indices: Vec<Reg<u32>> = (0..self.heads).map(|index| heads.first + index).collect();
        let chunks: Vec<Chunk<T>> = indices
            .iter()
            .map(|index| load(heads.from.at(index.min(heads.count - 1).mul_wide(heads.stride))))
            .collect();
        let weights = self.norm.map(|gain| {
            let factor = |weight| heads.is_value.select(1f32, gain.times(constant(1f32), weight));
            load(heads.weights).values().into_iter().map(factor).collect::<Vec<_>>()
        });
        let mut angles = None;
        if rotary_dim > 0 {
            device_assert(position.lt(positions), "a position has no cosines and sines");
            let row = inputs.rotations.at(position as u64 * u64::from(rotary_dim));
            angles = Some(self.angles(row, column));
        }

        let (mut to, mut is_stored) = (output.at(token as u64 * u64::from(query_heads * head_dim)), is_mine);
        if is_mine && !heads.is_query {
            device_assert(slot.lt(slots) | slot.eq(NO_SLOT), "a slot is beyond the cache");
            to = *key_cache;
            if heads.is_value {
                to = *value_cache;
            }
            to = to.at(slot as u64 * u64::from(key_heads * head_dim));
            is_stored = slot.ne(NO_SLOT);
        }
        for (index, chunk) in indices.iter().zip(chunks) {
            let mut values = self.columns(&chunk, column);
            if let Some(weights) = &weights {
                let squares = values.iter().fold(constant(0f32), |sum, value| value.mul_add(*value, sum));
                let squares = sum_group(squares, self.group());
                let root = (squares * (1.0 / head_dim as f32) + inputs.epsilon).rsqrt();
                let root = heads.is_value.select(1f32, root);
                let scaled = values.iter().zip(weights).map(|(value, weight)| *value * root * *weight);
                values = scaled.collect::<Vec<_>>();
            }
            if let Some(angles) = &angles {
                values = self.rotated(&values, angles, column, column.lt(rotary_dim) & !heads.is_value);
            }
            if is_stored & index.lt(heads.count) {
                Chunk::<T>::of(&values).store(to.at(*index * head_dim).at(column), Access::new());
            }
        }
    }
}

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
    /// The heads of part `part` of a token: those of Q first, then those of K, then those of V.
    fn heads_of<T: RowElement>(
        &self,
        inputs: &RopeInputs<T>,
        token: Reg<u32>,
        part: Reg<u32>,
        column: Reg<u32>,
    ) -> Heads<T> {
        let RopeShape { query_heads, key_heads, head_dim, .. } = self.shape;
        let [of_queries, of_keys] = self.groups();
        let (is_query, is_value) = (part.lt(of_queries), part.ge(of_queries + of_keys));
        let mut part = part;
        let (mut rows, mut of_rows, mut weights) = (inputs.queries, inputs.of_queries, inputs.query_weights);
        if is_value {
            part = part - (of_queries + of_keys);
            (rows, of_rows) = (inputs.values, inputs.of_values);
        } else if !is_query {
            part = part - of_queries;
            (rows, of_rows, weights) = (inputs.keys, inputs.of_keys, inputs.key_weights);
        }
        let [offset, token_stride, stride] = of_rows;
        let column = column.min(head_dim - LANES);
        Heads {
            is_query,
            is_value,
            first: part * self.heads,
            count: is_query.select(query_heads, key_heads),
            from: rows.at(token.mul_wide(token_stride)).at(offset).at(column),
            stride,
            weights: weights.at(column),
        }
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
        let (cosines, sines) = (load(row.at(first)), load(row.at(first).at(half)));
        match self.shape.pairing {
            Pairing::Halves => {
                let signed = |sine: Reg<f32>| column.ge(half).select(sine, -sine);
                Angles { cosines, sines: sines.into_iter().map(signed).collect() }
            }
            Pairing::Neighbors => Angles {
                cosines: cosines.into_iter().flat_map(|cosine| [cosine, cosine]).collect(),
                sines: sines.into_iter().flat_map(|sine| [-sine, sine]).collect(),
            },
        }
    }

    /// The values, rotated where `is_rotated` holds.
    fn rotated(
        &self,
        values: &[Reg<f32>],
        angles: &Angles,
        column: Reg<u32>,
        is_rotated: Reg<bool>,
    ) -> Vec<Reg<f32>> {
        let half = self.shape.rotary_dim / 2;
        let partners: Vec<Reg<f32>> = match self.shape.pairing {
            Pairing::Halves => {
                // The partner's thread is half of what is rotated away.
                let (lane, distance) = (lane_id(), half / LANES);
                let other = column.ge(half).select(lane - distance, lane + distance);
                let other = is_rotated.select(other, lane);
                values.iter().map(|value| value.shuffle(other)).collect()
            }
            Pairing::Neighbors => (0..values.len()).map(|index| values[index ^ 1]).collect(),
        };
        let rotate = |index: usize| {
            let rotated = partners[index].mul_add(angles.sines[index], values[index] * angles.cosines[index]);
            is_rotated.select(rotated, values[index])
        };
        (0..values.len()).map(rotate).collect()
    }
}

//! The kernel for heads of any length, any even number of whose columns are rotated, with any strides: a warp for each
//! head.

use warpwright::prelude::*;

use super::kernel::RopeInputs;
use super::problem::{NO_SLOT, Pairing, RopeShape};
use crate::rows::{Gain, RowElement};

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ScalarRope {
    pub(super) shape: RopeShape,
    /// The gain of RMSNorm, if there is one.
    pub(super) norm: Option<Gain>,
}

/// Where the head of a warp is.
#[derive(Clone, Copy, DeviceValue)]
struct Head<T: Element> {
    from: Global<T>,
    weights: Global<T>,
    /// The square root's inverse of the mean of squares; 1 without a norm.
    root: Reg<f32>,
}

impl ScalarRope {
    /// As `Rope::run`.
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        inputs: RopeInputs<T>,
        output: &mut Global<T>,
        key_cache: &mut Global<T>,
        value_cache: &mut Global<T>,
    ) {
        launch::threads(32);
        let RopeShape { query_heads, key_heads, head_dim, rotary_dim, .. } = self.shape;
        let heads = self.shape.heads();
        let (token, head) = (block_idx().x / heads, block_idx().x % heads);
        let (is_query, is_value) = (head.lt(query_heads), head.ge(query_heads + key_heads));
        let [_, positions, slots] = inputs.limits;
        let (mut from, mut of_rows, mut index) = (inputs.queries, inputs.of_queries, head);
        let mut weights = inputs.query_weights;
        let mut to = output.at(token.mul_wide(query_heads * head_dim));
        let mut is_stored = constant(true);
        if !is_query {
            let slot = inputs.slots[token];
            device_assert(slot.lt(slots) | slot.eq(NO_SLOT), "a slot is beyond the cache");
            is_stored = slot.ne(NO_SLOT);
            (from, of_rows, index) = (inputs.keys, inputs.of_keys, head - query_heads);
            weights = inputs.key_weights;
            to = *key_cache;
            if is_value {
                (from, of_rows, index) = (inputs.values, inputs.of_values, head - (query_heads + key_heads));
                to = *value_cache;
            }
            to = to.at(is_stored.select(slot, 0u32) as u64 * u64::from(key_heads * head_dim));
        }
        let [offset, token_stride, head_stride] = of_rows;
        let from = from.at(token.mul_wide(token_stride)).at(offset).at(index * head_stride);
        let mut row = Head { from, weights, root: constant(1f32) };
        let columns: Vec<Reg<u32>> = (0..head_dim.div_ceil(32)).map(|part| lane_id() + 32 * part).collect();
        if self.norm.is_some() {
            let squares = columns.iter().fold(constant(0f32), |sum, column| {
                let inside = column.lt(head_dim);
                let value = from.at(inside.select(*column, 0u32)).load().convert::<f32>();
                inside.select(value.mul_add(value, sum), sum)
            });
            let root = (warp::reduce_sum(squares) * (1.0 / head_dim as f32) + inputs.epsilon).rsqrt();
            row.root = is_value.select(1f32, root);
        }
        let mut angles = inputs.rotations;
        if rotary_dim > 0 {
            let position = inputs.positions[token];
            device_assert(position.lt(positions), "a position has no cosines and sines");
            angles = angles.at(position as u64 * u64::from(rotary_dim));
        }
        for column in columns {
            if column.lt(head_dim) & is_stored {
                let mut value = self.normalized(&row, column, is_value);
                if rotary_dim > 0 {
                    if column.lt(rotary_dim) & !is_value {
                        value = self.rotated(&row, value, column, angles);
                    }
                }
                to.at(index * head_dim).at(column).store(value.convert::<T>());
            }
        }
    }
}

#[device]
impl ScalarRope {
    /// A column of the head after its norm.
    fn normalized<T: RowElement>(&self, head: &Head<T>, column: Reg<u32>, is_value: Reg<bool>) -> Reg<f32> {
        let value = head.from.at(column).load().convert::<f32>();
        match self.norm {
            None => value,
            Some(gain) => {
                let weight = head.weights.at(column).load().convert::<f32>();
                let factor = is_value.select(1f32, gain.times(constant(1f32), weight));
                value * head.root * factor
            }
        }
    }

    /// The column, rotated with its partner.
    fn rotated<T: RowElement>(
        &self,
        head: &Head<T>,
        value: Reg<f32>,
        column: Reg<u32>,
        angles: Global<f32>,
    ) -> Reg<f32> {
        let half = self.shape.rotary_dim / 2;
        let (is_first, pair, partner) = match self.shape.pairing {
            Pairing::Halves => {
                let is_first = column.lt(half);
                (is_first, column % half, is_first.select(column + half, column - half))
            }
            Pairing::Neighbors => {
                let is_first = (column % 2).eq(0u32);
                (is_first, column / 2, is_first.select(column + 1, column - 1))
            }
        };
        let other = self.normalized(head, partner, constant(false));
        let (cosine, sine) = (angles.at(pair).load(), angles.at(pair).at(half).load());
        other.mul_add(is_first.select(-sine, sine), value * cosine)
    }
}

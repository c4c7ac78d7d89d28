//! The rotary embedding of heads that the library's kernel does not take: a warp for each head. A head has any
//! length, and any even number of its columns is rotated.
//!
//! As in the library's, a head of Q or K may be normalized before; K and V go to the cache.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result, expect_length};
use warpwright_kernels::rope::{HeadNorm, NO_SLOT, Pairing, RopeBuffers, RopeShape};
use warpwright_kernels::rows::Gain;

use crate::number::Number;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AnyRope {
    shape: RopeShape,
    norm: Option<Gain>,
}

#[derive(Clone, Copy, DeviceValue, KernelParameter)]
struct Inputs<T: Element> {
    queries: Global<T>,
    keys: Global<T>,
    values: Global<T>,
    /// The offset of each.
    offsets: [Reg<u32>; 3],
    /// Elements from token to token, and from head to head of Q.
    strides: [Reg<u32>; 2],
    query_weights: Global<T>,
    key_weights: Global<T>,
    rotations: Global<f32>,
    positions: Global<u32>,
    slots: Global<u32>,
    epsilon: Reg<f32>,
}

/// Where the head of a warp is.
#[derive(Clone, Copy, DeviceValue)]
struct Head<T: Element> {
    from: Global<T>,
    weights: Global<T>,
    /// The square root's inverse of the mean of squares; 1 without a norm.
    root: Reg<f32>,
}

impl AnyRope {
    #[kernel]
    fn run<T: Number>(
        &self,
        inputs: Inputs<T>,
        output: &mut Global<T>,
        key_cache: &mut Global<T>,
        value_cache: &mut Global<T>,
    ) {
        launch::threads(32);
        let RopeShape { query_heads, key_heads, head_dim, rotary_dim, .. } = self.shape;
        let heads = query_heads + 2 * key_heads;
        let (token, head) = (block_idx().x / heads, block_idx().x % heads);
        let (is_query, is_value) = (head.lt(query_heads), head.ge(query_heads + key_heads));
        let [of_queries, of_keys, of_values] = inputs.offsets;
        let [token_stride, head_stride] = inputs.strides;
        let (mut from, mut offset, mut index) = (inputs.queries, of_queries, head);
        let mut weights = inputs.query_weights;
        let mut stride = head_stride;
        let mut to = output.at(token.mul_wide(query_heads * head_dim));
        let mut is_stored = constant(true);
        if !is_query {
            let slot = inputs.slots[token];
            is_stored = slot.ne(NO_SLOT);
            stride = constant(head_dim);
            (from, offset, index) = (inputs.keys, of_keys, head - query_heads);
            weights = inputs.key_weights;
            to = *key_cache;
            if is_value {
                (from, offset, index) = (inputs.values, of_values, head - (query_heads + key_heads));
                to = *value_cache;
            }
            to = to.at(is_stored.select(slot, 0u32) as u64 * u64::from(key_heads * head_dim));
        }
        let from = from.at(token.mul_wide(token_stride)).at(offset).at(index * stride);
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
            angles = angles.at(inputs.positions[token] as u64 * u64::from(rotary_dim));
        }
        for column in columns {
            if column.lt(head_dim) & is_stored {
                let mut value = self.normalized(&row, column, is_value);
                if column.lt(rotary_dim) & !is_value {
                    value = self.rotated(&row, value, column, angles);
                }
                to.at(index * head_dim).at(column).store(value.convert::<T>());
            }
        }
    }
}

#[device]
impl AnyRope {
    /// A column of the head after its norm.
    fn normalized<T: Number>(&self, head: &Head<T>, column: Reg<u32>, is_value: Reg<bool>) -> Reg<f32> {
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
    fn rotated<T: Number>(
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

/// As the library's operation, for any heads.
pub(crate) fn rope<T: Number>(
    (operations, stream): (&Operations, &Stream),
    shape: &RopeShape,
    buffers: RopeBuffers<'_, T>,
) -> Result<()> {
    if shape.check().is_ok() {
        operations.rope(stream, shape, buffers)?;
        return Ok(());
    }
    let RopeBuffers { queries, keys, values, norm, rotations, positions, slots, .. } = buffers;
    let RopeShape { query_heads, key_heads, head_dim, .. } = *shape;
    let tokens = positions.len();
    expect_length(
        "the output of the rotary embedding",
        tokens * (query_heads * head_dim) as usize,
        buffers.output.len(),
    )?;
    let heads = u64::from(query_heads) + 2 * u64::from(key_heads);
    let grid = operations.grid("the rotary embedding", tokens as u64 * heads)?;
    let kernel = AnyRope { shape: *shape, norm: norm.map(|norm| norm.gain) };
    let kernel = operations.kernel(kernel, AnyRope::run::<T>)?;
    let (query_weights, key_weights, epsilon): (&Buffer<T>, &Buffer<T>, f32) = match &norm {
        Some(HeadNorm { query_weights, key_weights, epsilon, .. }) => (query_weights, key_weights, *epsilon),
        None => (queries.buffer, queries.buffer, 0.0),
    };
    let inputs = (
        queries.buffer,
        keys.buffer,
        values.buffer,
        [queries.offset, keys.offset, values.offset],
        [queries.token_stride, queries.head_stride],
        query_weights,
        key_weights,
        rotations,
        positions,
        slots,
        epsilon,
    );
    let RopeBuffers { output, key_cache, value_cache, .. } = buffers;
    kernel.launch(stream, grid, (inputs, output, key_cache, value_cache))?;
    Ok(())
}

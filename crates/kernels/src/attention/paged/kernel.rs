//! The kernel: a warp for each query of each head. A lane has every 32nd element of the head, and keys follow one
//! another with a running softmax.

use warpwright::prelude::*;

use super::PagedAttention;
use crate::rows::RowElement;

impl PagedAttention {
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        queries: &Global<T>,
        keys: &Global<T>,
        values: &Global<T>,
        positions: &Global<u32>,
        sequences: &Global<u32>,
        table: &Global<u32>,
        output: &mut Global<T>,
        entries: u32,
    ) {
        launch::threads(32);
        let Self { query_heads, key_heads, head_dim, page_size } = *self;
        let (token, head) = (block_idx().x / query_heads, block_idx().x % query_heads);
        let columns: Vec<Reg<u32>> = (0..head_dim.div_ceil(32)).map(|part| lane_id() + 32 * part).collect();
        let load = |from: Global<T>| -> Vec<Reg<f32>> {
            let value = |column: &Reg<u32>| {
                let inside = column.lt(head_dim);
                inside.select(from.at(inside.select(*column, 0u32)).load().convert::<f32>(), 0f32)
            };
            columns.iter().map(value).collect()
        };
        let at = block_idx().x.mul_wide(head_dim);
        let query = load(queries.at(at));
        let scale = 1.0 / (head_dim as f32).sqrt();
        let pages = table.at(sequences[token].mul_wide(entries));
        let mut maximum = constant(f32::NEG_INFINITY);
        let mut total = constant(0f32);
        let mut sums = vec![constant(0f32); columns.len()];
        for position in 0..positions[token] + 1 {
            let slot = pages[position / page_size] * page_size + position % page_size;
            let row = (slot.convert::<u64>() * u64::from(key_heads)
                + (head / (query_heads / key_heads)).convert::<u64>())
                * u64::from(head_dim);
            let key = load(keys.at(row));
            let value = load(values.at(row));
            let products = query.iter().zip(key).fold(constant(0f32), |sum, (q, k)| q.mul_add(k, sum));
            let score = warp::reduce_sum(products) * scale;
            let largest = maximum.max(score);
            let (before, weight) = ((maximum - largest).exp(), (score - largest).exp());
            total = total * before + weight;
            sums = sums.iter().zip(value).map(|(sum, v)| *sum * before + weight * v).collect::<Vec<_>>();
            maximum = largest;
        }
        for (column, sum) in columns.iter().zip(sums) {
            if *column < head_dim {
                output.at(at).at(*column).store((sum / total).convert::<T>());
            }
        }
    }
}

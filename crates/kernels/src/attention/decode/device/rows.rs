//! Rows of the product: the queries of a key head of one sequence.
//!
//! ```text
//! row           0         1         ..  group     group + 1  ..
//! query         0         0             1         1
//! query head    first     first + 1     first     first + 1            first = key head * group
//! ```

use warpwright::prelude::*;

use super::configuration::{CacheElement, DecodeAttention, Inputs};
use super::schedule::Segment;
use super::softmax::row_of;

#[device]
impl DecodeAttention {
    /// The row of Q, O and LSE of a row of the product.
    pub(super) fn query_row(&self, segment: &Segment, row: Reg<u32>) -> Reg<u32> {
        let (heads, group) = (self.heads, self.heads.group());
        let query = segment.sequence * self.queries + row / group;
        query * heads.query_heads + segment.head * group + row % group
    }

    /// Each thread's elements of Q. Padding rows repeat the last one, and nothing reads their
    /// results.
    pub(super) fn load_queries<T: CacheElement>(
        &self,
        q: &mut Fragment<T>,
        inputs: &Inputs<T>,
        segment: &Segment,
        row_warp: Reg<u32>,
    ) {
        let rows = [0, 8].map(|half| {
            let row = (row_warp * 16 + lane_id() / 4 + half).min(self.rows() - 1);
            inputs
                .queries
                .at(self.query_row(segment, row) as u64 * u64::from(self.heads.head_dim))
                .at(lane_id() % 4 * 2)
        });
        // Of 16 columns, a thread has a pair of both rows, and a pair 8 columns further of both.
        for i in (0..q.len()).step_by(2) {
            let column = i / 8 * 16 + i / 4 % 2 * 8;
            q.set_word(i, rows[row_of(i)].at(column).cast::<u32>().load());
        }
    }
}

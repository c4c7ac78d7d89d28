//! What a launch computes, and which queries a CTA goes through.

use warpwright::prelude::*;

use super::configuration::KEYS;
use crate::attention::packed_blocks::PackedBlocks;
use crate::attention::problem::MaskBounds;

/// What a launch computes.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct BackwardProblem {
    /// Queries and keys of a sequence; of packed sequences all of them.
    pub(crate) lengths: [Reg<u32>; 2],
    /// Heads of K and V, and heads of Q for each of them.
    pub(crate) heads: [Reg<u32>; 2],
    /// Keys that a query sees before and after its position.
    pub(crate) window: [Reg<u32>; 2],
    /// What scores are multiplied by.
    pub(crate) scale: Reg<f32>,
    /// The bound of scores (softcap), and the slope of each head's bias (ALiBi).
    pub(crate) bound: Reg<f32>,
    pub(crate) slopes: Global<f32>,
    /// Heads of K of a section, counted through all sequences.
    pub(crate) section: Reg<u32>,
    /// Sequences, and the first query and the first key of each packed one, and the number of all.
    pub(crate) sequences: Reg<u32>,
    pub(crate) query_offsets: Global<u32>,
    pub(crate) key_offsets: Global<u32>,
    /// Where the elements of dK and of dV are: [`element`].
    pub(crate) dk_strides: [Reg<u64>; 4],
    pub(crate) dv_strides: [Reg<u64>; 4],
}

/// The index of the first element of a head, by the first element of a matrix and the elements between its
/// sequences, rows and heads. Packed sequences are one.
#[device]
pub(super) fn element(
    [first, of_sequence, of_row, of_head]: [Reg<u64>; 4],
    [sequence, row, head]: [Reg<u32>; 3],
) -> Reg<u64> {
    first + sequence as u64 * of_sequence + row as u64 * of_row + head as u64 * of_head
}

impl BackwardProblem {
    /// The blocks of `rows` queries, and those of 128 keys, of packed sequences.
    pub(super) fn packed_blocks(&self, rows: u32) -> [PackedBlocks; 2] {
        let sequences = self.sequences;
        [
            PackedBlocks { offsets: self.query_offsets, sequences, rows },
            PackedBlocks { offsets: self.key_offsets, sequences, rows: KEYS },
        ]
    }
}

/// Neighboring keys.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Keys {
    pub(super) first: Reg<u32>,
    pub(super) count: u32,
}

/// The blocks of queries of a unit: from `begin` to before `end`; those from `whole.0` to before
/// `whole.1` see all keys of the warpgroup.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Range {
    pub(super) begin: Reg<u32>,
    pub(super) end: Reg<u32>,
    pub(super) whole: (Reg<u32>, Reg<u32>),
}

#[device]
impl Range {
    /// The blocks of `rows` queries that see some of the keys `all`, and every one of `mine`.
    pub(super) fn new(problem: BackwardProblem, mask: MaskBounds, rows: u32, all: Keys, mine: Keys) -> Range {
        let [queries, keys] = problem.lengths.map(|length| length as i32);
        let [left, right] = problem.window.map(|keys| keys as i32);
        let count = (queries as u32).div_ceil(rows);
        let (mut begin, mut end) = (constant(0u32), count);
        // A query sees the keys from its position - left to its position + right.
        let shift = keys - queries;
        let (mut whole_begin, mut whole_end) = (constant(0i32), queries);
        if mask.right {
            begin = ((all.first as i32 - right - shift).max(0) as u32 / rows).min(count);
            whole_begin = (mine.first as i32 + (mine.count as i32 - 1) - right - shift).max(0);
        }
        if mask.left {
            let last = all.first as i32 + (all.count as i32 - 1);
            end = ((last.min(keys - 1) + left - shift + 1).max(0) as u32).div_ceil(rows).min(count);
            whole_end = (mine.first as i32 + left - shift + 1).clamp(0, queries);
        }
        end = end.max(begin);
        let whole_begin = (whole_begin as u32).div_ceil(rows).clamp(begin, end);
        // A block that ends past the last query needs no mask: the lse of a missing query is
        // infinite. No query sees a key past the last.
        let past = (whole_end as u32).eq(queries as u32).select(count, whole_end as u32 / rows);
        let whole_end = (mine.first + mine.count).le(keys as u32).select(past, 0u32).clamp(whole_begin, end);
        Range { begin, end, whole: (whole_begin, whole_end) }
    }
}

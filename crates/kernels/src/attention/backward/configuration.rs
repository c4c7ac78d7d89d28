//! What the backward kernel is built for, and which queries a CTA goes through.

use warpwright::layout::Error;
use warpwright::prelude::*;

use crate::attention::problem::{AttentionElement, MaskBounds};

/// Keys of a consumer warpgroup: the rows of a `wgmma`.
pub(super) const WARPGROUP_KEYS: u32 = 64;

/// Consumer warpgroups, and the keys of a CTA.
pub(super) const CONSUMERS: u32 = 2;
pub(crate) const KEYS: u32 = CONSUMERS * WARPGROUP_KEYS;

/// The backward kernel for a head dimension and a kind of mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct BackwardKernel {
    /// Elements of a head of Q and K, and of V and O.
    pub(crate) head_dim: u32,
    pub(crate) value_dim: u32,
    /// Queries of a block: 64 or 128.
    pub(crate) rows: u32,
    /// Blocks of Q, and of dO, in shared memory. Q is read again for dK, a block later.
    pub(crate) q_stages: u32,
    pub(crate) stages: u32,
    pub(crate) mask: MaskBounds,
}

/// What a launch computes.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct BackwardProblem {
    /// Queries and keys of a sequence.
    pub(crate) lengths: [Reg<u32>; 2],
    /// Heads of K and V, and heads of Q for each of them.
    pub(crate) heads: [Reg<u32>; 2],
    /// Keys that a query sees before and after its position.
    pub(crate) window: [Reg<u32>; 2],
    /// What scores are multiplied by.
    pub(crate) scale: Reg<f32>,
}

impl BackwardKernel {
    /// A block of Q: (query, d).
    pub(crate) fn q_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((self.rows, self.head_dim), Major::K)
    }

    /// A block of dO: (query, d).
    pub(crate) fn gradient_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((self.rows, self.value_dim), Major::K)
    }

    /// A block of lse or delta.
    pub(crate) fn row_tile(&self) -> Result<TmaTile, Error> {
        TmaTile::dense::<f32>((self.rows, 1), Major::Mn)
    }

    /// The CTA's K: (key, d).
    pub(crate) fn k_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.head_dim), Major::K)
    }

    /// The CTA's V: (key, d).
    pub(crate) fn v_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.value_dim), Major::K)
    }

    /// dSᵀ of a block: (key, query).
    pub(super) fn scores_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.rows), Major::K)
    }

    /// Whether P stays in f32 until dSᵀ is computed: there are registers for it.
    pub(super) fn keeps_scores(&self) -> bool {
        self.rows == WARPGROUP_KEYS && !self.mask.right
    }

    /// The elements of dQ that a warpgroup computes of a block: half of d of 64 queries, or half of
    /// 128 queries.
    pub(crate) fn dq_columns(&self) -> u32 {
        if self.rows == WARPGROUP_KEYS { self.head_dim / CONSUMERS } else { self.head_dim }
    }
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
impl BackwardKernel {
    /// The blocks of queries that see some key of the CTA, from `first_key` on, and all keys of a
    /// warpgroup, from `mine` on.
    pub(super) fn range(&self, problem: BackwardProblem, first_key: Reg<u32>, mine: Reg<u32>) -> Range {
        let [queries, keys] = problem.lengths.map(|length| length as i32);
        let [left, right] = problem.window.map(|keys| keys as i32);
        let count = (queries as u32).div_ceil(self.rows);
        let (mut begin, mut end) = (constant(0u32), count);
        // A query sees the keys from its position - left to its position + right.
        let shift = keys - queries;
        let (mut whole_begin, mut whole_end) = (constant(0i32), queries);
        if self.mask.right {
            begin = ((first_key as i32 - right - shift).max(0) as u32 / self.rows).min(count);
            whole_begin = (mine as i32 + (WARPGROUP_KEYS as i32 - 1) - right - shift).max(0);
        }
        if self.mask.left {
            let last = first_key as i32 + (KEYS as i32 - 1);
            end = ((last.min(keys - 1) + left - shift + 1).max(0) as u32).div_ceil(self.rows).min(count);
            whole_end = (mine as i32 + left - shift + 1).clamp(0, queries);
        }
        end = end.max(begin);
        let whole_begin = (whole_begin as u32).div_ceil(self.rows).clamp(begin, end);
        // A block that ends past the last query needs no mask: the lse of a missing query is
        // infinite. No query sees a key past the last.
        let all = (whole_end as u32).eq(queries as u32).select(count, whole_end as u32 / self.rows);
        let whole_end = (mine + WARPGROUP_KEYS).le(keys as u32).select(all, 0u32).clamp(whole_begin, end);
        Range { begin, end, whole: (whole_begin, whole_end) }
    }
}

//! What the backward kernel is built for.

use warpwright::layout::Error;
use warpwright::prelude::*;

use super::range::BackwardProblem;
use crate::attention::problem::{AttentionElement, MaskBounds};
use crate::attention::score::{self, DifferentiableScoreOp};

/// Keys of a consumer warpgroup: the rows of a `wgmma`.
pub(super) const WARPGROUP_KEYS: u32 = 64;

/// Consumer warpgroups, and the keys of a CTA; of a cluster for wide heads.
pub(super) const CONSUMERS: u32 = 2;
pub(crate) const KEYS: u32 = CONSUMERS * WARPGROUP_KEYS;

/// The tensor maps of Q, K, V, dO, lse and delta.
pub(super) type Maps<'k> = [&'k TensorMap; 6];

/// The backward kernel for a head dimension and a kind of mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct BackwardKernel {
    /// Columns of the tiles of Q and K (32, 64 or 128), and of V and dO.
    pub(crate) head_dim: u32,
    pub(crate) value_dim: u32,
    /// Elements of a head of K and of V in memory.
    pub(crate) stored: [u32; 2],
    /// Queries of a block: 64 or 128.
    pub(crate) rows: u32,
    /// Blocks of Q, and of dO, in shared memory. Q is read again for dK, a block later.
    pub(crate) q_stages: u32,
    pub(crate) stages: u32,
    pub(crate) form: GradientForm,
}

/// What kernels of gradients are built for beside the sizes of their tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct GradientForm {
    pub(crate) mask: MaskBounds,
    /// Whether sequences of any lengths follow each other without gaps.
    pub(crate) packed: bool,
    /// Whether scores are bounded (softcap), and whether they have a bias by distance (ALiBi).
    pub(crate) capped: bool,
    pub(crate) biased: bool,
    /// Whether a closure is the function of the scores.
    pub(crate) scored: bool,
    /// Whether the additions to dQ have a fixed order.
    pub(crate) deterministic: bool,
}

impl GradientForm {
    /// Whether scores have a function.
    pub(super) fn has_function(&self) -> bool {
        self.capped || self.biased || self.scored
    }

    /// The function of softcap and ALiBi.
    pub(super) fn function(&self, problem: BackwardProblem) -> Option<Box<dyn DifferentiableScoreOp>> {
        score::of_attention(self.capped.then_some(problem.bound), self.biased.then_some(problem.slopes))
    }
}

impl BackwardKernel {
    /// The tiles of Q, K, V and dO.
    pub(crate) fn tiles<T: AttentionElement>(&self) -> Result<[TmaTile; 4], Error> {
        Ok([self.q_tile::<T>()?, self.k_tile::<T>()?, self.v_tile::<T>()?, self.gradient_tile::<T>()?])
    }

    /// A block of Q: (query, d).
    pub(super) fn q_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((self.rows, self.head_dim), Major::K)
    }

    /// A block of dO: (query, d).
    pub(super) fn gradient_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((self.rows, self.value_dim), Major::K)
    }

    /// The CTA's K: (key, d).
    pub(super) fn k_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.head_dim), Major::K)
    }

    /// The CTA's V: (key, d).
    pub(super) fn v_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.value_dim), Major::K)
    }

    /// dSᵀ of a block: (key, query).
    pub(super) fn scores_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.rows), Major::K)
    }

    /// Whether P stays in f32 until dSᵀ is computed: there are registers for it.
    pub(super) fn keeps_scores(&self) -> bool {
        self.rows == WARPGROUP_KEYS && !self.form.mask.right && !self.form.has_function()
    }

    /// The elements of dQ that a warpgroup computes of a block: half of d of 64 queries, or half of
    /// 128 queries.
    pub(crate) fn dq_columns(&self) -> u32 {
        if self.rows == WARPGROUP_KEYS { self.head_dim / CONSUMERS } else { self.head_dim }
    }
}

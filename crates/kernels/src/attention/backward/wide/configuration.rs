//! What the backward kernel for wide heads is built for.

use warpwright::layout::Error;
use warpwright::prelude::*;

use crate::attention::backward::configuration::GradientForm;
use crate::attention::problem::AttentionElement;

/// Keys of a CTA, and queries of a block: the rows of a `wgmma`.
pub(super) const KEYS: u32 = 64;
pub(super) const ROWS: u32 = 64;

/// CTAs of a cluster, and the parts of dQ's columns: one for each of its consumer warpgroups.
pub(super) const CTAS: u32 = 2;
pub(super) const PARTS: u32 = 2 * CTAS;

/// The named barriers of the consumers; those of the roles come before.
pub(super) const WEIGHTS_BARRIER: u32 = 7;
pub(super) const GRADIENTS_BARRIER: u32 = 8;

/// The backward kernel for wide heads and a kind of mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct WideBackwardKernel {
    /// Columns of the tiles of Q and K (256), and of V and dO (128 or 256).
    pub(crate) head_dim: u32,
    pub(crate) value_dim: u32,
    /// Elements of a head of K and of V in memory.
    pub(crate) stored: [u32; 2],
    pub(crate) form: GradientForm,
}

impl WideBackwardKernel {
    /// CTAs of a cluster.
    pub(crate) const CTAS: u32 = CTAS;

    /// Columns of dQ that a consumer warpgroup has.
    pub(crate) fn dq_columns(&self) -> u32 {
        self.head_dim / PARTS
    }

    /// The tiles of Q, K, V and dO.
    pub(crate) fn tiles<T: AttentionElement>(&self) -> Result<[TmaTile; 4], Error> {
        Ok([self.q_tile::<T>()?, self.k_tile::<T>()?, self.v_tile::<T>()?, self.gradient_tile::<T>()?])
    }

    /// A block of Q: (query, d).
    pub(super) fn q_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        Ok(TmaTile::new::<T>((ROWS, self.head_dim), Major::K)?.sliced(CTAS))
    }

    /// A block of dO: (query, d).
    pub(super) fn gradient_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        Ok(TmaTile::new::<T>((ROWS, self.value_dim), Major::K)?.sliced(CTAS))
    }

    /// The CTA's K: (key, d).
    pub(super) fn k_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.head_dim), Major::K)
    }

    /// The CTA's columns of the other CTA's K: (key, d).
    pub(super) fn peer_k_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.head_dim / CTAS), Major::K)
    }

    /// The CTA's V: (key, d).
    pub(super) fn v_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.value_dim), Major::K)
    }
}

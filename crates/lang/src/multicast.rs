//! A cluster as a grid of CTAs that compute neighboring tiles and share operands.
//!
//! ```text
//! a cluster of 2 x 2:           n position 0      n position 1
//!               m position 0    CTA 0             CTA 2          both multiply the same rows of A
//!               m position 1    CTA 1             CTA 3
//!                               the same columns of B
//! ```
//!
//! CTAs that need the same tile each load one slice of it and multicast the slice to all of them,
//! so that a tile moves from L2 once per cluster.

use crate::DeviceValue;
use crate::launch;
use crate::special::cluster_rank;
use crate::value::{Reg, constant};

/// A cluster of CTAs along m and n.
#[derive(Clone, Copy, DeviceValue)]
pub struct ClusterGrid {
    along_m: u32,
    along_n: u32,
    /// This CTA's position along m.
    m: Reg<u32>,
    /// This CTA's position along n.
    n: Reg<u32>,
}

/// How CTAs of a cluster share the load of a tile: each loads a slice and multicasts it.
#[derive(Clone, Copy, DeviceValue)]
pub struct Multicast {
    /// The slice that this CTA loads.
    pub(crate) slice: Reg<u32>,
    /// The CTAs that receive it: a bit for each rank.
    pub(crate) receivers: Reg<u16>,
    /// The number of receiving CTAs.
    pub(crate) ctas: u32,
}

impl ClusterGrid {
    /// Clusters of `along_m` times `along_n` CTAs, numbered along m first. Sets the launch's
    /// cluster.
    #[track_caller]
    pub fn new((along_m, along_n): (u32, u32)) -> Self {
        if along_m * along_n == 1 {
            return Self { along_m, along_n, m: constant(0u32), n: constant(0u32) };
        }
        launch::cluster(along_m * along_n, 1, 1);
        let rank = cluster_rank();
        Self { along_m, along_n, m: rank % along_m, n: rank / along_m }
    }

    /// CTAs along m and n.
    pub fn shape(self) -> (u32, u32) {
        (self.along_m, self.along_n)
    }

    /// CTAs of the cluster.
    pub fn size(self) -> u32 {
        self.along_m * self.along_n
    }

    /// This CTA's position along m.
    pub fn m(self) -> Reg<u32> {
        self.m
    }

    /// This CTA's position along n.
    pub fn n(self) -> Reg<u32> {
        self.n
    }

    /// The multicast of a tile of A among the CTAs at one position along m; `None` if there is one
    /// such CTA.
    #[track_caller]
    pub fn multicast_a(self) -> Option<Multicast> {
        if self.along_n == 1 {
            return None;
        }
        let column: u16 = (0..self.along_n).map(|n| 1 << (n * self.along_m)).sum();
        Some(Multicast { slice: self.n, receivers: constant(column) << self.m, ctas: self.along_n })
    }

    /// The multicast of a tile of B among the CTAs at one position along n; `None` if there is one
    /// such CTA.
    #[track_caller]
    pub fn multicast_b(self) -> Option<Multicast> {
        if self.along_m == 1 {
            return None;
        }
        let row: u16 = (1 << self.along_m) - 1;
        Some(Multicast {
            slice: self.m,
            receivers: constant(row) << (self.n * self.along_m),
            ctas: self.along_m,
        })
    }

    /// The number of CTAs that load something for this one, itself included.
    pub(crate) fn loaders(self) -> u32 {
        self.along_m + self.along_n - 1
    }

    /// The rank of loader number `index` (below [`loaders`](Self::loaders)): those of its column
    /// first, then the others of its row.
    #[track_caller]
    pub(crate) fn loader(self, index: Reg<u32>) -> Reg<u32> {
        let in_column = self.n * self.along_m + index;
        let past = index - self.along_m;
        // The row's CTAs but this one: those before it, then those after it.
        let other = past + past.ge(self.n).to_u32();
        index.lt(self.along_m).select(in_column, other * self.along_m + self.m)
    }
}

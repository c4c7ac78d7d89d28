//! The steps before the library's kernels, and the parameters of their launches.

use std::sync::Arc;

use warpwright::lang::pointer::{In, Out};
use warpwright::runtime::{Compiled, LaunchCounts, Stream};
use warpwright_kernels::operations::{Operations, Result};
use warpwright_kernels::sgemm::tiles::Tiles;
use warpwright_kernels::sgemm::{Matrices, Scale};

use super::coalesced::Coalesced;
use super::naive::{Naive, SIDE};
use super::shared::SharedBlock;
use super::thread_tile::ThreadTile;
use super::vectorized::Vectorized;
use super::warp_tile::WarpTile;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One thread per element, lanes along a column.
    Naive,
    /// One thread per element, lanes along a row.
    Coalesced,
    /// 32 x 32 blocks in shared memory.
    Shared,
    /// A tile of C per thread.
    ThreadTile(ThreadTile),
    /// Four elements per instruction.
    Vectorized(Vectorized),
    /// Tiles of warps.
    WarpTile(WarpTile),
}

/// The kernels' arguments: the matrices, and m, n, k, alpha and beta.
pub(super) type Arguments = (In<f32>, In<f32>, Out<f32>, (u32, u32, u32, f32, f32));

impl Step {
    /// The tiles, for a step that has them.
    fn tiles(&self) -> Option<Tiles> {
        match self {
            Self::Naive | Self::Coalesced | Self::Shared => None,
            Self::ThreadTile(kernel) => Some(kernel.tiles),
            Self::Vectorized(kernel) => Some(kernel.tiles),
            Self::WarpTile(kernel) => Some(kernel.tiles),
        }
    }

    /// The compiled kernel.
    pub(super) fn kernel(&self, operations: &Operations) -> Result<Arc<Compiled<Arguments>>> {
        match self {
            Self::Naive | Self::Coalesced | Self::Shared => {}
            Self::ThreadTile(kernel) => kernel.check()?,
            Self::Vectorized(kernel) => kernel.check()?,
            Self::WarpTile(kernel) => kernel.check()?,
        }
        match *self {
            Self::Naive => operations.kernel(Naive, Naive::run),
            Self::Coalesced => operations.kernel(Coalesced, Coalesced::run),
            Self::Shared => operations.kernel(SharedBlock, SharedBlock::run),
            Self::ThreadTile(kernel) => operations.kernel(kernel, ThreadTile::run),
            Self::Vectorized(kernel) => operations.kernel(kernel, Vectorized::run),
            Self::WarpTile(kernel) => operations.kernel(kernel, WarpTile::run),
        }
    }

    /// C = alpha · A·B + beta · C.
    ///
    /// # Errors
    /// The tiles break a rule, or the device refuses the launch.
    pub fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        Matrices { extents: (m, n, k), a, b, c }: Matrices<'_>,
        scale: Scale,
    ) -> Result<LaunchCounts> {
        if m == 0 || n == 0 {
            return Ok(LaunchCounts::default());
        }
        let (rows, columns) =
            self.tiles().map_or((SIDE, SIDE), |Tiles { block: (rows, columns, _), .. }| (rows, columns));
        let ctas = u64::from(m.div_ceil(rows)) * u64::from(n.div_ceil(columns));
        let grid = operations.grid("sgemm", ctas)?;
        let product = (m, n, k, scale.alpha, scale.beta);
        Ok(self.kernel(operations)?.launch(stream, grid, (a, b, c, product))?)
    }
}

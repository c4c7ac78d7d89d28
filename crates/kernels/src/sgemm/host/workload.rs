//! SGEMM as a workload.

use warpwright::runtime::LaunchCounts;
use warpwright::runtime::cublas::{CublasMatmul, MatmulShape, MatrixLayout};
use warpwright_harness::{OptionValue, Options, Prepared, Result, Setup, Work, Workload};

use super::super::problem::Scale;
use super::method::Method;
use super::plan::{self, COPIED, FED};
use super::reference::Problem;
use crate::operations::Operations;

/// Multiplies f32 matrices without tensor cores.
#[derive(Clone, Debug, Options)]
pub(crate) struct SgemmWorkload {
    /// The problem.
    #[option(flatten)]
    problem: Problem,
    /// How k-blocks of A and B are copied to shared memory.
    algorithm: Option<Algorithm>,
    /// CTA tile of C.
    #[option(search = [Tile::T128x128, Tile::T256x128, Tile::T128x256, Tile::T64x64])]
    tile: Option<Tile>,
    /// Number of splits along k.
    #[option(min = 1, search = [1, 2, 4])]
    splits: Option<u32>,
}

/// How k-blocks of A and B are copied to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, OptionValue)]
enum Algorithm {
    /// By all threads, with double buffering.
    DoubleBuffered,
    /// By TMA.
    Tma,
}

/// A CTA tile of C: rows x columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, OptionValue)]
pub enum Tile {
    /// 128 x 128.
    #[option(name = "128x128")]
    T128x128,
    /// 256 x 128.
    #[option(name = "256x128")]
    T256x128,
    /// 128 x 256.
    #[option(name = "128x256")]
    T128x256,
    /// 64 x 64.
    #[option(name = "64x64")]
    T64x64,
}

impl SgemmWorkload {
    fn method(&self, setup: &Setup) -> Result<Method> {
        let extents @ (_, n, _) = self.problem.extents();
        let fed = match self.algorithm {
            None => plan::tma_reads(setup.capability(), extents),
            Some(algorithm) => algorithm == Algorithm::Tma,
        };
        let configurations = if fed { FED } else { COPIED };
        let ((_, tiles, ctas_per_sm), planned) = match self.tile.map(|tile| tile.text()) {
            None => plan::choose(setup.sm_count(), configurations, extents),
            Some(tile) => {
                let found = configurations.iter().find(|(name, ..)| *name == tile);
                (*found.ok_or_else(|| format!("--tile {tile} is not a tile of this algorithm"))?, 1)
            }
        };
        let splits = self.splits.unwrap_or(planned);
        Ok(match fed {
            true => Method::TmaFed(plan::tma_fed(tiles, ctas_per_sm), splits),
            false => Method::DoubleBuffered(plan::double_buffered(tiles, ctas_per_sm, n), splits),
        })
    }

    /// cuBLAS in `CUBLAS_COMPUTE_32F`, which does not use TF32.
    fn cublas(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        if self.problem.scale() != Scale::default() {
            return Err("cublas computes A·B: time it with --alpha 1 --beta 0".into());
        }
        let (m, n, k) = self.problem.sizes();
        let shape = MatmulShape { m, n, k, a: MatrixLayout::RowMajor, b: MatrixLayout::RowMajor, batch: 1 };
        let mut first = self.problem.buffers(setup, setup.seed())?;
        let stream = setup.device().stream()?;
        let product = CublasMatmul::new(&stream, shape, &first.a, &first.b, &mut first.c)?;
        drop(first);
        self.problem.prepare(setup, move |stream, matrices, _| {
            product.launch(stream, matrices.a, matrices.b, matrices.c)?;
            Ok(LaunchCounts::default())
        })
    }
}

impl Workload for SgemmWorkload {
    const NAME: &'static str = "sgemm";

    fn work(&self) -> Work {
        self.problem.work()
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (method, operations) = (self.method(setup)?, Operations::new(setup.device()));
        self.problem.prepare(setup, move |stream, matrices, scale| {
            Ok(operations.sgemm_by(method, stream, matrices, scale)?)
        })
    }

    fn baseline(&self, name: &str, setup: &Setup) -> Option<Result<Box<dyn Prepared>>> {
        (name == "cublas").then(|| self.cublas(setup))
    }
}

//! SGEMM as a workload.

pub mod reference;

use warpwright::runtime::LaunchCounts;
use warpwright::runtime::cublas::{CublasMatmul, MatmulShape, MatrixLayout};
use warpwright_harness::{Options, Prepared, Refused, Result, Setup, Work, Workload};

use self::reference::Problem;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sgemm::Scale;
use warpwright_kernels::sgemm::host::plan::{self, Algorithm, Method, Tile};

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

impl SgemmWorkload {
    fn method(&self, setup: &Setup) -> Result<Method> {
        let extents @ (_, n, _) = self.problem.extents();
        let algorithm = self.algorithm.unwrap_or(Algorithm::fastest(setup.capability(), extents));
        let configurations = algorithm.configurations();
        let (configuration, planned) = match self.tile {
            None => plan::choose(setup.sm_count(), configurations, extents),
            Some(tile) => {
                let found = configurations.iter().find(|(of, ..)| *of == tile);
                let reason = || {
                    format!("--tile {tile}: the {algorithm} algorithm does not have this tile; remove --tile")
                };
                let refused = || Refused::new(reason());
                (*found.ok_or_else(refused)?, 1)
            }
        };
        Ok(algorithm.method(configuration, self.splits.unwrap_or(planned), n))
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

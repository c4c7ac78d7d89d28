//! The same problems by cuBLASLt.

use std::sync::Arc;

use warpwright::runtime::cublas::{self, CublasMatmul, MatmulShape};
use warpwright::runtime::{LaunchCounts, Storable, Stream};
use warpwright_harness::{Prepared, Result, Setup, Workload};

use super::GemmWorkload;
use super::inputs::{Case, Set};
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::types::{MatrixLayout, with_operand, with_output};

impl GemmWorkload {
    /// A batch in one launch; groups in one launch after another.
    pub(super) fn cublas(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        self.expect_identity("cuBLASLt's GEMM here")?;
        let types = self.types()?;
        if types.a != types.b || self.granularities().is_some() {
            return Err("cuBLASLt is timed with operands of one type without blockwise scales".into());
        }
        with_operand!(types.a, T => with_output!(types.c, C => self.cublas_of::<T, C>(setup)))
    }

    fn cublas_of<T: Storable, C: Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let mut cases = self.cases(setup.seed());
        if let [Case { batch, groups: Some(groups) }] = &cases[..] {
            let rows = groups.iter().filter(|rows| **rows > 0);
            cases =
                rows.map(|&m| Case { batch: Problem { m, ..batch.problem }.into(), groups: None }).collect();
        }
        let stream = setup.device().stream()?;
        // Problems of one shape have one algorithm.
        let mut known: Vec<(Batch, Arc<CublasMatmul<T, C>>)> = Vec::new();
        let mut products = Vec::new();
        for Case { batch, .. } in &cases {
            let product = match known.iter().find(|(other, _)| other == batch) {
                Some((_, product)) => product.clone(),
                None => {
                    let (device, [a, b, c]) = (setup.device(), batch.lengths());
                    let (a, b, mut c) = (device.zeros(a)?, device.zeros(b)?, device.uninitialized(c)?);
                    Arc::new(CublasMatmul::new(&stream, shape(*batch), &a, &b, &mut c)?)
                }
            };
            known.push((*batch, product.clone()));
            products.push(product);
        }
        let sets = setup.buffers(self.work(), |seed| self.sets(setup, &cases, seed))?;
        let launch = move |stream: &Stream, sets: &mut Vec<Set>| {
            for (product, Set { a, b, c, .. }) in products.iter().zip(sets) {
                product.launch(stream, a.values.cast(), b.values.cast(), c.cast_mut())?;
            }
            Ok(LaunchCounts::default())
        };
        let options = self.clone();
        Ok(sets.launch(launch).verify(move |sets| options.verify(sets)))
    }
}

/// A batch as cuBLASLt takes it.
fn shape(batch: Batch) -> MatmulShape {
    let Problem { m, n, k, a, b } = batch.problem;
    let [m, n, k] = [m, n, k].map(|extent| extent as usize);
    let [a, b] = [a, b].map(|layout| match layout {
        MatrixLayout::RowMajor => cublas::MatrixLayout::RowMajor,
        MatrixLayout::ColumnMajor => cublas::MatrixLayout::ColumnMajor,
    });
    MatmulShape { m, n, k, a, b, batch: batch.count as usize }
}

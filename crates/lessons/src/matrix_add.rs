//! C = A + B over matrices as tensors: one coordinate, three layouts.

use warpwright::prelude::*;
use warpwright_harness::{Compared, Options, Prepared, Result, Setup, Values, Work, Workload, compare};

/// C = A + B, all (m, n). A and C are row-major, B is column-major; the kernel's text is
/// independent of that.
pub struct MatrixAdd {
    /// The block is a square with this many threads per side.
    pub side: u32,
}

impl MatrixAdd {
    /// Each thread adds the elements at its coordinate.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, m: u32, n: u32) {
        launch::required_block(self.side, self.side, 1);
        let a = Tensor::with_layout(*a, Layout::new((m, n), (n, 1)));
        let b = Tensor::with_layout(*b, Layout::new((m, n), (1, m)));
        let c = Tensor::with_layout(*c, Layout::new((m, n), (n, 1)));
        let row = block_idx().y * self.side + thread_idx().y;
        let column = block_idx().x * self.side + thread_idx().x;
        if row < m && column < n {
            c.set((row, column), a.get((row, column)) + b.get((row, column)));
        }
    }
}

const KERNEL: MatrixAdd = MatrixAdd { side: 16 };

/// C = A + B over matrices of different layouts: tensors and layouts.
#[derive(Clone, Debug, Options)]
pub(crate) struct MatrixAddWorkload {
    /// Number of rows.
    #[option(default = 500, min = 1)]
    m: u32,
    /// Number of columns.
    #[option(default = 300, min = 1)]
    n: u32,
}

impl Workload for MatrixAddWorkload {
    const NAME: &'static str = "matrix-add";

    fn work(&self) -> Work {
        let elements = f64::from(self.m) * f64::from(self.n);
        Work { operations: elements, bytes: 12.0 * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (m, n) = (self.m, self.n);
        let count = crate::elements(m, n)?;
        let kernel = setup.device().compile(&KERNEL.run()?)?;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = |seed| setup.values::<f32>(Values::Normal, seed, count);
            Ok((input(seed)?, input(!seed)?, setup.output::<f32>(count)?))
        })?;
        Ok(buffers
            .launch(move |stream, (a, b, c)| {
                let grid = [n.div_ceil(KERNEL.side), m.div_ceil(KERNEL.side), 1];
                Ok(kernel.launch(stream, grid, (a, b, c, m, n))?)
            })
            .verify(move |(a, b, c)| {
                let (a, b, c) = (a.to_vec()?, b.to_vec()?, c.to_vec()?);
                let at = |index: usize| (index / n as usize, index % n as usize);
                let elements = c.iter().enumerate().map(|(index, found)| {
                    let (row, column) = at(index);
                    let expected = a[index] + b[column * m as usize + row];
                    Compared { found: f64::from(*found), expected: f64::from(expected), tolerance: 0.0 }
                });
                Ok(compare(elements, |index| vec![at(index as usize).0, at(index as usize).1])?)
            }))
    }
}

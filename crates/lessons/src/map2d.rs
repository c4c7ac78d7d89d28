//! `map2d`: a two-dimensional grid over a matrix; each thread adds ten to one element.

use warpwright::prelude::*;
use warpwright_harness::{Compared, Options, Prepared, Result, Setup, Values, Work, Workload, compare};

/// output = input + 10 over an (m, n) row-major matrix.
pub struct Map2d {
    /// The block is a square with this many threads per side.
    pub side: u32,
}

impl Map2d {
    /// Threads of one row are neighbors in x, so the accesses of a warp are coalesced.
    // ANCHOR: kernel
    #[kernel]
    pub fn run(&self, input: &Global<f32>, output: &mut Global<f32>, m: u32, n: u32) {
        launch::required_block(self.side, self.side, 1);
        let row = block_idx().y * self.side + thread_idx().y;
        let column = block_idx().x * self.side + thread_idx().x;
        if row < m && column < n {
            output[row * n + column] = input[row * n + column] + 10.0;
        }
    }
    // ANCHOR_END: kernel
}

const KERNEL: Map2d = Map2d { side: 16 };

/// Adds 10 to each element of a matrix: a two-dimensional grid.
#[derive(Clone, Debug, Options)]
pub(crate) struct Map2dWorkload {
    /// Number of rows.
    #[option(default = 1000, min = 1)]
    m: u32,
    /// Number of columns.
    #[option(default = 777, min = 1)]
    n: u32,
}

impl Workload for Map2dWorkload {
    const NAME: &'static str = "map2d";

    fn work(&self) -> Work {
        let elements = f64::from(self.m) * f64::from(self.n);
        Work { operations: elements, bytes: 8.0 * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (m, n) = (self.m, self.n);
        let count = crate::elements(m, n)?;
        let kernel = setup.device().compile(&KERNEL.run()?)?;
        let buffers = setup.buffers(self.work(), |seed| {
            Ok((setup.values::<f32>(Values::Normal, seed, count)?, setup.output::<f32>(count)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, output)| {
                let grid = [n.div_ceil(KERNEL.side), m.div_ceil(KERNEL.side), 1];
                Ok(kernel.launch(stream, grid, (input, output, m, n))?)
            })
            .verify(move |(input, output)| {
                let (input, output) = (input.to_vec()?, output.to_vec()?);
                let elements = output.iter().zip(&input).map(|(found, input)| Compared {
                    found: f64::from(*found),
                    expected: f64::from(input + 10.0),
                    tolerance: 0.0,
                });
                Ok(compare(elements, |index| vec![index as usize / n as usize, index as usize % n as usize])?)
            }))
    }
}

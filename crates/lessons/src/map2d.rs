//! The notes' `map2d`: a two-dimensional grid over a matrix, each thread adding ten to one element.

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use warpwright_kernels::prepared::{Ready, ptx};
use warpwright_kernels::reference::Random;
use warpwright_kernels::registry::{
    Element, LibraryKernel, OptionSpec, Options, Prepared, Result, Work, compare,
};

/// output = input + 10 over an (m, n) row-major matrix.
pub struct Map2d {
    /// The CTA is a square of this many threads a side.
    pub side: u32,
}

impl Map2d {
    /// Threads of one row are neighbours in x, so that a warp's accesses are neighbours in memory.
    #[kernel]
    pub fn run(&self, input: &Global<f32>, output: &mut Global<f32>, m: u32, n: u32) {
        launch::required_block(self.side, self.side, 1);
        let row = block_idx().y * self.side + thread_idx().y;
        let column = block_idx().x * self.side + thread_idx().x;
        if row < m && column < n {
            output[row * n + column] = input[row * n + column] + 10.0;
        }
    }
}

const KERNEL: Map2d = Map2d { side: 16 };

/// [`Map2d`] for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("m", 1000, "rows"),
    OptionSpec::extent("n", 777, "columns"),
    OptionSpec::number("seed", 1, "of the input"),
];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "map2d"
    }

    fn summary(&self) -> &'static str {
        "output = input + 10 over a matrix, f32: a two-dimensional grid"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, _options: &Options) -> Result<String> {
        ptx(KERNEL.run()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let (m, n) = (options.u32("m")?, options.u32("n")?);
        let count = u32::try_from(u64::from(m) * u64::from(n))? as usize;
        let input = Random::new(options.number("seed")).normal(count);
        let input_there = device.buffer_from(&input)?;
        let output_there = Rc::new(device.uninitialized::<f32>(count)?);
        let kernel = device.compile(&KERNEL.run()?)?;
        let result = Rc::clone(&output_there);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                let grid = [n.div_ceil(KERNEL.side), m.div_ceil(KERNEL.side), 1];
                let launch = kernel.shape(grid);
                Ok(kernel.function().launch(stream, launch, (&input_there, &*output_there, m, n))?)
            },
            verify: move || {
                let found = result.to_vec()?;
                let elements = found.iter().zip(&input).map(|(found, input)| Element {
                    found: f64::from(*found),
                    expected: f64::from(input + 10.0),
                    tolerance: 0.0,
                });
                Ok(compare(elements, |index| vec![index as usize / n as usize, index as usize % n as usize])?)
            },
            work: Work { operations: count as f64, bytes: 8.0 * count as f64 },
        }))
    }
}

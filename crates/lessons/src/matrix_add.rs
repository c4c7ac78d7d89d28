//! C = A + B over matrices through tensors: one coordinate, three layouts.

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use warpwright_kernels::prepared::{Ready, ptx};
use warpwright_kernels::reference::Random;
use warpwright_kernels::registry::{
    Element, LibraryKernel, OptionSpec, Options, Prepared, Result, Work, compare,
};

/// C = A + B, all (m, n); A and C are row-major, B is column-major: the kernel's text does not know.
pub struct MatrixAdd {
    /// The CTA is a square of this many threads a side.
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

/// [`MatrixAdd`] for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("m", 500, "rows"),
    OptionSpec::extent("n", 300, "columns"),
    OptionSpec::number("seed", 1, "of the inputs"),
];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "matrix-add"
    }

    fn summary(&self) -> &'static str {
        "C = A + B over matrices of different orders, f32: tensors and layouts"
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
        let mut random = Random::new(options.number("seed"));
        let (a, b) = (random.normal(count), random.normal(count));
        let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
        let c_there = Rc::new(device.uninitialized::<f32>(count)?);
        let kernel = device.compile(&KERNEL.run()?)?;
        let result = Rc::clone(&c_there);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                let grid = [n.div_ceil(KERNEL.side), m.div_ceil(KERNEL.side), 1];
                let launch = kernel.shape(grid);
                Ok(kernel.function().launch(stream, launch, (&a_there, &b_there, &*c_there, m, n))?)
            },
            verify: move || {
                let found = result.to_vec()?;
                let place = |index: usize| (index / n as usize, index % n as usize);
                let elements = found.iter().enumerate().map(|(index, found)| {
                    let (row, column) = place(index);
                    let expected = a[index] + b[column * m as usize + row];
                    Element { found: f64::from(*found), expected: f64::from(expected), tolerance: 0.0 }
                });
                Ok(compare(elements, |index| vec![place(index as usize).0, place(index as usize).1])?)
            },
            work: Work { operations: count as f64, bytes: 12.0 * count as f64 },
        }))
    }
}

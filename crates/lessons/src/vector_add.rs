//! C = A + B: a thread an element.

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use warpwright_kernels::prepared::{Ready, ptx};
use warpwright_kernels::reference::Random;
use warpwright_kernels::registry::{
    Element, LibraryKernel, OptionSpec, Options, Prepared, Result, Work, compare,
};

/// C = A + B, elementwise.
pub struct VectorAdd {
    /// Threads of a CTA.
    pub threads: u32,
}

impl VectorAdd {
    /// A, B and C have `length` elements.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, length: u32) {
        launch::threads(self.threads);
        let i = block_idx().x * self.threads + thread_idx().x;
        if i < length {
            c[i] = a[i] + b[i];
        }
    }
}

const KERNEL: VectorAdd = VectorAdd { threads: 256 };

/// [`VectorAdd`] for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] =
    &[OptionSpec::extent("length", 1 << 20, "elements"), OptionSpec::number("seed", 1, "of the inputs")];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "vector-add"
    }

    fn summary(&self) -> &'static str {
        "C = A + B, elementwise, f32: a thread an element"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, _options: &Options) -> Result<String> {
        ptx(KERNEL.run()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let length = options.u32("length")?;
        let mut random = Random::new(options.number("seed"));
        let (a, b) = (random.normal(length as usize), random.normal(length as usize));
        let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
        let c_there = Rc::new(device.uninitialized::<f32>(length as usize)?);
        let kernel = device.compile(&KERNEL.run()?)?;
        let result = Rc::clone(&c_there);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                let launch = kernel.shape(length.div_ceil(KERNEL.threads));
                Ok(kernel.function().launch(stream, launch, (&a_there, &b_there, &*c_there, length))?)
            },
            verify: move || {
                let found = result.to_vec()?;
                let elements = found.iter().zip(a.iter().zip(&b)).map(|(found, (a, b))| Element {
                    found: f64::from(*found),
                    expected: f64::from(a + b),
                    tolerance: 0.0,
                });
                Ok(compare(elements, |index| vec![index as usize])?)
            },
            work: Work { operations: f64::from(length), bytes: 12.0 * f64::from(length) },
        }))
    }
}

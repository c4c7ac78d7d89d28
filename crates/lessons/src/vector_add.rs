//! C = A + B, one thread per element.

use warpwright::prelude::*;
use warpwright_harness::{Options, Prepared, Result, Setup, Values, Work, Workload, exactly};

/// C = A + B, elementwise.
pub struct VectorAdd {
    /// Threads per CTA.
    pub threads: u32,
}

impl VectorAdd {
    /// A, B and C have `length` elements.
    // ANCHOR: kernel
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, length: u32) {
        launch::threads(self.threads);
        let i = block_idx().x * self.threads + thread_idx().x;
        if i < length {
            c[i] = a[i] + b[i];
        }
    }
    // ANCHOR_END: kernel
}

const KERNEL: VectorAdd = VectorAdd { threads: 256 };

/// C = A + B, elementwise: one thread per element.
#[derive(Clone, Debug, Options)]
pub(crate) struct VectorAddWorkload {
    /// Number of elements.
    #[option(default = 1 << 20, min = 1)]
    length: u32,
}

impl Workload for VectorAddWorkload {
    const NAME: &'static str = "vector-add";

    fn work(&self) -> Work {
        let elements = f64::from(self.length);
        Work { operations: elements, bytes: 12.0 * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let length = self.length;
        let kernel = setup.device().compile(&KERNEL.run()?)?;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = |seed| setup.values::<f32>(Values::Normal, seed, length as usize);
            Ok((input(seed)?, input(!seed)?, setup.output::<f32>(length as usize)?))
        })?;
        Ok(buffers
            .launch(move |stream, (a, b, c)| {
                let ctas = length.div_ceil(KERNEL.threads);
                Ok(kernel.launch(stream, ctas, (a, b, c, length))?)
            })
            .verify(|(a, b, c)| {
                let (a, b) = (a.to_vec()?, b.to_vec()?);
                exactly(&c.to_vec()?, |index| f64::from(a[index] + b[index]))
            }))
    }
}

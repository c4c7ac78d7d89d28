//! What lanes that read apart from one another cost.
//!
//! Global memory moves in sectors of 32 bytes. Lane l of a warp reads the f32 at l·s: with stride s a warp touches 4·s sectors, but
//! never more than one a lane.
//!
//! ```text
//! stride             1     2     4     8    16
//! sectors            4     8    16    32    32
//! bytes used         100%  50%   25%   12%   12%
//! ```

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::exactly;
use warpwright_kernels::number::Values;
use warpwright_kernels::prepared::{Ready, ptx};
use warpwright_kernels::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};

/// output\[i\] = input\[i·stride\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coalescing {
    /// Elements from lane to lane.
    pub stride: u32,
}

/// Threads of a CTA.
const THREADS: u32 = 256;

impl Coalescing {
    /// The sectors that a warp's read touches: the closed form, for a base aligned to a sector.
    pub fn sectors(&self) -> u32 {
        (4 * self.stride).clamp(1, 32)
    }

    /// The output has `length` elements, and the input `stride` times as many.
    #[kernel]
    pub fn run(&self, input: &Global<f32>, output: &mut Global<f32>, length: u32) {
        launch::threads(THREADS);
        let i = block_idx().x * THREADS + thread_idx().x;
        if i < length {
            output[i] = input.at(i.convert::<u64>() * u64::from(self.stride)).load();
        }
    }
}

/// [`Coalescing`] for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("length", 1 << 20, "elements of the output"),
    OptionSpec::extent("stride", 1, "elements from lane to lane"),
    OptionSpec::number("seed", 1, "of the input"),
];

fn kernel(options: &Options) -> Result<Coalescing> {
    Ok(Coalescing { stride: options.u32("stride")? })
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "coalescing"
    }

    fn summary(&self) -> &'static str {
        "a warp reads global memory with a stride: more sectors for the same elements"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        ptx(kernel(options)?.run()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let (kernel, length) = (kernel(options)?, options.u32("length")?);
        let stride = kernel.stride as usize;
        let input: Vec<f32> = Values::Normal.numbers(options.number("seed"), length as usize * stride);
        let input_there = device.buffer_from(&input)?;
        let output = Rc::new(device.uninitialized::<f32>(length as usize)?);
        let compiled = device.compile(&kernel.run()?)?;
        let result = Rc::clone(&output);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                let shape = compiled.shape(length.div_ceil(THREADS));
                Ok(compiled.function().launch(stream, shape, (&input_there, &*output, length))?)
            },
            verify: move || exactly(&result.to_vec()?, |index| f64::from(input[index * stride])),
            work: Work { operations: 0.0, bytes: 8.0 * f64::from(length) },
        }))
    }
}

#[cfg(test)]
mod tests {
    use warpwright::layout::{Access, Layout};

    use super::*;

    #[test]
    fn the_closed_form_is_what_the_sectors_say() {
        for stride in 1..40 {
            let lanes: Layout = format!("(32,1):({stride},1)").parse().expect("a layout");
            let memory: Layout = format!("{}:1", 64 * stride).parse().expect("a layout");
            let sectors = Access::new(lanes, 32).and_then(|access| access.sectors(&memory.into()));
            let touched = sectors.expect("an access").touched;
            assert_eq!(i64::from(Coalescing { stride }.sectors()), touched, "stride {stride}");
        }
    }
}

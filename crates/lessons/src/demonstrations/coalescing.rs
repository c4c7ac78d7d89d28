//! The cost of uncoalesced loads.
//!
//! Global memory moves in sectors of 32 bytes. Lane l of a warp reads the f32 at l·s. With stride s
//! a warp accesses 4·s sectors, up to one per lane.
//!
//! ```text
//! stride             1     2     4     8    16
//! sectors            4     8    16    32    32
//! bytes used         100%  50%   25%   12%   12%
//! ```

use warpwright::prelude::*;
use warpwright_harness::{Options, Prepared, Result, Setup, Values, Work, Workload, exactly};

/// output\[i\] = input\[i·stride\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coalescing {
    /// Stride between lanes, in elements.
    pub stride: u32,
}

/// Threads per CTA.
const THREADS: u32 = 256;

impl Coalescing {
    /// The sectors of a warp's read, in closed form, for a base aligned to a sector.
    pub fn sectors(&self) -> u32 {
        (4 * self.stride).clamp(1, 32)
    }

    /// The output has `length` elements, and the input `stride` times as many.
    // ANCHOR: kernel
    #[kernel]
    pub fn run(&self, input: &Global<f32>, output: &mut Global<f32>, length: u32) {
        launch::threads(THREADS);
        let i = block_idx().x * THREADS + thread_idx().x;
        if i < length {
            output[i] = input.at(i.convert::<u64>() * u64::from(self.stride)).load();
        }
    }
    // ANCHOR_END: kernel
}

/// Reads global memory with a stride: more sectors for the same elements.
#[derive(Clone, Debug, Options)]
pub(crate) struct CoalescingWorkload {
    /// Number of output elements.
    #[option(default = 1 << 20, min = 1)]
    length: u32,
    /// Stride between lanes, in elements.
    #[option(default = 1, min = 1)]
    stride: u32,
}

impl Workload for CoalescingWorkload {
    const NAME: &'static str = "coalescing";

    fn work(&self) -> Work {
        Work { operations: 0.0, bytes: 8.0 * f64::from(self.length) }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (length, stride) = (self.length, self.stride as usize);
        let kernel = setup.device().compile(&Coalescing { stride: self.stride }.run()?)?;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.values::<f32>(Values::Normal, seed, length as usize * stride)?;
            Ok((input, setup.output::<f32>(length as usize)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, output)| {
                Ok(kernel.launch(stream, length.div_ceil(THREADS), (input, output, length))?)
            })
            .verify(move |(input, output)| {
                let input = input.to_vec()?;
                exactly(&output.to_vec()?, |index| f64::from(input[index * stride]))
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

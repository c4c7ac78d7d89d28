//! What a program calls.

use warpwright::runtime::{LaunchCounts, Stream};

use super::super::device::combine::{self, Combine};
use super::super::device::double_buffered::DoubleBuffered;
use super::super::device::tma::TmaFed;
use super::super::problem::{Matrices, Scale};
use super::plan::Method;
use crate::operations::{Operations, Result, Scratch, both, expect_length};

/// The accumulators of the splits.
#[derive(Default)]
struct SplitScratch {
    accumulators: Scratch<f32>,
}

/// The splits of k in a launch, and the k-blocks of each.
struct Splits {
    count: u32,
    k_blocks: u32,
}

impl Operations {
    /// C = alpha · A·B + beta · C, by the kernel that [`Method::fastest`] chooses.
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// use warpwright_kernels::sgemm::{Matrices, Scale};
    ///
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let a = device.buffer_from(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?; // 2 x 3
    /// let b = device.buffer_from(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0])?; // 3 x 2
    /// let mut c = device.uninitialized(4)?;
    /// operations.sgemm(&stream, Matrices { extents: (2, 2, 3), a: &a, b: &b, c: &mut c }, Scale::default())?;
    /// assert_eq!(c.to_vec()?, [4.0, 5.0, 10.0, 11.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// m = 0 or n = 0 does nothing; k = 0 leaves beta · C.
    ///
    /// # Errors
    /// A buffer does not have the length of its extents, or the device refuses.
    pub fn sgemm(&self, stream: &Stream, matrices: Matrices<'_>, scale: Scale) -> Result<LaunchCounts> {
        let method = Method::fastest(self.device().properties(), matrices.extents);
        self.sgemm_by(method, stream, matrices, scale)
    }

    /// [`sgemm`](Self::sgemm) by one of the kernels.
    ///
    /// # Errors
    /// The kernel cannot do the shape, its tiles break a rule, or as [`sgemm`](Self::sgemm).
    pub fn sgemm_by(
        &self,
        method: Method,
        stream: &Stream,
        Matrices { extents, a, b, c }: Matrices<'_>,
        scale: Scale,
    ) -> Result<LaunchCounts> {
        let (m, n, k) = extents;
        let elements = |rows: u32, columns: u32| rows as usize * columns as usize;
        expect_length("A", elements(m, k), a.len())?;
        expect_length("B", elements(k, n), b.len())?;
        expect_length("C", elements(m, n), c.len())?;
        if elements(m, n) == 0 {
            return Ok(LaunchCounts::default());
        }
        method.check(self.device().properties().capability, extents)?;
        let k_blocks = k.div_ceil(method.tiles().block.2).max(1);
        let part = k_blocks.div_ceil(method.splits());
        // Fewer splits may hold all k-blocks once each has its part.
        let splits = Splits { count: k_blocks.div_ceil(part), k_blocks: part };
        let count = splits.count;
        if count == 1 {
            return self.sgemm_splits(method, stream, Matrices { extents, a, b, c }, scale, splits);
        }
        self.with_scratch(stream, |scratch: &mut SplitScratch| {
            let elements = c.len();
            let sums = scratch.accumulators.at_least(self.device(), count as usize * elements)?;
            let products = Matrices { extents, a, b, c: &mut *sums };
            let first = self.sgemm_splits(method, stream, products, Scale::default(), splits)?;
            let combine = self.kernel(Combine, Combine::run)?;
            let grid = self.grid("sgemm", (elements as u64).div_ceil(combine::THREADS.into()))?;
            let rest = (&*sums, &mut *c, elements as u64, count, scale.alpha, scale.beta);
            Ok(both(first, combine.launch(stream, grid, rest)?))
        })
    }

    /// Launches the kernel, one CTA per tile and split.
    fn sgemm_splits(
        &self,
        method: Method,
        stream: &Stream,
        Matrices { extents: (m, n, k), a, b, c }: Matrices<'_>,
        scale: Scale,
        Splits { count, k_blocks }: Splits,
    ) -> Result<LaunchCounts> {
        let ctas = self.grid("sgemm", method.tiles().ctas(m, n) * u64::from(count))?;
        let problem = (m, n, k, scale.alpha, scale.beta);
        Ok(match method {
            Method::DoubleBuffered(kernel, _) => {
                let kernel = self.kernel(kernel, DoubleBuffered::run)?;
                kernel.launch(stream, ctas, (a, b, c, problem, k_blocks))?
            }
            Method::TmaFed(kernel, _) => {
                let kernel = self.kernel(kernel, TmaFed::run)?;
                let a = kernel.tensor_map("a", a, &[m.into(), k.into()])?;
                let b = kernel.tensor_map("b", b, &[k.into(), n.into()])?;
                kernel.launch(stream, ctas, (&a, &b, c, problem, k_blocks))?
            }
        })
    }
}

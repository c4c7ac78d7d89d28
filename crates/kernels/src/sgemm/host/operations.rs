//! What a program calls.

use std::sync::Arc;

use warpwright::arch::tensor_map::Swizzle;
use warpwright::lang::pointer::{In, Out};
use warpwright::lang::tensor_map::TensorMap as MapParameter;
use warpwright::runtime::{Buffer, Compiled, LaunchCounts, Stream, TensorMap};

use super::super::device::combine::{self, Combine};
use super::super::device::double_buffered::DoubleBuffered;
use super::super::device::tma::TmaFed;
use super::super::problem::{Matrices, Scale};
use super::method::Method;
use super::plan;
use crate::operations::{OperationError, Operations, Result, Scratch, both, expect_length};

/// m, n, k, alpha, beta: a [`Product`](super::Product) as a launch passes it.
type Arguments = (u32, u32, u32, f32, f32);

/// The matrices, and how many slices a split has.
type Split = (In<f32>, In<f32>, Out<f32>, Arguments, u32);
/// Maps of A and B, whose boxes are (BM, BK) and (BK, BN), C, and how many slices a split has.
type Mapped = (MapParameter, MapParameter, Out<f32>, Arguments, u32);

/// A compiled kernel, by what it takes.
enum Staged {
    Split(Arc<Compiled<Split>>),
    Mapped(Arc<Compiled<Mapped>>, (u32, u32, u32)),
}

/// A kernel ready to launch: with one CTA a tile.
pub(super) struct Ready {
    kernel: Staged,
    ctas: u32,
}

impl Ready {
    /// Multiplies, `splits` parts of `part` slices each.
    fn launch(
        &self,
        stream: &Stream,
        (a, b, c): (&Buffer<f32>, &Buffer<f32>, &mut Buffer<f32>),
        arguments: Arguments,
        (splits, part): (u32, u32),
    ) -> Result<LaunchCounts> {
        let ctas = self.ctas * splits;
        Ok(match &self.kernel {
            Staged::Split(kernel) => kernel.launch(stream, ctas, (a, b, c, arguments, part))?,
            Staged::Mapped(kernel, (bm, bn, bk)) => {
                let map = |buffer, rows: u32, columns: u32, box_rows: &u32, box_columns: &u32| {
                    let extents = [u64::from(rows), u64::from(columns)];
                    TensorMap::row_major(buffer, &extents, &[*box_rows, *box_columns], Swizzle::None)
                };
                let (m, n, k, ..) = arguments;
                let (a, b) = (map(a, m, k, bm, bk)?, map(b, k, n, bk, bn)?);
                kernel.launch(stream, ctas, (&a, &b, c, arguments, part))?
            }
        })
    }
}

/// The sums of the splits.
#[derive(Default)]
struct Sums {
    sums: Scratch<f32>,
}

impl Operations {
    /// C = alpha · A·B + beta · C, by the kernel that [`plan::method`] chooses.
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
    /// A buffer has another length than its extents ask for, or the device refuses.
    pub fn sgemm(&self, stream: &Stream, matrices: Matrices<'_>, scale: Scale) -> Result<LaunchCounts> {
        let method = plan::method(self.device().properties(), matrices.extents);
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
        self.sgemm_check(method, extents)?;
        let arguments = |scale: Scale| (m, n, k, scale.alpha, scale.beta);
        let (prepared, splits) = (self.sgemm_kernel(method, extents)?, method.splits());
        let slices = k.div_ceil(method.depth()).max(1);
        let part = slices.div_ceil(splits);
        // Fewer splits may hold all slices once each has its part.
        let splits = slices.div_ceil(part);
        if splits == 1 {
            return prepared.launch(stream, (a, b, c), arguments(scale), (1, part));
        }
        self.with_scratch(stream, |scratch: &mut Sums| {
            let count = c.len();
            let sums = scratch.sums.at_least(self.device(), splits as usize * count)?;
            let plain = arguments(Scale::default());
            let first = prepared.launch(stream, (a, b, sums), plain, (splits, part))?;
            let combine = self.kernel(Combine, Combine::run)?;
            let grid = self.grid("sgemm", (count as u64).div_ceil(combine::THREADS.into()))?;
            let rest = (&*sums, &mut *c, count as u64, splits, scale.alpha, scale.beta);
            Ok(both(first, combine.launch(stream, grid, rest)?))
        })
    }

    /// Refuses a method that cannot do the shape, or whose tiles break a rule.
    fn sgemm_check(&self, method: Method, (m, n, k): (u32, u32, u32)) -> Result<()> {
        let limits = self.device().properties().capability;
        let checked = match method {
            Method::DoubleBuffered(kernel, _) => kernel.check(limits),
            Method::TmaFed(kernel, _) => kernel.check(limits),
        };
        let refuse = |reason: String| OperationError::Shape { what: "sgemm", reason };
        checked.map_err(|error| refuse(error.to_string()))?;
        if let Method::TmaFed(..) = method
            && !plan::tma_reads(limits, (m, n, k))
        {
            return Err(refuse(format!(
                "TMA needs sm_90 and rows of whole 16 bytes: n = {n} and k = {k} must be multiples of 4 from 4 on, and the device is {}",
                limits.target
            )));
        }
        Ok(())
    }

    /// The kernel of a method, compiled.
    pub(super) fn sgemm_kernel(&self, method: Method, (m, n, _): (u32, u32, u32)) -> Result<Ready> {
        let grid = |block: (u32, u32)| {
            let ctas = u64::from(m.div_ceil(block.0)) * u64::from(n.div_ceil(block.1));
            self.grid("sgemm", ctas * u64::from(method.splits()))?;
            Ok::<_, OperationError>(ctas as u32)
        };
        let tiled = |kernel, tiles: &super::super::tiles::Tiles| {
            Ok(Ready { kernel, ctas: grid((tiles.block.0, tiles.block.1))? })
        };
        match method {
            Method::DoubleBuffered(kernel, _) => {
                tiled(Staged::Split(self.kernel(kernel, DoubleBuffered::run)?), &kernel.tiles)
            }
            Method::TmaFed(kernel, _) => {
                let staged = Staged::Mapped(self.kernel(kernel, TmaFed::run)?, kernel.tiles.block);
                tiled(staged, &kernel.tiles)
            }
        }
    }
}

//! The front door of narrow operands: MXFP8, MXFP6, MXFP4 and NVFP4.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::Gemm;
use super::device::epilogue::FusedEpilogue;
use super::device::quantize::{self, QuantizeInput};
use super::host::config::Algorithm;
use super::host::heuristic;
use super::host::launch::{self, Buffers, Call};
use super::problem::batching::{Batch, GemmProblem, Problem};
use super::problem::epilogue::Epilogue;
use super::problem::error::GemmError;
use super::problem::narrow::{Narrow, NarrowFormat};
use super::problem::types::{GemmOutput, GemmTypes, MatrixLayout};
use crate::operations::{Operations, Result, expect_length};

impl<E> Gemm<'_, E> {
    /// The problem of narrow operands: its k counts bytes of shared memory.
    fn narrow<C: GemmOutput>(&self, a: NarrowFormat, b: NarrowFormat) -> Result<GemmProblem> {
        let Batch { problem, count, a_stride, b_stride, .. } = self.batch;
        if (problem.a, problem.b) != (MatrixLayout::RowMajor, MatrixLayout::ColumnMajor) {
            return Err(GemmError::NarrowLayouts.into());
        }
        if self.offsets.is_some() {
            return Err(GemmError::NarrowGroups.into());
        }
        if self.gate.is_some() {
            return Err(GemmError::GatedBatch.into());
        }
        if !a.multiplies(b) {
            return Err(GemmError::NarrowFormats { a: a.name(), b: b.name() }.into());
        }
        let packed = Batch::new(problem, count);
        let staged = Batch::new(Problem { k: a.staged_bytes(problem.k), ..problem }, count);
        // In what tensor maps count: bytes, or elements that TMA unpacks.
        let stride = |own: u64, packed: u64, (format, rows): (NarrowFormat, u32)| match own {
            0 => Ok(0),
            _ if own == packed => Ok(u64::from(rows) * u64::from(format.row_extent(problem.k))),
            _ => Err(GemmError::NarrowStrides),
        };
        let batch = Batch {
            a_stride: stride(a_stride, packed.a_stride, (a, problem.m))?,
            b_stride: stride(b_stride, packed.b_stride, (b, problem.n))?,
            c_stride: self.batch.c_stride,
            ..staged
        };
        let types = GemmTypes { a: a.data_type(), b: b.data_type(), c: C::DATA_TYPE };
        Ok(GemmProblem { vector_scales: Some(a.scales()), ..GemmProblem::new(batch, types) })
    }
}

impl Operations {
    /// Computes a GEMM of operands with a scale for every 16 or 32 elements along k, on Blackwell: by
    /// `tcgen05.mma`, or on GeForce GPUs by `mma.sync`.
    ///
    /// A is (m, k) and B (k, n) column-major: k is contiguous in both. In a batch the scales of
    /// each A and B follow those of the one before. The scales of NVFP4 tensors are the product
    /// that `gemm` has as its alpha.
    ///
    /// ```
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::Gemm;
    /// use warpwright_kernels::gemm::problem::narrow::{Narrow, NarrowFormat};
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:b200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let format = NarrowFormat::Nvfp4;
    /// let numbers = device.buffer_from(&[1.5f32; 16 * 64])?;
    /// let mut values = device.zeros::<u8>(format.value_bytes((16, 64)))?;
    /// let mut scales = device.zeros::<u8>(format.scale_bytes((16, 64)))?;
    /// operations.quantize(&stream, (16, 64), &numbers, format, 1.0, &mut values, &mut scales)?;
    /// let a = Narrow { format, values: &values, scales: &scales };
    /// let mut c = device.zeros::<f32>(16 * 16)?;
    /// operations.scaled_gemm(&stream, &Gemm::new(16, 16, 64), a, a, &mut c)?;
    /// assert_eq!(c.to_vec()?, [64.0 * 1.5 * 1.5; 16 * 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has a wrong length; the formats do not multiply; k is not contiguous; there are
    /// gaps between operands, or groups along m; the device has no kernel for them; or it failed.
    pub fn scaled_gemm<C, E>(
        &self,
        stream: &Stream,
        gemm: &Gemm<'_, E>,
        a: Narrow<'_>,
        b: Narrow<'_>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts>
    where
        C: GemmOutput,
        E: Epilogue<C, Operation: FusedEpilogue<C>>,
    {
        let problem = gemm.narrow::<C>(a.format, b.format)?;
        launch::expect_kernel(&problem, self.device().properties().capability)?;
        let (batch, Problem { m, n, k, .. }) = (problem.batch, gemm.problem());
        if k == 0 && !gemm.epilogue.is_identity() {
            return Err(GemmError::NoDepth.into());
        }
        let [(a_count, _), (b_count, _)] = batch.matrices();
        for ([values, scales], operand, extents, count) in
            [(["A", "A's scales"], a, (m, k), a_count), (["B", "B's scales"], b, (n, k), b_count)]
        {
            let Narrow { format, values: of_values, scales: of_scales } = operand;
            expect_length(values, count as usize * format.value_bytes(extents), of_values.len())?;
            expect_length(scales, count as usize * format.scale_bytes(extents), of_scales.len())?;
        }
        let [a_length, b_length, _] = batch.lengths();
        batch.expect_lengths([a_length, b_length, c.len()])?;
        gemm.epilogue.arguments().check(batch, false, E::VECTORS, c.len())?;
        if batch.count == 0 || m == 0 || n == 0 {
            return Ok(LaunchCounts::default());
        }
        if k == 0 {
            if batch.c_stride != Batch::new(batch.problem, batch.count).c_stride {
                return Err(GemmError::NoDepthWithGaps.into());
            }
            stream.fill_zero(c)?;
            return Ok(LaunchCounts::default());
        }
        let scales = Some([a.scales, b.scales]);
        let buffers = Buffers { a: a.values, b: b.values, c: c.cast_mut(), scales, offsets: None };
        let (operation, epilogue) = gemm.epilogue.arguments().untyped();
        let call = Call { problem, algorithm: gemm.algorithm, buffers, operation, epilogue };
        launch::launch::<C, E::Operation>(self, stream, call)
    }

    /// The algorithms for a GEMM of narrow operands, the cheapest by the heuristic first.
    ///
    /// # Errors
    /// As [`scaled_gemm`](Self::scaled_gemm), of formats, layouts and strides.
    pub fn scaled_gemm_algorithms<C: GemmOutput>(
        &self,
        gemm: &Gemm<'_, impl Sized>,
        a: NarrowFormat,
        b: NarrowFormat,
    ) -> Result<Vec<Algorithm>> {
        let (problem, properties) = (gemm.narrow::<C>(a, b)?, self.device().properties());
        Ok(heuristic::algorithms(&problem, properties.capability, properties.sm_count))
    }

    /// Quantizes a row-major matrix (rows, k) of f32 or bf16 to a narrow format, with its scales
    /// and their padding.
    ///
    /// A block has the smallest power of two as its scale with which no element exceeds the largest
    /// of the format; with NVFP4 the block's largest magnitude over 6 and over `tensor_scale`,
    /// rounded to e4m3. Elements are rounded to the nearest, halves to even. A block with a NaN or
    /// an infinity has a NaN as its scale. `tensor_scale` is NVFP4's alone: 1 for the others.
    ///
    /// # Errors
    /// A buffer has a wrong length, or the device failed.
    #[allow(clippy::too_many_arguments, reason = "a matrix, its format, and the two buffers of the result")]
    pub fn quantize<T: QuantizeInput + Storable>(
        &self,
        stream: &Stream,
        (rows, k): (u32, u32),
        from: &Buffer<T>,
        format: NarrowFormat,
        tensor_scale: f32,
        values: &mut Buffer<u8>,
        scales: &mut Buffer<u8>,
    ) -> Result<LaunchCounts> {
        expect_length("the matrix", rows as usize * k as usize, from.len())?;
        expect_length("the values", format.value_bytes((rows, k)), values.len())?;
        expect_length("the scales", format.scale_bytes((rows, k)), scales.len())?;
        quantize::launch(self, stream, (rows, k), from, format, tensor_scale, values, scales)
    }
}

//! Products with quantized weights: y = x Wᵀ of rows in bf16.
//!
//! ```text
//! a few rows               GEMV of the library, which reads the weights once for each 8 rows
//! more rows, fp8, sm_90a   x is quantized, too, with its norm or SwiGLU before; GEMM with block scales of the library
//! up to 128, int4, sm_90a  weight-only GEMM of the library, by the tensor cores
//! more rows otherwise      the weights are dequantized for a GEMM in bf16
//! experts of rows          GEMV of experts of the library; of many rows, the weights are dequantized
//! ```

use warpwright::lang::element::e4m3;
use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, LaunchCounts, Stream};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::problem::scales::{Granularity, Scaled};
use warpwright_kernels::group_quantize::QuantizedRows;
use warpwright_kernels::operations::{self as kernels, Operations};
use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};

use super::pass::Pass;
use crate::error::Result;
use crate::number::Number;
use crate::weights::{BLOCK, Format, Loader, QuantizedNumbers};

/// A matrix (n, k) on the device.
pub(crate) struct Quantized {
    format: Format,
    n: u32,
    k: u32,
    group: u32,
    weights: Buffer<u8>,
    /// (n, k / group).
    scales: Buffer<bf16>,
    zero_points: Buffer<u8>,
    /// Of fp8, as the GEMM takes them.
    blocks: Buffer<f32>,
}

/// Rows for which int4 weights are read again and again rather than dequantized, which moves nine times their bytes:
/// the GEMV reads them for each 8 rows, at a fifth of the bandwidth (H200, 64 rows of Qwen 3.5-9B: 22.4 ms).
const FEW_ROWS_OF_INT4: u32 = 24;

/// Rows that the library's GEMV takes for those of 8 bits.
const FEW_ROWS: u32 = 8;

/// Rows of e4m3, in memory of a pass.
pub(crate) struct QuantizedInput<T> {
    /// Of as many bytes.
    values: Buffer<T>,
    scales: Buffer<f32>,
    pub(crate) rows: u32,
}

impl<T: Number> QuantizedInput<T> {
    /// Rows (rows, k) that `launch` quantizes.
    pub(crate) fn new(
        pass: &mut Pass<'_, T>,
        (rows, k): (u32, u32),
        launch: impl FnOnce((&Operations, &Stream), QuantizedRows<'_>) -> kernels::Result<LaunchCounts>,
    ) -> Result<Self> {
        let bytes = rows as usize * k as usize;
        let mut values = pass.memory.take(bytes.div_ceil(size_of::<T>()).max(1))?;
        let mut scales = pass.floats.take(Granularity::Row.count((rows, k)))?;
        launch(pass.on(), QuantizedRows { values: values.cast_mut(), scales: &mut scales })?;
        Ok(Self { values, scales, rows })
    }

    /// Bytes of the rows and their scales.
    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes() + self.scales.bytes()
    }

    pub(crate) fn give(self, pass: &mut Pass<'_, T>) {
        pass.memory.give(self.values);
        pass.floats.give(self.scales);
    }
}

impl Quantized {
    /// The rows of the tensors, one after another, and rows of zeros up to `n`. `None` if the weights stay exact,
    /// or the rows have no groups.
    pub(crate) fn new(
        loader: &mut Loader<'_>,
        parts: &[(&str, usize)],
        shape: (usize, usize),
    ) -> Result<Option<Self>> {
        Self::of_experts(loader, 1, parts, shape)
    }

    /// The same of tensors (experts, rows of an expert, k).
    pub(crate) fn of_experts(
        loader: &mut Loader<'_>,
        experts: usize,
        parts: &[(&str, usize)],
        (n, k): (usize, usize),
    ) -> Result<Option<Self>> {
        let Some(format) = loader.format else { return Ok(None) };
        let Some(group) = format.group(k) else { return Ok(None) };
        let (is_fp8, groups, shape) = (format == Format::Fp8, n * k / group, (n as u32, k as u32));
        let mut matrix = Self {
            format,
            n: shape.0,
            k: shape.1,
            group: group as u32,
            weights: loader.buffer(if is_fp8 { n * k } else { n * k / 2 })?,
            scales: loader.buffer(groups)?,
            zero_points: loader.buffer(if is_fp8 { 0 } else { groups })?,
            blocks: loader.buffer(if is_fp8 { Granularity::Block.count(shape) } else { 0 })?,
        };
        if let Some(QuantizedNumbers { weights, scales, zero_points, blocks }) =
            loader.quantized(format, experts, parts, (n, k))?
        {
            matrix.weights.write_at(0, &weights)?;
            matrix.scales.write_at(0, &scales)?;
            matrix.zero_points.write_at(0, &zero_points)?;
            let mut padded = vec![0.0; matrix.blocks.len()];
            let of_row = k.div_ceil(BLOCK);
            for (at, scale) in blocks.into_iter().enumerate() {
                let (row, column) = (at / of_row * BLOCK, at % of_row * BLOCK);
                padded[Granularity::Block.index((row as u32, column as u32), shape)] = scale;
            }
            matrix.blocks.write_at(0, &padded)?;
        }
        Ok(Some(matrix))
    }

    /// The weights, as the library takes them.
    fn weights(&self) -> QuantizedWeights<'_, bf16> {
        let is_fp8 = self.format == Format::Fp8;
        QuantizedWeights {
            n: self.n,
            k: self.k,
            format: if is_fp8 { WeightFormat::E4m3 } else { WeightFormat::Int4 },
            weights: &self.weights,
            group: self.group,
            scales: &self.scales,
            zero_points: (!is_fp8).then_some(&self.zero_points),
            constant: true,
        }
    }

    /// Bytes that a product of a few rows reads.
    pub(crate) fn bytes(&self) -> usize {
        self.weights.bytes() + self.scales.bytes() + self.zero_points.bytes()
    }

    /// Row r of y = row r / `choices` of x with the weights of expert `chosen[r]`, one of `experts`.
    pub(crate) fn multiply_experts<T: Number>(
        &self,
        pass: &Pass<'_, T>,
        experts: u32,
        (x, chosen, choices): (&Buffer<bf16>, &Buffer<u32>, u32),
        y: &mut Buffer<bf16>,
    ) -> Result<()> {
        let weights = (self.weights(), self.n / experts);
        pass.operations.expert_weight_only_gemv(pass.stream, weights, (x, chosen, choices), y)?;
        Ok(())
    }

    /// The weights in bf16.
    pub(crate) fn dequantized<T: Number>(&self, pass: &mut Pass<'_, T>) -> Result<Buffer<T>> {
        let mut weights = pass.memory.take(self.n as usize * self.k as usize)?;
        pass.operations.dequantize_weights(pass.stream, self.weights(), weights.cast_mut())?;
        Ok(weights)
    }

    /// Whether [`multiply`](Self::multiply) quantizes that many rows.
    pub(crate) fn quantizes<T: Number>(&self, pass: &Pass<'_, T>, rows: u32) -> bool {
        self.format == Format::Fp8 && pass.has_wgmma() && rows > FEW_ROWS
    }

    /// y = x Wᵀ, or y += x Wᵀ.
    pub(crate) fn multiply<T: Number, U: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        x: &Buffer<bf16>,
        (y, adds): (&mut Buffer<U>, bool),
    ) -> Result<()> {
        let rows = (x.len() / self.k as usize) as u32;
        if self.quantizes(pass, rows) {
            let x = QuantizedInput::new(pass, (rows, self.k), |on, to| {
                on.0.quantize_rows(on.1, (x, self.k), to)
            })?;
            self.multiply_quantized(pass, &x, (y, adds))?;
            x.give(pass);
            return Ok(());
        }
        let by_int4 = self.format == Format::Int4 && pass.operations.takes_weight_only_gemm(rows, self.k);
        let few = if (self.format == Format::Fp8 && pass.has_wgmma()) || by_int4 {
            FEW_ROWS
        } else {
            FEW_ROWS_OF_INT4
        };
        if rows <= few {
            return self.multiply_few(pass, x, (y, adds));
        }
        if by_int4 {
            pass.operations.weight_only_gemm(pass.stream, self.weights(), x, (y, adds))?;
            return Ok(());
        }
        let weights = self.dequantized(pass)?;
        let gemm = self.gemm(rows, adds);
        pass.operations.gemm(pass.stream, &gemm, x, weights.cast::<bf16>(), y)?;
        pass.memory.give(weights);
        Ok(())
    }

    /// The same of rows that are quantized.
    pub(crate) fn multiply_quantized<T: Number, U: Number>(
        &self,
        pass: &Pass<'_, T>,
        x: &QuantizedInput<T>,
        (y, adds): (&mut Buffer<U>, bool),
    ) -> Result<()> {
        let a = Scaled::by_row(x.values.cast::<e4m3>(), &x.scales);
        let b = Scaled::by_block(self.weights.cast::<e4m3>(), &self.blocks);
        pass.operations.gemm(pass.stream, &self.gemm(x.rows, adds).preload_b(), a, b, y)?;
        Ok(())
    }

    fn gemm(&self, rows: u32, adds: bool) -> Gemm<'static> {
        Gemm::new(rows, self.n, self.k).beta(if adds { 1.0 } else { 0.0 })
    }

    fn multiply_few<T: Number, U: Number>(
        &self,
        pass: &Pass<'_, T>,
        x: &Buffer<bf16>,
        (y, adds): (&mut Buffer<U>, bool),
    ) -> Result<()> {
        match adds {
            true => pass.operations.add_weight_only_gemv(pass.stream, self.weights(), x, y)?,
            false => pass.operations.weight_only_gemv(pass.stream, self.weights(), x, y)?,
        };
        Ok(())
    }
}

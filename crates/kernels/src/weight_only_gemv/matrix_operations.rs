//! The operations on whole matrices, and on matrices of experts, for programs.

use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, LaunchCounts, Stream};

use super::experts::{ExpertGemv, WARPS};
use super::matrix::Dequantize;
use super::problem::{QuantizedWeights, WeightFormat};
use crate::columns::THREADS;
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::overlap::{self, overlaps};

/// Refuses weights of e4m3 on a device without instructions that convert them.
fn check_format(what: &'static str, format: WeightFormat, operations: &Operations) -> Result<()> {
    let capability = operations.device().properties().capability;
    if format != WeightFormat::E4m3 || capability.compute_capability >= (8, 9) {
        return Ok(());
    }
    let reason = format!("weights of e4m3 need sm_89 or later, and the device is {}", capability.target);
    Err(OperationError::Shape { what, reason })
}

impl Operations {
    /// Row r of `y`, (rows, n), = row r / `choices` of `x`, (rows / choices, k), times the weights of expert
    /// `experts[r]`, of which `weights` has one after another: (experts · n, k). Experts are read when the kernel runs.
    ///
    /// Products are summed in f32, and a result is rounded to bf16 once. Encodings of NaN of e4m3 are NaN.
    ///
    /// # Errors
    /// The weights are no whole experts, a buffer does not have the length of the shape, or the device refuses.
    pub fn expert_weight_only_gemv(
        &self,
        stream: &Stream,
        (weights, n): (QuantizedWeights<'_, bf16>, u32),
        (x, experts, choices): (&Buffer<bf16>, &Buffer<u32>, u32),
        y: &mut Buffer<bf16>,
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "a weight-only GEMV of experts";
        weights.check()?;
        let QuantizedWeights { k, format, group, scales, zero_points, .. } = weights;
        check_format(WHAT, format, self)?;
        let refuse = |reason| Err(OperationError::Shape { what: WHAT, reason });
        let rows = experts.len();
        if n == 0 || !weights.n.is_multiple_of(n) {
            return refuse(format!("{} rows of weights are no whole experts of {n}", weights.n));
        }
        if choices == 0 || !rows.is_multiple_of(choices as usize) {
            return refuse(format!("{rows} rows of {choices} choices each; give a multiple"));
        }
        expect_length("the input of experts", rows / choices as usize * k as usize, x.len())?;
        expect_length("the output of experts", rows * n as usize, y.len())?;
        let ctas = self.grid(WHAT, rows as u64)?;
        if rows == 0 {
            return Ok(LaunchCounts::default());
        }
        let has_zero_points = zero_points.is_some();
        let kernel = ExpertGemv { format, has_zero_points, group, k, choices, overlaps: overlaps(self) };
        let compiled = self.kernel(kernel, ExpertGemv::run)?;
        let launch = overlap::shape(compiled.shape((ctas, n.div_ceil(WARPS))), kernel.overlaps);
        let zero_points = zero_points.unwrap_or(weights.weights);
        Ok(compiled.launch(stream, launch, (weights.weights, scales, zero_points, x, experts, y, n))?)
    }

    /// `numbers`, (n, k), = the weights less their zero points, times their scales, rounded to bf16 once. Encodings of
    /// NaN of e4m3 are NaN.
    ///
    /// # Errors
    /// A buffer does not have the length of the weights, or the device refuses.
    pub fn dequantize_weights(
        &self,
        stream: &Stream,
        weights: QuantizedWeights<'_, bf16>,
        numbers: &mut Buffer<bf16>,
    ) -> Result<LaunchCounts> {
        weights.check()?;
        let QuantizedWeights { n, k, format, group, scales, zero_points, .. } = weights;
        check_format("dequantized weights", format, self)?;
        let elements = n as usize * k as usize;
        expect_length("dequantized weights", elements, numbers.len())?;
        if elements == 0 {
            return Ok(LaunchCounts::default());
        }
        let words = elements as u64 / u64::from(format.per_word());
        let grid = self.grid("dequantized weights", words.div_ceil(THREADS.into()))?;
        let kernel = Dequantize { format, has_zero_points: zero_points.is_some(), group };
        let kernel = self.kernel(kernel, Dequantize::run)?;
        let zero_points = zero_points.unwrap_or(weights.weights);
        Ok(kernel.launch(stream, grid, (weights.weights, scales, zero_points, numbers, words as u32))?)
    }
}

//! The operation for programs.

use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream, TileMaps};

use super::kernel::{DEPTH, GROUP, Int4Gemm, MAX_ROWS, TILE};
use crate::gemm::problem::error::GemmError;
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::overlap;
use crate::rows::RowElement;
use crate::weight_only_gemv::{QuantizedWeights, WeightFormat};

/// The operation's name in errors.
const OPERATION: &str = "a weight-only GEMM";

impl Operations {
    /// Whether [`weight_only_gemm`](Self::weight_only_gemm) multiplies that many rows of x with rows of `k` weights of
    /// int4, 32 to a group, on this device.
    pub fn takes_weight_only_gemm(&self, rows: u32, k: u32) -> bool {
        let has_wgmma = self.device().properties().capability.target == "sm_90a";
        has_wgmma && rows <= MAX_ROWS && k.is_multiple_of(DEPTH)
    }

    /// y (rows, n) = x (rows, k) · Wᵀ, or y += it if it `adds`, with weights of int4, zero points and groups of 32. The
    /// weights are read once. On sm_90a, the kernel reads them before its predecessor on the stream ends: that must not
    /// be what writes them.
    ///
    /// A weight less its zero point, times its scale, is rounded to bf16; products are summed in f32, and a result is
    /// rounded to `U` once.
    ///
    /// # Errors
    /// The operation [does not take](Self::takes_weight_only_gemm) the shape, the weights are of another format or
    /// group, a buffer does not have the length of the shape, or the device refuses.
    pub fn weight_only_gemm<U: RowElement + Storable>(
        &self,
        stream: &Stream,
        weights: QuantizedWeights<'_, bf16>,
        x: &Buffer<bf16>,
        (y, adds): (&mut Buffer<U>, bool),
    ) -> Result<LaunchCounts> {
        weights.check()?;
        let refuse = |reason| Err(OperationError::Shape { what: OPERATION, reason });
        let QuantizedWeights { n, k, format, group, weights, scales, zero_points, constant, .. } = weights;
        let Some(zero_points) = zero_points.filter(|_| (format, group) == (WeightFormat::Int4, GROUP)) else {
            return refuse(format!(
                "weights of {format:?} in groups of {group}; give int4 with zero points in groups of {GROUP}"
            ));
        };
        let rows = (x.len() / k as usize) as u32;
        expect_length("the input of a weight-only GEMM", rows as usize * k as usize, x.len())?;
        expect_length("the output of a weight-only GEMM", rows as usize * n as usize, y.len())?;
        if !self.takes_weight_only_gemm(rows, k) {
            return refuse(format!(
                "{rows} rows of {k} elements; it needs sm_90a, {MAX_ROWS} rows at most, and a multiple of {DEPTH}"
            ));
        }
        if rows == 0 || n == 0 {
            return Ok(LaunchCounts::default());
        }
        let gemm = Int4Gemm::new(rows, adds);
        let of_weights = Int4Gemm::weight_tile().map_err(GemmError::from)?;
        let weights = TileMaps::new((n.into(), (k / 2).into()), &of_weights)?.of(weights)?;
        let x = TileMaps::new((rows.into(), k.into()), &gemm.x_tile().map_err(GemmError::from)?)?.of(x)?;
        let kernel = self.kernel(gemm, Int4Gemm::run::<U>)?;
        let launch = overlap::shape(kernel.shape(n.div_ceil(TILE)), constant);
        Ok(kernel.launch(stream, launch, (&weights, &x, scales, zero_points, y, n, k, rows))?)
    }
}

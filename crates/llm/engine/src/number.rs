//! The types that a model computes in.

use warpwright::lang::element::Convertible;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Storable, Stream};
use warpwright_kernels::gemm::problem::epilogue::Activation;
use warpwright_kernels::gemm::{Gemm, GemmOutput};
use warpwright_kernels::gemv::{Epilogue, GemvShape, MAX_ROWS};
use warpwright_kernels::operations::{Operations, Result};
use warpwright_kernels::rows::RowElement;

/// A type of activations and weights: f32 or bf16.
pub(crate) trait Number: RowElement + Storable + Convertible + GemmOutput {
    /// The nearest value.
    fn nearest(value: f32) -> Self;
    /// Whether it is bf16, which the library's kernels of tensor cores take.
    const IS_BF16: bool;
    /// The most rows for which the GEMV is the fastest, or the only one.
    const FEW_ROWS: u32;

    /// The product of more rows than few.
    fn product_of_many<U: Number>(
        on: (&Operations, &Stream),
        shape: GemvShape,
        weights: &Buffer<Self>,
        x: &Buffer<Self>,
        to: (&mut Buffer<U>, Epilogue),
    ) -> Result<()>;
}

impl Number for f32 {
    fn nearest(value: f32) -> Self {
        value
    }

    const IS_BF16: bool = false;
    const FEW_ROWS: u32 = MAX_ROWS;

    fn product_of_many<U: Number>(
        on: (&Operations, &Stream),
        shape: GemvShape,
        weights: &Buffer<Self>,
        x: &Buffer<Self>,
        to: (&mut Buffer<U>, Epilogue),
    ) -> Result<()> {
        on.0.gemv(on.1, shape, (weights, true), (x, None), to)?;
        Ok(())
    }
}

impl Number for bf16 {
    fn nearest(value: f32) -> Self {
        bf16::from_f32(value)
    }

    const IS_BF16: bool = true;
    // H200, a decode of Qwen 3.5-9B: 2 rows take 4.98 ms by the GEMV, 4 take 4.45 ms by the GEMM.
    const FEW_ROWS: u32 = 1;

    fn product_of_many<U: Number>(
        on: (&Operations, &Stream),
        GemvShape { rows, n, k }: GemvShape,
        weights: &Buffer<Self>,
        x: &Buffer<Self>,
        (y, epilogue): (&mut Buffer<U>, Epilogue),
    ) -> Result<()> {
        let gemm = match epilogue {
            Epilogue::Store => Gemm::new(rows, n, k),
            Epilogue::Add => Gemm::new(rows, n, k).beta(1.0),
            Epilogue::Swiglu => Gemm::new(rows, 2 * n, k).gated(Activation::Silu),
        };
        on.0.gemm(on.1, &gemm.preload_b(), x, weights, y)?;
        Ok(())
    }
}

//! Matrix products on the host, in f64.

use rayon::prelude::*;
use warpwright::lang::element::{bf16, e4m3, e5m2, f16, tf32};

/// A float that `f32` holds, to and from it.
pub trait Rounded: Copy {
    /// Half of the distance between neighbors at 1: the error of one rounding.
    const ROUNDING: f64;
    /// The nearest value.
    fn round(value: f32) -> Self;
    /// The value exactly.
    fn exact(self) -> f64;
}

impl Rounded for f32 {
    const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;
    fn round(value: f32) -> Self {
        value
    }
    fn exact(self) -> f64 {
        f64::from(self)
    }
}

impl Rounded for f16 {
    const ROUNDING: f64 = 1.0 / (1u64 << 11) as f64;
    fn round(value: f32) -> Self {
        f16::from_f32(value)
    }
    fn exact(self) -> f64 {
        f64::from(self)
    }
}

impl Rounded for bf16 {
    const ROUNDING: f64 = 1.0 / (1u64 << 8) as f64;
    fn round(value: f32) -> Self {
        bf16::from_f32(value)
    }
    fn exact(self) -> f64 {
        f64::from(self)
    }
}

impl Rounded for tf32 {
    const ROUNDING: f64 = 1.0 / (1u64 << 11) as f64;
    fn round(value: f32) -> Self {
        // Half of the distance between neighbors is added to the magnitude, and the 13 bits that are not read are dropped.
        tf32(f32::from_bits((value.to_bits() + 0x1000) & !0x1fff))
    }
    fn exact(self) -> f64 {
        f64::from(self.0)
    }
}

impl Rounded for e4m3 {
    const ROUNDING: f64 = 1.0 / (1u64 << 4) as f64;
    fn round(value: f32) -> Self {
        e4m3::from_f32(value)
    }
    fn exact(self) -> f64 {
        self.to_f64()
    }
}

impl Rounded for e5m2 {
    const ROUNDING: f64 = 1.0 / (1u64 << 3) as f64;
    fn round(value: f32) -> Self {
        e5m2::from_f32(value)
    }
    fn exact(self) -> f64 {
        self.to_f64()
    }
}

/// A strided factor: element (row, column) at `row * row_stride + column * column_stride`.
#[derive(Clone, Copy)]
pub struct Strided<'a> {
    /// The elements.
    pub values: &'a [f64],
    /// Elements from row to row.
    pub row_stride: usize,
    /// Elements from column to column.
    pub column_stride: usize,
}

/// Rows of a product that one host thread computes at a time.
const STRIP: usize = 64;

/// A·B in f64, row-major: (m, k) times (k, n).
pub fn product((m, n, k): (usize, usize, usize), a: Strided<'_>, b: Strided<'_>) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    let last = |(rows, columns): (usize, usize), it: &Strided<'_>| {
        (rows - 1) * it.row_stride + (columns - 1) * it.column_stride
    };
    if m * n * k == 0 {
        return c;
    }
    assert!(last((m, k), &a) < a.values.len() && last((k, n), &b) < b.values.len(), "factors are whole");
    c.par_chunks_mut(STRIP * n).enumerate().for_each(|(strip, c)| {
        let a_rows = &a.values[strip * STRIP * a.row_stride..];
        // SAFETY: the assertion above keeps every element read inside its slice: the strip's rows are those of A from its first on, and
        // as many as C's chunk has, which is dense.
        unsafe {
            matrixmultiply::dgemm(
                c.len() / n,
                k,
                n,
                1.0,
                a_rows.as_ptr(),
                a.row_stride as isize,
                a.column_stride as isize,
                b.values.as_ptr(),
                b.row_stride as isize,
                b.column_stride as isize,
                0.0,
                c.as_mut_ptr(),
                n as isize,
                1,
            );
        }
    });
    c
}

//! Matrix products on the host, in f64.

use rayon::prelude::*;

/// A strided operand: element (row, column) at `row * row_stride + column * column_stride`.
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
    assert!(last((m, k), &a) < a.values.len() && last((k, n), &b) < b.values.len(), "operands are whole");
    c.par_chunks_mut(STRIP * n).enumerate().for_each(|(strip, c)| {
        let a_rows = &a.values[strip * STRIP * a.row_stride..];
        // SAFETY: the assertion above keeps every element read inside its slice: the strip's rows
        // are those of A from its first on, and as many as C's chunk has, which is dense.
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

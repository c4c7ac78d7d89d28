//! SGEMM on random matrices: inputs, the product in f64, and the tolerance that a result is held
//! to.

use rayon::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Stream};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Result, Setup, Strided, Values, Verified, Work, compare,
    compare_parts, product,
};

use warpwright_kernels::sgemm::{Matrices, Scale};

/// Options of every SGEMM: C = alpha A·B + beta C.
#[derive(Clone, Debug, Options)]
pub struct Problem {
    /// Rows of A and C.
    #[option(default = 512)]
    m: u32,
    /// Columns of B and C.
    #[option(default = 512)]
    n: u32,
    /// Columns of A and rows of B.
    #[option(default = 256)]
    k: u32,
    /// Scale of A·B.
    #[option(default = 1.0)]
    alpha: f32,
    /// Scale of the old C. If it is not 0, C is copied again before each launch.
    #[option(default = 0.0)]
    beta: f32,
}

impl Problem {
    /// m, n and k.
    pub fn extents(&self) -> (u32, u32, u32) {
        (self.m, self.n, self.k)
    }

    /// alpha and beta.
    pub fn scale(&self) -> Scale {
        Scale { alpha: self.alpha, beta: self.beta }
    }

    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.m as usize, self.n as usize, self.k as usize)
    }

    /// The work: A, B and C are moved once.
    pub fn work(&self) -> Work {
        let (m, n, k) = self.sizes();
        let [m, n, k] = [m, n, k].map(|size| size as f64);
        let moved = if self.beta == 0.0 { m * n } else { 2.0 * m * n };
        Work { operations: 2.0 * m * n * k, bytes: 4.0 * (m * k + k * n + moved) }
    }

    pub(super) fn buffers(&self, setup: &Setup, seed: u64) -> Result<Set> {
        let (m, n, k) = self.sizes();
        let values =
            |which: u64, count| setup.values(Values::Normal, seed.wrapping_mul(3).wrapping_add(which), count);
        let before = (self.beta != 0.0).then(|| values(2, m * n)).transpose()?;
        Ok(Set { a: values(0, m * k)?, b: values(1, k * n)?, c: setup.output(m * n)?, before })
    }

    /// The problem on a device, launched by `launch` and compared with the reference.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn prepare(
        &self,
        setup: &Setup,
        mut launch: impl FnMut(&Stream, Matrices<'_>, Scale) -> Result<LaunchCounts> + 'static,
    ) -> Result<Box<dyn Prepared>> {
        let (launched, verified) = (self.clone(), self.clone());
        Ok(setup
            .buffers(self.work(), |seed| self.buffers(setup, seed))?
            .launch(move |stream, Set { a, b, c, before }| {
                if let Some(before) = before {
                    stream.copy(c, before)?;
                }
                launch(stream, Matrices { extents: launched.extents(), a, b, c }, launched.scale())
            })
            .verify(move |set| verify(&verified, set)))
    }
}

/// A, B, C, and the values of C before each launch.
pub(super) struct Set {
    pub(super) a: Buffer<f32>,
    pub(super) b: Buffer<f32>,
    pub(super) c: Buffer<f32>,
    before: Option<Buffer<f32>>,
}

/// Holds every element to the f64 product.
///
/// A sum of k products in f32 errs by at most k u Σ|a b|, with u = 2^-24; and unless its roundings
/// conspire, by less than 8 √k u Σ|a b| (Higham and Mary, "A new approach to probabilistic rounding
/// error analysis", 2019, with λ = 8). Σ|a b| is at most |row of A| |column of B|. Alpha and beta
/// add three roundings.
fn verify(problem: &Problem, set: &Set) -> Result<Verified> {
    let (m, n, k) = problem.sizes();
    let (a, b, found) = (set.a.to_vec()?, set.b.to_vec()?, set.c.to_vec()?);
    let before = set.before.as_ref().map_or(Ok(Vec::new()), Buffer::to_vec)?;
    if found.is_empty() {
        return Ok(Verified::default());
    }
    let exact = |values: &[f32]| -> Vec<f64> { values.par_iter().map(|value| f64::from(*value)).collect() };
    let (a, b) = (exact(&a), exact(&b));
    let row_norms: Vec<f64> = (0..m)
        .into_par_iter()
        .map(|row| a[row * k..][..k].iter().map(|x| x * x).sum::<f64>().sqrt())
        .collect();
    let mut column_norms = vec![0.0; n];
    for row in b.chunks(n) {
        row.iter().zip(&mut column_norms).for_each(|(x, norm)| *norm += x * x);
    }
    column_norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
    let roundings = (k as f64).min(8.0 * (k as f64).sqrt());
    let Scale { alpha, beta } = problem.scale();
    let (alpha, beta) = (f64::from(alpha), f64::from(beta));
    // Each thread multiplies some rows by all of B.
    const ROWS: usize = 256;
    Ok(compare_parts(found.len().div_ceil(ROWS * n), &|block| {
        let found = &found[block * ROWS * n..];
        let found = &found[..found.len().min(ROWS * n)];
        let (first, rows) = (block * ROWS, found.len() / n);
        let a = Strided { values: &a[first * k..(first + rows) * k], row_stride: k, column_stride: 1 };
        let sums = product((rows, n, k), a, Strided { values: &b, row_stride: n, column_stride: 1 });
        let elements = found.iter().zip(&sums).enumerate().map(|(index, (found, sum))| {
            let (row, column) = (first + index / n, index % n);
            let before = if beta == 0.0 { 0.0 } else { beta * f64::from(before[row * n + column]) };
            let magnitude = (alpha * row_norms[row] * column_norms[column]).abs();
            let tolerance = f32::ROUNDING * (roundings * magnitude + 3.0 * (magnitude + before.abs()));
            Compared {
                found: f64::from(*found),
                expected: alpha * sum + before,
                tolerance: tolerance + f64::from(f32::MIN_POSITIVE),
            }
        });
        compare(elements, |index| vec![first + index as usize / n, index as usize % n])
    })?)
}

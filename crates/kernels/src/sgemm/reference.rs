//! SGEMM on random matrices: inputs, the product in f64, and the tolerance that a result is held to.

use rayon::prelude::*;
use warpwright::runtime::{Buffer, Device, LaunchCounts, Stream};

use super::{Matrices, Scale};
use crate::number::Values;
use crate::reference::{Rounded, Strided, product};
use crate::registry::{Element, Prepared, Result, Verified, Work, compare};
use crate::rotation::rotating;

/// A product of random matrices.
#[derive(Clone, Copy)]
pub struct Problem {
    /// m, n and k.
    pub extents: (u32, u32, u32),
    /// alpha and beta.
    pub scale: Scale,
    /// The seed of the inputs.
    pub seed: u64,
}

impl Problem {
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        let (m, n, k) = self.extents;
        (m as usize, n as usize, k as usize)
    }

    /// A, B and what C holds before; the same for the same seed.
    fn inputs(&self, seed: u64) -> [Vec<f32>; 3] {
        let (m, n, k) = self.sizes();
        let values =
            |which: u64, count| Values::Normal.numbers(seed.wrapping_mul(3).wrapping_add(which), count);
        let before = if self.scale.beta == 0.0 { vec![f32::NAN; m * n] } else { values(2, m * n) };
        [values(0, m * k), values(1, k * n), before]
    }

    /// What any way to do it must do: each element of A, B and C moved once.
    pub fn work(&self) -> Work {
        let (m, n, k) = self.sizes();
        let written = if self.scale.beta == 0.0 { m * n } else { 2 * m * n };
        Work {
            operations: 2.0 * m as f64 * n as f64 * k as f64,
            bytes: 4.0 * (m * k + k * n + written) as f64,
        }
    }

    /// The problem on a device, launched by `launch` and compared with the reference.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn prepare(
        self,
        device: &Device,
        mut launch: impl FnMut(&Stream, Matrices<'_>, Scale) -> Result<LaunchCounts> + 'static,
    ) -> Result<Box<dyn Prepared>> {
        let make = device.clone();
        rotating(
            device,
            self.seed,
            self.work(),
            move |seed| Set::new(&make, &self, seed),
            move |stream: &Stream, set: &mut Set| {
                if let Some(before) = &set.before {
                    stream.copy(&mut set.c, before)?;
                }
                let matrices = Matrices { extents: self.extents, a: &set.a, b: &set.b, c: &mut set.c };
                launch(stream, matrices, self.scale)
            },
            move |set: &Set| verify(&self, &set.host, &set.c.to_vec()?),
        )
    }
}

/// A, B, C, and what C holds before each launch.
pub(super) struct Set {
    pub(super) a: Buffer<f32>,
    pub(super) b: Buffer<f32>,
    pub(super) c: Buffer<f32>,
    before: Option<Buffer<f32>>,
    host: [Vec<f32>; 3],
}

impl Set {
    pub(super) fn new(device: &Device, problem: &Problem, seed: u64) -> Result<Self> {
        let host = problem.inputs(seed);
        let before = (problem.scale.beta != 0.0).then(|| device.buffer_from(&host[2])).transpose()?;
        Ok(Self {
            a: device.buffer_from(&host[0])?,
            b: device.buffer_from(&host[1])?,
            c: device.buffer_from(&host[2])?,
            before,
            host,
        })
    }
}

/// Holds every element to the f64 product.
///
/// A sum of k products in f32 errs by at most k u Σ|a b|, with u = 2^-24; and unless its roundings conspire, by less than 8 √k u Σ|a b| (Higham and Mary, "A new
/// approach to probabilistic rounding error analysis", 2019, with λ = 8). Σ|a b| is at most |row of A| |column of B|. Alpha and beta add three roundings.
fn verify(problem: &Problem, [a, b, before]: &[Vec<f32>; 3], found: &[f32]) -> Result<Verified> {
    let (m, n, k) = problem.sizes();
    if found.is_empty() {
        return Ok(Verified { elements: 0, worst: 0.0 });
    }
    let exact = |values: &[f32]| -> Vec<f64> { values.par_iter().map(|value| f64::from(*value)).collect() };
    let (a, b) = (exact(a), exact(b));
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
    let Scale { alpha, beta } = problem.scale;
    let (alpha, beta) = (f64::from(alpha), f64::from(beta));
    // Each thread multiplies some rows by all of B.
    const ROWS: usize = 256;
    let blocks = found.par_chunks(ROWS * n).enumerate().map(|(block, found)| {
        let (first, rows) = (block * ROWS, found.len() / n);
        let a = Strided { values: &a[first * k..(first + rows) * k], row_stride: k, column_stride: 1 };
        let sums = product((rows, n, k), a, Strided { values: &b, row_stride: n, column_stride: 1 });
        let elements = found.iter().zip(&sums).enumerate().map(|(index, (found, sum))| {
            let (row, column) = (first + index / n, index % n);
            let before = if beta == 0.0 { 0.0 } else { beta * f64::from(before[row * n + column]) };
            let magnitude = (alpha * row_norms[row] * column_norms[column]).abs();
            let tolerance = f32::ROUNDING * (roundings * magnitude + 3.0 * (magnitude + before.abs()));
            Element {
                found: f64::from(*found),
                expected: alpha * sum + before,
                tolerance: tolerance + f64::from(f32::MIN_POSITIVE),
            }
        });
        compare(elements, |index| vec![first + index as usize / n, index as usize % n])
    });
    let mut all = Verified { elements: 0, worst: 0.0 };
    for verified in blocks.collect::<Vec<_>>() {
        let verified = verified?;
        all.elements += verified.elements;
        all.worst = all.worst.max(verified.worst);
    }
    Ok(all)
}

//! Products on the host, and what a device is held to by them, for tests.

use std::fmt::Debug;

use warpwright::runtime::{Buffer, Device, Error, Storable, Stream};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::Problem;
use warpwright_kernels::gemm::problem::types::{GemmOutput, MultipliesWith};
use warpwright_kernels::operations::Operations;

use crate::matrices::element_index;

/// A·B.
pub(crate) fn multiplied(problem: Problem, a: &[f32], b: &[f32]) -> Vec<f32> {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|extent| extent as usize);
    let mut c = vec![0.0; m * n];
    for (row, line) in c.chunks_mut(n.max(1)).enumerate() {
        for step in 0..k {
            let a = a[element_index(problem.a, row, step, (m, k))];
            for (column, sum) in line.iter_mut().enumerate() {
                *sum += a * b[element_index(problem.b, step, column, (k, n))];
            }
        }
    }
    c
}

/// Numbers on a device, each as `input` makes it.
pub(crate) fn sent<T: Storable>(
    device: &Device,
    numbers: &[f32],
    input: impl Fn(f32) -> T,
) -> Result<Buffer<T>, Error> {
    device.buffer_from(&numbers.iter().map(|&number| input(number)).collect::<Vec<_>>())
}

/// Holds every element of `c` to what it should be.
pub(crate) fn compare<C: Storable>(
    c: &Buffer<C>,
    of: impl Fn(C) -> f32,
    expected: &[f32],
    what: &str,
) -> Result<(), Error> {
    let found: Vec<f32> = c.to_vec()?.into_iter().map(of).collect();
    expect_equal(found, expected, what);
    Ok(())
}

/// Holds every number to what it should be.
pub(crate) fn expect_equal<T: Copy + Debug + PartialEq>(found: Vec<T>, expected: &[T], what: &str) {
    assert_eq!(found.len(), expected.len(), "elements of {what}");
    let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let first = wrong.map(|index| (index, found[index], expected[index]));
    assert_eq!(first, None, "(index, found, expected) of {what}");
}

/// The matrices of a problem or a batch on a device, and what C should be.
pub(crate) struct Case<P, A, B, C> {
    pub(crate) of: P,
    pub(crate) expected: Vec<f32>,
    pub(crate) a: Buffer<A>,
    pub(crate) b: Buffer<B>,
    pub(crate) c: Buffer<C>,
}

impl<P, A, B, C> Case<P, A, B, C>
where
    P: Copy + Debug + Into<Gemm<'static>>,
    A: MultipliesWith<B>,
    B: MultipliesWith<A>,
    C: GemmOutput + Storable,
{
    /// Computes it by an algorithm twice, the second time with the workspace of the first, and
    /// compares.
    pub(crate) fn check(
        &mut self,
        operations: &Operations,
        stream: &Stream,
        algorithm: Algorithm,
        of: impl Fn(C) -> f32,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let gemm = self.of.into().algorithm(algorithm);
        for _ in 0..2 {
            operations.gemm(stream, &gemm, &self.a, &self.b, &mut self.c)?;
        }
        Ok(compare(&self.c, of, &self.expected, &format!("{:?} by {algorithm:?}", self.of))?)
    }
}

/// The algorithms of the heuristic for a problem or a batch, the cheapest first.
pub(crate) fn all_algorithms<T: MultipliesWith<T>, C: GemmOutput>(
    device: &Device,
    of: impl Into<Gemm<'static>>,
) -> Vec<Algorithm> {
    Operations::new(device).gemm_algorithms::<T, C>(&of.into(), None)
}

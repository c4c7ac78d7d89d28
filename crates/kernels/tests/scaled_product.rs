//! A problem whose blocks have scales, for tests of the operations that compute it.

use warpwright::runtime::{Buffer, Device, Error, Storable};
use warpwright_kernels::gemm::problem::batching::Problem;
use warpwright_kernels::gemm::problem::scales::Granularities;
use warpwright_kernels::gemm::problem::types::{BlockwiseOperand, GemmOutput, MatrixLayout, MultipliesWith};

use crate::operands::{DeviceOperand, Operand, products};

/// A problem of operands on a device, and what it should be.
pub(crate) struct Case<A, B, C> {
    pub(crate) problem: Problem,
    pub(crate) expected: Vec<f64>,
    pub(crate) a: DeviceOperand<A>,
    pub(crate) b: DeviceOperand<B>,
    pub(crate) c: Buffer<C>,
}

impl<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
> Case<A, B, C>
{
    pub(crate) fn new(
        device: &Device,
        problem: Problem,
        (a, b): (Operand, Operand),
        (a_input, b_input): (impl Fn(f32) -> A, impl Fn(f32) -> B),
        before: C,
    ) -> Result<Self, Error> {
        let Problem { m, n, k, .. } = problem;
        let mut expected = products(&a.meant, &b.meant, k);
        // Sums of no depth are zeros.
        expected.resize(m as usize * n as usize, 0.0);
        let (a_lies, b_lies) =
            ((k, problem.a == MatrixLayout::RowMajor, 0), (k, problem.b == MatrixLayout::ColumnMajor, 0));
        Ok(Self {
            problem,
            a: DeviceOperand::new(device, &[a], a_lies, a_input)?,
            b: DeviceOperand::new(device, &[b], b_lies, b_input)?,
            c: device.buffer_from(&vec![before; expected.len()])?,
            expected,
        })
    }

    /// Of [`Operand::exact`] ones.
    pub(crate) fn exact(
        device: &Device,
        problem: Problem,
        (of_a, of_b): Granularities,
        inputs: (impl Fn(f32) -> A, impl Fn(f32) -> B),
        before: C,
    ) -> Result<Self, Error> {
        let Problem { m, n, k, .. } = problem;
        let a = Operand::exact(of_a, (m, k), u64::from(m) + 3);
        let b = Operand::exact(of_b, (n, k), u64::from(n) + 5);
        Self::new(device, problem, (a, b), inputs, before)
    }

    /// What has a scale.
    pub(crate) fn granularities(&self) -> Granularities {
        (self.a.granularity, self.b.granularity)
    }
}

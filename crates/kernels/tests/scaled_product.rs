//! A product whose blocks have scales, for tests of the operations that compute it.

use warpwright::runtime::{Buffer, Device, Error, Storable};
use warpwright_kernels::gemm::multiply::Product;
use warpwright_kernels::gemm::multiply_scaled::{Granularities, Narrow};
use warpwright_kernels::gemm::{GemmOutput, Order};

use crate::operands::{Factor, Operand, products};

/// A product of operands on a device, and what it should be.
pub(crate) struct Case<A, B, C> {
    pub(crate) product: Product,
    pub(crate) expected: Vec<f64>,
    pub(crate) a: Factor<A>,
    pub(crate) b: Factor<B>,
    pub(crate) c: Buffer<C>,
}

impl<A: Narrow, B: Narrow, C: GemmOutput + Storable> Case<A, B, C> {
    pub(crate) fn new(
        device: &Device,
        product: Product,
        (a, b): (Operand, Operand),
        (a_input, b_input): (impl Fn(f32) -> A, impl Fn(f32) -> B),
        before: C,
    ) -> Result<Self, Error> {
        let Product { m, n, k, .. } = product;
        let mut expected = products(&a.meant, &b.meant, k);
        // Sums of no depth are zeros.
        expected.resize(m as usize * n as usize, 0.0);
        let (a_lies, b_lies) =
            ((k, product.a == Order::RowMajor, 0), (k, product.b == Order::ColumnMajor, 0));
        Ok(Self {
            product,
            a: Factor::new(device, &[a], a_lies, a_input)?,
            b: Factor::new(device, &[b], b_lies, b_input)?,
            c: device.buffer_from(&vec![before; expected.len()])?,
            expected,
        })
    }

    /// Of [`Operand::exact`] ones.
    pub(crate) fn exact(
        device: &Device,
        product: Product,
        (of_a, of_b): Granularities,
        inputs: (impl Fn(f32) -> A, impl Fn(f32) -> B),
        before: C,
    ) -> Result<Self, Error> {
        let Product { m, n, k, .. } = product;
        let a = Operand::exact(of_a, (m, k), u64::from(m) + 3);
        let b = Operand::exact(of_b, (n, k), u64::from(n) + 5);
        Self::new(device, product, (a, b), inputs, before)
    }

    /// What has a scale.
    pub(crate) fn granularities(&self) -> Granularities {
        (self.a.granularity, self.b.granularity)
    }
}

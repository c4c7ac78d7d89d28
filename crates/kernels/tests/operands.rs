//! Operands with scales, for tests of their products.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Error};
use warpwright_harness::{Strided, product};
use warpwright_kernels::gemm::problem::scales::Granularity::{Block, Row};
use warpwright_kernels::gemm::problem::scales::{Granularities, Granularity, Scaled};
use warpwright_kernels::gemm::problem::types::BlockwiseOperand;

use crate::matrices::whole;

/// Each granularity of A's scales with each of B's.
pub(crate) const GRANULARITIES: [Granularities; 4] = [(Row, Block), (Row, Row), (Block, Block), (Block, Row)];

type ToE4m3 = fn(f32) -> e4m3;

/// What makes elements of A and of B.
pub(crate) const E4M3: (ToE4m3, ToE4m3) = (e4m3::from_f32, e4m3::from_f32);

/// Pseudorandom numbers below `limit`.
pub(crate) fn numbers(count: usize, seed: u64, limit: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    (0..count).map(|_| next()).collect()
}

/// An operand (rows, k) on the host, and what its elements stand for.
pub(crate) struct Operand {
    pub(crate) granularity: Granularity,
    pub(crate) values: Vec<f32>,
    pub(crate) scales: Vec<f32>,
    pub(crate) meant: Vec<f64>,
}

impl Operand {
    /// Small whole numbers, scaled by powers of two: whatever is summed, in whatever order, is
    /// exact.
    pub(crate) fn exact(granularity: Granularity, (rows, k): (u32, u32), seed: u64) -> Self {
        let scale = |number: u64| f32::from_bits((125 + number as u32) << 23);
        let scales = numbers(granularity.count((rows, k)), seed, 5).into_iter().map(scale).collect();
        Self::new(granularity, (rows, k), whole((rows * k) as usize, seed + 1), scales)
    }

    pub(crate) fn new(
        granularity: Granularity,
        (rows, k): (u32, u32),
        values: Vec<f32>,
        scales: Vec<f32>,
    ) -> Self {
        let meant = values.iter().enumerate().map(|(at, &value)| {
            let (row, column) = (at as u32 / k, at as u32 % k);
            f64::from(value) * f64::from(scales[granularity.index((row, column), (rows, k))])
        });
        Self { granularity, meant: meant.collect(), values, scales }
    }

    /// The elements as they lie in memory, k contiguous or not.
    pub(crate) fn stored(&self, k: u32, k_contiguous: bool) -> impl Iterator<Item = f32> {
        let (k, count) = (k as usize, self.values.len());
        let index = move |at: usize| if k_contiguous { at } else { at % (count / k) * k + at / (count / k) };
        (0..count).map(move |at| self.values[index(at)])
    }
}

/// Operands on a device, one after another.
pub(crate) struct DeviceOperand<T> {
    pub(crate) granularity: Granularity,
    pub(crate) values: Buffer<T>,
    pub(crate) scales: Buffer<f32>,
}

impl<T: BlockwiseOperand> DeviceOperand<T> {
    /// Operands of depth k, contiguous along k or not, `stride` elements apart.
    pub(crate) fn new(
        device: &Device,
        operands: &[Operand],
        (k, k_contiguous, stride): (u32, bool, usize),
        input: impl Fn(f32) -> T,
    ) -> Result<Self, Error> {
        let mut values = Vec::new();
        for (number, operand) in operands.iter().enumerate() {
            values.resize_with(number * stride, || input(1.0));
            values.extend(operand.stored(k, k_contiguous).map(&input));
        }
        let scales: Vec<f32> = operands.iter().flat_map(|operand| operand.scales.clone()).collect();
        Ok(Self {
            granularity: operands[0].granularity,
            values: device.buffer_from(&values)?,
            scales: device.buffer_from(&scales)?,
        })
    }

    pub(crate) fn scaled(&self) -> Scaled<'_, T> {
        Scaled::new(&self.values, &self.scales, self.granularity)
    }
}

/// The products of each row of A and each column of B, all of length `k`, row by row.
pub(crate) fn products(a: &[f64], b: &[f64], k: u32) -> Vec<f64> {
    let k = k.max(1) as usize;
    let extents = (a.len() / k, b.len() / k, k);
    let a = Strided { values: a, row_stride: k, column_stride: 1 };
    product(extents, a, Strided { values: b, row_stride: 1, column_stride: k })
}

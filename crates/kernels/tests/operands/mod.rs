//! Operands with scales, for tests of their products.

use warpwright_kernels::gemm::scales::Granularity;

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
    /// Small whole numbers, scaled by powers of two: whatever is summed, in whatever order, is exact.
    pub(crate) fn exact(granularity: Granularity, (rows, k): (u32, u32), seed: u64) -> Self {
        let scale = |number: u64| f32::from_bits((125 + number as u32) << 23);
        let scales = numbers(granularity.count((rows, k)), seed, 5).into_iter().map(scale).collect();
        let values = numbers((rows * k) as usize, seed + 1, 5).into_iter().map(|value| value as f32 - 2.0);
        Self::new(granularity, (rows, k), values.collect(), scales)
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
        let place = move |at: usize| if k_contiguous { at } else { at % (count / k) * k + at / (count / k) };
        (0..count).map(move |at| self.values[place(at)])
    }
}

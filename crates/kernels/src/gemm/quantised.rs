//! Matrices quantised in blocks: the inputs of products with scales, and what the results are held to.

use rayon::prelude::*;
use warpwright::runtime::{Buffer, Device, Storable};

use super::batched::Batch;
use super::multiply::Product;
use super::multiply_scaled::{Granularities, Narrow, Scaled};
use super::scales::{BLOCK, Granularity};
use super::verify::{Part, references};
use crate::reference::{Rounded, normal};
use crate::registry::{self, Result, Verified, compare};

/// Factors that were quantised, one after another.
pub(super) struct Quantised<T> {
    values: Buffer<T>,
    scales: Buffer<f32>,
    granularity: Granularity,
    /// (rows, k) of each.
    operand: (u32, u32),
}

impl<T: Narrow + Rounded> Quantised<T> {
    /// So many of random normal numbers, divided in each block by what makes the largest of them the type's largest.
    pub(super) fn new(
        device: &Device,
        granularity: Granularity,
        operand: (u32, u32),
        count: u32,
        seed: u64,
    ) -> Result<Self> {
        let (rows, k) = operand;
        let elements = rows as usize * k as usize;
        let numbers: Vec<f32> = normal(seed, count as usize * elements, |number| number);
        let each = granularity.count(operand);
        let mut scales = vec![0f32; count as usize * each];
        for (numbers, scales) in numbers.chunks(elements.max(1)).zip(scales.chunks_mut(each.max(1))) {
            for (group, numbers) in numbers.chunks((granularity.rows() * k) as usize).enumerate() {
                for block in 0..k.div_ceil(BLOCK) {
                    let columns = (block * BLOCK) as usize..k.min((block + 1) * BLOCK) as usize;
                    let of_block = numbers.chunks(k as usize).flat_map(|row| &row[columns.clone()]);
                    let largest =
                        of_block.fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
                    let element = (group as u32 * granularity.rows(), block * BLOCK);
                    scales[granularity.index(element, operand)] = largest / T::LARGEST;
                }
            }
        }
        let round =
            |(at, number): (usize, &f32)| T::round(number / scales[scale_of(granularity, at, operand)]);
        let values: Vec<T> = numbers.par_iter().enumerate().map(round).collect();
        let (values, scales) = (device.buffer_from(&values)?, device.buffer_from(&scales)?);
        Ok(Self { values, scales, granularity, operand })
    }

    /// As operations take them.
    pub(super) fn scaled(&self) -> Scaled<'_, T> {
        Scaled { values: &self.values, scales: &self.scales, granularity: self.granularity }
    }

    /// What the elements stand for.
    fn meant(&self) -> Result<Vec<f32>> {
        let scales = self.scales.to_vec()?;
        let meant = |(at, value): (usize, &T)| {
            value.exact() as f32 * scales[scale_of(self.granularity, at, self.operand)]
        };
        Ok(self.values.to_vec()?.par_iter().enumerate().map(meant).collect())
    }
}

/// Where the scale of element number `at` of several operands is.
fn scale_of(granularity: Granularity, at: usize, operand: (u32, u32)) -> usize {
    let (rows, k) = (operand.0 as usize, operand.1 as usize);
    let (number, row, column) = (at / (rows * k), at / k % rows, at % k);
    number * granularity.count(operand) + granularity.index((row as u32, column as u32), operand)
}

/// The matrices of products with scales.
pub(super) struct QuantisedSet<A, B, C> {
    pub(super) a: Quantised<A>,
    pub(super) b: Quantised<B>,
    pub(super) c: Buffer<C>,
}

impl<A, B, C> QuantisedSet<A, B, C>
where
    A: Narrow + Rounded,
    B: Narrow + Rounded,
    C: Storable + Rounded,
{
    /// Of so many A (rows, k) and B (n, k); C, which is poisoned, has `elements`.
    pub(super) fn new(
        device: &Device,
        granularities: Granularities,
        (a, a_count): ((u32, u32), u32),
        (b, b_count): ((u32, u32), u32),
        elements: usize,
        seed: u64,
    ) -> Result<Self> {
        Ok(Self {
            a: Quantised::new(device, granularities.0, a, a_count, 2 * seed)?,
            b: Quantised::new(device, granularities.1, b, b_count, 2 * seed + 1)?,
            c: device.buffer_from(&vec![C::round(f32::NAN); elements])?,
        })
    }

    /// Of a batch without gaps.
    pub(super) fn of(device: &Device, batch: Batch, granularities: Granularities, seed: u64) -> Result<Self> {
        let Batch { product: Product { m, n, k, .. }, count, .. } = batch;
        let (a, b) = (((m, k), count), ((n, k), count));
        Self::new(device, granularities, a, b, batch.lengths()[2], seed)
    }

    /// Holds every element to the products of what the factors stand for: one rounding to C's type, and the error of the sums inside of
    /// blocks, which the tensor cores keep to 13 bits of their size (measured on an H200), four steps a block.
    ///
    /// The size of a block's sums is taken as four times their standard deviation, and that of all blocks as if their errors had one sign.
    pub(super) fn verify(&self, parts: &[Part]) -> Result<Verified> {
        let (a, b, device) = (self.a.meant()?, self.b.meant()?, self.c.device());
        let expected = references(&device, parts, &a, &b)?;
        let squares =
            |values: Vec<f32>| -> Vec<f32> { values.into_par_iter().map(|value| value * value).collect() };
        let variances = references(&device, parts, &squares(a), &squares(b))?;
        let Product { n, k, .. } = parts.first().map_or(Product::new(1, 1, 1), |part| part.product);
        // Blocks whose deviations add up to one that is the root of the number of blocks smaller than their sum.
        let blocks = f64::from(k.div_ceil(BLOCK));
        let accumulation = 4.0 * 4.0 * blocks.sqrt() / 8192.0;
        let found = self.c.to_vec()?;
        let elements =
            found.iter().zip(expected.into_iter().zip(variances)).map(|(found, (expected, variance))| {
                let tolerance =
                    C::ROUNDING * expected.abs() * 1.01 + accumulation * variance.sqrt() + f64::MIN_POSITIVE;
                registry::Element { found: found.exact(), expected, tolerance }
            });
        let columns = n as usize;
        Ok(compare(elements, |index| vec![index as usize / columns, index as usize % columns])?)
    }
}

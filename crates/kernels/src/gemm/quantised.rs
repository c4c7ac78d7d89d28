//! Matrices quantised in blocks, as inputs of products with scales.

use rayon::prelude::*;
use warpwright::runtime::{Buffer, Device};

use super::multiply_scaled::Narrow;
use super::scales::{BLOCK, Granularity};
use crate::reference::{Rounded, normal};
use crate::registry::Result;

/// A factor that was quantised.
pub(super) struct Quantised<T> {
    pub(super) values: Buffer<T>,
    pub(super) scales: Buffer<f32>,
}

impl<T: Narrow + Rounded> Quantised<T> {
    /// Random normal numbers, divided in each block by what makes the largest of them the type's largest.
    pub(super) fn new(
        device: &Device,
        granularity: Granularity,
        (rows, k): (u32, u32),
        seed: u64,
    ) -> Result<Self> {
        let numbers: Vec<f32> = normal(seed, rows as usize * k as usize, |number| number);
        let mut scales = vec![0f32; granularity.count((rows, k))];
        for (group, numbers) in numbers.chunks((granularity.rows() * k) as usize).enumerate() {
            for block in 0..k.div_ceil(BLOCK) {
                let columns = (block * BLOCK) as usize..k.min((block + 1) * BLOCK) as usize;
                let of_block = numbers.chunks(k as usize).flat_map(|row| &row[columns.clone()]);
                let largest = of_block.fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
                let element = (group as u32 * granularity.rows(), block * BLOCK);
                scales[granularity.index(element, (rows, k))] = largest / T::LARGEST;
            }
        }
        let scale = |at: usize| scales[index(granularity, at, (rows, k))];
        let round = |(at, number): (usize, &f32)| T::round(number / scale(at));
        let values: Vec<T> = numbers.par_iter().enumerate().map(round).collect();
        Ok(Self { values: device.buffer_from(&values)?, scales: device.buffer_from(&scales)? })
    }

    /// What the elements stand for.
    pub(super) fn meant(&self, granularity: Granularity, operand: (u32, u32)) -> Result<Vec<f32>> {
        let scales = self.scales.to_vec()?;
        let meant = |(at, value): (usize, &T)| value.exact() as f32 * scales[index(granularity, at, operand)];
        Ok(self.values.to_vec()?.par_iter().enumerate().map(meant).collect())
    }
}

/// Where the scale of element number `at` of an operand is.
fn index(granularity: Granularity, at: usize, operand: (u32, u32)) -> usize {
    let k = operand.1 as usize;
    granularity.index(((at / k) as u32, (at % k) as u32), operand)
}

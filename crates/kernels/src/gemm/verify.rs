//! What a GEMM's result is held to: the product in f64 on the host, or on a GPU, where matrices may be large, in f32 by
//! [`sgemm`](crate::sgemm), whose own error is far below what tensor cores may lose.

use rayon::prelude::*;
use warpwright::runtime::{Buffer, Device, Storable, Stream};

use super::Order;
use super::batched::Batch;
use super::multiply::Product;
use super::options::Buffers;
use crate::operations::Operations;
use crate::reference::{Rounded, Strided, product};
use crate::registry::{self, Result, Verified, compare};
use crate::sgemm::{Matrices, Scale};

/// Holds every element of products of one width and depth, whose Cs lie one below the other, to the reference: one rounding to C's type, and the error of the accumulation.
///
/// Sums of f32 lose up to two units of the sum of the magnitudes in each step of an MMA, for the hardware truncates inside it. Of 8-bit
/// inputs it keeps less: [`narrow_accumulation`].
pub(super) fn verify_parts<A, B, C>(parts: &[Part], set: &Buffers<A, B, C>) -> Result<Verified>
where
    A: Rounded + Storable + Sync,
    B: Rounded + Storable + Sync,
    C: Rounded + Storable,
{
    verify_finished(parts, set, |_, sum, error| (sum, error))
}

/// [`verify_parts`] of what an epilogue made of the sums: `finish` has the number of an element, its sum, and how far off that may be, and
/// tells what it became and how far off that may be before it was rounded to C's type.
pub(super) fn verify_finished<A, B, C>(
    parts: &[Part],
    set: &Buffers<A, B, C>,
    finish: impl Fn(usize, f64, f64) -> (f64, f64),
) -> Result<Verified>
where
    A: Rounded + Storable + Sync,
    B: Rounded + Storable + Sync,
    C: Rounded + Storable,
{
    let (a, b) = (exact(set.a.to_vec()?), exact(set.b.to_vec()?));
    let device = set.c.device();
    let expected = references(&device, parts, &a, &b)?;
    let is_narrow = A::BYTES == 1;
    let size = |value: f32| if is_narrow { value * value } else { value.abs() };
    let sizes = |values: Vec<f32>| -> Vec<f32> { values.into_par_iter().map(size).collect() };
    let magnitudes = references(&device, parts, &sizes(a), &sizes(b))?;
    let magnitudes = magnitudes.into_iter().map(|sum| if is_narrow { 4.0 * sum.sqrt() } else { sum });
    let Product { n, k, .. } = parts.first().map_or(Product::new(1, 1, 1), |part| part.product);
    let steps = (f64::from(k) / (32.0 / A::BYTES as f64)).ceil();
    let accumulation =
        if is_narrow { narrow_accumulation(steps) } else { f32::ROUNDING * (2.0 * steps + 2.0) };
    let found = set.c.to_vec()?;
    let sums = expected.into_iter().zip(magnitudes).enumerate();
    let elements = found.iter().zip(sums).map(|(found, (index, (sum, magnitude)))| {
        let (expected, error) = finish(index, sum, accumulation * magnitude);
        let tolerance = C::ROUNDING * expected.abs() * 1.01 + error + f64::MIN_POSITIVE;
        registry::Element { found: found.exact(), expected, tolerance }
    });
    let columns = n as usize;
    Ok(compare(elements, |index| vec![index as usize / columns, index as usize % columns])?)
}

/// Values as f32, which holds all of any factor's type.
fn exact<T: Rounded + Sync + Send>(values: Vec<T>) -> Vec<f32> {
    values.into_par_iter().map(|value| value.exact() as f32).collect()
}

/// What an MMA of 8-bit inputs may lose in so many steps along k, as a part of the sums' size, which is taken as four times their standard
/// deviation.
///
/// A step adds 32 products and the sum so far, each cut off 13 bits below the largest of them (measured on an H200). What is cut off is
/// anything from nothing to that unit, with either sign: of 33 such numbers a step, the sum's standard deviation is the square root of 33/3 units
/// a step, of which six are allowed; and never more than each a whole unit.
fn narrow_accumulation(steps: f64) -> f64 {
    const ADDENDS: f64 = 33.0;
    const UNIT: f64 = 1.0 / 8192.0;
    (6.0 * (ADDENDS / 3.0 * steps).sqrt()).min(ADDENDS * steps) * UNIT
}

/// [`verify_parts`] of a batch without gaps.
pub(super) fn verify<A, B, C>(batch: Batch, set: &Buffers<A, B, C>) -> Result<Verified>
where
    A: Rounded + Storable + Sync,
    B: Rounded + Storable + Sync,
    C: Rounded + Storable,
{
    verify_parts(&parts_of(batch), set)
}

/// The products of a batch.
pub(super) fn parts_of(batch: Batch) -> Vec<Part> {
    let part = |number: usize| Part {
        product: batch.product,
        a: number * batch.a_stride as usize,
        b: number * batch.b_stride as usize,
    };
    (0..batch.count as usize).map(part).collect()
}

/// A product whose factors are parts of larger ones.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) product: Product,
    /// Elements of all A before its own.
    pub(super) a: usize,
    /// Elements of all B before its own.
    pub(super) b: usize,
}

/// A·B of each product, one below the other.
pub(super) fn references(device: &Device, parts: &[Part], a: &[f32], b: &[f32]) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for part in parts.iter().filter(|part| part.product.m > 0) {
        let [a_length, b_length, _] = Batch::from(part.product).lengths();
        let (a, b) = (&a[part.a..][..a_length], &b[part.b..][..b_length]);
        all.extend(reference(device, part.product, a, b)?);
    }
    Ok(all)
}

/// A·B, row-major.
fn reference(device: &Device, shape: Product, a: &[f32], b: &[f32]) -> Result<Vec<f64>> {
    if device.properties().is_emulated {
        return Ok(on_the_host(shape, a, b));
    }
    let product: Vec<f32> = on_the_gpu(device, shape, a, b)?;
    Ok(product.into_par_iter().map(f64::from).collect())
}

fn on_the_host(Product { m, n, k, a: a_order, b: b_order }: Product, a: &[f32], b: &[f32]) -> Vec<f64> {
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let wide = |values: &[f32]| -> Vec<f64> { values.par_iter().copied().map(f64::from).collect() };
    let (a, b) = (wide(a), wide(b));
    product((m, n, k), strided(&a, a_order, m, k), strided(&b, b_order, k, n))
}

fn on_the_gpu(device: &Device, shape: Product, a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
    let (operations, stream) = (Operations::new(device), device.stream()?);
    let Product { m, n, k, .. } = shape;
    let a = row_major(&operations, &stream, a, shape.a, (m, k))?;
    let b = row_major(&operations, &stream, b, shape.b, (k, n))?;
    let mut c = device.uninitialized(m as usize * n as usize)?;
    let matrices = Matrices { extents: (m, n, k), a: &a, b: &b, c: &mut c };
    operations.sgemm(&stream, matrices, Scale::default())?;
    stream.synchronize()?;
    Ok(c.to_vec()?)
}

/// A factor on the device, its columns contiguous.
fn row_major(
    operations: &Operations,
    stream: &Stream,
    values: &[f32],
    order: Order,
    (rows, columns): (u32, u32),
) -> Result<Buffer<f32>> {
    let factor = operations.device().buffer_from(values)?;
    if order == Order::RowMajor {
        return Ok(factor);
    }
    let mut turned = operations.device().uninitialized(values.len())?;
    operations.transpose(stream, &factor, (columns, rows), &mut turned)?;
    stream.synchronize()?;
    Ok(turned)
}

/// A factor of that order.
fn strided(values: &[f64], order: Order, rows: usize, columns: usize) -> Strided<'_> {
    match order {
        Order::RowMajor => Strided { values, row_stride: columns, column_stride: 1 },
        Order::ColumnMajor => Strided { values, row_stride: 1, column_stride: rows },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Random;

    /// What a GPU's results are held to is what the emulator's are.
    #[test]
    fn both_references_are_the_same_product() {
        let device = Device::named("emu:h200").expect("an emulator");
        for (a_order, b_order) in [
            (Order::RowMajor, Order::ColumnMajor),
            (Order::ColumnMajor, Order::RowMajor),
            (Order::RowMajor, Order::RowMajor),
        ] {
            let shape = Product { m: 33, n: 70, k: 45, a: a_order, b: b_order };
            let (a, b) = (Random::new(1).normal(33 * 45), Random::new(2).normal(45 * 70));
            let host = on_the_host(shape, &a, &b);
            let gpu = on_the_gpu(&device, shape, &a, &b).expect("it runs");
            let furthest = host.iter().zip(&gpu).map(|(host, gpu)| (host - f64::from(*gpu)).abs());
            assert!(furthest.fold(0.0, f64::max) < 1e-5, "{a_order:?} {b_order:?}");
        }
    }
}

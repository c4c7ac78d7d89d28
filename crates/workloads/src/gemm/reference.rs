//! The reference: the product in f64 on the host, or on a GPU, where matrices may be large, in f32
//! by [`sgemm`](warpwright_kernels::sgemm), whose own error is far below what tensor cores may lose.

use rayon::prelude::*;
use warpwright::runtime::{Buffer, Device, Storable, Stream};
use warpwright_harness::{Compared, HostNumber, Result, Strided, Verified, compare, product};

use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::epilogue::GATED_COLUMNS;
use warpwright_kernels::gemm::problem::scales::BLOCK;
use warpwright_kernels::gemm::problem::types::MatrixLayout;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sgemm::{Matrices, Scale};

/// A problem whose operands are parts of larger ones.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) problem: Problem,
    /// Elements of all A before its own.
    pub(super) a: usize,
    /// Elements of all B before its own.
    pub(super) b: usize,
}

/// The operands of problems, as the numbers that their elements stand for.
pub(super) struct Operands {
    pub(super) a: Vec<f32>,
    pub(super) b: Vec<f32>,
    /// Bytes of an element of A or B.
    pub(super) input_bytes: usize,
    /// Whether blocks have scales.
    pub(super) is_scaled: bool,
}

/// Compares every element of problems of one width and depth, whose Cs follow one another, with the
/// reference. `epilogue` has the index of an element, its accumulator and the error that it may
/// have, and returns the value to store and its error; `gate` combines those of a gate and its value,
/// if half of the columns are gates.
///
/// The tolerance is one rounding to C's type, and the error of the accumulation: accumulators of
/// f32 lose up to two units of the sum of the magnitudes in each step of an MMA, for the hardware
/// truncates inside it.
pub(super) fn verify<C: HostNumber + Storable>(
    parts: &[Part],
    operands: Operands,
    c: &Buffer<C>,
    epilogue: impl Fn(usize, f64, f64) -> (f64, f64),
    gate: Option<impl Fn((f64, f64), (f64, f64)) -> (f64, f64)>,
) -> Result<Verified> {
    let Operands { a, b, input_bytes, is_scaled } = operands;
    let device = c.device();
    let expected = references(&device, parts, &a, &b)?;
    // The size of a sum is that of its magnitudes; of 8-bit operands four times its standard
    // deviation.
    let is_narrow = input_bytes == 1;
    let size = |value: f32| if is_narrow { value * value } else { value.abs() };
    let sizes = |values: Vec<f32>| -> Vec<f32> { values.into_par_iter().map(size).collect() };
    let sizes = references(&device, parts, &sizes(a), &sizes(b))?;
    let sizes = sizes.into_iter().map(|size| if is_narrow { 4.0 * size.sqrt() } else { size });
    let Problem { n, k, .. } = parts.first().map_or(Problem::new(1, 1, 1), |part| part.problem);
    let steps = (f64::from(k) / (32.0 / input_bytes as f64)).ceil();
    let accumulation = match (is_scaled, is_narrow) {
        // The tensor cores keep 13 bits of the size of a block's sums, four steps a block (measured
        // on an H200); the blocks' errors add up as if they had one sign.
        (true, _) => 4.0 * f64::from(k.div_ceil(BLOCK)).sqrt() / 8192.0,
        (false, true) => narrow_accumulation(steps),
        (false, false) => f32::ROUNDING * (2.0 * steps + 2.0),
    };
    let values = expected.into_iter().zip(sizes).enumerate();
    let values = values.map(|(index, (sum, size))| epilogue(index, sum, accumulation * size));
    let (values, columns): (Vec<_>, _) = match &gate {
        None => (values.collect(), n as usize),
        Some(gate) => (in_pairs(&values.collect::<Vec<_>>(), gate), n as usize / 2),
    };
    let found = c.to_vec()?;
    let elements = found.iter().zip(values);
    let elements = elements.map(|(found, (expected, error))| {
        let tolerance = C::ROUNDING * expected.abs() * 1.01 + error + f64::MIN_POSITIVE;
        Compared { found: found.exact(), expected, tolerance }
    });
    Ok(compare(elements, |index| vec![index as usize / columns, index as usize % columns])?)
}

/// What `gate` makes of gates and values, which are columns in turns.
fn in_pairs<T: Copy>(columns: &[T], gate: impl Fn(T, T) -> T) -> Vec<T> {
    let turns = columns.chunks_exact(GATED_COLUMNS as usize).map(|turn| turn.split_at(turn.len() / 2));
    turns
        .flat_map(|(gates, values)| gates.iter().zip(values).map(|(&one, &other)| gate(one, other)))
        .collect()
}

/// What MMAs of 8-bit operands may lose in `steps` steps along k, as a part of the sum's size.
///
/// A step adds 32 products and the sum so far, each cut off 13 bits below the largest of them
/// (measured on an H200). What is cut off is up to that unit, with either sign: of 33 such numbers
/// a step, the sum's standard deviation is the square root of 33/3 units a step, of which six are
/// allowed; and never more than each a whole unit.
fn narrow_accumulation(steps: f64) -> f64 {
    const ADDENDS: f64 = 33.0;
    const UNIT: f64 = 1.0 / 8192.0;
    (6.0 * (ADDENDS / 3.0 * steps).sqrt()).min(ADDENDS * steps) * UNIT
}

/// The problems of a batch.
pub(super) fn parts_of(batch: Batch) -> Vec<Part> {
    let part = |number: usize| Part {
        problem: batch.problem,
        a: number * batch.a_stride as usize,
        b: number * batch.b_stride as usize,
    };
    (0..batch.count as usize).map(part).collect()
}

/// A·B of each problem, one below the other.
fn references(device: &Device, parts: &[Part], a: &[f32], b: &[f32]) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for part in parts.iter().filter(|part| part.problem.m > 0) {
        let [a_length, b_length, _] = Batch::from(part.problem).lengths();
        let (a, b) = (&a[part.a..][..a_length], &b[part.b..][..b_length]);
        match device.properties().is_emulated {
            true => all.extend(on_the_host(part.problem, a, b)),
            false => all.extend(on_the_gpu(device, part.problem, a, b)?.into_iter().map(f64::from)),
        }
    }
    Ok(all)
}

fn on_the_host(problem: Problem, a: &[f32], b: &[f32]) -> Vec<f64> {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|extent| extent as usize);
    let wide = |values: &[f32]| -> Vec<f64> { values.par_iter().copied().map(f64::from).collect() };
    let (a, b) = (wide(a), wide(b));
    product((m, n, k), strided(&a, problem.a, m, k), strided(&b, problem.b, k, n))
}

fn on_the_gpu(device: &Device, problem: Problem, a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
    let (operations, stream) = (Operations::new(device), device.stream()?);
    let Problem { m, n, k, .. } = problem;
    let a = row_major(&operations, &stream, a, problem.a, (m, k))?;
    let b = row_major(&operations, &stream, b, problem.b, (k, n))?;
    let mut c = device.uninitialized(m as usize * n as usize)?;
    let matrices = Matrices { extents: (m, n, k), a: &a, b: &b, c: &mut c };
    operations.sgemm(&stream, matrices, Scale::default())?;
    stream.synchronize()?;
    Ok(c.to_vec()?)
}

/// An operand on the device, row-major.
fn row_major(
    operations: &Operations,
    stream: &Stream,
    values: &[f32],
    layout: MatrixLayout,
    (rows, columns): (u32, u32),
) -> Result<Buffer<f32>> {
    let operand = operations.device().buffer_from(values)?;
    if layout == MatrixLayout::RowMajor {
        return Ok(operand);
    }
    let mut transposed = operations.device().uninitialized(values.len())?;
    operations.transpose(stream, &operand, (columns, rows), &mut transposed)?;
    stream.synchronize()?;
    Ok(transposed)
}

/// An operand of that layout.
fn strided(values: &[f64], layout: MatrixLayout, rows: usize, columns: usize) -> Strided<'_> {
    match layout {
        MatrixLayout::RowMajor => Strided { values, row_stride: columns, column_stride: 1 },
        MatrixLayout::ColumnMajor => Strided { values, row_stride: 1, column_stride: rows },
    }
}

#[cfg(test)]
mod tests {
    use warpwright_harness::Random;

    use super::*;

    /// A GPU's results are compared with the same reference as the emulator's.
    #[test]
    fn both_references_are_the_same_product() {
        let device = Device::named("emu:h200").expect("an emulator");
        for (a_layout, b_layout) in [
            (MatrixLayout::RowMajor, MatrixLayout::ColumnMajor),
            (MatrixLayout::ColumnMajor, MatrixLayout::RowMajor),
            (MatrixLayout::RowMajor, MatrixLayout::RowMajor),
        ] {
            let problem = Problem { m: 33, n: 70, k: 45, a: a_layout, b: b_layout };
            let (a, b) = (Random::new(1).normal(33 * 45), Random::new(2).normal(45 * 70));
            let host = on_the_host(problem, &a, &b);
            let gpu = on_the_gpu(&device, problem, &a, &b).expect("it runs");
            let furthest = host.iter().zip(&gpu).map(|(host, gpu)| (host - f64::from(*gpu)).abs());
            assert!(furthest.fold(0.0, f64::max) < 1e-5, "{a_layout:?} {b_layout:?}");
        }
    }
}

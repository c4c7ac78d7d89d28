//! Batches of products in one launch: every algorithm of the heuristic, strides, shared operands,
//! epilogues, and what is refused.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule, Storable};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::gemm::problem::types::{GemmOutput, MatrixLayout, MultipliesWith};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

use crate::emulated::hopper;
use crate::matrices::whole;
use crate::products::{self, all_algorithms, multiplied, sent};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// What stands in the gaps between matrices.
const GAP: f32 = 77.0;

/// The elements of a batch's matrix and of the gaps up to the last.
fn length(batch: &Batch, stride: u64, matrix: usize) -> usize {
    (u64::from(batch.count - 1) * stride) as usize + matrix
}

/// All of C, with the gaps, from what was there before.
fn expected(batch: &Batch, a: &[f32], b: &[f32], before: f32) -> Vec<f32> {
    let matrix = batch.problem.m as usize * batch.problem.n as usize;
    let mut c = vec![before; length(batch, batch.c_stride, matrix)];
    for problem in 0..u64::from(batch.count) {
        let [a, b] = [(a, batch.a_stride), (b, batch.b_stride)]
            .map(|(all, stride)| &all[(problem * stride) as usize..]);
        let first = (problem * batch.c_stride) as usize;
        c[first..][..matrix].copy_from_slice(&multiplied(batch.problem, a, b));
    }
    c
}

type Case<T, C> = products::Case<Batch, T, T, C>;

impl<T: MultipliesWith<T>, C: GemmOutput + Storable> Case<T, C> {
    fn new(
        device: &Device,
        batch: Batch,
        input: impl Fn(f32) -> T,
        output: impl Fn(f32) -> C,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let [m, n, k] = [batch.problem.m, batch.problem.n, batch.problem.k].map(|extent| extent as usize);
        let a = whole(length(&batch, batch.a_stride, m * k), 1);
        let b = whole(length(&batch, batch.b_stride, k * n), 2);
        let expected = expected(&batch, &a, &b, GAP);
        let before: Vec<C> = expected.iter().map(|_| output(GAP)).collect();
        let (a, b) = (sent(device, &a, &input)?, sent(device, &b, &input)?);
        Ok(Self { of: batch, a, b, c: device.buffer_from(&before)?, expected })
    }
}

/// With gaps that TMA can step over.
fn with_gaps(batch: Batch) -> Batch {
    let Batch { a_stride, b_stride, c_stride, .. } = batch;
    Batch { a_stride: a_stride + 16, b_stride: b_stride + 8, c_stride: c_stride + 24, ..batch }
}

#[test]
fn every_algorithm_is_right() -> Outcome {
    for (schedule, batch) in [
        (Schedule::Eager, Batch::new(Problem::new(72, 72, 136), 7)),
        (Schedule::Latest, with_gaps(Batch::new(Problem::new(5, 136, 264), 2))),
        (Schedule::Random(7), Batch::new(Problem::new(136, 136, 72), 2).sharing_b()),
        (Schedule::Random(8), Batch::new(Problem::new(1, 136, 72), 7).sharing_a()),
        (Schedule::Random(9), Batch::new(Problem::new(72, 72, 72), 1)),
    ] {
        let device = hopper(schedule)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let rounded = |value: f32| bf16::from_f32(value);
        let mut case = Case::<bf16, bf16>::new(&device, batch, rounded, rounded)?;
        // Sums of whole numbers are whole, and those above 256 are rounded once.
        case.expected.iter_mut().for_each(|sum| *sum = rounded(*sum).to_f32());
        let algorithms = all_algorithms::<bf16, bf16>(&device, batch);
        assert!(algorithms.len() > 8, "{} algorithms", algorithms.len());
        for algorithm in one_in(73, algorithms) {
            case.check(&operations, &stream, algorithm, bf16::to_f32)?;
        }
    }
    Ok(())
}

#[test]
fn every_algorithm_is_clean_under_the_checkers() -> Outcome {
    let device = hopper(Schedule::Random(3))?.checked()?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let batch = with_gaps(Batch::new(Problem::new(72, 200, 72), 3));
    let mut case = Case::<f16, f32>::new(&device, batch, f16::from_f32, |value| value)?;
    for algorithm in one_in(83, all_algorithms::<f16, f32>(&device, batch)) {
        case.check(&operations, &stream, algorithm, |found| found)?;
    }
    let mut case = Case::<f16, f16>::new(&device, batch, f16::from_f32, f16::from_f32)?;
    for algorithm in one_in(101, all_algorithms::<f16, f16>(&device, batch)) {
        case.check(&operations, &stream, algorithm, f16::to_f32)?;
    }
    Ok(())
}

#[test]
fn every_order_is_right_on_both_generations() -> Outcome {
    let both = [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor];
    for name in ["emu:a100", "emu:h200"] {
        let device = Device::named(name)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        for (a, b) in both.into_iter().flat_map(|a| both.map(|b| (a, b))) {
            // Rows of 16-byte multiples; rows that TMA cannot read; and matrices that begin where
            // it cannot.
            for (m, n, k, gap) in [(72, 136, 40, 0), (67, 35, 37, 0), (64, 72, 40, 1)] {
                let batch = Batch::new(Problem { m, n, k, a, b }, 3);
                let Batch { a_stride, b_stride, c_stride, .. } = batch;
                let (a_stride, b_stride, c_stride) = (a_stride + gap, b_stride + gap, c_stride + gap);
                let batch = Batch { a_stride, b_stride, c_stride, ..batch };
                let mut case = Case::<f16, f16>::new(&device, batch, f16::from_f32, f16::from_f32)?;
                let algorithm = all_algorithms::<f16, f16>(&device, batch)[0];
                case.check(&operations, &stream, algorithm, f16::to_f32)?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_type_is_right() -> Outcome {
    fn check<T: MultipliesWith<T>>(device: &Device, input: impl Fn(f32) -> T) -> Outcome {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let batch = Batch::new(Problem::new(72, 136, 80), 2);
        let mut case = Case::<T, f32>::new(device, batch, input, |value| value)?;
        for algorithm in one_in(167, all_algorithms::<T, f32>(device, batch)) {
            if !matches!(algorithm, Algorithm::MmaSync(_)) {
                case.check(&operations, &stream, algorithm, |found| found)?;
            }
        }
        Ok(())
    }
    let device = Device::named("emu:h200")?;
    check(&device, bf16::from_f32)?;
    check(&device, f16::from_f32)?;
    check(&device, tf32)?;
    check(&device, e4m3::from_f32)?;
    check(&device, e5m2::from_f32)
}

#[test]
fn each_product_has_its_own_part_of_an_epilogue() -> Outcome {
    for name in ["emu:a100", "emu:h200"] {
        let device = Device::named(name)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        // A C of 16-byte rows, one of others, and one that is computed transposed.
        for (m, n, k) in [(136, 72, 64), (130, 67, 64), (3, 264, 128)] {
            let (batch, count) = (Batch::new(Problem::new(m, n, k), 3), 3);
            let rows = whole(count * m as usize, 3);
            let (columns, bias) = (whole(count * n as usize, 4), whole(count * n as usize, 5));
            let there = |values: &[f32]| device.buffer_from(values);
            let (row_scales, column_scales, biases) = (there(&rows)?, there(&columns)?, there(&bias)?);
            let linear = Linear {
                alpha: 0.125,
                beta: 0.5,
                row_scales: Some(&row_scales),
                column_scales: Some(&column_scales),
                bias: Some(&biases),
                activation: Activation::Relu,
            };
            let mut case = Case::<bf16, f32>::new(&device, batch, bf16::from_f32, |value| value)?;
            operations.gemm(&stream, &Gemm::from(batch).epilogue(linear), &case.a, &case.b, &mut case.c)?;
            for (index, (found, sum)) in case.c.to_vec()?.into_iter().zip(&case.expected).enumerate() {
                let (line, column) = (index / n as usize, index % n as usize);
                let of_columns = line / m as usize * n as usize + column;
                let inner = 0.125 * rows[line] * columns[of_columns] * sum + bias[of_columns];
                let expected = inner.max(0.0) + GAP / 2.0;
                assert!((found - expected).abs() <= 1e-6, "{name}: {found} at {index}, not {expected}");
            }
        }
    }
    Ok(())
}

/// Products of which there are more than a grid has rows.
#[test]
#[ignore = "half a minute: 65,537 CTAs"]
fn a_batch_may_have_more_products_than_a_grid_has_rows() -> Outcome {
    let device = Device::named("emu:a100")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let batch = Batch::new(Problem::new(1, 1, 1), 65_537);
    let mut case = Case::<bf16, f32>::new(&device, batch, bf16::from_f32, |value| value)?;
    case.check(&operations, &stream, Algorithm::MmaSync(Default::default()), |found| found)
}

#[test]
fn refusals_name_the_rule() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let halves = device.buffer_from(&[f16::from_f32(1.0); 192])?;
    let mut c = device.buffer_from(&[0f32; 192])?;
    let refused =
        |outcome: Result<_, OperationError>| outcome.map(|_| ()).expect_err("it is refused").to_string();
    let batch = Batch::new(Problem::new(8, 8, 8), 3);
    let long = Batch::new(Problem::new(8, 8, 8), 4);
    let words = refused(operations.gemm(&stream, &Gemm::from(long), &halves, &halves, &mut c));
    assert!(words.contains("A: expected a length of 256, found 192"), "{words}");
    let overlapping = Batch { c_stride: 63, ..batch };
    let words = refused(operations.gemm(&stream, &Gemm::from(overlapping), &halves, &halves, &mut c));
    assert!(words.contains("64 elements are 63 apart"), "{words}");
    let bias = device.buffer_from(&[1f32; 8])?;
    let linear = Linear { bias: Some(&bias), ..Linear::default() };
    let words =
        refused(operations.gemm(&stream, &Gemm::from(batch).epilogue(linear), &halves, &halves, &mut c));
    assert!(words.contains("the bias: expected a length of 24, found 8"), "{words}");
    Ok(())
}

#[test]
fn nothing_to_multiply_leaves_zeros_or_nothing() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let none = device.uninitialized::<bf16>(0)?;
    let mut c = device.buffer_from(&[7f32; 128])?;
    operations.gemm(&stream, &Gemm::new(8, 8, 0).batch(2), &none, &none, &mut c)?;
    assert_eq!(c.to_vec()?, [0.0; 128]);
    let mut empty = device.uninitialized::<f32>(0)?;
    operations.gemm(&stream, &Gemm::new(8, 8, 8).batch(0), &none, &none, &mut empty)?;
    let b = device.buffer_from(&[bf16::ONE; 128])?;
    operations.gemm(&stream, &Gemm::new(0, 8, 8).batch(2), &none, &b, &mut empty)?;
    Ok(())
}

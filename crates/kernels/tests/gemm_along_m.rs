//! Groups of rows in one launch, each times a matrix of its own: every algorithm of the heuristic,
//! groups of no rows, epilogues, and what is refused.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Schedule, Storable, Stream};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::Problem;
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::gemm::problem::types::{GemmOutput, MatrixLayout, MultipliesWith};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

use crate::emulated::hopper;
use crate::matrices::whole;
use crate::products::{compare, multiplied, sent};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// What C holds before.
const BEFORE: f32 = 77.0;

/// The group of each row.
fn groups(sizes: &[u32]) -> Vec<usize> {
    sizes.iter().enumerate().flat_map(|(group, &size)| vec![group; size as usize]).collect()
}

/// Groups' matrices on the host and on a device.
struct Case<T, C> {
    offsets: Buffer<u32>,
    n: u32,
    k: u32,
    order: MatrixLayout,
    expected: Vec<f32>,
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<C>,
}

impl<T: MultipliesWith<T>, C: GemmOutput + Storable> Case<T, C> {
    fn new(
        device: &Device,
        sizes: &[u32],
        (n, k, order): (u32, u32, MatrixLayout),
        input: impl Fn(f32) -> T,
        output: impl Fn(f32) -> C,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let (wide, deep) = (n as usize, k as usize);
        let rows = sizes.iter().sum::<u32>() as usize;
        let (a, b) = (whole(rows * deep, 1), whole(sizes.len() * wide * deep, 2));
        let mut left = &a[..];
        let mut expected = Vec::new();
        for (group, &size) in sizes.iter().enumerate() {
            let (rows, others) = left.split_at(size as usize * deep);
            let problem = Problem { b: order, ..Problem::new(size, n, k) };
            expected.extend(multiplied(problem, rows, &b[group * wide * deep..]));
            left = others;
        }
        let ends = sizes.iter().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        let offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let before: Vec<C> = expected.iter().map(|_| output(BEFORE)).collect();
        let (a, b, c) = (sent(device, &a, &input)?, sent(device, &b, &input)?, device.buffer_from(&before)?);
        Ok(Self { offsets: device.buffer_from(&offsets)?, n, k, order, expected, a, b, c })
    }

    fn algorithms(&self, operations: &Operations) -> Vec<Algorithm> {
        operations.gemm_algorithms::<T, C>(&self.gemm(), None)
    }

    fn gemm(&self) -> Gemm<'_> {
        Gemm::new(self.a.len() as u32 / self.k, self.n, self.k)
            .layouts(MatrixLayout::RowMajor, self.order)
            .along_m(&self.offsets)
    }

    /// Computes it by an algorithm twice, the second time with the workspace of the first, and
    /// compares.
    fn check(
        &mut self,
        operations: &Operations,
        stream: &Stream,
        algorithm: Algorithm,
        of: impl Fn(C) -> f32,
    ) -> Outcome {
        let groups = Gemm::new(self.a.len() as u32 / self.k, self.n, self.k)
            .layouts(MatrixLayout::RowMajor, self.order)
            .along_m(&self.offsets);
        for _ in 0..2 {
            operations.gemm(stream, &groups.algorithm(algorithm), &self.a, &self.b, &mut self.c)?;
        }
        Ok(compare(
            &self.c,
            of,
            &self.expected,
            &format!("{:?} by {algorithm:?}", (self.n, self.k, self.order)),
        )?)
    }
}

const WEIGHTS: MatrixLayout = MatrixLayout::ColumnMajor;

#[test]
fn every_algorithm_is_right() -> Outcome {
    for (schedule, sizes, n, k) in [
        (Schedule::Eager, &[0, 5, 130, 0, 64, 1, 0][..], 72, 72),
        (Schedule::Latest, &[1, 0, 1, 2], 136, 264),
        (Schedule::Random(7), &[140], 136, 72),
        (Schedule::Random(8), &[300, 0, 0, 20], 64, 136),
    ] {
        let device = hopper(schedule)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let rounded = |value: f32| bf16::from_f32(value);
        let mut case = Case::<bf16, bf16>::new(&device, sizes, (n, k, WEIGHTS), rounded, rounded)?;
        // Sums of whole numbers are whole, and those above 256 are rounded once.
        case.expected.iter_mut().for_each(|sum| *sum = rounded(*sum).to_f32());
        let algorithms = case.algorithms(&operations);
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
    let sizes = [3, 0, 70, 64];
    let mut case = Case::<f16, f32>::new(&device, &sizes, (72, 72, WEIGHTS), f16::from_f32, |value| value)?;
    for algorithm in one_in(83, case.algorithms(&operations)) {
        case.check(&operations, &stream, algorithm, |found| found)?;
    }
    let mut case = Case::<f16, f16>::new(&device, &sizes, (72, 72, WEIGHTS), f16::from_f32, f16::from_f32)?;
    for algorithm in one_in(101, case.algorithms(&operations)) {
        case.check(&operations, &stream, algorithm, f16::to_f32)?;
    }
    Ok(())
}

#[test]
fn many_groups_are_found() -> Outcome {
    let device = hopper(Schedule::Eager)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    // More than a warp of groups, most of them of few rows or none, one of many; and a whole power
    // of two.
    for count in [33, 64, 100] {
        let sizes: Vec<u32> = (0..count).map(|group| if group == 40 { 150 } else { group * 7 % 5 }).collect();
        let mut case =
            Case::<bf16, f32>::new(&device, &sizes, (24, 16, WEIGHTS), bf16::from_f32, |value| value)?;
        let algorithm = case.algorithms(&operations)[0];
        case.check(&operations, &stream, algorithm, |found| found)?;
    }
    Ok(())
}

#[test]
fn both_orders_and_generations_are_right() -> Outcome {
    for name in ["emu:a100", "emu:h200"] {
        let device = Device::named(name)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        for order in [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor] {
            // Rows of 16-byte multiples, and rows that TMA cannot read.
            for (n, k) in [(136, 40), (35, 37)] {
                let sizes = [130, 0, 7];
                let mut case =
                    Case::<f16, f16>::new(&device, &sizes, (n, k, order), f16::from_f32, f16::from_f32)?;
                let algorithm = case.algorithms(&operations)[0];
                case.check(&operations, &stream, algorithm, f16::to_f32)?;
            }
        }
    }
    Ok(())
}

/// Gaps between the matrices B are not read, on both generations.
#[test]
fn gaps_between_matrices_are_right() -> Outcome {
    let (n, k, sizes) = (16, 24, [5, 4]);
    let matrix = (n * k) as usize;
    let (a, b) = (whole(9 * k as usize, 1), whole(2 * matrix, 2));
    let (first, second) = a.split_at(5 * k as usize);
    let mut expected = multiplied(Problem::new(sizes[0], n, k), first, &b);
    expected.extend(multiplied(Problem::new(sizes[1], n, k), second, &b[matrix..]));
    let spaced = [&b[..matrix], &[f32::NAN; 8], &b[matrix..]].concat();
    for name in ["emu:a100", "emu:h200"] {
        let device = Device::named(name)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let offsets = device.buffer_from(&[0, sizes[0], sizes[0] + sizes[1]])?;
        let (a, b) = (sent(&device, &a, bf16::from_f32)?, sent(&device, &spaced, bf16::from_f32)?);
        let mut c = device.uninitialized::<f32>(9 * n as usize)?;
        let gemm = Gemm::new(9, n, k).along_m(&offsets).strides(0, u64::from(n * k) + 8, u64::from(9 * n));
        operations.gemm(&stream, &gemm, &a, &b, &mut c)?;
        compare(&c, |found| found, &expected, name)?;
    }
    Ok(())
}

#[test]
fn every_type_is_right() -> Outcome {
    fn check<T: MultipliesWith<T>>(device: &Device, input: impl Fn(f32) -> T) -> Outcome {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let mut case = Case::<T, bf16>::new(device, &[9, 72], (72, 80, WEIGHTS), input, bf16::from_f32)?;
        case.expected.iter_mut().for_each(|sum| *sum = bf16::from_f32(*sum).to_f32());
        let algorithm = case.algorithms(&operations)[0];
        assert!(!matches!(algorithm, Algorithm::MmaSync(_)));
        case.check(&operations, &stream, algorithm, bf16::to_f32)
    }
    let device = Device::named("emu:h200")?;
    check(&device, bf16::from_f32)?;
    check(&device, f16::from_f32)?;
    check(&device, tf32)?;
    check(&device, e4m3::from_f32)?;
    check(&device, e5m2::from_f32)
}

#[test]
fn each_group_has_its_own_part_of_an_epilogue() -> Outcome {
    for name in ["emu:a100", "emu:h200"] {
        let device = Device::named(name)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        // Many rows, and so few that C is computed transposed.
        for (sizes, n) in [(&[70, 0, 140][..], 72), (&[1, 2, 0, 1], 264)] {
            let rows = groups(sizes);
            let scales = whole(rows.len(), 3);
            let (columns, bias) = (whole(sizes.len() * n, 4), whole(sizes.len() * n, 5));
            let there = |values: &[f32]| device.buffer_from(values);
            let (row_scales, column_scales, biases) = (there(&scales)?, there(&columns)?, there(&bias)?);
            let linear = Linear {
                alpha: 0.125,
                beta: 0.5,
                row_scales: Some(&row_scales),
                column_scales: Some(&column_scales),
                bias: Some(&biases),
                activation: Activation::Relu,
            };
            let shape = (n as u32, 64, WEIGHTS);
            let mut case = Case::<bf16, f32>::new(&device, sizes, shape, bf16::from_f32, |value| value)?;
            let groups = Gemm::new(rows.len() as u32, n as u32, 64).along_m(&case.offsets);
            operations.gemm(&stream, &groups.epilogue(linear), &case.a, &case.b, &mut case.c)?;
            for (index, (found, sum)) in case.c.to_vec()?.into_iter().zip(&case.expected).enumerate() {
                let (row, column) = (index / n, rows[index / n] * n + index % n);
                let inner = 0.125 * scales[row] * columns[column] * sum + bias[column];
                let expected = inner.max(0.0) + BEFORE / 2.0;
                assert!((found - expected).abs() <= 1e-6, "{name}: {found} at {index}, not {expected}");
            }
        }
    }
    Ok(())
}

#[test]
fn refusals_name_the_rule() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let halves = device.buffer_from(&[f16::from_f32(1.0); 128])?;
    let mut c = device.buffer_from(&[0f32; 128])?;
    let refused =
        |outcome: Result<_, OperationError>| outcome.map(|_| ()).expect_err("it is refused").to_string();
    let offsets = device.buffer_from(&[0u32, 3, 16])?;
    let words =
        refused(operations.gemm(&stream, &Gemm::new(16, 16, 8).along_m(&offsets), &halves, &halves, &mut c));
    assert!(words.contains("B: expected a length of 256, found 128"), "{words}");
    let none = device.buffer_from(&[0u32; 0])?;
    let words =
        refused(operations.gemm(&stream, &Gemm::new(16, 8, 8).along_m(&none), &halves, &halves, &mut c));
    assert!(words.contains("0 offsets: n groups along m have n + 1"), "{words}");
    Ok(())
}

#[test]
fn no_rows_are_no_work() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let none = device.uninitialized::<bf16>(0)?;
    let mut empty = device.uninitialized::<f32>(0)?;
    let offsets = device.buffer_from(&[0u32, 0, 0])?;
    let b = device.buffer_from(&[bf16::ONE; 128])?;
    operations.gemm(&stream, &Gemm::new(0, 8, 8).along_m(&offsets), &none, &b, &mut empty)?;
    Ok(())
}

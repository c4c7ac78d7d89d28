//! The GEMM library: every algorithm of the heuristic, every type and order, epilogues, and what is
//! refused.

use warpwright::arch::DataType;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule, Storable};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::device::schedule::Schedule as Accumulators;
use warpwright_kernels::gemm::host::config::{Algorithm, Configuration, TmaInstruction};
use warpwright_kernels::gemm::problem::batching::{GemmProblem, Problem};
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::gemm::problem::types::{GemmOutput, GemmTypes, MatrixLayout, MultipliesWith};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

use crate::emulated::{blackwell, hopper};
use crate::matrices::whole;
use crate::products::{self, all_algorithms, multiplied, sent};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const TYPES: GemmTypes = GemmTypes::new(DataType::F16, DataType::F16, DataType::F32);

type Case<T, C> = products::Case<Problem, T, T, C>;

impl<T: MultipliesWith<T>, C: GemmOutput + Storable> Case<T, C> {
    fn new(
        device: &Device,
        problem: Problem,
        input: impl Fn(f32) -> T,
        before: C,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let [m, n, k] = [problem.m, problem.n, problem.k].map(|extent| extent as usize);
        let (a, b) = (whole(m * k, 1), whole(k * n, 2));
        Ok(Self {
            of: problem,
            expected: multiplied(problem, &a, &b),
            a: sent(device, &a, &input)?,
            b: sent(device, &b, &input)?,
            c: device.buffer_from(&vec![before; m * n])?,
        })
    }
}

#[test]
fn every_algorithm_is_right() -> Outcome {
    for (device, (m, n, k)) in [
        (hopper(Schedule::Eager)?, (200, 328, 264)),
        (hopper(Schedule::Latest)?, (5, 264, 1032)),
        (hopper(Schedule::Random(7))?, (72, 264, 520)),
        (hopper(Schedule::Random(8))?, (1, 136, 264)),
        (blackwell(Schedule::Eager)?, (136, 328, 264)),
        (blackwell(Schedule::Latest)?, (5, 264, 1032)),
        (blackwell(Schedule::Random(9))?.checked()?, (200, 136, 200)),
    ] {
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let problem = Problem::new(m, n, k);
        let mut case = Case::<bf16, bf16>::new(&device, problem, bf16::from_f32, bf16::NAN)?;
        // Sums of whole numbers are whole, and those above 256 are rounded once.
        case.expected.iter_mut().for_each(|sum| *sum = bf16::from_f32(*sum).to_f32());
        let algorithms = all_algorithms::<bf16, bf16>(&device, problem);
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
    let problem = Problem::new(72, 200, 328);
    let mut case = Case::<f16, f32>::new(&device, problem, f16::from_f32, f32::NAN)?;
    for algorithm in one_in(83, all_algorithms::<f16, f32>(&device, problem)) {
        case.check(&operations, &stream, algorithm, |found| found)?;
    }
    Ok(())
}

fn orders() -> [(MatrixLayout, MatrixLayout); 4] {
    let both = [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor];
    [(both[0], both[0]), (both[0], both[1]), (both[1], both[0]), (both[1], both[1])]
}

#[test]
fn every_order_is_right_on_every_generation() -> Outcome {
    for name in ["emu:a100", "emu:h200", "emu:b200"] {
        let device = Device::named(name)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        for (a, b) in orders() {
            // Rows of 16-byte multiples, and rows that TMA cannot read.
            for (m, n, k) in [(144, 136, 72), (131, 67, 37)] {
                let problem = Problem { m, n, k, a, b };
                let mut case = Case::<f16, f32>::new(&device, problem, f16::from_f32, f32::NAN)?;
                let algorithm = all_algorithms::<f16, f32>(&device, problem)[0];
                case.check(&operations, &stream, algorithm, |found| found)?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_type_is_right() -> Outcome {
    fn check<T: MultipliesWith<T>>(device: &Device, input: impl Fn(f32) -> T) -> Outcome {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let problem = Problem::new(136, 264, 272);
        let mut case = Case::<T, f32>::new(device, problem, input, f32::NAN)?;
        for algorithm in one_in(167, all_algorithms::<T, f32>(device, problem)) {
            if !matches!(algorithm, Algorithm::MmaSync(_)) {
                case.check(&operations, &stream, algorithm, |found| found)?;
            }
        }
        Ok(())
    }
    for name in ["emu:h200", "emu:b200"] {
        let device = Device::named(name)?;
        check(&device, bf16::from_f32)?;
        check(&device, f16::from_f32)?;
        check(&device, tf32)?;
        check(&device, e4m3::from_f32)?;
        check(&device, e5m2::from_f32)?;
    }
    Ok(())
}

/// More tiles than SMs: both accumulators in tensor memory are used again and again.
#[test]
fn persistent_ctas_store_one_tile_while_they_multiply_the_next() -> Outcome {
    let device = blackwell(Schedule::Random(2))?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let problem = Problem::new(136, 16 * 156, 24);
    let mut case = Case::<f16, f32>::new(&device, problem, f16::from_f32, f32::NAN)?;
    let all = Configuration::all(&GemmProblem::new(problem, TYPES), TmaInstruction::Tcgen05);
    for (schedule, cluster) in
        [(Accumulators::TensorMemory, (1, 1)), (Accumulators::PairedTensorMemory, (2, 1))]
    {
        let is_narrow = |at: &&Configuration| {
            at.tile.1 == 16 && !at.transposed && at.cluster == cluster && at.schedule == schedule
        };
        let configuration = all.iter().find(is_narrow).expect("a narrow tile");
        case.check(&operations, &stream, Algorithm::of(*configuration), |found| found)?;
    }
    Ok(())
}

/// The cheapest `wgmma` algorithm.
fn warpgroups<T: MultipliesWith<T>, C: GemmOutput>(device: &Device, problem: Problem) -> Algorithm {
    all_algorithms::<T, C>(device, problem)
        .into_iter()
        .find(|algorithm| !matches!(algorithm, Algorithm::MmaSync(_)))
        .expect("Hopper has one")
}

/// Rows that are no multiples of 16 bytes, and k that is not contiguous, in every type and order.
#[test]
fn what_tma_cannot_read_is_copied_first() -> Outcome {
    fn check<T: MultipliesWith<T>>(
        device: &Device,
        shapes: &[(u32, u32, u32)],
        input: impl Fn(f32) -> T,
    ) -> Outcome {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        for &(m, n, k) in shapes {
            for (a, b) in orders() {
                let problem = Problem { m, n, k, a, b };
                let mut case = Case::<T, f32>::new(device, problem, &input, f32::NAN)?;
                case.check(&operations, &stream, warpgroups::<T, f32>(device, problem), |found| found)?;
            }
        }
        Ok(())
    }
    fn check_types(device: &Device, shapes: &[(u32, u32, u32)]) -> Outcome {
        check(device, shapes, bf16::from_f32)?;
        check(device, shapes, f16::from_f32)?;
        check(device, shapes, tf32)?;
        check(device, shapes, e4m3::from_f32)?;
        check(device, shapes, e5m2::from_f32)
    }
    check_types(&hopper(Schedule::Eager)?, &[(1, 1, 1), (127, 129, 131), (3, 2, 600)])?;
    check_types(&hopper(Schedule::Latest)?, &[(33, 65, 17), (2, 130, 70)])?;
    check_types(&hopper(Schedule::Random(5))?.checked()?, &[(65, 33, 18), (1, 9, 5)])?;
    check_types(&blackwell(Schedule::Random(6))?.checked()?, &[(33, 65, 17)])
}

#[test]
fn copies_are_made_where_they_pay() -> Outcome {
    let device = hopper(Schedule::Eager)?;
    let is_copied =
        |problem| matches!(all_algorithms::<bf16, bf16>(&device, problem)[0], Algorithm::Wgmma(_));
    assert!(is_copied(Problem::new(4096, 4096, 4097)));
    assert!(is_copied(Problem { a: MatrixLayout::ColumnMajor, ..Problem::new(8191, 8192, 8192) }));
    assert!(!is_copied(Problem::new(131, 67, 37)));
    // mma.sync has no 8-bit floats here.
    assert!(matches!(all_algorithms::<e4m3, bf16>(&device, Problem::new(3, 3, 3))[0], Algorithm::Wgmma(_)));
    Ok(())
}

#[test]
fn epilogues_follow_copied_operands() -> Outcome {
    let device = hopper(Schedule::Latest)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let problem = Problem { a: MatrixLayout::ColumnMajor, ..Problem::new(37, 51, 29) };
    let bias = whole(51, 5);
    let biases = device.buffer_from(&bias)?;
    let mut case = Case::<e5m2, f32>::new(&device, problem, e5m2::from_f32, 2.0)?;
    let linear = Linear { beta: 3.0, bias: Some(&biases), ..Linear::default() };
    operations.gemm(&stream, &Gemm::from(problem).epilogue(linear), &case.a, &case.b, &mut case.c)?;
    for (index, (found, sum)) in case.c.to_vec()?.into_iter().zip(&case.expected).enumerate() {
        assert_eq!(found, sum + bias[index % 51] + 6.0, "element {index}");
    }
    Ok(())
}

/// What an epilogue makes of a sum, on the host.
fn activated(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => x / 2.0 * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

#[test]
fn epilogues_are_right_in_every_part() -> Outcome {
    let activations = [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Silu];
    for name in ["emu:a100", "emu:h200", "emu:b200"] {
        let device = Device::named(name)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        // A C of 16-byte rows, one of others, and one that is computed transposed.
        for (m, n, k) in [(136, 72, 64), (130, 67, 64), (3, 264, 128)] {
            let problem = Problem::new(m, n, k);
            let rows = whole(m as usize, 3);
            let (columns, bias) = (whole(n as usize, 4), whole(n as usize, 5));
            let there = |values: &[f32]| device.buffer_from(values);
            let (row_scales, column_scales, biases) = (there(&rows)?, there(&columns)?, there(&bias)?);
            for (index, activation) in activations.into_iter().enumerate() {
                // Parts come and go with the activations.
                let (scales, biased) = (index % 2 == 0, index < 2);
                let linear = Linear {
                    alpha: 0.125,
                    beta: if index == 3 { 0.0 } else { 0.5 },
                    row_scales: scales.then_some(&row_scales),
                    column_scales: scales.then_some(&column_scales),
                    bias: biased.then_some(&biases),
                    activation,
                };
                let mut case = Case::<bf16, f32>::new(&device, problem, bf16::from_f32, 3.0)?;
                operations.gemm(
                    &stream,
                    &Gemm::from(problem).epilogue(linear),
                    &case.a,
                    &case.b,
                    &mut case.c,
                )?;
                for (index, (found, sum)) in case.c.to_vec()?.into_iter().zip(&case.expected).enumerate() {
                    let (row, column) = (index / n as usize, index % n as usize);
                    let scale = if scales { rows[row] * columns[column] } else { 1.0 };
                    let inner = 0.125 * scale * sum + if biased { bias[column] } else { 0.0 };
                    let expected = activated(activation, inner) + 3.0 * linear.beta;
                    // tanh.approx is off by 2^-11 at most (PTX ISA, "tanh"), which multiplies half
                    // of the accumulator.
                    let tolerance = if index < 2 { 1e-6 } else { inner.abs() / 2048.0 + 1e-6 };
                    assert!(
                        (found - expected).abs() <= tolerance,
                        "{activation:?} on {name}: {found} at ({row}, {column}), not {expected}"
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn refusals_name_the_rule() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let bytes = device.buffer_from(&[e4m3::from_f32(1.0); 64])?;
    let mut c = device.buffer_from(&[0f32; 64])?;
    let refused =
        |outcome: Result<_, OperationError>| outcome.map(|_| ()).expect_err("it is refused").to_string();
    let ampere = Device::named("emu:a100")?;
    let ones = ampere.buffer_from(&[e4m3::from_f32(1.0); 64])?;
    let mut nowhere = ampere.uninitialized::<f32>(64)?;
    let (problem, elsewhere) = (Problem::new(8, 8, 8), Operations::new(&ampere));
    let words = refused(elsewhere.gemm(&ampere.stream()?, &Gemm::from(problem), &ones, &ones, &mut nowhere));
    assert!(words.contains("e4m3 operands need wgmma (sm_90a)"), "{words}");
    let words =
        refused(operations.gemm(&stream, &Gemm::from(Problem::new(8, 8, 16)), &bytes, &bytes, &mut c));
    assert!(words.contains("A: expected a length of 128, found 64"), "{words}");
    let linear = Linear { bias: Some(&c.device().buffer_from(&[1f32; 3])?), ..Linear::default() };
    let halves = device.buffer_from(&[f16::from_f32(1.0); 64])?;
    let words = refused(operations.gemm(
        &stream,
        &Gemm::from(Problem::new(8, 8, 8)).epilogue(linear),
        &halves,
        &halves,
        &mut c,
    ));
    assert!(words.contains("the bias: expected a length of 8, found 3"), "{words}");
    Ok(())
}

#[test]
fn nothing_to_multiply_leaves_zeros_or_nothing() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let none = device.uninitialized::<bf16>(0)?;
    let mut c = device.buffer_from(&[7f32; 64])?;
    operations.gemm(&stream, &Gemm::from(Problem::new(8, 8, 0)), &none, &none, &mut c)?;
    assert_eq!(c.to_vec()?, [0.0; 64]);
    let mut empty = device.uninitialized::<f32>(0)?;
    let b = device.buffer_from(&[bf16::ONE; 64])?;
    operations.gemm(&stream, &Gemm::from(Problem::new(0, 8, 8)), &none, &b, &mut empty)?;
    Ok(())
}

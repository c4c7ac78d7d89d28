//! Groups of products of different extents in one launch: every algorithm of the heuristic, members
//! of nothing, and what is refused.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Schedule, Storable, Stream};
use warpwright_kernels::gemm::GroupMember;
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::Problem;
use warpwright_kernels::gemm::problem::types::{GemmOutput, MatrixLayout, MultipliesWith};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

use crate::emulated::hopper;
use crate::matrices::whole;
use crate::products::{compare, multiplied, sent};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A problem's matrices on the host and on a device.
struct Case<T, C> {
    problem: Problem,
    expected: Vec<f32>,
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<C>,
}

impl<T: MultipliesWith<T>, C: GemmOutput + Storable> Case<T, C> {
    fn new(
        device: &Device,
        problem: Problem,
        input: impl Fn(f32) -> T,
        before: C,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let [m, n, k] = [problem.m, problem.n, problem.k].map(|extent| extent as usize);
        let (a, b) = (whole(m * k, u64::from(problem.m)), whole(k * n, u64::from(problem.n) + 100));
        let expected = multiplied(problem, &a, &b);
        let (a, b) = (sent(device, &a, &input)?, sent(device, &b, &input)?);
        let c = device.buffer_from(&vec![before; m * n])?;
        Ok(Self { problem, expected, a, b, c })
    }
}

fn members<T, C>(cases: &mut [Case<T, C>]) -> Vec<GroupMember<'_, &Buffer<T>, &Buffer<T>, C>> {
    let member = |case| {
        let Case { problem, a, b, c, .. }: &mut Case<T, C> = case;
        GroupMember::new(*problem, &*a, &*b, c)
    };
    cases.iter_mut().map(member).collect()
}

/// The algorithms for a group.
fn algorithms<T: MultipliesWith<T>, C: GemmOutput>(
    operations: &Operations,
    cases: &[Case<T, C>],
) -> Vec<Algorithm> {
    let problems: Vec<_> = cases.iter().map(|case| case.problem).collect();
    operations.grouped_algorithms::<T, C>(&problems, None)
}

/// Multiplies by an algorithm, twice, and compares.
fn check<T: MultipliesWith<T>, C: GemmOutput + Storable>(
    cases: &mut [Case<T, C>],
    (operations, stream): (&Operations, &Stream),
    algorithm: Algorithm,
    of: impl Fn(C) -> f32,
) -> Outcome {
    for _ in 0..2 {
        let mut group = members(cases);
        group.iter_mut().for_each(|member| member.gemm = member.gemm.algorithm(algorithm));
        operations.gemm_grouped(stream, &mut group)?;
    }
    for (number, case) in cases.iter().enumerate() {
        let what = format!("member {number}, {:?}, by {algorithm:?}", case.problem);
        compare(&case.c, &of, &case.expected, &what)?;
    }
    Ok(())
}

/// Members with nothing in common: many rows, many columns, one row, no rows, no depth.
const EXTENTS: [(u32, u32, u32); 6] =
    [(136, 72, 72), (0, 72, 72), (1, 264, 264), (72, 8, 8), (24, 16, 0), (8, 200, 136)];

#[test]
fn every_algorithm_is_right() -> Outcome {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(7)] {
        let device = hopper(schedule)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let rounded = |value: f32| bf16::from_f32(value);
        let mut cases = Vec::new();
        for (m, n, k) in EXTENTS {
            let mut case = Case::<bf16, bf16>::new(&device, Problem::new(m, n, k), rounded, bf16::NAN)?;
            // Sums of whole numbers are whole, and those above 256 are rounded once.
            case.expected.iter_mut().for_each(|sum| *sum = rounded(*sum).to_f32());
            cases.push(case);
        }
        let algorithms = algorithms(&operations, &cases);
        assert!(algorithms.len() > 8, "{} algorithms", algorithms.len());
        for algorithm in one_in(29, algorithms) {
            check(&mut cases, (&operations, &stream), algorithm, bf16::to_f32)?;
        }
    }
    Ok(())
}

#[test]
fn every_algorithm_is_clean_under_the_checkers() -> Outcome {
    let device = hopper(Schedule::Random(3))?.checked()?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let mut cases = Vec::new();
    for (m, n, k) in EXTENTS {
        cases.push(Case::<f16, f32>::new(&device, Problem::new(m, n, k), f16::from_f32, f32::NAN)?);
    }
    for algorithm in one_in(19, algorithms(&operations, &cases)) {
        check(&mut cases, (&operations, &stream), algorithm, |found| found)?;
    }
    let mut cases = Vec::new();
    for (m, n, k) in EXTENTS {
        cases.push(Case::<f16, f16>::new(&device, Problem::new(m, n, k), f16::from_f32, f16::NAN)?);
    }
    for algorithm in one_in(41, algorithms(&operations, &cases)) {
        check(&mut cases, (&operations, &stream), algorithm, f16::to_f32)?;
    }
    Ok(())
}

#[test]
fn both_generations_and_rows_that_tma_cannot_read_are_right() -> Outcome {
    for name in ["emu:a100", "emu:h200"] {
        let device = Device::named(name)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        for (n, k) in [(40, 72), (35, 37)] {
            let mut cases = Vec::new();
            for m in [70, 1] {
                let problem = Problem { b: MatrixLayout::RowMajor, ..Problem::new(m, n, k) };
                cases.push(Case::<f16, f32>::new(&device, problem, f16::from_f32, f32::NAN)?);
            }
            let algorithm = algorithms(&operations, &cases)[0];
            check(&mut cases, (&operations, &stream), algorithm, |found| found)?;
        }
    }
    Ok(())
}

#[test]
fn more_members_than_a_launch_takes_are_several() -> Outcome {
    let device = hopper(Schedule::Eager)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let mut cases = Vec::new();
    for number in 0..515 {
        let problem = Problem::new(1 + number % 3, 8, 8);
        cases.push(Case::<bf16, f32>::new(&device, problem, bf16::from_f32, f32::NAN)?);
    }
    let algorithm = algorithms(&operations, &cases)[0];
    check(&mut cases, (&operations, &stream), algorithm, |found| found)
}

#[test]
fn refusals_name_the_rule() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let mut cases = vec![Case::<f16, f32>::new(&device, Problem::new(8, 16, 8), f16::from_f32, 0.0)?];
    let refused =
        |outcome: Result<_, OperationError>| outcome.map(|_| ()).expect_err("it is refused").to_string();
    cases[0].problem.m = 9;
    let words = refused(operations.gemm_grouped(&stream, &mut members(&mut cases)));
    assert!(words.contains("A: expected a length of 72, found 64"), "{words}");
    operations.gemm_grouped::<&Buffer<f16>, &Buffer<f16>, f32>(&stream, &mut [])?;
    let bias = device.buffer_from(&[1f32; 15])?;
    let mut cases = vec![Case::<f16, f32>::new(&device, Problem::new(8, 16, 8), f16::from_f32, 0.0)?];
    let mut biased: Vec<_> = members(&mut cases)
        .into_iter()
        .map(|member| GroupMember { gemm: member.gemm.bias(&bias), ..member })
        .collect();
    let words = refused(operations.gemm_grouped(&stream, &mut biased));
    assert!(words.contains("the bias: expected a length of 16, found 15"), "{words}");
    Ok(())
}

/// Members that differ in order, or in the parts of their epilogues, share no launch and are right;
/// those that differ in an epilogue's numbers alone share one.
#[test]
fn members_of_several_kinds_are_several_launches() -> Outcome {
    for schedule in [Schedule::Latest, Schedule::Random(2)] {
        let device = hopper(schedule)?.checked()?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let mut cases = Vec::new();
        for (number, problem) in
            [(40, 72, 72), (8, 136, 24), (70, 8, 8), (24, 24, 33)].into_iter().enumerate()
        {
            let (m, n, k) = problem;
            let b = [MatrixLayout::ColumnMajor, MatrixLayout::RowMajor][number % 2];
            let problem = Problem { b, ..Problem::new(m, n, k) };
            cases.push(Case::<e4m3, f32>::new(&device, problem, e4m3::from_f32, 2.0)?);
        }
        let alpha = |number: usize| [1.0, 0.5, 0.25, 1.0][number];
        let mut group = members(&mut cases);
        for (number, member) in group.iter_mut().enumerate() {
            member.gemm = member.gemm.alpha(alpha(number)).beta(number as f32);
        }
        operations.gemm_grouped(&stream, &mut group)?;
        for (number, case) in cases.iter().enumerate() {
            let expected = case.expected.iter().map(|sum| alpha(number) * sum + 2.0 * number as f32);
            assert_eq!(case.c.to_vec()?, expected.collect::<Vec<_>>(), "member {number}");
        }
    }
    Ok(())
}

#[test]
fn the_example_runs() -> Outcome {
    crate::gemm_example::main()
}

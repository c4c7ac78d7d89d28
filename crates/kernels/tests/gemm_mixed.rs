//! 8-bit floats of one type times those of the other: every algorithm of a problem, and every form
//! of several.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule};
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::gemm::problem::types::{MatrixLayout, MultipliesWith};
use warpwright_kernels::gemm::{Gemm, GroupMember};
use warpwright_kernels::operations::Operations;

use crate::emulated::hopper;
use crate::matrices::whole;
use crate::products::{Case, all_algorithms, compare, multiplied, sent};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Both types' conversions.
const E4M3: fn(f32) -> e4m3 = e4m3::from_f32;
const E5M2: fn(f32) -> e5m2 = e5m2::from_f32;

/// Products of one shape, of whole numbers that both types hold.
fn case_of<A: MultipliesWith<B>, B: MultipliesWith<A>>(
    device: &Device,
    problem: Problem,
    count: u32,
    (a_input, b_input): (impl Fn(f32) -> A, impl Fn(f32) -> B),
) -> Result<Case<Batch, A, B, f32>, Box<dyn std::error::Error>> {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|extent| extent as usize);
    let (a, b) = (whole(count as usize * m * k, 1), whole(count as usize * k * n, 2));
    let parts = a.chunks(m * k).zip(b.chunks(k * n));
    let expected: Vec<f32> = parts.flat_map(|(a, b)| multiplied(problem, a, b)).collect();
    let (a, b) = (sent(device, &a, a_input)?, sent(device, &b, b_input)?);
    let c = device.buffer_from(&vec![f32::NAN; expected.len()])?;
    Ok(Case { of: Batch::new(problem, count), expected, a, b, c })
}

fn warpgroups<T: MultipliesWith<T>>(device: &Device, batch: Batch) -> Vec<Algorithm> {
    let all = all_algorithms::<T, f32>(device, batch);
    all.into_iter().filter(|algorithm| matches!(algorithm, Algorithm::Wgmma(_))).collect()
}

#[test]
fn every_algorithm_is_right_in_both_orders_of_types() -> Outcome {
    fn check<A: MultipliesWith<B> + MultipliesWith<A>, B: MultipliesWith<A>>(
        schedule: Schedule,
        (problem, count): (Problem, u32),
        inputs: (impl Fn(f32) -> A, impl Fn(f32) -> B),
    ) -> Outcome {
        let device = hopper(schedule)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let mut case = case_of(&device, problem, count, inputs)?;
        for algorithm in warpgroups::<A>(&device, case.of).into_iter().step_by(11) {
            case.check(&operations, &stream, algorithm, |found| found)?;
        }
        Ok(())
    }
    check(Schedule::Eager, (Problem::new(72, 136, 144), 1), (E4M3, E5M2))?;
    check(Schedule::Latest, (Problem::new(5, 136, 272), 1), (E5M2, E4M3))?;
    check(Schedule::Random(7), (Problem::new(3, 136, 80), 3), (E4M3, E5M2))?;
    check(Schedule::Random(8), (Problem::new(70, 72, 80), 2), (E5M2, E4M3))
}

/// Orders and extents that TMA cannot read, under the checkers: A's copy and B's have types of
/// their own.
#[test]
fn every_order_is_right() -> Outcome {
    let device = hopper(Schedule::Random(9))?.checked()?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let both = [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor];
    for (a, b) in both.into_iter().flat_map(|a| both.map(|b| (a, b))) {
        for (m, n, k) in [(67, 35, 37), (3, 72, 48)] {
            let mut case = case_of(&device, Problem { m, n, k, a, b }, 1, (E4M3, E5M2))?;
            let algorithm = warpgroups::<e4m3>(&device, case.of)[0];
            case.check(&operations, &stream, algorithm, |found| found)?;
            operations.gemm(&stream, &Gemm::from(case.of.problem), &case.a, &case.b, &mut case.c)?;
            compare(&case.c, |found| found, &case.expected, "multiply")?;
        }
    }
    Ok(())
}

#[test]
fn batches_groups_along_m_and_groups_take_both() -> Outcome {
    let device = hopper(Schedule::Random(5))?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    // Many rows, and so few that C is computed transposed.
    for rows in [130u32, 4] {
        let (problem, n) = (Problem::new(rows, 72, 80), 72);
        let mut case = case_of(&device, problem, 1, (E5M2, E4M3))?;
        let bias = whole(n, 4);
        let there_bias = device.buffer_from(&bias)?;
        let linear = Linear { bias: Some(&there_bias), activation: Activation::Relu, ..Linear::default() };
        operations.gemm(&stream, &Gemm::from(problem).epilogue(linear), &case.a, &case.b, &mut case.c)?;
        let with_bias = |(index, sum): (usize, &f32)| (sum + bias[index % n]).max(0.0);
        let expected: Vec<f32> = case.expected.iter().enumerate().map(with_bias).collect();
        compare(&case.c, |found| found, &expected, "linear")?;

        // All rows are one group's, the others have none.
        let offsets = device.buffer_from(&[0, 0, rows])?;
        let weights = [vec![9.0; n * 80], whole(n * 80, 2)].concat();
        let b = sent(&device, &weights, E4M3)?;
        operations.gemm(&stream, &Gemm::new(rows, 72, 80).along_m(&offsets), &case.a, &b, &mut case.c)?;
        compare(&case.c, |found| found, &case.expected, "experts")?;

        let mut other = case_of(&device, Problem::new(rows / 2, 40, 144), 1, (E5M2, E4M3))?;
        let mut members = [
            GroupMember::new(case.of.problem, &case.a, &case.b, &mut case.c),
            GroupMember::new(other.of.problem, &other.a, &other.b, &mut other.c),
        ];
        operations.gemm_grouped(&stream, &mut members)?;
        compare(&case.c, |found| found, &case.expected, "a group's first member")?;
        compare(&other.c, |found| found, &other.expected, "a group's second member")?;
    }
    Ok(())
}

#[test]
fn gpus_without_wgmma_refuse_them() -> Outcome {
    let device = Device::named("emu:a100")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (a, b) = (device.zeros::<e4m3>(64)?, device.zeros::<e5m2>(64)?);
    let mut c = device.zeros::<f32>(64)?;
    let outcome = operations.gemm(&stream, &Gemm::from(Problem::new(8, 8, 8)), &a, &b, &mut c);
    let words = outcome.map(|_| ()).expect_err("no wgmma there").to_string();
    assert!(words.contains("e4m3 x e5m2 operands need wgmma (sm_90a)"), "{words}");
    Ok(())
}

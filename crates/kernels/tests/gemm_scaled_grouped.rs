//! Groups of products of unlike extents whose blocks have scales: every algorithm, granularity,
//! type and schedule against the products of what the operands stand for, members of nothing,
//! members of several kinds, epilogues, and what is refused.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule, Storable, Stream};
use warpwright_kernels::gemm::host::config::{Algorithm, Configuration};
use warpwright_kernels::gemm::problem::batching::Problem;
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::gemm::problem::scales::Granularity::{Block, Row};
use warpwright_kernels::gemm::problem::scales::Scaled;
use warpwright_kernels::gemm::problem::types::{BlockwiseOperand, GemmOutput, MatrixLayout, MultipliesWith};
use warpwright_kernels::gemm::{Gemm, GroupMember};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

use crate::emulated::{blackwell, geforce, hopper};
use crate::matrices::whole;
use crate::operands::{E4M3, GRANULARITIES};
use crate::products::expect_equal;
use crate::scaled_product::Case;

type Outcome = Result<(), Box<dyn std::error::Error>>;

type Member<'a, A, B, C> = GroupMember<'a, Scaled<'a, A>, Scaled<'a, B>, C>;

/// What C holds before.
const BEFORE: f64 = 77.0;

/// Members with nothing in common: many rows, no rows, one row, no depth, few columns, odd extents
/// that nothing divides, one element.
const EXTENTS: [(u32, u32, u32); 7] =
    [(136, 72, 144), (0, 72, 72), (1, 264, 528), (24, 16, 0), (72, 8, 16), (131, 200, 272), (1, 1, 16)];

impl<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
> Case<A, B, C>
{
    /// What is expected, rounded to C's type.
    fn rounded(mut self, round: impl Fn(f32) -> C) -> Self
    where
        f64: From<C>,
    {
        self.expected.iter_mut().for_each(|sum| *sum = f64::from(round(*sum as f32)));
        self
    }

    fn member(&mut self) -> Member<'_, A, B, C> {
        GroupMember::new(self.problem, self.a.scaled(), self.b.scaled(), &mut self.c)
    }
}

fn members<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
>(
    cases: &mut [Case<A, B, C>],
) -> Vec<Member<'_, A, B, C>> {
    cases.iter_mut().map(Case::member).collect()
}

/// The members, by an algorithm.
fn members_by<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
>(
    cases: &mut [Case<A, B, C>],
    algorithm: Algorithm,
) -> Vec<Member<'_, A, B, C>> {
    let mut members = members(cases);
    members.iter_mut().for_each(|member| member.gemm = member.gemm.algorithm(algorithm));
    members
}

/// The algorithms for them, as if all had the granularities of the first.
fn algorithms<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
>(
    cases: &[Case<A, B, C>],
    operations: &Operations,
) -> Vec<Algorithm> {
    let problems: Vec<Problem> = cases.iter().map(|case| case.problem).collect();
    operations.grouped_algorithms::<A, C>(&problems, Some(cases[0].granularities()))
}

/// The configuration of an algorithm by `wgmma`.
fn configuration(algorithm: Algorithm) -> Configuration {
    algorithm.configuration().expect("mma.sync has no blockwise scales")
}

/// Computes it by an algorithm twice, and compares.
fn check<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
>(
    cases: &mut [Case<A, B, C>],
    (operations, stream): (&Operations, &Stream),
    algorithm: Algorithm,
) -> Outcome
where
    f64: From<C>,
{
    for _ in 0..2 {
        operations.gemm_grouped(stream, &mut members_by(cases, algorithm))?;
    }
    for (number, case) in cases.iter().enumerate() {
        let found = case.c.to_vec()?.into_iter().map(f64::from).collect();
        let what = format!("member {number}, {:?} {:?}, by {algorithm}", case.problem, case.granularities());
        expect_equal(found, &case.expected, &what);
    }
    Ok(())
}

#[test]
fn every_algorithm_is_right() -> Outcome {
    for (turn, schedule) in
        [Schedule::Eager, Schedule::Latest, Schedule::Random(7), Schedule::Random(8)].into_iter().enumerate()
    {
        let device = hopper(schedule)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        for (offset, granularities) in GRANULARITIES.into_iter().enumerate() {
            let mut cases = Vec::new();
            for (m, n, k) in EXTENTS {
                let problem = Problem::new(m, n, k);
                let case = Case::exact(&device, problem, granularities, E4M3, bf16::from_f32(77.0))?;
                cases.push(case.rounded(bf16::from_f32));
            }
            let algorithms = algorithms(&cases, &operations);
            assert!(algorithms.len() >= 8, "{} algorithms", algorithms.len());
            // Each algorithm has each granularity at one of the schedules.
            for algorithm in one_in(17, algorithms.into_iter().skip((turn + offset) % 4).step_by(4)) {
                check(&mut cases, (&operations, &stream), algorithm)?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_algorithm_is_clean_under_the_checkers() -> Outcome {
    let schedule = Schedule::Random(3);
    for device in [hopper(schedule)?, blackwell(schedule)?, geforce(schedule)?] {
        let device = device.checked()?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        for granularities in [(Row, Block), (Row, Row)] {
            let (mut stored_by_tma, mut stored_from_registers) = (Vec::new(), Vec::new());
            for (m, n, k) in [(3, 72, 160), (70, 136, 16), (0, 8, 8), (63, 40, 272)] {
                let problem = Problem::new(m, n, k);
                stored_by_tma.push(Case::exact(&device, problem, granularities, E4M3, f32::NAN)?);
                let odd = Problem { n: n + 1, ..problem };
                let case = Case::exact(&device, odd, granularities, E4M3, f16::NAN)?;
                stored_from_registers.push(case.rounded(f16::from_f32));
            }
            for algorithm in one_in(17, algorithms(&stored_by_tma, &operations)) {
                check(&mut stored_by_tma, (&operations, &stream), algorithm)?;
            }
            for algorithm in one_in(23, algorithms(&stored_from_registers, &operations)) {
                check(&mut stored_from_registers, (&operations, &stream), algorithm)?;
            }
        }
    }
    Ok(())
}

/// A and B of each pair of types, depths that TMA cannot read, both orders of both, and C that it
/// cannot store.
#[test]
fn every_type_depth_and_order_is_right() -> Outcome {
    let device = hopper(Schedule::Random(5))?.checked()?;
    let on = (&Operations::new(&device), &device.stream()?);
    let (e4m3, e5m2) = (e4m3::from_f32 as fn(f32) -> e4m3, e5m2::from_f32 as fn(f32) -> e5m2);
    every_depth_and_order(&device, on, (e4m3, e5m2))?;
    every_depth_and_order(&device, on, (e5m2, e4m3))?;
    every_depth_and_order(&device, on, (e5m2, e5m2))
}

fn every_depth_and_order<A: BlockwiseOperand + MultipliesWith<B>, B: BlockwiseOperand + MultipliesWith<A>>(
    device: &Device,
    (operations, stream): (&Operations, &Stream),
    inputs: (impl Fn(f32) -> A, impl Fn(f32) -> B),
) -> Outcome {
    let (rows, columns) = (MatrixLayout::RowMajor, MatrixLayout::ColumnMajor);
    let mut cases = Vec::new();
    for (m, n, k, a, b) in [
        (9, 136, 272, rows, columns),
        (33, 35, 37, rows, columns),
        (130, 48, 130, rows, rows),
        (16, 35, 144, columns, rows),
        (1, 1, 1, columns, columns),
    ] {
        let problem = Problem { a, b, ..Problem::new(m, n, k) };
        let case = Case::exact(device, problem, (Row, Block), (&inputs.0, &inputs.1), f16::NAN)?;
        cases.push(case.rounded(f16::from_f32));
    }
    let algorithms = algorithms(&cases, operations);
    let one = |transposed: bool| {
        algorithms.iter().find(|algorithm| configuration(**algorithm).transposed == transposed)
    };
    for algorithm in [one(false), one(true)].into_iter().flatten() {
        check(&mut cases, (operations, stream), *algorithm)?;
    }
    Ok(())
}

#[test]
fn one_member_is_a_group_and_more_than_a_launch_takes_are_several() -> Outcome {
    let device = hopper(Schedule::Eager)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    for count in [1, 515] {
        let mut cases = Vec::new();
        for number in 0..count {
            let problem = Problem::new(1 + number % 3, 8, 16 + 128 * (number % 2));
            cases.push(Case::exact(&device, problem, (Row, Block), E4M3, f32::NAN)?);
        }
        let algorithm = algorithms(&cases, &operations)[0];
        check(&mut cases, (&operations, &stream), algorithm)?;
    }
    Ok(())
}

/// Members that differ in what has a scale, in orders, or in the parts of their epilogues, are
/// launches of their own in one call.
#[test]
fn members_of_several_kinds_are_several_launches() -> Outcome {
    for schedule in [Schedule::Latest, Schedule::Random(2)] {
        let device = hopper(schedule)?.checked()?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let mut cases = Vec::new();
        let several = GRANULARITIES.into_iter().chain(GRANULARITIES);
        for (number, granularities) in several.enumerate() {
            let number = number as u32;
            let b = [MatrixLayout::ColumnMajor, MatrixLayout::RowMajor][number as usize / 3 % 2];
            let problem = Problem { b, ..Problem::new(40 + 31 * number, 72, 16 + 64 * number) };
            cases.push(Case::exact(&device, problem, granularities, E4M3, BEFORE as f32)?);
        }
        let mut group = members(&mut cases);
        for (number, member) in group.iter_mut().enumerate() {
            member.gemm = member.gemm.beta((number % 2) as f32);
        }
        operations.gemm_grouped(&stream, &mut group)?;
        for (number, case) in cases.iter().enumerate() {
            let before = if number % 2 == 0 { 0.0 } else { BEFORE };
            let expected: Vec<f64> = case.expected.iter().map(|sum| sum + before).collect();
            let found = case.c.to_vec()?.into_iter().map(f64::from).collect();
            expect_equal(found, &expected, &format!("member {number}"));
        }
    }
    Ok(())
}

/// Beside the scales of blocks, the scale of the tensors and those of rows and columns, a bias, an
/// activation and what C held before.
#[test]
fn each_member_has_an_epilogue_of_its_own() -> Outcome {
    let device = hopper(Schedule::Random(6))?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    // Many rows, and so few that C is computed transposed.
    for extents in [[(140, 72, 144), (70, 136, 272)], [(1, 264, 144), (2, 200, 16)]] {
        let (mut cases, mut vectors) = (Vec::new(), Vec::new());
        for (number, (m, n, k)) in extents.into_iter().enumerate() {
            let problem = Problem::new(m, n, k);
            let mut case = Case::exact(&device, problem, (Row, Block), E4M3, BEFORE as f32)?;
            let (rows, columns) = (whole(m as usize, 7), whole(n as usize, 8));
            let (bias, alpha) = (whole(n as usize, 9), [0.5, 2.0][number]);
            case.expected.iter_mut().enumerate().for_each(|(index, sum)| {
                let (row, column) = (index / n as usize, index % n as usize);
                let scaled = alpha * f64::from(rows[row]) * f64::from(columns[column]) * *sum;
                *sum = (scaled + f64::from(bias[column])).max(0.0) + BEFORE / 4.0;
            });
            cases.push(case);
            let there = |values: &[f32]| device.buffer_from(values);
            vectors.push((alpha as f32, [there(&rows)?, there(&columns)?, there(&bias)?]));
        }
        let mut group = members(&mut cases);
        for (member, (alpha, [rows, columns, bias])) in group.iter_mut().zip(&vectors) {
            member.gemm = member.gemm.epilogue(Linear {
                alpha: *alpha,
                beta: 0.25,
                row_scales: Some(rows),
                column_scales: Some(columns),
                bias: Some(bias),
                activation: Activation::Relu,
            });
        }
        operations.gemm_grouped(&stream, &mut group)?;
        for case in &cases {
            let found = case.c.to_vec()?.into_iter().map(f64::from).collect();
            expect_equal(found, &case.expected, "a member with an epilogue");
        }
    }
    Ok(())
}

#[test]
fn refusals_name_the_rule() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let good = || Case::exact(&device, Problem::new(8, 16, 32), (Row, Block), E4M3, BEFORE as f32);
    let mut cases = vec![good()?, good()?];
    let refused = |outcome: Result<_, OperationError>| -> String {
        outcome.map(|_| ()).expect_err("it is refused").to_string()
    };

    let (short, long) = (device.zeros::<f32>(4)?, device.zeros::<f32>(8)?);
    let mut group = members(&mut cases);
    group[1].a.scales.scales = &short;
    let words = refused(operations.gemm_grouped(&stream, &mut group));
    assert_eq!(words, "A's scales: expected a length of 8, found 4");

    let mut group = members(&mut cases);
    group[1].b.scales.scales = &long;
    let words = refused(operations.gemm_grouped(&stream, &mut group));
    assert_eq!(words, "B's scales: expected a length of 4, found 8");

    let mut group = members(&mut cases);
    group[1].b.scales.granularity = Row;
    let words = refused(operations.gemm_grouped(&stream, &mut group));
    assert_eq!(words, "B's scales: expected a length of 16, found 4");

    let mut group = members(&mut cases);
    group[1].gemm = Gemm::new(9, 16, 32);
    let words = refused(operations.gemm_grouped(&stream, &mut group));
    assert_eq!(words, "A: expected a length of 288, found 256");

    let mut group = members(&mut cases);
    group[1].gemm = group[1].gemm.bias(&long);
    let words = refused(operations.gemm_grouped(&stream, &mut group));
    assert_eq!(words, "the bias: expected a length of 16, found 8");

    let nothing = (device.uninitialized::<e4m3>(0)?, device.uninitialized::<f32>(0)?);
    let shallow = Scaled::by_row(&nothing.0, &nothing.1);
    let mut c = device.buffer_from(&[BEFORE as f32; 4])?;
    let member = GroupMember::new(Gemm::new(2, 2, 0).alpha(2.0), shallow, shallow, &mut c);
    let mut group = members(&mut cases);
    group.push(member);
    let words = refused(operations.gemm_grouped(&stream, &mut group));
    assert_eq!(words, "k is 0, so the epilogue has no accumulators: pass k of at least 1");

    let split = Configuration { stream_k: true, ..configuration(algorithms(&cases, &operations)[0]) };
    let split = Algorithm::Wgmma(split);
    let words = refused(operations.gemm_grouped(&stream, &mut members_by(&mut cases, split)));
    assert!(
        words.ends_with("tiles of a group are not split: use a configuration without stream-K and split-K"),
        "{words}"
    );

    // Nothing was launched for the members that are as they should be.
    for case in &cases {
        assert!(case.c.to_vec()?.iter().all(|&element| f64::from(element) == BEFORE));
    }

    let ampere = Device::named("emu:a100")?;
    let (operations, stream) = (Operations::new(&ampere), ampere.stream()?);
    let mut cases = vec![Case::exact(&ampere, Problem::new(8, 16, 32), (Row, Block), E4M3, 0f32)?];
    let words = refused(operations.gemm_grouped(&stream, &mut members(&mut cases)));
    assert_eq!(
        words,
        "blockwise scales need the 8-bit floats of sm_89 and later, and the device is sm_80: scale the operands before the GEMM"
    );
    Ok(())
}

/// Six stages of tiles of 128 x 128 hold 128x128 scales, but not 1x128 scales.
#[test]
fn an_algorithm_that_is_illegal_for_a_member_is_refused_before_any_launch() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let case =
        |granularities| Case::exact(&device, Problem::new(136, 264, 640), granularities, E4M3, BEFORE as f32);
    let mut cases = vec![case((Block, Block))?, case((Row, Row))?];
    let algorithms = algorithms(&cases, &operations);
    let algorithm = algorithms.into_iter().map(configuration).find(|algorithm| algorithm.tile == (128, 128));
    let algorithm = Algorithm::Wgmma(Configuration { stages: 6, ..algorithm.expect("a tile of the list") });
    let words = operations
        .gemm_grouped(&stream, &mut members_by(&mut cases, algorithm))
        .expect_err("it is refused")
        .to_string();
    assert!(words.contains("the pipeline has 6 stages, but needs 2 and shared memory holds 5"), "{words}");
    for case in &cases {
        assert!(case.c.to_vec()?.iter().all(|&element| f64::from(element) == BEFORE));
    }
    check(&mut cases[..1], (&operations, &stream), algorithm)
}

#[test]
fn nothing_to_multiply_leaves_zeros_or_nothing() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    operations.gemm_grouped::<Scaled<'_, e4m3>, Scaled<'_, e4m3>, f32>(&stream, &mut [])?;
    let mut cases = Vec::new();
    for (m, n, k) in [(8, 8, 0), (0, 8, 128), (8, 0, 128), (0, 0, 0)] {
        cases.push(Case::exact(&device, Problem::new(m, n, k), (Row, Block), E4M3, f32::NAN)?);
    }
    assert_eq!(algorithms(&cases, &operations), []);
    operations.gemm_grouped(&stream, &mut members(&mut cases))?;
    assert_eq!(cases[0].c.to_vec()?, [0.0; 64]);
    Ok(())
}

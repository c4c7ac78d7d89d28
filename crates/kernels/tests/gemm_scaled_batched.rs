//! Batches and groups of rows whose blocks have scales: every algorithm, granularity, type and
//! schedule against the products of what the operands stand for, groups of no rows, groups that
//! begin anywhere, epilogues, and what is refused.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Schedule, Storable, Stream};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::gemm::problem::scales::Granularity::{Block, Row};
use warpwright_kernels::gemm::problem::scales::{Granularities, Scaled};
use warpwright_kernels::gemm::problem::types::{BlockwiseOperand, GemmOutput, MatrixLayout, MultipliesWith};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

use crate::emulated::{blackwell, geforce, hopper};
use crate::matrices::whole;
use crate::operands::{DeviceOperand, E4M3, GRANULARITIES, Operand, products};
use crate::products::expect_equal;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// What C holds before, and between the products of a batch.
const BEFORE: f64 = 77.0;

/// A batch on a device, and what its Cs should be.
struct Batched<A, B, C> {
    batch: Batch,
    expected: Vec<f64>,
    a: DeviceOperand<A>,
    b: DeviceOperand<B>,
    c: Buffer<C>,
}

impl<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
> Batched<A, B, C>
{
    fn new(
        device: &Device,
        batch: Batch,
        granularities: Granularities,
        (a_input, b_input): (impl Fn(f32) -> A, impl Fn(f32) -> B),
        before: C,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let Batch { problem: Problem { m, n, k, a, b }, count, a_stride, b_stride, c_stride } = batch;
        let operands = |granularity, rows: u32, stride: u64, seed: u64| -> Vec<Operand> {
            let different = if stride == 0 { 1 } else { u64::from(count) };
            (0..different).map(|number| Operand::exact(granularity, (rows, k), seed + 10 * number)).collect()
        };
        let a_operands = operands(granularities.0, m, a_stride, 3);
        let b_operands = operands(granularities.1, n, b_stride, 5);
        let mut expected = Vec::new();
        for number in 0..count as usize {
            expected.resize(number * c_stride as usize, BEFORE);
            let (a, b) = (&a_operands[number % a_operands.len()], &b_operands[number % b_operands.len()]);
            expected.extend(products(&a.meant, &b.meant, k));
        }
        let a_lies = (k, a == MatrixLayout::RowMajor, a_stride as usize);
        let b_lies = (k, b == MatrixLayout::ColumnMajor, b_stride as usize);
        Ok(Self {
            batch,
            a: DeviceOperand::new(device, &a_operands, a_lies, a_input)?,
            b: DeviceOperand::new(device, &b_operands, b_lies, b_input)?,
            c: device.buffer_from(&vec![before; expected.len()])?,
            expected,
        })
    }

    fn algorithms(&self, device: &Device) -> Vec<Algorithm> {
        let scales = Some((self.a.granularity, self.b.granularity));
        Operations::new(device).gemm_algorithms::<A, C>(&Gemm::from(self.batch), scales)
    }

    /// Multiplies, twice, so that what the first left in the workspace is met by the second; and
    /// compares.
    fn check(
        &mut self,
        device: &Device,
        operations: &Operations,
        algorithm: Algorithm,
        of: impl Fn(C) -> f64,
    ) -> Outcome {
        let stream = device.stream()?;
        let Self { batch, a, b, c, .. } = self;
        for _ in 0..2 {
            operations.gemm(&stream, &Gemm::from(*batch).algorithm(algorithm), a.scaled(), b.scaled(), c)?;
        }
        let found = self.c.to_vec()?.into_iter().map(of).collect();
        expect_equal(found, &self.expected, &format!("{:?} by {algorithm}", self.batch));
        Ok(())
    }
}

/// Groups of rows on a device, and what C should be.
struct Groups<A, B, C> {
    offsets: Buffer<u32>,
    n: u32,
    k: u32,
    b_order: MatrixLayout,
    expected: Vec<f64>,
    a: DeviceOperand<A>,
    b: DeviceOperand<B>,
    c: Buffer<C>,
}

impl<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
> Groups<A, B, C>
{
    fn new(
        device: &Device,
        sizes: &[u32],
        (n, k, b_order): (u32, u32, MatrixLayout),
        granularities: Granularities,
        (a_input, b_input): (impl Fn(f32) -> A, impl Fn(f32) -> B),
        before: C,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let a = [Operand::exact(granularities.0, (sizes.iter().sum(), k), 3)];
        let b: Vec<_> = (0..sizes.len() as u64)
            .map(|group| Operand::exact(granularities.1, (n, k), 5 + 10 * group))
            .collect();
        let mut left = &a[0].meant[..];
        let mut expected = Vec::new();
        for (&size, b) in sizes.iter().zip(&b) {
            let (rows, others) = left.split_at((size * k) as usize);
            expected.extend(products(rows, &b.meant, k));
            left = others;
        }
        let ends = sizes.iter().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        let offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let b_lies = (k, b_order == MatrixLayout::ColumnMajor, (n * k) as usize);
        Ok(Self {
            offsets: device.buffer_from(&offsets)?,
            n,
            k,
            b_order,
            a: DeviceOperand::new(device, &a, (k, true, 0), a_input)?,
            b: DeviceOperand::new(device, &b, b_lies, b_input)?,
            c: device.buffer_from(&vec![before; expected.len()])?,
            expected,
        })
    }

    fn gemm(&self) -> Gemm<'_> {
        Gemm::new(self.a.values.len() as u32 / self.k, self.n, self.k)
            .layouts(MatrixLayout::RowMajor, self.b_order)
            .along_m(&self.offsets)
    }

    fn algorithms(&self, operations: &Operations) -> Vec<Algorithm> {
        let granularities = (self.a.granularity, self.b.granularity);
        operations.gemm_algorithms::<A, C>(&self.gemm(), Some(granularities))
    }

    /// Computes it by an algorithm twice, and compares.
    fn check(
        &mut self,
        operations: &Operations,
        stream: &Stream,
        algorithm: Algorithm,
        of: impl Fn(C) -> f64,
    ) -> Outcome {
        let Self { offsets, n, k, b_order, a, b, c, .. } = self;
        let rows = a.values.len() as u32 / *k;
        let groups = Gemm::new(rows, *n, *k).layouts(MatrixLayout::RowMajor, *b_order).along_m(offsets);
        for _ in 0..2 {
            operations.gemm(stream, &groups.algorithm(algorithm), a.scaled(), b.scaled(), c)?;
        }
        let found = self.c.to_vec()?.into_iter().map(of).collect();
        expect_equal(
            found,
            &self.expected,
            &format!("{:?} by {algorithm}", (self.a.granularity, self.b.granularity)),
        );
        Ok(())
    }
}

const WEIGHTS: MatrixLayout = MatrixLayout::ColumnMajor;

/// The first algorithm of each kind.
fn plain_and_transposed(algorithms: Vec<Algorithm>) -> impl Iterator<Item = Algorithm> {
    let first = move |transposed| {
        algorithms.iter().find(|algorithm| matches!(algorithm, Algorithm::Wgmma(configuration) if configuration.transposed == transposed)).copied()
    };
    [false, true].into_iter().filter_map(first)
}

/// With gaps that TMA can step over.
fn with_gaps(batch: Batch) -> Batch {
    let Batch { a_stride, b_stride, c_stride, .. } = batch;
    Batch { a_stride: a_stride + 16, b_stride: b_stride + 32, c_stride: c_stride + 24, ..batch }
}

#[test]
fn every_algorithm_of_a_batch_is_right() -> Outcome {
    for (turn, (schedule, batch)) in [
        (Schedule::Eager, Batch::new(Problem::new(70, 136, 272), 5)),
        (Schedule::Latest, with_gaps(Batch::new(Problem::new(5, 264, 400), 2))),
        (Schedule::Random(7), Batch::new(Problem::new(200, 130, 144), 2).sharing_b()),
        (Schedule::Random(8), Batch::new(Problem::new(3, 136, 128), 7).sharing_a()),
    ]
    .into_iter()
    .enumerate()
    {
        let device = hopper(schedule)?;
        let operations = Operations::new(&device);
        for (offset, granularities) in GRANULARITIES.into_iter().enumerate() {
            let mut case = Batched::new(&device, batch, granularities, E4M3, BEFORE as f32)?;
            // Each algorithm has each granularity in one of the shapes.
            for algorithm in
                one_in(17, case.algorithms(&device).into_iter().skip((turn + offset) % 4).step_by(4))
            {
                case.check(&device, &operations, algorithm, f64::from)?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_algorithm_of_groups_is_right() -> Outcome {
    for (turn, (schedule, sizes, n, k)) in [
        (Schedule::Eager, &[0, 5, 130, 0, 65, 1, 0][..], 72, 144),
        (Schedule::Latest, &[1, 0, 1, 2], 136, 528),
        (Schedule::Random(7), &[3, 137], 264, 128),
        (Schedule::Random(8), &[258, 0, 0, 21], 64, 272),
    ]
    .into_iter()
    .enumerate()
    {
        let device = hopper(schedule)?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        for (offset, granularities) in GRANULARITIES.into_iter().enumerate() {
            let mut case =
                Groups::new(&device, sizes, (n, k, WEIGHTS), granularities, E4M3, bf16::from_f32(77.0))?;
            case.expected.iter_mut().for_each(|sum| *sum = f64::from(bf16::from_f32(*sum as f32)));
            let algorithms = case.algorithms(&operations);
            assert!(algorithms.len() >= 8, "{} algorithms", algorithms.len());
            for algorithm in one_in(17, algorithms.into_iter().skip((turn + offset) % 4).step_by(4)) {
                case.check(&operations, &stream, algorithm, f64::from)?;
            }
        }
    }
    Ok(())
}

/// Wherever in 16 bytes of scales a group begins, its tiles find theirs.
#[test]
fn groups_begin_anywhere() -> Outcome {
    let device = hopper(Schedule::Eager)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    for before in 1..8 {
        for granularities in [(Row, Block), (Block, Row)] {
            let sizes = [before, 131, 8 - before];
            let mut case = Groups::new(&device, &sizes, (40, 160, WEIGHTS), granularities, E4M3, f32::NAN)?;
            for algorithm in plain_and_transposed(case.algorithms(&operations)) {
                case.check(&operations, &stream, algorithm, f64::from)?;
            }
        }
    }
    Ok(())
}

#[test]
fn many_groups_are_found() -> Outcome {
    let device = hopper(Schedule::Eager)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    for count in [33, 64] {
        let sizes: Vec<u32> = (0..count).map(|group| if group == 40 { 150 } else { group * 7 % 5 }).collect();
        let mut case = Groups::new(&device, &sizes, (24, 48, WEIGHTS), (Row, Block), E4M3, f32::NAN)?;
        let algorithm = case.algorithms(&operations)[0];
        case.check(&operations, &stream, algorithm, f64::from)?;
    }
    Ok(())
}

/// A and B of different types, depths that TMA cannot read, B in either order, and C that it cannot
/// store.
#[test]
fn every_type_depth_and_order_is_right() -> Outcome {
    let device = hopper(Schedule::Random(5))?.checked()?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let inputs = (e4m3::from_f32 as fn(f32) -> e4m3, e5m2::from_f32 as fn(f32) -> e5m2);
    for (n, k, order) in [(136, 272, WEIGHTS), (35, 37, WEIGHTS), (48, 130, MatrixLayout::RowMajor)] {
        let mut case =
            Groups::new(&device, &[9, 0, 30], (n, k, order), (Row, Block), inputs, f16::from_f32(77.0))?;
        case.expected.iter_mut().for_each(|sum| *sum = f64::from(f16::from_f32(*sum as f32)));
        for algorithm in plain_and_transposed(case.algorithms(&operations)) {
            case.check(&operations, &stream, algorithm, f64::from)?;
        }
        let batch = Batch::new(Problem { b: order, ..Problem::new(33, n, k) }, 3);
        let mut case = Batched::new(&device, batch, (Row, Row), (inputs.1, inputs.0), BEFORE as f32)?;
        let algorithm = case.algorithms(&device)[0];
        case.check(&device, &operations, algorithm, f64::from)?;
    }
    Ok(())
}

#[test]
fn every_algorithm_is_clean_under_the_checkers() -> Outcome {
    let schedule = Schedule::Random(3);
    for device in [hopper(schedule)?, blackwell(schedule)?, geforce(schedule)?] {
        let device = device.checked()?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let mut case =
            Groups::new(&device, &[3, 0, 70, 63], (72, 160, WEIGHTS), (Row, Block), E4M3, f32::NAN)?;
        for algorithm in one_in(17, case.algorithms(&operations)) {
            case.check(&operations, &stream, algorithm, f64::from)?;
        }
        let mut case = Groups::new(&device, &[3, 0, 70, 63], (72, 160, WEIGHTS), (Row, Row), E4M3, f16::NAN)?;
        case.expected.iter_mut().for_each(|sum| *sum = f64::from(f16::from_f32(*sum as f32)));
        for algorithm in one_in(17, case.algorithms(&operations)) {
            case.check(&operations, &stream, algorithm, f64::from)?;
        }
        let batch = with_gaps(Batch::new(Problem::new(40, 136, 144), 3));
        let mut case = Batched::new(&device, batch, (Row, Block), E4M3, BEFORE as f32)?;
        for algorithm in one_in(17, case.algorithms(&device)) {
            case.check(&device, &operations, algorithm, f64::from)?;
        }
    }
    Ok(())
}

#[test]
fn each_product_has_its_own_part_of_an_epilogue() -> Outcome {
    let device = hopper(Schedule::Random(6))?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    // Many rows, and so few that C is computed transposed.
    for (sizes, n) in [([70, 0, 140], 72), ([1, 0, 2], 264)] {
        let owners: Vec<usize> = (0..3).flat_map(|group| vec![group; sizes[group] as usize]).collect();
        let (rows, bias) = (whole(owners.len(), 7), whole(3 * n, 8));
        let (row_scales, biases) = (device.buffer_from(&rows)?, device.buffer_from(&bias)?);
        let linear = Linear {
            alpha: 0.5,
            beta: 0.25,
            row_scales: Some(&row_scales),
            bias: Some(&biases),
            activation: Activation::Relu,
            ..Linear::default()
        };
        let shape = (n as u32, 144, WEIGHTS);
        let mut case = Groups::new(&device, &sizes, shape, (Row, Block), E4M3, BEFORE as f32)?;
        let groups = Gemm::new(rows.len() as u32, n as u32, 144).along_m(&case.offsets);
        let (a, b) = (case.a.scaled(), case.b.scaled());
        operations.gemm(&stream, &groups.epilogue(linear), a, b, &mut case.c)?;
        let with_bias = |(index, sum): (usize, &f64)| {
            let (row, column) = (index / n, index % n);
            let inner = 0.5 * f64::from(rows[row]) * sum + f64::from(bias[owners[row] * n + column]);
            inner.max(0.0) + BEFORE / 4.0
        };
        let expected: Vec<f64> = case.expected.iter().enumerate().map(with_bias).collect();
        expect_equal(
            case.c.to_vec()?.into_iter().map(f64::from).collect(),
            &expected,
            "groups with an epilogue",
        );

        let batch = Batch::new(Problem::new(sizes[2], n as u32, 144), 3);
        let mut case = Batched::new(&device, batch, (Row, Block), E4M3, BEFORE as f32)?;
        let linear = Linear { bias: Some(&biases), activation: Activation::Relu, ..Linear::default() };
        let (a, b) = (case.a.scaled(), case.b.scaled());
        operations.gemm(&stream, &Gemm::from(batch).epilogue(linear), a, b, &mut case.c)?;
        let with_bias = |(index, sum): (usize, &f64)| {
            let problem = index / (sizes[2] as usize * n);
            (sum + f64::from(bias[problem * n + index % n])).max(0.0)
        };
        let expected: Vec<f64> = case.expected.iter().enumerate().map(with_bias).collect();
        expect_equal(
            case.c.to_vec()?.into_iter().map(f64::from).collect(),
            &expected,
            "a batch with an epilogue",
        );
    }
    Ok(())
}

#[test]
fn refusals_name_the_rule() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let values = device.buffer_from(&[e4m3::from_f32(1.0); 2 * 16 * 32])?;
    let scales = device.buffer_from(&[1f32; 32])?;
    let (by_row, by_block) = (Scaled::by_row(&values, &scales), Scaled::by_block(&values, &scales));
    let mut c = device.buffer_from(&[0f32; 2 * 16 * 16])?;
    let refused =
        |outcome: Result<_, OperationError>| outcome.map(|_| ()).expect_err("it is refused").to_string();
    let batch = Batch::new(Problem::new(16, 16, 32), 2);
    let words = refused(operations.gemm(&stream, &Gemm::from(batch), by_row, by_block, &mut c));
    assert_eq!(words, "B's scales: expected a length of 8, found 32");
    let words = refused(operations.gemm(&stream, &Gemm::from(batch.sharing_a()), by_row, by_row, &mut c));
    assert_eq!(words, "A's scales: expected a length of 16, found 32");
    let overlapping = Batch { c_stride: 255, ..batch };
    let words = refused(operations.gemm(&stream, &Gemm::from(overlapping), by_row, by_row, &mut c));
    assert!(words.contains("256 elements are 255 apart"), "{words}");

    let offsets = device.buffer_from(&[0u32, 3, 32])?;
    let groups = Gemm::new(32, 16, 32).along_m(&offsets);
    let words = refused(operations.gemm(&stream, &groups, by_block, by_row, &mut c));
    assert_eq!(words, "A's scales: expected a length of 4, found 32");
    let words = refused(operations.gemm(&stream, &groups, by_row, by_block, &mut c));
    assert_eq!(words, "B's scales: expected a length of 8, found 32");
    let shallow = Gemm::new(32, 16, 0).along_m(&offsets);
    let words = refused(operations.gemm(&stream, &shallow, by_row, by_row, &mut c));
    assert!(words.contains("k is 0"), "{words}");

    let ampere = Device::named("emu:a100")?;
    let (operations, stream) = (Operations::new(&ampere), ampere.stream()?);
    let (values, scales) = (ampere.uninitialized::<e4m3>(16)?, ampere.uninitialized::<f32>(4)?);
    let (a, offsets) = (Scaled::by_row(&values, &scales), ampere.buffer_from(&[0u32, 1])?);
    let mut c = ampere.uninitialized::<f32>(1)?;
    let words = refused(operations.gemm(&stream, &Gemm::new(1, 1, 16).along_m(&offsets), a, a, &mut c));
    assert!(words.contains("the device is sm_80"), "{words}");
    let none = Batch::new(Problem::new(1, 1, 0), 1);
    let words = refused(operations.gemm(&stream, &Gemm::from(none), a, a, &mut c));
    assert!(words.contains("the device is sm_80"), "{words}");
    Ok(())
}

#[test]
fn nothing_to_multiply_leaves_zeros_or_nothing() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (values, scales) = (device.uninitialized::<e4m3>(0)?, device.uninitialized::<f32>(0)?);
    let none = Scaled::by_row(&values, &scales);
    let mut c = device.buffer_from(&[7f32; 128])?;
    operations.gemm(&stream, &Gemm::new(8, 8, 0).batch(2), none, none, &mut c)?;
    assert_eq!(c.to_vec()?, [0.0; 128]);
    let mut empty = device.uninitialized::<f32>(0)?;
    operations.gemm(&stream, &Gemm::new(8, 8, 8).batch(0), none, none, &mut empty)?;
    let (weights, weight_scales) =
        (device.buffer_from(&[e4m3::from_f32(1.0); 2 * 64])?, device.zeros::<f32>(16)?);
    let b = Scaled::by_row(&weights, &weight_scales);
    let offsets = device.buffer_from(&[0u32, 0, 0])?;
    operations.gemm(&stream, &Gemm::new(0, 8, 8).along_m(&offsets), none, b, &mut empty)?;
    Ok(())
}

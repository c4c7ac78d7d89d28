//! The GEMM whose blocks have scales: every algorithm, granularity, type and schedule against the
//! problem of what the operands stand for.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule, Storable};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::device::mainloop::mma_sync::MmaSyncConfiguration;
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::Problem;
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::gemm::problem::scales::Granularity::{Block, Row};
use warpwright_kernels::gemm::problem::scales::{Granularity, Scaled};
use warpwright_kernels::gemm::problem::types::{BlockwiseOperand, GemmOutput, MatrixLayout, MultipliesWith};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

use crate::emulated::{blackwell, geforce, hopper};
use crate::matrices::whole;
use crate::operands::{E4M3, GRANULARITIES, Operand, numbers, products};
use crate::products::expect_equal;
use crate::scaled_product::Case;

type Outcome = Result<(), Box<dyn std::error::Error>>;

impl<
    A: BlockwiseOperand + MultipliesWith<B>,
    B: BlockwiseOperand + MultipliesWith<A>,
    C: GemmOutput + Storable,
> Case<A, B, C>
{
    /// All algorithms for it.
    fn algorithms(&self, device: &Device) -> Vec<Algorithm> {
        Operations::new(device).gemm_algorithms::<A, C>(&Gemm::from(self.problem), Some(self.granularities()))
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
        let Self { problem, a, b, c, .. } = self;
        for _ in 0..2 {
            operations.gemm(
                &stream,
                &Gemm::from(*problem).algorithm(algorithm),
                a.scaled(),
                b.scaled(),
                c,
            )?;
        }
        let found = self.c.to_vec()?.into_iter().map(of).collect();
        expect_equal(
            found,
            &self.expected,
            &format!("{:?}, {:?} by {algorithm}", self.problem, self.granularities()),
        );
        Ok(())
    }
}

/// Extents of problems, each at a schedule.
const SHAPES: [(Schedule, (u32, u32, u32)); 4] = [
    (Schedule::Eager, (200, 328, 400)),
    (Schedule::Latest, (5, 264, 1040)),
    (Schedule::Random(7), (72, 520, 272)),
    (Schedule::Random(8), (1, 131, 16)),
];

#[test]
fn every_algorithm_is_right_with_every_granularity() -> Outcome {
    for (turn, (schedule, extents)) in SHAPES.into_iter().enumerate() {
        let device = hopper(schedule)?;
        let operations = Operations::new(&device);
        for (offset, granularities) in GRANULARITIES.into_iter().enumerate() {
            let (m, n, k) = extents;
            let mut case = Case::exact(&device, Problem::new(m, n, k), granularities, E4M3, f32::NAN)?;
            let algorithms = case.algorithms(&device);
            assert!(algorithms.len() >= 8, "{} algorithms", algorithms.len());
            // Each algorithm has each granularity in one of the shapes.
            for algorithm in one_in(7, algorithms.into_iter().skip((turn + offset) % 4).step_by(4)) {
                case.check(&device, &operations, algorithm, f64::from)?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_type_is_right() -> Outcome {
    let device = Device::named("emu:h200")?;
    let operations = Operations::new(&device);
    let problem = Problem::new(136, 200, 304);
    let e5m2s = (e5m2::from_f32, e5m2::from_f32);
    let mut case = Case::exact(&device, problem, (Row, Block), e5m2s, bf16::NAN)?;
    case.expected.iter_mut().for_each(|sum| *sum = f64::from(bf16::from_f32(*sum as f32)));
    for algorithm in one_in(11, case.algorithms(&device)) {
        case.check(&device, &operations, algorithm, f64::from)?;
    }
    let mut case = Case::exact(&device, problem, (Row, Row), E4M3, f16::NAN)?;
    case.expected.iter_mut().for_each(|sum| *sum = f64::from(f16::from_f32(*sum as f32)));
    for algorithm in one_in(11, case.algorithms(&device)) {
        case.check(&device, &operations, algorithm, f64::from)?;
    }
    Ok(())
}

/// A and B of different types, by every algorithm: transposed ones take B's type for A's.
#[test]
fn types_may_be_mixed() -> Outcome {
    let device = hopper(Schedule::Random(5))?;
    let operations = Operations::new(&device);
    let problem = Problem::new(40, 136, 272);
    let mut case = Case::exact(&device, problem, (Row, Block), (e4m3::from_f32, e5m2::from_f32), f32::NAN)?;
    for algorithm in one_in(5, case.algorithms(&device)) {
        case.check(&device, &operations, algorithm, f64::from)?;
    }
    let mut case = Case::exact(&device, problem, (Row, Row), (e5m2::from_f32, e4m3::from_f32), f32::NAN)?;
    for algorithm in one_in(11, case.algorithms(&device)) {
        case.check(&device, &operations, algorithm, f64::from)?;
    }
    Ok(())
}

/// Any k, and A and B in any order: what TMA cannot read is copied first.
#[test]
fn every_depth_and_order_is_right() -> Outcome {
    for (device, extents) in [
        (hopper(Schedule::Eager)?, [(1, 1, 1), (33, 130, 257)]),
        (hopper(Schedule::Latest)?, [(200, 72, 100), (3, 65, 383)]),
        (hopper(Schedule::Random(9))?.checked()?, [(65, 9, 129), (16, 48, 64)]),
    ] {
        let operations = Operations::new(&device);
        for (index, (m, n, k)) in extents.into_iter().enumerate() {
            for (turn, a) in [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor].into_iter().enumerate() {
                for b in [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor] {
                    let problem = Problem { m, n, k, a, b };
                    let granularities = GRANULARITIES[(index + 2 * turn) % GRANULARITIES.len()];
                    let inputs = (e4m3::from_f32, e5m2::from_f32);
                    let mut case = Case::exact(&device, problem, granularities, inputs, f32::NAN)?;
                    let algorithm = case.algorithms(&device)[0];
                    case.check(&device, &operations, algorithm, f64::from)?;
                }
            }
        }
    }
    Ok(())
}

/// Many rows, few, and C whose rows TMA cannot store; with the checkers, for an epilogue must not
/// read what others write.
#[test]
fn epilogues_are_right() -> Outcome {
    let device = hopper(Schedule::Random(6))?.checked()?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    for (m, n, k) in [(136, 72, 144), (3, 264, 272), (70, 33, 128)] {
        let problem = Problem::new(m, n, k);
        let (rows, bias) = (whole(m as usize, 7), whole(n as usize, 8));
        let (row_scales, biases) = (device.buffer_from(&rows)?, device.buffer_from(&bias)?);
        let linear = Linear {
            alpha: 0.5,
            beta: -2.0,
            row_scales: Some(&row_scales),
            bias: Some(&biases),
            activation: Activation::Relu,
            ..Linear::default()
        };
        let before = bf16::from_f32(3.0);
        let mut case = Case::exact(&device, problem, (Row, Block), E4M3, before)?;
        let (a, b) = (case.a.scaled(), case.b.scaled());
        operations.gemm(&stream, &Gemm::from(problem).epilogue(linear), a, b, &mut case.c)?;
        for (index, (found, sum)) in case.c.to_vec()?.into_iter().zip(&case.expected).enumerate() {
            let (row, column) = (index / n as usize, index % n as usize);
            let inner = 0.5 * f64::from(rows[row]) * sum + f64::from(bias[column]);
            let expected = bf16::from_f32((inner.max(0.0) - 6.0) as f32);
            assert_eq!(found, expected, "({row}, {column}) of {problem:?}");
        }
    }
    Ok(())
}

#[test]
fn every_algorithm_is_clean_under_the_checkers() -> Outcome {
    let device = hopper(Schedule::Random(3))?.checked()?;
    let operations = Operations::new(&device);
    for granularities in [(Row, Block), (Block, Row)] {
        let problem = Problem::new(72, 200, 304);
        let mut case = Case::exact(&device, problem, granularities, E4M3, f32::NAN)?;
        for algorithm in one_in(17, case.algorithms(&device)) {
            case.check(&device, &operations, algorithm, f64::from)?;
        }
    }
    Ok(())
}

/// On Blackwell the accumulators of each k-block are in tensor memory.
#[test]
fn every_algorithm_is_right_in_tensor_memory() -> Outcome {
    for (turn, (schedule, extents)) in SHAPES.into_iter().enumerate() {
        let device = blackwell(schedule)?;
        let operations = Operations::new(&device);
        for (offset, granularities) in GRANULARITIES.into_iter().enumerate() {
            let (m, n, k) = extents;
            let inputs = (e4m3::from_f32, e5m2::from_f32);
            let mut case = Case::exact(&device, Problem::new(m, n, k), granularities, inputs, f32::NAN)?;
            let algorithms = case.algorithms(&device);
            assert!(algorithms.len() >= 8, "{} algorithms", algorithms.len());
            for algorithm in one_in(5, algorithms.into_iter().skip((turn + offset) % 4).step_by(4)) {
                case.check(&device, &operations, algorithm, f64::from)?;
            }
        }
    }
    Ok(())
}

/// By `mma.sync`, every tile with operands in every order and of any depth.
#[test]
fn every_tile_of_mma_sync_is_right() -> Outcome {
    let inputs = (e5m2::from_f32, e4m3::from_f32);
    for (turn, (schedule, (m, n, k))) in [
        (Schedule::Eager, (200, 328, 400)),
        (Schedule::Latest, (5, 264, 1041)),
        (Schedule::Random(7), (72, 131, 64)),
        (Schedule::Random(8), (129, 66, 130)),
    ]
    .into_iter()
    .enumerate()
    {
        let device = geforce(schedule)?.checked()?;
        let operations = Operations::new(&device);
        let tiles = MmaSyncConfiguration::all(device.properties().capability);
        let tiles = tiles.into_iter().filter(|configuration| configuration.tile != (128, 128));
        for (offset, configuration) in tiles.step_by(2).enumerate() {
            let granularities = GRANULARITIES[(turn + offset) % GRANULARITIES.len()];
            let [a, b] = [offset % 2, offset / 2 % 2].map(|column| match column {
                0 => MatrixLayout::RowMajor,
                _ => MatrixLayout::ColumnMajor,
            });
            let problem = Problem { m, n, k, a, b };
            let mut case = Case::exact(&device, problem, granularities, inputs, f32::NAN)?;
            case.check(&device, &operations, Algorithm::MmaSync(configuration), f64::from)?;
        }
    }
    Ok(())
}

/// 8-bit floats without blockwise scales, on GPUs that have no other instruction for them.
#[test]
fn bytes_are_multiplied_before_hopper() -> Outcome {
    let device = Device::with_schedule("emu:rtx4090", Schedule::Random(2))?.checked()?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    for (m, n, k) in [(3, 5, 7), (130, 72, 200), (64, 257, 128)] {
        let (a, b) = (whole((m * k) as usize, 1), whole((k * n) as usize, 2));
        let left = device.buffer_from(&a.iter().map(|&value| e4m3::from_f32(value)).collect::<Vec<_>>())?;
        let right = device.buffer_from(&b.iter().map(|&value| e5m2::from_f32(value)).collect::<Vec<_>>())?;
        let mut c = device.buffer_from(&vec![f32::NAN; (m * n) as usize])?;
        operations.gemm(&stream, &Gemm::new(m, n, k).alpha(0.5), &left, &right, &mut c)?;
        let of = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<_>>();
        let expected: Vec<f64> = products(&of(a), &of(b), k).into_iter().map(|sum| 0.5 * sum).collect();
        expect_equal(of(c.to_vec()?), &expected, &format!("{m} x {n} x {k}"));
    }
    Ok(())
}

/// With more k-blocks than stages, so that each is filled again: the scales too are read before.
#[test]
fn refilled_stages_are_clean_under_the_checkers() -> Outcome {
    for device in [hopper(Schedule::Random(4))?.checked()?, blackwell(Schedule::Random(4))?.checked()?] {
        let operations = Operations::new(&device);
        for (granularities, (m, n, k)) in [((Row, Block), (40, 72, 2304)), ((Block, Row), (9, 136, 1700))] {
            let mut case = Case::exact(&device, Problem::new(m, n, k), granularities, E4M3, f32::NAN)?;
            for algorithm in case.algorithms(&device).into_iter().step_by(5).take(2) {
                case.check(&device, &operations, algorithm, f64::from)?;
            }
        }
    }
    Ok(())
}

/// Long sums lose what the tensor cores lose inside of blocks, and no more: a sixth of the limit
/// for a sum that never leaves them.
#[test]
fn sums_between_blocks_are_as_exact_as_f32() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (m, n, k) = (64, 72, 4096);
    let operand = |granularity: Granularity, rows, seed| {
        let values = numbers((rows * k) as usize, seed, 256).into_iter().map(|bits| {
            let value = e4m3::from_bits(bits as u8).to_f32();
            if value.is_nan() { 1.0 } else { value }
        });
        let scales = numbers(granularity.count((rows, k)), seed + 1, 1000);
        let scales = scales.into_iter().map(|number| 0.001 + number as f32 / 1000.0);
        Operand::new(granularity, (rows, k), values.collect(), scales.collect())
    };
    let operands = (operand(Row, m, 11), operand(Block, n, 13));
    // The size of a block's sums: four times the deviation of a sum of its terms with random signs.
    let size = |a: &[f64], b: &[f64]| 4.0 * a.iter().zip(b).map(|(a, b)| (a * b).powi(2)).sum::<f64>().sqrt();
    let mut sizes = Vec::new();
    for row in operands.0.meant.chunks(k as usize) {
        for column in operands.1.meant.chunks(k as usize) {
            sizes.push(row.chunks(128).zip(column.chunks(128)).map(|(a, b)| size(a, b)).sum::<f64>());
        }
    }
    let mut case = Case::new(&device, Problem::new(m, n, k), operands, E4M3, f32::NAN)?;
    let (a, b) = (case.a.scaled(), case.b.scaled());
    operations.gemm(&stream, &Gemm::from(case.problem), a, b, &mut case.c)?;
    for (index, found) in case.c.to_vec()?.into_iter().enumerate() {
        let error = (f64::from(found) - case.expected[index]).abs();
        // A block is four steps of the tensor cores, which keep 13 bits of its size (measured on an
        // H200).
        let limit = 4.0 * sizes[index] / 8192.0;
        assert!(error <= limit, "{found} at {index}, not {}: off by {error}", case.expected[index]);
    }
    Ok(())
}

#[test]
fn refusals_name_the_rule() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let values = device.buffer_from(&[e4m3::from_f32(1.0); 64 * 32])?;
    let scales = device.buffer_from(&[1f32; 64])?;
    let mut c = device.buffer_from(&[0f32; 64 * 64])?;
    let mut refused = |problem, a, b| {
        let outcome: Result<_, OperationError> = operations.gemm(&stream, &Gemm::from(problem), a, b, &mut c);
        outcome.map(|_| ()).expect_err("it is refused").to_string()
    };
    let (a, b) = (Scaled::by_row(&values, &scales), Scaled::by_block(&values, &scales));
    let words = refused(Problem::new(64, 64, 32), a, b);
    assert_eq!(words, "B's scales: expected a length of 4, found 64");
    let words = refused(Problem::new(64, 32, 32), a, a);
    assert_eq!(words, "B: expected a length of 1024, found 2048");
    let ampere = Device::named("emu:a100")?;
    let (operations, stream) = (Operations::new(&ampere), ampere.stream()?);
    let (values, scales) = (ampere.uninitialized::<e4m3>(16)?, ampere.uninitialized::<f32>(4)?);
    let mut c = ampere.uninitialized::<f32>(1)?;
    let a = Scaled::by_row(&values, &scales);
    let outcome = operations.gemm(&stream, &Gemm::from(Problem::new(1, 1, 16)), a, a, &mut c);
    assert!(outcome.expect_err("no wgmma there").to_string().contains("the device is sm_80"));
    Ok(())
}

#[test]
fn nothing_to_multiply_leaves_zeros_or_nothing() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (values, scales) = (device.uninitialized::<e4m3>(0)?, device.uninitialized::<f32>(0)?);
    let none = Scaled::by_row(&values, &scales);
    let mut c = device.buffer_from(&[7f32; 64])?;
    operations.gemm(&stream, &Gemm::from(Problem::new(8, 8, 0)), none, none, &mut c)?;
    assert_eq!(c.to_vec()?, [0.0; 64]);
    let mut c = device.uninitialized::<f32>(0)?;
    operations.gemm(&stream, &Gemm::from(Problem::new(0, 0, 16)), none, none, &mut c)?;
    Ok(())
}

//! Gated GEMMs: gates and values are columns of one product, in every kernel that pairs them.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule, Storable};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::device::epilogue::{EpilogueInputs, Inline, biased, plus};
use warpwright_kernels::gemm::device::schedule::Schedule::Cooperative;
use warpwright_kernels::gemm::host::config::{Algorithm, Configuration};
use warpwright_kernels::gemm::problem::batching::Problem;

use warpwright_kernels::gemm::problem::epilogue::{Activation, EpilogueArguments};
use warpwright_kernels::gemm::problem::scales::Granularity::{Block, Row};
use warpwright_kernels::gemm::problem::types::{GemmOutput, MultipliesWith};
use warpwright_kernels::operations::Operations;
use warpwright_testing::one_in;

use crate::matrices::whole;
use crate::operands::E4M3;
use crate::scaled_product;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A number as a type has it, and back.
type Conversions<T, C> = (fn(f32) -> T, fn(C) -> f32);

/// An activation on the host.
type Function = fn(f64) -> f64;

const BF16: Conversions<bf16, bf16> = (bf16::from_f32, bf16::to_f32);

/// A·B of whole numbers, with a bias of columns.
struct Case {
    extents: (usize, usize, usize),
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
}

impl Case {
    fn new(m: u32, n: u32, k: u32) -> Self {
        let (m, n, k) = (m as usize, n as usize, k as usize);
        // Gates of both signs, and small enough for their sigmoids to matter.
        let b = whole(k * n, 2).into_iter().map(|value| value / 16.0).collect();
        Self { extents: (m, n, k), a: whole(m * k, 1), b, bias: whole(n, 3) }
    }

    fn gemm(&self) -> Gemm<'static> {
        let (m, n, k) = self.extents;
        Gemm::new(m as u32, n as u32, k as u32)
    }

    /// Values times activated gates, which are columns in turns of 8.
    fn expected(&self, activation: Function) -> Vec<f64> {
        let (m, n, k) = self.extents;
        let column = |row: usize, column: usize| {
            let terms = (0..k).map(|at| f64::from(self.a[row * k + at]) * f64::from(self.b[column * k + at]));
            terms.sum::<f64>() + f64::from(self.bias[column])
        };
        let elements = (0..m).flat_map(|row| (0..n / 2).map(move |at| (row, at / 8 * 16 + at % 8)));
        elements.map(|(row, gate)| activation(column(row, gate)) * column(row, gate + 8)).collect()
    }

    /// What a device makes of it.
    fn on<T, C>(
        &self,
        device: &Device,
        (activation, algorithm): (Activation, Option<Algorithm>),
        (input, value): Conversions<T, C>,
    ) -> Result<Vec<f32>, Box<dyn std::error::Error>>
    where
        T: MultipliesWith<T>,
        C: GemmOutput + Storable,
    {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let of = |values: &[f32]| device.buffer_from(&values.iter().map(|&v| input(v)).collect::<Vec<T>>());
        let (a, b, bias) = (of(&self.a)?, of(&self.b)?, device.buffer_from(&self.bias)?);
        let (m, n, _) = self.extents;
        let mut c = device.uninitialized::<C>(m * n / 2)?;
        let gemm = self.gemm().bias(&bias).gated(activation);
        let gemm = algorithm.map_or(gemm, |algorithm| gemm.algorithm(algorithm));
        operations.gemm(&stream, &gemm, &a, &b, &mut c)?;
        Ok(c.to_vec()?.into_iter().map(value).collect())
    }
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// Fails unless results are within `part` of what is expected, and `part` of one.
fn expect_near(found: &[f32], expected: &[f64], part: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - expected).abs();
        assert!(difference <= part * expected.abs().max(1.0), "{what}: {found} for {expected} at {at}");
    }
}

/// Rounding to bf16, and what the approximations of an exponential lose.
const ROUNDING: f64 = 1.0 / 250.0;

/// The algorithms of a gated problem, each kind of tile, cluster and division of k once.
fn kinds(operations: &Operations, gemm: &Gemm<'_>) -> Vec<Algorithm> {
    let mut kinds = vec![];
    let mut algorithms = operations.gemm_algorithms::<bf16, bf16>(&gemm.gated(Activation::Silu), None);
    algorithms.retain(|algorithm| {
        let kind = algorithm.configuration().map(|configuration| {
            let (rows, columns) = configuration.tile;
            let box_columns = columns.trailing_zeros().min(7);
            (
                rows,
                box_columns,
                configuration.schedule,
                configuration.stream_k,
                configuration.split_k,
                configuration.transposed,
            )
        });
        let is_new = !kinds.contains(&kind);
        kinds.push(kind);
        is_new
    });
    algorithms
}

#[test]
fn every_kind_of_tile_pairs_gates_and_values() -> Outcome {
    let schedules = [Schedule::Eager, Schedule::Latest, Schedule::Random(7)];
    for (name, least) in [("emu:h200", 20), ("emu:b200", 5), ("emu:a100", 1)] {
        let devices = schedules.map(|schedule| Device::with_schedule(name, schedule)?.checked());
        let devices = devices.into_iter().collect::<Result<Vec<_>, _>>()?;
        for (m, n, k) in [(19, 272, 320), (130, 144, 512)] {
            let case = Case::new(m, n, k);
            let expected = case.expected(silu);
            let algorithms = kinds(&Operations::new(&devices[0]), &case.gemm());
            assert!(algorithms.len() >= least, "{name} has {algorithms:?}");
            for (algorithm, device) in one_in(3, algorithms).zip(devices.iter().cycle()) {
                let found = case.on(device, (Activation::Silu, Some(algorithm)), BF16)?;
                expect_near(&found, &expected, ROUNDING, &format!("{algorithm} on {name}"));
            }
        }
    }
    Ok(())
}

#[test]
fn every_output_and_activation_has_gates() -> Outcome {
    let activations: [(Activation, Function); 4] = [
        (Activation::Identity, |x| x),
        (Activation::Relu, |x| x.max(0.0)),
        (Activation::Gelu, |x| {
            x / 2.0 * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh())
        }),
        (Activation::Silu, silu),
    ];
    for name in ["emu:h200", "emu:b200", "emu:a100"] {
        let device = Device::named(name)?.checked()?;
        // The transpose, and C itself.
        for case in [Case::new(3, 272, 64), Case::new(200, 144, 64)] {
            for (activation, function) in activations {
                let (chosen, expected) = ((activation, None), case.expected(function));
                let what = format!("{activation:?} on {name}");
                let halves = case.on(&device, chosen, (f16::from_f32, f16::to_f32))?;
                expect_near(&halves, &expected, ROUNDING, &what);
                let floats = case.on(&device, chosen, (bf16::from_f32, |value: f32| value))?;
                expect_near(&floats, &expected, 2e-6, &what);
            }
        }
    }
    Ok(())
}

#[test]
fn epilogues_come_before_gates() -> Outcome {
    let device = Device::named("emu:h200")?.checked()?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let case = Case::new(33, 160, 64);
    let of =
        |values: &[f32]| device.buffer_from(&values.iter().map(|&v| bf16::from_f32(v)).collect::<Vec<_>>());
    let (a, b, bias) = (of(&case.a)?, of(&case.b)?, device.buffer_from(&case.bias)?);
    let mut c = device.uninitialized::<f32>(33 * 80)?;
    let closure = Inline::new(|inputs: EpilogueInputs<f32>| biased(inputs.columns(0)));
    let arguments = EpilogueArguments { columns: [Some(&bias), None], ..EpilogueArguments::new(closure) };
    operations.gemm(&stream, &case.gemm().epilogue(arguments).gated(Activation::Silu), &a, &b, &mut c)?;
    expect_near(&c.to_vec()?, &case.expected(silu), 2e-6, "a bias by a closure");
    Ok(())
}

#[test]
fn block_scaled_operands_have_gates() -> Outcome {
    for (name, schedule) in
        [("emu:h200", Schedule::Latest), ("emu:b200", Schedule::Eager), ("emu:rtx5090", Schedule::Eager)]
    {
        let device = Device::with_schedule(name, schedule)?.checked()?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        for (m, n, k) in [(21, 272, 400), (150, 160, 256)] {
            let problem = Problem::new(m, n, k);
            let case = scaled_product::Case::exact(&device, problem, (Row, Block), E4M3, f32::NAN)?;
            let gemm = Gemm::from(problem).gated(Activation::Relu);
            let mut algorithms = operations.gemm_algorithms::<e4m3, f32>(&gemm, Some(case.granularities()));
            algorithms.truncate(3);
            let sums = |row: usize, column: usize| case.expected[row * n as usize + column];
            let elements = (0..m as usize).flat_map(|row| (0..n as usize / 2).map(move |at| (row, at)));
            let expected: Vec<f64> = elements
                .map(|(row, at)| {
                    let gate = at / 8 * 16 + at % 8;
                    sums(row, gate).max(0.0) * sums(row, gate + 8)
                })
                .collect();
            for algorithm in algorithms {
                let mut c = device.buffer_from(&vec![f32::NAN; expected.len()])?;
                let gemm = gemm.algorithm(algorithm);
                operations.gemm(&stream, &gemm, case.a.scaled(), case.b.scaled(), &mut c)?;
                expect_near(&c.to_vec()?, &expected, 2e-6, &format!("{algorithm} on {name}"));
            }
        }
    }
    Ok(())
}

#[test]
fn what_cannot_be_gated_is_refused() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (a, b) = (device.zeros::<bf16>(2 * 16 * 16)?, device.zeros::<bf16>(2 * 16 * 24)?);
    let offsets = device.buffer_from(&[0u32, 16])?;
    let mut c = device.zeros::<f32>(16 * 8)?;
    let gemm = Gemm::new(16, 16, 16).gated(Activation::Silu);
    let (one, of_16) = (a.to_vec()?[..256].to_vec(), b.to_vec()?[..256].to_vec());
    let (one, of_16) = (device.buffer_from(&one)?, device.buffer_from(&of_16)?);
    let closure = Inline::new(|inputs: EpilogueInputs<f32>| plus(constant(1.0), inputs.c()));
    let of_c = EpilogueArguments::new(closure);
    let matrix = device.zeros::<f32>(16 * 8)?;
    let with_matrix = EpilogueArguments { matrix: Some(&matrix), ..of_c };
    let mut long = device.zeros::<f32>(16 * 16)?;
    for (refused, words) in [
        (operations.gemm(&stream, &gemm.beta(1.0), &one, &of_16, &mut c), "remove beta"),
        (operations.gemm(&stream, &gemm.epilogue(with_matrix), &one, &of_16, &mut c), "half as many columns"),
        (operations.gemm(&stream, &gemm.epilogue(of_c), &one, &of_16, &mut c), "half of its columns"),
        (operations.gemm(&stream, &gemm.batch(2), &a, &b, &mut c), "single problem"),
        (operations.gemm(&stream, &gemm.along_m(&offsets), &one, &of_16, &mut c), "single problem"),
        (operations.gemm(&stream, &gemm, &one, &of_16, &mut long), "C: expected a length of 128, found 256"),
        (
            operations.gemm(&stream, &Gemm::new(16, 24, 16).gated(Activation::Silu), &one, &b, &mut c),
            "24 columns, but 16 at a time",
        ),
    ] {
        let error = refused.map(|_| ()).expect_err(words).to_string();
        assert!(error.contains(words), "{error}\n{words}");
    }
    let tile = (128, 24);
    let algorithm = operations.gemm_algorithms::<bf16, f32>(&gemm, None)[0];
    let configuration = algorithm.configuration().expect("a kernel by TMA");
    let configuration =
        Configuration { tile, schedule: Cooperative, transposed: false, stages: 2, ..configuration };
    let gemm = gemm.algorithm(Algorithm::Wgmma(configuration));
    let error = operations.gemm(&stream, &gemm, &one, &of_16, &mut c).map(|_| ()).expect_err("24 columns");
    assert!(error.to_string().contains("24 columns of a tile are stored at once"), "{error}");
    Ok(())
}

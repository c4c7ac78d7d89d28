//! Every form of the GEMM over a grid of shapes, types, orders and epilogues, held to a problem in
//! f64.
//!
//! Inputs are small whole numbers and scales are powers of two, so that every sum is exact and
//! results must be what the reference rounds to; an activation by `tanh.approx` may be off by what
//! the PTX ISA allows. A failure prints its case, which names its seed.
//!
//! `cargo test -p warpwright-kernels --test it gemm_grid` takes each pair of choices at least once,
//! `cargo run -p xtask -- sweep gemm_grid` all of them together.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, LaunchCounts, Schedule, Storable, Stream};
use warpwright_kernels::gemm::device::schedule::Schedule as Accumulators;
use warpwright_kernels::gemm::host::config::{Algorithm, Configuration};
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::gemm::problem::types::{GemmOutput, MatrixLayout, MultipliesWith};
use warpwright_kernels::gemm::{Gemm, GroupMember};
use warpwright_kernels::operations::Operations;
use warpwright_testing::{in_threads, one_in};

use crate::emulated::{blackwell, hopper};
use crate::matrices::{element_index, whole};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How products are put together.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// One.
    Single,
    /// Three, with that many elements between their matrices.
    Batch(u64),
    /// Three with one B.
    Shared,
    /// The rows of A in four groups, one of none.
    AlongM,
    /// Three of unlike extents; one of them lies in other orders.
    Group,
}

const FORMS: [Form; 6] =
    [Form::Single, Form::Batch(0), Form::Batch(1), Form::Shared, Form::AlongM, Form::Group];

/// A vector, a tile's edges on both sides, primes, narrow and long ones, and rows that TMA reads
/// beside those that it does not.
const SHAPES: [(u32, u32, u32); 8] = [
    (1, 1, 1),
    (1, 67, 40),
    (5, 136, 65),
    (64, 8, 128),
    (65, 129, 33),
    (130, 72, 264),
    (37, 48, 7),
    (127, 31, 100),
];

const ORDERS: [(MatrixLayout, MatrixLayout); 4] = [
    (MatrixLayout::RowMajor, MatrixLayout::ColumnMajor),
    (MatrixLayout::RowMajor, MatrixLayout::RowMajor),
    (MatrixLayout::ColumnMajor, MatrixLayout::ColumnMajor),
    (MatrixLayout::ColumnMajor, MatrixLayout::RowMajor),
];

const INPUTS: [&str; 5] = ["bf16", "f16", "tf32", "e4m3", "e5m2"];
const OUTPUTS: [&str; 3] = ["f32", "bf16", "f16"];

/// Which parts an epilogue has.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts {
    alpha: f32,
    beta: f32,
    scales: bool,
    bias: bool,
    activation: Activation,
}

const PLAIN: Parts =
    Parts { alpha: 1.0, beta: 0.0, scales: false, bias: false, activation: Activation::Identity };

const EPILOGUES: [Parts; 5] = [
    PLAIN,
    Parts { alpha: 0.25, beta: 0.5, ..PLAIN },
    Parts { bias: true, activation: Activation::Relu, ..PLAIN },
    Parts { scales: true, bias: true, beta: -1.0, ..PLAIN },
    Parts { alpha: 0.125, scales: true, activation: Activation::Gelu, ..PLAIN },
];

#[derive(Clone, Copy, Debug)]
struct Case {
    form: Form,
    shape: (u32, u32, u32),
    orders: (MatrixLayout, MatrixLayout),
    input: &'static str,
    output: &'static str,
    epilogue: Parts,
    seed: u64,
}

/// One of several products, on the host.
struct Part {
    problem: Problem,
    a: Vec<f32>,
    b: Vec<f32>,
    before: Vec<f32>,
    row_scales: Vec<f32>,
    column_scales: Vec<f32>,
    bias: Vec<f32>,
}

impl Part {
    fn new(problem: Problem, seed: u64) -> Self {
        let [m, n, k] = [problem.m, problem.n, problem.k].map(|extent| extent as usize);
        let powers = |count, seed| whole(count, seed).into_iter().map(f32::exp2).collect();
        Self {
            problem,
            a: whole(m * k, seed),
            b: whole(k * n, seed + 1),
            before: whole(m * n, seed + 2),
            row_scales: powers(m, seed + 3),
            column_scales: powers(n, seed + 4),
            bias: whole(n, seed + 5),
        }
    }

    /// What C should hold, and how far it may be from it before it is rounded.
    fn expected(&self, epilogue: Parts) -> Vec<(f64, f64)> {
        let Problem { m, n, k, a, b } = self.problem;
        let [m, n, k] = [m, n, k].map(|extent| extent as usize);
        let element = |row: usize, column: usize| {
            let terms = (0..k).map(|step| {
                f64::from(self.a[element_index(a, row, step, (m, k))])
                    * f64::from(self.b[element_index(b, step, column, (k, n))])
            });
            let mut value = f64::from(epilogue.alpha) * terms.sum::<f64>();
            if epilogue.scales {
                value *= f64::from(self.row_scales[row]) * f64::from(self.column_scales[column]);
            }
            if epilogue.bias {
                value += f64::from(self.bias[column]);
            }
            let x = value;
            let (value, slack) = match epilogue.activation {
                Activation::Identity => (x, 0.0),
                Activation::Relu => (x.max(0.0), 0.0),
                // tanh.approx is off by 2^-11 at most (PTX ISA, "tanh"), which multiplies half of
                // the accumulator.
                Activation::Gelu => {
                    let inner = 0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x);
                    (x / 2.0 * (1.0 + inner.tanh()), x.abs() / 2048.0 + 1e-6)
                }
                Activation::Silu => (x / (1.0 + (-x).exp()), x.abs() / 2048.0 + 1e-6),
            };
            (value + f64::from(epilogue.beta) * f64::from(self.before[row * n + column]), slack)
        };
        (0..m * n).map(|index| element(index / n, index % n)).collect()
    }
}

/// A type of C, to and from the host's.
trait Output: GemmOutput + Storable {
    fn round(value: f64) -> Self;
    fn exact(self) -> f64;
    /// The error of one rounding, as a part of the value.
    const ROUNDING: f64;
}

macro_rules! outputs {
    ($($ty:ident, $bits:literal, $round:expr;)*) => {
        $(impl Output for $ty {
            const ROUNDING: f64 = 1.0 / (1u64 << $bits) as f64;
            fn round(value: f64) -> Self {
                ($round)(value as f32)
            }
            fn exact(self) -> f64 {
                f64::from(self)
            }
        })*
    };
}

outputs! {
    f32, 24, |value: f32| value;
    bf16, 8, bf16::from_f32;
    f16, 11, f16::from_f32;
}

/// Compares a C, gaps left out, with what it should be.
fn compare<C: Output>(found: &[C], part: &Part, epilogue: Parts, what: &str) -> Result<()> {
    let n = part.problem.n as usize;
    for (index, (found, (expected, slack))) in found.iter().zip(part.expected(epilogue)).enumerate() {
        let found = found.exact();
        let is_right = match slack {
            0.0 => found == C::round(expected).exact(),
            slack => (found - expected).abs() <= slack + 1.01 * C::ROUNDING * expected.abs(),
        };
        if !is_right {
            return Err(format!("{what}: {found} at ({}, {}), not {expected}", index / n, index % n).into());
        }
    }
    Ok(())
}

/// The cheapest algorithm by TMA, and the cheapest of pairs of CTAs, if the device has them.
fn by_tma(algorithms: &[Algorithm]) -> Vec<Algorithm> {
    let first = |is: fn(&Configuration) -> bool| {
        algorithms.iter().copied().find(|algorithm| algorithm.configuration().as_ref().is_some_and(is))
    };
    let is_paired = |at: &Configuration| at.schedule == Accumulators::PairedTensorMemory;
    [first(|_| true), first(is_paired)].into_iter().flatten().collect()
}

/// A device's side of a case.
struct Bench<'a, T, C> {
    operations: &'a Operations,
    stream: &'a Stream,
    input: fn(f32) -> T,
    epilogue: Parts,
    output: std::marker::PhantomData<C>,
}

/// The vectors of an epilogue on the device.
struct Vectors([Option<Buffer<f32>>; 3]);

impl Vectors {
    fn linear(&self, epilogue: Parts) -> Linear<'_> {
        let Self([row_scales, column_scales, bias]) = self;
        Linear {
            alpha: epilogue.alpha,
            beta: epilogue.beta,
            row_scales: row_scales.as_ref(),
            column_scales: column_scales.as_ref(),
            bias: bias.as_ref(),
            activation: epilogue.activation,
        }
    }
}

impl<T: MultipliesWith<T>, C: Output> Bench<'_, T, C> {
    fn operand(&self, values: &[f32]) -> Result<Buffer<T>> {
        let values: Vec<T> = values.iter().map(|&value| (self.input)(value)).collect();
        Ok(self.operations.device().buffer_from(&values)?)
    }

    fn before(&self, values: &[f32]) -> Result<Buffer<C>> {
        let values: Vec<C> = values.iter().map(|&value| C::round(value.into())).collect();
        Ok(self.operations.device().buffer_from(&values)?)
    }

    /// The vectors of all parts, one after another.
    fn vectors(&self, parts: &[&Part], with_rows: bool) -> Result<Vectors> {
        let all = |wanted: bool, of: fn(&Part) -> &Vec<f32>| -> Result<_> {
            let values: Vec<f32> = parts.iter().flat_map(|part| of(part).clone()).collect();
            Ok(if wanted { Some(self.operations.device().buffer_from(&values)?) } else { None })
        };
        let Parts { scales, bias, .. } = self.epilogue;
        let rows = all(scales && with_rows, |part| &part.row_scales)?;
        Ok(Vectors([rows, all(scales, |part| &part.column_scales)?, all(bias, |part| &part.bias)?]))
    }

    /// By the library's choice, and where there is no epilogue, by algorithms by TMA as well.
    fn each_algorithm(
        &self,
        algorithms: &[Algorithm],
        mut choose: impl FnMut(Option<Algorithm>) -> Result<LaunchCounts>,
    ) -> Result<()> {
        if self.epilogue == PLAIN {
            for algorithm in by_tma(algorithms) {
                choose(Some(algorithm))?;
            }
        }
        choose(None).map(|_| ())
    }

    fn algorithms(&self, batch: Batch) -> Vec<Algorithm> {
        self.operations.gemm_algorithms::<T, C>(&Gemm::from(batch), None)
    }

    /// Products of one shape, whose matrices lie one after another.
    fn batch(&self, batch: Batch, parts: &[Part]) -> Result<()> {
        let (operations, stream) = (self.operations, self.stream);
        let spread = |stride: u64, of: fn(&Part) -> &Vec<f32>| {
            let mut all: Vec<f32> = Vec::new();
            for (number, part) in parts.iter().enumerate() {
                let (start, matrix) = (number * stride as usize, of(part));
                all.resize(all.len().max(start + matrix.len()), 1.0);
                all[start..][..matrix.len()].copy_from_slice(matrix);
            }
            all
        };
        let a = self.operand(&spread(batch.a_stride, |part| &part.a))?;
        let b = self.operand(&spread(batch.b_stride, |part| &part.b))?;
        let before = spread(batch.c_stride, |part| &part.before);
        let vectors = self.vectors(&parts.iter().collect::<Vec<_>>(), true)?;
        let linear = vectors.linear(self.epilogue);
        self.each_algorithm(&self.algorithms(batch), |algorithm| {
            let mut c = self.before(&before)?;
            let counts = match (algorithm, batch.count) {
                (Some(algorithm), _) => {
                    operations.gemm(stream, &Gemm::from(batch).algorithm(algorithm), &a, &b, &mut c)?
                }
                (None, 1) => {
                    operations.gemm(stream, &Gemm::from(batch.problem).epilogue(linear), &a, &b, &mut c)?
                }
                (None, _) => operations.gemm(stream, &Gemm::from(batch).epilogue(linear), &a, &b, &mut c)?,
            };
            let c = c.to_vec()?;
            for (number, part) in parts.iter().enumerate() {
                let start = number * batch.c_stride as usize;
                let what = format!("problem {number} by {algorithm:?}");
                compare(&c[start..][..part.before.len()], part, self.epilogue, &what)?;
                // What lies between the matrices is as it was.
                let gap = start + part.before.len()..c.len().min(start + batch.c_stride as usize);
                assert!(c[gap].iter().all(|element| element.exact() == 1.0), "{what} wrote past its C");
            }
            Ok(counts)
        })
    }

    /// Groups of rows, each times a B of its own.
    fn along_m(&self, parts: &[Part]) -> Result<()> {
        let (operations, stream) = (self.operations, self.stream);
        let all = |of: fn(&Part) -> &Vec<f32>| -> Vec<f32> {
            parts.iter().flat_map(|part| of(part).clone()).collect()
        };
        let (a, b) = (self.operand(&all(|part| &part.a))?, self.operand(&all(|part| &part.b))?);
        let mut offsets = vec![0];
        parts.iter().for_each(|part| offsets.push(offsets[offsets.len() - 1] + part.problem.m));
        let rows = offsets[parts.len()];
        let offsets = operations.device().buffer_from(&offsets)?;
        let Problem { n, k, b: order, .. } = parts[0].problem;
        let groups = Gemm::new(rows, n, k).layouts(MatrixLayout::RowMajor, order).along_m(&offsets);
        let vectors = self.vectors(&parts.iter().collect::<Vec<_>>(), true)?;
        let linear = vectors.linear(self.epilogue);
        self.each_algorithm(&operations.gemm_algorithms::<T, C>(&groups, None), |algorithm| {
            let mut c = self.before(&all(|part| &part.before))?;
            let counts = match algorithm {
                Some(algorithm) => operations.gemm(stream, &groups.algorithm(algorithm), &a, &b, &mut c)?,
                None => operations.gemm(stream, &groups.epilogue(linear), &a, &b, &mut c)?,
            };
            let (c, mut start) = (c.to_vec()?, 0);
            for (number, part) in parts.iter().enumerate() {
                let elements = part.before.len();
                compare(
                    &c[start..][..elements],
                    part,
                    self.epilogue,
                    &format!("group {number} by {algorithm:?}"),
                )?;
                start += elements;
            }
            Ok(counts)
        })
    }

    /// Products with nothing in common; the last has no epilogue.
    fn group(&self, parts: &[Part]) -> Result<()> {
        let (operations, stream) = (self.operations, self.stream);
        let epilogue = |number: usize| if number + 1 == parts.len() { PLAIN } else { self.epilogue };
        let mut operands = Vec::new();
        for part in parts {
            operands.push((self.operand(&part.a)?, self.operand(&part.b)?, self.vectors(&[part], true)?));
        }
        let problems: Vec<_> = parts.iter().map(|part| part.problem).collect();
        let algorithms = operations.grouped_algorithms::<T, C>(&problems, None);
        let others = by_tma(&algorithms).into_iter().map(Some);
        for algorithm in [None].into_iter().chain(others) {
            let before = parts.iter().map(|part| self.before(&part.before));
            let mut cs = before.collect::<Result<Vec<_>>>()?;
            let mut members = Vec::new();
            for (number, ((part, (a, b, vectors)), c)) in parts.iter().zip(&operands).zip(&mut cs).enumerate()
            {
                let mut gemm = Gemm::from(part.problem);
                if epilogue(number) != PLAIN {
                    gemm = gemm.epilogue(vectors.linear(self.epilogue));
                }
                let gemm = algorithm.map_or(gemm, |algorithm| gemm.algorithm(algorithm));
                members.push(GroupMember::new(gemm, a, b, c));
            }
            operations.gemm_grouped(stream, &mut members)?;
            for (number, (c, part)) in cs.iter().zip(parts).enumerate() {
                compare(&c.to_vec()?, part, epilogue(number), &format!("member {number} by {algorithm:?}"))?;
            }
        }
        Ok(())
    }
}

fn run_typed<T: MultipliesWith<T>, C: Output>(
    device: &Device,
    case: Case,
    input: fn(f32) -> T,
) -> Result<()> {
    let (operations, stream) = (Operations::new(device), device.stream()?);
    let bench = Bench::<T, C> {
        operations: &operations,
        stream: &stream,
        input,
        epilogue: case.epilogue,
        output: std::marker::PhantomData,
    };
    let ((m, n, k), (a, b), seed) = (case.shape, case.orders, case.seed);
    let problem = Problem { m, n, k, a, b };
    let parts = |products: &[Problem]| -> Vec<Part> {
        products.iter().zip(0..).map(|(&problem, number)| Part::new(problem, seed + 10 * number)).collect()
    };
    match case.form {
        Form::Single => bench.batch(problem.into(), &parts(&[problem])),
        Form::Batch(gap) => {
            let Batch { a_stride, b_stride, c_stride, .. } = Batch::new(problem, 3);
            let (a_stride, b_stride, c_stride) = (a_stride + gap, b_stride + gap, c_stride + gap);
            bench.batch(Batch { problem, count: 3, a_stride, b_stride, c_stride }, &parts(&[problem; 3]))
        }
        Form::Shared => {
            let mut parts = parts(&[problem; 3]);
            let shared = parts[0].b.clone();
            parts.iter_mut().for_each(|part| part.b.clone_from(&shared));
            bench.batch(Batch::new(problem, 3).sharing_b(), &parts)
        }
        Form::AlongM => {
            let group = |m| Problem { m, a: MatrixLayout::RowMajor, ..problem };
            bench.along_m(&parts(&[group(m), group(0), group(m / 2 + 1), group(3)]))
        }
        Form::Group => {
            let (wide, high) = (Problem { m: n, n: m, ..problem }, Problem { k: k + 9, ..problem });
            bench.group(&parts(&[problem, wide, Problem { a: b, b: a, ..high }]))
        }
    }
}

fn run(device: &Device, case: Case) -> Result<()> {
    fn with_output<T: MultipliesWith<T>>(device: &Device, case: Case, input: fn(f32) -> T) -> Result<()> {
        match case.output {
            "f32" => run_typed::<T, f32>(device, case, input),
            "bf16" => run_typed::<T, bf16>(device, case, input),
            _ => run_typed::<T, f16>(device, case, input),
        }
    }
    let outcome = match case.input {
        "bf16" => with_output(device, case, bf16::from_f32),
        "f16" => with_output(device, case, f16::from_f32),
        "tf32" => with_output(device, case, tf32),
        "e4m3" => with_output(device, case, e4m3::from_f32),
        _ => with_output(device, case, e5m2::from_f32),
    };
    outcome.map_err(|error| format!("{case:?} on {}: {error}", device.properties().name).into())
}

/// Each form meets each type and each order, and each type each order; over all of them, each
/// shape, output and epilogue. A sweep takes every form in every type and order.
#[test]
fn every_form_is_right_in_every_type_and_order() -> Result<()> {
    let devices =
        [hopper(Schedule::Eager)?, hopper(Schedule::Latest)?, hopper(Schedule::Random(1))?.checked()?];
    let types = FORMS.into_iter().flat_map(|form| INPUTS.map(|input| (form, input)));
    let all = types.flat_map(|(form, input)| ORDERS.map(|orders| (form, input, orders))).enumerate();
    for (number, (form, input, orders)) in one_in(5, all) {
        let case = Case {
            form,
            shape: SHAPES[number % SHAPES.len()],
            orders,
            input,
            output: OUTPUTS[number / 3 % OUTPUTS.len()],
            epilogue: EPILOGUES[number % EPILOGUES.len()],
            seed: 1000 + number as u64,
        };
        run(&devices[number / 9 % devices.len()], case)?;
    }
    Ok(())
}

/// Accumulators in tensor memory, of each form, type and order.
#[test]
fn every_form_is_right_on_blackwell() -> Result<()> {
    let devices = [
        blackwell(Schedule::Eager)?,
        blackwell(Schedule::Latest)?,
        blackwell(Schedule::Random(4))?.checked()?,
    ];
    let types = FORMS.into_iter().flat_map(|form| INPUTS.map(|input| (form, input)));
    let all = types.flat_map(|(form, input)| ORDERS.map(|orders| (form, input, orders))).enumerate();
    for (number, (form, input, orders)) in one_in(7, all) {
        let case = Case {
            form,
            shape: SHAPES[(number + 3) % SHAPES.len()],
            orders,
            input,
            output: OUTPUTS[number % OUTPUTS.len()],
            epilogue: EPILOGUES[number % EPILOGUES.len()],
            seed: 4000 + number as u64,
        };
        run(&devices[number % devices.len()], case)?;
    }
    Ok(())
}

/// What has no warpgroups multiplies types of 16 bits by `mma.sync`.
#[test]
fn every_form_is_right_on_ampere() -> Result<()> {
    let device = Device::named("emu:a100")?;
    let all = FORMS.into_iter().flat_map(|form| ORDERS.map(|orders| (form, orders))).enumerate();
    for (turn, (form, orders)) in one_in(3, all) {
        let case = Case {
            form,
            shape: SHAPES[turn % SHAPES.len()],
            orders,
            input: INPUTS[turn % 2],
            output: OUTPUTS[turn % OUTPUTS.len()],
            epilogue: EPILOGUES[turn % EPILOGUES.len()],
            seed: 2000 + turn as u64,
        };
        run(&device, case)?;
    }
    Ok(())
}

#[test]
#[ignore = "a quarter of an hour long: all choices together"]
fn the_whole_grid_is_right() {
    let all = FORMS.into_iter().flat_map(|form| SHAPES.map(|shape| (form, shape)));
    in_threads(all.zip(0..), |((form, shape), part)| {
        let device = hopper(Schedule::Random(11)).expect("an emulated device");
        let mut seed = 3000 + part * 1000;
        for orders in ORDERS {
            for input in INPUTS {
                for output in OUTPUTS {
                    for epilogue in EPILOGUES {
                        seed += 1;
                        let case = Case { form, shape, orders, input, output, epilogue, seed };
                        run(&device, case).expect("it is right");
                    }
                }
            }
        }
    });
}

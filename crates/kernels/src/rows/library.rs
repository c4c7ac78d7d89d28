//! The row kernels for the command line: inputs, f64 references, and the tolerances they are held to.

use rayon::prelude::*;
use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device};

use super::exchange;
use super::operations::launch;
use super::plan::Turnover;
use super::{
    AddRmsNorm, CrossEntropy, Form, Gain, IGNORED, LayerNorm, Plan, RmsNorm, RowElement, Softmax, Traffic,
    Tuning,
};
use crate::copy;
use crate::number::{HostNumber, Values, with_type};
use crate::prepared::{PLANNED_SMS, capability_of, ptx};
use crate::reference::Random;
use crate::registry::{
    Element, LibraryKernel, OptionSpec, Options, Prepared, Result, Verified, Work, compare, together,
};
use crate::rotation::rotating;

/// A type that rows are stored in, on the host as on the device.
pub(crate) trait RowNumber: RowElement + HostNumber {}

impl<T: RowElement + HostNumber> RowNumber for T {}

const ROWS: OptionSpec = OptionSpec::number("rows", 64, "rows of the matrix");
const COLUMNS: OptionSpec = OptionSpec::extent("columns", 4096, "columns of the matrix");
const INPUT: OptionSpec = OptionSpec::choice("input", &["bf16", "f16", "f32"], "type read");
const OUTPUT: OptionSpec = OptionSpec::choice("output", &["bf16", "f16", "f32"], "type written");
const GAIN: OptionSpec =
    OptionSpec::choice("gain", &["zero-centred", "weight"], "multiply by 1 + w, or by w");
const VALUES: OptionSpec = OptionSpec::choice("values", Values::WORDS, "what the inputs are like");
const SEED: OptionSpec = OptionSpec::number("seed", 1, "of the inputs");
const THREADS: OptionSpec =
    OptionSpec::number("threads", 0, "of one CTA for a row, 0 where the length decides");
const CTAS: OptionSpec = OptionSpec::number("ctas", 0, "for a row, 0 where the length decides");
const STEPS: OptionSpec =
    OptionSpec::number("steps", 0, "vectors of a row that a thread holds, 0 where the length decides");
const CTAS_PER_SM: OptionSpec = OptionSpec::number("ctas-per-sm", 0, "0 where their threads decide");
const TURNOVER: OptionSpec = OptionSpec::choice(
    "turnover",
    &["best", "leave", "stay", "ring", "stagger", "spread"],
    "of clusters: one starts for each row; or they stay; and the next rows come to shared memory; and are read while one is written; or all SMs share each row",
);
const STAGES: OptionSpec =
    OptionSpec::number("stages", 0, "of the rows in shared memory, 0 where room decides");
const CLUSTERS: OptionSpec = OptionSpec::number("clusters", 0, "that stay at most, 0 for as many as fit");
const EVICT: OptionSpec =
    OptionSpec::choice("evict", &["normal", "first"], "when L2 gives up what comes to shared memory");
const WRITE: OptionSpec =
    OptionSpec::choice("write", &["best", "normal", "first"], "when L2 gives up what is written");

/// What is added to the mean of squares.
const EPSILON: f32 = 1e-6;

/// What the options ask for.
#[derive(Clone, Copy)]
struct Problem {
    rows: u32,
    columns: u32,
    values: Values,
    seed: u64,
    tuning: Tuning,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let turnover = match options.choice("turnover") {
            "leave" => Some(Turnover::Leave),
            "stay" => Some(Turnover::Stay),
            "ring" => Some(Turnover::Ring),
            "stagger" => Some(Turnover::Stagger),
            "spread" => Some(Turnover::Spread),
            _ => None,
        };
        Ok(Self {
            rows: options.u32("rows")?,
            columns: options.u32("columns")?,
            values: Values::named(options.choice("values")),
            seed: options.number("seed"),
            tuning: Tuning {
                threads: options.u32("threads")?,
                ctas: options.u32("ctas")?,
                steps: options.u32("steps")?,
                ctas_per_sm: options.u32("ctas-per-sm")?,
                turnover,
                stages: options.u32("stages")?,
                clusters: options.u32("clusters")?,
                evicts: options.choice("evict") == "first",
                streams: match options.choice("write") {
                    "normal" => Some(false),
                    "first" => Some(true),
                    _ => None,
                },
            },
        })
    }

    fn elements(&self) -> usize {
        self.rows as usize * self.columns as usize
    }

    /// The plan on a device.
    fn plan_on<T: RowNumber>(&self, traffic: Traffic, device: &Device) -> Result<Plan> {
        let properties = device.properties();
        self.plan::<T>(traffic, properties.capability, properties.sm_count)
    }

    /// The plan for a kernel that moves so much: the measured one where no option asks for another.
    fn plan<T: RowNumber>(&self, traffic: Traffic, capability: &Capability, sms: u32) -> Result<Plan> {
        if self.tuning == Tuning::default() {
            return Ok(Plan::new::<T>(self.columns, traffic, capability, sms));
        }
        let plan = Plan::of_length::<T>(self.columns, traffic, capability);
        Ok(plan.tuned::<T>(traffic, self.tuning, capability)?)
    }

    fn matrix<T: RowNumber>(&self, device: &Device, seed: u64) -> Result<Buffer<T>> {
        Ok(device.buffer_from(&self.values.numbers::<T>(seed, self.elements()))?)
    }

    /// What all rows have in common. Never special: one NaN among the weights would hide a column.
    fn vector<T: RowNumber>(&self, device: &Device, seed: u64) -> Result<Buffer<T>> {
        Ok(device.buffer_from(&Values::Normal.numbers::<T>(seed, self.columns as usize))?)
    }

    /// Bytes of matrices of these element sizes, read or written once.
    fn work(&self, bytes: &[usize], operations: f64) -> Work {
        let elements = self.elements() as f64;
        Work { operations: operations * elements, bytes: elements * bytes.iter().sum::<usize>() as f64 }
    }

    /// Compares a matrix with what `expected` says of each row: values and tolerances.
    fn verify<U: RowNumber>(
        &self,
        found: &Buffer<U>,
        expected: impl Fn(usize) -> Vec<(f64, f64)> + Sync,
    ) -> Result<Verified> {
        let (found, columns) = (found.to_vec()?, self.columns as usize);
        let each = found.par_chunks(columns).enumerate().map(|(row, found)| {
            let elements = found.iter().zip(expected(row)).map(|(found, (expected, tolerance))| {
                // An f64 past the output's range is its infinity.
                let expected = U::nearest(expected).value();
                let rounding = 1.01 * U::ROUNDING * expected.abs() + U::SMALLEST;
                Element { found: found.value(), expected, tolerance: tolerance + 2.0 * rounding }
            });
            compare(elements, |column| vec![row, column as usize])
        });
        Ok(together(each.collect::<Vec<_>>())?)
    }
}

/// A row of a matrix in f64.
fn row_of<T: RowNumber>(matrix: &[T], row: usize, columns: usize) -> Vec<f64> {
    matrix[row * columns..][..columns].iter().map(|value| value.value()).collect()
}

/// Maximum and sum of exponentials of a row; a maximum that is NaN where an element is.
fn log_sum(row: &[f64]) -> (f64, f64) {
    let maximum = row
        .iter()
        .fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(*b) });
    (maximum, row.iter().map(|value| (value - maximum).exp()).sum())
}

/// How far an f32 computation of a few roundings and approximations may be off, as a part of the value.
const SINGLE: f64 = 16.0 / (1u64 << 24) as f64;

/// The relative error of a sum of `columns` terms of one sign: threads add up to 32 in a row, and trees do the rest.
fn sum_error(columns: u32) -> f64 {
    (48.0 + f64::from(columns) / 8192.0) / (1u64 << 24) as f64
}

fn prepare_softmax<T: RowNumber, U: RowNumber>(
    device: &Device,
    problem: Problem,
    form: Form,
) -> Result<Box<dyn Prepared>> {
    let plan = problem.plan_on::<T>(Traffic::SOFTMAX, device)?;
    let compiled = device.compile(&Softmax { plan, form }.run::<T, U>()?)?;
    let mut exchange = device.zeros(exchange::words(plan))?;
    let Problem { rows, columns, .. } = problem;
    rotating(
        device,
        problem.seed,
        problem.work(&[size_of::<T>(), size_of::<U>()], 5.0),
        |seed| Ok((problem.matrix::<T>(device, seed)?, device.uninitialized::<U>(problem.elements())?)),
        move |stream, (x, y)| Ok(launch(&compiled, stream, plan, rows, (x, y, &mut exchange, rows))?),
        move |(x, y)| {
            let x = x.to_vec()?;
            problem.verify(y, |row| {
                let row = row_of(&x, row, columns as usize);
                let (maximum, sum) = log_sum(&row);
                let value = |x: f64| {
                    // The exponent itself is rounded: its error grows with its size.
                    let error = SINGLE * (1.0 + (x - maximum).abs()) + sum_error(columns);
                    match form {
                        Form::Probabilities => {
                            let y = (x - maximum).exp() / sum;
                            (y, y * error + f64::from(f32::MIN_POSITIVE))
                        }
                        Form::Logarithms => (x - maximum - sum.ln(), error * (1.0 + sum.ln())),
                    }
                };
                row.iter().map(|x| value(*x)).collect()
            })
        },
    )
}

fn gain(options: &Options) -> Gain {
    if options.choice("gain") == "weight" { Gain::Weight } else { Gain::ZeroCentred }
}

/// A row times its reciprocal root mean square and the gains, and how far off f32 may be.
fn normalised(row: &[f64], weights: &[f64], gain: Gain) -> Vec<(f64, f64)> {
    // f32 squares overflow where f64's do not.
    let squares: f64 = row.iter().map(|x| x * x).sum();
    let squares = if squares > f64::from(f32::MAX) { f64::INFINITY } else { squares };
    let root = 1.0 / (squares / row.len() as f64 + f64::from(EPSILON)).sqrt();
    let error = SINGLE + sum_error(row.len() as u32);
    let value = |(x, w): (&f64, &f64)| {
        let y = x * root * if gain == Gain::Weight { *w } else { 1.0 + w };
        (y, error * y.abs())
    };
    row.iter().zip(weights).map(value).collect()
}

fn prepare_rms_norm<T: RowNumber, U: RowNumber>(
    device: &Device,
    problem: Problem,
    gain: Gain,
) -> Result<Box<dyn Prepared>> {
    let plan = problem.plan_on::<T>(Traffic::RMS_NORM, device)?;
    let compiled = device.compile(&RmsNorm { plan, gain }.run::<T, U>()?)?;
    let mut exchange = device.zeros(exchange::words(plan))?;
    let Problem { rows, columns, .. } = problem;
    rotating(
        device,
        problem.seed,
        problem.work(&[size_of::<T>(), size_of::<U>()], 4.0),
        |seed| {
            let (x, w) = (problem.matrix::<T>(device, seed)?, problem.vector::<T>(device, !seed)?);
            Ok((x, w, device.uninitialized::<U>(problem.elements())?))
        },
        move |stream, (x, w, y)| {
            Ok(launch(&compiled, stream, plan, rows, (x, w, y, &mut exchange, rows, EPSILON))?)
        },
        move |(x, w, y)| {
            let (x, w) = (x.to_vec()?, row_of(&w.to_vec()?, 0, columns as usize));
            problem.verify(y, |row| normalised(&row_of(&x, row, columns as usize), &w, gain))
        },
    )
}

/// The buffers of a residual addition with normalisation.
struct AddSet<T> {
    x: Buffer<T>,
    r: Buffer<T>,
    w: Buffer<T>,
    s: Buffer<T>,
    y: Buffer<T>,
}

fn prepare_add_rms_norm<T: RowNumber>(
    device: &Device,
    problem: Problem,
    gain: Gain,
) -> Result<Box<dyn Prepared>> {
    let plan = problem.plan_on::<T>(Traffic::ADD_RMS_NORM, device)?;
    let compiled = device.compile(&AddRmsNorm { plan, gain }.run::<T>()?)?;
    let mut exchange = device.zeros(exchange::words(plan))?;
    let Problem { rows, columns, .. } = problem;
    rotating(
        device,
        problem.seed,
        problem.work(&[size_of::<T>(); 4], 5.0),
        |seed| {
            Ok(AddSet {
                x: problem.matrix(device, seed)?,
                r: problem.matrix(device, seed.rotate_left(16))?,
                w: problem.vector(device, !seed)?,
                s: device.uninitialized(problem.elements())?,
                y: device.uninitialized(problem.elements())?,
            })
        },
        move |stream, AddSet { x, r, w, s, y }: &mut AddSet<T>| {
            Ok(launch(&compiled, stream, plan, rows, (x, r, w, s, y, &mut exchange, rows, EPSILON))?)
        },
        move |set| {
            let (x, r, w) = (set.x.to_vec()?, set.r.to_vec()?, row_of(&set.w.to_vec()?, 0, columns as usize));
            let sums = |row: usize| -> Vec<f64> {
                let at = row * columns as usize..(row + 1) * columns as usize;
                x[at.clone()].iter().zip(&r[at]).map(|(x, r)| x.sum(*r).value()).collect()
            };
            let s = problem.verify(&set.s, |row| sums(row).into_iter().map(|sum| (sum, 0.0)).collect())?;
            let y = problem.verify(&set.y, |row| normalised(&sums(row), &w, gain))?;
            Ok(Verified { elements: s.elements + y.elements, worst: s.worst.max(y.worst) })
        },
    )
}

/// LayerNorm of a row, and how far off f32 may be.
fn standardised(row: &[f64], weights: &[f64], biases: &[f64]) -> Vec<(f64, f64)> {
    let count = row.len() as f64;
    // Sums and squares overflow in f32 where they do not in f64.
    let single = |sum: f64| if sum.abs() > f64::from(f32::MAX) { sum * f64::INFINITY } else { sum };
    let mean = single(row.iter().sum()) / count;
    let size = row.iter().map(|x| x.abs()).sum::<f64>() / count;
    let squares = single(row.iter().map(|x| (x - mean) * (x - mean)).sum());
    let root = 1.0 / (squares / count + f64::from(EPSILON)).sqrt();
    let error = SINGLE + sum_error(row.len() as u32);
    // The mean is off by a part of the terms' size, which may be larger than it.
    let of_mean = sum_error(row.len() as u32) * size;
    let value = |(x, (w, b)): (&f64, (&f64, &f64))| {
        let scaled = (x - mean) * root * w;
        let tolerance = error * (scaled.abs() + b.abs()) + of_mean * (root * w).abs() * 2.0;
        (scaled + b, tolerance)
    };
    row.iter().zip(weights.iter().zip(biases)).map(value).collect()
}

fn prepare_layer_norm<T: RowNumber, U: RowNumber>(
    device: &Device,
    problem: Problem,
) -> Result<Box<dyn Prepared>> {
    let plan = problem.plan_on::<T>(Traffic::LAYER_NORM, device)?;
    let compiled = device.compile(&LayerNorm { plan }.run::<T, U>()?)?;
    let mut exchange = device.zeros(exchange::words(plan))?;
    let Problem { rows, columns, .. } = problem;
    rotating(
        device,
        problem.seed,
        problem.work(&[size_of::<T>(), size_of::<U>()], 8.0),
        |seed| {
            let (w, b) = (problem.vector::<T>(device, !seed)?, problem.vector::<T>(device, !seed - 1)?);
            let y = device.uninitialized::<U>(problem.elements())?;
            Ok((problem.matrix::<T>(device, seed)?, w, b, y))
        },
        move |stream, (x, w, b, y)| {
            Ok(launch(&compiled, stream, plan, rows, (x, w, b, y, &mut exchange, rows, EPSILON))?)
        },
        move |(x, w, b, y)| {
            let columns = columns as usize;
            let (x, w, b) = (x.to_vec()?, row_of(&w.to_vec()?, 0, columns), row_of(&b.to_vec()?, 0, columns));
            problem.verify(y, |row| standardised(&row_of(&x, row, columns), &w, &b))
        },
    )
}

/// Targets from a seed; one in sixteen is ignored.
fn targets(seed: u64, rows: u32, columns: u32) -> Vec<i64> {
    let mut random = Random::new(seed);
    let mut target =
        || if random.below(16) == 0 { IGNORED } else { random.below(columns.into()).cast_signed() };
    (0..rows).map(|_| target()).collect()
}

fn prepare_cross_entropy<T: RowNumber>(device: &Device, problem: Problem) -> Result<Box<dyn Prepared>> {
    let plan = problem.plan_on::<T>(Traffic::CROSS_ENTROPY, device)?;
    let compiled = device.compile(&CrossEntropy { plan }.run::<T>()?)?;
    let mut exchange = device.zeros(exchange::words(plan))?;
    let Problem { rows, columns, .. } = problem;
    rotating(
        device,
        problem.seed,
        problem.work(&[size_of::<T>()], 3.0),
        |seed| {
            let targets = device.buffer_from(&targets(!seed, rows, columns))?;
            Ok((problem.matrix::<T>(device, seed)?, targets, device.uninitialized::<f32>(rows as usize)?))
        },
        move |stream, (x, targets, losses)| {
            Ok(launch(&compiled, stream, plan, rows, (x, targets, losses, &mut exchange, rows))?)
        },
        move |(x, targets, losses)| {
            let (x, targets) = (x.to_vec()?, targets.to_vec()?);
            let of_rows = Problem { columns: 1, ..problem };
            of_rows.verify(losses, |row| {
                let Ok(target) = usize::try_from(targets[row]) else { return vec![(0.0, 0.0)] };
                let row = row_of(&x, row, columns as usize);
                let (maximum, sum) = log_sum(&row);
                let loss = maximum + sum.ln() - row[target];
                let error = (SINGLE + sum_error(columns)) * (1.0 + maximum.abs() + row[target].abs());
                vec![(loss, error)]
            })
        },
    )
}

/// Calls a generic function with the types that the options name.
macro_rules! with_input {
    ($options:expr, $input:ident => $body:expr) => {
        with_type!($options.choice("input"), ["bf16" bf16, "f16" f16, "f32" f32], $input => $body)
    };
}

macro_rules! with_types {
    ($options:expr, ($input:ident, $output:ident) => $body:expr) => {
        with_input!($options, $input => with_type!(
            $options.choice("output"), ["bf16" bf16, "f16" f16, "f32" f32], $output => $body
        ))
    };
}

fn plan<T: RowNumber>(traffic: Traffic, target: &str, options: &Options) -> Result<Plan> {
    Problem::of(options)?.plan::<T>(traffic, capability_of(target)?, PLANNED_SMS)
}

/// What a kernel moves of that many matrices of the input's and of the output's type.
fn bytes(options: &Options, (inputs, outputs): (usize, usize)) -> Result<Work> {
    let size = |name| match options.choice(name) {
        "f32" => 4,
        _ => 2,
    };
    let outputs = if outputs == 0 { 0 } else { outputs * size("output") };
    Ok(Problem::of(options)?.work(&[inputs * size("input"), outputs], 0.0))
}

/// A kernel of the library: its name, what it computes, its options, its PTX and its preparation.
macro_rules! library {
    ($(#[$doc:meta])* $kernel:ident, $name:literal, $summary:literal, $matrices:expr, [$($option:expr),*],
     |$target:ident, $ptx_options:ident| $ptx:expr, |$device:ident, $options:ident| $prepare:expr) => {
        $(#[$doc])*
        pub(crate) struct $kernel;

        impl LibraryKernel for $kernel {
            fn name(&self) -> &'static str {
                $name
            }

            fn summary(&self) -> &'static str {
                $summary
            }

            fn options(&self) -> &'static [OptionSpec] {
                const OPTIONS: &[OptionSpec] = &[
                    ROWS,
                    COLUMNS,
                    $($option,)*
                    THREADS,
                    CTAS,
                    STEPS,
                    CTAS_PER_SM,
                    TURNOVER,
                    STAGES,
                    CLUSTERS,
                    EVICT,
                    WRITE,
                ];
                OPTIONS
            }

            fn ptx(&self, $target: &str, $ptx_options: &Options) -> Result<String> {
                $ptx
            }

            fn prepare(&self, $device: &Device, $options: &Options) -> Result<Box<dyn Prepared>> {
                $prepare
            }

            fn rival(
                &self,
                name: &str,
                device: &Device,
                options: &Options,
            ) -> Option<Result<Box<dyn Prepared>>> {
                copy::rival(name, device, || bytes(options, $matrices))
            }
        }
    };
}

library! {
    /// [`Softmax`] for the command line.
    SoftmaxLibrary, "softmax", "softmax of each row: one pass over memory", (1, 1), [INPUT, OUTPUT, VALUES, SEED],
    |target, options| with_types!(options, (T, U) => {
        ptx(Softmax { plan: plan::<T>(Traffic::SOFTMAX, target, options)?, form: Form::Probabilities }.run::<T, U>()?, target)
    }),
    |device, options| with_types!(options, (T, U) => {
        prepare_softmax::<T, U>(device, Problem::of(options)?, Form::Probabilities)
    })
}

library! {
    /// [`Softmax`]'s logarithms for the command line.
    LogSoftmaxLibrary, "log-softmax", "logarithm of the softmax of each row", (1, 1), [INPUT, OUTPUT, VALUES, SEED],
    |target, options| with_types!(options, (T, U) => {
        ptx(Softmax { plan: plan::<T>(Traffic::SOFTMAX, target, options)?, form: Form::Logarithms }.run::<T, U>()?, target)
    }),
    |device, options| with_types!(options, (T, U) => {
        prepare_softmax::<T, U>(device, Problem::of(options)?, Form::Logarithms)
    })
}

library! {
    /// [`RmsNorm`] for the command line.
    RmsNormLibrary, "rms-norm", "RMSNorm of each row", (1, 1), [INPUT, OUTPUT, GAIN, VALUES, SEED],
    |target, options| with_types!(options, (T, U) => {
        ptx(RmsNorm { plan: plan::<T>(Traffic::RMS_NORM, target, options)?, gain: gain(options) }.run::<T, U>()?, target)
    }),
    |device, options| with_types!(options, (T, U) => {
        prepare_rms_norm::<T, U>(device, Problem::of(options)?, gain(options))
    })
}

library! {
    /// [`AddRmsNorm`] for the command line.
    AddRmsNormLibrary, "add-rms-norm", "s = x + r and RMSNorm of each row of s: both are written", (4, 0),
    [INPUT, GAIN, VALUES, SEED],
    |target, options| with_input!(options, T => {
        ptx(AddRmsNorm { plan: plan::<T>(Traffic::ADD_RMS_NORM, target, options)?, gain: gain(options) }.run::<T>()?, target)
    }),
    |device, options| with_input!(options, T => {
        prepare_add_rms_norm::<T>(device, Problem::of(options)?, gain(options))
    })
}

library! {
    /// [`LayerNorm`] for the command line.
    LayerNormLibrary, "layer-norm", "LayerNorm of each row", (1, 1), [INPUT, OUTPUT, VALUES, SEED],
    |target, options| with_types!(options, (T, U) => {
        ptx(LayerNorm { plan: plan::<T>(Traffic::LAYER_NORM, target, options)? }.run::<T, U>()?, target)
    }),
    |device, options| with_types!(options, (T, U) => {
        prepare_layer_norm::<T, U>(device, Problem::of(options)?)
    })
}

library! {
    /// [`CrossEntropy`] for the command line.
    CrossEntropyLibrary, "cross-entropy", "cross-entropy of each row against a target", (1, 0), [INPUT, VALUES, SEED],
    |target, options| with_input!(options, T => {
        ptx(CrossEntropy { plan: plan::<T>(Traffic::CROSS_ENTROPY, target, options)? }.run::<T>()?, target)
    }),
    |device, options| with_input!(options, T => {
        prepare_cross_entropy::<T>(device, Problem::of(options)?)
    })
}

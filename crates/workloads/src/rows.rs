//! The row kernels as workloads: inputs, f64 references and tolerances.

use warpwright::lang::{Kernel, StagingErrors};
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Compiled, HostParameter, LaunchCounts, Stream};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Verified, Work, Workload,
    compare, compare_parts, data_types, merge,
};

use warpwright_kernels::rows::workspace_words;
use warpwright_kernels::rows::{
    AddRmsNorm, CrossEntropy, Evict, Form, Gain, IGNORED, LayerNorm, Plan, RmsNorm, RowElement, RowScheduler,
    Softmax, Traffic, Tuning,
};
use warpwright_kernels::rows::{MAX_COLUMNS, launch};

data_types! {
    /// Types of rows.
    pub(crate) enum RowType by with_row_type { bf16, f16, f32 }
}

/// A type that rows are stored in, on the host as on the device.
pub(crate) trait RowNumber: RowElement + HostNumber {}

impl<T: RowElement + HostNumber> RowNumber for T {}

/// Options of every row kernel.
#[derive(Clone, Debug, Options)]
pub(crate) struct Rows {
    /// Rows of the matrix.
    #[option(default = 64)]
    rows: u32,
    /// Columns of the matrix.
    #[option(default = 4096, min = 1, max = MAX_COLUMNS)]
    columns: u32,
    /// Data type of the input.
    input: RowType,
    /// Distribution of the inputs.
    values: Values,
    /// The configuration.
    #[option(flatten)]
    tuning: TuningOptions,
}

/// The epsilon added to the mean of squares.
const EPSILON: f32 = 1e-6;

impl Rows {
    fn elements(&self) -> usize {
        self.rows as usize * self.columns as usize
    }

    /// A kernel with the plan that the options describe, for the input type `T`.
    fn kernel<T: RowNumber, Args>(
        &self,
        setup: &Setup,
        traffic: Traffic,
        stage: impl FnOnce(Plan) -> Staged<Args>,
    ) -> Result<RowKernel<Args>> {
        let (columns, capability) = (self.columns, setup.capability());
        let plan = match self.tuning.tuning() {
            Tuning::AUTO => Plan::new::<T>(columns, traffic, capability, setup.sm_count()),
            tuning => {
                Plan::of_length::<T>(columns, traffic, capability).tuned::<T>(traffic, tuning, capability)?
            }
        };
        let compiled = setup.device().compile(&stage(plan)?)?;
        let workspace = setup.device().zeros(workspace_words(plan))?;
        Ok(RowKernel { compiled, plan, rows: self.rows, workspace })
    }

    fn matrix<T: RowNumber>(&self, setup: &Setup, seed: u64) -> Result<Buffer<T>> {
        setup.values(self.values, seed, self.elements())
    }

    /// A vector that all rows share. Never special: a NaN among the weights would hide a column.
    fn vector<T: RowNumber>(&self, setup: &Setup, seed: u64) -> Result<Buffer<T>> {
        setup.values(Values::Normal, seed, self.columns as usize)
    }

    /// The work of reading or writing that many bytes, and of that many operations, per element.
    fn work(&self, bytes: u32, operations: f64) -> Work {
        let elements = self.elements() as f64;
        Work { operations: operations * elements, bytes: elements * f64::from(bytes) }
    }

    /// The work where matrices of the input type and of `output` are moved once.
    fn work_with(&self, output: RowType, operations: f64) -> Work {
        self.work(self.input_bytes() + with_row_type!(output, U => U::BYTES), operations)
    }

    fn input_bytes(&self) -> u32 {
        with_row_type!(self.input, T => T::BYTES)
    }
}

type Staged<Args> = std::result::Result<Kernel<Args>, StagingErrors>;

/// A compiled kernel, and the workspace of its reductions.
struct RowKernel<Args> {
    compiled: Compiled<Args>,
    plan: Plan,
    rows: u32,
    workspace: Buffer<u64>,
}

impl<Args: HostParameter> RowKernel<Args> {
    /// Launches it with the arguments that `arguments` makes of the workspace and the number of
    /// rows.
    fn launch<'a>(
        &'a mut self,
        stream: &Stream,
        arguments: impl FnOnce(&'a mut Buffer<u64>, u32) -> Args::Passed<'a>,
    ) -> Result<LaunchCounts> {
        let arguments = arguments(&mut self.workspace, self.rows);
        Ok(launch(&self.compiled, stream, self.plan, self.rows, arguments)?)
    }
}

/// Compares a matrix with the values and tolerances that `expected` returns for each row.
fn verify<U: RowNumber>(
    found: &Buffer<U>,
    columns: usize,
    expected: impl Fn(usize) -> Vec<(f64, f64)> + Sync,
) -> Result<Verified> {
    let found = found.to_vec()?;
    let rows = found.len() / columns.max(1);
    Ok(compare_parts(rows, &|row| {
        let found = &found[row * columns..][..columns];
        let elements = found.iter().zip(expected(row)).map(|(found, (expected, tolerance))| {
            // An f64 past the output's range is its infinity.
            let expected = U::nearest(expected).exact();
            let rounding = 1.01 * U::ROUNDING * expected.abs() + U::SMALLEST;
            Compared { found: found.exact(), expected, tolerance: tolerance + 2.0 * rounding }
        });
        compare(elements, |column| vec![row, column as usize])
    })?)
}

/// A row of a matrix in f64.
fn row_of<T: RowNumber>(matrix: &[T], row: usize, columns: usize) -> Vec<f64> {
    matrix[row * columns..][..columns].iter().map(|value| value.exact()).collect()
}

/// Maximum and sum of exponentials of a row; a maximum that is NaN where an element is.
fn log_sum(row: &[f64]) -> (f64, f64) {
    let maximum = row
        .iter()
        .fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(*b) });
    (maximum, row.iter().map(|value| (value - maximum).exp()).sum())
}

/// How far an f32 computation of a few roundings and approximations may be off, as a part of the
/// value.
const SINGLE: f64 = 16.0 / (1u64 << 24) as f64;

/// The relative error of a sum of `columns` terms of one sign: threads add up to 32 in a row, and
/// trees do the rest.
fn sum_error(columns: u32) -> f64 {
    (48.0 + f64::from(columns) / 8192.0) / (1u64 << 24) as f64
}

/// A row times its reciprocal root mean square and the gains, and how far off f32 may be.
fn normalized(row: &[f64], weights: &[f64], gain: Gain) -> Vec<(f64, f64)> {
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

/// Targets from a seed; one in sixteen is ignored.
fn targets(seed: u64, rows: u32, columns: u32) -> Vec<i64> {
    let mut random = Random::new(seed);
    let mut target =
        || if random.below(16) == 0 { IGNORED } else { random.below(columns.into()).cast_signed() };
    (0..rows).map(|_| target()).collect()
}

/// The softmax of each row, in one pass over memory.
#[derive(Clone, Debug, Options)]
pub(crate) struct SoftmaxWorkload {
    /// Shared options.
    #[option(flatten)]
    rows: Rows,
    /// Data type of the output.
    output: RowType,
}

/// The logarithm of the softmax of each row, in one pass over memory.
#[derive(Clone, Debug, Options)]
pub(crate) struct LogSoftmaxWorkload {
    /// Shared options.
    #[option(flatten)]
    rows: Rows,
    /// Data type of the output.
    output: RowType,
}

fn prepare_softmax<T: RowNumber, U: RowNumber>(
    rows: &Rows,
    work: Work,
    setup: &Setup,
    form: Form,
) -> Result<Box<dyn Prepared>> {
    let mut kernel =
        rows.kernel::<T, _>(setup, Traffic::SOFTMAX, |plan| Softmax { plan, form }.run::<T, U>())?;
    let columns = rows.columns;
    let buffers = setup
        .buffers(work, |seed| Ok((rows.matrix::<T>(setup, seed)?, setup.output::<U>(rows.elements())?)))?;
    Ok(buffers
        .launch(move |stream, (x, y)| kernel.launch(stream, |workspace, count| (x, y, workspace, count)))
        .verify(move |(x, y)| {
            let x = x.to_vec()?;
            verify(y, columns as usize, |row| {
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
        }))
}

impl Workload for SoftmaxWorkload {
    const NAME: &'static str = "softmax";

    fn work(&self) -> Work {
        self.rows.work_with(self.output, 5.0)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_row_type!(self.rows.input, T => with_row_type!(self.output, U => {
            prepare_softmax::<T, U>(&self.rows, self.work(), setup, Form::Probabilities)
        }))
    }
}

impl Workload for LogSoftmaxWorkload {
    const NAME: &'static str = "log-softmax";

    fn work(&self) -> Work {
        self.rows.work_with(self.output, 5.0)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_row_type!(self.rows.input, T => with_row_type!(self.output, U => {
            prepare_softmax::<T, U>(&self.rows, self.work(), setup, Form::Logarithms)
        }))
    }
}

/// RMSNorm of each row.
#[derive(Clone, Debug, Options)]
pub(crate) struct RmsNormWorkload {
    /// Shared options.
    #[option(flatten)]
    rows: Rows,
    /// Data type of the output.
    output: RowType,
    /// The factor that a weight w stands for.
    gain: Gain,
}

impl RmsNormWorkload {
    fn prepare_of<T: RowNumber, U: RowNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (rows, gain) = (&self.rows, self.gain);
        let stage = |plan| RmsNorm { plan, gain }.run::<T, U>();
        let mut kernel = rows.kernel::<T, _>(setup, Traffic::RMS_NORM, stage)?;
        let columns = rows.columns as usize;
        let buffers = setup.buffers(self.work(), |seed| {
            let (x, w) = (rows.matrix::<T>(setup, seed)?, rows.vector::<T>(setup, !seed)?);
            Ok((x, w, setup.output::<U>(rows.elements())?))
        })?;
        Ok(buffers
            .launch(move |stream, (x, w, y)| {
                kernel.launch(stream, |workspace, count| (x, w, y, workspace, count, EPSILON))
            })
            .verify(move |(x, w, y)| {
                let (x, w) = (x.to_vec()?, row_of(&w.to_vec()?, 0, columns));
                verify(y, columns, |row| normalized(&row_of(&x, row, columns), &w, gain))
            }))
    }
}

impl Workload for RmsNormWorkload {
    const NAME: &'static str = "rms-norm";

    fn work(&self) -> Work {
        self.rows.work_with(self.output, 4.0)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_row_type!(self.rows.input, T => with_row_type!(self.output, U => self.prepare_of::<T, U>(setup)))
    }
}

/// Adds two matrices, s = x + r, and computes RMSNorm of each row of s. Both are written.
#[derive(Clone, Debug, Options)]
pub(crate) struct AddRmsNormWorkload {
    /// Shared options.
    #[option(flatten)]
    rows: Rows,
    /// The factor that a weight w stands for.
    gain: Gain,
}

/// The buffers of a residual addition with normalization.
struct AddSet<T> {
    x: Buffer<T>,
    r: Buffer<T>,
    w: Buffer<T>,
    s: Buffer<T>,
    y: Buffer<T>,
}

impl AddRmsNormWorkload {
    fn prepare_of<T: RowNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (rows, gain) = (&self.rows, self.gain);
        let stage = |plan| AddRmsNorm { plan, gain }.run::<T>();
        let mut kernel = rows.kernel::<T, _>(setup, Traffic::ADD_RMS_NORM, stage)?;
        let columns = rows.columns as usize;
        let buffers = setup.buffers(self.work(), |seed| {
            Ok(AddSet::<T> {
                x: rows.matrix(setup, seed)?,
                r: rows.matrix(setup, seed.rotate_left(16))?,
                w: rows.vector(setup, !seed)?,
                s: setup.output(rows.elements())?,
                y: setup.output(rows.elements())?,
            })
        })?;
        Ok(buffers
            .launch(move |stream, AddSet { x, r, w, s, y }| {
                kernel.launch(stream, |workspace, count| (x, r, w, s, y, workspace, count, EPSILON))
            })
            .verify(move |set| {
                let (x, r, w) = (set.x.to_vec()?, set.r.to_vec()?, row_of(&set.w.to_vec()?, 0, columns));
                let sums = |row: usize| -> Vec<f64> {
                    let at = row * columns..(row + 1) * columns;
                    x[at.clone()].iter().zip(&r[at]).map(|(x, r)| x.sum(*r).exact()).collect()
                };
                let s = verify(&set.s, columns, |row| sums(row).into_iter().map(|sum| (sum, 0.0)).collect())?;
                let y = verify(&set.y, columns, |row| normalized(&sums(row), &w, gain))?;
                Ok(merge([Ok(s), Ok(y)])?)
            }))
    }
}

impl Workload for AddRmsNormWorkload {
    const NAME: &'static str = "add-rms-norm";

    fn work(&self) -> Work {
        self.rows.work(4 * self.rows.input_bytes(), 5.0)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_row_type!(self.rows.input, T => self.prepare_of::<T>(setup))
    }
}

/// LayerNorm of each row.
#[derive(Clone, Debug, Options)]
pub(crate) struct LayerNormWorkload {
    /// Shared options.
    #[option(flatten)]
    rows: Rows,
    /// Data type of the output.
    output: RowType,
}

impl LayerNormWorkload {
    fn prepare_of<T: RowNumber, U: RowNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let rows = &self.rows;
        let stage = |plan| LayerNorm { plan }.run::<T, U>();
        let mut kernel = rows.kernel::<T, _>(setup, Traffic::LAYER_NORM, stage)?;
        let columns = rows.columns as usize;
        let buffers = setup.buffers(self.work(), |seed| {
            let (w, b) = (rows.vector::<T>(setup, !seed)?, rows.vector::<T>(setup, !seed - 1)?);
            Ok((rows.matrix::<T>(setup, seed)?, w, b, setup.output::<U>(rows.elements())?))
        })?;
        Ok(buffers
            .launch(move |stream, (x, w, b, y)| {
                kernel.launch(stream, |workspace, count| (x, w, b, y, workspace, count, EPSILON))
            })
            .verify(move |(x, w, b, y)| {
                let x = x.to_vec()?;
                let (w, b) = (row_of(&w.to_vec()?, 0, columns), row_of(&b.to_vec()?, 0, columns));
                verify(y, columns, |row| standardised(&row_of(&x, row, columns), &w, &b))
            }))
    }
}

impl Workload for LayerNormWorkload {
    const NAME: &'static str = "layer-norm";

    fn work(&self) -> Work {
        self.rows.work_with(self.output, 8.0)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_row_type!(self.rows.input, T => with_row_type!(self.output, U => self.prepare_of::<T, U>(setup)))
    }
}

/// The cross-entropy of each row against a target.
#[derive(Clone, Debug, Options)]
pub(crate) struct CrossEntropyWorkload {
    /// Shared options.
    #[option(flatten)]
    rows: Rows,
}

impl CrossEntropyWorkload {
    fn prepare_of<T: RowNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let rows = &self.rows;
        let stage = |plan| CrossEntropy { plan }.run::<T>();
        let mut kernel = rows.kernel::<T, _>(setup, Traffic::CROSS_ENTROPY, stage)?;
        let (count, columns) = (rows.rows, rows.columns);
        let buffers = setup.buffers(self.work(), |seed| {
            let targets = setup.input(count as usize, |_| targets(!seed, count, columns))?;
            Ok((rows.matrix::<T>(setup, seed)?, targets, setup.output::<f32>(count as usize)?))
        })?;
        Ok(buffers
            .launch(move |stream, (x, targets, losses)| {
                kernel.launch(stream, |workspace, count| (x, targets, losses, workspace, count))
            })
            .verify(move |(x, targets, losses)| {
                let (x, targets) = (x.to_vec()?, targets.to_vec()?);
                verify(losses, 1, |row| {
                    let Ok(target) = usize::try_from(targets[row]) else { return vec![(0.0, 0.0)] };
                    let row = row_of(&x, row, columns as usize);
                    let (maximum, sum) = log_sum(&row);
                    let loss = maximum + sum.ln() - row[target];
                    let error = (SINGLE + sum_error(columns)) * (1.0 + maximum.abs() + row[target].abs());
                    vec![(loss, error)]
                })
            }))
    }
}

impl Workload for CrossEntropyWorkload {
    const NAME: &'static str = "cross-entropy";

    fn work(&self) -> Work {
        self.rows.work(self.rows.input_bytes(), 3.0)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_row_type!(self.rows.input, T => self.prepare_of::<T>(setup))
    }
}

/// What `tune` sets; `auto` leaves it to the heuristic.
#[derive(Clone, Copy, Debug, Options)]
struct TuningOptions {
    /// Threads per CTA of a row.
    #[option(min = 1, search = [128, 256, 512, 1024])]
    threads: Option<u32>,
    /// CTAs per row.
    #[option(min = 1, search = [1, 2, 4, 8, 16])]
    ctas: Option<u32>,
    /// Vectors of a row per thread.
    #[option(min = 1, search = [1, 2, 4, 8])]
    steps: Option<u32>,
    /// CTAs per SM.
    #[option(min = 1, search = [1, 2, 4])]
    ctas_per_sm: Option<u32>,
    /// How clusters are scheduled over the rows.
    #[option(search = [
        RowScheduler::NonPersistent,
        RowScheduler::Persistent,
        RowScheduler::Pipelined,
        RowScheduler::Staggered,
        RowScheduler::Grid,
    ])]
    scheduler: Option<RowScheduler>,
    /// Stages of the rows in shared memory.
    #[option(min = 1)]
    stages: Option<u32>,
    /// Maximum number of resident clusters, for persistent schedulers.
    #[option(min = 1)]
    clusters: Option<u32>,
    /// L2 eviction priority of rows that are copied to shared memory.
    evict: Evict,
    /// L2 eviction priority of the output.
    write: Option<Evict>,
}

impl TuningOptions {
    fn tuning(self) -> Tuning {
        let Self { threads, ctas, steps, ctas_per_sm, scheduler, stages, clusters, evict, write } = self;
        Tuning { threads, ctas, steps, ctas_per_sm, scheduler, stages, clusters, evict, write }
    }
}

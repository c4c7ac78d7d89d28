//! Products with quantized weights, and the weights themselves, as workloads.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Work, Workload, compare,
    data_types, generate, tiled,
};

use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;
use warpwright_kernels::weight_only_gemv::GemvTuning;
use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};

data_types! {
    /// Types of scales and results.
    pub(crate) enum GemvType by with_gemv_type { bf16, f16, f32 }
}

/// Multiplies quantized weights with a few vectors.
#[derive(Clone, Debug, Options)]
pub(crate) struct WeightOnlyGemvWorkload {
    /// Rows of the weights.
    #[option(default = 40, max = 1 << 20)]
    outputs: u32,
    /// Columns of the weights: a multiple of the group.
    #[option(default = 384, max = 1 << 21)]
    inputs: u32,
    /// Vectors.
    #[option(default = 1, max = 1 << 6)]
    batch: u32,
    /// How weights are stored.
    format: WeightFormat,
    /// Weights that share a scale.
    #[option(default = 128, min = 1, max = 1 << 20)]
    group: u32,
    /// Subtract zero points.
    zero_points: bool,
    /// Weights that the predecessor on the stream may write: read none before it ends.
    fresh_weights: bool,
    /// Data type of the scales.
    scales: GemvType,
    /// Data type of the results.
    output: GemvType,
    /// The configuration.
    #[option(flatten)]
    tuning: GemvTuningOptions,
}

/// The buffers of a launch.
struct Set<S, O> {
    weights: Buffer<u8>,
    scales: Buffer<S>,
    zero_points: Option<Buffer<u8>>,
    x: Buffer<bf16>,
    y: Buffer<O>,
}

/// Random bytes; none is a NaN of e4m3.
fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let byte = |bits: u64| if bits & 0x7f == 0x7f { 0 } else { bits as u8 };
    tiled(count, |count| {
        generate(seed, count, 0u8, |random, bytes| bytes.fill_with(|| byte(random.bits() >> 20)))
    })
}

/// A weight of a row, less its zero point.
fn weight(format: WeightFormat, row: &[u8], column: usize, zero: Option<u8>) -> f64 {
    match format {
        WeightFormat::Int4 => {
            let nibble = row[column / 2] >> (column % 2 * 4) & 15;
            f64::from(nibble) - f64::from(zero.unwrap_or(8))
        }
        WeightFormat::Int8 => {
            f64::from(row[column].cast_signed()) - f64::from(zero.unwrap_or(0).cast_signed())
        }
        WeightFormat::E4m3 => e4m3::from_bits(row[column]).exact(),
    }
}

impl WeightOnlyGemvWorkload {
    /// Bytes of a row of weights.
    fn row_bytes(&self) -> usize {
        (self.inputs / self.format.per_word() * 4) as usize
    }

    fn prepare_of<S, O>(&self, setup: &Setup) -> Result<Box<dyn Prepared>>
    where
        S: RowElement + HostNumber + Storable,
        O: RowElement + HostNumber + Storable,
    {
        let this = self.clone();
        let (n, k, batch) = (self.outputs as usize, self.inputs as usize, self.batch as usize);
        let (row_bytes, of_row) = (self.row_bytes(), (self.inputs / self.group) as usize);
        // Zero points of int4 are numbers of four bits.
        let mask = if self.format == WeightFormat::Int4 { 15 } else { 255 };
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let zeros = |count| random_bytes(!seed, count).into_iter().map(|byte| byte & mask).collect();
            Ok(Set {
                weights: setup.input(n * row_bytes, |count| random_bytes(seed, count))?,
                scales: setup.values::<S>(Values::Normal, seed ^ 1, n * of_row)?,
                zero_points: this.zero_points.then(|| setup.input(n * of_row, zeros)).transpose()?,
                x: setup.values(Values::Normal, seed ^ 2, batch * k)?,
                y: setup.output::<O>(batch * n)?,
            })
        })?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut Set<S, O>| {
                let weights = QuantizedWeights {
                    n: this.outputs,
                    k: this.inputs,
                    format: this.format,
                    weights: &set.weights,
                    group: this.group,
                    scales: &set.scales,
                    zero_points: set.zero_points.as_ref(),
                    constant: !this.fresh_weights,
                };
                Ok(operations.weight_only_gemv_by(
                    (this.tuning.tuning(), false),
                    stream,
                    weights,
                    &set.x,
                    &mut set.y,
                )?)
            })
            .verify(move |set| {
                let (weights, scales) = (set.weights.to_vec()?, set.scales.to_vec()?);
                let zeros = set.zero_points.as_ref().map(Buffer::to_vec).transpose()?;
                let x: Vec<f64> = set.x.to_vec()?.into_iter().map(HostNumber::exact).collect();
                let y = set.y.to_vec()?;
                let mut compared = vec![];
                for row in 0..n {
                    let stored = &weights[row * row_bytes..][..row_bytes];
                    let value = |column: usize| {
                        let group = row * of_row + column / reference.group as usize;
                        let zero = zeros.as_ref().map(|zeros| zeros[group]);
                        weight(reference.format, stored, column, zero) * scales[group].exact()
                    };
                    let values: Vec<f64> = (0..k).map(value).collect();
                    for vector in 0..batch {
                        let terms = values.iter().zip(&x[vector * k..][..k]).map(|(w, x)| w * x);
                        let (expected, size) = terms.fold((0.0, 0.0), |(sum, size): (f64, f64), term| {
                            (sum + term, size + term.abs())
                        });
                        let found = y[vector * n + row].exact();
                        let rounding = 1.01 * O::ROUNDING * expected.abs() + O::SMALLEST;
                        compared.push(Compared { found, expected, tolerance: rounding + 4e-6 * size });
                    }
                }
                Ok(compare(compared, |index| vec![index as usize / batch, index as usize % batch])?)
            }))
    }
}

impl Workload for WeightOnlyGemvWorkload {
    const NAME: &'static str = "weight-only-gemv";

    /// Weights, scales and zero points are read once.
    fn work(&self) -> Work {
        let weights = f64::from(self.outputs) * f64::from(self.inputs);
        let bytes = 4.0 / f64::from(self.format.per_word());
        let scale = with_gemv_type!(self.scales, S => size_of::<S>()) as f64;
        let of_group = scale + if self.zero_points { 1.0 } else { 0.0 };
        Work {
            operations: 2.0 * weights * f64::from(self.batch),
            bytes: weights * (bytes + of_group / f64::from(self.group)),
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_gemv_type!(self.scales, S => with_gemv_type!(self.output, O => self.prepare_of::<S, O>(setup)))
    }
}

/// What `tune` sets; `auto` leaves it to the heuristic.
#[derive(Clone, Copy, Debug, Options)]
struct GemvTuningOptions {
    /// Warps of a CTA, which share its rows.
    #[option(min = 1, max = 16, search = [4, 8, 16])]
    warps: Option<u32>,
    /// Stages of a warp.
    #[option(min = 2, max = 8, search = [2, 3, 4])]
    stages: Option<u32>,
    /// CTAs that share k: a cluster.
    #[option(min = 1, max = 8, search = [1, 2, 4])]
    cluster: Option<u32>,
    /// Parts of a CTA's k, of which shared memory holds the vectors of one.
    #[option(min = 1, max = 1024)]
    parts: Option<u32>,
    /// CTAs of an SM.
    #[option(min = 1, max = 3, search = [1, 2, 3])]
    ctas: Option<u32>,
}

impl GemvTuningOptions {
    fn tuning(self) -> GemvTuning {
        let Self { warps, stages, cluster, parts, ctas } = self;
        GemvTuning { warps, stages, cluster, parts, ctas }
    }
}

/// Quantized weights with scales in bf16.
#[derive(Clone, Debug, Options)]
pub(crate) struct Matrix {
    /// Rows of the weights; of each expert.
    #[option(default = 40, max = 1 << 16)]
    outputs: u32,
    /// Columns of the weights: a multiple of the group.
    #[option(default = 384, max = 1 << 16)]
    inputs: u32,
    /// How weights are stored.
    format: WeightFormat,
    /// Weights that share a scale.
    #[option(default = 128, min = 1, max = 1 << 16)]
    group: u32,
    /// Subtract zero points.
    zero_points: bool,
}

/// The buffers of a matrix.
struct MatrixSet {
    weights: Buffer<u8>,
    scales: Buffer<bf16>,
    zero_points: Option<Buffer<u8>>,
}

impl Matrix {
    fn set(&self, setup: &Setup, rows: usize, seed: u64) -> Result<MatrixSet> {
        let (k, groups) = (self.inputs as usize, rows * (self.inputs / self.group) as usize);
        let mask = if self.format == WeightFormat::Int4 { 15 } else { 255 };
        let zeros = |count| random_bytes(!seed, count).into_iter().map(|byte| byte & mask).collect();
        Ok(MatrixSet {
            weights: setup
                .input(rows * k / self.format.per_word() as usize * 4, |count| random_bytes(seed, count))?,
            scales: setup.values(Values::Normal, seed ^ 1, groups)?,
            zero_points: self.zero_points.then(|| setup.input(groups, zeros)).transpose()?,
        })
    }

    fn weights<'l>(&self, rows: u32, set: &'l MatrixSet) -> QuantizedWeights<'l, bf16> {
        QuantizedWeights {
            n: rows,
            k: self.inputs,
            format: self.format,
            weights: &set.weights,
            group: self.group,
            scales: &set.scales,
            zero_points: set.zero_points.as_ref(),
            constant: true,
        }
    }

    /// The weights in f64.
    fn exact(&self, set: &MatrixSet) -> Result<Vec<f64>> {
        let (stored, scales) = (set.weights.to_vec()?, set.scales.to_vec()?);
        let zeros = set.zero_points.as_ref().map(Buffer::to_vec).transpose()?;
        let (k, group) = (self.inputs as usize, self.group as usize);
        let of_row = k / self.format.per_word() as usize * 4;
        let value = |at: usize| {
            let (row, column) = (at / k, at % k);
            let of_group = row * (k / group) + column / group;
            let zero = zeros.as_ref().map(|zeros| zeros[of_group]);
            weight(self.format, &stored[row * of_row..], column, zero) * scales[of_group].exact()
        };
        Ok((0..scales.len() * group).map(value).collect())
    }

    /// Bytes of that many rows.
    fn bytes(&self, rows: f64) -> f64 {
        let of_group = 2.0 + if self.zero_points { 1.0 } else { 0.0 };
        let of_weight = 4.0 / f64::from(self.format.per_word()) + of_group / f64::from(self.group);
        rows * f64::from(self.inputs) * of_weight
    }
}

/// Makes quantized weights a matrix of bf16.
#[derive(Clone, Debug, Options)]
pub(crate) struct DequantizeWorkload {
    /// The weights.
    #[option(flatten)]
    matrix: Matrix,
}

impl Workload for DequantizeWorkload {
    const NAME: &'static str = "dequantize-weights";

    /// Weights are read once, and numbers are written once.
    fn work(&self) -> Work {
        let Matrix { outputs, inputs, .. } = self.matrix;
        let numbers = f64::from(outputs) * f64::from(inputs);
        Work { operations: 2.0 * numbers, bytes: self.matrix.bytes(outputs.into()) + 2.0 * numbers }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (matrix, rows) = (self.matrix.clone(), self.matrix.outputs);
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let numbers = setup.output::<bf16>(rows as usize * matrix.inputs as usize)?;
            Ok((matrix.set(setup, rows as usize, seed)?, numbers))
        })?;
        let reference = self.matrix.clone();
        Ok(buffers
            .launch(move |stream, (set, numbers)| {
                Ok(operations.dequantize_weights(stream, matrix.weights(rows, set), numbers)?)
            })
            .verify(move |(set, numbers)| {
                let expected = reference.exact(set)?;
                let compared =
                    numbers.to_vec()?.into_iter().zip(expected).map(|(found, expected)| Compared {
                        found: found.exact(),
                        expected,
                        tolerance: 1.01 * bf16::ROUNDING * expected.abs(),
                    });
                Ok(compare(compared, |index| vec![index as usize])?)
            }))
    }
}

/// Multiplies vectors with the quantized weights of the experts that they choose.
#[derive(Clone, Debug, Options)]
pub(crate) struct ExpertGemvWorkload {
    /// Experts.
    #[option(default = 5, min = 1, max = 1 << 9)]
    experts: u32,
    /// Vectors.
    #[option(default = 3, max = 1 << 9)]
    batch: u32,
    /// Experts of a vector.
    #[option(default = 2, min = 1, max = 1 << 5)]
    choices: u32,
    /// The weights of an expert.
    #[option(flatten)]
    matrix: Matrix,
}

impl Workload for ExpertGemvWorkload {
    const NAME: &'static str = "weight-only-expert-gemv";

    /// Weights of the chosen experts are read once.
    fn work(&self) -> Work {
        let Matrix { outputs, inputs, .. } = self.matrix;
        let (n, k) = (f64::from(outputs), f64::from(inputs));
        let rows = f64::from(self.batch * self.choices);
        let weights = self.matrix.bytes(n * rows.min(f64::from(self.experts)));
        Work { operations: 2.0 * rows * n * k, bytes: weights + 2.0 * (f64::from(self.batch) * k + rows * n) }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let this = self.clone();
        let [n, k, choices] =
            [this.matrix.outputs, this.matrix.inputs, this.choices].map(|extent| extent as usize);
        let rows = (self.batch * self.choices) as usize;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let experts = |count| {
                let mut random = Random::new(seed);
                (0..count).map(|_| random.below(this.experts.into()) as u32).collect()
            };
            let set = this.matrix.set(setup, this.experts as usize * n, seed)?;
            let x = setup.values::<bf16>(Values::Normal, seed ^ 2, this.batch as usize * k)?;
            Ok((set, x, setup.input::<u32>(rows, experts)?, setup.output::<bf16>(rows * n)?))
        })?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, (set, x, experts, y)| {
                let weights = this.matrix.weights(this.experts * n as u32, set);
                let from = (&*x, &*experts, this.choices);
                Ok(operations.expert_weight_only_gemv(stream, (weights, n as u32), from, y)?)
            })
            .verify(move |(set, x, experts, y)| {
                let (weights, experts) = (reference.matrix.exact(set)?, experts.to_vec()?);
                let x: Vec<f64> = x.to_vec()?.into_iter().map(HostNumber::exact).collect();
                let compared = y.to_vec()?.into_iter().enumerate().map(|(at, found)| {
                    let (row, column) = (at / n, at % n);
                    let weights = &weights[(experts[row] as usize * n + column) * k..][..k];
                    let terms = weights.iter().zip(&x[row / choices * k..]).map(|(w, x)| w * x);
                    let (expected, size) = terms
                        .fold((0.0, 0.0), |(sum, size): (f64, f64), term| (sum + term, size + term.abs()));
                    let tolerance = 1.01 * bf16::ROUNDING * expected.abs() + 4e-6 * size;
                    Compared { found: found.exact(), expected, tolerance }
                });
                Ok(compare(compared, |index| vec![index as usize / n, index as usize % n])?)
            }))
    }
}

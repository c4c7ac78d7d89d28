//! The weight-only GEMV as a workload.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Result, Setup, Values, Work, Workload, compare, data_types,
    generate, tiled,
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
pub(crate) struct GemvWorkload {
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

impl GemvWorkload {
    /// Bytes of a row of weights.
    fn row_bytes(&self) -> usize {
        (self.inputs / self.format.per_word() * 4) as usize
    }

    /// A weight of a row, less its zero point.
    fn weight(&self, row: &[u8], column: usize, zero: Option<u8>) -> f64 {
        match self.format {
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
                        reference.weight(stored, column, zero) * scales[group].exact()
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

impl Workload for GemvWorkload {
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

//! The weight-only GEMM as a workload.

use warpwright::arch::Capability;
use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Work, Workload, compare,
    data_types,
};

use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;
use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};

data_types! {
    /// Types of results.
    pub(crate) enum ResultType by with_result_type { bf16, f16, f32 }
}

/// Multiplies weights of int4 with up to 128 vectors by tensor cores.
#[derive(Clone, Debug, Options)]
pub(crate) struct WeightOnlyGemmWorkload {
    /// Rows of the weights.
    #[option(default = 72, max = 1 << 18)]
    outputs: u32,
    /// Columns of the weights: a multiple of 128.
    #[option(default = 384, min = 1, max = 1 << 18)]
    inputs: u32,
    /// Vectors.
    #[option(default = 9, max = 1 << 8)]
    batch: u32,
    /// Add the products to the results.
    add: bool,
    /// Weights that the predecessor on the stream may write: read none before it ends.
    fresh_weights: bool,
    /// Data type of the results.
    output: ResultType,
}

/// Weights that share a scale and a zero point.
const GROUP: usize = 32;

/// The buffers of a launch, and how often it was launched on them.
struct Set<U> {
    weights: Buffer<u8>,
    scales: Buffer<bf16>,
    zero_points: Buffer<u8>,
    x: Buffer<bf16>,
    y: Buffer<U>,
    seed: u64,
    launches: u32,
}

impl WeightOnlyGemmWorkload {
    fn prepare_of<U: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, adds) = (self.clone(), self.add);
        let [n, k, batch] = [self.outputs, self.inputs, self.batch].map(|extent| extent as usize);
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let bytes = |seed, mask: u8| {
                move |count| {
                    let mut random = Random::new(seed);
                    (0..count).map(|_| random.bits() as u8 & mask).collect()
                }
            };
            Ok(Set {
                weights: setup.input(n * k / 2, bytes(seed, 255))?,
                scales: setup.values(Values::Normal, seed ^ 1, n * (k / GROUP))?,
                zero_points: setup.input(n * (k / GROUP), bytes(!seed, 15))?,
                x: setup.values(Values::Normal, seed ^ 2, batch * k)?,
                y: setup.values(Values::Normal, seed ^ 3, batch * n)?,
                seed,
                launches: 0,
            })
        })?;
        Ok(buffers
            .launch(move |stream, set: &mut Set<U>| {
                set.launches += 1;
                let weights = QuantizedWeights {
                    n: this.outputs,
                    k: this.inputs,
                    format: WeightFormat::Int4,
                    weights: &set.weights,
                    group: GROUP as u32,
                    scales: &set.scales,
                    zero_points: Some(&set.zero_points),
                    constant: !this.fresh_weights,
                };
                Ok(operations.weight_only_gemm(stream, weights, &set.x, (&mut set.y, adds))?)
            })
            .verify(move |set| {
                let (stored, scales, zeros) =
                    (set.weights.to_vec()?, set.scales.to_vec()?, set.zero_points.to_vec()?);
                let x: Vec<f64> = set.x.to_vec()?.into_iter().map(HostNumber::exact).collect();
                let weight = |at: usize| {
                    let number = stored[at / 2] >> (at % 2 * 4) & 15;
                    let number = f64::from(number) - f64::from(zeros[at / GROUP]);
                    bf16::nearest(number * scales[at / GROUP].exact()).exact()
                };
                let weights: Vec<f64> = (0..n * k).map(weight).collect();
                let before = Values::Normal.numbers::<U>(set.seed ^ 3, batch * n);
                let (times, before_is_read) = if adds { (f64::from(set.launches), 1.0) } else { (1.0, 0.0) };
                let compared = set.y.to_vec()?.into_iter().enumerate().map(|(at, found)| {
                    let (vector, row) = (at / n, at % n);
                    let terms = weights[row * k..][..k].iter().zip(&x[vector * k..]).map(|(w, x)| w * x);
                    let (sum, size) = terms
                        .fold((0.0, 0.0), |(sum, size): (f64, f64), term| (sum + term, size + term.abs()));
                    let before = before_is_read * before[at].exact();
                    let expected = before + times * sum;
                    let most = before.abs() + times * sum.abs();
                    let tolerance = times * (1.01 * U::ROUNDING * most + 4e-6 * size) + U::SMALLEST;
                    Compared { found: found.exact(), expected, tolerance }
                });
                Ok(compare(compared, |index| vec![index as usize / n.max(1), index as usize % n.max(1)])?)
            }))
    }
}

impl Workload for WeightOnlyGemmWorkload {
    const NAME: &'static str = "weight-only-gemm";

    fn supports(capability: &Capability) -> bool {
        capability.target == "sm_90a"
    }

    /// Weights, scales and zero points are read once.
    fn work(&self) -> Work {
        let [n, k, batch] = [self.outputs, self.inputs, self.batch].map(f64::from);
        let of_result = with_result_type!(self.output, U => size_of::<U>()) as f64;
        let results = batch * n * of_result * if self.add { 2.0 } else { 1.0 };
        Work {
            operations: 2.0 * n * k * batch,
            bytes: n * k * (0.5 + 3.0 / 32.0) + 2.0 * batch * k + results,
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_result_type!(self.output, U => self.prepare_of::<U>(setup))
    }
}

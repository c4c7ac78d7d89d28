//! The gated RMSNorm as a workload.

use warpwright::runtime::Storable;
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Result, Setup, Values, Work, Workload, compare, data_types,
};

use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::gated_norm::GatedNorm;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::{Gain, RowElement};

data_types! {
    /// Types of x, z and y.
    pub(crate) enum HeadType by with_head_type { bf16, f16, f32 }
}

/// RMSNorm of each head, times the silu of a gate that is a part of a wider matrix.
#[derive(Clone, Debug, Options)]
pub(crate) struct GatedNormWorkload {
    /// Tokens.
    #[option(default = 5, max = 1 << 20)]
    tokens: u32,
    /// Heads of a token.
    #[option(default = 4, max = 1 << 8)]
    heads: u32,
    /// Elements of a head.
    #[option(default = 128, max = 1 << 10)]
    head_dim: u32,
    /// The factor that a weight w stands for.
    gain: Gain,
    /// Data type of x, z and y.
    #[option(name = "type")]
    element: HeadType,
}

const EPSILON: f32 = 1e-6;
/// Elements of a token before its gates.
const BEFORE_GATES: u32 = 64;

impl GatedNormWorkload {
    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let Self { tokens, heads, head_dim, gain, .. } = *self;
        let (columns, d) = (heads * head_dim, (head_dim as usize).max(1));
        let stride = columns + BEFORE_GATES;
        let operations = Operations::new(setup.device());
        let elements = tokens as usize * columns as usize;
        let buffers = setup.buffers(self.work(), |seed| {
            let x = setup.values::<T>(Values::Normal, seed, elements)?;
            let z = setup.values::<T>(Values::Normal, !seed, tokens as usize * stride as usize)?;
            let weights = setup.values::<f32>(Values::Normal, seed ^ 1, head_dim as usize)?;
            Ok((x, z, weights, setup.output::<T>(elements)?))
        })?;
        Ok(buffers
            .launch(move |stream, (x, z, weights, y)| {
                let norm = GatedNorm { tokens, heads, head_dim, weights, gain, epsilon: EPSILON };
                let z = MatrixColumns { buffer: z, offset: BEFORE_GATES, stride };
                Ok(operations.gated_rms_norm(stream, norm, MatrixColumns::all(x, columns), z, y)?)
            })
            .verify(move |(x, z, weights, y)| {
                let (x, z, weights) = (x.to_vec()?, z.to_vec()?, weights.to_vec()?);
                let mut compared = vec![];
                for (head, (found, x)) in y.to_vec()?.chunks(d).zip(x.chunks(d)).enumerate() {
                    let (token, head) = (head / heads as usize, head % heads as usize);
                    let z = &z[token * stride as usize + BEFORE_GATES as usize + head * d..][..d];
                    let squares = x.iter().map(|x| x.exact() * x.exact()).sum::<f64>() / d as f64;
                    let root = 1.0 / (squares + f64::from(EPSILON)).sqrt();
                    for i in 0..d {
                        let weight = f64::from(weights[i]) + if gain == Gain::Weight { 0.0 } else { 1.0 };
                        let gate = z[i].exact() / (1.0 + (-z[i].exact()).exp());
                        let expected = x[i].exact() * root * weight * gate;
                        // 1 + weight is rounded as a part of a sum.
                        let size = (x[i].exact() * root * gate).abs() + expected.abs();
                        let tolerance = 1.01 * T::ROUNDING * expected.abs() + 64.0 * f32::ROUNDING * size;
                        let found = found[i].exact();
                        compared.push(Compared { found, expected, tolerance: tolerance + T::SMALLEST });
                    }
                }
                Ok(compare(compared, |element| vec![element as usize / d, element as usize % d])?)
            }))
    }
}

impl Workload for GatedNormWorkload {
    const NAME: &'static str = "gated-rms-norm";

    /// x and z are read once, and y is written once.
    fn work(&self) -> Work {
        let elements = f64::from(self.tokens) * f64::from(self.heads) * f64::from(self.head_dim);
        let bytes = with_head_type!(self.element, T => size_of::<T>()) as f64;
        Work { operations: 9.0 * elements, bytes: 3.0 * bytes * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_head_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}

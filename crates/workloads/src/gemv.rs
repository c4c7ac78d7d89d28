//! The GEMV as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Verified, Work, Workload,
    compare, data_types,
};

use warpwright_kernels::gemv::{Epilogue, GemvShape, InputNorm, TURN};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::{Gain, RowElement};

data_types! {
    /// Types of weights and vectors.
    pub(crate) enum GemvType by with_gemv_type { bf16, f16, f32 }
}

/// RMSNorm of the vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Norm {
    /// None.
    #[default]
    None,
    /// Times the weight.
    Weight,
    /// Times 1 + weight.
    ZeroCentred,
}

impl Norm {
    fn gain(self) -> Option<Gain> {
        match self {
            Norm::None => None,
            Norm::Weight => Some(Gain::Weight),
            Norm::ZeroCentred => Some(Gain::ZeroCentred),
        }
    }
}

/// Multiplies a matrix, or a matrix of an expert each, with a few vectors.
#[derive(Clone, Debug, Options)]
pub(crate) struct GemvWorkload {
    /// Elements of a result.
    #[option(default = 600, max = 1 << 18)]
    outputs: u32,
    /// Elements of a vector.
    #[option(default = 384, max = 1 << 18)]
    inputs: u32,
    /// Vectors.
    #[option(default = 1, max = 1 << 9)]
    batch: u32,
    /// Matrices of experts, of which each vector chooses two; 0: one matrix.
    #[option(default = 0, max = 1 << 9)]
    experts: u32,
    /// RMSNorm of the vectors; of experts, none.
    norm: Norm,
    /// What becomes of the product; of experts, it is stored.
    epilogue: Epilogue,
    /// Weights that the predecessor on the stream may write: read none before it ends.
    fresh_weights: bool,
    /// Data type of weights and vectors.
    #[option(name = "type")]
    element: GemvType,
    /// Data type of results; of experts, as the weights.
    output: GemvType,
}

const EPSILON: f32 = 1e-6;
/// Experts of a vector.
const CHOICES: u32 = 2;

/// The buffers of a launch.
struct Set<T, U> {
    weights: Buffer<T>,
    x: Buffer<T>,
    gains: Buffer<T>,
    experts: Buffer<u32>,
    y: Buffer<U>,
    seed: u64,
    launches: u32,
}

impl GemvWorkload {
    /// Rows of y, which is (rows, n).
    fn shape(&self) -> GemvShape {
        let rows = if self.experts > 0 { CHOICES * self.batch } else { self.batch };
        GemvShape { rows, n: self.outputs, k: self.inputs }
    }

    fn epilogue(&self) -> Epilogue {
        if self.experts > 0 { Epilogue::Store } else { self.epilogue }
    }

    /// Rows of a matrix.
    fn matrix_rows(&self) -> usize {
        self.outputs as usize * if self.epilogue() == Epilogue::Swiglu { 2 } else { 1 }
    }

    fn set<T: HostNumber, U: HostNumber>(&self, setup: &Setup, seed: u64) -> Result<Set<T, U>> {
        let GemvShape { rows, n, k } = self.shape();
        let (k, results) = (k as usize, rows as usize * n as usize);
        let elements = self.experts.max(1) as usize * self.matrix_rows() * k;
        let experts = |count| {
            let mut random = Random::new(seed);
            (0..count).map(|_| random.below(self.experts.max(1).into()) as u32).collect()
        };
        Ok(Set {
            weights: setup.values(Values::Normal, seed, elements)?,
            x: setup.values(Values::Normal, seed ^ 1, self.batch as usize * k)?,
            gains: setup.values(Values::Normal, seed ^ 2, k)?,
            experts: setup.input(rows as usize, experts)?,
            y: match self.epilogue() {
                Epilogue::Add => setup.values(Values::Normal, seed ^ 3, results)?,
                _ => setup.output(results)?,
            },
            seed,
            launches: 0,
        })
    }

    fn prepare_of<T, U>(&self, setup: &Setup) -> Result<Box<dyn Prepared>>
    where
        T: RowElement + HostNumber + Storable,
        U: RowElement + HostNumber + Storable,
    {
        let (this, shape) = (self.clone(), self.shape());
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| self.set::<T, U>(setup, seed))?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut Set<T, U>| {
                set.launches += 1;
                let Set { weights, x, gains, experts, y, .. } = set;
                if this.experts > 0 {
                    let from = (&*x, &*experts);
                    return Ok(operations.expert_gemv(
                        stream,
                        (shape, CHOICES),
                        weights,
                        from,
                        y.cast_mut(),
                    )?);
                }
                let norm = this.norm.gain().map(|gain| InputNorm { gains, gain, epsilon: EPSILON });
                Ok(operations.gemv(
                    stream,
                    shape,
                    (weights, !this.fresh_weights),
                    (x, norm),
                    (y, this.epilogue()),
                )?)
            })
            .verify(move |set| reference.verify(set)))
    }

    /// A vector that is normalized.
    fn normalized(&self, x: &[f64], gains: &[f64]) -> Vec<f64> {
        let Some(gain) = self.norm.gain().filter(|_| self.experts == 0) else { return x.to_vec() };
        let squares = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let root = 1.0 / (squares + f64::from(EPSILON)).sqrt();
        let factor = |weight: &f64| if gain == Gain::Weight { *weight } else { 1.0 + weight };
        x.iter().zip(gains).map(|(x, weight)| x * root * factor(weight)).collect()
    }

    fn verify<T: HostNumber, U: HostNumber>(&self, set: &Set<T, U>) -> Result<Verified> {
        let GemvShape { rows, n, k } = self.shape();
        let [rows, n, k] = [rows, n, k].map(|extent| extent as usize);
        let (weights, x, gains) = (exact(&set.weights)?, exact(&set.x)?, exact(&set.gains)?);
        let (experts, found) = (set.experts.to_vec()?, exact(&set.y)?);
        let before = Values::Normal.numbers::<U>(set.seed ^ 3, rows * n);
        let (times, is_added) = (f64::from(set.launches), self.epilogue() == Epilogue::Add);
        let mut compared = Vec::with_capacity(rows * n);
        for (row, expert) in experts.iter().enumerate() {
            let (matrix, vector) = match self.experts {
                0 => (0, row),
                _ => (*expert as usize * self.matrix_rows(), row / CHOICES as usize),
            };
            let x = self.normalized(&x[vector * k..][..k], &gains);
            let product = |row: usize| {
                let terms = weights[(matrix + row) * k..][..k].iter().zip(&x).map(|(w, x)| w * x);
                terms.fold((0.0, 0.0), |(sum, size): (f64, f64), term| (sum + term, size + term.abs()))
            };
            for column in 0..n {
                let at = row * n + column;
                let (expected, size) = match self.epilogue() {
                    Epilogue::Store => product(column),
                    Epilogue::Add => {
                        let ((sum, size), before) = (product(column), before[at].exact());
                        (before + times * sum, times * (before.abs() + times * size))
                    }
                    Epilogue::Swiglu => {
                        let turn = TURN as usize;
                        let gate = column / turn * (2 * turn) + column % turn;
                        let ((gate, of_gate), (value, of_value)) = (product(gate), product(gate + turn));
                        let silu = gate / (1.0 + (-gate).exp());
                        (silu * value, (gate.abs() + of_gate) * of_value + of_gate * value.abs())
                    }
                };
                let steps = if is_added { times } else { 1.0 };
                let rounding = 1.01 * steps * U::ROUNDING * if is_added { size } else { expected.abs() };
                let tolerance = rounding + 4e-6 * size + U::SMALLEST;
                compared.push(Compared { found: found[at], expected, tolerance });
            }
        }
        Ok(compare(compared, |index| vec![index as usize / n, index as usize % n])?)
    }
}

fn exact<T: HostNumber>(buffer: &Buffer<T>) -> Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(T::exact).collect())
}

impl Workload for GemvWorkload {
    const NAME: &'static str = "gemv";

    /// Weights of the chosen matrices are read once.
    fn work(&self) -> Work {
        let GemvShape { rows, n, k } = self.shape();
        let matrices = if self.experts > 0 { rows.min(self.experts) } else { 1 };
        let weights = f64::from(matrices) * self.matrix_rows() as f64 * f64::from(k);
        let bytes = with_gemv_type!(self.element, T => size_of::<T>()) as f64;
        let of_result = with_gemv_type!(self.output, U => size_of::<U>()) as f64;
        let results = f64::from(rows) * f64::from(n);
        Work {
            operations: 2.0 * f64::from(rows) * self.matrix_rows() as f64 * f64::from(k),
            bytes: bytes * (weights + f64::from(self.batch) * f64::from(k)) + of_result * results,
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        if self.experts > 0 {
            return with_gemv_type!(self.element, T => self.prepare_of::<T, T>(setup));
        }
        with_gemv_type!(self.element, T => with_gemv_type!(self.output, U => self.prepare_of::<T, U>(setup)))
    }
}

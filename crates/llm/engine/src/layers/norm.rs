//! RMSNorm, alone and as a part of the product after it.

use warpwright::runtime::Buffer;
use warpwright_kernels::gemv::InputNorm;
use warpwright_kernels::rows::Gain;

use super::pass::Pass;
use super::quantized::QuantizedInput;
use crate::error::Result;
use crate::number::Number;
use crate::weights::Loader;

/// RMSNorm of a row of a token.
pub(crate) struct Norm<T> {
    pub(crate) weights: Buffer<T>,
    pub(crate) epsilon: f32,
    pub(crate) gain: Gain,
}

impl<T: Number> Norm<T> {
    pub(crate) fn new(
        loader: &mut Loader<'_>,
        name: &str,
        length: usize,
        epsilon: f32,
        gain: Gain,
    ) -> Result<Self> {
        Ok(Self { weights: loader.vector(name, length)?, epsilon, gain })
    }

    /// The normalized rows of `x`.
    pub(crate) fn apply(&self, pass: &mut Pass<'_, T>, x: &Buffer<T>) -> Result<Buffer<T>> {
        let mut y = pass.memory.take(x.len())?;
        let columns = self.weights.len();
        let shape = ((x.len() / columns) as u32, columns as u32);
        pass.operations.rms_norm(
            pass.stream,
            (x, shape),
            (&self.weights, self.gain),
            self.epsilon,
            &mut y,
        )?;
        pass.note("norm", x.bytes() + y.bytes(), 4 * x.len() as u64);
        Ok(y)
    }

    /// The normalized rows of `x` as e4m3, for a model in bf16; and as they are, if they are `kept`.
    pub(crate) fn quantize(
        &self,
        pass: &mut Pass<'_, T>,
        x: &Buffer<T>,
        is_kept: bool,
    ) -> Result<(QuantizedInput<T>, Buffer<T>)> {
        let mut kept = pass.memory.take(if is_kept { x.len() } else { 1 })?;
        let columns = self.weights.len();
        let norm = InputNorm { gains: self.weights.cast(), gain: self.gain, epsilon: self.epsilon };
        let shape = ((x.len() / columns) as u32, columns as u32);
        let quantized = QuantizedInput::new(pass, shape, |on, to| {
            on.0.quantize_normalized(on.1, x.cast(), norm, to, kept.cast_mut())
        })?;
        let bytes = x.bytes() + quantized.bytes() + if is_kept { kept.bytes() } else { 0 };
        pass.note("norm", bytes, 6 * x.len() as u64);
        Ok((quantized, kept))
    }

    /// The norm as a part of a product.
    pub(crate) fn of_input(&self) -> InputNorm<'_, T> {
        InputNorm { gains: &self.weights, gain: self.gain, epsilon: self.epsilon }
    }
}

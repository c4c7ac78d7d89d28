//! Products with weights: y = x Wᵀ.

use warpwright::runtime::Buffer;

use super::Pass;
use super::mlp::swiglu;
use super::norm::Norm;
use super::quantized::Quantized;
use crate::error::Result;
use crate::kernels::product::{Epilogue, ProductShape, product};
use crate::number::Number;
use crate::weights::Loader;

/// Weights (n, k). Several projections of one input are one matrix.
pub(crate) struct Linear<T> {
    /// Empty where they are quantized.
    pub(crate) weights: Buffer<T>,
    quantized: Option<Quantized>,
    pub(crate) n: u32,
    pub(crate) k: u32,
}

/// The rows of a matrix of those parts.
fn rows_of(parts: &[(&str, usize)]) -> usize {
    let rows: usize = parts.iter().map(|(_, rows)| rows).sum();
    if parts.len() > 1 { rows.next_multiple_of(8) } else { rows }
}

impl<T: Number> Linear<T> {
    /// The rows of the tensors, one after another, and rows of zeros up to a multiple of 8, so that rows of
    /// y are whole vectors.
    pub(crate) fn new(loader: &mut Loader<'_>, parts: &[(&str, usize)], k: usize) -> Result<Self> {
        let n = rows_of(parts);
        let quantized = match loader.format {
            Some(format) => Quantized::new(loader, format, parts, (n, k))?,
            None => None,
        };
        match quantized {
            Some(_) => {
                let weights = loader.buffer(0)?;
                Ok(Self { weights, quantized, n: n as u32, k: k as u32 })
            }
            None => Self::exact(loader, parts, k),
        }
    }

    /// The same, never quantized: for weights that results depend on more than others, and few bytes.
    pub(crate) fn exact(loader: &mut Loader<'_>, parts: &[(&str, usize)], k: usize) -> Result<Self> {
        let n = rows_of(parts);
        let weights = loader.matrix(parts, k, n)?;
        Ok(Self { weights, quantized: None, n: n as u32, k: k as u32 })
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        self.weights.bytes() + self.quantized.as_ref().map_or(0, Quantized::bytes)
    }

    /// The product of `rows` rows with `n` results.
    fn shape(&self, x: &Buffer<T>) -> ProductShape {
        ProductShape { rows: (x.len() / self.k as usize) as u32, n: self.n, k: self.k }
    }

    /// y of the rows of `x`.
    pub(crate) fn apply(&self, pass: &mut Pass<'_, T>, x: &Buffer<T>) -> Result<Buffer<T>> {
        let mut y = pass.memory.take(x.len() / self.k as usize * self.n as usize)?;
        self.apply_to(pass, x, (&mut y, Epilogue::Store))?;
        Ok(y)
    }

    /// y in a buffer of any type, or added to what it holds.
    pub(crate) fn apply_to<U: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        x: &Buffer<T>,
        to: (&mut Buffer<U>, Epilogue),
    ) -> Result<()> {
        if let Some(quantized) = &self.quantized {
            return quantized.multiply(pass, x.cast(), (to.0, to.1 == Epilogue::Add));
        }
        let shape = self.shape(x);
        if shape.rows <= T::FEW_ROWS {
            return Ok(product(pass.on(), shape, &self.weights, (x, None), to)?);
        }
        Ok(T::product_of_many(pass.on(), shape, &self.weights, x, to)?)
    }

    /// y of the normalized rows of `x`.
    pub(crate) fn apply_to_normalized(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &Buffer<T>,
    ) -> Result<Buffer<T>> {
        let mut y = pass.memory.take(x.len() / self.k as usize * self.n as usize)?;
        self.store_of_normalized(pass, norm, x, &mut y)?;
        Ok(y)
    }

    /// The same in a buffer of any type.
    pub(crate) fn store_of_normalized<U: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &Buffer<T>,
        y: &mut Buffer<U>,
    ) -> Result<()> {
        let shape = self.shape(x);
        if shape.rows > T::FEW_ROWS || self.quantized.is_some() {
            let normalized = norm.apply(pass, x)?;
            self.apply_to(pass, &normalized, (y, Epilogue::Store))?;
            pass.memory.give(normalized);
            return Ok(());
        }
        Ok(product(pass.on(), shape, &self.weights, (x, Some(norm.of_input())), (y, Epilogue::Store))?)
    }

    /// silu(gate) · up of the normalized rows of `x`, for weights [gate | up].
    pub(crate) fn swiglu_of_normalized(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &Buffer<T>,
        columns: u32,
    ) -> Result<Buffer<T>> {
        let shape = ProductShape { n: columns, ..self.shape(x) };
        if shape.rows > T::FEW_ROWS || self.n != 2 * columns || self.quantized.is_some() {
            let gate_up = self.apply_to_normalized(pass, norm, x)?;
            let y = swiglu(pass, &gate_up, columns, self.n)?;
            pass.memory.give(gate_up);
            return Ok(y);
        }
        let mut y = pass.memory.take(shape.rows as usize * columns as usize)?;
        product(pass.on(), shape, &self.weights, (x, Some(norm.of_input())), (&mut y, Epilogue::Swiglu))?;
        Ok(y)
    }
}

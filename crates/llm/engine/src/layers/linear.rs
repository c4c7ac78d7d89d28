//! Products with weights: y = x Wᵀ.

use warpwright::runtime::Buffer;
use warpwright_kernels::gemv::{Epilogue, GemvShape, TURN, has_few_results};

use super::norm::Norm;
use super::pass::Pass;
use super::quantized::{Quantized, QuantizedInput};
use super::swiglu::swiglu;
use crate::error::Result;
use crate::number::Number;
use crate::weights::Loader;

/// The indices of the rows of a bias, which are kept for each count.
struct OfBias;

/// Weights (n, k). Several projections of one input are one matrix.
pub(crate) struct Linear<T> {
    /// The tensors without their layer: "mlp.gate_proj | up_proj".
    name: Box<str>,
    /// Empty where they are quantized.
    pub(crate) weights: Buffer<T>,
    quantized: Option<Quantized>,
    /// (n): what products of [`apply_to_normalized`](Self::apply_to_normalized) are added to.
    bias: Option<Buffer<T>>,
    /// Whether its rows are gates and values in turns.
    is_gated: bool,
    pub(crate) n: u32,
    pub(crate) k: u32,
}

/// The rows of a matrix of those parts.
fn rows_of(parts: &[(&str, usize)]) -> usize {
    let rows: usize = parts.iter().map(|(_, rows)| rows).sum();
    if parts.len() > 1 { rows.next_multiple_of(8) } else { rows }
}

/// The name of a matrix of those parts.
fn name_of(parts: &[(&str, usize)]) -> Box<str> {
    let of_part = |(at, (name, _)): (usize, &(&str, usize))| {
        let name = name.trim_end_matches(".weight");
        let parts = name.split('.').skip_while(|part| *part == "layers" || part.parse::<u32>().is_ok());
        match at {
            0 => parts.collect::<Vec<_>>().join("."),
            _ => parts.last().unwrap_or(name).to_owned(),
        }
    };
    parts.iter().enumerate().map(of_part).collect::<Vec<_>>().join(" | ").into()
}

impl<T: Number> Linear<T> {
    /// The rows of the tensors, one after another, and rows of zeros up to a multiple of 8, so that rows of
    /// y are whole vectors.
    pub(crate) fn new(loader: &mut Loader<'_>, parts: &[(&str, usize)], k: usize) -> Result<Self> {
        match Quantized::new(loader, parts, (rows_of(parts), k))? {
            Some(quantized) => {
                Ok(Self { quantized: Some(quantized), ..Self::of(loader.buffer(0)?, parts, k) })
            }
            None => Self::exact(loader, parts, k),
        }
    }

    /// The matrix of those weights.
    fn of(weights: Buffer<T>, parts: &[(&str, usize)], k: usize) -> Self {
        let (n, k) = (rows_of(parts) as u32, k as u32);
        Self { name: name_of(parts), weights, quantized: None, bias: None, is_gated: false, n, k }
    }

    /// The gates and the values of [`swiglu`](Self::swiglu), `rows` of each: in turns, which products pair,
    /// unless the weights are quantized or the last turn were not whole.
    pub(crate) fn gated(loader: &mut Loader<'_>, names: [&str; 2], rows: usize, k: usize) -> Result<Self> {
        let parts = names.map(|name| (name, rows));
        if loader.format.is_some_and(|format| format.group(k).is_some())
            || !rows.is_multiple_of(TURN as usize)
        {
            return Self::new(loader, &parts, k);
        }
        let weights = loader.in_turns(names, (rows, k), TURN as usize)?;
        Ok(Self { is_gated: true, ..Self::of(weights, &parts, k) })
    }

    /// The same, never quantized: for weights that results depend on more than others, and few bytes.
    pub(crate) fn exact(loader: &mut Loader<'_>, parts: &[(&str, usize)], k: usize) -> Result<Self> {
        Ok(Self::of(loader.matrix(parts, k, rows_of(parts))?, parts, k))
    }

    /// With a bias for the rows of each part.
    pub(crate) fn with_bias(self, loader: &mut Loader<'_>, parts: &[(&str, usize)]) -> Result<Self> {
        Ok(Self { bias: Some(loader.matrix(parts, 1, rows_of(parts))?), ..self })
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        self.weights.bytes() + self.quantized.as_ref().map_or(0, Quantized::bytes)
    }

    /// The product of `rows` rows with `n` results.
    fn shape(&self, x: &Buffer<T>) -> GemvShape {
        GemvShape { rows: (x.len() / self.k as usize) as u32, n: self.n, k: self.k }
    }

    /// y of the rows of `x`.
    pub(crate) fn apply(&self, pass: &mut Pass<'_, T>, x: &Buffer<T>) -> Result<Buffer<T>> {
        let mut y = pass.memory.take(x.len() / self.k as usize * self.n as usize)?;
        self.apply_to(pass, x, (&mut y, Epilogue::Store))?;
        Ok(y)
    }

    /// Whether products quantize that many rows.
    pub(crate) fn quantizes(&self, pass: &Pass<'_, T>, rows: u32) -> bool {
        self.quantized.as_ref().is_some_and(|quantized| quantized.quantizes(pass, rows))
    }

    /// y of rows that are quantized, in a buffer of any type, or added to what it holds.
    pub(crate) fn apply_quantized<U: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        x: &QuantizedInput<T>,
        to: (&mut Buffer<U>, Epilogue),
    ) -> Result<()> {
        let bytes = x.bytes() + to.0.bytes() * if to.1 == Epilogue::Add { 2 } else { 1 };
        let quantized = self.quantized.as_ref().expect("the weights of quantized rows are quantized");
        quantized.multiply_quantized(pass, x, (to.0, to.1 == Epilogue::Add))?;
        self.note(pass, x.rows, bytes);
        Ok(())
    }

    /// y in a buffer of any type, or added to what it holds.
    pub(crate) fn apply_to<U: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        x: &Buffer<T>,
        to: (&mut Buffer<U>, Epilogue),
    ) -> Result<()> {
        let shape = self.shape(x);
        let bytes = x.bytes() + to.0.bytes() * if to.1 == Epilogue::Add { 2 } else { 1 };
        match &self.quantized {
            Some(quantized) => quantized.multiply(pass, x.cast(), (to.0, to.1 == Epilogue::Add))?,
            None if shape.rows <= T::FEW_ROWS || has_few_results(shape) => {
                pass.operations.gemv(pass.stream, shape, (&self.weights, true), (x, None), to)?;
            }
            None => T::product_of_many(pass.on(), shape, &self.weights, x, to)?,
        }
        self.note(pass, shape.rows, bytes);
        Ok(())
    }

    /// Notes a product that moves `bytes` beside the weights.
    fn note(&self, pass: &mut Pass<'_, T>, rows: u32, bytes: usize) {
        let flops = 2 * u64::from(rows) * u64::from(self.n) * u64::from(self.k);
        pass.note(&self.name, self.bytes() + bytes, flops);
    }

    /// x += y of the rows of `input`.
    pub(crate) fn add_to(&self, pass: &mut Pass<'_, T>, input: &Buffer<T>, x: &mut Buffer<T>) -> Result<()> {
        self.add(pass, x, |pass, to| self.apply_to(pass, input, to))
    }

    /// The same of rows that are quantized.
    pub(crate) fn add_quantized_to(
        &self,
        pass: &mut Pass<'_, T>,
        input: &QuantizedInput<T>,
        x: &mut Buffer<T>,
    ) -> Result<()> {
        self.add(pass, x, |pass, to| self.apply_quantized(pass, input, to))
    }

    /// x += the product that `apply` computes. Ranks have columns of the weights, and add the y of all.
    fn add(
        &self,
        pass: &mut Pass<'_, T>,
        x: &mut Buffer<T>,
        apply: impl FnOnce(&mut Pass<'_, T>, (&mut Buffer<T>, Epilogue)) -> Result<()>,
    ) -> Result<()> {
        let Some(communicator) = pass.communicator else { return apply(pass, (x, Epilogue::Add)) };
        let mut part = pass.memory.take(x.len())?;
        apply(pass, (&mut part, Epilogue::Store))?;
        pass.add_of_all_ranks(communicator, &part, x)?;
        pass.memory.give(part);
        Ok(())
    }

    /// y of the normalized rows of `x`.
    pub(crate) fn apply_to_normalized(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &Buffer<T>,
    ) -> Result<Buffer<T>> {
        let rows = self.shape(x).rows;
        let mut y = pass.memory.take(rows as usize * self.n as usize)?;
        let mut epilogue = Epilogue::Store;
        if let Some(bias) = &self.bias {
            // Every row is row 0 of the bias.
            let zeros = pass.operations.remembered::<OfBias, _, _>(rows, |rows| {
                Ok(pass.operations.device().zeros::<i32>(*rows as usize)?)
            })?;
            pass.operations.gather_rows(pass.stream, (bias, self.n), (&zeros, 0), &mut y)?;
            pass.note("bias", y.bytes(), 0);
            epilogue = Epilogue::Add;
        }
        self.apply_after_norm(pass, norm, x, (&mut y, epilogue))?;
        Ok(y)
    }

    /// y of the normalized rows of `x` in a buffer of any type, or added to what it holds.
    pub(crate) fn apply_after_norm<U: Number>(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &Buffer<T>,
        (y, epilogue): (&mut Buffer<U>, Epilogue),
    ) -> Result<()> {
        let shape = self.shape(x);
        if self.quantizes(pass, shape.rows) {
            let (quantized, nothing) = norm.quantize(pass, x, false)?;
            self.apply_quantized(pass, &quantized, (y, epilogue))?;
            pass.memory.give(nothing);
            quantized.give(pass);
            return Ok(());
        }
        if shape.rows > T::FEW_ROWS || self.quantized.is_some() {
            let normalized = norm.apply(pass, x)?;
            self.apply_to(pass, &normalized, (y, epilogue))?;
            pass.memory.give(normalized);
            return Ok(());
        }
        let normalized = (x, Some(norm.of_input()));
        pass.operations.gemv(pass.stream, shape, (&self.weights, true), normalized, (y, epilogue))?;
        self.note(pass, shape.rows, x.bytes() + y.bytes());
        Ok(())
    }

    /// The normalized rows of `x`, and their y.
    pub(crate) fn apply_and_keep_normalized(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &Buffer<T>,
    ) -> Result<(Buffer<T>, Buffer<T>)> {
        let rows = self.shape(x).rows;
        if !self.quantizes(pass, rows) {
            let normalized = norm.apply(pass, x)?;
            let y = self.apply(pass, &normalized)?;
            return Ok((normalized, y));
        }
        let (quantized, normalized) = norm.quantize(pass, x, true)?;
        let mut y = pass.memory.take(rows as usize * self.n as usize)?;
        self.apply_quantized(pass, &quantized, (&mut y, Epilogue::Store))?;
        quantized.give(pass);
        Ok((normalized, y))
    }

    /// silu(gate) · value of the normalized rows of `x`, `columns` of each, for weights of
    /// [`gated`](Self::gated).
    pub(crate) fn swiglu_of_normalized(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &Buffer<T>,
        columns: u32,
    ) -> Result<Buffer<T>> {
        let shape = GemvShape { n: columns, ..self.shape(x) };
        if shape.rows > T::FEW_ROWS || !self.is_gated {
            let normalized = norm.apply(pass, x)?;
            let y = self.swiglu(pass, &normalized, columns)?;
            pass.memory.give(normalized);
            return Ok(y);
        }
        let mut y = pass.memory.take(shape.rows as usize * columns as usize)?;
        let (normalized, to) = ((x, Some(norm.of_input())), (&mut y, Epilogue::Swiglu));
        pass.operations.gemv(pass.stream, shape, (&self.weights, true), normalized, to)?;
        self.note(pass, shape.rows, x.bytes() + y.bytes());
        Ok(y)
    }

    /// The same of rows that are normalized.
    pub(crate) fn swiglu(&self, pass: &mut Pass<'_, T>, x: &Buffer<T>, columns: u32) -> Result<Buffer<T>> {
        if !self.is_gated {
            let both = self.apply(pass, x)?;
            let y = swiglu(pass, &both, columns, self.n)?;
            pass.memory.give(both);
            return Ok(y);
        }
        let shape = GemvShape { n: columns, ..self.shape(x) };
        let mut y = pass.memory.take(shape.rows as usize * columns as usize)?;
        let to = (&mut y, Epilogue::Swiglu);
        match shape.rows <= T::FEW_ROWS {
            true => {
                pass.operations.gemv(pass.stream, shape, (&self.weights, true), (x, None), to)?;
            }
            false => T::product_of_many(pass.on(), shape, &self.weights, x, to)?,
        }
        self.note(pass, shape.rows, x.bytes() + y.bytes());
        Ok(y)
    }
}

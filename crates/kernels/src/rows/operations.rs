//! Operations on rows for programs. Matrices are (rows, columns), row-major.
//!
//! Each method says how far its results may be off. It is told in units u = 2^-24 of f32, in which everything is computed, and n is the number of
//! columns: a sum over a row is off by at most (48 + n / 8192) u of the sum of the magnitudes, since a thread adds up to 32 terms one after the other
//! and trees do the rest. Every result is then rounded to its type, for which two roundings to it are allowed. Tests hold every element to
//! these bounds, with `f64` on the host beside it.

use warpwright::runtime::{Buffer, Compiled, HostParameter, LaunchCounts, Storable, Stream};

use super::{
    AddRmsNorm, CrossEntropy, Form, Gain, LayerNorm, Plan, RmsNorm, RowElement, Softmax, Traffic, exchange,
};
use crate::operations::{OperationError, Operations, Result, Scratch, expect_length};

/// Rows and columns of a matrix.
pub type MatrixShape = (u32, u32);

/// Columns of a row at most: kernels compute places in a row, and a bit past its end, in 32 bits, and plans its bytes.
const MOST_COLUMNS: u32 = 1 << 29;

/// A stream's memory for rows.
#[derive(Default)]
struct RowScratch {
    exchange: Scratch<u64>,
}

/// Refuses a buffer that is no matrix of that shape.
fn expect_matrix<T: Storable>(what: &'static str, shape: MatrixShape, buffer: &Buffer<T>) -> Result<()> {
    expect_length(what, shape.0 as usize * shape.1 as usize, buffer.len())
}

/// Refuses a buffer that has no element for each column.
fn expect_row<T: Storable>(what: &'static str, (_, columns): MatrixShape, buffer: &Buffer<T>) -> Result<()> {
    expect_length(what, columns as usize, buffer.len())
}

/// Starts a kernel over `rows` rows.
pub(super) fn launch<Args: HostParameter>(
    kernel: &Compiled<Args>,
    stream: &Stream,
    plan: Plan,
    rows: u32,
    arguments: Args::Passed<'_>,
) -> Result<LaunchCounts> {
    if rows == 0 {
        return Ok(LaunchCounts::default());
    }
    let shape = plan.shape(kernel, rows)?;
    Ok(kernel.launch(stream, shape, arguments)?)
}

impl Operations {
    /// The plan for a kernel that moves so much of each row; `None` where there is nothing to do.
    fn plan<T: Storable>(&self, traffic: Traffic, (rows, columns): MatrixShape) -> Result<Option<Plan>> {
        if columns > MOST_COLUMNS {
            let reason = format!("a row of {columns} columns is too long; it has {MOST_COLUMNS} at most");
            return Err(OperationError::Shape { what: "an operation on rows", reason });
        }
        let properties = self.device().properties();
        let (capability, sms) = (properties.capability, properties.sm_count);
        Ok((rows > 0 && columns > 0).then(|| Plan::new::<T>(columns, traffic, capability, sms)))
    }

    /// Calls `launch` with the memory where CTAs that are no cluster tell each other what they know of a row.
    fn with_exchange(
        &self,
        stream: &Stream,
        plan: Plan,
        launch: impl FnOnce(&mut Buffer<u64>) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        self.with_scratch(stream, |scratch: &mut RowScratch| {
            launch(scratch.exchange.at_least_kept(stream, exchange::words(plan))?)
        })
    }

    /// Softmax of each row of `x`.
    ///
    /// A result y of an element x is off by at most (64 + n / 8192 + 16 (maximum - x)) · 2^-24 of itself, n being the columns, by the smallest
    /// normal f32, and by two roundings to `U`.
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let x = device.buffer_from(&[0.0f32, 0.0, 1.0, f32::NEG_INFINITY])?;
    /// let mut y = device.uninitialized::<f32>(4)?;
    /// operations.softmax(&stream, &x, (2, 2), &mut y)?;
    /// assert_eq!(y.to_vec()?, [0.5, 0.5, 1.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has another size than the shape says, a row has more than 2^29 columns, or the device refuses.
    pub fn softmax<T: RowElement + Storable, U: RowElement + Storable>(
        &self,
        stream: &Stream,
        x: &Buffer<T>,
        shape: MatrixShape,
        y: &mut Buffer<U>,
    ) -> Result<LaunchCounts> {
        self.softmax_as(Form::Probabilities, stream, x, shape, y)
    }

    /// The natural logarithm of the softmax of each row of `x`.
    ///
    /// A result of an element x is off by at most (64 + n / 8192 + 16 (maximum - x)) · 2^-24 · (1 + ln s), where n are the columns and s is the row's
    /// sum of exp(x - maximum), and by two roundings to `U`.
    ///
    /// # Errors
    /// As [`softmax`](Self::softmax).
    pub fn log_softmax<T: RowElement + Storable, U: RowElement + Storable>(
        &self,
        stream: &Stream,
        x: &Buffer<T>,
        shape: MatrixShape,
        y: &mut Buffer<U>,
    ) -> Result<LaunchCounts> {
        self.softmax_as(Form::Logarithms, stream, x, shape, y)
    }

    fn softmax_as<T: RowElement + Storable, U: RowElement + Storable>(
        &self,
        form: Form,
        stream: &Stream,
        x: &Buffer<T>,
        shape: MatrixShape,
        y: &mut Buffer<U>,
    ) -> Result<LaunchCounts> {
        expect_matrix("the input of a softmax", shape, x)?;
        expect_matrix("the output of a softmax", shape, y)?;
        let Some(plan) = self.plan::<T>(Traffic::SOFTMAX, shape)? else { return Ok(LaunchCounts::default()) };
        let kernel = self.kernel(Softmax { plan, form }, Softmax::run::<T, U>)?;
        self.with_exchange(stream, plan, |exchange| {
            launch(&kernel, stream, plan, shape.0, (x, y, exchange, shape.0))
        })
    }

    /// RMSNorm of each row of `x`: y = x / sqrt(mean(x²) + epsilon), times the gains that `weights` are by `gain`.
    ///
    /// A result is off by at most (64 + n / 8192) · 2^-24 of itself, n being the columns, and by two roundings to `U`.
    ///
    /// # Errors
    /// A buffer has another size than the shape says, a row has more than 2^29 columns, or the device refuses.
    pub fn rms_norm<T: RowElement + Storable, U: RowElement + Storable>(
        &self,
        stream: &Stream,
        (x, shape): (&Buffer<T>, MatrixShape),
        (weights, gain): (&Buffer<T>, Gain),
        epsilon: f32,
        y: &mut Buffer<U>,
    ) -> Result<LaunchCounts> {
        expect_matrix("the input of RMSNorm", shape, x)?;
        expect_matrix("the output of RMSNorm", shape, y)?;
        expect_row("the buffer of RMSNorm's weights", shape, weights)?;
        let Some(plan) = self.plan::<T>(Traffic::RMS_NORM, shape)? else {
            return Ok(LaunchCounts::default());
        };
        let kernel = self.kernel(RmsNorm { plan, gain }, RmsNorm::run::<T, U>)?;
        self.with_exchange(stream, plan, |exchange| {
            launch(&kernel, stream, plan, shape.0, (x, weights, y, exchange, shape.0, epsilon))
        })
    }

    /// `sum` = `x` + `residual`, and RMSNorm of each row of it, as [`rms_norm`](Self::rms_norm), in `y`.
    ///
    /// `sum` is off by at most two roundings to `T`, and `y` by as much as [`rms_norm`](Self::rms_norm)'s, of the exact sum rounded to `T`.
    ///
    /// # Errors
    /// A buffer has another size than the shape says, a row has more than 2^29 columns, or the device refuses.
    pub fn add_rms_norm<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        (x, residual, shape): (&Buffer<T>, &Buffer<T>, MatrixShape),
        (weights, gain): (&Buffer<T>, Gain),
        epsilon: f32,
        (sum, y): (&mut Buffer<T>, &mut Buffer<T>),
    ) -> Result<LaunchCounts> {
        expect_matrix("the input of RMSNorm", shape, x)?;
        expect_matrix("the residual of RMSNorm", shape, residual)?;
        expect_matrix("the sum of RMSNorm", shape, sum)?;
        expect_matrix("the output of RMSNorm", shape, y)?;
        expect_row("the buffer of RMSNorm's weights", shape, weights)?;
        let Some(plan) = self.plan::<T>(Traffic::ADD_RMS_NORM, shape)? else {
            return Ok(LaunchCounts::default());
        };
        let kernel = self.kernel(AddRmsNorm { plan, gain }, AddRmsNorm::run::<T>)?;
        self.with_exchange(stream, plan, |exchange| {
            launch(&kernel, stream, plan, shape.0, (x, residual, weights, sum, y, exchange, shape.0, epsilon))
        })
    }

    /// LayerNorm of each row of `x`: y = (x - mean) / sqrt(variance + epsilon) · weights + biases.
    ///
    /// A result is off by at most (64 + n / 8192) · 2^-24 of the sum of the magnitudes of what is scaled and of its bias; by twice (48 + n / 8192) · 2^-24 of the
    /// row's mean magnitude, scaled as the element is, since the mean is off by that; and by two roundings to `U`. n are the columns.
    ///
    /// # Errors
    /// A buffer has another size than the shape says, a row has more than 2^29 columns, or the device refuses.
    pub fn layer_norm<T: RowElement + Storable, U: RowElement + Storable>(
        &self,
        stream: &Stream,
        (x, shape): (&Buffer<T>, MatrixShape),
        (weights, biases): (&Buffer<T>, &Buffer<T>),
        epsilon: f32,
        y: &mut Buffer<U>,
    ) -> Result<LaunchCounts> {
        expect_matrix("the input of LayerNorm", shape, x)?;
        expect_matrix("the output of LayerNorm", shape, y)?;
        expect_row("the buffer of LayerNorm's weights", shape, weights)?;
        expect_row("the buffer of LayerNorm's biases", shape, biases)?;
        let Some(plan) = self.plan::<T>(Traffic::LAYER_NORM, shape)? else {
            return Ok(LaunchCounts::default());
        };
        let kernel = self.kernel(LayerNorm { plan }, LayerNorm::run::<T, U>)?;
        self.with_exchange(stream, plan, |exchange| {
            launch(&kernel, stream, plan, shape.0, (x, weights, biases, y, exchange, shape.0, epsilon))
        })
    }

    /// The cross-entropy of each row of logits `x` against its target, in `losses`. A target of [`IGNORED`](super::IGNORED) makes 0, and any
    /// other that is no column NaN.
    ///
    /// A loss is off by at most (64 + n / 8192) · 2^-24 of 1 + |maximum| + |the target's logit|, n being the columns, and by two roundings.
    ///
    /// # Errors
    /// There are no columns though there are rows, a buffer has another size than the shape says, a row has more than 2^29 columns, or the
    /// device refuses.
    pub fn cross_entropy<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        (x, shape): (&Buffer<T>, MatrixShape),
        targets: &Buffer<i64>,
        losses: &mut Buffer<f32>,
    ) -> Result<LaunchCounts> {
        expect_matrix("the input of cross-entropy", shape, x)?;
        expect_length("the buffer of cross-entropy's targets", shape.0 as usize, targets.len())?;
        expect_length("the buffer of cross-entropy's losses", shape.0 as usize, losses.len())?;
        if shape.0 > 0 && shape.1 == 0 {
            return Err(OperationError::Empty { what: "the cross-entropy of a row" });
        }
        let Some(plan) = self.plan::<T>(Traffic::CROSS_ENTROPY, shape)? else {
            return Ok(LaunchCounts::default());
        };
        let kernel = self.kernel(CrossEntropy { plan }, CrossEntropy::run::<T>)?;
        self.with_exchange(stream, plan, |exchange| {
            launch(&kernel, stream, plan, shape.0, (x, targets, losses, exchange, shape.0))
        })
    }
}

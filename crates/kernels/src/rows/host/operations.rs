//! Operations on rows for programs. Matrices are (rows, columns), row-major.
//!
//! Each method states its error bound in units of u = 2^-24, the rounding of f32, in which
//! everything is computed; n is the number of columns. A sum over a row is off by at most (48 + n /
//! 8192) u of the sum of the magnitudes: a thread adds up to 32 terms in order, and trees add the
//! rest. Each result is then rounded to its type, for which two roundings are allowed. Tests
//! compare every element with `f64`.

use warpwright::runtime::{Buffer, Compiled, HostParameter, LaunchCounts, Storable, Stream};

use super::super::device::RowElement;
use super::super::device::cross_entropy::CrossEntropy;
use super::super::device::layer_norm::LayerNorm;
use super::super::device::rms_norm::{AddRmsNorm, Gain, RmsNorm};
use super::super::device::softmax::{Form, Softmax};
use super::super::device::workspace_words;
use super::super::plan::{Plan, Traffic};
use crate::operations::{OperationError, Operations, Result, Scratch, expect_length};

/// Rows and columns of a matrix.
pub type MatrixShape = (u32, u32);

/// Columns of a row at most: kernels address a row, and a bit past its end, with 32 bits.
pub const MAX_COLUMNS: u32 = 1 << 29;

/// The workspace of a stream.
#[derive(Default)]
struct RowScratch {
    workspace: Scratch<u64>,
}

/// Refuses a buffer that is not a matrix of that shape.
fn expect_matrix<T: Storable>(what: &'static str, shape: MatrixShape, buffer: &Buffer<T>) -> Result<()> {
    expect_length(what, shape.0 as usize * shape.1 as usize, buffer.len())
}

/// Refuses a buffer that does not have one element per column.
fn expect_row<T: Storable>(what: &'static str, (_, columns): MatrixShape, buffer: &Buffer<T>) -> Result<()> {
    expect_length(what, columns as usize, buffer.len())
}

/// Launches a kernel over `rows` rows.
pub fn launch<Args: HostParameter>(
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
    /// The plan for a kernel with that traffic; `None` for an empty matrix.
    fn plan<T: Storable>(&self, traffic: Traffic, (rows, columns): MatrixShape) -> Result<Option<Plan>> {
        if columns > MAX_COLUMNS {
            let reason = format!("a row of {columns} columns is too long; it has {MAX_COLUMNS} at most");
            return Err(OperationError::Shape { what: "an operation on rows", reason });
        }
        let properties = self.device().properties();
        let (capability, sms) = (properties.capability, properties.sm_count);
        Ok((rows > 0 && columns > 0).then(|| Plan::new::<T>(columns, traffic, capability, sms)))
    }

    /// Calls `launch` with the workspace for reductions over a grid.
    fn with_workspace(
        &self,
        stream: &Stream,
        plan: Plan,
        launch: impl FnOnce(&mut Buffer<u64>) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        self.with_scratch(stream, |scratch: &mut RowScratch| {
            launch(scratch.workspace.at_least_kept(stream, workspace_words(plan))?)
        })
    }

    /// Softmax of each row of `x`.
    ///
    /// A result y of an element x is off by at most (64 + n / 8192 + 16 (maximum - x)) u of itself,
    /// by the smallest normal f32, and by two roundings to `U`.
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
    /// A buffer does not have the size of the shape, a row has more than 2^29 columns, or the
    /// device refuses.
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
    /// A result of an element x is off by at most (64 + n / 8192 + 16 (maximum - x)) u (1 + ln s),
    /// where s is the sum of exp(x - maximum) of the row, and by two roundings to `U`.
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
        self.with_workspace(stream, plan, |workspace| {
            launch(&kernel, stream, plan, shape.0, (x, y, workspace, shape.0))
        })
    }

    /// RMSNorm of each row of `x`: y = x / sqrt(mean(x²) + epsilon), times `weights` or 1 +
    /// `weights`, as `gain` says.
    ///
    /// A result is off by at most (64 + n / 8192) u of itself, and by two roundings to `U`.
    ///
    /// # Errors
    /// A buffer does not have the size of the shape, a row has more than 2^29 columns, or the
    /// device refuses.
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
        self.with_workspace(stream, plan, |workspace| {
            launch(&kernel, stream, plan, shape.0, (x, weights, y, workspace, shape.0, epsilon))
        })
    }

    /// `sum` = `x` + `residual`, and `y` = [`rms_norm`](Self::rms_norm) of each row of `sum`.
    ///
    /// `sum` is off by at most two roundings to `T`; `y` has the error of
    /// [`rms_norm`](Self::rms_norm) of the exact sum rounded to `T`.
    ///
    /// # Errors
    /// A buffer does not have the size of the shape, a row has more than 2^29 columns, or the
    /// device refuses.
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
        self.with_workspace(stream, plan, |workspace| {
            launch(
                &kernel,
                stream,
                plan,
                shape.0,
                (x, residual, weights, sum, y, workspace, shape.0, epsilon),
            )
        })
    }

    /// LayerNorm of each row of `x`: y = (x - mean) / sqrt(variance + epsilon) · weights + biases.
    ///
    /// A result is off by at most (64 + n / 8192) u of the sum of the magnitudes of the scaled
    /// element and its bias; by twice (48 + n / 8192) u of the row's mean magnitude, scaled like
    /// the element, which is the error of the mean; and by two roundings to `U`.
    ///
    /// # Errors
    /// A buffer does not have the size of the shape, a row has more than 2^29 columns, or the
    /// device refuses.
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
        self.with_workspace(stream, plan, |workspace| {
            launch(&kernel, stream, plan, shape.0, (x, weights, biases, y, workspace, shape.0, epsilon))
        })
    }

    /// The cross-entropy of each row of logits `x` with its target, in `losses`. The loss of a
    /// target [`IGNORED`](crate::rows::IGNORED) is 0, and that of any other that is not a column is
    /// NaN.
    ///
    /// A loss is off by at most (64 + n / 8192) u of 1 + |maximum| + |logit of the target|, and by
    /// two roundings.
    ///
    /// # Errors
    /// Rows have no columns, a buffer does not have the size of the shape, a row has more than 2^29
    /// columns, or the device refuses.
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
        self.with_workspace(stream, plan, |workspace| {
            launch(&kernel, stream, plan, shape.0, (x, targets, losses, workspace, shape.0))
        })
    }
}

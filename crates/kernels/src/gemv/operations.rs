//! The operations for programs.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::kernel::{Gemv, WARPS};
use super::problem::{Epilogue, GemvShape, InputNorm};
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::overlap;
use crate::rows::RowElement;

/// What a product reads.
struct Inputs<'l, T> {
    weights: &'l Buffer<T>,
    x: &'l Buffer<T>,
    norm: Option<InputNorm<'l, T>>,
    /// Any buffer where there are no experts.
    experts: &'l Buffer<u32>,
    /// Whether the weights are constant. With experts, the kernel waits before it reads any.
    constant: bool,
}

impl Operations {
    /// y = x · Wᵀ, of rows of x that are normalized first if there is a norm, and with the epilogue: x (rows, k),
    /// weights (n, k) and y (rows, n). The weights are read for each 8 rows. They are constant if what writes
    /// them is complete when the product is launched: the kernel then reads them before its predecessor on the
    /// stream ends.
    ///
    /// Everything is computed in f32, and a result is rounded to `U` once.
    ///
    /// # Errors
    /// A buffer does not have the length of the shape, or the device refuses.
    pub fn gemv<T: RowElement + Storable, U: RowElement + Storable>(
        &self,
        stream: &Stream,
        shape: GemvShape,
        (weights, constant): (&Buffer<T>, bool),
        (x, norm): (&Buffer<T>, Option<InputNorm<'_, T>>),
        (y, epilogue): (&mut Buffer<U>, Epilogue),
    ) -> Result<LaunchCounts> {
        let GemvShape { rows, n, k } = shape;
        shape.check(epilogue)?;
        let of_w = if epilogue == Epilogue::Swiglu { 2 * n as usize } else { n as usize };
        expect_length("the weights of a GEMV", of_w * k as usize, weights.len())?;
        expect_length("the input of a GEMV", rows as usize * k as usize, x.len())?;
        if let Some(norm) = norm {
            expect_length("the gains of a GEMV", k as usize, norm.gains.len())?;
        }
        let gemv = Gemv { epilogue, norm: norm.map(|norm| norm.gain), ..Gemv::new::<T>(self, shape) };
        let inputs = Inputs { weights, x, norm, experts: x.cast(), constant };
        self.launch_gemv(stream, shape, gemv, inputs, y)
    }

    /// Row r of y = row r / `choices` of x · (matrix of its expert)ᵀ, of weights (experts, n, k). Experts are read when the kernel
    /// runs.
    ///
    /// # Errors
    /// As [`gemv`](Self::gemv), or the rows are no multiple of the choices.
    pub fn expert_gemv<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        (shape, choices): (GemvShape, u32),
        weights: &Buffer<T>,
        (x, experts): (&Buffer<T>, &Buffer<u32>),
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let GemvShape { rows, n, k } = shape;
        if choices == 0 || !rows.is_multiple_of(choices) {
            let reason = format!("{rows} rows of {choices} choices each; give a multiple");
            return Err(OperationError::Shape { what: "a GEMV of experts", reason });
        }
        let of_expert = n as usize * k as usize;
        let count = weights.len() / of_expert.max(1);
        expect_length("the weights of experts", count * of_expert, weights.len())?;
        expect_length("the input of experts", (rows / choices) as usize * k as usize, x.len())?;
        expect_length("the experts of rows", rows as usize, experts.len())?;
        let of_one = GemvShape { rows: 1, n: n.saturating_mul(rows), k };
        let gemv = Gemv { choices: Some(choices), ..Gemv::new::<T>(self, of_one) };
        self.launch_gemv(stream, shape, gemv, Inputs { weights, x, norm: None, experts, constant: true }, y)
    }

    fn launch_gemv<T: RowElement + Storable, U: RowElement + Storable>(
        &self,
        stream: &Stream,
        GemvShape { rows, n, .. }: GemvShape,
        gemv: Gemv,
        Inputs { weights, x, norm, experts, constant }: Inputs<'_, T>,
        y: &mut Buffer<U>,
    ) -> Result<LaunchCounts> {
        expect_length("the output of a GEMV", rows as usize * n as usize, y.len())?;
        if rows == 0 || n == 0 {
            return Ok(LaunchCounts::default());
        }
        let kernel = self.kernel(gemv, Gemv::run::<T, U>)?;
        let (columns, rows_of_ctas) = (n.div_ceil(WARPS * gemv.results()), rows.div_ceil(gemv.rows));
        let grid = match gemv.choices {
            Some(_) => (rows_of_ctas, columns),
            None => (columns, rows_of_ctas),
        };
        let (gains, epsilon) = norm.map_or((weights, 0.0), |norm| (norm.gains, norm.epsilon));
        let launch = overlap::shape(kernel.shape(grid), gemv.overlaps && constant);
        Ok(kernel.launch(stream, launch, (weights, x, gains, experts, y, n, rows, epsilon))?)
    }
}

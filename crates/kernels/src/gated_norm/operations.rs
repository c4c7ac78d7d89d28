//! The operation for programs.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::kernel::{GatedNormKernel, LANES};
use crate::columns::{MatrixColumns, VectorGrid};
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::rows::{Gain, RowElement};

/// A gated RMSNorm of heads.
#[derive(Clone, Copy)]
pub struct GatedNorm<'l> {
    /// Tokens.
    pub tokens: u32,
    /// Heads of a token.
    pub heads: u32,
    /// Elements of a head: a power of two from 8 to 256.
    pub head_dim: u32,
    /// (head_dim).
    pub weights: &'l Buffer<f32>,
    /// What normalized values are multiplied by.
    pub gain: Gain,
    /// Is added to the mean of squares.
    pub epsilon: f32,
}

/// The operation's name in errors.
const OPERATION: &str = "gated RMSNorm";

impl Operations {
    /// RMSNorm of each head of `x`, times the silu of `z`. Columns of `x` and `z` are (heads,
    /// head_dim), and so are rows of `y`, which has no gaps. Offsets and strides are multiples of 8
    /// elements.
    ///
    /// A result is off by at most 64 u of itself, where u is 2^-24, and by one rounding to `T`.
    ///
    /// # Errors
    /// The head has another size, offsets or strides are not multiples of 8, a buffer does not have
    /// the length of the shape, or the device refuses.
    pub fn gated_rms_norm<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        norm: GatedNorm<'_>,
        x: MatrixColumns<'_, T>,
        z: MatrixColumns<'_, T>,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let GatedNorm { tokens, heads, head_dim, weights, gain, epsilon } = norm;
        let refuse = |reason| Err(OperationError::Shape { what: OPERATION, reason });
        if !head_dim.is_power_of_two() || !(LANES..=32 * LANES).contains(&head_dim) {
            return refuse(format!("heads of {head_dim} elements; give a power of two from 8 to 256"));
        }
        let Some(columns) = heads.checked_mul(head_dim) else {
            return refuse(format!("{heads} heads of {head_dim} elements are 2^32 elements or more"));
        };
        let extents = [x.extents(), z.extents()];
        if let Some(stride) = extents.iter().flatten().find(|extent| !extent.is_multiple_of(LANES)) {
            return refuse(format!("an offset or a stride of {stride} elements; give multiples of {LANES}"));
        }
        x.check("x of gated RMSNorm", (tokens, columns))?;
        z.check("z of gated RMSNorm", (tokens, columns))?;
        expect_length("the weights of gated RMSNorm", head_dim as usize, weights.len())?;
        expect_length("the output of gated RMSNorm", tokens as usize * columns as usize, y.len())?;
        if y.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let grid = VectorGrid { columns, lanes: LANES, steps: 1 };
        let kernel = self.kernel(GatedNormKernel { grid, head_dim, gain }, GatedNormKernel::run::<T>)?;
        let ctas = grid.grid(self, OPERATION, tokens)?;
        let arguments = (x.buffer, z.buffer, weights, y, extents[0], extents[1], tokens, epsilon);
        Ok(kernel.launch(stream, ctas, arguments)?)
    }
}

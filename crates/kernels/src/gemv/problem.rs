//! Shapes, and what a kernel computes beside the product.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::Buffer;

use crate::gemm::problem::epilogue::GATED_COLUMNS;
use crate::operations::{OperationError, Result};
use crate::rows::Gain;

/// Rows of x of a CTA at most.
pub const MAX_ROWS: u32 = 8;
/// Rows of W that occupy few SMs, and leave registers for more loads.
pub(super) const FEW_RESULTS: u32 = 512;
/// Rows of x for which few results' weights are read again and again. (H200, the 64 gates of a layer of
/// Qwen 3.5-9B: 1.8 us for a row, 7 to 9 by the GEMM for 16 and 64 rows.)
const MAX_ROWS_OF_FEW_RESULTS: u32 = 128;

/// Rows of gates, and of values after them, of weights that have both: in the columns of y that they
/// give, the GEMM pairs them.
pub const TURN: u32 = GATED_COLUMNS / 2;

/// A product: rows of x, columns of y, and of x.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemvShape {
    /// Rows of x and of y.
    pub rows: u32,
    /// Columns of y.
    pub n: u32,
    /// Columns of x and of the weights.
    pub k: u32,
}

impl GemvShape {
    /// Refuses gates and values that are no whole turns.
    pub(super) fn check(&self, epilogue: Epilogue) -> Result<()> {
        if epilogue != Epilogue::Swiglu || self.n.is_multiple_of(TURN) {
            return Ok(());
        }
        let reason = format!("{} gates and values, in turns of {TURN}; give whole turns", self.n);
        Err(OperationError::Shape { what: "a GEMV", reason })
    }
}

/// Whether the operation is faster than the GEMM for few results, of bf16.
pub fn has_few_results(GemvShape { rows, n, .. }: GemvShape) -> bool {
    n <= FEW_RESULTS && rows <= MAX_ROWS_OF_FEW_RESULTS
}

/// What a kernel computes beside the product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Epilogue {
    /// y is the product.
    #[default]
    Store,
    /// The product is added to y.
    Add,
    /// y = silu(gate) · value of weights (2 n, k), whose rows are gates and values in turns of [`TURN`].
    Swiglu,
}

/// RMSNorm of the rows of x before a product.
#[derive(Clone, Copy)]
pub struct InputNorm<'l, T> {
    /// (k): the weights.
    pub gains: &'l Buffer<T>,
    /// What normalized values are multiplied by.
    pub gain: Gain,
    /// Is added to the mean of squares.
    pub epsilon: f32,
}

//! The weights, and what is refused.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::{Buffer, Storable};

use crate::operations::{OperationError, Result, expect_length};

/// The operation's name in errors.
pub(super) const OPERATION: &str = "a weight-only GEMV";
/// Vectors of a CTA at most: the n of the MMA.
pub(super) const MAX_BATCH: u32 = 8;

/// How a weight is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum WeightFormat {
    /// Two to a byte, the first along k in the low four bits: 0 to 15, less the zero point, which
    /// is 8 without zero points.
    #[default]
    Int4,
    /// A signed byte, less the zero point, a signed byte as well.
    Int8,
    /// e4m3. The two encodings of NaN are read as 480 and -480. There are no zero points.
    E4m3,
}

impl WeightFormat {
    /// Weights of a 32-bit word.
    pub fn per_word(self) -> u32 {
        match self {
            WeightFormat::Int4 => 8,
            WeightFormat::Int8 | WeightFormat::E4m3 => 4,
        }
    }
}

/// A matrix (n, k) of quantized weights.
#[derive(Clone, Copy)]
pub struct QuantizedWeights<'l, S> {
    /// Rows: elements of a result.
    pub n: u32,
    /// Columns: a multiple of the group.
    pub k: u32,
    /// How a weight is stored.
    pub format: WeightFormat,
    /// (n, k), row-major.
    pub weights: &'l Buffer<u8>,
    /// Weights along k that share a scale: 32, 64 or 128.
    pub group: u32,
    /// (n, k / group).
    pub scales: &'l Buffer<S>,
    /// (n, k / group): a byte each, which weights are less, 0 to 15 for int4. `None`: as the format
    /// says.
    pub zero_points: Option<&'l Buffer<u8>>,
    /// Whether what writes these buffers is complete when the product is launched, as with weights
    /// that a program loads once. The kernel then reads them before its predecessor on the stream
    /// ends.
    pub constant: bool,
}

impl<S: Storable> QuantizedWeights<'_, S> {
    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> u32 {
        self.k / self.format.per_word() * 4
    }

    pub(crate) fn check(&self) -> Result<()> {
        let Self { n, k, group, .. } = *self;
        let refuse = |reason| Err(OperationError::Shape { what: OPERATION, reason });
        if !matches!(group, 32 | 64 | 128) {
            return refuse(format!("groups of {group} weights; give 32, 64 or 128"));
        }
        if k == 0 || !k.is_multiple_of(group) || k > 1 << 20 {
            return refuse(format!("rows of {k} weights; give a multiple of the group, {group}, up to 2^20"));
        }
        if n >= 1 << 30 {
            return refuse(format!("{n} rows of weights are 2^30 or more; do the work in parts"));
        }
        if self.format == WeightFormat::E4m3 && self.zero_points.is_some() {
            return refuse("weights of e4m3 have no zero points".to_owned());
        }
        let rows = n as usize;
        let groups = rows * (k / group) as usize;
        expect_length("quantized weights", rows * self.row_bytes() as usize, self.weights.len())?;
        expect_length("the scales of weights", groups, self.scales.len())?;
        match self.zero_points {
            Some(zeros) => expect_length("the zero points of weights", groups, zeros.len()),
            None => Ok(()),
        }
    }
}

//! Kernels over the rows of a matrix: softmax, log-softmax, RMSNorm (also fused with a residual
//! addition), LayerNorm, cross-entropy. Rows of any length and number; f32, f16 or bf16 in memory,
//! computed in f32.
//!
//! A row is read once and written once wherever registers hold it: those of a warp, a CTA, or a
//! cluster of CTAs. `host` chooses a [`Plan`], which threads share a row and how rows are
//! scheduled; `device` has the kernels.

mod device;
mod host;
mod plan;

pub(crate) use device::Chunk;
pub use device::cross_entropy::{CrossEntropy, IGNORED};
pub use device::layer_norm::LayerNorm;
pub use device::rms_norm::{AddRmsNorm, Gain, RmsNorm};
pub use device::softmax::{Form, Softmax};
pub use device::{RowElement, workspace_words};
pub use host::{MAX_COLUMNS, MatrixShape, launch};
pub use plan::{Evict, Plan, RowScheduler, Traffic, Tuning};

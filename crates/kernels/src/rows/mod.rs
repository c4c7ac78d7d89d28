//! Kernels over the rows of a matrix: softmax, log-softmax, RMSNorm (also fused with a residual addition), LayerNorm,
//! cross-entropy. Rows of any length and number; f32, f16 or bf16 in memory, f32 inside.
//!
//! A row is read once and written once wherever the registers of its threads hold it: those of a warp, a CTA, or a cluster of
//! CTAs. [`Plan`] chooses who shares a row, `team` is how they reduce, `row` how they move it; each kernel's file is then its
//! arithmetic alone.

mod cross_entropy;
mod element;
mod exchange;
mod layer_norm;
mod operations;
mod workload;

mod plan;
mod rms_norm;
mod rounds;
mod row;
mod softmax;
mod team;
mod tuning;

pub use cross_entropy::{CrossEntropy, IGNORED};
pub use element::RowElement;
pub use layer_norm::LayerNorm;

pub use operations::MatrixShape;
pub use plan::{Plan, Traffic, Turnover};
pub use rms_norm::{AddRmsNorm, Gain, RmsNorm};
pub use softmax::{Form, Softmax};
pub use tuning::Tuning;
pub(crate) use workload::{
    AddRmsNormWorkload, CrossEntropyWorkload, LayerNormWorkload, LogSoftmaxWorkload, RmsNormWorkload,
    SoftmaxWorkload,
};

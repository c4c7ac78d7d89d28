//! The kernels, and what they share: each kernel's file is its arithmetic, `row_loop` is the way
//! from row to row, `group` the reduction over the threads of a row, `row` their loads and stores.

mod chunk;
pub(super) mod cross_entropy;
mod grid_reduction;
mod group;
pub(super) mod layer_norm;
mod merge;
pub(super) mod rms_norm;
mod row;
mod row_loop;
pub(super) mod softmax;

pub(crate) use chunk::Chunk;
pub use chunk::RowElement;
pub use grid_reduction::workspace_words;

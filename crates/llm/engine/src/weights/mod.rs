//! Weights: files, their tensors by name, and how they reach the device.

mod blocks;
mod checkpoint;
mod gguf;
mod kind;
mod loader;
mod part;
mod quantize;
mod random;
mod safetensors;
mod save;
mod tensor;

pub use checkpoint::Checkpoint;
pub use kind::Kind;
pub(crate) use loader::Loader;
pub(crate) use quantize::{BLOCK, Format, QuantizedNumbers};
pub use tensor::Tensor;

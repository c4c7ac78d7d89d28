//! The kernel, and its parts.

mod cache;
mod kernel;
mod partial;
mod ring;
mod schedule;
mod softmax;

pub(super) use cache::{Pool, box_requirement};
pub use kernel::CacheElement;
pub(super) use kernel::DecodeAttention;

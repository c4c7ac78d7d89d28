//! The kernel, and its parts.

mod cache;
mod kernel;
mod partial;
mod results;
mod ring;
mod rows;
mod schedule;
mod scores;
mod softmax;

pub(super) use cache::{Pool, box_requirement};
pub use kernel::CacheElement;
pub(super) use kernel::DecodeAttention;

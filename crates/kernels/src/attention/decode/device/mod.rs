//! The kernel, and its parts.

mod cache;
mod configuration;
mod kernel;
mod partial;
mod results;
mod rows;
mod schedule;
mod scores;
mod softmax;
mod stages;

pub(super) use cache::{Pool, box_requirement};
pub use configuration::CacheElement;
pub(super) use configuration::DecodeAttention;

//! Decode attention: one or a few queries per sequence over a paged cache of keys and values.
//!
//! ```text
//! sequence     0              1       2    ..          lengths live on the device; 0 is a length
//! keys         |==========|   |===|   |====..
//!
//! cache        pages of `page_size` keys x `key_heads` x `head_dim`, in any order: `table[sequence][key / page_size]`
//! queries      the query_heads / key_heads query heads of a key head, and all queries of a sequence, are rows of one product
//! ```
//!
//! A launch is bound by the bytes of K and V. The keys of all sequences and heads are split evenly
//! over persistent CTAs, whatever the lengths are, and every byte is read once. A sequence whose
//! keys several CTAs share is combined in the same launch.
//!
//! `problem` states the shapes, `plan` the configuration, `device` has the kernel, and `host`
//! launches it.

mod device;
mod host;
mod plan;
mod problem;

pub use device::CacheElement;
pub use plan::{CacheEviction, CachePromotion, DecodeTuning};
pub use problem::{DecodeBuffers, DecodeOptions, DecodeShape, Heads};

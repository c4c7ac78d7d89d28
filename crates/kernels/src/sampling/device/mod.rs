//! The kernel, by idea.

mod candidates;
mod cluster;
mod histogram;
mod kernel;
mod mass;
mod nucleus;
mod search;
mod segments;
mod stream;
mod threshold;

pub(super) use kernel::{Residency, Sample, keys_of_cta};
pub(crate) use mass::{key_of, logit_of};
pub(super) use stream::FIRST_TILES;

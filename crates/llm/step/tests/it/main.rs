//! The reference sampler and the toy executor.

mod sampling;
mod toy;

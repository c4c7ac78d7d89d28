//! Tests of the engine, in one binary.

mod drafts;
mod fixtures;
mod greedy;
mod plan;
mod quantized;
mod refusals;
mod smollm2;
mod weights;

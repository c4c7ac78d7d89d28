//! Tests of the engine, in one binary.

mod corrupt;
mod drafts;
mod failures;
mod fixtures;
mod gguf;
mod greedy;
mod plan;
mod quantized;
mod refusals;
mod shapes;
mod smollm2;
mod tensor_parallel;
mod warm_up;
mod weights;

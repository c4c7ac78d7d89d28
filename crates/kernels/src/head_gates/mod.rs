//! The gates of attention's output: y = x · sigmoid(gate), elementwise, where the gates of a head follow its query in a
//! fused projection, as in Qwen 3.5.

mod kernel;
mod operations;

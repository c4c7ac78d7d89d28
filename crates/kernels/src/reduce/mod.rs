//! Reduction: all elements of a buffer combined into one.
//!
//! [`single_pass`]: 16 bytes a load, many loads in flight, and one launch: the last CTA to finish
//! combines the rest. The steps that lead to it are lessons: `warpwright_lessons::reduce`.

mod operations;
pub mod single_pass;

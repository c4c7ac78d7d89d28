//! Scan: every prefix of a buffer combined, into a buffer of the same length.
//!
//! ```text
//! input       3   1   4   1   5
//! inclusive   3   4   8   9  14     output[i] = input[0] + .. + input[i]
//! exclusive   0   3   4   8   9     output[i] = input[0] + .. + input[i - 1], the identity first
//! ```
//!
//! [`single_pass`] is one kernel that reads and writes every element once. The
//! classic scans of a section and the scan in three kernels are lessons:
//! `warpwright_lessons::scan`.

mod operations;
pub mod single_pass;

pub use single_pass::ScanKind;

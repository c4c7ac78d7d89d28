//! Launching the kernels.

mod operations;

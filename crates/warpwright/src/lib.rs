//! Write, run, check and time tensor-core GPU kernels in stable Rust.

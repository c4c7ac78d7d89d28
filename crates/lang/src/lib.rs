//! The kernel language: device values staged by ordinary Rust.

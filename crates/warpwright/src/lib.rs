//! Write, run, check and time tensor-core GPU kernels in stable Rust.

pub use warpwright_arch as arch;
pub use warpwright_emulator as emulator;
pub use warpwright_ir as ir;
pub use warpwright_lang as lang;
pub use warpwright_layout as layout;
pub use warpwright_ptx as ptx;
pub use warpwright_runtime as runtime;

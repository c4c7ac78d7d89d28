//! The kernels. Imports the problem's floor and nothing above.

pub mod epilogue;
pub mod kernel;
pub mod mainloop;
pub mod problems;
pub(in crate::gemm) mod reduction;
pub(in crate::gemm) mod scheduler;
pub(in crate::gemm) mod staging;
pub(in crate::gemm) mod store;

//! `libcuda.so.1` and `libcudart.so` over the emulator: programs for CUDA run without a GPU, and without being changed.
//!
//! One shared library has the functions of both APIs. `warpwright run-cuda` makes it the one that a program loads;
//! `docs/cuda.md` explains how to use it and what it does not have.
//!
//! ```text
//! driver/, runtime/            the functions of the two APIs, a file for each chapter
//! edge, status, handles        C's pointers, codes and handles; the tables of functions
//! context, stream, event, queue, capture, graph, work, transfer, launch, enqueue     what is in order, and what it does
//! space, pool, pointer         memory by address
//! module, function, fatbin, linker       PTX and its kernels
//! machine, attribute, report   the emulated GPU, and the reports to its user
//! ```

mod attribute;
mod capture;
mod context;
mod driver;
mod edge;
mod enqueue;
mod event;
mod fatbin;
mod function;
mod graph;
mod handles;
mod launch;
mod linker;
pub mod machine;
mod module;
mod pointer;
mod pool;
mod queue;
mod report;
mod runtime;
mod space;
mod status;
mod stream;
mod transfer;
mod work;

pub use edge::Entry;
pub use status::{CODES, Row, Status};

/// Every function of the runtime API, with those that are not supported.
pub fn runtime_functions() -> impl Iterator<Item = &'static Entry> {
    runtime::TABLES.iter().copied().flatten()
}

/// Every function of the driver API, with those that are not supported.
pub fn driver_functions() -> impl Iterator<Item = &'static Entry> {
    driver::TABLES.iter().copied().flatten()
}

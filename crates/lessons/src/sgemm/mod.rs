//! SGEMM without tensor cores: from one thread per element to the peak FMA rate of an SM.
//!
//! C = alpha · A·B + beta · C in f32; A is (m, k), B is (k, n), C is (m, n), all row-major. Each
//! file is a step, and the difference between two files is the lesson:
//!
//! | step | file | what it adds |
//! |---|---|---|
//! | `naive` | [`naive`] | a thread an element of C |
//! | `coalesced` | [`coalesced`] | a warp along a row |
//! | `shared` | [`shared`] | blocks of 32 x 32 in shared memory |
//! | `column` | [`thread_tile`] | a thread 8 elements below each other |
//! | `thread-tile` | [`thread_tile`] | a thread 8 x 8 elements |
//! | `coalesced-copies` | [`thread_tile`] | slices copied side by side |
//! | `vectorized` | [`vectorized`] | 16 bytes an instruction, A transposed on its way to shared memory |
//! | `warp-tile` | [`warp_tile`] | a warp's own tile, no bank conflicts |
//! | `double-buffered` | [`double_buffered`](warpwright_kernels::sgemm::device::double_buffered) | `cp.async` and a pipeline of k-blocks |
//! | `tma` | [`tma`](warpwright_kernels::sgemm::device::tma) | the tensor memory accelerator fills the pipeline |
//!
//! The last two are the library's. Every step accepts any m, n and k.

pub mod coalesced;
pub mod naive;
pub mod shared;
mod step;
pub mod thread_tile;
pub mod vectorized;
pub mod warp_tile;
mod workload;

pub use step::Step;
pub(crate) use workload::SgemmLadder;

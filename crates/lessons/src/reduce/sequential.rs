//! The tree with adjacent active threads: thread t adds the element of thread t + stride, for
//! strides n/2, n/4, ..., 1.
//!
//! ```text
//! thread      0    1    2    3    4    5    6    7
//! stride 4    ae   bf   cg   dh   .    .    .    .       the upper half of the warps is done
//! stride 2    aceg bdfh .    .
//! stride 1    all  .
//! ```
//!
//! The number of steps is the same, but whole warps become idle, no warp diverges before the last
//! five steps, and lanes access consecutive words without bank conflicts. Elements are combined out
//! of order, so the operation must commute.

use warpwright::prelude::*;

use warpwright_kernels::monoid::InPlace;

/// Combines the elements of a CTA, one per thread. Only thread 0 has the result.
#[device]
pub fn reduce_block<T: Element, M: InPlace<T>>(monoid: &M, element: Reg<T>, threads: u32) -> Reg<T> {
    let thread = thread_idx().x;
    let shared = shared_array::<T>(threads);
    shared.at(thread).store(element);
    let mut stride = threads / 2;
    while stride > 0 {
        sync_threads();
        if thread < stride {
            let combined = monoid.combine(shared.at(thread).load(), shared.at(thread + stride).load());
            shared.at(thread).store(combined);
        }
        stride /= 2;
    }
    shared.at(thread).load()
}

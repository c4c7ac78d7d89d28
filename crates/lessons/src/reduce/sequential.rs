//! The tree with the working threads side by side: thread t takes what thread t + stride has, for
//! strides n/2, n/4, ..., 1.
//!
//! ```text
//! thread      0    1    2    3    4    5    6    7
//! stride 4    ae   bf   cg   dh   .    .    .    .       the upper half of the warps is done
//! stride 2    aceg bdfh .    .
//! stride 1    all  .
//! ```
//!
//! As many steps as before, but whole warps fall idle, none diverges before the last 32, and lanes
//! touch neighboring words: no two meet in a bank. Elements are combined out of order, which is
//! for operations that commute.

use warpwright::prelude::*;

use warpwright_kernels::monoid::InPlace;

/// A CTA's elements combined, one for each of `threads` threads; only thread 0 has the result.
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

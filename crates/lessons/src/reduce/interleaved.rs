//! The naive tree in shared memory: thread t adds the element of thread t + stride, for strides 1,
//! 2, 4, ...
//!
//! ```text
//! thread      0    1    2    3    4    5    6    7
//! stride 1    ab   .    cd   .    ef   .    gh   .       half of the threads work, and they stand in every warp
//! stride 2    a-d  .    .    .    e-h  .    .    .       a quarter, still in every warp
//! ```
//!
//! log2(n) steps and n - 1 combinations. But at stride s only one lane in 2s is active, so every
//! warp stays active until the last steps. It has no bank conflict: a lane's word is its own
//! thread's, and the words of a warp are in 32 banks.

use warpwright::prelude::*;

use warpwright_kernels::monoid::InPlace;

/// Combines the elements of a CTA, one per thread. Only thread 0 has the result.
#[device]
pub fn reduce_block<T: Element, M: InPlace<T>>(monoid: &M, element: Reg<T>, threads: u32) -> Reg<T> {
    let thread = thread_idx().x;
    let shared = shared_array::<T>(threads);
    shared.at(thread).store(element);
    // ANCHOR: tree
    let mut stride = 1;
    while stride < threads {
        sync_threads();
        if thread % (2 * stride) == 0 {
            let combined = monoid.combine(shared.at(thread).load(), shared.at(thread + stride).load());
            shared.at(thread).store(combined);
        }
        stride *= 2;
    }
    // ANCHOR_END: tree
    shared.at(thread).load()
}

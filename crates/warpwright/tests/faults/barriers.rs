//! Rows 9 and 14: barriers of the CTA that not all threads reach, or not the same ones.

use warpwright::prelude::*;

use crate::faults::fault::{Twin, faults, input, run};

faults! {
    barrier_that_one_warp_skips: [9], "race", run(1, 64, |i| input(63 - i));
    barrier_that_some_lanes_skip: [9, 26], "barrier", run(1, 64, |i| input(63 - i));
    barrier_that_part_of_a_warp_passes_by: [9, 26], "divergence", run(1, 64, |i| if i < 40 { input(39 - i) } else { i });
    barrier_for_more_threads_than_come: [9, 14], "deadlock", run(1, 96, |i| if i < 64 { input(63 - i) } else { 0 });
    barriers_in_two_orders: [9, 14], "deadlock", run(1, 64, |i| input(63 - i));
    barrier_with_two_counts: [9], "barrier", run(1, 96, |i| if i < 32 { input(i + 32) } else { 0 });
    barrier_after_some_threads_left: [9, 14], "deadlock", run(1, 64, |i| if i < 32 { input(31 - i) } else { 0 });
    barrier_between_the_wrong_warps: [9], "race", run(1, 96, |i| if i < 32 { input(i + 64) } else { 0 });
    reduction_after_some_warps_left: [9], "deadlock", run(1, 128, sum_below_64);
    reduction_in_a_branch_of_warps: [9], "barrier", run(1, 128, sum_below_64);
    barriers_of_two_branches: [9], "barrier", run(1, 128, |i| input(127 - i));
    two_operations_of_the_block: [9], "barrier", run(1, 128, sum_or_prefix);
    named_barrier_for_half_of_the_threads: [9], "race", run(1, 128, |i| input(127 - i));
    named_barrier_of_two_groups: [9], "barrier", run(1, 128, |i| input(if i < 64 { 63 - i } else { 191 - i }));
    named_barrier_of_one_number: [9], "barrier", run(1, 128, |i| input(if i < 64 { 63 - i } else { 191 - i }));
}

/// What threads below 64 store: the sum of their inputs.
fn sum_below_64(i: u32) -> u32 {
    if i < 64 { (0..64).map(input).sum() } else { 0 }
}

/// What threads store: the sum of all inputs, or of those up to their own.
fn sum_or_prefix(i: u32) -> u32 {
    (0..if i < 64 { 128 } else { i + 1 }).map(input).sum()
}

impl Twin {
    /// Reverses 128 elements; each half of the threads has a barrier of its own, it was thought.
    #[kernel]
    fn barriers_of_two_branches(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(128);
        let thread = thread_idx().x;
        tile[thread] = input[thread];
        if self.mended {
            sync_threads();
        } else if thread < 64 {
            sync_threads(); // (1)
        } else {
            sync_threads(); // (2)
        }
        output[thread] = tile[127 - thread];
    }

    /// The sum of 128 elements in half of the threads, and the sums so far in the others.
    #[kernel]
    fn two_operations_of_the_block(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::threads(128);
        let thread = thread_idx().x;
        let x = input[thread];
        if self.mended {
            let (sum, prefix) = (block::reduce_sum(x), block::inclusive_sum(x));
            output[thread] = if thread < 64 { sum } else { prefix };
        } else if thread < 64 {
            output[thread] = block::reduce_sum(x); // (1)
        } else {
            output[thread] = block::inclusive_sum(x); // (2)
        }
    }

    /// Reverses 128 elements; the barrier completes for the first 64 threads that come.
    #[kernel]
    fn named_barrier_for_half_of_the_threads(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(128);
        let thread = thread_idx().x;
        tile[thread] = input[thread]; // (1)
        NamedBarrier::new(1, self.number(64, 128)).sync(); // (2)
        output[thread] = tile[127 - thread]; // (3)
    }

    /// Reverses each half of 128 elements in a role of its own; both have chosen barrier 1.
    #[kernel]
    fn named_barrier_of_two_groups(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(128);
        let thread = thread_idx().x;
        tile[thread] = input[thread];
        if thread < 64 {
            NamedBarrier::new(1, 64).sync(); // (2)
            output[thread] = tile[63 - thread];
        } else {
            NamedBarrier::new(self.number(1, 2), 64).sync(); // (1)
            output[thread] = tile[191 - thread];
        }
    }

    /// Reverses each half of 128 elements; both execute the same line.
    #[kernel]
    fn named_barrier_of_one_number(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(128);
        let thread = thread_idx().x;
        tile[thread] = input[thread];
        if self.mended {
            if thread < 64 {
                NamedBarrier::new(1, 64).sync();
            } else {
                NamedBarrier::new(2, 64).sync();
            }
        } else {
            NamedBarrier::new(1, 64).sync(); // (1)
        }
        output[thread] = tile[thread / 64 * 128 + 63 - thread];
    }

    /// Reverses 64 elements; only the threads that have something to exchange meet, it was thought.
    #[kernel]
    fn barrier_that_one_warp_skips(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        tile[thread] = input[thread]; // (2)
        if self.mended {
            sync_threads();
        } else if thread < 32 {
            sync_threads(); // (3)
        }
        output[thread] = tile[63 - thread]; // (1)
    }

    /// Reverses 64 elements; even threads write, and meet while odd ones wait elsewhere.
    #[kernel]
    fn barrier_that_some_lanes_skip(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        if thread % 2 == 0 {
            tile[thread] = input[thread];
            tile[thread + 1] = input[thread + 1];
            if !self.mended {
                sync_threads(); // (2)
            }
        }
        sync_threads(); // (1)
        output[thread] = tile[63 - thread];
    }

    /// Reverses 40 elements; the threads that have one meet, and they are one warp and a quarter.
    #[kernel]
    fn barrier_that_part_of_a_warp_passes_by(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(40);
        let thread = thread_idx().x;
        if thread < 40 {
            tile[thread] = input[thread];
            if !self.mended {
                sync_threads(); // (1)
            }
        }
        if self.mended {
            sync_threads();
        }
        output[thread] = thread; // (2)
        if thread < 40 {
            output[thread] = tile[39 - thread];
        }
    }

    /// Two of three warps reverse 64 elements.
    #[kernel]
    fn barrier_for_more_threads_than_come(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let pair = NamedBarrier::new(1, self.number(96, 64));
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        if thread < 64 {
            tile[thread] = input[thread];
            pair.sync(); // (1)
            output[thread] = tile[63 - thread];
        }
    }

    /// Reverses 64 elements; two warps meet at two barriers, each at another one first.
    #[kernel]
    fn barriers_in_two_orders(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (first, second) = (NamedBarrier::new(1, 64), NamedBarrier::new(2, 64));
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        tile[thread] = input[thread];
        if thread < 32 {
            first.sync(); // (1)
            second.sync();
        } else if self.mended {
            first.sync();
            second.sync();
        } else {
            second.sync(); // (2)
            first.sync();
        }
        output[thread] = tile[63 - thread];
    }

    /// Warp 1 hands what it read to warp 0; they do not agree how many threads that takes.
    #[kernel]
    fn barrier_with_two_counts(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(96);
        let thread = thread_idx().x;
        tile[thread] = input[thread];
        if thread < 32 {
            NamedBarrier::new(1, 64).sync(); // (2)
            output[thread] = tile[thread + 32];
        } else if thread < 64 {
            NamedBarrier::new(1, self.number(96, 64)).arrive(); // (1)
        }
    }

    /// Reverses 32 elements; threads that have none leave first, and the barrier waits for them.
    #[kernel]
    fn barrier_after_some_threads_left(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        if thread >= 32 {
            return;
        }
        tile[thread] = input[thread];
        if self.mended {
            NamedBarrier::new(1, 32).sync();
        } else {
            NamedBarrier::new(1, 64).sync(); // (1)
        }
        output[thread] = tile[31 - thread];
    }

    /// Warp 0 takes what warp 2 wrote, and meets warp 1.
    #[kernel]
    fn barrier_between_the_wrong_warps(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(96);
        let thread = thread_idx().x;
        tile[thread] = input[thread]; // (2)
        if thread < 32 {
            NamedBarrier::new(1, 64).sync();
            output[thread] = tile[thread + 64]; // (1)
        } else if self.mended {
            if thread >= 64 {
                NamedBarrier::new(1, 64).arrive();
            }
        } else if thread < 64 {
            NamedBarrier::new(1, 64).arrive();
        }
    }

    /// Sums 64 elements; warps that have none leave first.
    #[kernel]
    fn reduction_after_some_warps_left(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::threads(128);
        let thread = thread_idx().x;
        if !self.mended {
            // The first element is 0: which warps leave is not known when the kernel is built.
            if thread >= input[0] + 64 {
                return;
            }
        }
        let sum = block::reduce_sum(if thread < 64 { input[thread] } else { 0 }); // (1)
        if thread < 64 {
            output[thread] = sum;
        }
    }

    /// Sums 64 elements; warps that have none wait behind the sum.
    #[kernel]
    fn reduction_in_a_branch_of_warps(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::threads(128);
        let thread = thread_idx().x;
        if self.mended {
            let sum = block::reduce_sum(if thread < 64 { input[thread] } else { 0 });
            if thread < 64 {
                output[thread] = sum;
            }
        } else if thread < block_dim().x / 2 {
            // How many threads that are is not known when the kernel is built.
            output[thread] = block::reduce_sum(input[thread]); // (2)
        }
        sync_threads(); // (1)
    }
}

//! Row 8: shared memory that threads write and read with no barrier between them.

use warpwright::prelude::*;

use crate::faults::fault::{Twin, faults, input, run};

faults! {
    read_before_a_barrier: [8], "race", run(1, 64, |i| input(63 - i));
    next_round_before_a_barrier: [8, 16], "race", run(1, 64, |i| (0..4).map(|round| input(63 - i) + round).sum());
    barrier_before_the_write: [8], "race", run(1, 64, |i| input(63 - i));
    tree_without_barriers: [8], "race", run(1, 128, |i| if i == 0 { (0..128).map(input).sum() } else { 0 });
    neighbors_in_a_warp: [8, 26], "race", run(1, 32, |i| input(i ^ 1));
    all_write_one_word: [8], "race", run(1, 64, |_| input(5));
    overlapping_arrays: [8], "race", run(1, 64, |i| input(63 - i) + i);
    update_that_is_not_atomic: [8], "race", run(1, 64, |i| if i < 16 { 4 } else { 0 });
    atomic_and_plain: [8], "race", run(1, 64, |_| (0..64).map(input).sum());
}

impl Twin {
    /// Reverses 64 elements through shared memory.
    #[kernel]
    fn read_before_a_barrier(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        tile[thread] = input[thread]; // (2)
        if self.mended {
            sync_threads();
        }
        output[thread] = tile[63 - thread]; // (1)
    }

    /// Reverses 64 elements in each of four rounds, and adds them up.
    #[kernel]
    fn next_round_before_a_barrier(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        let mut sum = constant(0u32);
        for round in 0..constant(4u32) {
            tile[thread] = input[thread] + round; // (1)
            sync_threads();
            sum += tile[63 - thread]; // (2)
            if self.mended {
                sync_threads();
            }
        }
        output[thread] = sum;
    }

    /// Reverses 64 elements; the barrier stands where it does nothing.
    #[kernel]
    fn barrier_before_the_write(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        if !self.mended {
            sync_threads();
        }
        tile[thread] = input[thread]; // (2)
        if self.mended {
            sync_threads();
        }
        output[thread] = tile[63 - thread]; // (1)
    }

    /// Sums 128 elements by halves.
    #[kernel]
    fn tree_without_barriers(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let sums = shared_array::<u32>(128);
        let thread = thread_idx().x;
        sums[thread] = input[thread];
        sync_threads();
        for step in 0..7 {
            let half = 64u32 >> step;
            if thread < half {
                let other = sums[thread + half]; // (1)
                sums[thread] += other; // (2)
            }
            if self.mended {
                sync_threads();
            }
        }
        if thread == 0 {
            output[0] = sums[0];
        }
    }

    /// Exchanges neighbors within a warp, as if its lanes kept step.
    #[kernel]
    fn neighbors_in_a_warp(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(32);
        let lane = thread_idx().x;
        tile[lane] = input[lane]; // (2)
        if self.mended {
            sync_warp(ALL_LANES);
        }
        output[lane] = tile[lane ^ 1]; // (1)
    }

    /// Broadcasts the element of one thread.
    #[kernel]
    fn all_write_one_word(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let word = shared_array::<u32>(1);
        let thread = thread_idx().x;
        if self.mended {
            if thread == 5 {
                word[0] = input[5];
            }
        } else {
            word[0] = input[thread]; // (1)
        }
        sync_threads();
        output[thread] = word[0];
    }

    /// Keeps two rows in one piece of shared memory, the second of which begins before the first
    /// one ends.
    #[kernel]
    fn overlapping_arrays(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let rows = shared_array::<u32>(128);
        let (first, second) = (rows, rows + self.number(32, 64));
        let thread = thread_idx().x;
        first[thread] = input[thread]; // (1)
        second[thread] = thread; // (2)
        sync_threads();
        output[thread] = first[63 - thread] + second[thread];
    }

    /// Counts in shared memory, and reads the count too early.
    #[kernel]
    fn atomic_and_plain(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let sum = shared_array::<u32>(1);
        let thread = thread_idx().x;
        if thread == 0 {
            sum[0] = constant(0u32);
        }
        sync_threads();
        sum.reduce_add(input[thread]); // (2)
        if self.mended {
            sync_threads();
        }
        output[thread] = sum[0]; // (1)
    }

    /// A histogram of four equal parts.
    #[kernel]
    fn update_that_is_not_atomic(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let counts = shared_array::<u32>(16);
        let thread = thread_idx().x;
        if thread < 16 {
            counts[thread] = input[thread] / 2000;
        }
        sync_threads();
        if self.mended {
            counts.at(thread % 16).reduce_add(1u32);
        } else {
            counts[thread % 16] += 1; // (1)
        }
        sync_threads();
        if thread < 16 {
            output[thread] = counts[thread];
        }
    }
}

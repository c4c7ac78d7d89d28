//! Row 26: what the lanes of a warp do together.

use warpwright::prelude::*;

use crate::faults::fault::{Twin, faults, input, run};

faults! {
    shuffle_in_a_branch: [26], "deadlock", run(1, 32, |i| if i < 16 { input(i ^ 1) } else { input(i) });
    shuffle_that_leaves_itself_out: [26], "lane-mask", run(1, 32, |i| input(i ^ 1));
    vote_that_half_a_warp_holds: [26], "lane-mask", run(1, 32, |i| if i < 16 { 0x5555 } else { input(i) });
    matrix_load_in_a_branch: [26], "deadlock", run(1, 32, |i| i * 0x0001_0001);
    matrix_load_after_some_lanes_left: [26], "divergence", run(1, 32, |i| i * 0x0001_0001);
    shuffle_from_lanes_that_left: [26], "lane-mask", run(1, 32, |i| input(i ^ 16) + 1);
    warp_barrier_for_some: [26, 8], "race", run(1, 32, |i| input(31 - i));
    shuffle_for_a_barrier: [26, 8], "race", run(1, 32, |i| input(31 - i) + input(0));
    volatile_for_a_barrier: [26, 8], "race", run(1, 32, |i| input(31 - i));
    reduction_that_half_a_warp_skips: [26], "divergence", run(1, 32, |_| 16 * (0..16).map(input).sum::<u32>());
    ballot_that_half_a_warp_skips: [26], "divergence", run(1, 32, |_| votes());
    reduction_of_few_lanes_at_the_end: [26], "divergence", run(1, 32, |i| if is_few(i) { total() } else { 0 });
    block_barrier_of_few_lanes_at_the_end: [26, 9], "divergence", run(1, 32, |i| if is_few(i) { input(i) } else { 0 });
    masks_that_differ: [26], "lane-mask", run(1, 32, |i| votes() & if i < 16 { 0xffff } else { 0xffff_0000 });
    warp_barrier_that_half_a_warp_skips: [26, 8], "divergence", run(1, 32, |i| input(31 - i));
}

/// The lanes whose input is odd.
fn votes() -> u32 {
    (0..32).map(|i| (input(i) & 1) << i).sum()
}

/// Whether a lane's input is one of few that a kernel is about.
fn is_few(i: u32) -> bool {
    input(i).is_multiple_of(7)
}

/// The sum of a warp's inputs.
fn total() -> u32 {
    (0..32).map(input).sum()
}

impl Twin {
    /// Half a warp exchanges neighbors, in the name of all its lanes.
    #[kernel]
    fn shuffle_in_a_branch(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        let own = input[lane];
        output[lane] = own;
        if lane < 16 {
            if self.mended {
                output[lane] = own.shuffle_xor_masked(1u32, 0xffffu32).0;
            } else {
                output[lane] = own.shuffle_xor(1u32); // (1)
            }
        }
        sync_threads(); // (2)
    }

    /// All lanes exchange neighbors, in the name of half of them.
    #[kernel]
    fn shuffle_that_leaves_itself_out(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        let mask = if self.mended { ALL_LANES } else { 0xffff };
        output[lane] = input[lane].shuffle_xor_masked(1u32, mask).0; // (1)
    }

    /// The lower half of a warp votes, in the name of the upper half.
    #[kernel]
    fn vote_that_half_a_warp_holds(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        output[lane] = input[lane];
        if lane < 16 {
            let mask = self.number(0xffff_0000, 0xffff);
            output[lane] = ballot((lane % 2).eq(0), mask); // (1)
        }
    }

    /// Half a warp loads a matrix, which takes all of it.
    #[kernel]
    fn matrix_load_in_a_branch(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = dynamic_shared_aligned::<u32>(32, 128);
        let lane = thread_idx().x;
        tile[lane] = lane * 0x0001_0001;
        sync_warp(ALL_LANES);
        let row = tile.cast::<f16>() + lane % 8 * 8;
        if self.mended {
            let [pair] = ldmatrix::<f16, 1>(row);
            output[lane] = pair + input[0];
        } else {
            if lane < 16 {
                let [pair] = ldmatrix::<f16, 1>(row); // (1)
                output[lane] = pair + input[0];
            }
            sync_threads(); // (2)
        }
    }

    /// Half a warp has left before the other half loads a matrix.
    #[kernel]
    fn matrix_load_after_some_lanes_left(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = dynamic_shared_aligned::<u32>(32, 128);
        let lane = thread_idx().x;
        tile[lane] = lane * 0x0001_0001;
        output[lane] = tile[lane];
        sync_warp(ALL_LANES);
        if lane >= self.number(16, 32) {
            return;
        }
        let [pair] = ldmatrix::<f16, 1>(tile.cast::<f16>() + lane % 8 * 8); // (1)
        output[lane] = pair + input[0];
    }

    /// Exchanges the halves of a warp, of which one has left.
    #[kernel]
    fn shuffle_from_lanes_that_left(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        let own = input[lane];
        if lane >= self.number(16, 32) {
            return;
        }
        let other = own.shuffle_xor(16u32) + 1; // (1)
        output[lane] = other; // (2)
    }

    /// Reverses 32 elements; each half of the warp meets by itself.
    #[kernel]
    fn warp_barrier_for_some(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(32);
        let lane = thread_idx().x;
        tile[lane] = input[lane]; // (2)
        if self.mended {
            sync_warp(ALL_LANES);
        } else if lane < 16 {
            sync_warp(0xffffu32);
        } else {
            sync_warp(0xffff_0000u32);
        }
        output[lane] = tile[31 - lane]; // (1)
    }

    /// Reverses 32 elements; a shuffle takes the place of a barrier, and orders nothing in memory.
    #[kernel]
    fn shuffle_for_a_barrier(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(32);
        let lane = thread_idx().x;
        tile[lane] = input[lane]; // (2)
        let first = input[lane].shuffle(0u32);
        if self.mended {
            sync_warp(ALL_LANES);
        }
        output[lane] = tile[31 - lane] + first; // (1)
    }

    /// Reverses 32 elements by accesses that are volatile, as before lanes of a warp could diverge.
    #[kernel]
    fn volatile_for_a_barrier(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(32);
        let lane = thread_idx().x;
        let volatile = Access::new().ordered(AccessOrdering::Volatile);
        (tile + lane).store_with(input[lane], volatile); // (2)
        if self.mended {
            sync_warp(ALL_LANES);
        }
        output[lane] = (tile + (31 - lane)).load_with(volatile); // (1)
    }

    /// Sums half of a warp, then what its lanes hold.
    #[kernel]
    fn reduction_that_half_a_warp_skips(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        let mut sum = constant(0u32);
        if self.mended {
            let of_half = warp::reduce_sum(if lane < 16 { input[lane] } else { 0 });
            if lane < 16 {
                sum = of_half;
            }
        } else if lane < 16 {
            sum = warp::reduce_sum(input[lane]); // (2)
        }
        output[lane] = warp::reduce_sum(sum); // (1)
    }

    /// Few lanes store the sum of a warp's inputs, which they alone compute; the others have nothing left
    /// to do.
    #[kernel]
    fn reduction_of_few_lanes_at_the_end(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        let own = input[lane] + 0;
        if self.mended {
            let sum = warp::reduce_sum(own);
            if (own % 7).eq(0) {
                output[lane] = sum;
            }
        } else if (own % 7).eq(0) {
            output[lane] = warp::reduce_sum(own); // (1)
        }
    }

    /// Few lanes wait for the block before they store.
    #[kernel]
    fn block_barrier_of_few_lanes_at_the_end(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        let own = input[lane] + 0;
        if self.mended {
            sync_threads();
        }
        if (own % 7).eq(0) {
            if !self.mended {
                sync_threads(); // (1)
            }
            output[lane] = own;
        }
    }

    /// Which inputs of a warp are odd; half of it votes, in the name of all.
    #[kernel]
    fn ballot_that_half_a_warp_skips(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        let is_odd = (input[lane] % 2).eq(1);
        let mut votes = constant(0u32);
        if self.mended {
            votes = ballot(is_odd, ALL_LANES);
        } else if lane < 16 {
            votes = ballot(is_odd, ALL_LANES); // (1)
        }
        output[lane] = votes; // (2)
    }

    /// Each half of a warp votes by itself, and one of them in the name of both.
    #[kernel]
    fn masks_that_differ(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let lane = thread_idx().x;
        let mask =
            if lane < 16 { constant(self.number(ALL_LANES, 0xffff)) } else { constant(0xffff_0000u32) };
        output[lane] = ballot((input[lane] % 2).eq(1), mask); // (1)
    }

    /// Reverses 32 elements; half of the warp meets twice.
    #[kernel]
    fn warp_barrier_that_half_a_warp_skips(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(32);
        let lane = thread_idx().x;
        if lane < 16 {
            tile[lane] = input[lane];
            if !self.mended {
                sync_warp(ALL_LANES); // (2)
            }
        } else {
            tile[lane] = input[lane];
        }
        sync_warp(ALL_LANES); // (1)
        output[lane] = tile[31 - lane];
    }
}

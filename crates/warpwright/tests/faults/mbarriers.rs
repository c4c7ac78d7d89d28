//! Rows 10 to 14: mbarriers that are not there, count wrong, or are waited for by the wrong parity.

use warpwright::prelude::*;

use crate::faults::fault::{Twin, faults, input, run};

faults! {
    mbarrier_used_before_it_is_there: [10], "race", run(1, 64, |i| input(63 - i));
    mbarrier_nobody_initializes: [10], "barrier", run(1, 64, |i| input(63 - i));
    mbarrier_all_initialize: [10], "barrier", run(1, 64, |i| input(63 - i));
    mbarrier_initialized_again: [10], "barrier", run(1, 64, |i| (0..3).map(|round| input(63 - i) + round).sum());
    mbarrier_with_too_few_arrivals: [11, 14], "deadlock", run(1, 64, |i| input(63 - i));
    mbarrier_with_one_arrival_a_warp: [11, 14], "deadlock", run(1, 64, |i| input(63 - i));
    mbarrier_with_too_many_arrivals: [11], "race", run(1, 96, |i| if i < 32 { input(i + 32) + input(i + 64) } else { 0 });
    arrival_of_every_lane: [11], "barrier", run(1, 64, |i| input(63 - i));
    mbarrier_past_the_last: [11, 23], "out-of-bounds", run(1, 64, |i| input(i ^ 1));
    mbarrier_of_the_next_array: [11, 23], "out-of-bounds", run(1, 64, |i| input(i ^ 1));
    mbarrier_that_counts_too_much_at_once: [11], "barrier", run(1, 64, |i| input(63 - i));
    bytes_announced_short: [12, 14], "deadlock", run(1, 64, |i| input(63 - i));
    bytes_announced_long: [12, 14], "deadlock", run(1, 64, |i| input(63 - i));
    bytes_never_announced: [12], "in-flight", run(1, 64, |i| input(63 - i));
    bytes_announced_for_one_of_two: [12], "barrier", run(1, 64, |i| input(63 - i));
    bytes_announced_after_the_arrival: [12], "in-flight", run(1, 64, |i| input(63 - i));
    wait_for_the_wrong_parity: [13], "in-flight" or "deadlock", run(1, 32, |i| input(31 - i));
    parity_that_is_not_flipped: [13], "in-flight" or "deadlock", run(1, 32, |i| 2 * input(31 - i));
    slots_never_released: [14, 16], "deadlock", run(1, 64, |i| if i < 32 { 6 * input(i) } else { 0 });
    each_waits_for_the_other: [14], "deadlock", run(1, 64, |i| input(63 - i));
    tile_over_an_mbarrier: [10], "barrier", run(1, 64, |i| input(63 - i));
    producer_that_laps_its_consumer: [13, 16], "deadlock", run(1, 64, |i| if i < 32 { 8 * input(i) + 28 } else { 0 });
}

/// An mbarrier for `count` arrivals that one thread has initialized, and all know.
#[device]
fn ready(count: u32) -> Mbarrier {
    let barrier = Mbarrier::new();
    if thread_idx().x == 0 {
        barrier.init(count);
        fence_mbarrier_init();
    }
    sync_threads();
    barrier
}

impl Twin {
    /// Reverses 64 elements in memory whose first words were an mbarrier.
    #[kernel]
    fn tile_over_an_mbarrier(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = dynamic_shared_aligned::<u32>(64, 128);
        let (thread, started) = (thread_idx().x, Mbarrier::at(tile.cast::<u64>()));
        if thread == 0 {
            started.init(64); // (2)
        }
        sync_threads();
        let state = started.arrive();
        started.wait(state);
        sync_threads();
        if self.mended {
            if thread == 0 {
                started.invalidate();
            }
            sync_threads();
        }
        tile[thread] = input[thread]; // (1)
        sync_threads();
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements; one arrival of each warp was meant.
    #[kernel]
    fn arrival_of_every_lane(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), Mbarrier::new());
        let thread = thread_idx().x;
        if thread == 0 {
            filled.init(2); // (2)
        }
        sync_threads();
        tile[thread] = input[thread];
        sync_warp(ALL_LANES);
        if self.mended {
            if lane_id() == 0 {
                filled.arrive();
            }
        } else {
            filled.arrive(); // (1)
        }
        filled.wait_parity(0);
        output[thread] = tile[63 - thread];
    }

    /// Exchanges neighbors in two groups of threads; the last group's mbarrier is not there.
    #[kernel]
    fn mbarrier_past_the_last(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), Mbarriers::new(2));
        let thread = thread_idx().x;
        if thread < 2 {
            filled.at(thread).init(32);
        }
        sync_threads();
        tile[thread] = input[thread];
        let own = filled.at(thread / 32 + constant(self.number(1, 0)));
        own.arrive(); // (1)
        own.wait_parity(0);
        output[thread] = tile[thread ^ 1];
    }

    /// The same where another array is behind the mbarriers.
    #[kernel]
    fn mbarrier_of_the_next_array(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled, emptied) = (shared_array::<u32>(64), Mbarriers::new(2), Mbarriers::new(2));
        let thread = thread_idx().x;
        if thread < 2 {
            filled.at(thread).init(32);
            emptied.at(thread).init(32);
        }
        sync_threads();
        tile[thread] = input[thread];
        let own = filled.at(thread / 32 + constant(self.number(1, 0)));
        own.arrive(); // (1)
        own.wait_parity(0);
        output[thread] = tile[thread ^ 1];
    }

    /// Reverses 64 elements; threads arrive at an mbarrier that may not be initialized yet.
    #[kernel]
    fn mbarrier_used_before_it_is_there(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), Mbarrier::new());
        let thread = thread_idx().x;
        if thread == 0 {
            filled.init(64); // (2)
        }
        if self.mended {
            sync_threads();
        }
        tile[thread] = input[thread];
        let state = filled.arrive(); // (1)
        filled.wait(state);
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements with an mbarrier that is only declared.
    #[kernel]
    fn mbarrier_nobody_initializes(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), Mbarrier::new());
        let thread = thread_idx().x;
        if self.mended {
            if thread == 0 {
                filled.init(64);
            }
        }
        sync_threads();
        tile[thread] = input[thread];
        let state = filled.arrive(); // (1)
        filled.wait(state);
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements with an mbarrier that every thread initializes.
    #[kernel]
    fn mbarrier_all_initialize(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), Mbarrier::new());
        let thread = thread_idx().x;
        if self.mended {
            if thread == 0 {
                filled.init(64);
            }
        } else {
            filled.init(64); // (1)
        }
        sync_threads();
        tile[thread] = input[thread];
        let state = filled.arrive();
        filled.wait(state);
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements in each of three rounds, each with the mbarrier initialized anew.
    #[kernel]
    fn mbarrier_initialized_again(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), Mbarrier::new());
        let thread = thread_idx().x;
        let mut sum = constant(0u32);
        for round in 0..constant(3u32) {
            if thread == 0 {
                filled.init(64); // (1)
            }
            sync_threads();
            tile[thread] = input[thread] + round;
            let state = filled.arrive();
            filled.wait(state);
            sum += tile[63 - thread];
            sync_threads();
            if self.mended {
                if thread == 0 {
                    filled.invalidate();
                }
            }
        }
        output[thread] = sum;
    }

    /// Reverses 64 elements; one of two warps forgets to arrive.
    #[kernel]
    fn mbarrier_with_too_few_arrivals(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), ready(64));
        let thread = thread_idx().x;
        tile[thread] = input[thread];
        if self.mended {
            filled.arrive();
        } else if thread < 32 {
            filled.arrive(); // (2)
        }
        filled.wait_parity(0); // (1)
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements; an mbarrier that counts threads gets one arrival per warp.
    #[kernel]
    fn mbarrier_with_one_arrival_a_warp(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), ready(self.number(64, 2)));
        let thread = thread_idx().x;
        tile[thread] = input[thread];
        sync_warp(ALL_LANES);
        if elect(ALL_LANES) {
            filled.arrive(); // (2)
        }
        filled.wait_parity(0); // (1)
        output[thread] = tile[63 - thread];
    }

    /// Two warps fill a tile for a third one; their mbarrier counts one of them.
    #[kernel]
    fn mbarrier_with_too_many_arrivals(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(96), ready(self.number(32, 64)));
        let thread = thread_idx().x;
        if thread >= 32 {
            tile[thread] = input[thread]; // (2)
            filled.arrive();
        } else {
            filled.wait_parity(0);
            output[thread] = tile[thread + 32] + tile[thread + 64]; // (1)
        }
    }

    /// Reverses 64 elements; one thread arrives for more than there are.
    #[kernel]
    fn mbarrier_that_counts_too_much_at_once(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, filled) = (shared_array::<u32>(64), ready(64));
        let thread = thread_idx().x;
        tile[thread] = input[thread];
        sync_threads();
        if thread == 0 {
            filled.arrive_count(self.number(65, 64)); // (1)
        }
        filled.wait_parity(0);
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements; half of the copy's bytes are announced.
    #[kernel]
    fn bytes_announced_short(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready(1));
        let thread = thread_idx().x;
        if thread == 0 {
            full.arrive_and_expect(constant(self.number(128, 256))); // (2)
            bulk::load(*input, 64, tile, full); // (3)
        }
        full.wait_parity(0); // (1)
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements; twice the copy's bytes are announced.
    #[kernel]
    fn bytes_announced_long(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready(1));
        let thread = thread_idx().x;
        if thread == 0 {
            full.arrive_and_expect(constant(self.number(512, 256))); // (2)
            bulk::load(*input, 64, tile, full); // (3)
        }
        full.wait_parity(0); // (1)
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements; the copy's bytes are not announced at all, and are no constant, which would
    /// be compared when the kernel is built.
    #[kernel]
    fn bytes_never_announced(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready(1));
        let thread = thread_idx().x;
        if thread == 0 {
            if self.mended {
                full.arrive_and_expect(256);
            } else {
                full.arrive();
            }
            bulk::load(*input, constant(64u32), tile, full); // (2)
        }
        full.wait_parity(0); // (3)
        output[thread] = tile[63 - thread]; // (1)
    }

    /// Reverses 64 elements, that come in two copies; the bytes of one are announced.
    #[kernel]
    fn bytes_announced_for_one_of_two(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready(1));
        let thread = thread_idx().x;
        if thread == 0 {
            full.arrive_and_expect(constant(self.number(128, 256))); // (2)
            bulk::load(*input, 32, tile, full);
            bulk::load(*input + 32, 32, tile + 32, full); // (1)
        }
        full.wait_parity(0);
        output[thread] = tile[63 - thread];
    }

    /// Reverses 64 elements; the copy's bytes are announced when the phase has ended.
    #[kernel]
    fn bytes_announced_after_the_arrival(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready(1));
        let thread = thread_idx().x;
        if thread == 0 {
            if self.mended {
                full.expect(256);
                full.arrive();
            } else {
                full.arrive();
                full.expect(256);
            }
            bulk::load(*input, 64, tile, full); // (2)
        }
        full.wait_parity(0); // (3)
        output[thread] = tile[63 - thread]; // (1)
    }

    /// Reverses 32 elements; the wait is for the phase before the first one, which counts as ended.
    #[kernel]
    fn wait_for_the_wrong_parity(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(32, 128), ready(1));
        let thread = thread_idx().x;
        if thread == 0 {
            full.arrive_and_expect(128); // (b)
            bulk::load(*input, 32, tile, full); // (2)
        }
        full.wait_parity(self.number(1, 0)); // (3), (a)
        output[thread] = tile[31 - thread]; // (1)
        if !self.mended {
            full.wait_parity(0);
        }
    }

    /// Reverses 32 elements twice; the second wait is for the parity of the first phase.
    #[kernel]
    fn parity_that_is_not_flipped(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(32, 128), ready(1));
        let thread = thread_idx().x;
        let mut sum = constant(0u32);
        let mut parity = constant(0u32);
        for _ in 0..constant(2u32) {
            if thread == 0 {
                full.arrive_and_expect(128); // (b)
                bulk::load(*input, 32, tile, full); // (2)
            }
            full.wait_parity(parity); // (3), (a)
            sum += tile[31 - thread]; // (1)
            sync_threads();
            if self.mended {
                parity ^= 1;
            }
        }
        output[thread] = sum;
        if !self.mended {
            full.wait_parity(1);
        }
    }

    /// Warp 1 sends six rows through a ring of two slots, that warp 0 never gives back.
    #[kernel]
    fn slots_never_released(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let ring = shared_array::<u32>(64);
        let (full, empty) = (Mbarriers::new(2), Mbarriers::new(2));
        let thread = thread_idx().x;
        if thread == 0 {
            for barrier in full.iter().chain(empty.iter()) {
                barrier.init(32);
            }
        }
        sync_threads();
        let mut sum = constant(0u32);
        for round in 0..constant(6u32) {
            let (slot, parity) = (round % 2, round / 2 % 2);
            if thread >= 32 {
                empty.at(slot).wait_parity(parity ^ 1); // (2)
                ring[slot * 32 + thread - 32] = input[thread - 32];
                full.at(slot).arrive();
            } else {
                full.at(slot).wait_parity(parity); // (1)
                sum += ring[slot * 32 + thread];
                if self.mended {
                    empty.at(slot).arrive();
                }
            }
        }
        output[thread] = sum;
    }

    /// Two warps exchange rows, and each waits before it gives.
    #[kernel]
    fn each_waits_for_the_other(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let filled = Mbarriers::new(2);
        let thread = thread_idx().x;
        if thread == 0 {
            filled.at(0).init(32);
            filled.at(1).init(32);
        }
        sync_threads();
        tile[thread] = input[thread];
        if thread < 32 {
            if self.mended {
                filled.at(0).arrive();
                filled.at(1).wait_parity(0);
            } else {
                filled.at(1).wait_parity(0); // (1)
                filled.at(0).arrive();
            }
        } else if self.mended {
            filled.at(1).arrive();
            filled.at(0).wait_parity(0);
        } else {
            filled.at(0).wait_parity(0); // (2)
            filled.at(1).arrive();
        }
        output[thread] = tile[63 - thread];
    }

    /// Warp 1 hands eight rows to warp 0, one phase each, and does not wait until they are taken.
    #[kernel]
    fn producer_that_laps_its_consumer(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let rows = shared_array::<u32>(8 * 32);
        let (full, empty) = (Mbarrier::new(), Mbarrier::new());
        let thread = thread_idx().x;
        if thread == 0 {
            full.init(32);
            empty.init(32);
        }
        sync_threads();
        let mut sum = constant(0u32);
        for round in 0..constant(8u32) {
            if thread >= 32 {
                if self.mended {
                    empty.wait_parity((round & 1) ^ 1);
                }
                rows[round * 32 + thread - 32] = input[thread - 32] + round;
                full.arrive(); // (2)
            } else {
                full.wait_parity(round & 1); // (1)
                sum += rows[round * 32 + thread];
                if self.mended {
                    empty.arrive();
                }
            }
        }
        output[thread] = sum;
    }
}

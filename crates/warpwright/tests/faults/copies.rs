//! Rows 15, 16 and 20: asynchronous copies that are read too early, overwritten too early, or
//! counted wrong.

use warpwright::prelude::*;

use crate::faults::fault::{Twin, faults, input, run};

faults! {
    copy_read_before_the_wait: [15], "in-flight", run(1, 64, input);
    copy_awaited_by_its_thread_alone: [15], "in-flight", run(1, 64, |i| input(63 - i));
    copy_behind_a_barrier_of_threads: [15], "in-flight", run(1, 64, |i| input(63 - i));
    bulk_copy_read_before_the_wait: [15], "in-flight", run(1, 64, |i| input(63 - i));
    bulk_copy_awaited_by_one_thread: [15], "in-flight", run(1, 64, |i| input(63 - i));
    copy_never_committed: [15, 20], "in-flight", run(1, 64, input);
    store_never_committed: [20], "leak", run(1, 64, input);
    group_committed_after_the_wait: [15, 20], "in-flight", run(1, 64, input);
    one_group_too_many_left: [20], "in-flight", run(1, 64, |i| 4 * input(i));
    last_rounds_commit_nothing: [20], "in-flight", run(1, 64, |i| 4 * input(i));
    groups_nobody_waits_for: [20], "leak", run(1, 64, input);
    slot_refilled_while_it_is_read: [16], "race", run(1, 64, |i| 4 * input(63 - i));
    slot_refilled_by_a_bulk_copy: [16], "race", run(1, 64, |i| 2 * input(63 - i));
    store_whose_source_is_overwritten: [16, 20], "in-flight", run(1, 64, input);
    two_copies_into_one_slot: [16], "in-flight", run(1, 64, input);
    store_read_back_before_the_wait: [15, 20], "in-flight", run(1, 64, |i| input(63 - i));
}

/// An mbarrier for one arrival that one thread has initialized, and all know.
#[device]
fn ready() -> Mbarrier {
    let barrier = Mbarrier::new();
    if thread_idx().x == 0 {
        barrier.init(1);
        fence_mbarrier_init();
    }
    sync_threads();
    barrier
}

impl Twin {
    /// Each thread copies a word and reads it.
    #[kernel]
    fn copy_read_before_the_wait(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        copy_async(tile + thread, *input + thread, 1); // (2)
        commit_async_copies();
        if self.mended {
            wait_async_copies(0);
        }
        output[thread] = tile[thread]; // (1)
        wait_async_copies(0);
    }

    /// Each thread waits for its own copy, and reads another's.
    #[kernel]
    fn copy_awaited_by_its_thread_alone(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        copy_async(tile + thread, *input + thread, 1); // (2)
        commit_async_copies();
        wait_async_copies(0);
        if self.mended {
            sync_threads();
        }
        output[thread] = tile[63 - thread]; // (1)
    }

    /// All meet, and nobody waits for the copies.
    #[kernel]
    fn copy_behind_a_barrier_of_threads(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        copy_async(tile + thread, *input + thread, 1); // (2)
        commit_async_copies();
        if self.mended {
            wait_async_copies(0);
        }
        sync_threads();
        output[thread] = tile[63 - thread]; // (1)
        wait_async_copies(0);
    }

    /// Reverses 64 elements; a barrier of the CTA takes the place of the mbarrier.
    #[kernel]
    fn bulk_copy_read_before_the_wait(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        if thread == 0 {
            full.arrive_and_expect(256);
            bulk::load(*input, 64, tile, full); // (2)
        }
        if self.mended {
            full.wait_parity(0);
        }
        sync_threads();
        output[thread] = tile[63 - thread]; // (1)
        full.wait_parity(0);
    }

    /// Reverses 64 elements; the thread that copies waits, and tells nobody.
    #[kernel]
    fn bulk_copy_awaited_by_one_thread(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        if thread == 0 {
            full.arrive_and_expect(256);
            bulk::load(*input, 64, tile, full); // (2)
            full.wait_parity(0);
        }
        if self.mended {
            sync_threads();
        }
        output[thread] = tile[63 - thread]; // (1)
    }

    /// Each thread waits for all of its groups before it commits one.
    #[kernel]
    fn group_committed_after_the_wait(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        copy_async(tile + thread, *input + thread, 1); // (2)
        if self.mended {
            commit_async_copies();
            wait_async_copies(0);
        } else {
            wait_async_copies(0);
            commit_async_copies();
        }
        output[thread] = tile[thread]; // (1)
        wait_async_copies(0);
    }

    /// Two stages: copies run one round ahead, and the wait leaves two groups in flight.
    #[kernel]
    fn one_group_too_many_left(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let ring = shared_array::<u32>(128);
        let thread = thread_idx().x;
        copy_async(ring + thread, *input + thread, 1);
        commit_async_copies();
        let mut sum = constant(0u32);
        for round in 0..constant(4u32) {
            copy_async(ring + ((round + 1) % 2 * 64 + thread), *input + thread, 1); // (2)
            commit_async_copies();
            wait_async_copies(self.number(2, 1));
            sum += ring[round % 2 * 64 + thread]; // (1)
        }
        wait_async_copies(0);
        output[thread] = sum;
    }

    /// A ring of two slots whose last round has nothing to copy, and commits no empty group to
    /// count with.
    #[kernel]
    fn last_rounds_commit_nothing(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let ring = shared_array::<u32>(128);
        let thread = thread_idx().x;
        copy_async(ring + thread, *input + thread, 1);
        commit_async_copies();
        let mut sum = constant(0u32);
        for round in 0..constant(4u32) {
            if round < 3 {
                copy_async(ring + ((round + 1) % 2 * 64 + thread), *input + thread, 1); // (2)
                if !self.mended {
                    commit_async_copies();
                }
            }
            if self.mended {
                commit_async_copies();
            }
            wait_async_copies(1);
            sum += ring[round % 2 * 64 + thread]; // (1)
        }
        wait_async_copies(0);
        output[thread] = sum;
    }

    /// The copy for a round that does not come is still in flight at the end.
    #[kernel]
    fn groups_nobody_waits_for(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let ring = shared_array::<u32>(128);
        let thread = thread_idx().x;
        copy_async(ring + thread, *input + thread, 1);
        commit_async_copies();
        copy_async(ring + (thread + 64), *input + thread, 1); // (1)
        commit_async_copies();
        wait_async_copies(1);
        output[thread] = ring[thread];
        if self.mended {
            wait_async_copies(0);
        }
    }

    /// Reverses 64 elements four times; the next copy begins while others still read.
    #[kernel]
    fn slot_refilled_while_it_is_read(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        let mut sum = constant(0u32);
        for _ in 0..constant(4u32) {
            copy_async(tile + thread, *input + thread, 1); // (1)
            commit_async_copies();
            wait_async_copies(0);
            sync_threads();
            sum += tile[63 - thread]; // (2)
            if self.mended {
                sync_threads();
            }
        }
        output[thread] = sum;
    }

    /// Reverses 64 elements twice; one thread starts the second copy when it has read its own
    /// element.
    #[kernel]
    fn slot_refilled_by_a_bulk_copy(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        let mut sum = constant(0u32);
        for round in 0..constant(2u32) {
            if thread == 0 {
                full.arrive_and_expect(256);
                bulk::load(*input, 64, tile, full); // (1)
            }
            full.wait_parity(round);
            sum += tile[63 - thread]; // (2)
            if self.mended {
                sync_threads();
            }
        }
        output[thread] = sum;
    }

    /// Stores 64 elements through a buffer of 32, whose second half comes before the first one has
    /// been read.
    #[kernel]
    fn store_whose_source_is_overwritten(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = dynamic_shared_aligned::<u32>(32, 128);
        let thread = thread_idx().x;
        for half in 0..constant(2u32) {
            if thread < 32 {
                row[thread] = input[half * 32 + thread]; // (1)
                fence_proxy_async_shared();
            }
            sync_threads();
            if thread == 0 {
                bulk::store(*output + half * 32, 32, row); // (2)
                bulk_commit();
                if self.mended {
                    bulk_wait_read(0);
                }
            }
            sync_threads();
        }
        if thread == 0 {
            bulk_wait(0);
        }
    }

    /// Copies one row after another into the same slot, and waits for the last.
    #[kernel]
    fn two_copies_into_one_slot(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        if thread == 0 {
            full.arrive_and_expect(self.number(128 + 256, 128));
            bulk::load(*input + 32, 32, tile, full); // (2)
            if !self.mended {
                bulk::load(*input, 64, tile, full); // (1)
            }
        }
        full.wait_parity(0);
        if self.mended {
            sync_threads();
            if thread == 0 {
                full.arrive_and_expect(256);
                bulk::load(*input, 64, tile, full);
            }
            full.wait_parity(1);
        }
        output[thread] = tile[thread];
    }

    /// Stores 64 elements by a bulk copy and reads them back, once the copy has read its source.
    #[kernel]
    fn store_read_back_before_the_wait(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = dynamic_shared_aligned::<u32>(64, 128);
        let thread = thread_idx().x;
        row[thread] = input[63 - thread];
        fence_proxy_async_shared();
        sync_threads();
        if thread == 0 {
            bulk::store(*output, 64, row); // (2)
            bulk_commit();
            if self.mended {
                bulk_wait(0);
            } else {
                bulk_wait_read(0);
            }
            output[0] = output[0] + 0; // (1)
            bulk_wait(0);
        }
    }

    /// The wait finds no group to wait for.
    #[kernel]
    fn copy_never_committed(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        copy_async(tile + thread, *input + thread, 1); // (2)
        // A kernel that commits nowhere is not built.
        if self.mended {
            commit_async_copies();
        } else if thread == 64 {
            commit_async_copies();
        }
        wait_async_copies(0);
        output[thread] = tile[thread]; // (1)
        wait_all_async_copies();
    }

    /// The same of a bulk store.
    #[kernel]
    fn store_never_committed(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = dynamic_shared_aligned::<u32>(64, 128);
        let thread = thread_idx().x;
        row[thread] = input[thread];
        fence_proxy_async_shared();
        sync_threads();
        if thread == 0 {
            bulk::store(*output, 64, row); // (1)
            if self.mended {
                bulk_commit();
            }
            bulk_wait(0);
        }
    }
}

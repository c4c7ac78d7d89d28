//! Row 23: addresses that are not there, or not aligned.

use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::{Device, Error};

use crate::faults::fault::{Staged, Twin, faults, input, run};

faults! {
    guard_off_by_one: [23], "out-of-bounds", run(1, 64, |i| if i < 63 { input(i + 1) } else { 0 });
    grid_past_the_end: [23], "out-of-bounds", run(1, 64, |i| 2 * input(i));
    negative_index: [23], "out-of-bounds", run(1, 64, |i| if i > 0 { input(i - 1) } else { 0 });
    negative_shared_index: [23], "out-of-bounds", run(1, 64, |i| if i > 0 { input(i - 1) } else { 0 });
    shared_index_past_the_end: [23], "out-of-bounds", run(1, 64, input);
    local_index_past_the_end: [23], "out-of-bounds", run(1, 64, input);
    vector_at_an_odd_element: [23], "misaligned", run(1, 64, |i| if i < 60 { input(i + 4) } else { 0 });
    bulk_copy_of_an_odd_row: [23], "misaligned", run(1, 32, |i| input(i % 16));
    tile_past_shared_memory: [23], "out-of-bounds", run(1, 64, input);
    buffer_that_was_freed: [23], "use-after-free", run_on_an_address;
}

impl Twin {
    /// Each element after the one before it; the first has none.
    #[kernel]
    fn negative_shared_index(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = shared_array::<u32>(64);
        let thread = thread_idx().x;
        row[thread] = input[thread];
        sync_threads();
        if self.mended {
            if thread > 0 {
                output[thread] = row[thread as i32 - 1];
            }
        } else {
            output[thread] = row[thread as i32 - 1]; // (1)
        }
    }

    /// Shifts by one element; the last thread has no neighbor.
    #[kernel]
    fn guard_off_by_one(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let thread = thread_idx().x;
        if thread < self.number(64, 63) {
            output[thread] = input[thread + 1]; // (1)
        }
    }

    /// Doubles 64 elements, two a thread, and forgets that half the threads have none.
    #[kernel]
    fn grid_past_the_end(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let thread = thread_idx().x;
        for part in 0..2 {
            let i = thread * 2 + part;
            if self.mended {
                if i < 64 {
                    output[i] = input[i] * 2;
                }
            } else {
                output[i] = input[i] * 2; // (1)
            }
        }
    }

    /// Shifts by one element the other way; thread 0 wraps around.
    #[kernel]
    fn negative_index(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let thread = thread_idx().x;
        if self.mended {
            if thread > 0 {
                output[thread] = input[thread - 1];
            }
        } else {
            output[thread] = input[thread - 1]; // (1)
        }
    }

    /// Goes through shared memory that has room for half the threads.
    #[kernel]
    fn shared_index_past_the_end(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = shared_array::<u32>(self.number(32, 64));
        let thread = thread_idx().x;
        row[thread] = input[thread]; // (1)
        output[thread] = row[thread];
    }

    /// Keeps four elements in an array of its own, and asks for a fifth.
    #[kernel]
    fn local_index_past_the_end(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let own = local_array::<u32>(4);
        let thread = thread_idx().x;
        for i in 0..constant(4u32) {
            own[i] = input[thread] + i;
        }
        output[thread] = own[thread / 63 * self.number(4, 0)]; // (1)
    }

    /// Shifts by four elements, as vectors.
    #[kernel]
    fn vector_at_an_odd_element(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let thread = thread_idx().x;
        if thread < 15 {
            if self.mended {
                (*output + thread * 4).store_vector((*input + (thread * 4 + 4)).load_vector::<4>());
            } else {
                (*output + thread * 4).store_vector((*input + (thread * 4 + 1)).load_vector::<4>()); // (1)
            }
        }
    }

    /// Copies a row that begins at an address which no bulk copy can take.
    #[kernel]
    fn bulk_copy_of_an_odd_row(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (row, full) = (dynamic_shared_aligned::<u32>(32, 128), Mbarrier::new());
        let thread = thread_idx().x;
        if thread == 0 {
            full.init(1);
            fence_mbarrier_init();
        }
        sync_warp(ALL_LANES);
        if thread == 0 {
            full.arrive_and_expect(64);
            bulk::load(*input + constant(self.number(1, 0)), 16, row, full); // (1)
        }
        full.wait_parity(0);
        output[thread] = row[thread % 16];
    }

    /// Copies 64 elements into a tile that begins near the end of shared memory.
    #[kernel]
    fn tile_past_shared_memory(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = dynamic_shared_aligned::<u32>(64, 128) + constant(self.number(32, 0));
        let full = Mbarrier::at(shared_array::<u64>(1));
        let thread = thread_idx().x;
        if thread == 0 {
            full.init(1);
            fence_mbarrier_init();
        }
        sync_threads();
        if thread == 0 {
            full.arrive_and_expect(256);
            bulk::load(*input, 64, tile, full); // (1)
        }
        full.wait_parity(0);
        output[thread] = tile[thread];
    }

    /// Reads by an address that the host has passed as a number.
    #[kernel]
    fn buffer_that_was_freed(&self, address: u64, input: &Global<u32>, output: &mut Global<u32>) {
        let source = if self.mended { *input } else { Global::<u32>::from_address(address) };
        let thread = thread_idx().x;
        output[thread] = source[thread]; // (1)
    }
}

/// Passes the address of a buffer that has been let go, and one that is there.
fn run_on_an_address(device: &Device, kernel: Staged<(u64, In<u32>, Out<u32>)>) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let numbers: Vec<u32> = (0..64).map(input).collect();
    let gone = device.buffer_from(&numbers)?.address();
    let (kept, mut output) = (device.buffer_from(&numbers)?, device.zeros::<u32>(64)?);
    kernel.launch(&device.stream()?, kernel.shape(1).block(64), (gone, &kept, &mut output))?;
    assert_eq!(output.to_vec()?, numbers);
    Ok(())
}

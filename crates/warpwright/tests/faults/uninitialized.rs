//! Row 24: memory that is read before anything has written it.

use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::{Device, Error};

use crate::faults::fault::{Staged, Twin, faults, input, run};

faults! {
    sum_that_is_not_zeroed: [24], "uninitialized", run(1, 64, |_| (0..64).map(input).sum());
    halo_that_nobody_fills: [24], "uninitialized", run(1, 64, |i| input(i) + if i > 0 { input(i - 1) } else { 0 });
    tile_filled_in_part: [24], "uninitialized", run(1, 64, input);
    selection_of_the_wrong_half: [24], "uninitialized", run(1, 64, input);
    store_of_a_tile_that_nothing_fills: [24], "uninitialized", run(1, 64, input);
    two_elements_of_one_line: [24], "uninitialized", run(1, 64, |i| if i < 64 { input(0) + input(32) } else { 0 });
    local_array_read_first: [24], "uninitialized", run(1, 64, input);
    result_added_to: [24], "uninitialized", run_on_fresh_memory;
    workspace_that_nobody_clears: [24], "uninitialized", run_on_fresh_memory;
    output_written_in_part: [24], "uninitialized", run_to_fresh_output;
    matrix_of_an_empty_tile: [24], "uninitialized", run(1, 32, |i| if i < 32 { i * 0x0001_0001 } else { 0 });
}

impl Twin {
    /// Copies the elements of the first warp.
    #[kernel]
    fn output_written_in_part(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let thread = thread_idx().x;
        if thread < self.number(32, 64) {
            output[thread] = input[thread]; // (1)
        }
    }

    /// Sums 64 elements in a word of shared memory that starts with what was left there.
    #[kernel]
    fn sum_that_is_not_zeroed(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let sum = shared_array::<u32>(1);
        let thread = thread_idx().x;
        if self.mended {
            if thread == 0 {
                sum[0] = constant(0u32);
            }
        }
        sync_threads();
        sum.reduce_add(input[thread]); // (1)
        sync_threads();
        output[thread] = sum[0];
    }

    /// Adds each element's left neighbor, which the first one has not.
    #[kernel]
    fn halo_that_nobody_fills(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = shared_array::<u32>(65);
        let thread = thread_idx().x;
        row[thread + 1] = input[thread];
        if self.mended {
            if thread == 0 {
                row[0] = constant(0u32);
            }
        }
        sync_threads();
        let own = row[thread + 1];
        if thread == 0 {
            output[0] = own + row[0]; // (1)
        } else {
            output[thread] = own + row[thread];
        }
    }

    /// Fills half of a tile, and stores what is read of all of it.
    #[kernel]
    fn tile_filled_in_part(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        let filled = if self.mended { 64 } else { 32 };
        if thread < filled {
            tile[thread] = input[thread];
        }
        sync_threads();
        // The second warp loads the unwritten half, which is no error in itself.
        let element = tile[thread]; // (1)
        if thread < 64 {
            output[thread] = element; // (2)
        }
    }

    /// Fills half of a tile, and selects an element of the tile where there is none.
    #[kernel]
    fn selection_of_the_wrong_half(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = shared_array::<u32>(64);
        let thread = thread_idx().x;
        if thread < 32 {
            tile[thread] = input[thread];
        }
        sync_threads();
        let (element, other) = (tile[thread], input[thread]); // (1)
        output[thread] = thread.lt(self.number(33, 32)).select(element, other); // (2)
    }

    /// Fills one buffer, and stores the other.
    #[kernel]
    fn store_of_a_tile_that_nothing_fills(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let buffers = dynamic_shared_aligned::<u32>(128, 128);
        let thread = thread_idx().x;
        buffers[thread] = input[thread];
        fence_proxy_async_shared();
        sync_threads();
        if thread == 0 {
            bulk::store(*output, 64, buffers + self.number(64, 0)); // (1)
            bulk_commit();
            bulk_wait(0);
        }
    }

    /// Reads a written and an unwritten element in one line.
    #[kernel]
    fn two_elements_of_one_line(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = shared_array::<u32>(64);
        let thread = thread_idx().x;
        if self.mended {
            row[thread] = input[thread];
        } else {
            row[thread % 32] = input[thread % 32];
        }
        sync_threads();
        output[thread] = row[0] + row[32]; // (1)
    }

    /// Keeps four elements in an array of its own, and reads the first one before it is there.
    #[kernel]
    fn local_array_read_first(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let own = local_array::<u32>(4);
        let thread = thread_idx().x;
        if self.mended {
            own[thread % 4] = input[thread];
        }
        output[thread] = own[thread % 4]; // (1)
    }

    /// Adds to a result that nobody has set to zero.
    #[kernel]
    fn result_added_to(&self, input: &Global<u32>, scratch: &mut Global<u32>, output: &mut Global<u32>) {
        let thread = thread_idx().x;
        if self.mended {
            scratch[thread] = constant(0u32);
        }
        scratch[thread] += input[thread]; // (1)
        output[thread] = scratch[thread];
    }

    /// Counts with a word of the workspace that is taken to be zero.
    #[kernel]
    fn workspace_that_nobody_clears(
        &self,
        input: &Global<u32>,
        scratch: &mut Global<u32>,
        output: &mut Global<u32>,
    ) {
        let thread = thread_idx().x;
        if self.mended {
            if thread == 0 {
                scratch[0] = constant(0u32);
            }
        }
        sync_threads();
        scratch.reduce_add(1u32); // (1)
        output[thread] = input[thread];
    }

    /// Loads an 8 by 8 matrix of 16-bit elements by `ldmatrix`.
    #[kernel]
    fn matrix_of_an_empty_tile(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile = dynamic_shared_aligned::<u32>(32, 128);
        let lane = thread_idx().x;
        if self.mended {
            tile[lane] = lane * 0x0001_0001;
        }
        sync_warp(ALL_LANES);
        let row = tile.cast::<f16>() + lane % 8 * 8;
        let [pair] = ldmatrix::<f16, 1>(row); // (1)
        output[lane] = pair + input[0];
    }
}

/// Runs a kernel that copies 64 elements, to memory that nothing has written.
fn run_to_fresh_output(device: &Device, kernel: Staged<(In<u32>, Out<u32>)>) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let numbers: Vec<u32> = (0..64).map(input).collect();
    let (given, mut output) = (device.buffer_from(&numbers)?, device.uninitialized::<u32>(64)?);
    kernel.launch(&device.stream()?, kernel.shape(1).block(64), (&given, &mut output))?;
    assert_eq!(output.to_vec()?, numbers);
    Ok(())
}

/// Runs a kernel that copies 64 elements, and has fresh memory for as many.
fn run_on_fresh_memory(device: &Device, kernel: Staged<(In<u32>, Out<u32>, Out<u32>)>) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let numbers: Vec<u32> = (0..64).map(input).collect();
    let given = device.buffer_from(&numbers)?;
    let (mut scratch, mut output) = (device.uninitialized::<u32>(64)?, device.zeros::<u32>(64)?);
    kernel.launch(&device.stream()?, kernel.shape(1).block(64), (&given, &mut scratch, &mut output))?;
    assert_eq!(output.to_vec()?, numbers);
    Ok(())
}

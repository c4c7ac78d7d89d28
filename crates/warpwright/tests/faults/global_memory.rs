//! Row 25: CTAs that share global memory.

use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::{Device, Error};

use crate::faults::fault::{Staged, Twin, faults, input, run};

faults! {
    ctas_write_one_element: [25], "race", run(2, 32, |i| if i < 32 { 2 } else { 0 });
    flag_stored_plainly: [25], "race", run_with_scratch(2);
    flag_that_releases_nothing: [25], "race", run_with_scratch(2);
    flag_that_is_not_acquired: [25], "race", run_with_scratch(2);
    flag_for_the_cta_alone: [25], "race", run_with_scratch(2);
    flag_before_the_others_wrote: [25, 8], "race", run_with_scratch(2);
    last_cta_without_a_fence: [25], "race", run_with_scratch(4);
    count_that_is_not_atomic: [25], "race", run_with_scratch(2);
}

/// Whether a flag is set, read in this order.
#[track_caller]
fn is_set(flag: Global<u32>, ordering: AccessOrdering) -> Reg<bool> {
    flag.load_with(Access::new().ordered(ordering)).ne(0)
}

impl Twin {
    /// Each CTA counts itself in the same elements.
    #[kernel]
    fn ctas_write_one_element(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let thread = thread_idx().x;
        if self.mended {
            (*output + thread).reduce_add(1u32);
        } else {
            output[thread] = block_idx().x + input[thread]; // (1)
        }
    }

    /// CTA 0 hands a row to CTA 1 by a flag that is an ordinary word.
    #[kernel]
    fn flag_stored_plainly(&self, input: &Global<u32>, scratch: &mut Global<u32>, output: &mut Global<u32>) {
        let (row, flag) = (*scratch, *scratch + 64);
        let thread = thread_idx().x;
        if block_idx().x == 0 {
            row[thread] = input[thread];
            sync_threads();
            if thread == 0 {
                if self.mended {
                    flag.store_with(1u32, Access::new().ordered(AccessOrdering::Release(Scope::Device)));
                } else {
                    fence_device();
                    flag.store(1u32); // (2)
                }
            }
        } else {
            wait_until(|| is_set(flag, AccessOrdering::Acquire(Scope::Device))); // (1)
            output[thread] = row[thread];
        }
    }

    /// The same; the flag is strong, and takes nothing with it.
    #[kernel]
    fn flag_that_releases_nothing(
        &self,
        input: &Global<u32>,
        scratch: &mut Global<u32>,
        output: &mut Global<u32>,
    ) {
        let (row, flag) = (*scratch, *scratch + 64);
        let thread = thread_idx().x;
        if block_idx().x == 0 {
            row[thread] = input[thread]; // (2)
            sync_threads();
            if thread == 0 {
                let ordering = if self.mended {
                    AccessOrdering::Release(Scope::Device)
                } else {
                    AccessOrdering::Relaxed(Scope::Device)
                };
                flag.store_with(1u32, Access::new().ordered(ordering));
            }
        } else {
            wait_until(|| is_set(flag, AccessOrdering::Acquire(Scope::Device)));
            output[thread] = row[thread]; // (1)
        }
    }

    /// The same; the flag is released, and who sees it does not acquire.
    #[kernel]
    fn flag_that_is_not_acquired(
        &self,
        input: &Global<u32>,
        scratch: &mut Global<u32>,
        output: &mut Global<u32>,
    ) {
        let (row, flag) = (*scratch, *scratch + 64);
        let thread = thread_idx().x;
        if block_idx().x == 0 {
            row[thread] = input[thread]; // (2)
            sync_threads();
            if thread == 0 {
                flag.store_with(1u32, Access::new().ordered(AccessOrdering::Release(Scope::Device)));
            }
        } else {
            wait_until(|| is_set(flag, AccessOrdering::Relaxed(Scope::Device)));
            if self.mended {
                fence_device();
            }
            output[thread] = row[thread]; // (1)
        }
    }

    /// The same; the flag is for threads of the CTA that sets it.
    #[kernel]
    fn flag_for_the_cta_alone(
        &self,
        input: &Global<u32>,
        scratch: &mut Global<u32>,
        output: &mut Global<u32>,
    ) {
        let (row, flag) = (*scratch, *scratch + 64);
        let thread = thread_idx().x;
        if block_idx().x == 0 {
            row[thread] = input[thread];
            sync_threads();
            if thread == 0 {
                let scope = if self.mended { Scope::Device } else { Scope::Block };
                flag.store_with(1u32, Access::new().ordered(AccessOrdering::Release(scope))); // (2)
            }
        } else {
            wait_until(|| is_set(flag, AccessOrdering::Acquire(Scope::Device))); // (1)
            output[thread] = row[thread];
        }
    }

    /// The same; the thread that sets the flag has not waited for the others' elements.
    #[kernel]
    fn flag_before_the_others_wrote(
        &self,
        input: &Global<u32>,
        scratch: &mut Global<u32>,
        output: &mut Global<u32>,
    ) {
        let (row, flag) = (*scratch, *scratch + 64);
        let thread = thread_idx().x;
        if block_idx().x == 0 {
            row[thread] = input[thread]; // (2)
            if self.mended {
                sync_threads();
            }
            if thread == 0 {
                flag.store_with(1u32, Access::new().ordered(AccessOrdering::Release(Scope::Device)));
            }
        } else {
            wait_until(|| is_set(flag, AccessOrdering::Acquire(Scope::Device)));
            output[thread] = row[thread]; // (1)
        }
    }

    /// The CTA that finishes last adds up what all have written.
    #[kernel]
    fn last_cta_without_a_fence(
        &self,
        input: &Global<u32>,
        scratch: &mut Global<u32>,
        output: &mut Global<u32>,
    ) {
        let ticket = shared_array::<u32>(1);
        let thread = thread_idx().x;
        if thread < 8 {
            scratch[block_idx().x * 8 + thread] = input[block_idx().x * 8 + thread]; // (2)
        }
        if self.mended {
            fence(Semantics::SequentiallyConsistent, Scope::Device);
        }
        sync_threads();
        if thread == 0 {
            ticket[0] = (*scratch + 64).atomic_add(1u32);
        }
        sync_threads();
        if ticket[0] == grid_dim().x - 1 {
            if self.mended {
                fence(Semantics::SequentiallyConsistent, Scope::Device);
            }
            output[thread] = scratch[thread]; // (1)
        }
    }

    /// Each CTA counts itself by a load and a store.
    #[kernel]
    fn count_that_is_not_atomic(
        &self,
        input: &Global<u32>,
        scratch: &mut Global<u32>,
        output: &mut Global<u32>,
    ) {
        let thread = thread_idx().x;
        if thread == 0 {
            if self.mended {
                (*scratch + 64).reduce_add(1u32);
            } else {
                scratch[64] += 1u32; // (1)
            }
        }
        if block_idx().x == 0 {
            output[thread] = input[thread];
        }
    }
}

/// A kernel from one array to another, with memory of its own between.
type WithScratch = Staged<(In<u32>, Out<u32>, Out<u32>)>;

/// Runs a kernel that copies 32 elements, and has 65 words of zeros to do it with.
fn run_with_scratch(ctas: u32) -> impl FnOnce(&Device, WithScratch) -> Result<(), Error> {
    move |device, kernel| {
        let kernel = device.compile(&kernel.expect("it is staged"))?;
        let numbers: Vec<u32> = (0..32).map(input).collect();
        let given = device.buffer_from(&numbers)?;
        let (mut scratch, mut output) = (device.zeros::<u32>(65)?, device.zeros::<u32>(32)?);
        kernel.launch(
            &device.stream()?,
            kernel.shape(ctas).block(32),
            (&given, &mut scratch, &mut output),
        )?;
        assert_eq!(output.to_vec()?, numbers);
        Ok(())
    }
}

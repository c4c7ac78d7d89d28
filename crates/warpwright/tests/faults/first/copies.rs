//! `cp.async` into a ring of stages, and bulk copies.

use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::fault::input;
use crate::faults::first::{Error, Mistaken};

const STAGES: u32 = 3;
const STEPS: u32 = 6;
const THREADS: u32 = 64;

impl Mistaken {
    /// Sums each thread's column of six rows, reversed, by way of a ring of three rows.
    #[kernel]
    fn ring(&self, x: &Global<u32>, y: &mut Global<u32>) {
        launch::threads(THREADS);
        let ring = shared_array::<u32>(STAGES * THREADS);
        let thread = thread_idx().x;
        for step in 0..STAGES - 1 {
            copy_async(ring + (step * THREADS + thread), *x + (step * THREADS + thread), 1);
            if !self.is("no commit before the loop") && !self.is("no commits") {
                commit_async_copies();
            }
        }
        let mut sum = constant(0u32);
        for step in 0..constant(STEPS) {
            if self.is("waits for too few") {
                wait_async_copies(STAGES - 1);
            } else if self.is("no cp.async wait") {
            } else {
                wait_async_copies(STAGES - 2);
            }
            if !self.is("no barrier after the wait") {
                sync_threads();
            }
            let next = step + (STAGES - 1);
            let to = if self.is("refills the stage that is read") { step } else { next };
            if next < STEPS {
                copy_async(ring + (to % STAGES * THREADS + thread), *x + (next * THREADS + thread), 1);
                if self.is("last steps commit nothing") {
                    commit_async_copies();
                }
            }
            if !self.is("last steps commit nothing") && !self.is("no commits") {
                commit_async_copies();
            }
            if self.is("reads the next stage") {
                sum += ring[(step + 1) % STAGES * THREADS + 63 - thread];
            } else {
                sum += ring[step % STAGES * THREADS + 63 - thread];
            }
        }
        y[thread] = sum;
    }

    /// Doubles 64 elements through a bulk copy in and one out.
    #[kernel]
    fn doubled(&self, x: &Global<u32>, y: &mut Global<u32>) {
        launch::threads(THREADS);
        let tile = dynamic_shared_aligned::<u32>(THREADS, 128);
        let full = Mbarrier::new();
        let thread = thread_idx().x;
        if thread == 0 {
            full.init(1);
            fence_mbarrier_init();
        }
        sync_threads();
        if thread == 0 {
            full.arrive_and_expect(THREADS * 4);
            bulk::load(*x, THREADS, tile, full);
        }
        if self.is("one thread waits") {
            if thread == 0 {
                full.wait_parity(0);
            }
        } else if self.is("a barrier for the wait") {
            sync_threads();
        } else {
            full.wait_parity(0);
        }
        tile[thread] = tile[thread] * 2;
        if !self.is("no proxy fence") {
            fence_proxy_async_shared();
        }
        if !self.is("no barrier before the store") {
            sync_threads();
        }
        if thread == 0 {
            bulk::store(*y, THREADS, tile);
            bulk_commit();
            if !self.is("store not awaited") {
                bulk_wait(0);
            }
        }
        if self.is("overwritten before the store is done") {
            tile[thread] = constant(0u32);
        }
    }
}

type Staged = Result<Kernel<(In<u32>, Out<u32>)>, StagingErrors>;

fn launched(device: &Device, kernel: Staged) -> Result<(), Error> {
    let kernel = device.compile(&kernel?)?;
    let x = device.buffer_from(&(0..STEPS * THREADS).map(input).collect::<Vec<_>>())?;
    let mut y = device.zeros::<u32>(THREADS as usize)?;
    kernel.launch(&device.stream()?, 1, (&x, &mut y))?;
    y.to_vec()?;
    Ok(())
}

pub(super) fn ring(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    launched(device, mistaken.ring())
}

pub(super) fn doubled(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    launched(device, mistaken.doubled())
}

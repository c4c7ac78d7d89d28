//! Resident CTAs that count themselves.
//!
//! An SM starts a CTA as soon as it has the resources for one. The number of resident CTAs is the
//! minimum of four quotients: warp slots, registers, shared memory and CTA slots
//! (`warpwright occupancy`). Here each CTA increments a counter, updates the maximum, and stays
//! resident until no other CTA has started for a while. The maximum is the number per SM, times the
//! number of SMs. CTAs that start later exit immediately.
//!
//! ```text
//! CTA                 present    peak
//! comes               + 1        max(peak, present)
//! stays               until `begun` has not changed for `stay` nanoseconds, or another has gone
//! goes                - 1
//! ```

use warpwright::arch::KernelResources;
use warpwright::prelude::*;
use warpwright::runtime::Compiled;
use warpwright_harness::{Options, Prepared, Result, Setup, Verified, Work, Workload, exactly};

/// CTAs that count themselves, with a given use of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Occupancy {
    /// Threads per CTA.
    pub threads: u32,
    /// Shared memory per CTA, in words.
    pub shared_words: u32,
    /// Maximum number of registers per thread; 0 leaves it to the assembler.
    pub registers: u32,
}

/// Indices of the counters: resident CTAs, their maximum, started CTAs, and CTAs that exited.
const PRESENT: usize = 0;
const PEAK: usize = 1;
const BEGUN: usize = 2;
const GONE: usize = 3;
const COUNTS: usize = 4;

impl Occupancy {
    /// The counters are 0 before the launch. A CTA exits when no other has started for `stay`
    /// nanoseconds.
    #[kernel]
    pub fn run(&self, counts: &mut Global<u32>, stay: u64) {
        launch::threads(self.threads);
        if self.registers > 0 {
            launch::maximum_registers(self.registers);
        }
        if self.shared_words > 0 {
            // Unused: it only occupies shared memory.
            dynamic_shared::<u32>(self.shared_words);
        }
        if thread_idx().x == 0 {
            let present = counts.at(PRESENT).atomic_add(1) + 1;
            counts.at(PEAK).reduce_max(present);
            let mut begun = counts.at(BEGUN).atomic_add(1) + 1;
            let mut since = global_timer();
            // Other CTAs write these counters concurrently.
            let racing = Access::new().ordered(AccessOrdering::Relaxed(Scope::Device));
            while counts.at(GONE).load_with(racing) == 0 && global_timer() - since < stay {
                let now = counts.at(BEGUN).load_with(racing);
                if now != begun {
                    begun = now;
                    since = global_timer();
                }
            }
            counts.at(GONE).reduce_add(1);
            counts.at(PRESENT).reduce_add(u32::MAX);
        }
        sync_threads();
    }
}

/// Counts the CTAs that are resident at the same time: CTAs per SM, times the number of SMs.
#[derive(Clone, Debug, Options)]
pub(crate) struct OccupancyWorkload {
    /// Threads per CTA.
    #[option(default = 256, min = 1, max = 1024)]
    threads: u32,
    /// Bytes of shared memory per CTA.
    #[option(default = 0)]
    shared: u32,
    /// Maximum number of registers per thread.
    #[option(min = 1, max = 255)]
    registers: Option<u32>,
    /// CTAs in the grid. By default twice as many as the device can hold.
    #[option(min = 1)]
    ctas: Option<u32>,
}

/// How long a CTA waits for another on a GPU, in nanoseconds: thousands of times the start of a
/// CTA.
const STAY: u64 = 1_000_000;
/// The same on an emulator, whose CTAs start one after another on a busy host. The wait is short:
/// when all CTAs wait, the emulated clocks leap.
const EMULATED_STAY: u64 = 300_000_000;

impl Workload for OccupancyWorkload {
    const NAME: &'static str = "occupancy";

    fn work(&self) -> Work {
        Work::default()
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let occupancy = Occupancy {
            threads: self.threads,
            shared_words: self.shared.div_ceil(4),
            registers: self.registers.unwrap_or(0),
        };
        let device = setup.device();
        let kernel = device.compile(&occupancy.run()?)?;
        let resident = resident(&occupancy, &kernel)?;
        let grid = self.ctas.unwrap_or(2 * resident);
        let stay = if device.properties().is_emulated { EMULATED_STAY } else { STAY };
        let sm_count = device.properties().sm_count;
        let buffers = setup.buffers(self.work(), |_| setup.output::<u32>(COUNTS))?;
        Ok(buffers
            .launch(move |stream, counts| {
                stream.fill_zero(counts)?;
                Ok(kernel.launch(stream, grid, (counts, stay))?)
            })
            .verify(move |counts| {
                let expected = [0, resident.min(grid), grid, grid];
                let found = counts.to_vec()?;
                let verified = exactly(&found, |index| f64::from(expected[index]))?;
                Ok(Verified { finding: Some(finding(found[PEAK], sm_count)), ..verified })
            }))
    }
}

/// The count that the kernel is run for, as a sentence.
fn finding(peak: u32, sm_count: u32) -> String {
    let per_sm = match peak % sm_count {
        0 => format!("{} on each of {sm_count} SMs", peak / sm_count),
        _ => format!("on {sm_count} SMs"),
    };
    format!("at most {peak} CTAs were resident at the same time, {per_sm}")
}

/// The number of CTAs that the device can hold. The emulator has no assembler to report registers
/// per thread, so there it is the maximum that the kernel states.
fn resident<Args>(occupancy: &Occupancy, kernel: &Compiled<Args>) -> Result<u32> {
    let function = kernel.function();
    let (device, attributes) = (function.device(), function.attributes());
    let registers = match attributes.registers_per_thread {
        0 => occupancy.registers,
        registers => registers,
    };
    let launch = kernel.shape(1);
    let resources = KernelResources {
        threads_per_cta: occupancy.threads,
        registers_per_thread: registers,
        shared_bytes: attributes.shared_bytes + launch.dynamic_shared_bytes,
    };
    let properties = device.properties();
    Ok(properties.capability.occupancy(&resources)?.ctas_per_sm * properties.sm_count)
}

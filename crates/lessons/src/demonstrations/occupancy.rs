//! How many CTAs are there at once: they count themselves.
//!
//! An SM begins a CTA as soon as it has room for one, and what it has room for is the least of four quotients: warp slots, registers, shared
//! memory, CTA slots (`warpwright occupancy`). Here each CTA says that it has come, remembers how many are there, and stays until nobody
//! has come for a while; the most that were there at once is what an SM holds, times the SMs. The CTAs that begin later go at once.
//!
//! ```text
//! CTA                 present    peak
//! comes               + 1        max(peak, present)
//! stays               until `begun` has not changed for `stay` nanoseconds, or another has gone
//! goes                - 1
//! ```

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::{Device, Launch};

use super::exactly;
use warpwright_kernels::prepared::{Ready, ptx, with_resources};
use warpwright_kernels::registry::{LibraryKernel, OptionSpec, Options, Prepared, Resources, Result, Work};

/// CTAs that count themselves, each taking so much of its SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Occupancy {
    /// Threads of a CTA.
    pub threads: u32,
    /// Words of shared memory of a CTA.
    pub shared_words: u32,
    /// Registers of a thread, at most; 0 for what the assembler takes.
    pub registers: u32,
}

/// Where the counts are: CTAs that are there now, the most that were, all that have come, and all that have gone.
const PRESENT: usize = 0;
const PEAK: usize = 1;
const BEGUN: usize = 2;
const GONE: usize = 3;
const COUNTS: usize = 4;

impl Occupancy {
    /// The counts are 0 before the launch. A CTA goes when none has come for `stay` nanoseconds.
    #[kernel]
    pub fn run(&self, counts: &mut Global<u32>, stay: u64) {
        launch::threads(self.threads);
        if self.registers > 0 {
            launch::maximum_registers(self.registers);
        }
        if self.shared_words > 0 {
            // Nobody needs it: it only takes room.
            dynamic_shared::<u32>(self.shared_words);
        }
        if thread_idx().x == 0 {
            let present = counts.at(PRESENT).atomic_add(1) + 1;
            counts.at(PEAK).reduce_max(present);
            let mut begun = counts.at(BEGUN).atomic_add(1) + 1;
            let mut since = global_timer();
            // Others write these meanwhile.
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

/// [`Occupancy`] for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("threads", 256, "of a CTA"),
    OptionSpec::number("shared", 0, "bytes of shared memory of a CTA"),
    OptionSpec::number("registers", 0, "of a thread at most, 0 for what the assembler takes"),
    OptionSpec::number("ctas", 0, "of the grid, 0 for twice as many as there is room for"),
];

/// How long a CTA waits for another on a GPU, in nanoseconds: thousands of times as long as one takes to begin.
const STAY: u64 = 1_000_000;
/// On an emulator, whose CTAs begin one after another on a busy host. It does not last: where all CTAs wait, its clocks leap.
const EMULATED_STAY: u64 = 300_000_000;

fn kernel(options: &Options) -> Result<Occupancy> {
    let (threads, registers) = (options.u32("threads")?, options.u32("registers")?);
    if threads > 1024 {
        return Err(format!("a CTA has at most 1024 threads, not {threads}").into());
    }
    if registers > 255 {
        return Err(format!("a thread has at most 255 registers, not {registers}").into());
    }
    Ok(Occupancy { threads, shared_words: options.u32("shared")?.div_ceil(4), registers })
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "occupancy"
    }

    fn summary(&self) -> &'static str {
        "CTAs count how many of them are there at once: what an SM holds, times the SMs"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        ptx(kernel(options)?.run()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let kernel = kernel(options)?;
        let compiled = device.compile(&kernel.run()?)?;
        let resources = resources(&kernel, &compiled.shape(1), compiled.function())?;
        let room = resources.ctas_per_sm * device.properties().sm_count;
        let grid = options.u32_or("ctas", 2 * room)?;
        let stay = if device.properties().is_emulated { EMULATED_STAY } else { STAY };
        let counts = Rc::new(std::cell::RefCell::new(device.zeros::<u32>(COUNTS)?));
        let result = Rc::clone(&counts);
        let prepared = Box::new(Ready {
            launch: move |stream: &_| {
                let counts = &mut *counts.borrow_mut();
                counts.fill_zero()?;
                let shape = compiled.shape(grid);
                Ok(compiled.function().launch(stream, shape, (&*counts, stay))?)
            },
            verify: move || {
                let expected = [0, room.min(grid), grid, grid];
                exactly(&result.borrow().to_vec()?, |index| f64::from(expected[index]))
            },
            work: Work::default(),
        });
        Ok(with_resources(prepared, resources))
    }
}

/// What the kernel takes of an SM. An emulator has no assembler to say how many registers a thread gets: there it is what the
/// kernel asks for.
fn resources(
    kernel: &Occupancy,
    shape: &Launch,
    function: &warpwright::runtime::Function,
) -> Result<Resources> {
    let resources = Resources::of(function, shape)?;
    if resources.registers_per_thread.is_some() || kernel.registers == 0 {
        return Ok(resources);
    }
    let taken = warpwright::arch::KernelResources {
        threads_per_cta: kernel.threads,
        registers_per_thread: kernel.registers,
        shared_bytes: resources.shared_bytes,
    };
    let found = function.device().properties().capability.occupancy(&taken)?;
    Ok(Resources { ctas_per_sm: found.ctas_per_sm, ..resources })
}

//! Opening devices: by name, by ordinal, and the emulated ones.

use warpwright_arch::{ARCHITECTURES, Arch};
use warpwright_emulator::Schedule;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::{cuda, emulated};

/// The environment variable that names the default device.
const DEVICE_VARIABLE: &str = "WARPWRIGHT_DEVICE";

impl Device {
    /// The device named by `WARPWRIGHT_DEVICE`, or `auto` if the variable is not set.
    ///
    /// # Errors
    /// As [`named`](Self::named).
    #[allow(clippy::should_implement_trait)] // Opening a device can fail, which `Default` has no room for.
    pub fn default() -> Result<Self> {
        match std::env::var(DEVICE_VARIABLE) {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Self::named("auto"),
        }
    }

    /// The device of that name: `cuda:0` is the first GPU, `emu:h200` an emulated H200. `auto` is
    /// the first GPU, or an emulated H200 if no driver is installed.
    ///
    /// # Errors
    /// The name is unknown, or the GPU does not exist.
    pub fn named(name: &str) -> Result<Self> {
        Self::with_schedule(name, Schedule::Eager)
    }

    /// The device of that name, with a schedule for the emulator. A GPU ignores the schedule.
    ///
    /// # Errors
    /// As [`named`](Self::named).
    pub fn with_schedule(name: &str, schedule: Schedule) -> Result<Self> {
        let unknown = || Error::UnknownDevice { name: name.to_owned(), known: emulated_names() };
        if name == "auto" {
            return Self::cuda(0).or_else(|_| Self::emulated(Arch::named("h200")?, schedule));
        }
        match name.split_once(':') {
            Some(("cuda", ordinal)) => Self::cuda(ordinal.parse().map_err(|_| unknown())?),
            Some(("emu", gpu)) => Self::emulated(Arch::named(gpu).map_err(|_| unknown())?, schedule),
            _ => Err(unknown()),
        }
    }

    /// An emulated GPU.
    ///
    /// # Errors
    /// The emulator's threads cannot be started.
    pub fn emulated(arch: &'static Arch, schedule: Schedule) -> Result<Self> {
        emulated::open(arch, schedule, 0).map(Self::of)
    }

    /// An emulated GPU that runs on one host thread. CTAs are scheduled in a fixed order, so that
    /// two runs are identical even if the kernel's result depends on the order of CTAs.
    ///
    /// # Errors
    /// The emulator's thread cannot be started.
    pub fn emulated_on_one_thread(arch: &'static Arch, schedule: Schedule) -> Result<Self> {
        emulated::open(arch, schedule, 1).map(Self::of)
    }

    /// An emulated GPU for a driver that is made of one ([`raw`](Self::raw)): its streams are asynchronous, and a kernel
    /// may wait for what the program does later. A wait in vain ends after a minute.
    ///
    /// # Errors
    /// The emulator's threads cannot be started.
    pub fn emulated_beside_program(arch: &'static Arch, schedule: Schedule) -> Result<Self> {
        emulated::beside_program(arch, schedule).map(Self::of)
    }

    /// A GPU, by ordinal.
    ///
    /// # Errors
    /// The driver is not installed, or the GPU does not exist.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        cuda::open(ordinal).map(Self::of)
    }

    /// The number of GPUs that the driver reports.
    ///
    /// # Errors
    /// The driver is not installed.
    pub fn cuda_count() -> Result<u32> {
        cuda::count()
    }
}

fn emulated_names() -> String {
    ARCHITECTURES.iter().map(|arch| arch.name).collect::<Vec<_>>().join(", ")
}

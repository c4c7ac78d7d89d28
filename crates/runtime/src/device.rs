//! Devices: selection, checks and counters.

use std::sync::Arc;

use warpwright_arch::{ARCHITECTURES, Arch, Capability};
use warpwright_check::Finding;
use warpwright_count::Counters;
use warpwright_emulator::{Limit, Schedule, available_host_bytes};

use crate::assemblers::Assemblers;
use crate::backend::{Backend, Predecessor, Printer};
use crate::capture::expect_no_capture;
use crate::cuda::Cuda;
use crate::dry_run::DryRun;
use crate::emulated::Emulated;
use crate::error::{Error, Result};
use crate::launch_log::LaunchRecord;
use crate::properties::DeviceProperties;
use crate::reading::Reading;

/// The environment variable that names the default device.
const DEVICE_VARIABLE: &str = "WARPWRIGHT_DEVICE";

/// A GPU or an emulated GPU. Clones are cheap and refer to the same device.
///
/// ```
/// use warpwright_runtime::Device;
///
/// let device = Device::named("emu:a100")?;
/// let numbers = device.buffer_from(&[1.0f32, 2.0, 3.0])?;
/// assert_eq!(numbers.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), warpwright_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    pub(crate) backend: Arc<dyn Backend>,
}

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
        Ok(Self { backend: Arc::new(Emulated::new(arch, schedule, 0)?) })
    }

    /// An emulated GPU that runs on one host thread. CTAs are scheduled in a fixed order, so that
    /// two runs are identical even if the kernel's result depends on the order of CTAs.
    ///
    /// # Errors
    /// The emulator's thread cannot be started.
    pub fn emulated_on_one_thread(arch: &'static Arch, schedule: Schedule) -> Result<Self> {
        Ok(Self { backend: Arc::new(Emulated::new(arch, schedule, 1)?) })
    }

    /// The same device with all checkers on. A launch with findings returns [`Error::Findings`],
    /// even if its results are correct.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Schedule};
    /// let device = Device::with_schedule("emu:h200", Schedule::Latest)?.checked()?;
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device is a GPU. Checkers need the emulator.
    pub fn checked(self) -> Result<Self> {
        self.checked_behind(Predecessor::AsLaunched)
    }

    /// The same device with checkers on, which assume the worst of what runs in front of a launch
    /// that may overlap it ([`Launch::overlapping`](crate::Launch::overlapping)): a kernel that writes
    /// all of global memory. For libraries, whose callers decide what runs in front.
    ///
    /// # Errors
    /// The device is a GPU. Checkers need the emulator.
    pub fn checked_behind_writers(self) -> Result<Self> {
        self.checked_behind(Predecessor::WritesEverything)
    }

    fn checked_behind(self, predecessor: Predecessor) -> Result<Self> {
        if self.backend.check_launches(predecessor) {
            Ok(self)
        } else {
            Err(Error::NotChecked { device: self.name().to_owned() })
        }
    }

    /// The same device with counting on: per instruction, executions, shared-memory passes and
    /// global-memory sectors. [`take_counters`](Self::take_counters) returns the counters.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Launch};
    /// # let ptx = include_str!("../tests/ptx/vector.ptx");
    /// let device = Device::named("emu:h200")?.counted()?;
    /// let add = device.load_ptx(ptx)?.function("add")?;
    /// let x = device.buffer_from(&[1.0f32; 128])?;
    /// let mut sum = device.uninitialized::<f32>(128)?;
    /// add.launch(&device.stream()?, Launch::new(1, 128), (&x, &x, &mut sum, 128u32))?;
    /// let total = device.take_counters()[0].total();
    /// assert_eq!((total.counts.global().requests, total.counts.global().sectors), (3 * 4, 3 * 16));
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device is a GPU. Counters need the emulator.
    pub fn counted(self) -> Result<Self> {
        if self.backend.count_launches() {
            Ok(self)
        } else {
            Err(Error::NotCounted { device: self.name().to_owned() })
        }
    }

    /// The remarks of the checkers since the previous call, in their order: what may be on purpose, such as
    /// elements of a buffer of [`zeros`](Self::zeros) that no launch writes and the host reads. Each is
    /// printed to standard error when it is found. Empty unless the device is [`checked`](Self::checked).
    pub fn take_remarks(&self) -> Vec<Finding> {
        self.backend.take_remarks()
    }

    /// The same device, whose kernels print to a function in place of standard output. It is called when
    /// a launch that has printed ends, or fails, with the whole text of the launch.
    ///
    /// ```
    /// # use std::sync::{Arc, Mutex};
    /// # use warpwright_lang::{kernel, launch, printf};
    /// # use warpwright_lang::special::thread_idx;
    /// # use warpwright_runtime::Device;
    /// #[kernel]
    /// fn hello() {
    ///     launch::threads(2);
    ///     printf!("thread %u\n", thread_idx().x);
    /// }
    ///
    /// let printed = Arc::new(Mutex::new(String::new()));
    /// let text = printed.clone();
    /// let device = Device::named("emu:h200")?.printing_to(move |line| text.lock().unwrap().push_str(line))?;
    /// device.compile(&hello()?)?.launch(&device.stream()?, 1, ())?;
    /// assert_eq!(*printed.lock().unwrap(), "thread 0\nthread 1\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The device is a GPU, whose driver prints to the standard output of the process.
    pub fn printing_to(self, print: impl FnMut(&str) + Send + 'static) -> Result<Self> {
        if self.backend.print_to(Printer(Box::new(print))) {
            Ok(self)
        } else {
            Err(Error::PrintsToStandardOutput { device: self.name().to_owned() })
        }
    }

    /// The same device, on which each launch is stopped when it has executed this much:
    /// [`Error::Fault`] says where it was. On the emulator, loops without an end that no deadlock is
    /// proven for run on otherwise.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Limit};
    /// let device = Device::named("emu:h200")?.limited(Limit::WarpInstructions(1_000_000))?;
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device is a GPU, which runs a launch to its end.
    pub fn limited(self, limit: Limit) -> Result<Self> {
        if self.backend.limit_launches(limit) {
            Ok(self)
        } else {
            Err(Error::NotLimited { device: self.name().to_owned() })
        }
    }

    /// The counters of the launches since the previous call, in the order in which each kernel was
    /// first launched. Launches of one kernel with the same extents are added up. Empty unless the
    /// device is [`counted`](Self::counted).
    pub fn take_counters(&self) -> Vec<Counters> {
        self.backend.take_counters()
    }

    /// A device of a compute capability that loads kernels and validates launches like a GPU, and
    /// executes nothing. It has the SM count of an H200, and its memory reads as zero.
    /// [`log_launches`](Self::log_launches) returns the launches.
    ///
    /// ```
    /// # use warpwright_arch::Capability;
    /// # use warpwright_runtime::{Device, Launch};
    /// # let ptx = include_str!("../tests/ptx/vector.ptx");
    /// let device = Device::dry_run(Capability::for_target("sm_120a").ok_or("unknown target")?)?;
    /// let add = device.load_ptx(ptx)?.function("add")?;
    /// let x = device.uninitialized::<f32>(1 << 40)?;
    /// let stream = device.stream()?;
    /// let (launched, log) =
    ///     device.log_launches(|| add.launch(&stream, Launch::new(1, 128), (&x, &x, &x, 128u32)));
    /// launched?;
    /// assert_eq!(&*log[0].kernel, "add");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The table of GPUs lacks the H200.
    pub fn dry_run(capability: &'static Capability) -> Result<Self> {
        Ok(Self { backend: Arc::new(DryRun::new(capability)?) })
    }

    /// A device like this one whose memory takes no space and whose launches execute nothing. The kernels that
    /// are compiled for it are loaded on this device, and run there: a program that does its work on a rehearsal,
    /// in several threads perhaps, need not wait for kernels later.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Error, Launch};
    /// # let ptx = include_str!("../tests/ptx/vector.ptx");
    /// let device = Device::named("emu:h200")?;
    /// let rehearsal = device.rehearsal();
    /// let add = rehearsal.load_ptx(ptx)?.function("add")?;
    /// for device in [rehearsal, device] {
    ///     let x = device.buffer_from(&[1.0f32; 128])?;
    ///     let mut sum = device.zeros::<f32>(128)?;
    ///     add.launch(&device.stream()?, Launch::new(1, 128), (&x, &x, &mut sum, 128u32))?;
    ///     assert_eq!(sum.to_vec()?[0], if device.is_dry_run() { 0.0 } else { 2.0 });
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn rehearsal(&self) -> Self {
        Self { backend: Arc::new(DryRun::rehearsal(&self.backend, None)) }
    }

    /// A [rehearsal](Self::rehearsal) whose kernels other processes assemble before they are loaded here.
    pub fn rehearsal_with(&self, assemblers: Arc<Assemblers>) -> Self {
        Self { backend: Arc::new(DryRun::rehearsal(&self.backend, Some(assemblers))) }
    }

    /// Whether launches execute nothing: a [dry run](Self::dry_run), or a [rehearsal](Self::rehearsal).
    pub fn is_dry_run(&self) -> bool {
        self.backend.is_dry_run()
    }

    /// Runs `work`. Returns its result and the launches on the device during it, in order.
    pub fn log_launches<R>(&self, work: impl FnOnce() -> R) -> (R, Vec<LaunchRecord>) {
        let log = self.backend.launch_log();
        log.begin();
        let result = work();
        (result, log.end())
    }

    /// The number of launches so far within [`log_launches`](Self::log_launches).
    pub fn logged_launches(&self) -> usize {
        self.backend.launch_log().len()
    }

    /// A GPU, by ordinal.
    ///
    /// # Errors
    /// The driver is not installed, or the GPU does not exist.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        Ok(Self { backend: Arc::new(Cuda::open(ordinal)?) })
    }

    /// The number of GPUs that the driver reports.
    ///
    /// # Errors
    /// The driver is not installed.
    pub fn cuda_count() -> Result<u32> {
        Cuda::count()
    }

    /// The properties of the device.
    pub fn properties(&self) -> &DeviceProperties {
        self.backend.properties()
    }

    /// The current clocks, power and temperature of a GPU; empty on the emulator.
    pub fn reading(&self) -> Reading {
        self.backend.reading()
    }

    /// The version of the installed driver, such as `580.65.06`; `None` on the emulator and without
    /// NVIDIA's management library.
    pub fn driver_version(&self) -> Option<String> {
        self.backend.driver_version()
    }

    /// The name that selects it: `cuda:0`, `emu:h200`.
    pub fn name(&self) -> &str {
        &self.properties().name
    }

    /// Returns an error if buffers of `bytes` bytes cannot fit, before anything is allocated: neither
    /// the device nor the host, where their elements are made and where the memory of an emulated
    /// device is.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Error};
    /// let device = Device::named("emu:h200")?;
    /// let refused = device.check_memory(1 << 50).expect_err("a petabyte");
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "1.1 PB do not fit into the memory of emu:h200; free buffers or use a smaller problem"
    /// );
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn check_memory(&self, bytes: u64) -> Result<()> {
        let properties = self.properties();
        let device = || properties.name.clone();
        if bytes > properties.global_bytes {
            return Err(Error::OutOfMemory { bytes, device: device() });
        }
        if self.is_dry_run() {
            return Ok(());
        }
        let copies = if properties.is_emulated { 2 } else { 1 };
        match available_host_bytes() {
            Some(available) if copies * bytes > available => {
                Err(Error::OutOfHostMemory { bytes: copies * bytes, available, device: device() })
            }
            _ => Ok(()),
        }
    }

    /// Waits until all work on the device is complete.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        expect_no_capture("Device::synchronize")?;
        self.backend.synchronize()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

fn emulated_names() -> String {
    ARCHITECTURES.iter().map(|arch| arch.name).collect::<Vec<_>>().join(", ")
}

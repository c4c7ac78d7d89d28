//! Choosing a device, and what it is.

use std::sync::Arc;

use warpwright_arch::{ARCHITECTURES, Arch, Capability};
use warpwright_count::Counters;
use warpwright_emulator::Schedule;

use crate::backend::Backend;
use crate::buffer::{Allocation, Buffer, Storable};
use crate::cuda::Cuda;
use crate::dry_run::DryRun;
use crate::emulated::Emulated;
use crate::error::{Error, Result};
use crate::host::HostBuffer;
use crate::launch_log::LaunchRecord;
use crate::module::Module;
use crate::reading::Reading;
use crate::stream::{Event, Stream};

/// The variable of the environment that names the default device.
const DEVICE_VARIABLE: &str = "WARPWRIGHT_DEVICE";

/// A GPU, or the emulator of one. A cheap handle: clones are the same device.
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

/// What a device is.
#[derive(Clone, Debug)]
pub struct DeviceProperties {
    /// The name that chooses it: `cuda:0`, `emu:h200`.
    pub name: String,
    /// The vendor's name for the GPU.
    pub product: String,
    /// Whether it is emulated.
    pub is_emulated: bool,
    /// The limits it keeps. For a GPU newer than the table, those of the nearest one before it.
    pub capability: &'static Capability,
    /// The `.target` to write PTX for: `sm_90a`.
    pub target: String,
    /// SMs.
    pub sm_count: u32,
    /// Global memory, in bytes.
    pub global_bytes: u64,
    /// L2 cache, in bytes.
    pub l2_bytes: u64,
    /// The SMs' highest clock, in MHz.
    pub boost_mhz: u32,
    /// Bandwidth of global memory, in bytes per second.
    pub bytes_per_second: f64,
    /// The CUDA version of the driver, as (major, minor); `None` on the emulator.
    pub driver: Option<(u32, u32)>,
}

impl Device {
    /// The device that `WARPWRIGHT_DEVICE` names, and where it is not set, `auto`.
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

    /// The device of that name: `cuda:0` is the first GPU, `emu:h200` the emulator of one, and
    /// `auto` the first GPU where the driver opens and the emulator of an H200 where it does not.
    ///
    /// # Errors
    /// The name means nothing, or there is no such GPU.
    pub fn named(name: &str) -> Result<Self> {
        Self::with_schedule(name, Schedule::Eager)
    }

    /// The device of that name, with the moments at which an emulator completes asynchronous work.
    /// A GPU has its own.
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

    /// The emulator of a GPU.
    ///
    /// # Errors
    /// The emulator's threads cannot be started.
    pub fn emulated(arch: &'static Arch, schedule: Schedule) -> Result<Self> {
        Ok(Self { backend: Arc::new(Emulated::new(arch, schedule, 0)?) })
    }

    /// The emulator of a GPU on one thread of the host: CTAs take turns always alike, so that two
    /// runs are the same even where the kernel lets it depend on luck which CTA comes first.
    ///
    /// # Errors
    /// The emulator's thread cannot be started.
    pub fn emulated_on_one_thread(arch: &'static Arch, schedule: Schedule) -> Result<Self> {
        Ok(Self { backend: Arc::new(Emulated::new(arch, schedule, 1)?) })
    }

    /// The same device with every checker on: a launch of a kernel with something wrong in it, even
    /// if it computed the right thing this time, is an [`Error::Findings`].
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Schedule};
    /// let device = Device::with_schedule("emu:h200", Schedule::Latest)?.checked()?;
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device is a GPU, which checks nothing.
    pub fn checked(self) -> Result<Self> {
        if self.backend.check_launches() {
            Ok(self)
        } else {
            Err(Error::NotChecked { device: self.name().to_owned() })
        }
    }

    /// The same device with every launch counted: what each instruction executes, the passes of its
    /// accesses to shared memory, the sectors of those to global memory.
    /// [`take_counters`](Self::take_counters) hands it out.
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
    /// assert_eq!((total.counts.global.requests, total.counts.global.sectors), (3 * 4, 3 * 16));
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device is a GPU, which counts nothing.
    pub fn counted(self) -> Result<Self> {
        if self.backend.count_launches() {
            Ok(self)
        } else {
            Err(Error::NotCounted { device: self.name().to_owned() })
        }
    }

    /// What the launches since the last call did, in the order in which each kernel was first
    /// launched; launches of one kernel with the same extents are added up. None unless the device
    /// is [`counted`](Self::counted).
    pub fn take_counters(&self) -> Vec<Counters> {
        self.backend.take_counters()
    }

    /// A device of a compute capability that loads kernels and validates launches like a GPU, and
    /// executes nothing. It has the SM count of an H200; memory that is read is zero.
    /// [`log_launches`](Self::log_launches) returns what was launched.
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

    /// Whether launches execute nothing: a [dry run](Self::dry_run).
    pub fn is_dry_run(&self) -> bool {
        self.backend.is_dry_run()
    }

    /// Does `work`, and returns its result and the launches on the device meanwhile, in order.
    pub fn log_launches<R>(&self, work: impl FnOnce() -> R) -> (R, Vec<LaunchRecord>) {
        let log = self.backend.launch_log();
        log.begin();
        let result = work();
        (result, log.end())
    }

    /// A GPU by its number.
    ///
    /// # Errors
    /// The driver does not open, or knows no such GPU.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        Ok(Self { backend: Arc::new(Cuda::open(ordinal)?) })
    }

    /// The GPUs that the driver knows.
    ///
    /// # Errors
    /// The driver does not open.
    pub fn cuda_count() -> Result<u32> {
        Cuda::count()
    }

    /// What it is.
    pub fn properties(&self) -> &DeviceProperties {
        self.backend.properties()
    }

    /// The clocks, power and heat of a GPU now; nothing is known of an emulator's.
    pub fn reading(&self) -> Reading {
        self.backend.reading()
    }

    /// The version of the installed driver, such as `580.65.06`; `None` on the emulator, and where
    /// NVIDIA's management library is not installed.
    pub fn driver_version(&self) -> Option<String> {
        self.backend.driver_version()
    }

    /// The name that chooses it: `cuda:0`, `emu:h200`.
    pub fn name(&self) -> &str {
        &self.properties().name
    }

    /// A new buffer with a copy of `elements`.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn buffer_from<T: Storable>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.uninitialized(elements.len())?;
        buffer.copy_from(elements)?;
        Ok(buffer)
    }

    /// A new buffer of `length` elements of which every byte is zero.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn zeros<T: Storable>(&self, length: usize) -> Result<Buffer<T>> {
        let mut buffer = self.uninitialized(length)?;
        buffer.fill_zero()?;
        Ok(buffer)
    }

    /// A new buffer of `length` elements that hold anything; on the emulator every byte is `0xff`,
    /// which is NaN in every float.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn uninitialized<T: Storable>(&self, length: usize) -> Result<Buffer<T>> {
        Ok(Buffer::over(Allocation::new(&self.backend, length, size_of::<T>())?, length))
    }

    /// A new buffer in host memory that copies to and from this device need no staging for; all its
    /// bytes are zero.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn host_buffer<T: Storable>(&self, length: usize) -> Result<HostBuffer<T>> {
        HostBuffer::new(&self.backend, length)
    }

    /// A new stream: what is asked of one stream happens in order, and what is asked of two happens
    /// in any.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(&self.backend)
    }

    /// A new event, not recorded yet.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn event(&self) -> Result<Event> {
        Event::new(&self.backend)
    }

    /// Loads PTX text.
    ///
    /// # Errors
    /// The text is not PTX, or the device cannot run it; the message names the lines.
    pub fn load_ptx(&self, text: &str) -> Result<Module> {
        Module::load(&self.backend, text)
    }

    /// Waits until the device has done everything asked of it.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn synchronize(&self) -> Result<()> {
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

/// Refuses to use `what`, which belongs to the device behind `of`, on the device behind `on`.
pub(crate) fn same_device(what: &'static str, of: &Arc<dyn Backend>, on: &Arc<dyn Backend>) -> Result<()> {
    if Arc::ptr_eq(of, on) {
        return Ok(());
    }
    let (of_properties, on_properties) = (of.properties(), on.properties());
    // Two handles of one GPU share its context; two emulators share nothing, whatever their names.
    if !of_properties.is_emulated && of_properties.name == on_properties.name {
        return Ok(());
    }
    let name = |properties: &DeviceProperties, other: &DeviceProperties| {
        if properties.name == other.name {
            format!("another {}", properties.name)
        } else {
            properties.name.clone()
        }
    };
    Err(Error::WrongDevice { what, of: name(of_properties, on_properties), on: on_properties.name.clone() })
}

//! Devices: selection, checks and counters.

use std::sync::Arc;

use warpwright_check::Finding;
use warpwright_count::Counters;
use warpwright_emulator::{Limit, available_host_bytes};
use warpwright_time::{Assumption, Prediction};

use crate::backend::{Backend, Observation, Predecessor, Printer};
use crate::capture::expect_no_capture;
use crate::cuda::nvml::Nvml;
use crate::error::{Error, Result};
use crate::launch_log::LaunchRecord;
use crate::properties::DeviceProperties;
use crate::reading::Reading;

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
    pub(crate) backend: Arc<Backend>,
}

impl Device {
    pub(crate) fn of(backend: Backend) -> Self {
        Self { backend: Arc::new(backend) }
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
        self.observed(|device| Error::NotChecked { device }, |on| on.check_launches(predecessor))
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
        self.observed(|device| Error::NotCounted { device }, |on| on.count_launches())
    }

    /// The same device with a model of time: how long each launch takes on the GPU, and what its warps
    /// wait for. [`take_predictions`](Self::take_predictions) returns the predictions, and the time between two
    /// [events](crate::Event::since) is the predicted time of the stream's launches, copies and fills between them.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Launch};
    /// # let ptx = include_str!("../tests/ptx/vector.ptx");
    /// let device = Device::named("emu:h200")?.timed()?;
    /// let add = device.load_ptx(ptx)?.function("add")?;
    /// let x = device.buffer_from(&[1.0f32; 128])?;
    /// let mut sum = device.uninitialized::<f32>(128)?;
    /// let stream = device.stream()?;
    /// let start = stream.record()?;
    /// add.launch(&stream, Launch::new(1, 128), (&x, &x, &mut sum, 128u32))?;
    /// let elapsed = stream.record()?.since(&start)?;
    /// let time = &device.take_predictions()[0];
    /// assert!(time.microseconds > 1.0 && time.microseconds < 5.0);
    /// assert!((elapsed.as_secs_f64() * 1e6 - time.microseconds).abs() < 0.01);
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device is a GPU, whose launches are timed with [`events`](crate::Stream::record).
    pub fn timed(self) -> Result<Self> {
        self.traced(0)
    }

    /// The same as [`timed`](Self::timed), with the [`timeline`](Prediction::timeline) of the CTAs of each
    /// launch whose linear indices are below `ctas`.
    ///
    /// # Errors
    /// As of [`timed`](Self::timed).
    pub fn traced(self, ctas: u32) -> Result<Self> {
        self.observed(|device| Error::NotTimed { device }, |on| on.time_launches(ctas))
    }

    /// The same device, whose [predictions](Self::timed) assume changes of the GPU: what if device memory were
    /// twice as fast?
    ///
    /// # Errors
    /// The device is a GPU.
    pub fn assuming(self, assumptions: &[Assumption]) -> Result<Self> {
        self.observed(|device| Error::NotTimed { device }, |on| on.assume(assumptions))
    }

    /// The predictions of the launches since the previous call, in their order. Empty unless the device is
    /// [`timed`](Self::timed).
    pub fn take_predictions(&self) -> Vec<Prediction> {
        self.observation().map(|on| on.take_predictions()).unwrap_or_default()
    }

    /// The remarks of the checkers since the previous call, in their order: what may be on purpose, such as
    /// elements of a buffer of [`zeros`](Self::zeros) that no launch writes and the host reads. Each is
    /// printed to standard error when it is found. Empty unless the device is [`checked`](Self::checked).
    pub fn take_remarks(&self) -> Vec<Finding> {
        self.observation().map(|on| on.take_remarks()).unwrap_or_default()
    }

    fn observation(&self) -> Option<&dyn Observation> {
        self.backend.observation.as_deref()
    }

    /// The same device after a setting of its observation, or an error if it has none.
    fn observed(
        self,
        refused: impl FnOnce(String) -> Error,
        set: impl FnOnce(&dyn Observation),
    ) -> Result<Self> {
        set(self.observation().ok_or_else(|| refused(self.name().to_owned()))?);
        Ok(self)
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
        let printer = Printer(Box::new(print));
        self.observed(|device| Error::PrintsToStandardOutput { device }, |on| on.print_to(printer))
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
        self.observed(|device| Error::NotLimited { device }, |on| on.limit_launches(limit))
    }

    /// Stops the launches that run on the device now, from another thread: each returns [`Error::Fault`]. A GPU runs them
    /// to their end.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Error, Launch};
    /// # let ptx = include_str!("../tests/ptx/endless.ptx");
    /// let device = Device::named("emu:h200")?;
    /// let (endless, stream) = (device.load_ptx(ptx)?.function("endless")?, device.stream()?);
    /// let stopped = std::thread::scope(|scope| {
    ///     let launch = scope.spawn(|| endless.launch(&stream, Launch::new(1, 32), ()));
    ///     while !launch.is_finished() {
    ///         device.interrupt();
    ///         std::thread::yield_now();
    ///     }
    ///     launch.join().expect("the launch does not panic")
    /// });
    /// assert!(stopped.is_err_and(|error| error.to_string().contains("interrupted")));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn interrupt(&self) {
        if let Some(on) = self.observation() {
            on.interrupt_launches();
        }
    }

    /// The counters of the launches since the previous call, in the order in which each kernel was
    /// first launched. Launches of one kernel with the same extents are added up. Empty unless the
    /// device is [`counted`](Self::counted).
    pub fn take_counters(&self) -> Vec<Counters> {
        self.observation().map(|on| on.take_counters()).unwrap_or_default()
    }

    /// Runs `work`. Returns its result and the launches on the device during it, in order.
    pub fn log_launches<R>(&self, work: impl FnOnce() -> R) -> (R, Vec<LaunchRecord>) {
        let log = &self.backend.log;
        log.begin();
        let result = work();
        (result, log.end())
    }

    /// The number of launches so far within [`log_launches`](Self::log_launches).
    pub fn logged_launches(&self) -> usize {
        self.backend.log.len()
    }

    /// The properties of the device.
    pub fn properties(&self) -> &DeviceProperties {
        &self.backend.properties
    }

    /// The current clocks, power and temperature of a GPU; empty on the emulator.
    pub fn reading(&self) -> Reading {
        let bus_id = self.properties().pci_bus_id.as_deref();
        bus_id.zip(Nvml::get()).map(|(bus_id, nvml)| nvml.reading(bus_id)).unwrap_or_default()
    }

    /// The version of the installed driver, such as `580.65.06`; `None` on the emulator and without
    /// NVIDIA's management library.
    pub fn driver_version(&self) -> Option<String> {
        self.properties().driver.and_then(|_| Nvml::get()?.driver_version())
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
        if self.backend.is_dry_run {
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
        self.backend.streams.synchronize()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

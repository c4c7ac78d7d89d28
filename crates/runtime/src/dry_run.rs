//! Devices whose launches execute nothing: what a caller does is checked as for a GPU, and goes no further.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_arch::{ARCHITECTURES, Arch, Capability};
use warpwright_check::Elements;
use warpwright_emulator::tensor_map;
use warpwright_ptx::syntax::{Linkage, Module, StateSpace, Statement, Variable};

use crate::attributes::{KernelAttributes, LaunchCounts};
use crate::backend::{
    Backend, Call, Handle, LoadedKernel, LoadedModule, Loader, Memory, Packed, Streams, of_one_kind,
};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch::Launch;
use crate::properties::DeviceProperties;
use crate::signature::type_bytes;

/// Alignment of allocations, as in the driver.
const ALIGNMENT: u64 = 256;

/// The memory of the device: more than any GPU has, and little enough that sums of addresses and
/// sizes fit in 64 bits.
const MAX_BYTES: u64 = 1 << 60;

/// The handle of every stream and event: nothing is in flight.
const HANDLE: Handle = Handle(0);

impl Device {
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
        let properties = properties(capability)?;
        let seams = Arc::new(DryRun::new(&properties));
        Ok(Self::of(Backend { is_dry_run: true, ..Backend::new(properties, seams) }))
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
        self.rehearsal_loading_by(self.backend.loader.clone())
    }

    /// A [rehearsal](Self::rehearsal) whose kernels are loaded by a loader of this device.
    pub(crate) fn rehearsal_loading_by(&self, loader: Arc<dyn Loader>) -> Self {
        let Backend { properties, rehearses, .. } = &*self.backend;
        let dry = Backend::new(properties.clone(), Arc::new(DryRun::new(properties)));
        let rehearses = Some(rehearses.as_ref().unwrap_or(&self.backend).clone());
        Self::of(Backend { loader, is_dry_run: true, rehearses, ..dry })
    }

    /// Whether launches execute nothing: a [dry run](Self::dry_run), or a [rehearsal](Self::rehearsal).
    pub fn is_dry_run(&self) -> bool {
        self.backend.is_dry_run
    }
}

fn properties(capability: &'static Capability) -> Result<DeviceProperties> {
    let usual = Arch::named("h200")?;
    let arch = ARCHITECTURES.iter().find(|arch| arch.capability == capability).unwrap_or(usual);
    Ok(DeviceProperties {
        name: format!("dry-run:{}", capability.target),
        product: format!("a GPU of {}", capability.target),
        is_emulated: true,
        capability,
        target: capability.target.to_owned(),
        // The SM count is that of an H200, for every capability.
        sm_count: usual.sm_count,
        global_bytes: MAX_BYTES,
        l2_bytes: arch.l2_bytes,
        boost_mhz: arch.boost_mhz,
        bytes_per_second: arch.bytes_per_second,
        driver: None,
        ordinal: None,
        pci_bus_id: None,
    })
}

/// Addresses that are given out. Memory reads as zero, and every stream is idle.
struct DryRun {
    name: String,
    threads_per_cta: u32,
    next_address: AtomicU64,
}

impl DryRun {
    fn new(properties: &DeviceProperties) -> Self {
        let threads_per_cta = properties.capability.threads_per_cta;
        Self { name: properties.name.clone(), threads_per_cta, next_address: AtomicU64::new(ALIGNMENT) }
    }
}

impl Memory for DryRun {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let bytes = bytes as u64;
        if bytes > MAX_BYTES {
            return Err(Error::OutOfMemory { bytes, device: self.name.clone() });
        }
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        Ok(self.next_address.fetch_add(bytes, Ordering::Relaxed))
    }

    fn free(&self, _address: u64) {}

    fn share(&self, others: &[Arc<dyn Memory>], bytes: usize) -> Result<Option<u64>> {
        of_one_kind::<Self>(others).map(|_| self.allocate(bytes)).transpose()
    }

    unsafe fn adopt(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn upload(&self, _address: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn zero(&self, _to: &Elements) -> Result<()> {
        Ok(())
    }

    fn download(&self, _address: u64, bytes: &mut [u8]) -> Result<()> {
        bytes.fill(0);
        Ok(())
    }

    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]> {
        Ok(tensor_map::encode(map))
    }
}

impl Streams for DryRun {
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn create_stream(&self, _call: Call) -> Result<Handle> {
        Ok(HANDLE)
    }

    fn destroy_stream(&self, _stream: Handle) {}

    unsafe fn adopt_stream(&self, _stream: Handle) -> Result<()> {
        Ok(())
    }

    fn synchronize_stream(&self, _stream: Handle) -> Result<()> {
        Ok(())
    }

    fn stream_is_idle(&self, _stream: Handle) -> Result<bool> {
        Ok(true)
    }

    fn wait_for_event(&self, _stream: Handle, _event: Handle) -> Result<()> {
        Ok(())
    }

    fn fill(&self, _stream: Handle, _to: &Elements, _byte: u8, _call: Call) -> Result<()> {
        Ok(())
    }

    fn copy(&self, _stream: Handle, _to: &Elements, _from: &Elements, _call: Call) -> Result<()> {
        Ok(())
    }

    unsafe fn copy_to_device(
        &self,
        _stream: Handle,
        _to: &Elements,
        _from: NonNull<u8>,
        _call: Call,
    ) -> Result<()> {
        Ok(())
    }

    unsafe fn copy_to_host(
        &self,
        _stream: Handle,
        _to: NonNull<u8>,
        _from: &Elements,
        _call: Call,
    ) -> Result<()> {
        Ok(())
    }

    fn create_event(&self) -> Result<Handle> {
        Ok(HANDLE)
    }

    fn destroy_event(&self, _event: Handle) {}

    fn record(&self, _event: Handle, _stream: Handle) -> Result<()> {
        Ok(())
    }

    fn synchronize_event(&self, _event: Handle) -> Result<()> {
        Ok(())
    }

    fn event_is_reached(&self, _event: Handle) -> Result<bool> {
        Ok(true)
    }

    fn elapsed(&self, _start: Handle, _end: Handle) -> Result<Duration> {
        Ok(Duration::ZERO)
    }
}

impl Loader for DryRun {
    fn load(self: Arc<Self>, _ptx: &str, parsed: Option<&Module>) -> Result<Arc<dyn LoadedModule>> {
        let module = parsed.expect("text that does not parse is refused for emulated devices").clone();
        Ok(Arc::new(DryModule { module, threads_per_cta: self.threads_per_cta }))
    }
}

/// A parsed module.
struct DryModule {
    module: Module,
    threads_per_cta: u32,
}

impl LoadedModule for DryModule {
    fn kernel(self: Arc<Self>, name: &str) -> Result<Option<Arc<dyn LoadedKernel>>> {
        let is_it = |function: &&warpwright_ptx::syntax::Function| function.is_entry && function.name == name;
        let Some(entry) = self.module.functions.iter().find(is_it) else { return Ok(None) };
        let directive = |names: &[&str]| {
            entry
                .directives
                .iter()
                .find(|(word, _)| names.contains(&word.as_str()))
                .map(|(_, numbers)| numbers)
        };
        let threads =
            directive(&["maxntid", "reqntid"]).map(|threads| threads.iter().product::<i64>() as u32);
        let shared = self.module.variables.iter().chain(entry.body.iter().flatten().filter_map(variable));
        Ok(Some(Arc::new(DryKernel {
            attributes: KernelAttributes {
                registers_per_thread: 0,
                shared_bytes: static_shared_bytes(shared),
                local_bytes: 0,
                threads_per_cta: threads.unwrap_or(self.threads_per_cta),
            },
        })))
    }

    fn variable(&self, name: &str) -> Result<Option<(u64, usize)>> {
        let found = self.module.variables.iter().find(|variable| variable.name == name);
        Ok(found.map(|variable| (ALIGNMENT, bytes(variable) as usize)))
    }
}

fn variable(statement: &Statement) -> Option<&Variable> {
    match statement {
        Statement::Variable(variable) => Some(variable),
        _ => None,
    }
}

/// The total size of shared variables with a declared size, each at its alignment.
fn static_shared_bytes<'a>(variables: impl Iterator<Item = &'a Variable>) -> u32 {
    let shared = variables
        .filter(|variable| variable.space == StateSpace::Shared && variable.linkage != Linkage::Extern);
    let end = shared.fold(0, |end: u64, variable| {
        let alignment = variable.align.map_or(type_bytes(variable.ty) as u64, u64::from).max(1);
        end.next_multiple_of(alignment) + bytes(variable)
    });
    end as u32
}

fn bytes(variable: &Variable) -> u64 {
    let count: u64 = variable.dimensions.iter().map(|extent| extent.unwrap_or(0)).product();
    type_bytes(variable.ty) as u64 * u64::from(variable.vector.max(1)) * count
}

/// A kernel whose launches do nothing.
struct DryKernel {
    attributes: KernelAttributes,
}

impl LoadedKernel for DryKernel {
    fn attributes(&self) -> &KernelAttributes {
        &self.attributes
    }

    fn launch(
        &self,
        _stream: Handle,
        _launch: &Launch,
        _arguments: &[Packed<'_>],
        _call: Call,
    ) -> Result<LaunchCounts> {
        Ok(LaunchCounts::default())
    }
}

//! A device that loads and validates like a GPU of any compute capability, and executes nothing. One that rehearses for
//! another device loads kernels there.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_arch::{ARCHITECTURES, Arch, Capability};
use warpwright_check::Elements;
use warpwright_count::Counters;
use warpwright_emulator::tensor_map;
use warpwright_ptx::syntax::{Linkage, Module, StateSpace, Statement, Variable};

use crate::assemblers::Assemblers;
use crate::attributes::{KernelAttributes, LaunchCounts};
use crate::backend::{Backend, Call, Handle, LoadedKernel, LoadedModule, Packed, Predecessor, of_one_kind};
use crate::emulated::{allocate_host, free_host};
use crate::error::{Error, Result};
use crate::launch::Launch;
use crate::launch_log::LaunchLog;
use crate::properties::DeviceProperties;
use crate::signature::type_bytes;

/// Alignment of allocations, as in the driver.
const ALIGNMENT: u64 = 256;

/// The memory of the device: more than any GPU has, and little enough that sums of addresses and
/// sizes fit in 64 bits.
const MAX_BYTES: u64 = 1 << 60;

/// Addresses that are handed out. They are never read or written.
pub(crate) struct DryRun {
    properties: DeviceProperties,
    next_address: AtomicU64,
    next_handle: AtomicUsize,
    log: LaunchLog,
    /// Where kernels are loaded.
    rehearses: Option<Arc<dyn Backend>>,
    /// What assembles them before.
    assemblers: Option<Arc<Assemblers>>,
}

impl DryRun {
    pub(crate) fn new(capability: &'static Capability) -> Result<Self> {
        let usual = Arch::named("h200")?;
        let arch = ARCHITECTURES.iter().find(|arch| arch.capability == capability).unwrap_or(usual);
        let properties = DeviceProperties {
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
        };
        Ok(Self::with_properties(properties, None))
    }

    /// A device like `backend`, which loads the kernels.
    pub(crate) fn rehearsal(backend: &Arc<dyn Backend>, assemblers: Option<Arc<Assemblers>>) -> Self {
        let rehearsal = Self::with_properties(backend.properties().clone(), Some(backend.clone()));
        Self { assemblers, ..rehearsal }
    }

    fn with_properties(properties: DeviceProperties, rehearses: Option<Arc<dyn Backend>>) -> Self {
        let (next_address, next_handle) = (AtomicU64::new(ALIGNMENT), AtomicUsize::new(1));
        Self { properties, next_address, next_handle, log: LaunchLog::default(), rehearses, assemblers: None }
    }

    fn new_handle(&self) -> Handle {
        Handle(self.next_handle.fetch_add(1, Ordering::Relaxed))
    }
}

impl Backend for DryRun {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn is_dry_run(&self) -> bool {
        true
    }

    fn rehearses(&self) -> Option<&Arc<dyn Backend>> {
        self.rehearses.as_ref()
    }

    fn assemblers(&self) -> Option<&Assemblers> {
        self.assemblers.as_deref()
    }

    fn launch_log(&self) -> &LaunchLog {
        &self.log
    }

    fn check_launches(&self, _: Predecessor) -> bool {
        false
    }

    fn count_launches(&self) -> bool {
        false
    }

    fn take_counters(&self) -> Vec<Counters> {
        Vec::new()
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let bytes = bytes as u64;
        if bytes > MAX_BYTES {
            return Err(Error::OutOfMemory { bytes, device: self.properties.name.clone() });
        }
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        Ok(self.next_address.fetch_add(bytes, Ordering::Relaxed))
    }

    fn free(&self, _address: u64) {}

    fn share(&self, others: &[&dyn Backend], bytes: usize) -> Result<Option<u64>> {
        of_one_kind::<Self>(others).map(|_| self.allocate(bytes)).transpose()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn upload(&self, _address: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn download(&self, _address: u64, bytes: &mut [u8]) -> Result<()> {
        bytes.fill(0);
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>> {
        allocate_host(bytes)
    }

    unsafe fn free_host(&self, pointer: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller passes a pointer from `allocate_host(bytes)`.
        unsafe { free_host(pointer, bytes) }
    }

    fn create_stream(&self, _call: Call) -> Result<Handle> {
        Ok(self.new_handle())
    }

    fn destroy_stream(&self, _stream: Handle) {}

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
        Ok(self.new_handle())
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

    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]> {
        Ok(tensor_map::encode(map))
    }

    fn load(&self, _ptx: &str, parsed: Option<&Module>) -> Result<Arc<dyn LoadedModule>> {
        let module = parsed.expect("text that does not parse is refused for emulated devices").clone();
        Ok(Arc::new(DryModule { module, threads_per_cta: self.properties.capability.threads_per_cta }))
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

//! The emulator as a device. Every call completes before it returns, so streams and events hold
//! only times.

use std::alloc::{self, Layout};
use std::any::Any;
use std::collections::HashMap;
use std::io::Write;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use warpwright_arch::Arch;
use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_check::{Elements, Finding, HostChecks, LaunchChecks, PreviousLaunch, SourceFiles, Transfer};
use warpwright_count::{Counters, LaunchCounting};
use warpwright_emulator::{
    self as emulator, Emulator, Fault, LaunchObserver, Limit, MemoryError, Program, Schedule, SharedRegion,
    Source, StartError,
};
use warpwright_ptx::syntax;

use crate::attributes::{KernelAttributes, LaunchCounts};
use crate::backend::{
    Backend, Call, Handle, LoadedKernel, LoadedModule, Packed, Predecessor, Printer, of_one_kind,
};
use crate::error::{Error, Result};
use crate::launch::Launch;
use crate::launch_log::LaunchLog;
use crate::properties::DeviceProperties;

/// Alignment of host memory: enough for any element and any vector copy.
const HOST_ALIGN: usize = 256;

/// A running emulator.
pub(crate) struct Emulated {
    machine: Arc<Machine>,
    properties: DeviceProperties,
    next_handle: AtomicUsize,
    /// The time when each event was last recorded.
    events: Mutex<HashMap<usize, Option<Instant>>>,
    /// Its memory that other devices access.
    shared: Mutex<SharedRegions>,
    log: LaunchLog,
}

/// Regions by their address, with the devices that access them beside their own.
type SharedRegions = HashMap<u64, (SharedRegion, Vec<Arc<Machine>>)>;

/// What a loaded module needs from its device.
struct Machine {
    emulator: RwLock<Emulator>,
    schedule: Schedule,
    /// Whether launches, and what the host does between them, are checked.
    checked: AtomicBool,
    /// What the host does between launches.
    host: Arc<HostChecks>,
    /// Whether launches are counted.
    counted: AtomicBool,
    counters: Mutex<Vec<Counters>>,
    /// The remarks of the checkers.
    remarks: Mutex<Vec<Finding>>,
    /// What kernels print goes to it; to standard output if there is none.
    printer: Mutex<Option<Printer>>,
    /// How much a launch may execute.
    limit: Mutex<Option<Limit>>,
    /// The last checked launch of each stream, which the next one may overlap.
    previous: Mutex<HashMap<usize, Arc<PreviousLaunch>>>,
    /// Whether a launch that has no such predecessor is checked as if one wrote everything.
    behind_writers: AtomicBool,
}

impl Machine {
    fn read(&self) -> RwLockReadGuard<'_, Emulator> {
        self.emulator.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Emulator> {
        self.emulator.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> MutexGuard<'_, Vec<Counters>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checks of what the host does, if launches are checked.
    fn host_checks(&self) -> Option<&Arc<HostChecks>> {
        self.checked.load(Ordering::Relaxed).then_some(&self.host)
    }

    /// Checks a copy or a fill, which has been done.
    fn check_transfer(&self, stream: Handle, transfer: Transfer, call: Call) -> Result<()> {
        let findings = self.host_checks().map(|host| host.transfer(stream.0, transfer, source(call)));
        expect_none(findings.unwrap_or_default())
    }

    /// Called when the host waits for the device: no launch overlaps an earlier one.
    fn settle_all(&self) {
        self.previous().clear();
        self.host_checks().into_iter().for_each(|host| host.synchronized());
    }

    /// Called when a stream gets work other than a launch, or is synchronized: the next launch
    /// overlaps nothing.
    fn settle(&self, stream: Handle) {
        self.previous().remove(&stream.0);
    }

    fn assumed_predecessor(&self) -> Option<Arc<PreviousLaunch>> {
        let assumes = self.behind_writers.load(Ordering::Relaxed);
        assumes.then(|| Arc::new(PreviousLaunch::writing_everything()))
    }

    fn previous(&self) -> MutexGuard<'_, HashMap<usize, Arc<PreviousLaunch>>> {
        self.previous.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what a kernel has printed.
    fn print(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        match &mut *self.printer() {
            Some(Printer(print)) => print(text),
            None => {
                // A reader that is gone does not stop the kernel.
                let mut stdout = std::io::stdout().lock();
                let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            }
        }
    }

    fn remarks(&self) -> MutexGuard<'_, Vec<Finding>> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn printer(&self) -> MutexGuard<'_, Option<Printer>> {
        self.printer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the counters of a launch.
    fn keep(&self, mut launch: Counters) {
        let mut counters = self.counters();
        for kept in counters.iter_mut() {
            match kept.absorb(launch) {
                Ok(()) => return,
                Err(other) => launch = *other,
            }
        }
        counters.push(launch);
    }
}

impl Emulated {
    /// Uses `threads` host threads; 0 is one per core.
    pub(crate) fn new(arch: &'static Arch, schedule: Schedule, threads: usize) -> Result<Self> {
        Ok(Self::over(Emulator::with_threads(arch, threads).map_err(does_not_start)?, schedule))
    }

    /// Devices of one host.
    pub(crate) fn peers(arch: &'static Arch, schedule: Schedule, count: usize) -> Result<Vec<Self>> {
        let emulators = Emulator::peers(arch, count).map_err(does_not_start)?;
        Ok(emulators.into_iter().map(|emulator| Self::over(emulator, schedule)).collect())
    }

    fn over(emulator: Emulator, schedule: Schedule) -> Self {
        let arch = emulator.arch();
        let properties = DeviceProperties {
            name: format!("emu:{}", arch.name),
            product: arch.product.to_owned(),
            is_emulated: true,
            capability: arch.capability,
            target: arch.capability.target.to_owned(),
            sm_count: arch.sm_count,
            global_bytes: arch.global_bytes,
            l2_bytes: arch.l2_bytes,
            boost_mhz: arch.boost_mhz,
            bytes_per_second: arch.bytes_per_second,
            driver: None,
        };
        Self {
            machine: Arc::new(Machine {
                emulator: RwLock::new(emulator),
                schedule,
                checked: AtomicBool::new(false),
                host: Arc::default(),
                counted: AtomicBool::new(false),
                counters: Mutex::default(),
                remarks: Mutex::default(),
                printer: Mutex::default(),
                limit: Mutex::default(),
                previous: Mutex::default(),
                behind_writers: AtomicBool::new(false),
            }),
            properties,
            next_handle: AtomicUsize::new(1),
            events: Mutex::default(),
            shared: Mutex::default(),
            log: LaunchLog::default(),
        }
    }

    /// Allocates memory that these other devices access, too; `None` if they are of another host.
    fn share_with(&self, others: &[&Self], bytes: usize) -> Result<Option<u64>> {
        let own = self.machine.read();
        if !others.iter().all(|other| own.is_peer_of(&other.machine.read())) {
            return Ok(None);
        }
        drop(own);
        let region = self.machine.write().share(bytes as u64).map_err(|error| self.memory_error(error))?;
        let machines: Vec<_> = others.iter().map(|other| other.machine.clone()).collect();
        machines.iter().for_each(|machine| machine.write().attach(&region));
        let address = region.address();
        self.shared().insert(address, (region, machines));
        Ok(Some(address))
    }

    fn shared(&self) -> MutexGuard<'_, SharedRegions> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn events(&self) -> MutexGuard<'_, HashMap<usize, Option<Instant>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_handle(&self) -> Handle {
        Handle(self.next_handle.fetch_add(1, Ordering::Relaxed))
    }

    fn memory_error(&self, error: MemoryError) -> Error {
        match error {
            MemoryError::OutOfMemory { requested, .. } => {
                Error::OutOfMemory { bytes: requested, device: self.properties.name.clone() }
            }
            MemoryError::HostOutOfMemory { requested, available } => {
                Error::OutOfHostMemory { bytes: requested, available, device: self.properties.name.clone() }
            }
            other => Error::Driver {
                call: "emulator",
                name: "memory error".to_owned(),
                description: other.to_string(),
            },
        }
    }
}

impl Backend for Emulated {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn launch_log(&self) -> &LaunchLog {
        &self.log
    }

    fn check_launches(&self, predecessor: Predecessor) -> bool {
        self.machine.behind_writers.store(predecessor == Predecessor::WritesEverything, Ordering::Relaxed);
        self.machine.checked.store(true, Ordering::Relaxed);
        self.machine.write().track_initialization();
        true
    }

    fn count_launches(&self) -> bool {
        self.machine.counted.store(true, Ordering::Relaxed);
        true
    }

    fn take_remarks(&self) -> Vec<Finding> {
        std::mem::take(&mut self.machine.remarks())
    }

    fn print_to(&self, printer: Printer) -> bool {
        *self.machine.printer() = Some(printer);
        true
    }

    fn limit_launches(&self, limit: Limit) -> bool {
        *self.machine.limit.lock().unwrap_or_else(PoisonError::into_inner) = Some(limit);
        true
    }

    fn take_counters(&self) -> Vec<Counters> {
        std::mem::take(&mut self.machine.counters())
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let address =
            self.machine.write().allocate(bytes as u64).map_err(|error| self.memory_error(error))?;
        if let Some(host) = self.machine.host_checks() {
            host.allocated(address, bytes as u64);
        }
        Ok(address)
    }

    fn free(&self, address: u64) {
        if let Some(host) = self.machine.host_checks() {
            host.freed(address);
        }
        let shared = self.shared().remove(&address);
        if let Some((region, machines)) = shared {
            machines.iter().for_each(|machine| machine.write().detach(&region));
        }
        // The address came from `allocate` and is freed once, so this cannot fail.
        let _ = self.machine.write().free(address);
    }

    fn share(&self, others: &[&dyn Backend], bytes: usize) -> Result<Option<u64>> {
        of_one_kind(others).map_or(Ok(None), |others| self.share_with(&others, bytes))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.machine.settle_all();
        if let Some(host) = self.machine.host_checks() {
            host.written(address, bytes.len() as u64, is_uniform(bytes));
        }
        self.machine.write().write(address, bytes).map_err(|error| self.memory_error(error))
    }

    fn zero(&self, to: &Elements, _call: Call) -> Result<()> {
        self.machine.settle_all();
        if let Some(host) = self.machine.host_checks() {
            host.written(to.address(), to.bytes, true);
        }
        let filled = self.machine.write().fill(to.address(), 0, to.bytes as usize);
        filled.map_err(|error| self.memory_error(error))
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.machine.settle_all();
        self.machine.read().read(address, bytes).map_err(|error| self.memory_error(error))
    }

    fn expect_written(&self, read: &Elements, call: Call) -> Result<()> {
        let Some(host) = self.machine.host_checks() else { return Ok(()) };
        let call = source(call);
        let finding = host.unwritten(read, &call, self.machine.read().initialized());
        expect_none(finding.into_iter().collect::<Vec<_>>())?;
        if let Some(remark) = host.left(read, &call) {
            eprintln!("{}", warpwright_check::render(&remark, &mut SourceFiles::here(), false));
            self.machine.remarks().push(remark);
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        self.machine.settle_all();
        Ok(())
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>> {
        allocate_host(bytes)
    }

    unsafe fn free_host(&self, pointer: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller passes a pointer from `allocate_host(bytes)`.
        unsafe { free_host(pointer, bytes) }
    }

    fn create_stream(&self, call: Call) -> Result<Handle> {
        let stream = self.new_handle();
        if let Some(host) = self.machine.host_checks() {
            host.stream_made(stream.0, source(call));
        }
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Handle) {
        self.machine.settle(stream);
        if let Some(host) = self.machine.host_checks() {
            host.stream_dropped(stream.0);
        }
    }

    fn synchronize_stream(&self, stream: Handle) -> Result<()> {
        self.machine.settle(stream);
        if let Some(host) = self.machine.host_checks() {
            host.stream_synchronized(stream.0);
        }
        Ok(())
    }

    fn stream_is_idle(&self, stream: Handle) -> Result<bool> {
        self.synchronize_stream(stream).map(|()| true)
    }

    fn wait_for_event(&self, stream: Handle, event: Handle) -> Result<()> {
        self.machine.settle(stream);
        if let Some(host) = self.machine.host_checks() {
            host.event_awaited(stream.0, event.0);
        }
        Ok(())
    }

    fn fill(&self, stream: Handle, to: &Elements, byte: u8, call: Call) -> Result<()> {
        self.machine.settle(stream);
        let filled = self.machine.write().fill(to.address(), byte, to.bytes as usize);
        filled.map_err(|error| self.memory_error(error))?;
        self.machine.check_transfer(stream, Transfer::Fill(*to), call)
    }

    fn copy(&self, stream: Handle, to: &Elements, from: &Elements, call: Call) -> Result<()> {
        self.machine.settle(stream);
        let copied = self.machine.write().copy(from.address(), to.address(), from.bytes as usize);
        copied.map_err(|error| self.memory_error(error))?;
        self.machine.check_transfer(stream, Transfer::Copy { to: *to, from: *from }, call)
    }

    unsafe fn copy_to_device(
        &self,
        stream: Handle,
        to: &Elements,
        from: NonNull<u8>,
        call: Call,
    ) -> Result<()> {
        self.machine.settle(stream);
        // SAFETY: the caller passes live host memory of the elements' size that is not written during
        // the call.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), to.bytes as usize) };
        let written = self.machine.write().write(to.address(), bytes);
        written.map_err(|error| self.memory_error(error))?;
        self.machine.check_transfer(stream, Transfer::ToDevice(*to), call)
    }

    unsafe fn copy_to_host(
        &self,
        stream: Handle,
        to: NonNull<u8>,
        from: &Elements,
        call: Call,
    ) -> Result<()> {
        self.machine.settle(stream);
        // SAFETY: the caller passes live host memory of the elements' size that is not accessed during
        // the call.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), from.bytes as usize) };
        let read = self.machine.read().read(from.address(), bytes);
        read.map_err(|error| self.memory_error(error))?;
        self.machine.check_transfer(stream, Transfer::ToHost(*from), call)
    }

    fn create_event(&self) -> Result<Handle> {
        let event = self.new_handle();
        self.events().insert(event.0, None);
        Ok(event)
    }

    fn destroy_event(&self, event: Handle) {
        self.events().remove(&event.0);
        if let Some(host) = self.machine.host_checks() {
            host.event_dropped(event.0);
        }
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<()> {
        self.machine.settle(stream);
        self.events().insert(event.0, Some(Instant::now()));
        if let Some(host) = self.machine.host_checks() {
            host.event_recorded(event.0, stream.0);
        }
        Ok(())
    }

    fn synchronize_event(&self, event: Handle) -> Result<()> {
        if let Some(host) = self.machine.host_checks() {
            host.event_reached(event.0);
        }
        Ok(())
    }

    fn event_is_reached(&self, event: Handle) -> Result<bool> {
        self.synchronize_event(event).map(|()| true)
    }

    fn elapsed(&self, start: Handle, end: Handle) -> Result<Duration> {
        let events = self.events();
        let time = |event: Handle| events.get(&event.0).copied().flatten().ok_or(Error::EventNotReached);
        let elapsed = time(end)?.saturating_duration_since(time(start)?);
        drop(events);
        // The driver measures only between events that are reached.
        self.synchronize_event(start).and_then(|()| self.synchronize_event(end)).map(|()| elapsed)
    }

    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]> {
        Ok(emulator::tensor_map::encode(map))
    }

    fn load(&self, _ptx: &str, parsed: Option<&syntax::Module>) -> Result<Arc<dyn LoadedModule>> {
        let parsed = parsed.expect("text that does not parse is refused for emulated devices");
        let program = self.machine.write().load(parsed)?;
        Ok(Arc::new(EmulatedModule { machine: self.machine.clone(), program }))
    }
}

fn does_not_start(error: StartError) -> Error {
    Error::EmulatorStart { reason: error.to_string() }
}

/// The position of a call, as the checkers name positions.
fn source(call: Call) -> Source {
    Source { file: call.file().to_owned(), line: call.line(), column: call.column() }
}

/// Whether bytes are equal elements, of up to 8 bytes.
fn is_uniform(bytes: &[u8]) -> bool {
    bytes.len() >= 16 && bytes[8..] == bytes[..bytes.len() - 8]
}

/// Returns the findings as an error, if there are any.
fn expect_none(findings: impl Into<Arc<[Finding]>>) -> Result<()> {
    let findings = findings.into();
    if findings.is_empty() { Ok(()) } else { Err(Error::Findings { findings }) }
}

/// Zeroed host memory.
pub(crate) fn allocate_host(bytes: usize) -> Result<NonNull<u8>> {
    let out_of_memory = || Error::OutOfMemory { bytes: bytes as u64, device: "the host".to_owned() };
    let layout = Layout::from_size_align(bytes.max(1), HOST_ALIGN).map_err(|_| out_of_memory())?;
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(out_of_memory)
}

/// # Safety
/// `pointer` is from `allocate_host(bytes)`, is freed once, and is not used afterwards.
pub(crate) unsafe fn free_host(pointer: NonNull<u8>, bytes: usize) {
    let layout =
        Layout::from_size_align(bytes.max(1), HOST_ALIGN).expect("it was allocated with this layout");
    // SAFETY: the caller passes a pointer from `allocate_host(bytes)`, which used this layout.
    unsafe { alloc::dealloc(pointer.as_ptr(), layout) }
}

/// A module that the emulator has decoded.
struct EmulatedModule {
    machine: Arc<Machine>,
    program: Program,
}

impl LoadedModule for EmulatedModule {
    fn kernel(self: Arc<Self>, name: &str) -> Result<Option<Arc<dyn LoadedKernel>>> {
        let device_limit = self.machine.read().arch().capability.threads_per_cta;
        let Some(kernel) = self.program.kernel(name) else { return Ok(None) };
        let attributes = KernelAttributes {
            registers_per_thread: 0,
            shared_bytes: kernel.static_shared_bytes(),
            local_bytes: 0,
            threads_per_cta: kernel.bounds().most_threads.unwrap_or(device_limit),
        };
        Ok(Some(Arc::new(EmulatedKernel { name: name.to_owned(), attributes, module: self })))
    }

    fn variable(&self, name: &str) -> Result<Option<(u64, usize)>> {
        Ok(self.program.variable(name).map(|variable| (variable.address, variable.size as usize)))
    }
}

/// A kernel of a decoded module.
struct EmulatedKernel {
    module: Arc<EmulatedModule>,
    name: String,
    attributes: KernelAttributes,
}

impl LoadedKernel for EmulatedKernel {
    fn attributes(&self) -> &KernelAttributes {
        &self.attributes
    }

    fn launch(
        &self,
        stream: Handle,
        launch: &Launch,
        arguments: &[Packed<'_>],
        call: Call,
    ) -> Result<LaunchCounts> {
        let EmulatedModule { machine, program } = &*self.module;
        let parameters = parameter_bank(arguments);
        let overlaps = launch.overlaps;
        let launch = emulator::Launch {
            grid: launch.grid.0,
            block: launch.block.0,
            cluster: launch.cluster.0,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            parameters: &parameters,
            schedule: machine.schedule,
            limit: *machine.limit.lock().unwrap_or_else(PoisonError::into_inner),
            observers: &[],
        };
        let launched = machine.previous().remove(&stream.0);
        let previous = overlaps.then(|| launched.or_else(|| machine.assumed_predecessor())).flatten();
        let emulator = machine.read();
        let refused =
            |fault: Box<Fault>| Error::BadLaunch { kernel: self.name.clone(), reason: fault.message };
        let info = emulator.describe(program, &self.name, &launch).map_err(refused)?;
        let checks = machine.host_checks().map(|host| {
            let on_stream = host.launch(stream.0, source(call), &info, &parameters);
            LaunchChecks::on_stream(&info, previous, on_stream)
        });
        let counting = machine.counted.load(Ordering::Relaxed).then(|| LaunchCounting::new(&info));
        let checks_observe = checks.as_ref().map(|checks| checks as &dyn LaunchObserver);
        let counting_observes = counting.as_ref().map(|counting| counting as &dyn LaunchObserver);
        let observers: Vec<_> = checks_observe.into_iter().chain(counting_observes).collect();
        let launch = emulator::Launch { observers: &observers, ..launch };
        let report = emulator.launch(program, &self.name, &launch);
        drop(emulator);
        let findings: Arc<[_]> = checks.as_ref().map_or(&[][..], LaunchChecks::findings).into();
        let output = report.as_ref().map_or_else(|fault| &fault.output, |report| &report.output);
        machine.print(output);
        let report =
            report.map_err(|fault| Error::Fault { fault: fault.into(), findings: findings.clone() })?;
        if let Some(done) = checks.and_then(|checks| checks.done()) {
            machine.previous().insert(stream.0, done);
        }
        if let Some(counting) = counting {
            machine.keep(counting.counters());
        }
        expect_none(findings)?;
        Ok(LaunchCounts {
            warp_instructions: report.warp_instructions,
            lane_operations: report.lane_operations,
            mma_multiply_adds: report.mma_multiply_adds,
        })
    }
}

/// The arguments in order, each at the alignment of its parameter.
fn parameter_bank(arguments: &[Packed<'_>]) -> Vec<u8> {
    let mut bank = Vec::new();
    for argument in arguments {
        bank.resize(bank.len().next_multiple_of(argument.align.max(1)), 0);
        bank.extend_from_slice(argument.bytes);
    }
    bank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_bank_keeps_alignments() {
        let packed = |bytes, align| Packed { bytes, align };
        let bank =
            parameter_bank(&[packed(&[1], 1), packed(&[2; 8], 8), packed(&[3; 4], 4), packed(&[4; 6], 2)]);
        assert_eq!(bank, [1, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4]);
        assert!(parameter_bank(&[]).is_empty());
    }
}

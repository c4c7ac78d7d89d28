//! The emulated device.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use warpwright_arch::Arch;
use warpwright_events::{Code, Fault, InitializedBytes, LaunchInfo};
use warpwright_ptx::syntax::Module;

use crate::host::Host;
use crate::launch::context::{LaunchContext, reserved_shared_start};
use crate::launch::limit::{Allowance, Interrupt};
use crate::launch::pending::PendingClusters;
use crate::launch::time::LaunchClock;
use crate::load_error::LoadError;
use crate::memory::{Memory, MemoryError, SharedRegion};
use crate::program::{LoadedKernel, Program};
use crate::scheduling::grid::{self, Launch, LaunchReport};

/// A device that executes PTX on the host's cores.
#[derive(Debug)]
pub struct Emulator {
    arch: &'static Arch,
    memory: Memory,
    host: Arc<Host>,
    /// Its number among the devices of the host.
    ordinal: usize,
    pool: rayon::ThreadPool,
    launches: AtomicU64,
    interrupt: Interrupt,
}

/// The host's threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the emulator could not start its worker threads: {0}")]
pub struct StartError(#[from] rayon::ThreadPoolBuildError);

impl Emulator {
    /// A device of the given architecture, on all cores of the host.
    pub fn new(arch: &'static Arch) -> Result<Self, StartError> {
        Self::with_threads(arch, 0)
    }

    /// A device on a number of host threads; 0 is one per core.
    pub fn with_threads(arch: &'static Arch, threads: usize) -> Result<Self, StartError> {
        Self::on(&Arc::new(Host::new(1)), 0, arch, threads)
    }

    /// Devices of one host, which can [share](Self::share) memory. The cores are divided among them.
    pub fn peers(arch: &'static Arch, count: usize) -> Result<Vec<Self>, StartError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (host, threads) = (Arc::new(Host::new(count)), (cores / count.max(1)).max(1));
        (0..count).map(|ordinal| Self::on(&host, ordinal, arch, threads)).collect()
    }

    /// A device of a program whose later calls, and whose accesses to [adopted](Self::adopt) memory, may end the waits of
    /// kernels: what stands still is deadlocked only after a minute. The program counts as a device that runs nothing.
    pub fn beside_program(arch: &'static Arch) -> Result<Self, StartError> {
        Self::on(&Arc::new(Host::new(2)), 0, arch, 0)
    }

    fn on(host: &Arc<Host>, ordinal: usize, arch: &'static Arch, threads: usize) -> Result<Self, StartError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        let (memory, launches) = (Memory::new(arch.global_bytes), AtomicU64::new(0));
        let interrupt = Interrupt::default();
        Ok(Self { arch, memory, host: host.clone(), ordinal, pool, launches, interrupt })
    }

    /// The emulated architecture.
    pub fn arch(&self) -> &'static Arch {
        self.arch
    }

    /// What stops its launches.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Host threads it runs CTAs on.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Its global memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Allocates global memory: 256-byte aligned, poisoned with `0xff`, at an address never used
    /// before.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        self.memory.allocate(bytes)
    }

    /// Allocates memory of zeros that other devices of the host can [attach](Self::attach). Checked
    /// launches report no reads of bytes that nothing has written.
    pub fn share(&mut self, bytes: u64) -> Result<SharedRegion, MemoryError> {
        self.memory.share(bytes, &self.host)
    }

    /// Whether the other device is of the same host.
    pub fn is_peer_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.host, &other.host)
    }

    /// Lets kernels of this device access memory of a [peer](Self::is_peer_of), at its address there.
    pub fn attach(&mut self, region: &SharedRegion) {
        self.memory.insert_shared(region);
    }

    /// Ends the access to memory of a peer. Its own device frees it.
    pub fn detach(&mut self, region: &SharedRegion) {
        self.memory.remove_shared(region);
    }

    /// Lets kernels access memory of the host at its own address. Its bytes count as written.
    ///
    /// # Safety
    /// `bytes` bytes at `address` are allocated, and stay so until they are [released](Self::release). While a kernel
    /// runs that accesses them, the host does not, except by atomic operations.
    pub unsafe fn adopt(&mut self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        // SAFETY: the caller keeps the bytes allocated.
        unsafe { self.memory.adopt(address, bytes) }
    }

    /// Ends the access to memory of the host that was [adopted](Self::adopt) at this address.
    pub fn release(&mut self, address: u64) {
        self.memory.release(address);
    }

    /// Whether a range is inside one live allocation, or inside adopted memory.
    pub fn is_inside_allocation(&self, address: u64, bytes: u64) -> bool {
        self.memory.is_inside(address, bytes)
    }

    /// Tracks which bytes of the memory allocated from now on have been written, so that checked
    /// launches can report reads of unwritten bytes. The record takes an eighth of the memory's
    /// size.
    pub fn track_initialization(&mut self) {
        self.memory.initialized().begin();
    }

    /// Which bytes have been written, of the memory that is [tracked](Self::track_initialization).
    pub fn initialized(&self) -> &InitializedBytes {
        self.memory.initialized()
    }

    /// Frees an allocation by its address.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        self.memory.free(address)
    }

    /// Copies device bytes to the host.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        self.memory.read(address, bytes)
    }

    /// Copies host bytes to the device. A kernel that runs meanwhile sees them as stores of another CTA.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.host.note_change();
        self.memory.write(address, bytes)
    }

    /// Sets bytes of the device.
    pub fn fill(&self, address: u64, value: u8, length: usize) -> Result<(), MemoryError> {
        self.host.note_change();
        self.memory.fill(address, value, length)
    }

    /// Copies between device addresses.
    pub fn copy(&self, source: u64, target: u64, length: usize) -> Result<(), MemoryError> {
        self.host.note_change();
        self.memory.copy(source, target, length)
    }

    /// Decodes a module, and allocates its variables.
    ///
    /// A module with instructions that the emulator does not support loads, and executing one is a
    /// fault. [`Kernel::unsupported`](crate::Kernel::unsupported) lists them.
    pub fn load(&mut self, module: &Module) -> Result<Program, LoadError> {
        crate::load::load(module, self.arch, &mut self.memory)
    }

    /// The information for observers of a launch, or the reason that it is refused.
    pub fn describe(
        &self,
        program: &Program,
        kernel: &str,
        launch: &Launch<'_>,
    ) -> Result<LaunchInfo, Box<Fault>> {
        let kernel = &self.checked(program, kernel, launch)?.kernel;
        let shared_bytes = kernel.shared_bytes(launch.dynamic_shared_bytes);
        Ok(LaunchInfo {
            code: kernel.code.clone(),
            grid: launch.grid,
            block: launch.block,
            cluster: grid::cluster_extents(kernel, launch),
            shared_bytes,
            most_registers: kernel.bounds.most_registers,
            least_ctas_per_sm: kernel.bounds.least_ctas_per_sm,
            system_shared: reserved_shared_start(shared_bytes),
            initialized: self.memory.initialized().clone(),
        })
    }

    /// The kernel of a launch that the device and the kernel allow.
    fn checked<'p>(
        &self,
        program: &'p Program,
        kernel: &str,
        launch: &Launch<'_>,
    ) -> Result<&'p LoadedKernel, Box<Fault>> {
        let Some(found) = program.loaded(kernel) else {
            let known: Vec<&str> = program.kernels().collect();
            let message = format!("The module has no kernel of this name; it has: {}.", known.join(", "));
            return Err(Box::new(Fault::bad_launch(kernel, message)));
        };
        grid::check(&found.kernel, launch, self.arch)?;
        Ok(found)
    }

    /// Runs a kernel to its end, or to its first fault.
    pub fn launch(
        &self,
        program: &Program,
        kernel: &str,
        launch: &Launch<'_>,
    ) -> Result<LaunchReport, Box<Fault>> {
        let found = self.checked(program, kernel, launch)?;
        let kernel = &found.kernel;
        let cluster = grid::cluster_extents(kernel, launch);
        let scheduler = launch.observers.iter().copied().find(|observer| observer.schedules());
        let context = LaunchContext {
            kernel,
            memory: &self.memory,
            arch: self.arch,
            grid: launch.grid,
            block: launch.block,
            cluster,
            explicit_cluster: kernel.bounds.required_cluster.is_some() || cluster != [1; 3],
            parameters: launch.parameters,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            shared_bytes: kernel.shared_bytes(launch.dynamic_shared_bytes),
            schedule: launch.schedule,
            observers: launch.observers,
            scheduler,
            ordered: match scheduler {
                Some(_) => ordered(&kernel.code),
                None => Box::default(),
            },
            strong_accesses: launch
                .observers
                .iter()
                .any(|observer| observer.orders_strong_accesses())
                .then(Mutex::default),
            grid_id: self.launches.fetch_add(1, Ordering::Relaxed),
            pending: PendingClusters::new(grid::cluster_count(launch.grid, cluster)),
            clock: LaunchClock::start(),
            running: self.host.start(self.ordinal),
            allowance: Allowance::of(launch.limit, &self.interrupt),
            stop: AtomicBool::new(false),
        };
        grid::run(&context, &found.operations, &self.pool)
    }
}

/// Whether each operation is ordered.
fn ordered(code: &Code) -> Box<[bool]> {
    code.of_operation
        .iter()
        .map(|&instruction| code.instructions[instruction as usize].is_ordered())
        .collect()
}

//! The emulator as a device. Every call completes before it returns, so streams and events hold
//! only times.

mod clocks;
mod loader;
mod memory;
mod observation;
mod streams;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use warpwright_arch::Arch;
use warpwright_check::{Finding, HostChecks, PreviousLaunch};
use warpwright_count::Counters;
use warpwright_emulator::{Emulator, Interrupt, Limit, Schedule, SharedRegion, Source, StartError};
use warpwright_time::{Assumption, Prediction};

use crate::backend::{Backend, Call, Handle, Printer};
use crate::error::{Error, Result};
use crate::properties::DeviceProperties;
use clocks::Clocks;

/// An emulated GPU on `threads` host threads; 0 is one per core.
pub(crate) fn open(arch: &'static Arch, schedule: Schedule, threads: usize) -> Result<Backend> {
    Ok(backend(Emulator::with_threads(arch, threads).map_err(does_not_start)?, schedule))
}

/// An emulated GPU whose kernels wait for what the program does later.
pub(crate) fn beside_program(arch: &'static Arch, schedule: Schedule) -> Result<Backend> {
    Ok(backend(Emulator::beside_program(arch).map_err(does_not_start)?, schedule))
}

/// Emulated GPUs of one host.
pub(crate) fn peers(arch: &'static Arch, schedule: Schedule, count: usize) -> Result<Vec<Backend>> {
    let emulators = Emulator::peers(arch, count).map_err(does_not_start)?;
    Ok(emulators.into_iter().map(|emulator| backend(emulator, schedule)).collect())
}

fn backend(emulator: Emulator, schedule: Schedule) -> Backend {
    let properties = properties(emulator.arch());
    let machine = Arc::new(Machine {
        interrupt: emulator.interrupt().clone(),
        emulator: RwLock::new(emulator),
        name: properties.name.clone(),
        schedule,
        next_handle: AtomicUsize::new(1),
        clocks: Mutex::default(),
        shared: Mutex::default(),
        adopted: Mutex::default(),
        checked: AtomicBool::new(false),
        host: Arc::default(),
        counted: AtomicBool::new(false),
        counters: Mutex::default(),
        timed: AtomicBool::new(false),
        traced_ctas: AtomicU32::new(0),
        assumptions: Mutex::default(),
        predictions: Mutex::default(),
        remarks: Mutex::default(),
        printer: Mutex::default(),
        limit: Mutex::default(),
        previous: Mutex::default(),
        behind_writers: AtomicBool::new(false),
    });
    Backend { observation: Some(machine.clone()), ..Backend::new(properties, machine) }
}

fn properties(arch: &'static Arch) -> DeviceProperties {
    DeviceProperties {
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
        ordinal: None,
        pci_bus_id: None,
    }
}

/// Regions by their address, with the devices that access them beside their own.
type SharedRegions = HashMap<u64, (SharedRegion, Vec<Arc<Machine>>)>;

/// Memory of the host that kernels access, and how often it is adopted.
struct Adopted {
    bytes: u64,
    users: usize,
}

/// A running emulator.
struct Machine {
    emulator: RwLock<Emulator>,
    /// Beside the emulator, whose lock may be held by the launches that it stops.
    interrupt: Interrupt,
    /// The name of the device.
    name: String,
    schedule: Schedule,
    next_handle: AtomicUsize,
    clocks: Mutex<Clocks>,
    /// Its memory that other devices access.
    shared: Mutex<SharedRegions>,
    /// Memory of the host, by its address.
    adopted: Mutex<BTreeMap<u64, Adopted>>,
    /// Whether launches, and what the host does between them, are checked.
    checked: AtomicBool,
    /// What the host does between launches.
    host: Arc<HostChecks>,
    /// Whether launches are counted.
    counted: AtomicBool,
    counters: Mutex<Vec<Counters>>,
    /// Whether the times of launches are predicted.
    timed: AtomicBool,
    /// CTAs whose timelines are recorded.
    traced_ctas: AtomicU32,
    /// Changes of the GPU that predictions assume.
    assumptions: Mutex<Vec<Assumption>>,
    predictions: Mutex<Vec<Prediction>>,
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

    /// The checks of what the host does, if launches are checked.
    fn host_checks(&self) -> Option<&Arc<HostChecks>> {
        self.checked.load(Ordering::Relaxed).then_some(&self.host)
    }

    /// Tells the checks what the host does, if launches are checked.
    fn note(&self, act: impl FnOnce(&HostChecks)) {
        if let Some(host) = self.host_checks() {
            act(host);
        }
    }

    /// Called when the host waits for the device: no launch overlaps an earlier one.
    fn settle_all(&self) {
        self.previous().clear();
        self.note(|host| host.synchronized());
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

    fn new_handle(&self) -> Handle {
        Handle(self.next_handle.fetch_add(1, Ordering::Relaxed))
    }
}

fn does_not_start(error: StartError) -> Error {
    Error::EmulatorStart { reason: error.to_string() }
}

/// The position of a call, as the checkers name positions.
fn source(call: Call) -> Source {
    Source { file: call.file().to_owned(), line: call.line(), column: call.column() }
}

/// Returns the findings as an error, if there are any.
fn expect_none(findings: impl Into<Arc<[Finding]>>) -> Result<()> {
    let findings = findings.into();
    if findings.is_empty() { Ok(()) } else { Err(Error::Findings { findings }) }
}

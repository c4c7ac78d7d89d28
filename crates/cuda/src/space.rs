//! The address space of the device: what a program has allocated, registered and mapped, by address.
//!
//! Device memory has addresses of the emulator. Memory of the host that kernels access, page-locked, registered or
//! managed, has the host's, so that one pointer serves both.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::machine::{Machine, machine};
use crate::report;
use crate::status::{Result, Status};

static REGIONS: Mutex<BTreeMap<u64, Region>> = Mutex::new(BTreeMap::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Where the library prefers to have memory of the host: between the program and the windows of the emulator.
const HOST_BASE: u64 = 0x5800_0000_0000;
static NEXT_HOST: AtomicU64 = AtomicU64::new(HOST_BASE);

/// What a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cuMemAlloc`, and of a pool: `cuMemAllocAsync`.
    Device { pool: usize },
    /// `cuMemHostAlloc`, with its flags.
    Host { flags: u32 },
    /// `cuMemHostRegister`, with its flags.
    Registered { flags: u32 },
    /// `cuMemAllocManaged`
    Managed,
    /// A variable of a module.
    Variable,
}

/// Addresses that a program can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    /// The handle of its context.
    pub(crate) context: usize,
    pub(crate) id: u64,
}

impl Region {
    /// Whether the host accesses it by the same pointer.
    pub(crate) fn is_of_host(&self) -> bool {
        matches!(self.kind, Kind::Host { .. } | Kind::Registered { .. } | Kind::Managed)
    }

    fn contains(&self, address: u64, bytes: u64) -> bool {
        let end = self.start + self.bytes;
        (self.start..=end).contains(&address) && bytes <= end - address && (bytes == 0 || address < end)
    }
}

fn regions() -> MutexGuard<'static, BTreeMap<u64, Region>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The region that an address is in.
pub(crate) fn find(address: u64) -> Option<Region> {
    let regions = regions();
    let (_, region) = regions.range(..=address).next_back()?;
    (address < region.start + region.bytes.max(1)).then_some(*region)
}

/// The region that bytes are inside.
pub(crate) fn containing(address: u64, bytes: u64) -> Result<Region> {
    find(address).filter(|region| region.contains(address, bytes)).ok_or(Status::INVALID_VALUE)
}

/// The bytes that a program has allocated on the device.
pub(crate) fn used() -> u64 {
    let of_device = |region: &&Region| matches!(region.kind, Kind::Device { .. } | Kind::Managed);
    regions().values().filter(of_device).map(|region| region.bytes).sum()
}

/// The bytes that a program has allocated of a pool.
pub(crate) fn used_of(pool: usize) -> u64 {
    regions().values().filter(|region| region.kind == Kind::Device { pool }).map(|region| region.bytes).sum()
}

/// Adds a region.
pub(crate) fn add(start: u64, bytes: u64, kind: Kind, context: usize) {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    regions().insert(start, Region { start, bytes, kind, context, id });
}

/// Removes the region that begins at an address, if it is of a kind.
pub(crate) fn remove(start: u64, is_kind: impl FnOnce(Kind) -> bool) -> Result<Region> {
    let mut regions = regions();
    let region = regions.get(&start).copied().filter(|region| is_kind(region.kind));
    let region = region.ok_or(Status::INVALID_VALUE)?;
    regions.remove(&start);
    Ok(region)
}

/// Allocates device memory.
pub(crate) fn allocate(bytes: usize, pool: usize, context: usize) -> Result<u64> {
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let machine = machine()?;
    if bytes as u64 > machine.arch.global_bytes.saturating_sub(used()) {
        return Err(Status::OUT_OF_MEMORY);
    }
    let address = machine.raw.allocate(bytes).map_err(|error| report::status(&error))?;
    add(address, bytes as u64, Kind::Device { pool }, context);
    Ok(address)
}

/// Frees what [`allocate`] returned. No work uses it any more.
pub(crate) fn free(address: u64) -> Result<()> {
    let region = remove(address, |kind| matches!(kind, Kind::Device { .. } | Kind::Managed))?;
    release(machine()?, &region)
}

/// Ends the device's access to a region that is removed, and frees it.
fn release(machine: &Machine, region: &Region) -> Result<()> {
    match region.kind {
        Kind::Device { .. } => machine.raw.free(region.start),
        Kind::Host { .. } | Kind::Managed => {
            machine.raw.release(region.start);
            unmap(region.start, region.bytes);
        }
        Kind::Registered { .. } => machine.raw.release(region.start),
        Kind::Variable => {}
    }
    Ok(())
}

/// Allocates memory of the host that kernels access.
pub(crate) fn allocate_host(bytes: usize, kind: Kind, context: usize) -> Result<u64> {
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let machine = machine()?;
    let address = map(bytes).ok_or(Status::OUT_OF_MEMORY)?;
    // SAFETY: the bytes are mapped until the region is removed, which releases them first.
    if let Err(error) = unsafe { machine.raw.adopt(address, bytes) } {
        unmap(address, bytes as u64);
        return Err(report::status(&error));
    }
    add(address, bytes as u64, kind, context);
    Ok(address)
}

/// Frees what [`allocate_host`] returned.
pub(crate) fn free_host(address: u64) -> Result<()> {
    let region = remove(address, |kind| matches!(kind, Kind::Host { .. }))?;
    release(machine()?, &region)
}

/// Lets kernels access memory that the program has allocated.
pub(crate) fn register(address: u64, bytes: usize, flags: u32, context: usize) -> Result<()> {
    if bytes == 0 || address == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let end = address.checked_add(bytes as u64).ok_or(Status::INVALID_VALUE)?;
    let overlaps =
        regions().range(..end).next_back().is_some_and(|(_, last)| last.start + last.bytes > address);
    if overlaps {
        return Err(Status::HOST_MEMORY_ALREADY_REGISTERED);
    }
    // SAFETY: the program keeps the bytes allocated while they are registered, by the contract of the API.
    unsafe { machine()?.raw.adopt(address, bytes) }.map_err(|error| report::status(&error))?;
    add(address, bytes as u64, Kind::Registered { flags }, context);
    Ok(())
}

/// Ends the access that [`register`] began.
pub(crate) fn unregister(address: u64) -> Result<()> {
    let region = remove(address, |kind| matches!(kind, Kind::Registered { .. }));
    release(machine()?, &region.map_err(|_| Status::HOST_MEMORY_NOT_REGISTERED)?)
}

/// A place of memory, as a copy accesses it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// An address of the device, which may be memory of the host that kernels access.
    Device(u64),
    /// Memory of the host that the device does not know.
    Pageable(u64),
}

impl Place {
    /// The place of bytes at a pointer of either kind.
    pub(crate) fn of(address: u64, bytes: u64) -> Result<Self> {
        match find(address) {
            Some(region) if region.contains(address, bytes) => Ok(Self::Device(address)),
            // Memory that is registered in part is the host's as a whole.
            Some(region) if region.is_of_host() => Ok(Self::Pageable(address)),
            Some(_) => Err(Status::INVALID_VALUE),
            None if address == 0 => Err(Status::INVALID_VALUE),
            None => Ok(Self::Pageable(address)),
        }
    }

    pub(crate) fn is_pageable(self) -> bool {
        matches!(self, Self::Pageable(_))
    }

    /// The place at a distance.
    pub(crate) fn after(self, bytes: u64) -> Self {
        match self {
            Self::Device(address) => Self::Device(address.wrapping_add(bytes)),
            Self::Pageable(address) => Self::Pageable(address.wrapping_add(bytes)),
        }
    }
}

/// The host's pointer of an address.
pub(crate) fn pointer(address: u64) -> Option<NonNull<u8>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize))
}

/// Maps memory of zeros, near [`HOST_BASE`] if that is free.
fn map(bytes: usize) -> Option<u64> {
    let gap = (bytes as u64).checked_next_multiple_of(1 << 21)?.checked_add(1 << 21)?;
    let hint = NEXT_HOST.fetch_add(gap, Ordering::Relaxed);
    let hint = std::ptr::with_exposed_provenance_mut(hint as usize);
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping replaces none: the address is a hint.
    let mapped = unsafe { libc::mmap(hint, bytes, access, kind, -1, 0) };
    (mapped != libc::MAP_FAILED).then(|| mapped.expose_provenance() as u64)
}

fn unmap(address: u64, bytes: u64) {
    // SAFETY: the mapping is one of `map`, and its region is removed, so that nothing uses it.
    unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(address as usize), bytes as usize) };
}

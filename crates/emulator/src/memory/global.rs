//! Global memory: allocations at addresses that are never used twice.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::sync::Arc;

use warpwright_events::InitializedBytes;

use super::heap::{self, Block, Heap, HeapError};
use super::{CONSTANT_WINDOW, GLOBAL_BASE, Space, host};
use crate::host::Host;

/// Every allocation starts at a multiple of this, as `cudaMalloc` promises.
const ALIGNMENT: u64 = 256;
/// Unused bytes after every allocation, so that an overrun never reaches the next one.
pub(super) const RED_ZONE: u64 = 4096;
/// The content of new memory: NaN as any float, -1 as any integer.
pub(crate) const POISON: u8 = 0xff;

/// Why memory could not be allocated, freed or copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Not enough memory is left.
    #[error("{requested} bytes were requested, and {free} of the device's {capacity} are free")]
    OutOfMemory {
        /// Bytes requested.
        requested: u64,
        /// Bytes free.
        free: u64,
        /// Bytes in all.
        capacity: u64,
    },
    /// Not enough memory of the host is left.
    #[error(
        "{requested} bytes were requested; an emulated device keeps its memory in the host's, of which \
         {available} bytes are available"
    )]
    HostOutOfMemory {
        /// Bytes requested.
        requested: u64,
        /// Bytes that the host can still give.
        available: u64,
    },
    /// An address that no allocation starts at was freed.
    #[error("{address:#x} is not the start of an allocation, so it cannot be freed")]
    NotAnAllocation {
        /// The address.
        address: u64,
    },
    /// An allocation was freed twice.
    #[error("the allocation at {address:#x} was freed before")]
    FreedTwice {
        /// The address.
        address: u64,
    },
    /// Memory of the host is at addresses that the device uses for something else.
    #[error("bytes {address:#x} to {end:#x} of the host are at addresses of {taken}")]
    NotAdopted {
        /// First byte of the range.
        address: u64,
        /// One past its last byte.
        end: u64,
        /// What the device has there.
        taken: String,
    },
    /// A copy or a fill accesses bytes outside every live allocation.
    #[error("bytes {address:#x} to {end:#x} are not inside a live allocation: {near}")]
    OutOfBounds {
        /// First byte of the range.
        address: u64,
        /// One past its last byte.
        end: u64,
        /// The nearest allocation.
        near: String,
    },
}

/// One allocation, live or freed.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) base: u64,
    pub(crate) size: u64,
    /// Null once freed.
    host: *mut u8,
    /// What `host` points to, until it is freed.
    bytes: Option<Arc<HostBytes>>,
    /// The module's variable, if it is one.
    pub(crate) name: Option<String>,
    pub(crate) read_only: bool,
}

/// Bytes past an allocation that say nothing about it.
const FAR: u64 = 1 << 20;

impl Region {
    pub(super) fn layout(size: u64) -> Option<Layout> {
        Layout::from_size_align(usize::try_from(size.max(1)).ok()?, ALIGNMENT as usize).ok()
    }

    pub(crate) fn end(&self) -> u64 {
        self.base + self.size
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.host.is_null()
    }

    fn free(&mut self) {
        self.host = std::ptr::null_mut();
        self.bytes = None;
    }

    /// How a report names it.
    pub(crate) fn describe(&self) -> String {
        match &self.name {
            Some(name) => format!("the variable `{name}` ({} bytes at {:#x})", self.size, self.base),
            None => format!("the allocation of {} bytes at {:#x}", self.size, self.base),
        }
    }
}

/// Memory of the host. The regions of all devices that access it own it together.
#[derive(Debug)]
pub(super) struct HostBytes {
    start: *mut u8,
    layout: Layout,
}

impl HostBytes {
    /// Memory of zeros, or poisoned; `None` if the host has too little.
    pub(super) fn new(layout: Layout, zeroed: bool) -> Option<Self> {
        // SAFETY: the layout is of at least one byte.
        let start = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        if start.is_null() {
            return None;
        }
        if !zeroed {
            // SAFETY: `start` is a fresh allocation of `layout.size()` bytes.
            unsafe { start.write_bytes(POISON, layout.size()) };
        }
        Some(Self { start, layout })
    }
}

impl HostBytes {
    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc` with this layout, and is freed here only.
        unsafe { dealloc(self.start, self.layout) };
    }
}

// SAFETY: the bytes are only accessed by raw reads and writes inside their bounds, which any thread
// may do.
unsafe impl Send for HostBytes {}
// SAFETY: as above.
unsafe impl Sync for HostBytes {}

/// Memory that several devices access, each at the same address.
#[derive(Clone, Debug)]
pub struct SharedRegion {
    base: u64,
    size: u64,
    bytes: Arc<HostBytes>,
}

impl SharedRegion {
    /// Its address on every device.
    pub fn address(&self) -> u64 {
        self.base
    }
}

/// The allocations that a warp accessed last; kernels access only a few.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegionCache {
    entries: [CachedRegion; 4],
    /// The entry that is replaced next.
    oldest: usize,
}

#[derive(Clone, Copy, Debug)]
struct CachedRegion {
    base: u64,
    end: u64,
    host: *mut u8,
    read_only: bool,
}

impl Default for CachedRegion {
    /// An empty entry.
    fn default() -> Self {
        Self { base: 1, end: 0, host: std::ptr::null_mut(), read_only: false }
    }
}

impl RegionCache {
    #[inline(always)]
    fn find(&self, first: u64, end: u64) -> Option<CachedRegion> {
        self.entries.into_iter().find(|entry| first >= entry.base && end <= entry.end)
    }
}

/// The global memory of a device.
///
/// Its bytes are shared by all CTAs of a launch, on all host threads, and are reached through raw
/// pointers: an access of a kernel is an access of the host of the same width, and a race in the
/// kernel is a race of plain machine words.
#[derive(Debug)]
pub struct Memory {
    /// In order of address, freed ones included.
    regions: Vec<Region>,
    /// The address of the next allocation or variable.
    next: u64,
    /// The address of the next constant variable.
    next_constant: u64,
    used: u64,
    capacity: u64,
    /// Which bytes have been written, if tracked.
    initialized: Arc<InitializedBytes>,
    heap: Heap,
}

// SAFETY: the regions' bytes are only accessed by raw reads and writes inside their bounds, which
// any thread may do; regions are added and removed only through `&mut self`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Empty memory of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let (next, next_constant) = (GLOBAL_BASE, CONSTANT_WINDOW);
        Self {
            regions: Vec::new(),
            next,
            next_constant,
            used: 0,
            capacity,
            initialized: Arc::default(),
            heap: Heap::default(),
        }
    }

    /// Bytes in live allocations.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes in all.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Allocates `size` bytes, 256-byte aligned and poisoned with `0xff`. The address was never in
    /// use before.
    pub fn allocate(&mut self, size: u64) -> Result<u64, MemoryError> {
        let base = self.reserve(size, ALIGNMENT, None, false)?;
        self.initialized.allocate(base, size);
        Ok(base)
    }

    /// Which bytes have been written.
    pub(crate) fn initialized(&self) -> &Arc<InitializedBytes> {
        &self.initialized
    }

    /// Allocates memory: for a variable if it has a name, of zeros, and poisoned otherwise.
    pub(crate) fn reserve(
        &mut self,
        size: u64,
        align: u64,
        name: Option<String>,
        read_only: bool,
    ) -> Result<u64, MemoryError> {
        let free = self.capacity.saturating_sub(self.used);
        let full = MemoryError::OutOfMemory { requested: size, free, capacity: self.capacity };
        if size > free {
            return Err(full);
        }
        if size >= host::SMALL
            && let Some(available) = host::available_host_bytes()
            && size > available
        {
            return Err(MemoryError::HostOutOfMemory { requested: size, available });
        }
        let Some(layout) = Region::layout(size) else { return Err(full) };
        let Some(bytes) = HostBytes::new(layout, name.is_some()) else { return Err(full) };
        let next = if read_only { &mut self.next_constant } else { &mut self.next };
        let base = next.next_multiple_of(align.max(ALIGNMENT));
        *next = base + size + RED_ZONE;
        self.used += size;
        self.insert(Region { base, size, host: bytes.start, bytes: Some(Arc::new(bytes)), name, read_only });
        Ok(base)
    }

    fn insert(&mut self, region: Region) {
        let index = self.regions.partition_point(|other| other.base < region.base);
        self.regions.insert(index, region);
    }

    /// Adds memory of zeros that several devices access, of which none counts the bytes that it has
    /// written.
    pub(crate) fn share(&mut self, size: u64, host: &Host) -> Result<SharedRegion, MemoryError> {
        let free = self.capacity.saturating_sub(self.used);
        let full = MemoryError::OutOfMemory { requested: size, free, capacity: self.capacity };
        let Some(layout) = Region::layout(size).filter(|_| size <= free) else { return Err(full) };
        let Some(bytes) = HostBytes::new(layout, true) else { return Err(full) };
        let base = host.reserve_shared((size + RED_ZONE).next_multiple_of(ALIGNMENT));
        let shared = SharedRegion { base, size, bytes: Arc::new(bytes) };
        self.used += size;
        self.insert_shared(&shared);
        Ok(shared)
    }

    /// Adds memory of another device.
    pub(crate) fn insert_shared(&mut self, shared: &SharedRegion) {
        let SharedRegion { base, size, bytes } = shared.clone();
        self.insert(Region {
            base,
            size,
            host: bytes.start,
            bytes: Some(bytes),
            name: None,
            read_only: false,
        });
    }

    /// Removes memory of another device. Later accesses to it are reported as use after free.
    pub(crate) fn remove_shared(&mut self, shared: &SharedRegion) {
        if let Ok(index) = self.regions.binary_search_by_key(&shared.base, |region| region.base) {
            self.regions[index].free();
        }
    }

    /// Adds memory of the host, at its own address. Its bytes count as written, and take nothing of the capacity.
    ///
    /// # Safety
    /// The bytes stay allocated until they are [released](Self::release), at the earliest when all launches have ended.
    pub(crate) unsafe fn adopt(&mut self, address: u64, size: u64) -> Result<(), MemoryError> {
        let end = address.saturating_add(size);
        let refused = |taken: String| Err(MemoryError::NotAdopted { address, end, taken });
        let last = end.saturating_sub(1);
        if [address, last]
            .iter()
            .any(|&address| Space::of(address).0 != Space::Global || heap::contains(address))
        {
            return refused("the windows of other state spaces".to_owned());
        }
        if let Some(region) = self.nearest(last).filter(|region| region.end() > address) {
            return refused(region.describe());
        }
        let host = std::ptr::with_exposed_provenance_mut(address as usize);
        self.insert(Region { base: address, size, host, bytes: None, name: None, read_only: false });
        Ok(())
    }

    /// Removes memory of the host.
    pub(crate) fn release(&mut self, address: u64) {
        if let Ok(index) = self.regions.binary_search_by_key(&address, |region| region.base) {
            self.regions.remove(index);
        }
    }

    /// Whether a range is inside one live allocation.
    pub(crate) fn is_inside(&self, address: u64, size: u64) -> bool {
        let region = self.nearest(address).filter(|region| region.is_live());
        region.is_some_and(|region| address.saturating_add(size) <= region.end())
    }

    /// Frees an allocation. Later accesses to it are reported as use after free.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let Ok(index) = self.regions.binary_search_by_key(&address, |region| region.base) else {
            return Err(MemoryError::NotAnAllocation { address });
        };
        let region = &mut self.regions[index];
        if !region.is_live() {
            return Err(MemoryError::FreedTwice { address });
        }
        region.free();
        self.used -= region.size;
        Ok(())
    }

    /// Allocates bytes of the heap during a launch; `None` if it has too few.
    pub(crate) fn allocate_in_heap(&self, size: u64, alignment: u64) -> Option<u64> {
        let base = self.heap.allocate(size, alignment)?;
        self.initialized.allocate(base, size);
        Some(base)
    }

    /// Frees a block of the heap. Later accesses to it are reported as use after free.
    pub(crate) fn free_in_heap(&self, address: u64) -> Result<(), HeapError> {
        self.heap.free(address)
    }

    /// Whether an address is of an allocation that was freed.
    pub(crate) fn is_freed(&self, address: u64) -> bool {
        if heap::contains(address) {
            let block = self.heap.nearest(address);
            return block.is_some_and(|block| !block.is_live() && address < block.base + block.size);
        }
        self.nearest(address).is_some_and(|region| !region.is_live() && address < region.end())
    }

    /// The region that contains an address, or the one before it, freed regions included.
    pub(crate) fn nearest(&self, address: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|region| region.base <= address);
        after.checked_sub(1).map(|index| &self.regions[index])
    }

    /// The host's pointer to `first..end`, if all of it is inside one live region that may be
    /// written (when `write`).
    #[inline(always)]
    pub(crate) fn locate(
        &self,
        cache: &mut RegionCache,
        first: u64,
        end: u64,
        write: bool,
    ) -> Option<*mut u8> {
        let region = match cache.find(first, end) {
            Some(region) => region,
            None => self.refill(cache, first, end)?,
        };
        if write && region.read_only {
            return None;
        }
        Some(region.host.wrapping_add((first - region.base) as usize))
    }

    #[cold]
    fn refill(&self, cache: &mut RegionCache, first: u64, end: u64) -> Option<CachedRegion> {
        if heap::contains(first) {
            // Not kept in the cache: another thread may free it.
            let host = self.heap.locate(first, end)?;
            return Some(CachedRegion { base: first, end, host, read_only: false });
        }
        let region = self.nearest(first)?;
        if !region.is_live() || end > region.end() || end < first {
            return None;
        }
        let entry = CachedRegion {
            base: region.base,
            end: region.end(),
            host: region.host,
            read_only: region.read_only,
        };
        cache.entries[cache.oldest] = entry;
        cache.oldest = (cache.oldest + 1) % cache.entries.len();
        Some(entry)
    }

    /// The allocation that an address is shortly before, and the bytes between them.
    fn before(&self, address: u64) -> Option<(u64, &Region)> {
        let index = self.regions.partition_point(|region| region.base <= address);
        let next = self.regions.get(index)?;
        let bytes = next.base - address;
        (bytes <= FAR && next.is_live()).then_some((bytes, next))
    }

    /// The same of an address that an unsigned 32-bit index below 0 has led to, with elements of 1 to 16
    /// bytes: it is as many times 4 GiB too high.
    fn wrapped(&self, address: u64) -> Option<(u64, &Region)> {
        (0..=4).find_map(|log| self.before(address.checked_sub(1 << (32 + log))?))
    }

    /// The note of a report for an address in no live allocation.
    pub(crate) fn describe(&self, address: u64) -> String {
        if heap::contains(address)
            && let Some(Block { base, size, .. }) = self.heap.nearest(address)
        {
            let state = if self.is_freed(address) { ", which was freed" } else { "" };
            let place = place(address, base, base + size);
            return format!("it is {place} the {size} bytes that `malloc` returned at {base:#x}{state}");
        }
        let past = self.nearest(address).map(|region| address.saturating_sub(region.end()));
        if let Some((bytes, region)) = self.before(address)
            && past.is_none_or(|past| bytes < past)
        {
            return format!("it is {bytes} bytes before {}: the index is negative", region.describe());
        }
        if let Some((bytes, region)) = self.wrapped(address)
            && past.is_none_or(|past| past > region.size.max(FAR))
        {
            return format!(
                "the index is negative: an unsigned index below 0 has wrapped to the other end of 32 bits, and it was to be \
                 {bytes} bytes before {}",
                region.describe()
            );
        }
        let Some(region) = self.nearest(address) else {
            return "it is below every allocation: the pointer is not one of the launch's, or the index is negative"
                .to_owned();
        };
        let place = place(address, region.base, region.end());
        let past = address.saturating_sub(region.end());
        if past > region.size.max(FAR) {
            return "it is far from every allocation: the index may be negative, or not initialized"
                .to_owned();
        }
        let state = if region.is_live() { "" } else { ", which was freed" };
        format!("it is {place} {}{state}", region.describe())
    }

    fn bytes(&self, address: u64, length: usize) -> Result<*mut u8, MemoryError> {
        let end = address.saturating_add(length as u64);
        self.locate(&mut RegionCache::default(), address, end, false)
            .ok_or_else(|| MemoryError::OutOfBounds { address, end, near: self.describe(address) })
    }

    /// Copies device bytes to the host.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let source = self.bytes(address, bytes.len())?;
        // SAFETY: `source` is inside a live region for the whole length, and `bytes` is the host's
        // own.
        unsafe { std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies host bytes to the device.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let target = self.bytes(address, bytes.len())?;
        // SAFETY: `target` is inside a live region for the whole length, and `bytes` is the host's
        // own.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        self.initialized.write(address, bytes.len() as u64);
        Ok(())
    }

    /// Sets `length` bytes to `value`.
    pub fn fill(&self, address: u64, value: u8, length: usize) -> Result<(), MemoryError> {
        if length == 0 {
            return Ok(());
        }
        let target = self.bytes(address, length)?;
        // SAFETY: `target` is inside a live region for the whole length.
        unsafe { target.write_bytes(value, length) };
        self.initialized.write(address, length as u64);
        Ok(())
    }

    /// Copies between device addresses; the ranges may overlap.
    pub fn copy(&self, source: u64, target: u64, length: usize) -> Result<(), MemoryError> {
        if length == 0 {
            return Ok(());
        }
        self.initialized.copy(source, target, length as u64);
        let (source, target) = (self.bytes(source, length)?, self.bytes(target, length)?);
        // SAFETY: both ranges are inside live regions; `copy` allows overlap.
        unsafe { std::ptr::copy(source, target, length) };
        Ok(())
    }
}

/// Where an address is, relative to the bytes from `base` to `end`.
fn place(address: u64, base: u64, end: u64) -> String {
    if address < end {
        match address - base {
            0 => "at the beginning of".to_owned(),
            bytes => format!("{bytes} bytes into"),
        }
    } else {
        match address - end {
            0 => "right past the end of".to_owned(),
            bytes => format!("{bytes} bytes past the end of"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    #[test]
    fn bytes_written_are_read_back_and_fresh_ones_are_poison() {
        let mut memory = Memory::new(1 << 20);
        let address = memory.allocate(100).unwrap();
        memory.write(address + 10, &[1, 2, 3]).unwrap();
        let mut read = [0; 5];
        memory.read(address + 9, &mut read).unwrap();
        assert_eq!(read, [POISON, 1, 2, 3, POISON]);
        assert_eq!(address % ALIGNMENT, 0);
    }

    #[test]
    fn ranges_outside_live_allocations_are_refused() {
        let mut memory = Memory::new(1 << 20);
        let first = memory.allocate(64).unwrap();
        let second = memory.allocate(64).unwrap();
        assert!(matches!(memory.read(first + 60, &mut [0; 5]), Err(MemoryError::OutOfBounds { .. })));
        assert!(matches!(memory.write(first + 64, &[0]), Err(MemoryError::OutOfBounds { .. })));
        memory.free(first).unwrap();
        let error = memory.read(first, &mut [0; 4]).unwrap_err();
        assert!(error.to_string().contains("freed"), "{error}");
        assert_eq!(memory.free(first), Err(MemoryError::FreedTwice { address: first }));
        assert_eq!(memory.free(second + 8), Err(MemoryError::NotAnAllocation { address: second + 8 }));
        let third = memory.allocate(64).unwrap();
        assert!(third > second, "addresses are never used twice");
    }

    #[test]
    fn addresses_before_an_allocation_are_of_negative_indices() {
        let mut memory = Memory::new(1 << 20);
        let first = memory.allocate(64).unwrap();
        let second = memory.allocate(64).unwrap();
        assert!(memory.describe(first - 4).starts_with("it is 4 bytes before the allocation"));
        assert!(memory.describe(second - 8).starts_with("it is 8 bytes before the allocation"));
        let wrapped = memory.describe(first - 4 + (1 << 34));
        assert!(wrapped.contains("has wrapped") && wrapped.contains("4 bytes before"), "{wrapped}");
        assert!(memory.describe(second + 64).contains("right past the end"));
    }

    #[test]
    fn capacity_is_kept() {
        let mut memory = Memory::new(1000);
        let address = memory.allocate(600).unwrap();
        assert!(matches!(memory.allocate(500), Err(MemoryError::OutOfMemory { free: 400, .. })));
        memory.free(address).unwrap();
        memory.allocate(500).unwrap();
    }

    #[test]
    fn memory_of_the_host_is_where_the_host_has_it() {
        static BYTES: [AtomicU8; 64] = [const { AtomicU8::new(7) }; 64];
        let address = BYTES.as_ptr().expose_provenance() as u64;
        let mut memory = Memory::new(1000);
        // SAFETY: the bytes are never freed, and no other test uses them.
        let adopt = |memory: &mut Memory, from, size| unsafe { memory.adopt(from, size) };
        adopt(&mut memory, address, 32).unwrap();
        memory.fill(address + 4, 9, 2).unwrap();
        assert_eq!([3, 4, 5, 6].map(|index: usize| BYTES[index].load(Ordering::Relaxed)), [7, 9, 9, 7]);
        assert!(memory.is_inside(address + 8, 24) && !memory.is_inside(address + 8, 25));
        assert!(matches!(memory.read(address + 30, &mut [0; 4]), Err(MemoryError::OutOfBounds { .. })));
        let overlap = adopt(&mut memory, address + 31, 2).unwrap_err().to_string();
        assert!(overlap.contains("the allocation of 32 bytes"), "{overlap}");
        let window = adopt(&mut memory, CONSTANT_WINDOW - 8, 16).unwrap_err().to_string();
        assert!(window.contains("other state spaces"), "{window}");
        memory.release(address);
        assert!(!memory.is_inside(address, 1) && memory.used() == 0);
        adopt(&mut memory, address + 31, 33).unwrap();
    }
}

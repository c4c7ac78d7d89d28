//! The seam of memory: addresses, and copies that wait for the device.

use std::alloc::{self, Layout};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_check::Elements;

use super::streams::Call;
use crate::error::{Error, Result};

/// Alignment of host memory that no driver allocates: enough for any element and any vector copy.
const HOST_ALIGN: usize = 256;

/// The memory of one device, and the host memory that it copies from and to.
pub(crate) trait Memory: Any + Send + Sync {
    /// Allocates device memory. One of 0 bytes has an address of its own, too.
    fn allocate(&self, bytes: usize) -> Result<u64>;
    /// Frees memory of [`allocate`](Self::allocate) or [`share`](Self::share).
    fn free(&self, address: u64);
    /// Allocates memory of this device that these others access, too; `None` if they cannot.
    fn share(&self, others: &[Arc<dyn Memory>], bytes: usize) -> Result<Option<u64>>;

    /// Makes memory of another owner accessible, until it is [released](Self::release) as often.
    ///
    /// # Safety
    /// `bytes` bytes at `address` are allocated: on this GPU, or on the emulator, which takes memory of the host, too.
    /// They stay so until they are released and all work that uses them is complete.
    unsafe fn adopt(&self, address: u64, bytes: usize) -> Result<()>;
    /// Ends one adoption of memory at this address.
    fn release(&self, _address: u64) {}

    /// Waits for all work on the device, then copies.
    fn upload(&self, address: u64, bytes: &[u8]) -> Result<()>;
    /// Waits for all work on the device, then sets bytes to zero.
    fn zero(&self, to: &Elements) -> Result<()>;
    /// Sets bytes to zero that no work has used.
    fn zero_new(&self, to: &Elements) -> Result<()> {
        self.zero(to)
    }
    /// Waits for all work on the device, then copies.
    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<()>;
    /// Returns an error if the host reads elements that nothing has written, and the device checks it.
    fn expect_written(&self, _read: &Elements, _call: Call) -> Result<()> {
        Ok(())
    }

    /// Allocates host memory for copies that do not wait.
    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>> {
        let out_of_memory = || Error::OutOfMemory { bytes: bytes as u64, device: "the host".to_owned() };
        let layout = host_layout(bytes).ok_or_else(out_of_memory)?;
        // SAFETY: the layout's size is not zero.
        NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(out_of_memory)
    }
    /// # Safety
    /// `pointer` is from `allocate_host(bytes)`, is freed once, and is no longer used by the host
    /// or the device.
    unsafe fn free_host(&self, pointer: NonNull<u8>, bytes: usize) {
        let layout = host_layout(bytes).expect("it was allocated with this layout");
        // SAFETY: the caller passes a pointer from `allocate_host(bytes)`, which used this layout.
        unsafe { alloc::dealloc(pointer.as_ptr(), layout) }
    }

    /// Encodes a valid tensor map.
    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]>;
}

fn host_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), HOST_ALIGN).ok()
}

/// The memories as those of one kind of device; `None` if one is of another.
pub(crate) fn of_one_kind<M: Memory>(memories: &[Arc<dyn Memory>]) -> Option<Vec<Arc<M>>> {
    memories.iter().map(|memory| (memory.clone() as Arc<dyn Any + Send + Sync>).downcast().ok()).collect()
}

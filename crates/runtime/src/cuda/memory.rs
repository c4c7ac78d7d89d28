//! The memory of a GPU.
//!
//! What other GPUs access is allocated by the driver's virtual memory management:
//! `cuCtxEnablePeerAccess` would map all memory. Here, only one allocation is mapped on its peers.

use std::ffi::c_int;
use std::panic::Location;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, PoisonError};

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_check::Elements;

use super::context::{Context, Mapping};
use super::driver::{self, Failure, MemoryAccess, MemoryProperties, status};
use super::tensor_map;
use crate::backend::{Memory, Streams, of_one_kind};
use crate::error::{Error, Result};

impl Memory for Context {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let driver = self.enter()?;
        let _relaxed = self.relaxed();
        let mut address = 0;
        // SAFETY: the out-pointer is valid for the call.
        match unsafe { driver.cuMemAlloc_v2(&mut address, bytes.max(1)) } {
            Err(Failure { code: status::OUT_OF_MEMORY, .. }) => {
                Err(Error::OutOfMemory { bytes: bytes as u64, device: self.properties.name.clone() })
            }
            other => self.check(other).map(|()| address),
        }
    }

    fn free(&self, address: u64) {
        if self.unshare(address) {
            return;
        }
        // After a fault the context has nothing left to free.
        let Ok(driver) = self.enter() else { return };
        let _no_capture = self.without_capture();
        // SAFETY: the address is from `allocate` and is freed once; the driver waits for work that
        // uses it.
        let _ = self.check(unsafe { driver.cuMemFree_v2(address) });
    }

    fn share(&self, others: &[Arc<dyn Memory>], bytes: usize) -> Result<Option<u64>> {
        of_one_kind(others).map_or(Ok(None), |others| self.share_with(&others, bytes))
    }

    unsafe fn adopt(&self, address: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let refused = |reason: String| {
            Err(Error::ForeignMemory { address, device: self.properties.name.clone(), reason })
        };
        let driver = self.enter()?;
        let mut ordinal: c_int = -1;
        // SAFETY: the attribute is an int, and the driver accepts every address.
        let known = unsafe {
            driver.cuPointerGetAttribute((&raw mut ordinal).cast(), driver::POINTER_ORDINAL, address)
        };
        match known {
            Err(Failure { code: status::INVALID_VALUE, .. }) => {
                refused("the driver does not know it; pass memory of the GPU that is not freed".to_owned())
            }
            other => match self.check(other).map(|()| u32::try_from(ordinal).ok())? {
                ordinal if ordinal == self.properties.ordinal => Ok(()),
                Some(other) => refused(format!("it is memory of cuda:{other}")),
                None => refused("it is memory of no GPU".to_owned()),
            },
        }
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.synchronize()?;
        let driver = self.enter()?;
        // SAFETY: the caller owns `bytes.len()` bytes at `address`; the call returns once the
        // host's bytes were read.
        self.check(unsafe { driver.cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()) })?;
        // Later work on other streams must see the copy, which may still be in flight from a
        // staging buffer.
        self.synchronize()
    }

    fn zero(&self, to: &Elements) -> Result<()> {
        self.synchronize()?;
        self.zero_new(to)
    }

    fn zero_new(&self, to: &Elements) -> Result<()> {
        let _relaxed = self.relaxed();
        let call = Location::caller();
        let stream = self.create_stream(call)?;
        let filled = self.fill(stream, to, 0, call).and_then(|()| self.synchronize_stream(stream));
        self.destroy_stream(stream);
        filled
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.synchronize()?;
        let driver = self.enter()?;
        // SAFETY: the caller owns `bytes.len()` bytes at `address`; the call returns once the
        // host's bytes were written.
        self.check(unsafe { driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, bytes.len()) })
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>> {
        let driver = self.enter()?;
        let mut pointer = null_mut();
        // SAFETY: the out-pointer is valid for the call.
        self.check(unsafe { driver.cuMemHostAlloc(&mut pointer, bytes, driver::HOST_PORTABLE) })?;
        NonNull::new(pointer.cast())
            .ok_or_else(|| Error::OutOfMemory { bytes: bytes as u64, device: "the host".to_owned() })
    }

    unsafe fn free_host(&self, pointer: NonNull<u8>, _bytes: usize) {
        let Ok(driver) = self.enter() else { return };
        // SAFETY: the caller passes a pointer from `allocate_host`, once, that is no longer used.
        let _ = self.check(unsafe { driver.cuMemFreeHost(pointer.as_ptr().cast()) });
    }

    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]> {
        let driver = self.enter()?;
        let (encoded, outcome) = tensor_map::encode(driver, map);
        self.check(outcome).map(|()| encoded)
    }
}

impl Context {
    /// Allocates memory that these other GPUs access, too; `None` if one cannot.
    fn share_with(&self, others: &[Arc<Self>], bytes: usize) -> Result<Option<u64>> {
        for other in others {
            if !(self.can_access(other)? && other.can_access(self)?) {
                return Ok(None);
            }
        }
        let driver = self.enter()?;
        let device = self.device;
        let properties = MemoryProperties::device(device);
        let mut granularity = 0;
        // SAFETY: the pointers are valid for the call; option 0 is the minimum.
        let asked = unsafe { driver.cuMemGetAllocationGranularity(&mut granularity, &properties, 0) };
        self.check(asked)?;
        let bytes = bytes.max(1).next_multiple_of(granularity.max(1));
        let mut memory = 0;
        // SAFETY: the pointers are valid for the call.
        match unsafe { driver.cuMemCreate(&mut memory, bytes, &properties, 0) } {
            Err(Failure { code: status::OUT_OF_MEMORY, .. }) => {
                let device = self.properties.name.clone();
                return Err(Error::OutOfMemory { bytes: bytes as u64, device });
            }
            other => self.check(other)?,
        }
        let address = self.map(memory, bytes).inspect_err(|_| {
            // SAFETY: the memory was created above and is mapped nowhere.
            let _ = unsafe { driver.cuMemRelease(memory) };
        })?;
        let peers = others.iter().map(|other| other.device);
        let access: Vec<_> = std::iter::once(device).chain(peers).map(MemoryAccess::by).collect();
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).insert(address, Mapping { memory, bytes });
        // SAFETY: the range was mapped above, and the descriptions live for the call.
        let allowed = unsafe { driver.cuMemSetAccess(address, bytes, access.as_ptr(), access.len()) };
        match self.check(allowed) {
            Ok(()) => Ok(Some(address)),
            Err(error) => {
                self.unshare(address);
                Err(error)
            }
        }
    }

    /// Frees shared memory. Returns whether the address is of such memory.
    fn unshare(&self, address: u64) -> bool {
        let mapping = self.shared.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
        let Some(Mapping { memory, bytes }) = mapping else { return false };
        // Unlike `cuMemFree`, unmapping does not wait for kernels. After a fault nothing is left to unmap.
        if self.synchronize().is_ok()
            && let Ok(driver) = self.enter()
        {
            // SAFETY: the range was mapped by `share`, and no kernel of this device uses it. The owner of the
            // buffers ends the peers' work before it drops them.
            let _ = unsafe { driver.cuMemUnmap(address, bytes) };
            // SAFETY: the range is not mapped any more.
            let _ = unsafe { driver.cuMemAddressFree(address, bytes) };
            // SAFETY: the memory is mapped nowhere, and is released once.
            let _ = unsafe { driver.cuMemRelease(memory) };
        }
        true
    }

    /// Maps memory at an address of its own.
    fn map(&self, memory: u64, bytes: usize) -> Result<u64> {
        let driver = self.enter()?;
        let mut address = 0;
        // SAFETY: the out-pointer is valid for the call; 0 leaves the alignment and the address to the driver.
        self.check(unsafe { driver.cuMemAddressReserve(&mut address, bytes, 0, 0, 0) })?;
        // SAFETY: the range was reserved above, and the memory has as many bytes.
        let mapped = self.check(unsafe { driver.cuMemMap(address, bytes, 0, memory, 0) });
        mapped.map(|()| address).inspect_err(|_| {
            // SAFETY: the range is reserved and not mapped.
            let _ = unsafe { driver.cuMemAddressFree(address, bytes) };
        })
    }

    fn can_access(&self, other: &Self) -> Result<bool> {
        let driver = self.enter()?;
        let mut access = 0;
        // SAFETY: the out-pointer is valid for the call, and both devices are the driver's.
        let asked = unsafe { driver.cuDeviceCanAccessPeer(&mut access, self.device, other.device) };
        self.check(asked)?;
        Ok(access != 0)
    }
}

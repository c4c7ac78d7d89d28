//! Memory of a GPU that other GPUs access, by the driver's virtual memory management.
//!
//! `cuCtxEnablePeerAccess` would map all memory. Here, only one allocation is mapped on its peers.

use std::sync::PoisonError;

use super::{Cuda, driver};
use crate::backend::Backend;
use crate::error::{Error, Result};

/// A mapped allocation.
pub(super) struct Mapping {
    memory: u64,
    bytes: usize,
}

impl Cuda {
    /// The number of the GPU.
    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Allocates memory that these other GPUs access, too; `None` if one cannot.
    pub(super) fn share_with(&self, others: &[&Self], bytes: usize) -> Result<Option<u64>> {
        for other in others {
            if !(self.can_access(other)? && other.can_access(self)?) {
                return Ok(None);
            }
        }
        let driver = self.context.enter()?;
        let device = self.context.device;
        let properties = driver::MemoryProperties::device(device);
        let mut granularity = 0;
        // SAFETY: the pointers are valid for the call; option 0 is the minimum.
        let asked = unsafe { driver.cuMemGetAllocationGranularity(&mut granularity, &properties, 0) };
        self.context.check(asked)?;
        let bytes = bytes.max(1).next_multiple_of(granularity.max(1));
        let mut memory = 0;
        // SAFETY: the pointers are valid for the call.
        match unsafe { driver.cuMemCreate(&mut memory, bytes, &properties, 0) } {
            Err(driver::Failure { code: driver::status::OUT_OF_MEMORY, .. }) => {
                let device = self.properties.name.clone();
                return Err(Error::OutOfMemory { bytes: bytes as u64, device });
            }
            other => self.context.check(other)?,
        }
        let address = self.map(memory, bytes).inspect_err(|_| {
            // SAFETY: the memory was created above and is mapped nowhere.
            let _ = unsafe { driver.cuMemRelease(memory) };
        })?;
        let access: Vec<_> = std::iter::once(&self)
            .chain(others)
            .map(|gpu| driver::MemoryAccess::by(gpu.context.device))
            .collect();
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).insert(address, Mapping { memory, bytes });
        // SAFETY: the range was mapped above, and the descriptions live for the call.
        let allowed = unsafe { driver.cuMemSetAccess(address, bytes, access.as_ptr(), access.len()) };
        match self.context.check(allowed) {
            Ok(()) => Ok(Some(address)),
            Err(error) => {
                self.unshare(address);
                Err(error)
            }
        }
    }

    /// Frees shared memory. Returns whether the address is of such memory.
    pub(super) fn unshare(&self, address: u64) -> bool {
        let mapping = self.shared.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
        let Some(Mapping { memory, bytes }) = mapping else { return false };
        // Unlike `cuMemFree`, unmapping does not wait for kernels. After a fault nothing is left to unmap.
        if self.synchronize().is_ok()
            && let Ok(driver) = self.context.enter()
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
        let driver = self.context.enter()?;
        let mut address = 0;
        // SAFETY: the out-pointer is valid for the call; 0 leaves the alignment and the address to the driver.
        self.context.check(unsafe { driver.cuMemAddressReserve(&mut address, bytes, 0, 0, 0) })?;
        // SAFETY: the range was reserved above, and the memory has as many bytes.
        let mapped = self.context.check(unsafe { driver.cuMemMap(address, bytes, 0, memory, 0) });
        mapped.map(|()| address).inspect_err(|_| {
            // SAFETY: the range is reserved and not mapped.
            let _ = unsafe { driver.cuMemAddressFree(address, bytes) };
        })
    }

    fn can_access(&self, other: &Self) -> Result<bool> {
        let driver = self.context.enter()?;
        let mut access = 0;
        // SAFETY: the out-pointer is valid for the call, and both devices are the driver's.
        let asked =
            unsafe { driver.cuDeviceCanAccessPeer(&mut access, self.context.device, other.context.device) };
        self.context.check(asked)?;
        Ok(access != 0)
    }
}

//! Several devices of one host that access each other's memory.
//!
//! Only memory that is allocated for it is mapped on the other devices. All other allocations stay
//! private: where a driver maps every allocation on every peer
//! (`cuCtxEnablePeerAccess`), an allocation may wait for kernels of the peers, and a kernel that waits
//! for another device then never ends.

use warpwright_arch::Arch;
use warpwright_emulator::Schedule;

use crate::allocation::Allocation;
use crate::buffer::{Buffer, Storable};
use crate::device::Device;
use crate::emulated;
use crate::error::{Error, Result};

impl Device {
    /// `count` devices of one host, for [`peer_buffers`](Self::peer_buffers): of `cuda:0` and 2, the
    /// first two GPUs; of `emu:h200`, as many emulated ones. `auto` is as in [`named`](Self::named).
    ///
    /// Kernels of two devices run at the same time if the host launches them from two threads. That
    /// holds for GPUs, where a launch may wait, and for emulated devices, where it always does.
    ///
    /// ```
    /// # use warpwright_runtime::Device;
    /// let devices = Device::peers("emu:h200", 2)?;
    /// let buffers = Device::peer_buffers::<f32>(&devices, 1024)?;
    /// // A kernel of the first device may read and write this address.
    /// let address = buffers[1].address();
    /// # assert_ne!(address, buffers[0].address());
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`named`](Self::named), for each device.
    pub fn peers(name: &str, count: u32) -> Result<Vec<Self>> {
        let first = Self::named(name)?;
        match first.properties().ordinal {
            Some(ordinal) => {
                let others = (1..count).map(|index| Self::cuda(ordinal + index));
                std::iter::once(Ok(first)).chain(others).collect()
            }
            None => {
                let gpu = first.name().strip_prefix("emu:").unwrap_or_default();
                Self::emulated_peers(Arch::named(gpu)?, Schedule::Eager, count)
            }
        }
    }

    /// Emulated GPUs of one host, as [`peers`](Self::peers).
    ///
    /// # Errors
    /// The emulator's threads cannot be started.
    pub fn emulated_peers(arch: &'static Arch, schedule: Schedule, count: u32) -> Result<Vec<Self>> {
        Ok(emulated::peers(arch, schedule, count as usize)?.into_iter().map(Self::of).collect())
    }

    /// A buffer of `length` elements on each device, filled with zero bytes. Kernels of all these
    /// devices may read and write all of them by [`address`](Buffer::address); accesses of two devices
    /// are ordered by `.sys` scope. As an argument, a buffer is one of its own device. Keep a buffer
    /// until all kernels that access it have ended, those of other devices included.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Error};
    /// let devices = [Device::named("emu:h200")?, Device::named("emu:h200")?];
    /// let refused = Device::peer_buffers::<f32>(&devices, 1024).expect_err("two hosts");
    /// assert!(refused.to_string().contains("cannot access each other's memory"));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// A device cannot access the memory of another one, or there is not enough memory.
    pub fn peer_buffers<T: Storable>(devices: &[Self], length: usize) -> Result<Vec<Buffer<T>>> {
        let names = || devices.iter().map(Self::name).collect::<Vec<_>>().join(", ");
        let refuse = || Error::NoPeerAccess { devices: names() };
        let bytes = length
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::OutOfMemory { bytes: u64::MAX, device: names() })?;
        let buffer = |(index, device): (usize, &Self)| {
            let others = devices.iter().enumerate().filter(|(other, _)| *other != index);
            let others: Vec<_> = others.map(|(_, other)| other.backend.memory.clone()).collect();
            let address = device.backend.memory.share(&others, bytes)?.ok_or_else(refuse)?;
            let mut buffer = Buffer::over(Allocation::at(&device.backend, address, bytes));
            buffer.upload_zeros()?;
            Ok(buffer)
        };
        devices.iter().enumerate().map(buffer).collect()
    }
}

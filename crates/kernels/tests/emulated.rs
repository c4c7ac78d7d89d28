//! Emulated GPUs for tests.

use warpwright::runtime::{Device, Error, Schedule};

/// An emulated H200 whose warps and asynchronous work are ordered so.
pub(crate) fn hopper(schedule: Schedule) -> Result<Device, Error> {
    Device::with_schedule("emu:h200", schedule)
}

/// The same of an RTX 5090.
pub(crate) fn geforce(schedule: Schedule) -> Result<Device, Error> {
    Device::with_schedule("emu:rtx5090", schedule)
}

/// The same of a B200.
pub(crate) fn blackwell(schedule: Schedule) -> Result<Device, Error> {
    Device::with_schedule("emu:b200", schedule)
}

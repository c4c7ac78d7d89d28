//! A GPU, accessed through the CUDA driver.

mod assemble;
mod context;
mod driver;
mod graph;
mod memory;
mod module;
pub(crate) mod nvml;
mod streams;
mod tensor_map;

use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;
use std::sync::Arc;

use warpwright_arch::{CAPABILITIES, Capability};

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::properties::DeviceProperties;
use context::{Context, start_error};
use driver::{DeviceHandle, Driver, Failure, device_attribute};

/// The number of GPUs that the driver reports.
pub(crate) fn count() -> Result<u32> {
    let driver = open_driver()?;
    let mut count = 0;
    // SAFETY: the out-pointer is valid for the call.
    unsafe { driver.cuDeviceGetCount(&mut count) }.map_err(|failure| start_error(driver, failure))?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// Opens a GPU and retains its primary context.
pub(crate) fn open(ordinal: u32) -> Result<Backend> {
    let count = count()?;
    if ordinal >= count {
        return Err(Error::NoSuchGpu { ordinal, count });
    }
    let driver = open_driver()?;
    let context = context(driver, ordinal, device(driver, ordinal)?)?;
    Ok(Backend::new(context.properties.clone(), Arc::new(context)))
}

/// The GPU whose primary context is current on this thread.
pub(crate) fn current() -> Result<Backend> {
    let driver = open_driver()?;
    let start = |failure| start_error(driver, failure);
    let refused = |reason: &str| Err(Error::CurrentContext { reason: reason.to_owned() });
    let (mut current, mut of_current) = (null_mut(), 0);
    // SAFETY: the out-pointer is valid for the call.
    unsafe { driver.cuCtxGetCurrent(&mut current) }.map_err(start)?;
    if current.is_null() {
        return refused("there is none; open the GPU by its name, or make a context current before");
    }
    // SAFETY: the out-pointer is valid for the call, and a context is current.
    unsafe { driver.cuCtxGetDevice(&mut of_current) }.map_err(start)?;
    let (mut flags, mut is_active) = (0, 0);
    // SAFETY: the out-pointers are valid for the call, and the device is the driver's.
    unsafe { driver.cuDevicePrimaryCtxGetState(of_current, &mut flags, &mut is_active) }.map_err(start)?;
    let mut ordinals =
        (0..count()?).filter(|ordinal| device(driver, *ordinal).is_ok_and(|it| it == of_current));
    if let Some(ordinal) = ordinals.next().filter(|_| is_active != 0) {
        let context = context(driver, ordinal, of_current)?;
        if context.is(current) {
            return Ok(Backend::new(context.properties.clone(), Arc::new(context)));
        }
    }
    refused(
        "it is not the primary context of its GPU; make that one current (`cuDevicePrimaryCtxRetain`, as CUDA's runtime does)",
    )
}

fn device(driver: &Driver, ordinal: u32) -> Result<DeviceHandle> {
    let mut device = 0;
    // SAFETY: the out-pointer is valid for the call, and the driver has the ordinal.
    let found = unsafe { driver.cuDeviceGet(&mut device, ordinal as c_int) };
    found.map(|()| device).map_err(|failure| start_error(driver, failure))
}

/// The primary context of a GPU, retained.
fn context(driver: &'static Driver, ordinal: u32, device: DeviceHandle) -> Result<Context> {
    let start = |failure| start_error(driver, failure);
    let (properties, (major, minor)) = properties(driver, ordinal, device).map_err(start)?;
    let properties = DeviceProperties {
        capability: nearest_capability(major, minor)
            .ok_or(Error::TooOld { product: properties.product.clone(), capability: (major, minor) })?,
        ..properties
    };
    Context::retain(driver, device, properties)
}

fn open_driver() -> Result<&'static Driver> {
    Driver::get().map_err(|reason| Error::NoDriver { reason: reason.to_owned() })
}

/// The driver's description of a device, and its compute capability. The caller fills in the
/// limits.
fn properties(
    driver: &Driver,
    ordinal: u32,
    device: DeviceHandle,
) -> std::result::Result<(DeviceProperties, (u32, u32)), Failure> {
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: the out-pointer is valid for the call, and the device is the driver's.
        unsafe { driver.cuDeviceGetAttribute(&mut value, which, device) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let mut name = [0; 256];
    // SAFETY: the buffer has the length passed.
    unsafe { driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device) }?;
    // SAFETY: the driver ends the name with a zero inside the buffer.
    let product = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let mut global_bytes = 0;
    // SAFETY: the out-pointer is valid for the call.
    unsafe { driver.cuDeviceTotalMem_v2(&mut global_bytes, device) }?;
    let mut version = 0;
    // SAFETY: the out-pointer is valid for the call.
    unsafe { driver.cuDriverGetVersion(&mut version) }?;
    let mut bus_id: [c_char; 32] = [0; 32];
    // SAFETY: the buffer has the length passed.
    let known = unsafe { driver.cuDeviceGetPCIBusId(bus_id.as_mut_ptr(), bus_id.len() as c_int, device) };
    // SAFETY: the driver ends the text with a zero inside the buffer, which has one anyway.
    let bus_id = unsafe { CStr::from_ptr(bus_id.as_ptr()) }.to_string_lossy().into_owned();
    let (major, minor) = (attribute(device_attribute::MAJOR)?, attribute(device_attribute::MINOR)?);
    let version = u32::try_from(version).unwrap_or(0);
    let memory_hertz = f64::from(attribute(device_attribute::MEMORY_CLOCK_KHZ)?) * 1e3;
    let bus_bytes = f64::from(attribute(device_attribute::MEMORY_BUS_BITS)?) / 8.0;
    let properties = DeviceProperties {
        name: format!("cuda:{ordinal}"),
        product,
        is_emulated: false,
        capability: &CAPABILITIES[0],
        target: target(major, minor),
        sm_count: attribute(device_attribute::SM_COUNT)?,
        global_bytes: global_bytes as u64,
        l2_bytes: u64::from(attribute(device_attribute::L2_BYTES)?),
        boost_mhz: attribute(device_attribute::CLOCK_KHZ)? / 1000,
        // The memory transfers data on both clock edges.
        bytes_per_second: 2.0 * memory_hertz * bus_bytes,
        driver: Some((version / 1000, version % 1000 / 10)),
        ordinal: Some(ordinal),
        pci_bus_id: known.is_ok().then_some(bus_id),
    };
    Ok((properties, (major, minor)))
}

/// The `.target` of a compute capability, with architecture-specific instructions from 9.0 on.
fn target(major: u32, minor: u32) -> String {
    let suffix = if major >= 9 { "a" } else { "" };
    format!("sm_{major}{minor}{suffix}")
}

/// The table row of a capability, or of the nearest earlier one if the table lacks it.
fn nearest_capability(major: u32, minor: u32) -> Option<&'static Capability> {
    CAPABILITIES.iter().rev().find(|row| row.compute_capability <= (major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_past_the_table_keep_the_nearest_limits_and_their_own_target() {
        let row = |major, minor| nearest_capability(major, minor).map(|row| row.compute_capability);
        assert_eq!(row(9, 0), Some((9, 0)));
        assert_eq!(row(8, 7), Some((8, 6)));
        assert_eq!(row(10, 3), Some((10, 3)));
        assert_eq!(row(11, 0), Some((10, 3)));
        assert_eq!(row(13, 0), Some((12, 0)));
        assert_eq!(row(7, 5), None);
        assert_eq!(target(8, 6), "sm_86");
        assert_eq!(target(10, 3), "sm_103a");
    }
}

//! Devices and their attributes.

use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

use super::guard;
use crate::attribute::attribute;
use crate::context::Context;
use crate::edge::{In, Out, Text, functions};
use crate::machine::{Machine, machine};
use crate::space;
use crate::status::{Result, Status};

/// The device of an ordinal: there is one, 0.
fn device(ordinal: c_int) -> Result<&'static Machine> {
    let machine = machine()?;
    if ordinal == 0 { Ok(machine) } else { Err(Status::INVALID_DEVICE) }
}

/// The PCI address that the device is taken to have.
pub(crate) const BUS_ID: &str = "0000:01:01.0";

/// The identity of the device, which its name makes.
pub(crate) fn identity(machine: &Machine) -> [u8; 16] {
    let mut bytes = *b"warpwright......";
    for (byte, of_name) in bytes[10..].iter_mut().zip(machine.arch.name.bytes()) {
        *byte = of_name;
    }
    bytes
}

functions! { guard; TABLE:
    2000 cuDeviceGet: (out: Out<c_int>, ordinal: c_int) {
        device(ordinal)?;
        out.set(ordinal)
    }
    2000 cuDeviceGetCount: (count: Out<c_int>) {
        machine()?;
        count.set(1)
    }
    2000 cuDeviceGetName: (name: Out<c_char>, room: c_int, ordinal: c_int) {
        name.set_text(device(ordinal)?.arch.product, room.max(0) as usize)
    }
    9020 cuDeviceGetUuid: (uuid: Out<[u8; 16]>, ordinal: c_int) {
        uuid.set(identity(device(ordinal)?))
    }
    11040 cuDeviceGetUuid_v2: (uuid: Out<[u8; 16]>, ordinal: c_int) {
        uuid.set(identity(device(ordinal)?))
    }
    3020 cuDeviceTotalMem_v2: (bytes: Out<usize>, ordinal: c_int) {
        bytes.set(device(ordinal)?.arch.global_bytes as usize)
    }
    2000 cuDeviceGetAttribute: (value: Out<c_int>, number: c_int, ordinal: c_int) {
        value.check()?;
        value.set(attribute(device(ordinal)?.arch, number)?)
    }
    2000 cuDeviceComputeCapability: (major: Out<c_int>, minor: Out<c_int>, ordinal: c_int) {
        let (of_major, of_minor) = device(ordinal)?.arch.capability.compute_capability;
        major.set(of_major as c_int)?;
        minor.set(of_minor as c_int)
    }
    4010 cuDeviceGetByPCIBusId: (out: Out<c_int>, id: Text) {
        machine()?;
        let id = id.text()?;
        if !BUS_ID.eq_ignore_ascii_case(&id) && !BUS_ID[5..].eq_ignore_ascii_case(&id) {
            return Err(Status::INVALID_DEVICE);
        }
        out.set(0)
    }
    4010 cuDeviceGetPCIBusId: (id: Out<c_char>, room: c_int, ordinal: c_int) {
        device(ordinal)?;
        id.set_text(BUS_ID, room.max(0) as usize)
    }
    4000 cuDeviceCanAccessPeer: (can: Out<c_int>, ordinal: c_int, peer: c_int) {
        device(ordinal)?;
        device(peer)?;
        can.set(0)
    }
    8000 cuDeviceGetP2PAttribute: (_value: Out<c_int>, _number: c_int, ordinal: c_int, peer: c_int) {
        device(ordinal)?;
        device(peer)?;
        Err(Status::INVALID_DEVICE)
    }
    11040 cuDeviceGetExecAffinitySupport: (supports: Out<c_int>, _affinity: c_int, ordinal: c_int) {
        device(ordinal)?;
        supports.set(0)
    }
    7000 cuDevicePrimaryCtxRetain: (context: Out<usize>, ordinal: c_int) {
        device(ordinal)?;
        context.check()?;
        let primary = Context::primary();
        primary.retained.fetch_add(1, Ordering::AcqRel);
        context.set(primary.number)
    }
    11000 cuDevicePrimaryCtxRelease_v2: (ordinal: c_int) {
        device(ordinal)?;
        let retained = &Context::primary().retained;
        let released = retained.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
        released.map(|_| ()).map_err(|_| Status::INVALID_CONTEXT)
    }
    11000 cuDevicePrimaryCtxSetFlags_v2: (ordinal: c_int, flags: u32) {
        device(ordinal)?;
        if flags & !0x1ff != 0 { return Err(Status::INVALID_VALUE) }
        Context::primary().flags.store(flags, Ordering::Relaxed);
        Ok(())
    }
    7000 cuDevicePrimaryCtxGetState: (ordinal: c_int, flags: Out<u32>, active: Out<c_int>) {
        device(ordinal)?;
        let (primary, order) = (Context::primary(), Ordering::Relaxed);
        flags.set(primary.flags.load(order))?;
        active.set(c_int::from(primary.retained.load(order) > 0))
    }
    11000 cuDevicePrimaryCtxReset_v2: (ordinal: c_int) {
        device(ordinal)?;
        Context::primary().reset();
        Ok(())
    }
    3020 cuMemGetInfo_v2: (free: Out<usize>, total: Out<usize>) {
        let bytes = machine()?.arch.global_bytes;
        free.set(bytes.saturating_sub(space::used()) as usize)?;
        total.set(bytes as usize)
    }
    2000 cuDeviceGetProperties: (properties: Out<[c_int; 13]>, ordinal: c_int) {
        let c = device(ordinal)?.arch.capability;
        let [x, y, z] = c.cta_extents;
        let [grid_x, grid_y, grid_z] = c.grid_extents;
        let rest = [c.shared_bytes_per_cta, c.constant_bytes, c.warp_size, i32::MAX as u32, c.registers_per_cta];
        let clock = device(ordinal)?.arch.boost_mhz * 1000;
        let first = [c.threads_per_cta, x, y, z, grid_x, grid_y, grid_z];
        let mut all = first.into_iter().chain(rest).chain([clock]).map(|value| value as c_int);
        properties.set(std::array::from_fn(|_| all.next().unwrap_or(0)))
    }
    12080 cuDeviceGetHostAtomicCapabilities: (out: Out<u32>, operations: In<u32>, count: u32, ordinal: c_int) {
        device(ordinal)?;
        for index in 0..count as usize {
            operations.at(index).get()?;
            out.at(index).set(0)?;
        }
        Ok(())
    }
}

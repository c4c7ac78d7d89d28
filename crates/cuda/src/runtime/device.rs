//! The device, its limits and properties, and the addresses of the driver's functions.

use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

use super::properties;
use crate::context::Context;
use crate::driver::{context as contexts, device as driver, entry};
use crate::edge::{In, Out, Text, functions};
use crate::machine::{CUDA_VERSION, machine};
use crate::status::{Result, Status};

/// The one device.
fn expect(device: c_int) -> Result<()> {
    if device == 0 { Ok(()) } else { Err(Status::INVALID_DEVICE) }
}

fn entry_point(symbol: Text, to: Out<usize>, version: c_int, flags: u64, status: Out<c_int>) -> Result<()> {
    to.check()?;
    let found = entry::find(&symbol.text()?, version.max(0) as u32, flags & 2 != 0);
    let (address, code) = match found {
        entry::Found::Entry(address) => (address, 0),
        entry::Found::Nothing => (0, 1),
        entry::Found::VersionTooLow => (0, 2),
    };
    to.set(address)?;
    status.set_if_wanted(code);
    Ok(())
}

functions! { super::guard; TABLE:
    2000 cudaGetDeviceCount: (count: Out<c_int>) { count.set(1) }
    2000 cudaGetDevice: (device: Out<c_int>) { device.set(0) }
    2000 cudaSetDevice: (device: c_int) {
        expect(device)?;
        crate::context::set_current(Some(Context::primary()));
        Ok(())
    }
    12000 cudaInitDevice: (device: c_int, _device_flags: u32, _flags: u32) { expect(device) }
    2000 cudaSetDeviceFlags: (flags: u32) {
        if flags & !0x1ff != 0 { return Err(Status::INVALID_VALUE) }
        Context::primary().flags.store(flags, Ordering::Relaxed);
        Ok(())
    }
    7000 cudaGetDeviceFlags: (flags: Out<u32>) {
        // Mapped host memory is always possible.
        flags.set(Context::primary().flags.load(Ordering::Relaxed) | 8)
    }
    2000 cudaChooseDevice: (device: Out<c_int>, properties: In<u8>) {
        properties.get()?;
        device.set(0)
    }
    2030 cudaSetValidDevices: (_devices: In<c_int>, _count: c_int) { Ok(()) }
    5000 cudaDeviceGetAttribute: (value: Out<c_int>, attribute: c_int, device: c_int) {
        driver::cuDeviceGetAttribute(value, attribute, device).ok()
    }
    12000 cudaGetDeviceProperties_v2: (to: Out<u8>, device: c_int) {
        expect(device)?;
        properties::write(to, 12)
    }
    2000 cudaGetDeviceProperties: (to: Out<u8>, device: c_int) {
        expect(device)?;
        properties::write(to, 13)
    }
    4010 cudaDeviceGetByPCIBusId: (device: Out<c_int>, id: Text) { driver::cuDeviceGetByPCIBusId(device, id).ok() }
    4010 cudaDeviceGetPCIBusId: (id: Out<c_char>, room: c_int, device: c_int) {
        driver::cuDeviceGetPCIBusId(id, room, device).ok()
    }
    4000 cudaDeviceCanAccessPeer: (can: Out<c_int>, device: c_int, peer: c_int) {
        driver::cuDeviceCanAccessPeer(can, device, peer).ok()
    }
    4000 cudaDeviceEnablePeerAccess: (peer: c_int, flags: u32) {
        expect(peer)?;
        if flags != 0 { return Err(Status::INVALID_VALUE) }
        Err(Status::INVALID_DEVICE)
    }
    4000 cudaDeviceDisablePeerAccess: (peer: c_int) {
        expect(peer)?;
        Err(Status::PEER_ACCESS_NOT_ENABLED)
    }
    8000 cudaDeviceGetP2PAttribute: (value: Out<c_int>, attribute: c_int, device: c_int, peer: c_int) {
        driver::cuDeviceGetP2PAttribute(value, attribute, device, peer).ok()
    }
    3010 cudaDeviceSetLimit: (limit: c_int, value: usize) { contexts::cuCtxSetLimit(limit, value).ok() }
    3010 cudaDeviceGetLimit: (value: Out<usize>, limit: c_int) { contexts::cuCtxGetLimit(value, limit).ok() }
    3000 cudaDeviceSetCacheConfig: (config: c_int) { contexts::cuCtxSetCacheConfig(config).ok() }
    3000 cudaDeviceGetCacheConfig: (config: Out<c_int>) { contexts::cuCtxGetCacheConfig(config).ok() }
    4020 cudaDeviceSetSharedMemConfig: (config: c_int) { contexts::cuCtxSetSharedMemConfig(config).ok() }
    4020 cudaDeviceGetSharedMemConfig: (config: Out<c_int>) { contexts::cuCtxGetSharedMemConfig(config).ok() }
    4000 cudaProfilerStart: () { machine().map(|_| ()) }
    4000 cudaProfilerStop: () { machine().map(|_| ()) }
    11030 cudaGetDriverEntryPoint | cudaGetDriverEntryPoint_ptsz: (
        symbol: Text, to: Out<usize>, flags: u64, status: Out<c_int>,
    ) {
        entry_point(symbol, to, CUDA_VERSION as c_int, flags, status)
    }
    12050 cudaGetDriverEntryPointByVersion | cudaGetDriverEntryPointByVersion_ptsz: (
        symbol: Text, to: Out<usize>, version: u32, flags: u64, status: Out<c_int>,
    ) {
        entry_point(symbol, to, version as c_int, flags, status)
    }
    3000 cudaGetExportTable: (table: Out<usize>, id: In<[u8; 16]>) {
        crate::driver::entry::cuGetExportTable(table, id).ok()
    }
}

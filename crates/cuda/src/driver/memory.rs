//! Memory: allocations, copies, fills and what a pointer is.

use std::ffi::c_int;

use super::guard;
use super::structures::{Copy2D, Copy3D};
use crate::context::{Context, current};
use crate::edge::{In, Out, functions};
use crate::enqueue;
use crate::handles::Handle;
use crate::pointer;
use crate::pool;
use crate::space::{self, Kind};
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::transfer::{Expected, Shape, Side};
use crate::work::Work;

/// A copy without gaps.
fn plain(
    (to, to_is): (u64, Expected),
    (from, from_is): (u64, Expected),
    bytes: usize,
    stream: Handle<Stream>,
    waits: bool,
) -> Result<()> {
    let stream = Stream::of(stream)?;
    enqueue::copy(&stream, (Side::plain(to), to_is), (Side::plain(from), from_is), Shape::plain(bytes), waits)
}

/// A fill of rows.
fn fill<const N: usize>(
    (start, pitch): (u64, usize),
    element: [u8; N],
    (width, height): (usize, usize),
    stream: Handle<Stream>,
    waits: bool,
) -> Result<()> {
    let side = Side { start, pitch: pitch as u64, slice: 0 };
    enqueue::fill(&*Stream::of(stream)?, side, (width as u64, height as u64), &element, waits)
}

/// The default stream of the call.
fn default() -> Handle<Stream> {
    Handle::new(0)
}

use Expected::{Any, Device, Host};

functions! { guard; TABLE:
    3020 cuMemAlloc_v2: (address: Out<u64>, bytes: usize) {
        address.check()?;
        address.set(space::allocate(bytes, 0, current()?.number)?)
    }
    3020 cuMemAllocPitch_v2: (address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) {
        address.check()?;
        pitch.check()?;
        if !matches!(element, 4 | 8 | 16) { return Err(Status::INVALID_VALUE) }
        let row = width.checked_next_multiple_of(512).ok_or(Status::INVALID_VALUE)?;
        let bytes = row.checked_mul(height).ok_or(Status::INVALID_VALUE)?;
        address.set(space::allocate(bytes, 0, current()?.number)?)?;
        pitch.set(row)
    }
    3020 cuMemFree_v2: (address: u64) {
        current()?;
        if address == 0 { return Ok(()) }
        Context::synchronize_device();
        space::free(address)
    }
    3020 cuMemGetAddressRange_v2: (base: Out<u64>, size: Out<usize>, address: u64) {
        current()?;
        let region = space::find(address).ok_or(Status::NOT_FOUND)?;
        base.set_if_wanted(region.start);
        size.set_if_wanted(region.bytes as usize);
        Ok(())
    }
    3020 cuMemAllocHost_v2: (pointer: Out<u64>, bytes: usize) {
        pointer.check()?;
        pointer.set(space::allocate_host(bytes, Kind::Host { flags: 0 }, current()?.number)?)
    }
    2020 cuMemHostAlloc: (pointer: Out<u64>, bytes: usize, flags: u32) {
        pointer.check()?;
        if flags & !7 != 0 { return Err(Status::INVALID_VALUE) }
        pointer.set(space::allocate_host(bytes, Kind::Host { flags }, current()?.number)?)
    }
    2000 cuMemFreeHost: (pointer: u64) {
        current()?;
        if pointer == 0 { return Ok(()) }
        Context::synchronize_device();
        space::free_host(pointer)
    }
    3020 cuMemHostGetDevicePointer_v2: (address: Out<u64>, pointer: u64, flags: u32) {
        current()?;
        if flags != 0 { return Err(Status::INVALID_VALUE) }
        let region = space::find(pointer).filter(space::Region::is_of_host);
        region.ok_or(Status::INVALID_VALUE)?;
        address.set(pointer)
    }
    2030 cuMemHostGetFlags: (flags: Out<u32>, pointer: u64) {
        current()?;
        match space::find(pointer).map(|region| region.kind) {
            // Mapped, always: addresses are unified.
            Some(Kind::Host { flags: of_host } | Kind::Registered { flags: of_host }) => flags.set(of_host | 2),
            _ => Err(Status::INVALID_VALUE),
        }
    }
    6050 cuMemHostRegister_v2: (pointer: u64, bytes: usize, flags: u32) {
        if flags & !15 != 0 { return Err(Status::INVALID_VALUE) }
        space::register(pointer, bytes, flags, current()?.number)
    }
    4000 cuMemHostUnregister: (pointer: u64) {
        current()?;
        Context::synchronize_device();
        space::unregister(pointer)
    }
    6000 cuMemAllocManaged: (address: Out<u64>, bytes: usize, flags: u32) {
        address.check()?;
        if !matches!(flags, 1 | 2 | 4) { return Err(Status::INVALID_VALUE) }
        address.set(space::allocate_host(bytes, Kind::Managed, current()?.number)?)
    }
    4000 cuMemcpy | cuMemcpy_ptds: (to: u64, from: u64, bytes: usize) {
        plain((to, Any), (from, Any), bytes, default(), true)
    }
    4000 cuMemcpyAsync | cuMemcpyAsync_ptsz: (to: u64, from: u64, bytes: usize, stream: Handle<Stream>) {
        plain((to, Any), (from, Any), bytes, stream, false)
    }
    4000 cuMemcpyPeer | cuMemcpyPeer_ptds: (to: u64, _to_in: usize, from: u64, _from_in: usize, bytes: usize) {
        plain((to, Device), (from, Device), bytes, default(), true)
    }
    4000 cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz: (
        to: u64, _to_in: usize, from: u64, _from_in: usize, bytes: usize, stream: Handle<Stream>
    ) {
        plain((to, Device), (from, Device), bytes, stream, false)
    }
    3020 cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds: (to: u64, from: u64, bytes: usize) {
        plain((to, Device), (from, Host), bytes, default(), true)
    }
    3020 cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz: (
        to: u64, from: u64, bytes: usize, stream: Handle<Stream>
    ) {
        plain((to, Device), (from, Host), bytes, stream, false)
    }
    3020 cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds: (to: u64, from: u64, bytes: usize) {
        plain((to, Host), (from, Device), bytes, default(), true)
    }
    3020 cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz: (
        to: u64, from: u64, bytes: usize, stream: Handle<Stream>
    ) {
        plain((to, Host), (from, Device), bytes, stream, false)
    }
    3020 cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds: (to: u64, from: u64, bytes: usize) {
        plain((to, Device), (from, Device), bytes, default(), false)
    }
    3020 cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz: (
        to: u64, from: u64, bytes: usize, stream: Handle<Stream>
    ) {
        plain((to, Device), (from, Device), bytes, stream, false)
    }
    3020 cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds: (copy: In<Copy2D>) {
        copy.get()?.add(&*Stream::of(default())?, true)
    }
    3020 cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds: (copy: In<Copy2D>) {
        copy.get()?.add(&*Stream::of(default())?, true)
    }
    3020 cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz: (copy: In<Copy2D>, stream: Handle<Stream>) {
        copy.get()?.add(&*Stream::of(stream)?, false)
    }
    3020 cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds: (copy: In<Copy3D>) {
        copy.get()?.add(&*Stream::of(default())?, true)
    }
    3020 cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz: (copy: In<Copy3D>, stream: Handle<Stream>) {
        copy.get()?.add(&*Stream::of(stream)?, false)
    }
    3020 cuMemsetD8_v2 | cuMemsetD8_v2_ptds: (to: u64, value: u8, count: usize) {
        fill((to, 0), [value], (count, 1), default(), true)
    }
    3020 cuMemsetD16_v2 | cuMemsetD16_v2_ptds: (to: u64, value: u16, count: usize) {
        fill((to, 0), value.to_le_bytes(), (count, 1), default(), true)
    }
    3020 cuMemsetD32_v2 | cuMemsetD32_v2_ptds: (to: u64, value: u32, count: usize) {
        fill((to, 0), value.to_le_bytes(), (count, 1), default(), true)
    }
    3020 cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds: (to: u64, pitch: usize, value: u8, width: usize, height: usize) {
        fill((to, pitch), [value], (width, height), default(), true)
    }
    3020 cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds: (to: u64, pitch: usize, value: u16, width: usize, height: usize) {
        fill((to, pitch), value.to_le_bytes(), (width, height), default(), true)
    }
    3020 cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds: (to: u64, pitch: usize, value: u32, width: usize, height: usize) {
        fill((to, pitch), value.to_le_bytes(), (width, height), default(), true)
    }
    3020 cuMemsetD8Async | cuMemsetD8Async_ptsz: (to: u64, value: u8, count: usize, stream: Handle<Stream>) {
        fill((to, 0), [value], (count, 1), stream, false)
    }
    3020 cuMemsetD16Async | cuMemsetD16Async_ptsz: (to: u64, value: u16, count: usize, stream: Handle<Stream>) {
        fill((to, 0), value.to_le_bytes(), (count, 1), stream, false)
    }
    3020 cuMemsetD32Async | cuMemsetD32Async_ptsz: (to: u64, value: u32, count: usize, stream: Handle<Stream>) {
        fill((to, 0), value.to_le_bytes(), (count, 1), stream, false)
    }
    3020 cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz: (
        to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle<Stream>
    ) {
        fill((to, pitch), [value], (width, height), stream, false)
    }
    3020 cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz: (
        to: u64, pitch: usize, value: u16, width: usize, height: usize, stream: Handle<Stream>
    ) {
        fill((to, pitch), value.to_le_bytes(), (width, height), stream, false)
    }
    3020 cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz: (
        to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: Handle<Stream>
    ) {
        fill((to, pitch), value.to_le_bytes(), (width, height), stream, false)
    }
    4000 cuPointerGetAttribute: (value: Out<u8>, attribute: c_int, address: u64) {
        crate::context::current_or_none()?;
        pointer::attribute(value, attribute, address)
    }
    7000 cuPointerGetAttributes: (count: u32, attributes: In<c_int>, values: In<Out<u8>>, address: u64) {
        crate::context::current_or_none()?;
        for index in 0..count as usize {
            let (attribute, value) = (attributes.at(index).get()?, values.at(index).get()?);
            pointer::attribute_or_zero(value, attribute, address)?;
        }
        Ok(())
    }
    6000 cuPointerSetAttribute: (value: In<u32>, attribute: c_int, address: u64) {
        current()?;
        value.get()?;
        space::find(address).ok_or(Status::INVALID_VALUE)?;
        // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is the one that a program sets.
        if attribute == 6 { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
    8000 cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz: (address: u64, bytes: usize, _to: c_int, stream: Handle<Stream>) {
        Stream::of(stream)?;
        space::containing(address, bytes as u64).map(|_| ())
    }
    12020 cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz: (
        address: u64, bytes: usize, _to: u64, flags: u32, stream: Handle<Stream>
    ) {
        Stream::of(stream)?;
        if flags != 0 { return Err(Status::INVALID_VALUE) }
        space::containing(address, bytes as u64).map(|_| ())
    }
    8000 cuMemAdvise: (address: u64, bytes: usize, _advice: c_int, _device: c_int) {
        current()?;
        space::containing(address, bytes as u64).map(|_| ())
    }
    12020 cuMemAdvise_v2: (address: u64, bytes: usize, _advice: c_int, _to: u64) {
        current()?;
        space::containing(address, bytes as u64).map(|_| ())
    }
    11020 cuMemAllocAsync | cuMemAllocAsync_ptsz: (address: Out<u64>, bytes: usize, stream: Handle<Stream>) {
        address.check()?;
        let stream = Stream::of(stream)?;
        address.set(space::allocate(bytes, pool::default()?.number, stream.context.number)?)
    }
    11020 cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz: (
        address: Out<u64>, bytes: usize, pool: Handle<pool::Pool>, stream: Handle<Stream>
    ) {
        address.check()?;
        let (stream, pool) = (Stream::of(stream)?, pool::POOLS.get(pool)?);
        address.set(space::allocate(bytes, pool.number, stream.context.number)?)
    }
    11020 cuMemFreeAsync | cuMemFreeAsync_ptsz: (address: u64, stream: Handle<Stream>) {
        let stream = Stream::of(stream)?;
        if address == 0 { return Ok(()) }
        let region = space::find(address).filter(|region| region.start == address);
        if !matches!(region.map(|region| region.kind), Some(Kind::Device { .. })) {
            return Err(Status::INVALID_VALUE);
        }
        stream.enqueue(Work::Free(address))
    }
    11020 cuDeviceGetDefaultMemPool: (pool: Out<usize>, device: c_int) {
        if device != 0 { return Err(Status::INVALID_DEVICE) }
        pool.set(pool::default()?.number)
    }
    11020 cuDeviceGetMemPool: (pool: Out<usize>, device: c_int) {
        if device != 0 { return Err(Status::INVALID_DEVICE) }
        pool.set(pool::default()?.number)
    }
    11020 cuDeviceSetMemPool: (device: c_int, pool: Handle<pool::Pool>) {
        if device != 0 { return Err(Status::INVALID_DEVICE) }
        pool::POOLS.get(pool).map(|_| ())
    }
    11020 cuMemPoolCreate: (pool: Out<usize>, properties: In<[u8; 88]>) {
        pool.check()?;
        properties.get()?;
        pool.set(pool::create()?.number)
    }
    11020 cuMemPoolDestroy: (pool: Handle<pool::Pool>) {
        if pool.0 == pool::default()?.number { return Err(Status::INVALID_VALUE) }
        pool::POOLS.remove(pool).map(|_| ())
    }
    11020 cuMemPoolTrimTo: (pool: Handle<pool::Pool>, _keep: usize) {
        pool::POOLS.get(pool).map(|_| ())
    }
    11020 cuMemPoolSetAttribute: (pool: Handle<pool::Pool>, attribute: c_int, value: In<u8>) {
        pool::POOLS.get(pool)?.set(attribute, value)
    }
    11020 cuMemPoolGetAttribute: (pool: Handle<pool::Pool>, attribute: c_int, value: Out<u8>) {
        pool::POOLS.get(pool)?.get(attribute, value)
    }
    11020 cuMemPoolSetAccess: (pool: Handle<pool::Pool>, _access: In<u8>, _count: usize) {
        pool::POOLS.get(pool).map(|_| ())
    }
    11020 cuMemPoolGetAccess: (access: Out<c_int>, pool: Handle<pool::Pool>, _location: In<u64>) {
        pool::POOLS.get(pool)?;
        access.set(3)
    }
}

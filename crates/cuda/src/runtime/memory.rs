//! Memory.

use std::ffi::c_int;

use super::context;
use crate::driver::memory as driver;
use crate::edge::{In, Out, functions};
use crate::enqueue;
use crate::handles::Handle;
use crate::pool::{self, Pool};
use crate::report;
use crate::space::{self, Kind};
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::transfer::{self, Expected, Shape, Side};
use crate::work::Work;

/// What a direction, `cudaMemcpyKind`, says of the target and of the source.
pub(super) fn sides(direction: c_int) -> Result<(Expected, Expected)> {
    match direction {
        0 => Ok((Expected::Host, Expected::Host)),
        1 => Ok((Expected::Device, Expected::Host)),
        2 => Ok((Expected::Host, Expected::Device)),
        3 => Ok((Expected::Device, Expected::Device)),
        4 => Ok((Expected::Any, Expected::Any)),
        _ => Err(Status::INVALID_MEMCPY_DIRECTION),
    }
}

/// Adds a copy of rows. A copy between two places of the device does not make the host wait.
pub(super) fn copy(
    (to, from): (Side, Side),
    shape: Shape,
    direction: c_int,
    stream: Handle<Stream>,
    waits: bool,
) -> Result<()> {
    let (to_is, from_is) = sides(direction)?;
    enqueue::copy(&*Stream::of(stream)?, (to, to_is), (from, from_is), shape, waits && direction != 3)
}

/// Adds a copy without gaps.
pub(super) fn plain(
    to: u64,
    from: u64,
    bytes: usize,
    direction: c_int,
    stream: Handle<Stream>,
    waits: bool,
) -> Result<()> {
    copy((Side::plain(to), Side::plain(from)), Shape::plain(bytes), direction, stream, waits)
}

fn rows(
    (to, to_pitch): (u64, usize),
    (from, from_pitch): (u64, usize),
    (width, height): (usize, usize),
    direction: c_int,
    stream: Handle<Stream>,
    waits: bool,
) -> Result<()> {
    if to_pitch < width || from_pitch < width {
        return Err(Status::INVALID_PITCH);
    }
    let side = |start, pitch| Side { start, pitch: pitch as u64, slice: 0 };
    let shape = Shape { width: width as u64, height: height as u64, depth: 1 };
    copy((side(to, to_pitch), side(from, from_pitch)), shape, direction, stream, waits)
}

fn default() -> Handle<Stream> {
    Handle::new(0)
}

/// `cudaPitchedPtr`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Pitched {
    start: u64,
    pitch: usize,
    width: usize,
    height: usize,
}

/// `cudaExtent`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    width: usize,
    height: usize,
    depth: usize,
}

/// One side of `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Side3D {
    array: usize,
    position: [usize; 3],
    pointer: Pitched,
}

/// `cudaMemcpy3DParms`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3D {
    from: Side3D,
    to: Side3D,
    extent: Extent,
    direction: c_int,
}

impl Side3D {
    fn side(&self) -> Result<Side> {
        if self.array != 0 {
            report::once("the program copies to or from an array, which warpwright does not have");
            return Err(Status::NOT_SUPPORTED);
        }
        let Pitched { start, pitch, height, .. } = self.pointer;
        let ([x, y, z], slice) = (self.position, pitch.saturating_mul(height));
        let offset = z.saturating_mul(slice).saturating_add(y.saturating_mul(pitch)).saturating_add(x);
        let start = start.checked_add(offset as u64).ok_or(Status::INVALID_VALUE)?;
        Ok(Side { start, pitch: pitch as u64, slice: slice as u64 })
    }
}

impl Copy3D {
    fn add(&self, stream: Handle<Stream>, waits: bool) -> Result<()> {
        copy((self.to.side()?, self.from.side()?), self.shape(), self.direction, stream, waits)
    }

    fn shape(&self) -> Shape {
        let Extent { width, height, depth } = self.extent;
        Shape { width: width as u64, height: height as u64, depth: depth as u64 }
    }

    /// The copy as a node of a graph.
    pub(super) fn work(&self) -> Result<Work> {
        let (to_is, from_is) = sides(self.direction)?;
        let copy = transfer::prepare((self.to.side()?, to_is), (self.from.side()?, from_is), self.shape())?;
        Ok(copy.map_or(Work::Empty, Work::Copy))
    }
}

/// `cudaPointerAttributes`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PointerAttributes {
    memory: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
}

fn attributes(address: u64) -> PointerAttributes {
    let Some(region) = space::find(address) else {
        return PointerAttributes { memory: 0, device: -2, device_pointer: 0, host_pointer: address };
    };
    let memory = match region.kind {
        Kind::Host { .. } | Kind::Registered { .. } => 1,
        Kind::Device { .. } | Kind::Variable => 2,
        Kind::Managed => 3,
    };
    let host_pointer = if region.is_of_host() { address } else { 0 };
    PointerAttributes { memory, device: 0, device_pointer: address, host_pointer }
}

functions! { super::guard; TABLE:
    2000 cudaMalloc: (address: Out<u64>, bytes: usize) {
        address.check()?;
        // Unlike the driver, the runtime takes 0 bytes.
        if bytes == 0 { return address.set(0) }
        driver::cuMemAlloc_v2(address, bytes).ok()
    }
    2000 cudaMallocPitch: (address: Out<u64>, pitch: Out<usize>, width: usize, height: usize) {
        if width == 0 || height == 0 { address.set(0)?; return pitch.set(0) }
        driver::cuMemAllocPitch_v2(address, pitch, width, height, 4).ok()
    }
    2000 cudaMalloc3D: (pitched: Out<Pitched>, extent: Extent) {
        pitched.check()?;
        let Extent { width, height, depth } = extent;
        let pitch = width.checked_next_multiple_of(512).ok_or(Status::INVALID_VALUE)?;
        let bytes = pitch.checked_mul(height).and_then(|slice| slice.checked_mul(depth));
        let bytes = bytes.ok_or(Status::INVALID_VALUE)?;
        let start = if bytes == 0 { 0 } else { space::allocate(bytes, 0, context()?.number)? };
        pitched.set(Pitched { start, pitch, width, height })
    }
    2000 cudaFree: (address: u64) {
        let _ = context()?;
        driver::cuMemFree_v2(address).ok()
    }
    2000 cudaMallocHost: (pointer: Out<u64>, bytes: usize) {
        pointer.check()?;
        if bytes == 0 { return pointer.set(0) }
        driver::cuMemHostAlloc(pointer, bytes, 0).ok()
    }
    2020 cudaHostAlloc: (pointer: Out<u64>, bytes: usize, flags: u32) {
        pointer.check()?;
        if bytes == 0 { return pointer.set(0) }
        driver::cuMemHostAlloc(pointer, bytes, flags).ok()
    }
    2000 cudaFreeHost: (pointer: u64) { driver::cuMemFreeHost(pointer).ok() }
    4000 cudaHostRegister: (pointer: u64, bytes: usize, flags: u32) {
        driver::cuMemHostRegister_v2(pointer, bytes, flags).ok()
    }
    4000 cudaHostUnregister: (pointer: u64) { driver::cuMemHostUnregister(pointer).ok() }
    2020 cudaHostGetDevicePointer: (address: Out<u64>, pointer: u64, flags: u32) {
        driver::cuMemHostGetDevicePointer_v2(address, pointer, flags).ok()
    }
    2030 cudaHostGetFlags: (flags: Out<u32>, pointer: u64) { driver::cuMemHostGetFlags(flags, pointer).ok() }
    6000 cudaMallocManaged: (address: Out<u64>, bytes: usize, flags: u32) {
        driver::cuMemAllocManaged(address, bytes, flags).ok()
    }
    2000 cudaMemGetInfo: (free: Out<usize>, total: Out<usize>) {
        crate::driver::device::cuMemGetInfo_v2(free, total).ok()
    }
    4000 cudaPointerGetAttributes: (to: Out<PointerAttributes>, address: u64) { to.set(attributes(address)) }
    2000 cudaMemcpy | cudaMemcpy_ptds: (to: u64, from: u64, bytes: usize, direction: c_int) {
        plain(to, from, bytes, direction, default(), true)
    }
    2000 cudaMemcpyAsync | cudaMemcpyAsync_ptsz: (
        to: u64, from: u64, bytes: usize, direction: c_int, stream: Handle<Stream>,
    ) {
        plain(to, from, bytes, direction, stream, false)
    }
    4000 cudaMemcpyPeer: (to: u64, _to_device: c_int, from: u64, _from_device: c_int, bytes: usize) {
        plain(to, from, bytes, 3, default(), false)
    }
    4000 cudaMemcpyPeerAsync: (
        to: u64, _to_device: c_int, from: u64, _from_device: c_int, bytes: usize, stream: Handle<Stream>,
    ) {
        plain(to, from, bytes, 3, stream, false)
    }
    2000 cudaMemcpy2D | cudaMemcpy2D_ptds: (
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, direction: c_int,
    ) {
        rows((to, to_pitch), (from, from_pitch), (width, height), direction, default(), true)
    }
    2000 cudaMemcpy2DAsync | cudaMemcpy2DAsync_ptsz: (
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, direction: c_int,
        stream: Handle<Stream>,
    ) {
        rows((to, to_pitch), (from, from_pitch), (width, height), direction, stream, false)
    }
    2000 cudaMemcpy3D | cudaMemcpy3D_ptds: (copy: In<Copy3D>) { copy.get()?.add(default(), true) }
    2000 cudaMemcpy3DAsync | cudaMemcpy3DAsync_ptsz: (copy: In<Copy3D>, stream: Handle<Stream>) {
        copy.get()?.add(stream, false)
    }
    2000 cudaMemset | cudaMemset_ptds: (to: u64, value: c_int, bytes: usize) {
        driver::cuMemsetD8_v2(to, value as u8, bytes).ok()
    }
    2000 cudaMemsetAsync | cudaMemsetAsync_ptsz: (to: u64, value: c_int, bytes: usize, stream: Handle<Stream>) {
        driver::cuMemsetD8Async(to, value as u8, bytes, stream).ok()
    }
    2000 cudaMemset2D | cudaMemset2D_ptds: (to: u64, pitch: usize, value: c_int, width: usize, height: usize) {
        driver::cuMemsetD2D8_v2(to, pitch, value as u8, width, height).ok()
    }
    2000 cudaMemset2DAsync | cudaMemset2DAsync_ptsz: (
        to: u64, pitch: usize, value: c_int, width: usize, height: usize, stream: Handle<Stream>,
    ) {
        driver::cuMemsetD2D8Async(to, pitch, value as u8, width, height, stream).ok()
    }
    2000 cudaMemset3D | cudaMemset3D_ptds: (to: Pitched, value: c_int, extent: Extent) {
        let Extent { width, height, depth } = extent;
        // Slices follow one another without gaps, so that all rows are of one pitch only if all of them are set.
        let rows = if height == to.height { height * depth } else { height };
        driver::cuMemsetD2D8_v2(to.start, to.pitch, value as u8, width, rows).ok()?;
        let more = if height == to.height { 1 } else { depth };
        (1..more).try_for_each(|z| {
            let slice = to.start + (z * to.pitch * to.height) as u64;
            driver::cuMemsetD2D8_v2(slice, to.pitch, value as u8, width, height).ok()
        })
    }
    8000 cudaMemPrefetchAsync | cudaMemPrefetchAsync_ptsz: (address: u64, bytes: usize) {
        space::containing(address, bytes as u64).map(|_| ())
    }
    12020 cudaMemPrefetchAsync_v2 | cudaMemPrefetchAsync_v2_ptsz: (address: u64, bytes: usize) {
        space::containing(address, bytes as u64).map(|_| ())
    }
    8000 cudaMemAdvise: (address: u64, bytes: usize) { space::containing(address, bytes as u64).map(|_| ()) }
    12020 cudaMemAdvise_v2: (address: u64, bytes: usize) { space::containing(address, bytes as u64).map(|_| ()) }
    11020 cudaMallocAsync | cudaMallocAsync_ptsz: (address: Out<u64>, bytes: usize, stream: Handle<Stream>) {
        address.check()?;
        if bytes == 0 { return address.set(0) }
        driver::cuMemAllocAsync(address, bytes, stream).ok()
    }
    11020 cudaMallocFromPoolAsync | cudaMallocFromPoolAsync_ptsz: (
        address: Out<u64>, bytes: usize, pool: Handle<Pool>, stream: Handle<Stream>,
    ) {
        driver::cuMemAllocFromPoolAsync(address, bytes, pool, stream).ok()
    }
    11020 cudaFreeAsync | cudaFreeAsync_ptsz: (address: u64, stream: Handle<Stream>) {
        driver::cuMemFreeAsync(address, stream).ok()
    }
    11020 cudaDeviceGetDefaultMemPool: (pool: Out<usize>, device: c_int) {
        driver::cuDeviceGetDefaultMemPool(pool, device).ok()
    }
    11020 cudaDeviceGetMemPool: (pool: Out<usize>, device: c_int) { driver::cuDeviceGetMemPool(pool, device).ok() }
    11020 cudaDeviceSetMemPool: (device: c_int, pool: Handle<Pool>) { driver::cuDeviceSetMemPool(device, pool).ok() }
    11020 cudaMemPoolCreate: (pool: Out<usize>, properties: In<[u8; 88]>) {
        properties.get()?;
        pool.check()?;
        pool.set(pool::create()?.number)
    }
    11020 cudaMemPoolDestroy: (pool: Handle<Pool>) { driver::cuMemPoolDestroy(pool).ok() }
    11020 cudaMemPoolTrimTo: (pool: Handle<Pool>, keep: usize) { driver::cuMemPoolTrimTo(pool, keep).ok() }
    11020 cudaMemPoolSetAttribute: (pool: Handle<Pool>, attribute: c_int, value: In<u8>) {
        driver::cuMemPoolSetAttribute(pool, attribute, value).ok()
    }
    11020 cudaMemPoolGetAttribute: (pool: Handle<Pool>, attribute: c_int, value: Out<u8>) {
        driver::cuMemPoolGetAttribute(pool, attribute, value).ok()
    }
    11020 cudaMemPoolSetAccess: (pool: Handle<Pool>, access: In<u8>, count: usize) {
        driver::cuMemPoolSetAccess(pool, access, count).ok()
    }
}

//! Streams and captures.

use std::ffi::{c_int, c_void};

use crate::context::Context;
use crate::driver::stream as driver;
use crate::edge::{In, Out, functions};
use crate::event::Event;
use crate::graph::Graph;
use crate::handles::Handle;
use crate::status::Status;
use crate::stream::Stream;

/// A callback of a stream, which also receives the stream and a status.
type Callback = Option<extern "C" fn(usize, Status, *mut c_void)>;

functions! { super::guard; TABLE:
    2000 cudaStreamCreate: (stream: Out<usize>) { driver::cuStreamCreate(stream, 0).ok() }
    5000 cudaStreamCreateWithFlags: (stream: Out<usize>, flags: u32) { driver::cuStreamCreate(stream, flags).ok() }
    5050 cudaStreamCreateWithPriority: (stream: Out<usize>, flags: u32, priority: c_int) {
        driver::cuStreamCreateWithPriority(stream, flags, priority).ok()
    }
    2000 cudaStreamDestroy: (stream: Handle<Stream>) { driver::cuStreamDestroy_v2(stream).ok() }
    2000 cudaStreamSynchronize | cudaStreamSynchronize_ptsz: (stream: Handle<Stream>) {
        driver::cuStreamSynchronize(stream).ok()
    }
    2000 cudaStreamQuery | cudaStreamQuery_ptsz: (stream: Handle<Stream>) { driver::cuStreamQuery(stream).ok() }
    3020 cudaStreamWaitEvent | cudaStreamWaitEvent_ptsz: (stream: Handle<Stream>, event: Handle<Event>, flags: u32) {
        driver::cuStreamWaitEvent(stream, event, flags).ok()
    }
    5000 cudaStreamAddCallback | cudaStreamAddCallback_ptsz: (
        stream: Handle<Stream>, callback: Callback, argument: usize, flags: u32,
    ) {
        driver::cuStreamAddCallback(stream, callback, argument, flags).ok()
    }
    5050 cudaStreamGetPriority | cudaStreamGetPriority_ptsz: (stream: Handle<Stream>, priority: Out<c_int>) {
        driver::cuStreamGetPriority(stream, priority).ok()
    }
    5050 cudaStreamGetFlags | cudaStreamGetFlags_ptsz: (stream: Handle<Stream>, flags: Out<u32>) {
        driver::cuStreamGetFlags(stream, flags).ok()
    }
    12000 cudaStreamGetId | cudaStreamGetId_ptsz: (stream: Handle<Stream>, id: Out<u64>) {
        driver::cuStreamGetId(stream, id).ok()
    }
    12080 cudaStreamGetDevice | cudaStreamGetDevice_ptsz: (stream: Handle<Stream>, device: Out<c_int>) {
        driver::cuStreamGetDevice(stream, device).ok()
    }
    11000 cudaStreamSetAttribute | cudaStreamSetAttribute_ptsz: (
        stream: Handle<Stream>, attribute: c_int, value: In<[u32; 16]>,
    ) {
        driver::cuStreamSetAttribute(stream, attribute, value).ok()
    }
    11000 cudaStreamGetAttribute | cudaStreamGetAttribute_ptsz: (
        stream: Handle<Stream>, attribute: c_int, value: Out<[u32; 16]>,
    ) {
        driver::cuStreamGetAttribute(stream, attribute, value).ok()
    }
    6000 cudaStreamAttachMemAsync | cudaStreamAttachMemAsync_ptsz: (
        stream: Handle<Stream>, address: u64, bytes: usize, flags: u32,
    ) {
        driver::cuStreamAttachMemAsync(stream, address, bytes, flags).ok()
    }
    5050 cudaDeviceGetStreamPriorityRange: (least: Out<c_int>, greatest: Out<c_int>) {
        crate::driver::context::cuCtxGetStreamPriorityRange(least, greatest).ok()
    }
    10000 cudaStreamBeginCapture | cudaStreamBeginCapture_ptsz: (stream: Handle<Stream>, mode: c_int) {
        driver::cuStreamBeginCapture_v2(stream, mode).ok()
    }
    12030 cudaStreamBeginCaptureToGraph | cudaStreamBeginCaptureToGraph_ptsz: (
        stream: Handle<Stream>, graph: Handle<Graph>, after: In<usize>, edges: In<u8>, count: usize, mode: c_int,
    ) {
        driver::cuStreamBeginCaptureToGraph(stream, graph, after, edges, count, mode).ok()
    }
    10000 cudaStreamEndCapture | cudaStreamEndCapture_ptsz: (stream: Handle<Stream>, graph: Out<usize>) {
        driver::cuStreamEndCapture(stream, graph).ok()
    }
    10000 cudaStreamIsCapturing | cudaStreamIsCapturing_ptsz: (stream: Handle<Stream>, status: Out<c_int>) {
        driver::cuStreamIsCapturing(stream, status).ok()
    }
    10010 cudaThreadExchangeStreamCaptureMode: (mode: Out<c_int>) {
        driver::cuThreadExchangeStreamCaptureMode(mode).ok()
    }
    11030 cudaStreamGetCaptureInfo_v2 | cudaStreamGetCaptureInfo_v2_ptsz: (
        stream: Handle<Stream>, status: Out<c_int>, id: Out<u64>, graph: Out<usize>, after: Out<*const usize>,
        count: Out<usize>,
    ) {
        driver::cuStreamGetCaptureInfo_v2(stream, status, id, graph, after, count).ok()
    }
    // CUDA 13 has the graph and the dependencies, too.
    10010 cudaStreamGetCaptureInfo | cudaStreamGetCaptureInfo_ptsz: (
        stream: Handle<Stream>, status: Out<c_int>, id: Out<u64>, graph: Out<usize>, after: Out<*const usize>,
        edges: Out<*const c_void>, count: Out<usize>,
    ) {
        if super::registry::major() == 12 {
            let (none, no_list) = (Out::at_address(0), Out::at_address(0));
            return driver::cuStreamGetCaptureInfo_v2(stream, status, id, none, no_list, Out::at_address(0)).ok();
        }
        driver::cuStreamGetCaptureInfo_v3(stream, status, id, graph, after, edges, count).ok()
    }
    12030 cudaStreamGetCaptureInfo_v3 | cudaStreamGetCaptureInfo_v3_ptsz: (
        stream: Handle<Stream>, status: Out<c_int>, id: Out<u64>, graph: Out<usize>, after: Out<*const usize>,
        edges: Out<*const c_void>, count: Out<usize>,
    ) {
        driver::cuStreamGetCaptureInfo_v3(stream, status, id, graph, after, edges, count).ok()
    }
    2000 cudaDeviceSynchronize: () { super::context()?.synchronize() }
    2000 cudaThreadSynchronize: () { super::context()?.synchronize() }
    4000 cudaDeviceReset: () {
        Context::primary().reset();
        super::registry::unload();
        Ok(())
    }
    2000 cudaThreadExit: () {
        Context::primary().reset();
        Ok(())
    }
    11000 cudaCtxResetPersistingL2Cache: () { Ok(()) }
}

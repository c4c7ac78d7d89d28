//! Streams, their captures, and operations on memory in their order.

use std::ffi::{c_int, c_void};

use super::guard;
use crate::capture::Capture;
use crate::context::current;
use crate::edge::{In, Out, functions};
use crate::enqueue;
use crate::event::{EVENTS, Event};
use crate::graph::{GRAPHS, Graph};
use crate::handles::Handle;
use crate::space;
use crate::status::{Result, Status};
use crate::stream::{Ordered, Stream};
use crate::work::Work;

fn create(out: Out<usize>, flags: u32, priority: c_int) -> Result<()> {
    out.check()?;
    let ordered = match flags {
        0 => Ordered::Blocking,
        1 => Ordered::Alone,
        _ => return Err(Status::INVALID_VALUE),
    };
    out.set(Stream::create(current()?, ordered, priority.clamp(-5, 0))?.number)
}

/// A callback of a stream, which also receives the stream and a status.
type Callback = Option<extern "C" fn(usize, Status, *mut c_void)>;

fn capture_info(
    stream: Handle<Stream>,
    (status, id, graph): (Out<c_int>, Out<u64>, Out<usize>),
    (after, edges, count): (Out<*const usize>, Out<*const c_void>, Out<usize>),
) -> Result<()> {
    let stream = Stream::of(stream)?;
    let capture = stream.capture().clone();
    status.set(c_int::from(capture.is_some()))?;
    let Some(capture) = capture else { return Ok(()) };
    id.set_if_wanted(capture.number as u64);
    graph.set_if_wanted(capture.graph.handle());
    edges.set_if_wanted(std::ptr::null());
    if !after.is_null() || !count.is_null() {
        let nodes = capture.dependencies(&stream);
        count.set_if_wanted(nodes.len());
        // The array is the capture's, and stays for as long as the process.
        after.set_if_wanted(Box::leak(nodes.into_boxed_slice()).as_ptr());
    }
    Ok(())
}

fn await_value(stream: Handle<Stream>, address: u64, value: u64, bytes: u8, flags: u32) -> Result<()> {
    let stream = Stream::of(stream)?;
    space::containing(address, u64::from(bytes))?;
    if flags & !(3 | 1 << 30) != 0 || !address.is_multiple_of(u64::from(bytes)) {
        return Err(Status::INVALID_VALUE);
    }
    stream.enqueue(Work::Await(address, value, bytes, flags))
}

fn write_value(stream: Handle<Stream>, address: u64, value: u64, bytes: u8) -> Result<()> {
    let stream = Stream::of(stream)?;
    space::containing(address, u64::from(bytes))?;
    stream.enqueue(Work::Write(address, value, bytes))
}

functions! { guard; TABLE:
    2000 cuStreamCreate: (stream: Out<usize>, flags: u32) { create(stream, flags, 0) }
    5050 cuStreamCreateWithPriority: (stream: Out<usize>, flags: u32, priority: c_int) {
        create(stream, flags, priority)
    }
    4000 cuStreamDestroy_v2: (stream: Handle<Stream>) {
        current()?;
        Stream::destroy(stream)
    }
    2000 cuStreamSynchronize | cuStreamSynchronize_ptsz: (stream: Handle<Stream>) {
        let stream = Stream::of(stream)?;
        if stream.capture().is_some() { return Err(Status::STREAM_CAPTURE_UNSUPPORTED) }
        stream.synchronize()
    }
    2000 cuStreamQuery | cuStreamQuery_ptsz: (stream: Handle<Stream>) {
        let stream = Stream::of(stream)?;
        if stream.capture().is_some() { return Err(Status::STREAM_CAPTURE_UNSUPPORTED) }
        if !stream.is_idle() { return Err(Status::NOT_READY) }
        stream.synchronize()
    }
    3020 cuStreamWaitEvent | cuStreamWaitEvent_ptsz: (stream: Handle<Stream>, event: Handle<Event>, flags: u32) {
        let (stream, event) = (Stream::of(stream)?, EVENTS.get(event)?);
        if flags > 1 { return Err(Status::INVALID_VALUE) }
        enqueue::wait(&stream, &event)
    }
    5000 cuStreamAddCallback | cuStreamAddCallback_ptsz: (
        stream: Handle<Stream>, callback: Callback, argument: usize, flags: u32,
    ) {
        if flags != 0 { return Err(Status::INVALID_VALUE) }
        let (handle, stream) = (stream.0, Stream::of(stream)?);
        let callback = callback.ok_or(Status::INVALID_VALUE)?;
        stream.add(Box::new(move |_, _| {
            callback(handle, Status::SUCCESS, std::ptr::with_exposed_provenance_mut(argument));
            Ok(())
        }))
    }
    5050 cuStreamGetPriority | cuStreamGetPriority_ptsz: (stream: Handle<Stream>, priority: Out<c_int>) {
        priority.set(Stream::of(stream)?.priority)
    }
    5050 cuStreamGetFlags | cuStreamGetFlags_ptsz: (stream: Handle<Stream>, flags: Out<u32>) {
        flags.set(u32::from(Stream::of(stream)?.ordered == Ordered::Alone))
    }
    12000 cuStreamGetId | cuStreamGetId_ptsz: (stream: Handle<Stream>, id: Out<u64>) {
        id.set(Stream::of(stream)?.number as u64)
    }
    9020 cuStreamGetCtx | cuStreamGetCtx_ptsz: (stream: Handle<Stream>, context: Out<usize>) {
        context.set(Stream::of(stream)?.context.number)
    }
    12080 cuStreamGetDevice | cuStreamGetDevice_ptsz: (stream: Handle<Stream>, device: Out<c_int>) {
        Stream::of(stream)?;
        device.set(0)
    }
    11000 cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz: (to: Handle<Stream>, from: Handle<Stream>) {
        Stream::of(to)?;
        Stream::of(from).map(|_| ())
    }
    11000 cuStreamGetAttribute | cuStreamGetAttribute_ptsz: (
        stream: Handle<Stream>, attribute: c_int, value: Out<[u32; 16]>,
    ) {
        let stream = Stream::of(stream)?;
        let mut of_stream = [0; 16];
        if attribute == 8 { of_stream[0] = stream.priority as u32; }
        value.set(of_stream)
    }
    11000 cuStreamSetAttribute | cuStreamSetAttribute_ptsz: (
        stream: Handle<Stream>, _attribute: c_int, value: In<[u32; 16]>,
    ) {
        Stream::of(stream)?;
        value.get().map(|_| ())
    }
    6000 cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz: (
        stream: Handle<Stream>, address: u64, _bytes: usize, flags: u32,
    ) {
        Stream::of(stream)?;
        space::find(address).ok_or(Status::INVALID_VALUE)?;
        if matches!(flags, 1 | 2 | 4) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
    11070 cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz: (
        stream: Handle<Stream>, address: u64, value: u32, flags: u32,
    ) {
        await_value(stream, address, u64::from(value), 4, flags)
    }
    11070 cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz: (
        stream: Handle<Stream>, address: u64, value: u64, flags: u32,
    ) {
        await_value(stream, address, value, 8, flags)
    }
    11070 cuStreamWriteValue32_v2 | cuStreamWriteValue32_v2_ptsz: (
        stream: Handle<Stream>, address: u64, value: u32, _flags: u32,
    ) {
        write_value(stream, address, u64::from(value), 4)
    }
    11070 cuStreamWriteValue64_v2 | cuStreamWriteValue64_v2_ptsz: (
        stream: Handle<Stream>, address: u64, value: u64, _flags: u32,
    ) {
        write_value(stream, address, value, 8)
    }
    10010 cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz: (stream: Handle<Stream>, mode: c_int) {
        let stream = Stream::of(stream)?;
        if !(0..=2).contains(&mode) { return Err(Status::INVALID_VALUE) }
        if stream.ordered == Ordered::Legacy { return Err(Status::STREAM_CAPTURE_UNSUPPORTED) }
        Capture::begin(&stream, Graph::create(), Vec::new())
    }
    12030 cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz: (
        stream: Handle<Stream>, graph: Handle<Graph>, after: In<usize>, _edges: In<u8>, count: usize, mode: c_int,
    ) {
        let (stream, graph) = (Stream::of(stream)?, GRAPHS.get(graph)?);
        if !(0..=2).contains(&mode) { return Err(Status::INVALID_VALUE) }
        Capture::begin(&stream, graph, after.array(count)?)
    }
    10000 cuStreamEndCapture | cuStreamEndCapture_ptsz: (stream: Handle<Stream>, graph: Out<usize>) {
        let ended = Capture::end(&*Stream::of(stream)?)?;
        graph.set(ended.handle())
    }
    10010 cuThreadExchangeStreamCaptureMode: (mode: Out<c_int>) {
        if !(0..=2).contains(&mode.get()?) { return Err(Status::INVALID_VALUE) }
        mode.set(0)
    }
    10000 cuStreamIsCapturing | cuStreamIsCapturing_ptsz: (stream: Handle<Stream>, status: Out<c_int>) {
        status.set(c_int::from(Stream::of(stream)?.capture().is_some()))
    }
    11030 cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz: (
        stream: Handle<Stream>, status: Out<c_int>, id: Out<u64>, graph: Out<usize>, after: Out<*const usize>,
        count: Out<usize>,
    ) {
        capture_info(stream, (status, id, graph), (after, Out::at_address(0), count))
    }
    12030 cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz: (
        stream: Handle<Stream>, status: Out<c_int>, id: Out<u64>, graph: Out<usize>, after: Out<*const usize>,
        edges: Out<*const c_void>, count: Out<usize>,
    ) {
        capture_info(stream, (status, id, graph), (after, edges, count))
    }
    11030 cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz: (
        stream: Handle<Stream>, after: In<usize>, count: usize, flags: u32,
    ) {
        let stream = Stream::of(stream)?;
        let capture = stream.capture().clone().ok_or(Status::ILLEGAL_STATE)?;
        if flags > 1 { return Err(Status::INVALID_VALUE) }
        capture.set_dependencies(&stream, after.array(count)?, flags == 1);
        Ok(())
    }
}

//! Events.

use crate::driver::event as driver;
use crate::edge::{Out, functions};
use crate::event::Event;
use crate::handles::Handle;
use crate::stream::Stream;

functions! { super::guard; TABLE:
    2000 cudaEventCreate: (event: Out<usize>) { driver::cuEventCreate(event, 0).ok() }
    2000 cudaEventCreateWithFlags: (event: Out<usize>, flags: u32) { driver::cuEventCreate(event, flags).ok() }
    2000 cudaEventDestroy: (event: Handle<Event>) { driver::cuEventDestroy_v2(event).ok() }
    2000 cudaEventRecord | cudaEventRecord_ptsz: (event: Handle<Event>, stream: Handle<Stream>) {
        driver::cuEventRecord(event, stream).ok()
    }
    11010 cudaEventRecordWithFlags | cudaEventRecordWithFlags_ptsz: (
        event: Handle<Event>, stream: Handle<Stream>, flags: u32,
    ) {
        driver::cuEventRecordWithFlags(event, stream, flags).ok()
    }
    2000 cudaEventSynchronize: (event: Handle<Event>) { driver::cuEventSynchronize(event).ok() }
    2000 cudaEventQuery: (event: Handle<Event>) { driver::cuEventQuery(event).ok() }
    2000 cudaEventElapsedTime: (milliseconds: Out<f32>, start: Handle<Event>, end: Handle<Event>) {
        driver::cuEventElapsedTime(milliseconds, start, end).ok()
    }
    12080 cudaEventElapsedTime_v2: (milliseconds: Out<f32>, start: Handle<Event>, end: Handle<Event>) {
        driver::cuEventElapsedTime(milliseconds, start, end).ok()
    }
}

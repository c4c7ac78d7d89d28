//! What a stream does, or a node of a graph: each can run any number of times.

use std::ffi::c_void;
use std::sync::Arc;

use warpwright_runtime::{RawDevice, RawStream};

use crate::edge::HostFunction;
use crate::event::Event;
use crate::graph::Graph;
use crate::launch::KernelLaunch;
use crate::space;
use crate::transfer::{Copy, Fill};

/// An operation.
#[derive(Clone)]
pub(crate) enum Work {
    /// Nothing.
    Empty,
    /// A launch.
    Launch(KernelLaunch),
    /// A copy.
    Copy(Copy),
    /// A fill.
    Fill(Fill),
    /// A function of the program, and its argument.
    Host(HostFunction, usize),
    /// `cuMemFreeAsync`
    Free(u64),
    /// A graph in a graph.
    Child(Arc<Graph>),
    /// Records an event.
    Record(Arc<Event>),
    /// Waits for an event.
    Wait(Arc<Event>),
    /// Writes a value of 4 or 8 bytes: `cuStreamWriteValue`.
    Write(u64, u64, u8),
    /// Waits until a value of 4 or 8 bytes compares: `cuStreamWaitValue`.
    Await(u64, u64, u8, u32),
}

impl Work {
    /// Does it.
    pub(crate) fn run(&self, raw: &RawDevice, stream: RawStream) -> warpwright_runtime::Result<()> {
        match self {
            // Events are the stream's, not the device's.
            Self::Empty | Self::Record(_) | Self::Wait(_) => Ok(()),
            Self::Launch(launch) => launch.run(raw, stream),
            Self::Copy(copy) => copy.run(raw, stream),
            Self::Fill(fill) => fill.run(raw, stream),
            Self::Host(function, argument) => {
                if let Some(function) = function {
                    function(std::ptr::with_exposed_provenance_mut::<c_void>(*argument));
                }
                Ok(())
            }
            Self::Free(address) => {
                // The address was found to be an allocation by the call.
                let _ = space::free(*address);
                Ok(())
            }
            Self::Child(graph) => graph.run(raw, stream),
            Self::Write(to, value, bytes) => {
                let value = value.to_le_bytes();
                // SAFETY: the value is alive during the call, which completes the copy on the emulator.
                unsafe { raw.write(stream, *to, (&value[0]).into(), u64::from(*bytes)) }
            }
            Self::Await(from, value, bytes, condition) => {
                await_value(raw, stream, *from, *value, *bytes, *condition)
            }
        }
    }
}

/// Waits until memory compares with a value as the flags of `cuStreamWaitValue` say.
fn await_value(
    raw: &RawDevice,
    stream: RawStream,
    from: u64,
    value: u64,
    bytes: u8,
    condition: u32,
) -> warpwright_runtime::Result<()> {
    loop {
        let mut now = [0; 8];
        // SAFETY: the bytes are alive during the call, which completes the copy on the emulator.
        unsafe { raw.read(stream, (&mut now[0]).into(), from, u64::from(bytes)) }?;
        let now = u64::from_le_bytes(now);
        let difference = if bytes == 4 {
            i64::from(now.wrapping_sub(value) as i32)
        } else {
            now.wrapping_sub(value) as i64
        };
        let holds = match condition & 3 {
            0 => difference >= 0,
            1 => difference == 0,
            2 => now & value != 0,
            _ => !(now | value) != 0,
        };
        if holds {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

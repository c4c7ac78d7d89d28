//! Launches: memory of arguments to the device and back, one launch for each schedule, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError, RwLockReadGuard};
use std::time::Duration;

use pyo3::prelude::*;
use serde_json::Value;
use warpwright::arch::tensor_map::Description;
use warpwright::runtime::{self, Argument, Error, LaunchCounts, TensorMap};
use warpwright_cli::findings::Findings;
use warpwright_cli::inputs;

use crate::array::HostArray;
use crate::buffer::{Buffer, Parts, freed};
use crate::error::{ArgumentError, DeviceError, ReadOnlyError, found, raised};
use crate::host::{Range, Span};
use crate::kernel::Kernel;

/// How often a launch asks whether Ctrl-C was pressed.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Grid, block and cluster, bytes of dynamic shared memory, and whether the launch is cooperative and may overlap the
/// one before.
pub(crate) type Shape = ([u32; 3], [u32; 3], [u32; 3], u32, bool, bool);

/// Warp instructions, lane operations and multiply-adds of matrix instructions, under the first schedule.
pub(crate) type Counts = (u64, u64, u64);

/// An argument, as `python/warpwright/_arguments.py` converts it.
#[derive(FromPyObject)]
pub(crate) enum Given {
    Array(Py<HostArray>),
    Buffer(Py<Buffer>),
    /// The element type and the bytes of a value.
    Scalar(String, Vec<u8>),
    /// A tensor map: an array or a buffer, and the description as JSON.
    Map(Py<PyAny>, String),
    Bytes(Vec<u8>),
}

/// Memory of an argument.
#[derive(Clone, Copy)]
enum Memory {
    /// So many bytes behind the beginning of a span.
    Span(usize, u64),
    /// The whole of a buffer.
    Buffer(usize),
    /// An array without elements, at an address that nothing accesses.
    Empty(u64),
}

enum Prepared {
    Memory(Memory),
    Value(Argument<'static>),
    Map(Memory, Description),
}

/// The arguments of a launch, without Python.
#[derive(Default)]
struct Arguments {
    prepared: Vec<Prepared>,
    /// Memory of the host, by its addresses. Arrays that share bytes share a span.
    spans: Vec<Range>,
    buffers: Vec<Parts>,
}

/// Runs a kernel under each schedule. `keep` leaves arrays as they were.
pub(crate) fn run(
    py: Python<'_>,
    kernel: &Kernel,
    shape: &Shape,
    given: &[Given],
    keep: bool,
) -> PyResult<Counts> {
    let arguments = Arguments::of(py, kernel, given)?;
    let launch = shape_of(shape);
    let interrupt = || kernel.shared.parts.iter().for_each(|part| part.device.interrupt());
    let outcome = interruptible(py, interrupt, |stop| arguments.launch(kernel, launch, keep, stop));
    let printed = kernel.shared.take_printed();
    if !printed.is_empty() {
        py.import("sys")?.getattr("stdout")?.call_method1("write", (printed,))?;
    }
    outcome?
}

fn shape_of(&(grid, block, cluster, shared, cooperative, overlapping): &Shape) -> runtime::Launch {
    let mut launch = runtime::Launch::new(grid, block).cluster(cluster).dynamic_shared(shared);
    if cooperative {
        launch = launch.cooperative();
    }
    if overlapping {
        launch = launch.overlapping();
    }
    launch
}

/// Does work on a thread of its own, without Python's lock, and stops the launches of the device with `interrupt` at
/// Ctrl-C. `work` gets what says so.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    interrupt: impl Fn() + Sync + Send,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let wait = || {
        std::thread::scope(|scope| {
            let (ends, ended) = channel::<()>();
            let stop = &stop;
            let working = scope.spawn(move || {
                let result = work(stop);
                drop(ends);
                result
            });
            let mut interrupted = None;
            while ended.recv_timeout(SIGNAL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if interrupted.is_none() {
                    interrupted = Python::attach(|py| py.check_signals()).err();
                }
                if interrupted.is_some() {
                    stop.store(true, Ordering::Relaxed);
                    interrupt();
                }
            }
            let result = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            interrupted.map_or(Ok(result), Err)
        })
    };
    py.detach(wait)
}

impl Arguments {
    fn of(py: Python<'_>, kernel: &Kernel, given: &[Given]) -> PyResult<Self> {
        let mut arguments = Self { spans: spans(py, given), ..Self::default() };
        for argument in given {
            let prepared = match argument {
                Given::Array(array) => Prepared::Memory(arguments.array(array.get())),
                Given::Buffer(buffer) => Prepared::Memory(arguments.buffer(kernel, buffer.get())?),
                Given::Scalar(dtype, bytes) => {
                    Prepared::Value(inputs::scalar(dtype, bytes).map_err(ArgumentError::new_err)?)
                }
                Given::Bytes(bytes) => Prepared::Value(Argument::bytes(bytes)),
                Given::Map(memory, description) => {
                    let memory = memory.bind(py);
                    let memory = match memory.cast::<Buffer>() {
                        Ok(buffer) => arguments.buffer(kernel, buffer.get())?,
                        Err(_) => arguments.array(memory.cast::<HostArray>()?.get()),
                    };
                    let description = inputs::tensor_map(description).map_err(ArgumentError::new_err)?;
                    Prepared::Map(memory, description)
                }
            };
            arguments.prepared.push(prepared);
        }
        Ok(arguments)
    }

    fn array(&self, array: &HostArray) -> Memory {
        let Range { start, end, .. } = array.range();
        let index = self.spans.partition_point(|span| span.end <= start);
        match self.spans.get(index).filter(|_| start < end) {
            Some(span) => Memory::Span(index, array.address() - span.start),
            None => Memory::Empty(array.address()),
        }
    }

    fn buffer(&mut self, kernel: &Kernel, buffer: &Buffer) -> PyResult<Memory> {
        if !Arc::ptr_eq(&buffer.shared, &kernel.shared) {
            let (of, on) = (buffer.shared.first().name(), kernel.shared.first().name());
            return Err(DeviceError::new_err(format!(
                "a buffer among the arguments belongs to another device ({of}) than the kernel ({on}); allocate it on the \
                 device that loaded the kernel"
            )));
        }
        let known = self.buffers.iter().position(|parts| Arc::ptr_eq(parts, &buffer.parts));
        Ok(Memory::Buffer(known.unwrap_or_else(|| {
            self.buffers.push(buffer.parts.clone());
            self.buffers.len() - 1
        })))
    }

    /// Launches under each schedule. Arrays get the results of the first one.
    fn launch(
        &self,
        kernel: &Kernel,
        launch: runtime::Launch,
        keep: bool,
        stop: &AtomicBool,
    ) -> PyResult<Counts> {
        let locked: Vec<_> =
            self.buffers.iter().map(|parts| parts.read().unwrap_or_else(PoisonError::into_inner)).collect();
        let in_place = kernel.shared.parts.len() == 1 && !keep;
        let (mut findings, mut is_fault) = (Findings::default(), false);
        let mut counts = LaunchCounts::default();
        let mut results = Vec::new();
        for (index, (part, function)) in kernel.shared.parts.iter().zip(&kernel.functions).enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let device = &part.device;
            let spans: Result<Vec<Span>, _> =
                self.spans.iter().map(|range| Span::on(device, range, in_place)).collect();
            let spans = spans.map_err(raised)?;
            let outcome = {
                let buffers = buffers_of(&locked, index)?;
                let maps = self.maps(&spans, &buffers)?;
                let arguments = self.arguments(&spans, &buffers, &maps);
                function.launch(&part.stream, launch, arguments.as_slice())
            };
            let (found, failed) = match outcome {
                Ok(done) => {
                    counts = if index == 0 { done } else { counts };
                    (Vec::new(), false)
                }
                Err(error @ Error::Findings { .. }) => (error.findings(), false),
                Err(error @ Error::Fault { .. }) => (error.findings(), true),
                Err(error) => return Err(raised(error)),
            };
            findings.add(part.schedule, found);
            is_fault |= failed;
            if index == 0 && !keep && !failed {
                part.device.synchronize().map_err(raised)?;
                let read = self.spans.iter().zip(&spans).map(|(range, span)| Ok((*range, span.result()?)));
                results = read.collect::<Result<_, Error>>().map_err(raised)?;
            }
        }
        write_back(kernel, results)?;
        if findings.is_empty() {
            return Ok((counts.warp_instructions, counts.lane_operations, counts.mma_multiply_adds));
        }
        let all = findings.schedules().len();
        let texts = findings.texts(false, |_, schedules| {
            (all > 1).then(|| match schedules.len() {
                shown if shown == all => "found at every schedule".to_owned(),
                shown => format!("found at {shown} of {all} schedules, {schedules:?}"),
            })
        });
        Err(found(&texts.join("\n\n"), &Value::from(findings.json()), is_fault))
    }

    /// The tensor maps of the arguments, in order.
    fn maps(&self, spans: &[Span], buffers: &[&runtime::Buffer<u8>]) -> PyResult<Vec<TensorMap>> {
        let maps = self.prepared.iter().filter_map(|prepared| match prepared {
            Prepared::Map(memory, description) => Some((*memory, description.clone())),
            _ => None,
        });
        let encoded = maps.map(|(memory, mut description)| {
            let buffer = match memory {
                Memory::Span(span, offset) => {
                    description.address += spans[span].lead() + offset;
                    spans[span].buffer()
                }
                Memory::Buffer(buffer) => buffers[buffer],
                Memory::Empty(_) => {
                    return Err(ArgumentError::new_err("a tensor map of an array without elements"));
                }
            };
            TensorMap::new(buffer, description).map_err(raised)
        });
        encoded.collect()
    }

    fn arguments<'a>(
        &self,
        spans: &[Span],
        buffers: &[&'a runtime::Buffer<u8>],
        maps: &'a [TensorMap],
    ) -> Vec<Argument<'a>> {
        let mut maps = maps.iter();
        let argument = |prepared: &Prepared| match prepared {
            Prepared::Memory(Memory::Span(span, offset)) => Argument::scalar(spans[*span].address() + offset),
            Prepared::Memory(Memory::Buffer(buffer)) => Argument::buffer(buffers[*buffer]),
            Prepared::Memory(Memory::Empty(address)) => Argument::scalar(*address),
            Prepared::Value(value) => value.clone(),
            Prepared::Map(..) => Argument::tensor_map(maps.next().expect("each has been encoded")),
        };
        self.prepared.iter().map(argument).collect()
    }
}

/// The memory of all arrays, by address; those that share bytes are one.
fn spans(py: Python<'_>, given: &[Given]) -> Vec<Range> {
    let range = |argument: &Given| match argument {
        Given::Array(array) => Some(array.get().range()),
        Given::Map(memory, ..) => memory.bind(py).cast::<HostArray>().ok().map(|array| array.get().range()),
        _ => None,
    };
    let mut ranges: Vec<Range> = given.iter().filter_map(range).filter(|range| range.bytes() > 0).collect();
    ranges.sort_by_key(|range| range.start);
    let mut spans: Vec<Range> = Vec::new();
    for range in ranges {
        match spans.last_mut().filter(|span| range.start < span.end) {
            Some(span) => {
                span.end = span.end.max(range.end);
                span.is_writable |= range.is_writable;
            }
            None => spans.push(range),
        }
    }
    spans
}

/// The buffers of one schedule.
fn buffers_of<'a>(
    locked: &'a [RwLockReadGuard<'_, Option<Vec<runtime::Buffer<u8>>>>],
    index: usize,
) -> PyResult<Vec<&'a runtime::Buffer<u8>>> {
    locked.iter().map(|parts| Ok(&parts.as_ref().ok_or_else(freed)?[index])).collect()
}

/// Copies results to the arrays that the launch did not use in place.
fn write_back(kernel: &Kernel, results: Vec<(Range, Option<Vec<u8>>)>) -> PyResult<()> {
    for (range, bytes) in results {
        let Some(bytes) = bytes else { continue };
        if range.is_writable {
            range.write(&bytes);
        } else if range.read() != bytes {
            return Err(ReadOnlyError::new_err(format!(
                "kernel `{}` wrote an array that is read-only (at address {:#x}), which keeps its elements; pass a copy, or \
                 make it writable",
                kernel.functions[0].name(),
                range.start
            )));
        }
    }
    Ok(())
}

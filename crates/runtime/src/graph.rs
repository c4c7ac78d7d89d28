//! Graphs: the work of a stream, recorded once and launched many times.
//!
//! [`Stream::capture`] keeps a list of nodes on the host. A backend that has graphs makes one of
//! the list ([`Backend::instantiate`]); elsewhere a launch of the graph runs the nodes. No code of the
//! user runs while the driver captures.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::arguments::{Argument, MANY_ARGUMENTS};
use crate::backend::{Backend, Handle, LaunchCounts, LoadedGraph, LoadedKernel, Packed};
use crate::buffer::Allocation;
use crate::device::{Device, same_device};
use crate::error::{Error, Result};
use crate::launch::Launch;
use crate::stream::Stream;

/// Work that [`Stream::capture`] recorded. It runs in the order in which it was recorded.
///
/// Operations that keep memory for a stream, such as the workspaces of the kernel library, keep it for
/// the captured one: launch the graph on that stream, or order the two by events.
pub struct Graph {
    // Before the nodes: it is destroyed first.
    loaded: Option<Box<dyn LoadedGraph>>,
    nodes: Vec<Node>,
    backend: Arc<dyn Backend>,
}

impl Graph {
    pub(crate) fn new(backend: &Arc<dyn Backend>, nodes: Vec<Node>) -> Result<Self> {
        Ok(Self { loaded: backend.instantiate(&nodes)?, nodes, backend: backend.clone() })
    }

    /// The device of the graph.
    pub fn device(&self) -> Device {
        Device { backend: self.backend.clone() }
    }

    /// The number of kernels, copies and fills.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Starts all work of the graph on a stream. In a capture of that stream, the work becomes part of
    /// the graph that is recorded.
    ///
    /// # Errors
    /// The stream is of another device, a buffer is half-written, or a kernel failed.
    pub fn launch(&self, stream: &Stream) -> Result<LaunchCounts> {
        same_device("the graph", &self.backend, &stream.backend)?;
        if let Some(recording) = stream.recording() {
            self.nodes.iter().for_each(|node| recording.add(node.clone()));
            return Ok(LaunchCounts::default());
        }
        match &self.loaded {
            Some(loaded) => loaded.launch(stream.handle).map(|()| LaunchCounts::default()),
            None => self.nodes.iter().try_fold(LaunchCounts::default(), |counts, node| {
                Ok(counts + node.run(&self.backend, stream.handle)?)
            }),
        }
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph({} nodes)", self.len())
    }
}

/// One operation of a stream, with references to what it needs.
#[derive(Clone)]
pub(crate) enum Node {
    Kernel(Arc<KernelNode>),
    Copy { to: Arc<Allocation>, from: Arc<Allocation> },
    Fill { buffer: Arc<Allocation>, byte: u8 },
}

impl Node {
    /// A launch of a kernel.
    pub(crate) fn launch(
        (name, kernel): (&Arc<str>, &Arc<dyn LoadedKernel>),
        launch: Launch,
        arguments: &[Argument<'_>],
        packed: &[Packed<'_>],
    ) -> Self {
        Self::Kernel(Arc::new(KernelNode {
            name: name.clone(),
            kernel: kernel.clone(),
            launch,
            arguments: packed.iter().map(|argument| (argument.bytes.to_vec(), argument.align)).collect(),
            accessed: arguments.iter().flat_map(Argument::allocations).cloned().collect(),
            written: arguments.iter().flat_map(Argument::written).cloned().collect(),
        }))
    }

    /// The name of the kernel, if it is one.
    pub(crate) fn kernel_name(&self) -> Option<&Arc<str>> {
        match self {
            Self::Kernel(kernel) => Some(&kernel.name),
            _ => None,
        }
    }

    /// Puts the operation on a stream, unless it reads what a failed kernel left half-written.
    pub(crate) fn run(&self, backend: &Arc<dyn Backend>, stream: Handle) -> Result<LaunchCounts> {
        self.read().iter().try_for_each(|allocation| allocation.check())?;
        let outcome = self.enqueue(&**backend, stream);
        match self {
            Self::Kernel(kernel) => {
                Allocation::mark_after_fault(outcome, kernel.written.iter(), (backend, &kernel.name))
            }
            Self::Copy { to, .. } | Self::Fill { buffer: to, .. } => outcome.inspect(|_| to.unmark()),
        }
    }

    /// Puts the operation on a stream.
    pub(crate) fn enqueue(&self, backend: &dyn Backend, stream: Handle) -> Result<LaunchCounts> {
        match self {
            Self::Kernel(kernel) => return kernel.enqueue(stream),
            Self::Copy { to, from } => backend.copy(stream, to.address(), from.address(), from.bytes())?,
            Self::Fill { buffer, byte } => backend.fill(stream, buffer.address(), *byte, buffer.bytes())?,
        }
        Ok(LaunchCounts::default())
    }

    /// The memory that must not be half-written.
    fn read(&self) -> &[Arc<Allocation>] {
        match self {
            Self::Kernel(kernel) => &kernel.accessed,
            Self::Copy { from, .. } => std::slice::from_ref(from),
            Self::Fill { .. } => &[],
        }
    }
}

/// A launch of a kernel.
pub(crate) struct KernelNode {
    name: Arc<str>,
    kernel: Arc<dyn LoadedKernel>,
    launch: Launch,
    /// The bytes of each argument, and their alignment.
    arguments: Vec<(Vec<u8>, usize)>,
    accessed: Vec<Arc<Allocation>>,
    written: Vec<Arc<Allocation>>,
}

impl KernelNode {
    fn enqueue(&self, stream: Handle) -> Result<LaunchCounts> {
        let packed: SmallVec<[Packed<'_>; MANY_ARGUMENTS]> =
            self.arguments.iter().map(|(bytes, align)| Packed { bytes, align: *align }).collect();
        self.kernel.launch(stream, &self.launch, &packed)
    }
}

/// What a stream records. Outside a capture, a launch only reads a flag.
#[derive(Default)]
pub(crate) struct Recording {
    is_on: AtomicBool,
    nodes: Mutex<Vec<Node>>,
}

thread_local! {
    /// The captures that this thread is inside of.
    static CAPTURES: Cell<u32> = const { Cell::new(0) };
}

/// Returns an error if this thread is inside a capture.
pub(crate) fn expect_no_capture(call: &'static str) -> Result<()> {
    if CAPTURES.get() == 0 { Ok(()) } else { Err(Error::InCapture { call }) }
}

impl Recording {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    pub(crate) fn add(&self, node: Node) {
        self.nodes().push(node);
    }

    /// Begins a capture, which ends when the returned value is dropped.
    pub(crate) fn begin(&self) -> Result<Capture<'_>> {
        if self.is_on.swap(true, Ordering::AcqRel) {
            return Err(Error::InCapture { call: "Stream::capture" });
        }
        CAPTURES.set(CAPTURES.get() + 1);
        Ok(Capture(self))
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A capture in progress.
pub(crate) struct Capture<'a>(&'a Recording);

impl Capture<'_> {
    /// Ends the capture with the nodes that were recorded.
    pub(crate) fn end(self) -> Vec<Node> {
        std::mem::take(&mut self.0.nodes())
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        CAPTURES.set(CAPTURES.get() - 1);
        self.0.is_on.store(false, Ordering::Release);
        let recorded = std::mem::take(&mut *self.0.nodes());
        drop(recorded);
    }
}

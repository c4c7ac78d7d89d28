//! What a stream runs, or records in a capture.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::allocation::{Allocation, ElementType};
use crate::arguments::{Argument, MANY_ARGUMENTS};
use crate::attributes::LaunchCounts;
use crate::backend::{Backend, Call, Handle, LoadedKernel, Packed};
use crate::capture::InCapture;
use crate::error::{Error, Result};
use crate::launch::Launch;

/// One operation of a stream, with references to what it needs.
#[derive(Clone)]
pub(crate) enum Node {
    Kernel(Arc<KernelNode>),
    Copy { to: Arc<Allocation>, from: Arc<Allocation>, element: ElementType, call: Call },
    Fill { buffer: Arc<Allocation>, byte: u8, element: ElementType, call: Call },
}

impl Node {
    /// A launch of a kernel.
    pub(crate) fn launch(
        (name, kernel): (&Arc<str>, &Arc<dyn LoadedKernel>),
        launch: Launch,
        arguments: &[Argument<'_>],
        packed: &[Packed<'_>],
        call: Call,
    ) -> Self {
        Self::Kernel(Arc::new(KernelNode {
            name: name.clone(),
            kernel: kernel.clone(),
            launch,
            call,
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
    pub(crate) fn run(&self, backend: &Arc<Backend>, stream: Handle) -> Result<LaunchCounts> {
        self.read().iter().try_for_each(|allocation| allocation.check())?;
        let outcome = self.enqueue(backend, stream);
        match self {
            Self::Kernel(kernel) => {
                Allocation::mark_after_fault(outcome, kernel.written.iter(), (backend, &kernel.name))
            }
            Self::Copy { to, .. } | Self::Fill { buffer: to, .. } => outcome.inspect(|_| to.unmark()),
        }
    }

    /// Puts the operation on a stream.
    pub(crate) fn enqueue(&self, backend: &Backend, stream: Handle) -> Result<LaunchCounts> {
        match self {
            Self::Kernel(_) if backend.is_dry_run => {}
            Self::Kernel(kernel) => return kernel.enqueue(stream),
            Self::Copy { to, from, element, call } => {
                backend.streams.copy(stream, &to.elements(*element), &from.elements(*element), call)?;
            }
            Self::Fill { buffer, byte, element, call } => {
                backend.streams.fill(stream, &buffer.elements(*element), *byte, call)?;
            }
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
    /// Where it was recorded.
    call: Call,
    /// The bytes of each argument, and their alignment.
    arguments: Vec<(Vec<u8>, usize)>,
    accessed: Vec<Arc<Allocation>>,
    written: Vec<Arc<Allocation>>,
}

impl KernelNode {
    fn enqueue(&self, stream: Handle) -> Result<LaunchCounts> {
        let packed: SmallVec<[Packed<'_>; MANY_ARGUMENTS]> =
            self.arguments.iter().map(|(bytes, align)| Packed { bytes, align: *align }).collect();
        self.kernel.launch(stream, &self.launch, &packed, self.call)
    }
}

/// What a stream records. Outside a capture, a launch only reads a flag.
#[derive(Default)]
pub(crate) struct Recording {
    is_on: AtomicBool,
    nodes: Mutex<Vec<Node>>,
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
        Ok(Capture { recording: self, _thread: InCapture::begin() })
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A capture in progress.
pub(crate) struct Capture<'a> {
    recording: &'a Recording,
    _thread: InCapture,
}

impl Capture<'_> {
    /// Ends the capture with the nodes that were recorded.
    pub(crate) fn end(self) -> Vec<Node> {
        std::mem::take(&mut self.recording.nodes())
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        self.recording.is_on.store(false, Ordering::Release);
        let recorded = std::mem::take(&mut *self.recording.nodes());
        drop(recorded);
    }
}

//! Graphs of the driver, captured from a stream of their own.

use std::collections::BTreeMap;
use std::panic::Location;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::{Context, Cuda, driver, raw};
use crate::backend::{Backend, Handle, LoadedGraph};
use crate::error::Result;

/// Written while a stream of a GPU is captured: the driver then refuses to synchronize the GPU's
/// primary context, which all devices of the process for that GPU share.
pub(super) type CaptureLock = &'static RwLock<()>;

/// The lock of a GPU. Another GPU has another one: synchronizing one GPU may wait for a kernel that
/// waits for work that the host has yet to put on the other.
pub(super) fn capture_lock(gpu: driver::DeviceHandle) -> CaptureLock {
    static LOCKS: Mutex<BTreeMap<driver::DeviceHandle, CaptureLock>> = Mutex::new(BTreeMap::new());
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    locks.entry(gpu).or_insert_with(|| Box::leak(Box::default()))
}

impl Context {
    /// Waits for the end of a capture; none begins before the guard is dropped.
    pub(super) fn without_capture(&self) -> RwLockReadGuard<'static, ()> {
        self.capture.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An executable graph.
pub(super) struct CudaGraph {
    context: Arc<Context>,
    /// The driver takes one launch of it at a time.
    executable: Mutex<driver::Handle>,
    /// Its kernels, and for each the synchronization count when the context last noted it.
    kernels: Vec<(Arc<str>, AtomicU64)>,
}

// SAFETY: the driver's functions may be called from any thread, and the executable is behind a lock.
unsafe impl Send for CudaGraph {}
// SAFETY: as above.
unsafe impl Sync for CudaGraph {}

impl CudaGraph {
    /// Captures what `enqueue` puts on a stream, and uploads the executable to the device, so that its first launch takes no
    /// longer than later ones.
    pub(super) fn new(
        cuda: &Cuda,
        kernels: Vec<Arc<str>>,
        enqueue: &dyn Fn(Handle) -> Result<()>,
    ) -> Result<Self> {
        let stream = cuda.create_stream(Location::caller())?;
        let executable = capture(cuda, stream, enqueue).and_then(|graph| instantiate(cuda, graph, stream));
        cuda.destroy_stream(stream);
        let kernels = kernels.into_iter().map(|name| (name, AtomicU64::new(u64::MAX))).collect();
        Ok(Self { context: cuda.context.clone(), executable: Mutex::new(executable?), kernels })
    }
}

/// The graph of what is put on the stream, which nobody else destroys.
fn capture(cuda: &Cuda, stream: Handle, enqueue: &dyn Fn(Handle) -> Result<()>) -> Result<driver::Handle> {
    let context = &cuda.context;
    let driver = context.enter()?;
    let _alone = context.capture.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the stream is alive and has no work.
    context.check(unsafe { driver.cuStreamBeginCapture_v2(raw(stream), driver::CAPTURE_RELAXED) })?;
    let recorded = enqueue(stream);
    let mut graph = null_mut();
    // SAFETY: the out-pointer is valid for the call, and this thread began the capture.
    let ended = context.check(unsafe { driver.cuStreamEndCapture(raw(stream), &mut graph) });
    match recorded.and(ended) {
        Ok(()) => Ok(graph),
        Err(error) => {
            if !graph.is_null() {
                destroy(context, graph);
            }
            Err(error)
        }
    }
}

/// The executable of a graph, which is destroyed.
fn instantiate(cuda: &Cuda, graph: driver::Handle, stream: Handle) -> Result<driver::Handle> {
    let context = &cuda.context;
    let driver = context.enter()?;
    let mut executable = null_mut();
    // SAFETY: the out-pointer is valid for the call, and the graph is alive.
    let made = context.check(unsafe { driver.cuGraphInstantiateWithFlags(&mut executable, graph, 0) });
    destroy(context, graph);
    made?;
    // SAFETY: the executable and the stream are alive.
    let uploaded = context.check(unsafe { driver.cuGraphUpload(executable, raw(stream)) });
    match uploaded.and_then(|()| cuda.synchronize_stream(stream)) {
        Ok(()) => Ok(executable),
        Err(error) => {
            // SAFETY: the executable is alive, and nothing else refers to it.
            let _ = context.check(unsafe { driver.cuGraphExecDestroy(executable) });
            Err(error)
        }
    }
}

fn destroy(context: &Context, graph: driver::Handle) {
    // SAFETY: the graph is alive, and nothing else refers to it.
    let _ = context.check(unsafe { context.driver.cuGraphDestroy(graph) });
}

impl LoadedGraph for CudaGraph {
    fn launch(&self, stream: Handle) -> Result<()> {
        let driver = self.context.enter()?;
        self.kernels.iter().for_each(|(name, noted)| self.context.note_launch(name, noted));
        let executable = self.executable.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the executable and the stream are alive. The graph has references to the kernels and
        // the memory of its nodes.
        self.context.check(unsafe { driver.cuGraphLaunch(*executable, raw(stream)) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        let Ok(driver) = self.context.enter() else { return };
        let executable = self.executable.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the executable is destroyed once; the driver lets launches in flight finish, and
        // freeing their memory waits for them.
        let _ = self.context.check(unsafe { driver.cuGraphExecDestroy(*executable) });
    }
}

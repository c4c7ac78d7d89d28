//! Graphs of the driver, captured from a stream of their own.

use std::panic::Location;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use super::context::Context;
use super::driver;
use crate::backend::{Handle, LoadedGraph, Streams};
use crate::error::Result;

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
        context: Arc<Context>,
        kernels: Vec<Arc<str>>,
        enqueue: &dyn Fn(Handle) -> Result<()>,
    ) -> Result<Self> {
        let stream = context.create_stream(Location::caller())?;
        let executable =
            capture(&context, stream, enqueue).and_then(|graph| instantiate(&context, graph, stream));
        context.destroy_stream(stream);
        let kernels = kernels.into_iter().map(|name| (name, AtomicU64::new(u64::MAX))).collect();
        Ok(Self { context, executable: Mutex::new(executable?), kernels })
    }
}

/// The graph of what is put on the stream, which nobody else destroys.
fn capture(
    context: &Context,
    stream: Handle,
    enqueue: &dyn Fn(Handle) -> Result<()>,
) -> Result<driver::Handle> {
    let driver = context.enter()?;
    let _alone = context.capture.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the stream is alive and has no work.
    context.check(unsafe { driver.cuStreamBeginCapture_v2(stream.pointer(), driver::CAPTURE_RELAXED) })?;
    let recorded = enqueue(stream);
    let mut graph = null_mut();
    // SAFETY: the out-pointer is valid for the call, and this thread began the capture.
    let ended = context.check(unsafe { driver.cuStreamEndCapture(stream.pointer(), &mut graph) });
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
fn instantiate(context: &Context, graph: driver::Handle, stream: Handle) -> Result<driver::Handle> {
    let driver = context.enter()?;
    let mut executable = null_mut();
    // SAFETY: the out-pointer is valid for the call, and the graph is alive.
    let made = context.check(unsafe { driver.cuGraphInstantiateWithFlags(&mut executable, graph, 0) });
    destroy(context, graph);
    made?;
    // SAFETY: the executable and the stream are alive.
    let uploaded = context.check(unsafe { driver.cuGraphUpload(executable, stream.pointer()) });
    match uploaded.and_then(|()| context.synchronize_stream(stream)) {
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
        self.context.check(unsafe { driver.cuGraphLaunch(*executable, stream.pointer()) })
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

//! Graphs: the work of a stream, recorded once and launched many times.
//!
//! [`Stream::capture`] keeps a list of nodes on the host. A backend that has graphs makes one of
//! the list ([`Backend::instantiate`]); elsewhere a launch of the graph runs the nodes. No code of the
//! user runs while the driver captures.

use std::sync::{Arc, Mutex, PoisonError};

use crate::attributes::LaunchCounts;
use crate::backend::{Backend, LoadedGraph, same_device};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::stream::{Event, Stream};

impl Stream {
    /// Records the work that `work` puts on the stream, in place of running it. The graph runs it at
    /// each launch, with the arguments that it has here, for less of the host's time than launches of
    /// its kernels take.
    ///
    /// Kernels, [`copy`](Self::copy) and [`fill`](Self::fill) are recorded, also those of other
    /// threads on this stream. The graph owns a reference to each kernel and each buffer among the
    /// arguments. Memory that a kernel reaches by an address in another argument must outlive the
    /// graph, as it must outlive a launch.
    ///
    /// ```
    /// # use warpwright_runtime::{Device, Launch};
    /// # let device = Device::named("emu:h200")?; let ptx = include_str!("../tests/ptx/vector.ptx");
    /// let add = device.load_ptx(ptx)?.function("add")?;
    /// let x = device.buffer_from(&[1.0f32, 2.0, 3.0])?;
    /// let mut sum = device.zeros::<f32>(3)?;
    /// let stream = device.stream()?;
    /// let graph = stream.capture(|stream| add.launch(stream, Launch::new(1, 128), (&sum, &x, &sum, 3u32)))?;
    /// for _ in 0..5 {
    ///     graph.launch(&stream)?;
    /// }
    /// assert_eq!(sum.to_vec()?, [5.0, 10.0, 15.0]);
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `work` fails; it waits for the stream, reads or overwrites a buffer from the host, or uses an
    /// event of the stream, which no graph records; or the driver refuses the graph.
    pub fn capture<T, E: From<Error>>(&self, work: impl FnOnce(&Self) -> Result<T, E>) -> Result<Graph, E> {
        let capture = self.capture.begin()?;
        work(self)?;
        Ok(Graph::new(&self.backend, capture.end())?)
    }
}

/// Work that [`Stream::capture`] recorded. It runs in the order in which it was recorded.
///
/// Operations that keep memory for a stream, such as the workspaces of the kernel library, keep it for
/// the captured one: launch the graph on that stream, or order the two by events.
pub struct Graph {
    // Before the nodes: it is destroyed first.
    loaded: Option<Box<dyn LoadedGraph>>,
    nodes: Vec<Node>,
    /// Where its nodes are launched one by one: reached when its last launch is complete.
    last: Mutex<Option<Event>>,
    backend: Arc<Backend>,
}

impl Graph {
    fn new(backend: &Arc<Backend>, nodes: Vec<Node>) -> Result<Self> {
        let mut kernels: Vec<_> = nodes.iter().filter_map(Node::kernel_name).cloned().collect();
        kernels.sort_unstable();
        kernels.dedup();
        let enqueue = |stream| nodes.iter().try_for_each(|node| node.enqueue(backend, stream).map(drop));
        let (loaded, last) = (backend.streams.clone().instantiate(kernels, &enqueue)?, Mutex::default());
        Ok(Self { loaded, nodes, last, backend: backend.clone() })
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

    /// Starts all work of the graph on a stream, after the previous launch of the graph has ended. In a capture of that stream, the work becomes part of
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
            None => self.launch_nodes(stream),
        }
    }

    /// Launches the nodes one by one. As on a GPU, a launch of a graph begins after the one before has
    /// ended, on whichever stream that was (CUDA driver API, `cuGraphLaunch`).
    fn launch_nodes(&self, stream: &Stream) -> Result<LaunchCounts> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(event) = &*last {
            stream.wait(event)?;
        }
        let run = |counts, node: &Node| Ok(counts + node.run(&self.backend, stream.handle)?);
        let launched = self.nodes.iter().try_fold(LaunchCounts::default(), run);
        *last = Some(stream.record()?);
        launched
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph({} nodes)", self.len())
    }
}

//! Graphs.

use std::ffi::c_int;

use super::memory::{Copy3D, sides};
use super::registry::{function, major};
use crate::driver::graph::{self as driver, UpdateResult};
use crate::driver::structures::{FillNode, HostNode};
use crate::edge::{In, Out, functions};
use crate::event::Event;
use crate::graph::{EXECUTABLES, Executable, Graph};
use crate::handles::Handle;
use crate::launch::{KernelLaunch, parameters};
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::transfer::{self, Shape, Side};
use crate::work::Work;
use warpwright_runtime::Launch;

/// `cudaKernelNodeParams`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNode {
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: In<usize>,
    extra: In<usize>,
}

impl KernelNode {
    fn work(&self) -> Result<Work> {
        let function = function(self.function)?;
        let parameters = parameters(&function, self.parameters, self.extra)?;
        let launch = Launch::new(self.grid, self.block).dynamic_shared(self.shared_bytes);
        Ok(Work::Launch(KernelLaunch::new(function, launch, parameters)?))
    }
}

fn plain(to: u64, from: u64, bytes: usize, direction: c_int) -> Result<Work> {
    let (to_is, from_is) = sides(direction)?;
    let (to, from) = ((Side::plain(to), to_is), (Side::plain(from), from_is));
    let copy = transfer::prepare(to, from, Shape::plain(bytes))?;
    Ok(copy.map_or(Work::Empty, Work::Copy))
}

functions! { super::guard; TABLE:
    10000 cudaGraphCreate: (graph: Out<usize>, flags: u32) { driver::cuGraphCreate(graph, flags).ok() }
    10000 cudaGraphDestroy: (graph: Handle<Graph>) { driver::cuGraphDestroy(graph).ok() }
    10000 cudaGraphClone: (clone: Out<usize>, graph: Handle<Graph>) { driver::cuGraphClone(clone, graph).ok() }
    10000 cudaGraphAddKernelNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, kernel: In<KernelNode>,
    ) {
        driver::add(node, graph, (after, count), kernel.get()?.work()?)
    }
    10000 cudaGraphKernelNodeSetParams: (node: usize, kernel: In<KernelNode>) {
        driver::set_work(node, kernel.get()?.work()?)
    }
    10000 cudaGraphExecKernelNodeSetParams: (executable: Handle<Executable>, node: usize, kernel: In<KernelNode>) {
        driver::set_instantiated(executable, node, kernel.get()?.work()?)
    }
    10000 cudaGraphAddMemcpyNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, copy: In<Copy3D>,
    ) {
        driver::add(node, graph, (after, count), copy.get()?.work()?)
    }
    11010 cudaGraphAddMemcpyNode1D: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, to: u64, from: u64, bytes: usize,
        direction: c_int,
    ) {
        driver::add(node, graph, (after, count), plain(to, from, bytes, direction)?)
    }
    11010 cudaGraphMemcpyNodeSetParams1D: (node: usize, to: u64, from: u64, bytes: usize, direction: c_int) {
        driver::set_work(node, plain(to, from, bytes, direction)?)
    }
    11010 cudaGraphExecMemcpyNodeSetParams1D: (
        executable: Handle<Executable>, node: usize, to: u64, from: u64, bytes: usize, direction: c_int,
    ) {
        driver::set_instantiated(executable, node, plain(to, from, bytes, direction)?)
    }
    10000 cudaGraphAddMemsetNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, fill: In<FillNode>,
    ) {
        driver::add(node, graph, (after, count), fill.get()?.work()?)
    }
    10000 cudaGraphMemsetNodeSetParams: (node: usize, fill: In<FillNode>) {
        driver::set_work(node, fill.get()?.work()?)
    }
    10000 cudaGraphAddHostNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, host: In<HostNode>,
    ) {
        driver::cuGraphAddHostNode(node, graph, after, count, host).ok()
    }
    10000 cudaGraphAddChildGraphNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, child: Handle<Graph>,
    ) {
        driver::cuGraphAddChildGraphNode(node, graph, after, count, child).ok()
    }
    10000 cudaGraphChildGraphNodeGetGraph: (node: usize, graph: Out<usize>) {
        driver::cuGraphChildGraphNodeGetGraph(node, graph).ok()
    }
    10000 cudaGraphAddEmptyNode: (node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize) {
        driver::cuGraphAddEmptyNode(node, graph, after, count).ok()
    }
    11010 cudaGraphAddEventRecordNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, event: Handle<Event>,
    ) {
        driver::cuGraphAddEventRecordNode(node, graph, after, count, event).ok()
    }
    11010 cudaGraphAddEventWaitNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, event: Handle<Event>,
    ) {
        driver::cuGraphAddEventWaitNode(node, graph, after, count, event).ok()
    }
    10000 cudaGraphGetNodes: (graph: Handle<Graph>, nodes: Out<usize>, count: Out<usize>) {
        driver::cuGraphGetNodes(graph, nodes, count).ok()
    }
    10000 cudaGraphGetRootNodes: (graph: Handle<Graph>, nodes: Out<usize>, count: Out<usize>) {
        driver::cuGraphGetRootNodes(graph, nodes, count).ok()
    }
    // CUDA 13 has the data of the edges before the count.
    10000 cudaGraphGetEdges: (
        graph: Handle<Graph>, from: Out<usize>, to: Out<usize>, fourth: Out<usize>, fifth: Out<usize>,
    ) {
        driver::cuGraphGetEdges(graph, from, to, if major() == 12 { fourth } else { fifth }).ok()
    }
    10000 cudaGraphAddDependencies: (
        graph: Handle<Graph>, from: In<usize>, to: In<usize>, fourth: usize, fifth: usize,
    ) {
        driver::cuGraphAddDependencies(graph, from, to, if major() == 12 { fourth } else { fifth }).ok()
    }
    10000 cudaGraphNodeGetDependencies: (node: usize, nodes: Out<usize>, third: Out<usize>, fourth: Out<usize>) {
        driver::cuGraphNodeGetDependencies(node, nodes, if major() == 12 { third } else { fourth }).ok()
    }
    10000 cudaGraphNodeGetDependentNodes: (node: usize, nodes: Out<usize>, third: Out<usize>, fourth: Out<usize>) {
        driver::cuGraphNodeGetDependentNodes(node, nodes, if major() == 12 { third } else { fourth }).ok()
    }
    10000 cudaGraphHostNodeSetParams: (node: usize, host: In<HostNode>) {
        driver::cuGraphHostNodeSetParams(node, host).ok()
    }
    10020 cudaGraphExecHostNodeSetParams: (executable: Handle<Executable>, node: usize, host: In<HostNode>) {
        driver::cuGraphExecHostNodeSetParams(executable, node, host).ok()
    }
    10000 cudaGraphMemcpyNodeSetParams: (node: usize, copy: In<Copy3D>) {
        driver::set_work(node, copy.get()?.work()?)
    }
    10020 cudaGraphExecMemcpyNodeSetParams: (executable: Handle<Executable>, node: usize, copy: In<Copy3D>) {
        driver::set_instantiated(executable, node, copy.get()?.work()?)
    }
    10020 cudaGraphExecMemsetNodeSetParams: (executable: Handle<Executable>, node: usize, fill: In<FillNode>) {
        driver::set_instantiated(executable, node, fill.get()?.work()?)
    }
    10000 cudaGraphNodeGetType: (node: usize, to: Out<c_int>) { driver::cuGraphNodeGetType(node, to).ok() }
    10000 cudaGraphDestroyNode: (node: usize) { driver::cuGraphDestroyNode(node).ok() }
    10000 cudaGraphInstantiate: (executable: Out<usize>, graph: Handle<Graph>) { driver::instantiate(executable, graph) }
    11040 cudaGraphInstantiateWithFlags: (executable: Out<usize>, graph: Handle<Graph>, flags: u64) {
        driver::cuGraphInstantiateWithFlags(executable, graph, flags).ok()
    }
    10000 cudaGraphLaunch | cudaGraphLaunch_ptsz: (executable: Handle<Executable>, stream: Handle<Stream>) {
        driver::cuGraphLaunch(executable, stream).ok()
    }
    11010 cudaGraphUpload | cudaGraphUpload_ptsz: (executable: Handle<Executable>, stream: Handle<Stream>) {
        driver::cuGraphUpload(executable, stream).ok()
    }
    10000 cudaGraphExecDestroy: (executable: Handle<Executable>) { EXECUTABLES.remove(executable).map(|_| ()) }
    10000 cudaGraphExecUpdate: (executable: Handle<Executable>, graph: Handle<Graph>, result: Out<UpdateResult>) {
        if executable.0 == 0 || graph.0 == 0 { return Err(Status::INVALID_VALUE) }
        driver::cuGraphExecUpdate_v2(executable, graph, result).ok()
    }
}

//! Graphs.

use std::ffi::c_int;

use super::guard;
use super::structures::{Copy3D, FillNode, HostNode, KernelNode, KernelNode2};
use crate::context::current;
use crate::edge::{In, Out, functions};
use crate::event::{EVENTS, Event};
use crate::graph::{EXECUTABLES, Executable, GRAPHS, Graph};
use crate::handles::Handle;
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::work::Work;

/// The nodes that a new one waits for.
type After = (In<usize>, usize);

/// Adds a node to a graph.
pub(crate) fn add(node: Out<usize>, graph: Handle<Graph>, (after, count): After, work: Work) -> Result<()> {
    node.check()?;
    node.set(GRAPHS.get(graph)?.add(work, after.array(count)?)?)
}

/// Writes up to as many numbers as the caller has room for, or their count.
fn list(numbers: &[usize], to: Out<usize>, count: Out<usize>) -> Result<()> {
    let room = if to.is_null() { 0 } else { count.get()? };
    for (index, number) in numbers.iter().take(room).enumerate() {
        to.at(index).set(*number)?;
    }
    count.set(if to.is_null() { numbers.len() } else { numbers.len().min(room) })
}

/// Both ends of each edge.
fn edges(graph: &Graph) -> Vec<(usize, usize)> {
    let nodes = graph.nodes();
    nodes.iter().flat_map(|node| node.after.iter().map(|earlier| (*earlier, node.number))).collect()
}

fn list_edges(graph: Handle<Graph>, from: Out<usize>, to: Out<usize>, count: Out<usize>) -> Result<()> {
    let (from_nodes, to_nodes): (Vec<_>, Vec<_>) = edges(&*GRAPHS.get(graph)?).into_iter().unzip();
    let room = if from.is_null() { 0 } else { count.get()? };
    list(&from_nodes, from, count)?;
    if !to.is_null() {
        count.set(room)?;
        list(&to_nodes, to, count)?;
    }
    Ok(())
}

fn dependents(node: usize) -> Result<Vec<usize>> {
    let graph = Graph::of_node(node)?;
    Ok(edges(&graph).into_iter().filter(|(from, _)| *from == node).map(|(_, to)| to).collect())
}

fn dependencies(node: usize) -> Result<Vec<usize>> {
    Graph::of_node(node)?.change(node, |node| Ok(node.after.clone()))
}

fn change_edges(
    graph: Handle<Graph>,
    (from, to, count): (In<usize>, In<usize>, usize),
    change: impl Fn(&mut Vec<usize>, usize),
) -> Result<()> {
    let graph = GRAPHS.get(graph)?;
    for (from, to) in from.array(count)?.into_iter().zip(to.array(count)?) {
        graph.change(from, |_| Ok(()))?;
        graph.change(to, |node| {
            change(&mut node.after, from);
            Ok(())
        })?;
    }
    Ok(())
}

/// Makes an executable of a graph.
pub(crate) fn instantiate(executable: Out<usize>, graph: Handle<Graph>) -> Result<()> {
    executable.check()?;
    executable.set(GRAPHS.get(graph)?.instantiate()?.number)
}

pub(crate) fn set_work(node: usize, work: Work) -> Result<()> {
    Graph::of_node(node)?.change(node, |node| {
        node.work = work;
        Ok(())
    })
}

/// Changes a node of a graph that is instantiated.
pub(crate) fn set_instantiated(executable: Handle<Executable>, node: usize, work: Work) -> Result<()> {
    let executable = EXECUTABLES.get(executable)?;
    let mut ordered = executable.ordered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    ordered.iter_mut().find(|of| of.number == node).ok_or(Status::INVALID_VALUE)?.work = work;
    Ok(())
}

/// The kind of a node, `CUgraphNodeType`.
fn kind(work: &Work) -> c_int {
    match work {
        Work::Launch(_) => 0,
        Work::Copy(_) => 1,
        Work::Fill(_) => 2,
        Work::Host(..) => 3,
        Work::Child(_) => 4,
        Work::Empty => 5,
        Work::Record(_) => 7,
        Work::Wait(_) => 6,
        Work::Free(_) => 11,
        Work::Write(..) | Work::Await(..) => 12,
    }
}

/// `CUgraphExecUpdateResultInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UpdateResult {
    result: c_int,
    node: usize,
    from: usize,
}

functions! { guard; TABLE:
    10000 cuGraphCreate: (graph: Out<usize>, flags: u32) {
        current()?;
        graph.check()?;
        if flags != 0 { return Err(Status::INVALID_VALUE) }
        graph.set(Graph::create().handle())
    }
    10000 cuGraphDestroy: (graph: Handle<Graph>) {
        GRAPHS.remove(graph).map(|_| ())
    }
    10000 cuGraphClone: (clone: Out<usize>, graph: Handle<Graph>) {
        clone.check()?;
        clone.set(GRAPHS.get(graph)?.duplicate().handle())
    }
    10000 cuGraphAddKernelNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, kernel: In<KernelNode>,
    ) {
        add(node, graph, (after, count), kernel.get()?.work(0)?)
    }
    12000 cuGraphAddKernelNode_v2: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, kernel: In<KernelNode2>,
    ) {
        let kernel = kernel.get()?;
        add(node, graph, (after, count), kernel.node.work(kernel.kernel)?)
    }
    10000 cuGraphKernelNodeSetParams: (node: usize, kernel: In<KernelNode>) {
        set_work(node, kernel.get()?.work(0)?)
    }
    12000 cuGraphKernelNodeSetParams_v2: (node: usize, kernel: In<KernelNode2>) {
        let kernel = kernel.get()?;
        set_work(node, kernel.node.work(kernel.kernel)?)
    }
    10000 cuGraphExecKernelNodeSetParams: (executable: Handle<Executable>, node: usize, kernel: In<KernelNode>) {
        set_instantiated(executable, node, kernel.get()?.work(0)?)
    }
    12000 cuGraphExecKernelNodeSetParams_v2: (executable: Handle<Executable>, node: usize, kernel: In<KernelNode2>) {
        let kernel = kernel.get()?;
        set_instantiated(executable, node, kernel.node.work(kernel.kernel)?)
    }
    10000 cuGraphAddMemcpyNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, copy: In<Copy3D>, _context: usize,
    ) {
        add(node, graph, (after, count), copy.get()?.work()?)
    }
    10000 cuGraphMemcpyNodeSetParams: (node: usize, copy: In<Copy3D>) {
        set_work(node, copy.get()?.work()?)
    }
    10020 cuGraphExecMemcpyNodeSetParams: (
        executable: Handle<Executable>, node: usize, copy: In<Copy3D>, _context: usize,
    ) {
        set_instantiated(executable, node, copy.get()?.work()?)
    }
    10000 cuGraphAddMemsetNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, fill: In<FillNode>, _context: usize,
    ) {
        add(node, graph, (after, count), fill.get()?.work()?)
    }
    10000 cuGraphMemsetNodeSetParams: (node: usize, fill: In<FillNode>) {
        set_work(node, fill.get()?.work()?)
    }
    10020 cuGraphExecMemsetNodeSetParams: (
        executable: Handle<Executable>, node: usize, fill: In<FillNode>, _context: usize,
    ) {
        set_instantiated(executable, node, fill.get()?.work()?)
    }
    10000 cuGraphAddHostNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, host: In<HostNode>,
    ) {
        let host = host.get()?;
        add(node, graph, (after, count), Work::Host(host.function, host.argument))
    }
    10000 cuGraphHostNodeSetParams: (node: usize, host: In<HostNode>) {
        let host = host.get()?;
        set_work(node, Work::Host(host.function, host.argument))
    }
    10020 cuGraphExecHostNodeSetParams: (executable: Handle<Executable>, node: usize, host: In<HostNode>) {
        let host = host.get()?;
        set_instantiated(executable, node, Work::Host(host.function, host.argument))
    }
    10000 cuGraphAddChildGraphNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, child: Handle<Graph>,
    ) {
        if child.0 == graph.0 { return Err(Status::INVALID_VALUE) }
        add(node, graph, (after, count), Work::Child(GRAPHS.get(child)?.duplicate()))
    }
    10000 cuGraphChildGraphNodeGetGraph: (node: usize, graph: Out<usize>) {
        let child = Graph::of_node(node)?.change(node, |node| match &node.work {
            Work::Child(child) => Ok(child.handle()),
            _ => Err(Status::INVALID_VALUE),
        })?;
        graph.set(child)
    }
    10000 cuGraphAddEmptyNode: (node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize) {
        add(node, graph, (after, count), Work::Empty)
    }
    11010 cuGraphAddEventRecordNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, event: Handle<Event>,
    ) {
        add(node, graph, (after, count), Work::Record(EVENTS.get(event)?))
    }
    11010 cuGraphAddEventWaitNode: (
        node: Out<usize>, graph: Handle<Graph>, after: In<usize>, count: usize, event: Handle<Event>,
    ) {
        add(node, graph, (after, count), Work::Wait(EVENTS.get(event)?))
    }
    10000 cuGraphGetNodes: (graph: Handle<Graph>, nodes: Out<usize>, count: Out<usize>) {
        let graph = GRAPHS.get(graph)?;
        let numbers: Vec<usize> = graph.nodes().iter().map(|node| node.number).collect();
        list(&numbers, nodes, count)
    }
    10000 cuGraphGetRootNodes: (graph: Handle<Graph>, nodes: Out<usize>, count: Out<usize>) {
        let graph = GRAPHS.get(graph)?;
        let roots = |node: &&crate::graph::Node| node.after.is_empty();
        let numbers: Vec<usize> = graph.nodes().iter().filter(roots).map(|node| node.number).collect();
        list(&numbers, nodes, count)
    }
    10000 cuGraphGetEdges: (graph: Handle<Graph>, from: Out<usize>, to: Out<usize>, count: Out<usize>) {
        list_edges(graph, from, to, count)
    }
    12030 cuGraphGetEdges_v2: (
        graph: Handle<Graph>, from: Out<usize>, to: Out<usize>, _data: Out<u64>, count: Out<usize>,
    ) {
        list_edges(graph, from, to, count)
    }
    10000 cuGraphNodeGetType: (node: usize, to: Out<c_int>) {
        to.set(Graph::of_node(node)?.change(node, |node| Ok(kind(&node.work)))?)
    }
    10000 cuGraphNodeGetDependencies: (node: usize, nodes: Out<usize>, count: Out<usize>) {
        list(&dependencies(node)?, nodes, count)
    }
    12030 cuGraphNodeGetDependencies_v2: (node: usize, nodes: Out<usize>, _data: Out<u64>, count: Out<usize>) {
        list(&dependencies(node)?, nodes, count)
    }
    10000 cuGraphNodeGetDependentNodes: (node: usize, nodes: Out<usize>, count: Out<usize>) {
        list(&dependents(node)?, nodes, count)
    }
    12030 cuGraphNodeGetDependentNodes_v2: (node: usize, nodes: Out<usize>, _data: Out<u64>, count: Out<usize>) {
        list(&dependents(node)?, nodes, count)
    }
    10000 cuGraphAddDependencies: (graph: Handle<Graph>, from: In<usize>, to: In<usize>, count: usize) {
        change_edges(graph, (from, to, count), |after, node| after.push(node))
    }
    12030 cuGraphAddDependencies_v2: (
        graph: Handle<Graph>, from: In<usize>, to: In<usize>, _data: In<u64>, count: usize,
    ) {
        change_edges(graph, (from, to, count), |after, node| after.push(node))
    }
    10000 cuGraphRemoveDependencies: (graph: Handle<Graph>, from: In<usize>, to: In<usize>, count: usize) {
        change_edges(graph, (from, to, count), |after, node| after.retain(|of| *of != node))
    }
    12030 cuGraphRemoveDependencies_v2: (
        graph: Handle<Graph>, from: In<usize>, to: In<usize>, _data: In<u64>, count: usize,
    ) {
        change_edges(graph, (from, to, count), |after, node| after.retain(|of| *of != node))
    }
    10000 cuGraphDestroyNode: (node: usize) {
        Graph::of_node(node)?.remove(node)
    }
    11000 cuGraphInstantiate_v2: (
        executable: Out<usize>, graph: Handle<Graph>, _error: Out<usize>, _log: Out<u8>, _room: usize,
    ) {
        instantiate(executable, graph)
    }
    11040 cuGraphInstantiateWithFlags: (executable: Out<usize>, graph: Handle<Graph>, flags: u64) {
        if flags & !15 != 0 { return Err(Status::INVALID_VALUE) }
        instantiate(executable, graph)
    }
    12000 cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz: (
        executable: Out<usize>, graph: Handle<Graph>, parameters: Out<[u64; 4]>,
    ) {
        parameters.get()?;
        instantiate(executable, graph)
    }
    11040 cuGraphExecGetFlags: (executable: Handle<Executable>, flags: Out<u64>) {
        EXECUTABLES.get(executable)?;
        flags.set(0)
    }
    10000 cuGraphLaunch | cuGraphLaunch_ptsz: (executable: Handle<Executable>, stream: Handle<Stream>) {
        let (executable, stream) = (EXECUTABLES.get(executable)?, Stream::of(stream)?);
        let nodes = executable.ordered.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        nodes.into_iter().try_for_each(|node| stream.enqueue(node.work))
    }
    11010 cuGraphUpload | cuGraphUpload_ptsz: (executable: Handle<Executable>, stream: Handle<Stream>) {
        EXECUTABLES.get(executable)?;
        Stream::of(stream).map(|_| ())
    }
    10000 cuGraphExecDestroy: (executable: Handle<Executable>) {
        EXECUTABLES.remove(executable).map(|_| ())
    }
    12000 cuGraphExecUpdate_v2: (executable: Handle<Executable>, graph: Handle<Graph>, result: Out<UpdateResult>) {
        let (executable, graph) = (EXECUTABLES.get(executable)?, GRAPHS.get(graph)?);
        let new = graph.ordered()?;
        let mut ordered = executable.ordered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_same = ordered.len() == new.len()
            && ordered.iter().zip(&new).all(|(old, new)| kind(&old.work) == kind(&new.work));
        // CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
        result.set(UpdateResult { result: if is_same { 0 } else { 2 }, node: 0, from: 0 })?;
        if !is_same { return Err(Status(910)) }
        ordered.iter_mut().zip(new).for_each(|(old, new)| old.work = new.work);
        Ok(())
    }
}

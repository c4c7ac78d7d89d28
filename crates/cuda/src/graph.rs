//! Graphs: nodes of work and the edges between them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpwright_runtime::{RawDevice, RawStream};

use crate::handles::{Handles, number};
use crate::status::{Result, Status};
use crate::work::Work;

/// Graphs by their handles.
pub(crate) static GRAPHS: Handles<Graph> = Handles::new();
/// Graphs that can be launched, by their handles.
pub(crate) static EXECUTABLES: Handles<Executable> = Handles::new();
/// The graph of each node.
static OF_NODES: Mutex<Option<HashMap<usize, Arc<Graph>>>> = Mutex::new(None);

/// A node.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) work: Work,
    /// The nodes that it waits for, by their handles.
    pub(crate) after: Vec<usize>,
}

/// A graph.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) number: AtomicUsize,
    nodes: Mutex<Vec<Node>>,
}

/// A graph that can be launched.
pub(crate) struct Executable {
    pub(crate) number: usize,
    /// The order in which its nodes run.
    pub(crate) ordered: Mutex<Vec<Node>>,
}

impl Graph {
    pub(crate) fn create() -> Arc<Self> {
        GRAPHS.add(|number| Self { number: AtomicUsize::new(number), nodes: Mutex::default() }).1
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its handle.
    pub(crate) fn handle(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    /// The graph of a node.
    pub(crate) fn of_node(node: usize) -> Result<Arc<Self>> {
        let all = OF_NODES.lock().unwrap_or_else(PoisonError::into_inner);
        all.as_ref().and_then(|all| all.get(&node).cloned()).ok_or(Status::INVALID_VALUE)
    }

    /// Adds a node behind others.
    pub(crate) fn add(self: &Arc<Self>, work: Work, after: Vec<usize>) -> Result<usize> {
        let mut nodes = self.nodes();
        if !after.iter().all(|earlier| nodes.iter().any(|node| node.number == *earlier)) {
            return Err(Status::INVALID_VALUE);
        }
        let number = number();
        nodes.push(Node { number, work, after });
        OF_NODES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_default()
            .insert(number, self.clone());
        Ok(number)
    }

    /// Changes a node.
    pub(crate) fn change<T>(&self, node: usize, change: impl FnOnce(&mut Node) -> Result<T>) -> Result<T> {
        let mut nodes = self.nodes();
        change(nodes.iter_mut().find(|of| of.number == node).ok_or(Status::INVALID_VALUE)?)
    }

    /// Removes a node and its edges.
    pub(crate) fn remove(&self, node: usize) -> Result<()> {
        let mut nodes = self.nodes();
        let index = nodes.iter().position(|of| of.number == node).ok_or(Status::INVALID_VALUE)?;
        nodes.remove(index);
        nodes.iter_mut().for_each(|of| of.after.retain(|earlier| *earlier != node));
        OF_NODES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().remove(&node);
        Ok(())
    }

    /// A copy, whose nodes have handles of their own.
    pub(crate) fn duplicate(&self) -> Arc<Self> {
        let copy = Self::create();
        let numbers: HashMap<usize, usize> =
            self.nodes().iter().map(|node| (node.number, number())).collect();
        let mut nodes = self.nodes().clone();
        for node in &mut nodes {
            node.number = numbers[&node.number];
            node.after.iter_mut().for_each(|earlier| *earlier = numbers[earlier]);
        }
        let mut all = OF_NODES.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_or_insert_default().extend(nodes.iter().map(|node| (node.number, copy.clone())));
        *copy.nodes() = nodes;
        drop(all);
        copy
    }

    /// The nodes in an order in which they can run; an error if they wait in a circle.
    pub(crate) fn ordered(&self) -> Result<Vec<Node>> {
        let mut left = self.nodes().clone();
        let mut ordered: Vec<Node> = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let waits =
                |node: &Node| node.after.iter().any(|earlier| left.iter().any(|of| of.number == *earlier));
            let (later, ready): (Vec<_>, Vec<_>) = left.iter().cloned().partition(waits);
            if ready.is_empty() {
                return Err(Status::INVALID_VALUE);
            }
            ordered.extend(ready);
            left = later;
        }
        Ok(ordered)
    }

    /// Runs its nodes one after another.
    pub(crate) fn run(&self, raw: &RawDevice, stream: RawStream) -> warpwright_runtime::Result<()> {
        let ordered = self.ordered().unwrap_or_default();
        ordered.iter().try_for_each(|node| node.work.run(raw, stream))
    }

    /// A graph that can be launched.
    pub(crate) fn instantiate(self: &Arc<Self>) -> Result<Arc<Executable>> {
        let ordered = self.ordered()?;
        let make = |number| Executable { number, ordered: Mutex::new(ordered) };
        Ok(EXECUTABLES.add(make).1)
    }
}

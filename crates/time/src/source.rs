//! Where the simulation gets the traces of warps from.

use warpwright_events::{ResidentClusters, Turn, TurnEnd};

use crate::recorder::LaunchRecorder;
use crate::trace::{ClusterTrace, Excerpt};

/// The clusters of a launch.
pub(crate) trait Source {
    /// Starts the next cluster of the grid. Returns its number, and its trace as far as it is known.
    fn start(&mut self) -> Option<(usize, ClusterTrace)>;

    /// Runs a warp of a cluster from a cycle on, and takes what it does.
    fn run_warp(&mut self, cluster: usize, warp: usize, cycle: u64, excerpt: &mut Excerpt) -> Turn;

    /// Ends asynchronous work of a cluster, none of whose warps can go on. Returns whether there was any.
    fn complete(&mut self, cluster: usize) -> bool;
}

/// Clusters whose traces are complete.
pub(crate) struct Recorded(std::vec::IntoIter<ClusterTrace>);

impl Recorded {
    pub(crate) fn new(traces: Vec<ClusterTrace>) -> Self {
        Self(traces.into_iter())
    }
}

impl Source for Recorded {
    fn start(&mut self) -> Option<(usize, ClusterTrace)> {
        Some((0, self.0.next()?))
    }

    fn run_warp(&mut self, _: usize, _: usize, _: u64, _: &mut Excerpt) -> Turn {
        Turn { end: TurnEnd::Exits, changed: false }
    }

    fn complete(&mut self, _: usize) -> bool {
        false
    }
}

/// Clusters that the emulator runs turn by turn, as the simulation asks.
pub(crate) struct Scheduled<'a> {
    clusters: &'a mut dyn ResidentClusters,
    recorder: &'a LaunchRecorder,
}

impl<'a> Scheduled<'a> {
    pub(crate) fn new(clusters: &'a mut dyn ResidentClusters, recorder: &'a LaunchRecorder) -> Self {
        Self { clusters, recorder }
    }
}

impl Source for Scheduled<'_> {
    fn start(&mut self) -> Option<(usize, ClusterTrace)> {
        let number = self.clusters.start()?;
        Some((number, self.recorder.started()))
    }

    fn run_warp(&mut self, cluster: usize, warp: usize, cycle: u64, excerpt: &mut Excerpt) -> Turn {
        let turn = self.clusters.run_warp(cluster, warp, cycle);
        std::mem::swap(excerpt, &mut self.recorder.excerpt());
        turn
    }

    fn complete(&mut self, cluster: usize) -> bool {
        self.clusters.complete(cluster)
    }
}

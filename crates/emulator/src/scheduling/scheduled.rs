//! Clusters whose warps run when an observer of the launch says so.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use warpwright_events::{Fault, ResidentClusters, Turn, TurnEnd};

use crate::scheduling::cluster::Cluster;
use crate::scheduling::grid::{Grid, Tally};
use crate::scheduling::warp::Pause;

/// The clusters of a grid, while an observer schedules them.
pub(super) struct Scheduled<'g, 'l> {
    grid: &'g Grid<'l>,
    /// Clusters that run, by number.
    clusters: Vec<Option<Cluster>>,
    /// A cluster that has ended, for reuse.
    spare: Option<Cluster>,
    tally: Tally,
}

impl<'g, 'l> Scheduled<'g, 'l> {
    pub(super) fn new(grid: &'g Grid<'l>) -> Self {
        Self { grid, clusters: Vec::new(), spare: None, tally: Tally::default() }
    }

    /// Runs what the observer has not, and returns the totals.
    pub(super) fn finish(self) -> Tally {
        let mut waiting: VecDeque<Cluster> = self.clusters.into_iter().flatten().collect();
        for cluster in &mut waiting {
            cluster.blocks.iter_mut().for_each(|block| block.time_stands_at = None);
        }
        self.grid.work(waiting, self.tally)
    }

    fn run(&mut self, number: usize, warp: usize, cycle: u64) -> Result<Turn, Box<Fault>> {
        let Some(Some(cluster)) = self.clusters.get_mut(number) else {
            return Ok(Turn { end: TurnEnd::Exits, changed: false });
        };
        let context = self.grid.context;
        let (pause, changed) = cluster.turn(context, self.grid.code, warp, cycle)?;
        let end = match pause {
            Pause::Exited => TurnEnd::Exits,
            Pause::Blocked => TurnEnd::Waits,
            Pause::Turn { waiting } => match cluster.next_ordered(warp) {
                Some(pc) => TurnEnd::Before(pc),
                None if waiting => TurnEnd::Waits,
                None => TurnEnd::Yields,
            },
        };
        if end == TurnEnd::Exits && cluster.has_ended() {
            cluster.end(context)?;
            let mut ended = self.clusters[number].take().expect("it was there");
            self.grid.finish(&mut ended, &mut self.tally);
            self.spare = Some(ended);
        }
        Ok(Turn { end, changed })
    }

    /// The launch has failed.
    fn fail(&self, fault: Box<Fault>) -> Turn {
        self.grid.fail(fault);
        Turn { end: TurnEnd::Fails, changed: false }
    }
}

impl ResidentClusters for Scheduled<'_, '_> {
    fn start(&mut self) -> Option<usize> {
        let cluster = self.grid.admit(&mut self.spare)?;
        let number = self.clusters.iter().position(Option::is_none).unwrap_or_else(|| {
            self.clusters.push(None);
            self.clusters.len() - 1
        });
        self.clusters[number] = Some(cluster);
        Some(number)
    }

    fn run_warp(&mut self, cluster: usize, warp: usize, cycle: u64) -> Turn {
        if self.grid.context.stop.load(Ordering::Relaxed) {
            return Turn { end: TurnEnd::Fails, changed: false };
        }
        self.run(cluster, warp, cycle).unwrap_or_else(|fault| self.fail(fault))
    }

    fn complete(&mut self, cluster: usize) -> bool {
        let Some(Some(cluster)) = self.clusters.get_mut(cluster) else { return false };
        let completed = cluster.complete(self.grid.context, self.grid.code);
        completed.unwrap_or_else(|fault| {
            self.fail(fault);
            false
        })
    }
}

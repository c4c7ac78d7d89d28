//! How a team goes from row to row.
//!
//! A CTA takes one row (or a cluster of them does); the device starts the next where one has ended. Two things keep memory busy in the
//! meantime. While a CTA works, it asks L2 for the row that will be read in its place. And a grid begins before the one
//! in front of it has ended: it asks L2 for its first rows, which is no access that an order is needed for, and then waits.
//!
//! Clusters of the longest rows stay instead, and their next rows come through a ring in shared memory while they work:
//!
//! ```text
//! stage    0 1 2 | 0 1 2 | ..           row k of a cluster is read from stage k % 3 into registers; then row k + 3 may come there
//! ```
//!
//! Still each row is a chain: what it has is gathered, the CTAs exchange that, its results are written. `Turnover::Stagger` takes the exchange out of
//! it. A row stays in its stage until it is written, a round later, and what CTAs sent of it in one round has long come in the next:
//!
//! ```text
//! round    k                       k + 1                       k + 2
//!          gather row k, send      gather row k + 1, send      gather row k + 2, send
//!          write row k - 1         write row k                 row k + 4 may come to the stage of row k
//! ```
//!
//! `Turnover::Spread` has no clusters, which leave SMs idle that no cluster fits: the whole grid shares each row, a CTA has the same columns of all rows,
//! and its warps take turns with the rows, each staggered so. What the CTAs know of a row goes through global memory, which takes a while: long enough
//! for the other warps' rows.
//!
//! (For shorter rows, which one CTA holds, such a ring was measured twice: 3.6 to 3.8 TB/s on the H200 where CTAs that come and go have 4.0 to 4.1.
//! There the loads of the CTAs beside it are what a CTA's computing hides behind.)

use warpwright::lang::bulk;
use warpwright::lang::cluster::{cluster_arrive_relaxed, cluster_wait};
use warpwright::lang::fence::fence_mbarrier_init;
use warpwright::lang::mbarrier::Mbarriers;
use warpwright::lang::memory::{L2Eviction, cache_policy};
use warpwright::prelude::*;

use super::element::RowElement;
use super::plan::{Plan, Turnover};
use super::row::{Row, Share, Source, start};
use super::team::{Merge, Team};

/// A row as a kernel gets it.
pub(super) struct Turn<T> {
    /// The threads that share it.
    pub(super) team: Team,
    /// Its number.
    pub(super) index: Reg<u32>,
    /// Whether its results are wanted. Several teams of one warp work in step: those that are past the last row work on that one
    /// again, for nothing.
    pub(super) wanted: Option<Reg<bool>>,
    /// The row that is read.
    pub(super) row: Row<T>,
}

/// The rows of the matrices that are read, and who goes through them.
pub(super) struct Rounds<'a, T> {
    plan: Plan,
    team: Team,
    share: Share,
    matrices: &'a [Global<T>],
    /// What stands outside the rows.
    fill: u32,
    rows: Reg<u32>,
    first: Reg<u32>,
    /// Rows from one round to the next.
    step: Reg<u32>,
    ring: Option<Ring<T>>,
}

/// Where the next rows come to.
struct Ring<T> {
    /// Stages of a team.
    count: u32,
    /// For each stage, the CTA's part of a row of each matrix.
    stages: Shared<T>,
    /// For each stage, whether its row is there.
    arrived: Mbarriers,
    /// The team's first stage.
    first: Option<Reg<u32>>,
}

impl<T: RowElement> Ring<T> {
    /// Room for the stages, and their barriers ready.
    #[device]
    fn new(plan: Plan, team: &Team, matrices: usize) -> Self {
        let count = plan.stages;
        let all = count * plan.rows;
        let stages = dynamic_shared::<T>(all * matrices as u32 * plan.span());
        let arrived = Mbarriers::new(all);
        let first = (plan.rows > 1).then(|| team.number() * count);
        if thread_idx().x == 0 {
            for barrier in arrived.iter() {
                barrier.init(1);
            }
            fence_mbarrier_init();
        }
        sync_threads();
        Self { count, stages, arrived, first }
    }

    /// One of the team's stages, counted among all.
    #[track_caller]
    fn of_all(&self, stage: Reg<u32>) -> Reg<u32> {
        self.first.map_or(stage, |first| first + stage)
    }

    /// Waits until a row is there.
    #[track_caller]
    fn wait(&self, stage: Reg<u32>, parity: Reg<u32>) {
        self.arrived.at(self.of_all(stage)).wait_parity(parity);
    }
}

impl<'a, T: RowElement> Rounds<'a, T> {
    /// Begins: where the grid in front has not ended, the first rows are asked for, and its end is waited for. Each row is one of a
    /// matrix, or the sum of two; words of `fill` stand outside.
    #[device]
    pub(super) fn begin(
        plan: Plan,
        team: Team,
        share: Share,
        (matrices, fill): (&'a [Global<T>], u32),
        rows: Reg<u32>,
    ) -> Self {
        let spreads = plan.turnover == Turnover::Spread;
        let (first, step) = match spreads {
            true => (team.number(), constant(plan.rows)),
            false => (block_idx().x / plan.ctas * plan.rows, grid_dim().x / plan.ctas * plan.rows),
        };
        let ring = match plan.turnover {
            Turnover::Ring | Turnover::Stagger | Turnover::Spread => {
                Some(Ring::new(plan, &team, matrices.len()))
            }
            Turnover::Leave | Turnover::Stay => None,
        };
        let rounds = Self { plan, team, share, matrices, fill, rows, first, step, ring };
        // Of the teams of a spread row some may have none.
        let leads = if spreads { team.rank.eq(0u32) & first.lt(rows) } else { team.rank.eq(0u32) };
        if plan.overlaps {
            launch::grid_dependency_launch();
            if plan.prefetches::<T>() {
                if leads && first < at_once(plan) {
                    rounds.ask_for(first);
                    // What stays has more rows to come.
                    for round in 1..plan.stages + 1 {
                        if rows - first > step * round {
                            rounds.ask_for(first + step * round);
                        }
                    }
                }
            }
            launch::grid_dependency_wait();
        }
        if let Some(ring) = &rounds.ring {
            if leads {
                for stage in 0..ring.count {
                    rounds.bring(ring, constant(stage), first, step * stage);
                }
            }
        }
        // Nobody writes to the shared memory of a CTA that has not begun.
        if plan.ctas > 1 && !spreads {
            cluster_arrive_relaxed();
            cluster_wait();
        }
        Self { team: rounds.team.begin(), ..rounds }
    }

    /// Goes through the rows of this thread's team. `gather` makes of a row what its CTA knows of it, which `merge` merges over the cluster, and
    /// what the thread keeps; `finish` gets what the row has altogether, and what was kept if registers hold it until then.
    #[track_caller]
    pub(super) fn each<M: Merge<K>, G, const K: usize>(
        self,
        merge: &M,
        gather: impl Fn(&Turn<T>) -> ([Reg<f32>; K], G),
        finish: impl Fn(&Turn<T>, [Reg<f32>; K], Option<G>),
    ) {
        if self.plan.lag() > 0 {
            return self.each_staggered(
                merge,
                |turn| gather(turn).0,
                |turn, of_row| finish(turn, of_row, None),
            );
        }
        self.each_at_once(|turn| {
            let (of_cta, kept) = gather(turn);
            finish(turn, turn.team.reduce_ctas(merge, of_cta, turn.index), Some(kept));
        });
    }

    /// Calls `work` with each row.
    #[device]
    fn each_at_once(self, work: impl Fn(&Turn<T>)) {
        let Self { plan, share, fill, rows, first, step, .. } = self;
        let mut team = self.team;
        let mut stage = constant(0u32);
        let mut parity = constant(0u32);
        for base in (first..rows).step_by(step) {
            if plan.rows > 1 {
                let index = base + thread_idx().x / plan.threads;
                let wanted = Some(index.lt(rows));
                let index = index.min(rows - 1);
                let row = Row::new(share, Source::Memory(self.at(index), fill));
                work(&Turn { team, index, wanted, row });
            } else if let Some(ring) = &self.ring {
                ring.wait(stage, parity);
                let row = Row::new(share, Source::Brought(self.staged(ring, stage), fill));
                // All have the row in registers: another may take its place.
                sync_threads();
                if team.rank == 0 {
                    self.bring(ring, stage, base, step * ring.count);
                }
                stage += 1;
                if stage == ring.count {
                    stage = constant(0u32);
                    parity = parity ^ 1;
                }
                work(&Turn { team, index: base, wanted: None, row });
            } else {
                let row = Row::new(share, Source::Memory(self.at(base), fill));
                if plan.looks_ahead && plan.prefetches::<T>() {
                    if team.rank == 0 && rows - base > at_once(plan) {
                        self.ask_for(base + at_once(plan));
                    }
                }
                work(&Turn { team, index: base, wanted: None, row });
            }
            team.round += 1;
        }
    }

    /// Gathers each row's values, and finishes it a round later, or as many as the plan says.
    #[device]
    fn each_staggered<M: Merge<K>, const K: usize>(
        self,
        merge: &M,
        gather: impl Fn(&Turn<T>) -> [Reg<f32>; K],
        finish: impl Fn(&Turn<T>, [Reg<f32>; K]),
    ) {
        let Self { plan, share, fill, rows, first, step, .. } = self;
        let lag = plan.lag();
        let Some(ring) = &self.ring else { unreachable!("a plan with such a turnover has stages") };
        let turn = |team, index, stage| {
            let row = Row::new(share, Source::Brought(self.staged(ring, stage), fill));
            Turn { team, index, wanted: None, row }
        };
        let mut team = self.team;
        let mut index = first.duplicate();
        // Of the row that is gathered; and of those before it, up to the one that is finished and the one before that, whose stage is free.
        let mut stage = constant(0u32).duplicate();
        let mut before = vec![constant(0u32).duplicate(); lag as usize + 1];
        let mut parity = constant(0u32).duplicate();
        let mut rounds = (rows - first - 1) / step + 1;
        if plan.turnover == Turnover::Spread {
            rounds = first.lt(rows).select(rounds, 0u32);
        }
        for round in 0..rounds + lag {
            if round < rounds {
                ring.wait(stage, parity);
                // The threads of the CTA meet here.
                let of_cta = gather(&turn(team, index, stage));
                team.send(of_cta, index);
                if plan.threads <= 32 {
                    sync_warp(ALL_LANES);
                }
                // So all are done with the row before the one that is finished now.
                if team.rank == 0 && round > lag {
                    self.bring(ring, before[lag as usize], index, step * (ring.count - lag - 1));
                }
            }
            if round >= lag {
                let turn = turn(team, index - step * lag, before[lag as usize - 1]);
                let of_row = team.receive(merge, round - lag, turn.index);
                finish(&turn, of_row);
            }
            for place in (1..before.len()).rev() {
                before[place] = before[place - 1];
            }
            before[0] = stage;
            stage += 1;
            if stage == ring.count {
                stage = constant(0u32);
                parity = parity ^ 1;
            }
            index += step;
            team.round += 1;
        }
        if let Some(exchange) = &team.exchange {
            exchange.end(rows);
        }
    }

    /// Starts to bring the CTA's part of the row `ahead` of another, if there is one, to a stage; by one thread.
    #[device]
    fn bring(&self, ring: &Ring<T>, stage: Reg<u32>, row: Reg<u32>, ahead: Reg<u32>) {
        if self.rows - row > ahead {
            let row = row + ahead;
            let arrived = ring.arrived.at(ring.of_all(stage));
            let columns = self.share.columns();
            arrived.arrive_and_expect(columns * (self.matrices.len() as u32 * T::BYTES));
            for (from, to) in self.at(row).into_iter().zip(self.staged(ring, stage)) {
                let load = bulk::Load::new(from.at(self.share.base), columns);
                let load =
                    if self.plan.evicts { load.with_policy(cache_policy(L2Eviction::First)) } else { load };
                load.start(to, arrived);
            }
        }
    }

    /// Where the CTA's parts of a row of each matrix are in a stage.
    #[track_caller]
    fn staged(&self, ring: &Ring<T>, stage: Reg<u32>) -> Vec<Shared<T>> {
        let count = self.matrices.len() as u32;
        let first = ring.stages.at(ring.of_all(stage) * (count * self.plan.span()));
        (0..count).map(|matrix| first.at(matrix * self.plan.span())).collect()
    }

    /// Where a row begins in each of the matrices.
    #[track_caller]
    fn at(&self, row: Reg<u32>) -> Vec<Global<T>> {
        self.matrices.iter().map(|matrix| start(*matrix, row, self.plan.columns)).collect()
    }

    /// Asks L2 for the CTA's part of a row.
    #[track_caller]
    fn ask_for(&self, row: Reg<u32>) {
        for row in self.at(row) {
            bulk::Load::new(row.at(self.share.base), self.share.columns()).prefetch();
        }
    }
}

/// The rows that the device works on at once.
#[track_caller]
fn at_once(plan: Plan) -> Reg<u32> {
    if plan.stays() {
        grid_dim().x / plan.ctas * plan.rows
    } else {
        sm_count() * plan.ctas_per_sm / plan.ctas
    }
}

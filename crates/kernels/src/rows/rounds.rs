//! How a team goes from row to row.
//!
//! A CTA takes one row (or a cluster of them does); the device starts the next where one has ended. Two things keep memory busy in the
//! meantime. While a CTA works, it asks L2 for the long row that will be read in its place. And a grid begins before the one
//! in front of it has ended: it asks L2 for its first rows, which is no access that an order is needed for, and then waits.
//!
//! (Rows that travel through a ring of bulk copies into shared memory, to CTAs that stay, were measured too: 3.4 to 3.5 TB/s
//! on the H200 where this way has 3.8 to 4.0. A barrier more for each row costs more than the overlap gains.)

use warpwright::lang::bulk;
use warpwright::lang::cluster::{cluster_arrive_relaxed, cluster_wait};
use warpwright::lang::fence::fence_mbarrier_init;
use warpwright::lang::mbarrier::Mbarriers;
use warpwright::prelude::*;

use super::element::RowElement;
use super::plan::Plan;
use super::row::{Row, Share, Source, start};
use super::team::Team;

/// A row as a kernel gets it.
pub(super) struct Turn<'team, T> {
    /// The threads that share it.
    pub(super) team: &'team mut Team,
    /// Its number.
    pub(super) index: Reg<u32>,
    /// Whether its results are wanted. Several teams of one warp work in step: those that are past the last row work on that one
    /// again, for nothing.
    pub(super) wanted: Option<Reg<bool>>,
    /// The row that is read.
    pub(super) row: Row<T>,
}

/// Calls `work` with each row of this thread's team in turn: a row of the matrix that is read, or the sum of rows of two; words of
/// `fill` stand outside.
#[track_caller]
pub(super) fn each_row<T: RowElement>(
    plan: Plan,
    team: Team,
    share: Share,
    input: (&[Global<T>], u32),
    rows: Reg<u32>,
    work: impl Fn(Turn<'_, T>),
) {
    if plan.stages > 0 {
        each_staged_row(plan, team, share, input, rows, work);
    } else {
        each_loaded_row(plan, team, share, input, rows, work);
    }
}

/// [`each_row`] where threads load rows into their registers.
#[device]
fn each_loaded_row<T: RowElement>(
    plan: Plan,
    mut team: Team,
    share: Share,
    (matrices, fill): (&[Global<T>], u32),
    rows: Reg<u32>,
    work: impl Fn(Turn<'_, T>),
) {
    let at = |row: Reg<u32>| -> Vec<_> {
        matrices.iter().map(|matrix| start(*matrix, row, plan.columns)).collect()
    };
    let ask_for = |row: Reg<u32>| {
        for row in at(row) {
            bulk::Load::new(row.at(share.base), share.columns()).prefetch();
        }
    };
    let first = block_idx().x / plan.ctas * plan.rows;
    let step = grid_dim().x / plan.ctas * plan.rows;
    // The rows that the device works on at once.
    let at_once = sm_count() * plan.ctas_per_sm / plan.ctas;
    if plan.overlaps {
        launch::grid_dependency_launch();
        if plan.prefetches::<T>() {
            if team.rank == 0 && first < at_once {
                ask_for(first);
            }
        }
        launch::grid_dependency_wait();
    }
    for base in (first..rows).step_by(step) {
        if plan.rows > 1 {
            let index = base + thread_idx().x / plan.threads;
            let wanted = Some(index.lt(rows));
            let index = index.min(rows - 1);
            let row = Row::new(share, Source::Memory(at(index), fill));
            work(Turn { team: &mut team, index, wanted, row });
        } else {
            // Nobody writes to the shared memory of a CTA that has not begun; the row is on its way while they find out.
            if plan.ctas > 1 {
                cluster_arrive_relaxed();
            }
            let row = Row::new(share, Source::Memory(at(base), fill));
            if plan.looks_ahead::<T>() {
                if team.rank == 0 && rows - base > at_once {
                    ask_for(base + at_once);
                }
            }
            if plan.ctas > 1 {
                cluster_wait();
            }
            work(Turn { team: &mut team, index: base, wanted: None, row });
        }
    }
}

/// [`each_row`] through a ring of rows in shared memory.
///
/// ```text
/// stage 0   | row r                 | row r + 3 grids, coming in ..
/// stage 1   | row r + 1 grid        |
/// stage 2   | row r + 2 grids, coming in |
/// ```
#[device]
fn each_staged_row<T: RowElement>(
    plan: Plan,
    mut team: Team,
    share: Share,
    (matrices, fill): (&[Global<T>], u32),
    rows: Reg<u32>,
    work: impl Fn(Turn<'_, T>),
) {
    let (part, sources) = (plan.part(), matrices.len() as u32);
    let ring = dynamic_shared::<T>((plan.rows * plan.stages * sources * part) as usize);
    let barriers = Mbarriers::new(plan.rows * plan.stages);
    let team_of_cta = if plan.rows > 1 { thread_idx().x / plan.threads } else { constant(0u32) };
    let slot = |stage: Reg<u32>| team_of_cta * plan.stages + stage;
    let staged = |stage: Reg<u32>| -> Vec<_> {
        (0..sources).map(|source| ring.at((slot(stage) * sources + source) * part)).collect()
    };
    let at = |row: Reg<u32>| -> Vec<_> {
        matrices.iter().map(|matrix| start(*matrix, row, plan.columns).at(share.base)).collect()
    };
    let fetch = |stage: Reg<u32>, row: Reg<u32>| {
        let arrived = barriers.at(slot(stage));
        arrived.arrive_and_expect(share.columns() * (T::BYTES * sources));
        for (from, to) in at(row).into_iter().zip(staged(stage)) {
            bulk::load(from, share.columns(), to, arrived);
        }
    };
    let is_leader = team.rank.eq(0u32) & share.columns().gt(0u32);
    let first = block_idx().x / plan.ctas * plan.rows + team_of_cta;
    let step = grid_dim().x / plan.ctas * plan.rows;

    if thread_idx().x == 0 {
        for barrier in barriers.iter() {
            barrier.init(1);
        }
        fence_mbarrier_init();
    }
    sync_threads();
    launch::grid_dependency_launch();
    if is_leader & (first < rows) {
        for from in at(first) {
            bulk::Load::new(from, share.columns()).prefetch();
        }
    }
    launch::grid_dependency_wait();
    if is_leader {
        for stage in 0..plan.stages {
            let row = first + step * stage;
            if row < rows {
                fetch(constant(stage), row);
            }
        }
    }
    // Nobody writes to the shared memory of a CTA that has not begun.
    if plan.ctas > 1 {
        cluster_arrive_relaxed();
        cluster_wait();
    }
    let mut stage = constant(0u32);
    let mut parity = constant(0u32);
    for index in (first..rows).step_by(step) {
        if share.is_cut() {
            if share.columns() > 0 {
                barriers.at(slot(stage)).wait_parity(parity);
            }
        } else {
            barriers.at(slot(stage)).wait_parity(parity);
        }
        let row = Row::new(share, Source::Staged(staged(stage), fill));
        work(Turn { team: &mut team, index, wanted: None, row });
        // All have read the row: the next may take its place.
        team.sync();
        if is_leader & (rows - index > step * plan.stages) {
            fetch(stage, index + step * plan.stages);
        }
        stage += 1;
        if stage == plan.stages {
            stage = constant(0u32);
            parity = parity ^ 1;
        }
    }
}

//! A row in the registers of its team, or on its way through them.

use warpwright::lang::cluster::cluster_sync;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use super::element::{Chunk, RowElement};
use super::plan::Plan;
use super::team::Team;

/// Where a vector lies in its row.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its first column.
    pub(super) column: Reg<u32>,
    /// Whether it is inside the row, where that is not known when the kernel is built.
    inside: Option<Reg<bool>>,
}

/// The vectors of every row that belong to one thread.
///
/// ```text
/// columns    | t0 | t1 | .. | tn | t0 | t1 | .. | tn | ..        n = the team's threads, in all its CTAs
///              step 0              step 1
/// ```
#[derive(Clone, Copy)]
pub(super) struct Share {
    plan: Plan,
    first: Reg<u32>,
}

impl Share {
    #[track_caller]
    pub(super) fn new(plan: Plan, team: &Team) -> Self {
        let rank = if plan.ctas > 1 { team.cta * plan.threads + team.rank } else { team.rank };
        Self { plan, first: rank * plan.lanes }
    }

    /// This thread's places from `base` on; of a row that fits its threads' registers, all, and only those of the last step can
    /// be outside.
    #[track_caller]
    fn places(&self, base: Option<Reg<u32>>) -> Vec<Place> {
        let stride = self.plan.lanes * self.plan.threads * self.plan.ctas;
        let place = |step: u32| {
            let column = self.first + step * stride;
            let column = base.map_or(column, |base| column + base);
            let is_inside = base.is_none() && (step + 1) * stride <= self.plan.columns;
            Place { column, inside: (!is_inside).then(|| column.lt(self.plan.columns)) }
        };
        (0..self.plan.steps).map(place).collect()
    }

    /// Loads what is at a place; words of `fill` where that is outside the row.
    #[device]
    fn load<T: RowElement>(&self, row: Global<T>, place: Place, fill: u32, access: Access) -> Chunk<T> {
        match place.inside {
            None => Chunk::load(row.at(place.column), self.plan.lanes, access),
            Some(inside) => {
                let mut chunk = Chunk::filled(fill, self.plan.lanes);
                if inside {
                    chunk = Chunk::load(row.at(place.column), self.plan.lanes, access);
                }
                chunk
            }
        }
    }

    /// Loads what all rows have in common, such as weights: it is kept in L1.
    #[track_caller]
    pub(super) fn load_common<T: RowElement>(&self, row: Global<T>, place: Place) -> Vec<Reg<f32>> {
        self.load(row, place, 0, Access::new().non_coherent()).values()
    }

    /// Rounds values to `T` and stores them, where the place is inside the row and the row is wanted.
    #[device]
    pub(super) fn store<T: RowElement>(
        &self,
        row: Global<T>,
        place: Place,
        wanted: Option<Reg<bool>>,
        values: &[Reg<f32>],
    ) {
        let here = match (place.inside, wanted) {
            (Some(inside), Some(wanted)) => Some(inside & wanted),
            (inside, wanted) => inside.or(wanted),
        };
        let chunk = Chunk::<T>::of(values);
        let access = Access::new().cached(CacheOperator::Streaming);
        match here {
            None => chunk.store(row.at(place.column), access),
            Some(here) => {
                if here {
                    chunk.store(row.at(place.column), access);
                }
            }
        }
    }
}

/// A row that is read: from registers where they hold all of it, or else from memory, each time anew.
pub(super) struct Row<T> {
    share: Share,
    source: Source<T>,
    resident: Option<Vec<(Place, Chunk<T>)>>,
}

/// What a row is.
#[derive(Clone, Copy)]
pub(super) enum Source<T> {
    /// What lies in memory; words of this stand where a vector is outside the row.
    Memory(Global<T>, u32),
    /// The sum of two that lie in memory, rounded to `T`; zero stands where a vector is outside the row.
    Sum(Global<T>, Global<T>),
}

impl<T: RowElement> Row<T> {
    /// This thread's part of a row.
    #[track_caller]
    pub(super) fn new(share: Share, source: Source<T>) -> Self {
        let mut row = Self { share, source, resident: None };
        row.resident = share.plan.is_resident().then(|| row.load(None));
        row
    }

    /// Loads all places before anything is done with one. L1 has better things to keep.
    #[track_caller]
    fn load(&self, base: Option<Reg<u32>>) -> Vec<(Place, Chunk<T>)> {
        let places = self.share.places(base);
        let access = Access::new().non_coherent().evicted(Eviction::NoAllocate);
        let load = |row, fill| -> Vec<_> {
            places.iter().map(|place| self.share.load(row, *place, fill, access)).collect()
        };
        let chunks: Vec<_> = match self.source {
            Source::Memory(row, fill) => load(row, fill),
            Source::Sum(a, b) => {
                let (a, b) = (load(a, 0), load(b, 0));
                a.iter().zip(&b).map(|(a, b)| a.plus(b)).collect()
            }
        };
        places.into_iter().zip(chunks).collect()
    }

    /// Calls `work` with this thread's vectors, several at a time: all of them at once where registers hold the row, and in a
    /// device-time loop where they do not. What it carries from call to call is `state`.
    #[device]
    pub(super) fn fold<S: DeviceValue + Yields<S> + Copy>(
        &self,
        mut state: S,
        work: impl Fn(S, &[(Place, Chunk<T>)]) -> S,
    ) -> S {
        match &self.resident {
            Some(vectors) => state = work(state, vectors),
            None => {
                for base in (constant(0u32)..self.share.plan.columns).step_by(self.share.plan.span()) {
                    state = work(state, &self.load(Some(base)));
                }
            }
        }
        state
    }

    /// Calls `work` with each of this thread's vectors.
    #[track_caller]
    pub(super) fn for_each(&self, work: impl Fn(Place, Vec<Reg<f32>>)) {
        self.fold((), |(), vectors| {
            vectors.iter().for_each(|(place, chunk)| work(*place, chunk.values()));
        });
    }

    /// The sum over this thread's elements of what `term` makes of each.
    #[track_caller]
    pub(super) fn sum(&self, term: impl Fn(Reg<f32>) -> Reg<f32>) -> Reg<f32> {
        self.fold(constant(0f32).duplicate(), |sum, vectors| {
            vectors.iter().fold(sum, |sum, (place, chunk)| {
                let terms = chunk.values().into_iter().map(|value| place.or_zero(term(value)));
                terms.fold(sum, |sum, term| sum + term)
            })
        })
    }
}

impl Place {
    /// The value, or 0 where the place is outside the row.
    #[track_caller]
    fn or_zero(self, value: Reg<f32>) -> Reg<f32> {
        self.inside.map_or(value, |inside| inside.select(value, 0f32))
    }
}

/// Calls `work` with each row of this thread's team in turn, and whether its results are wanted. Several teams of one warp work in
/// step: those that are past the last row work on that one again, for nothing.
#[device]
pub(super) fn each_row(
    plan: Plan,
    mut team: Team,
    rows: Reg<u32>,
    work: impl Fn(&mut Team, Reg<u32>, Option<Reg<bool>>),
) {
    if plan.ctas > 1 {
        // Nobody writes to the shared memory of a CTA that has not begun.
        cluster_sync();
    }
    let first = block_idx().x / plan.ctas * plan.rows;
    let step = grid_dim().x / plan.ctas * plan.rows;
    for base in (first..rows).step_by(step) {
        if plan.rows > 1 {
            let row = base + thread_idx().x / plan.threads;
            work(&mut team, row.min(rows - 1), Some(row.lt(rows)));
        } else {
            work(&mut team, base, None);
        }
    }
}

/// The start of a row of a row-major matrix of `columns` columns.
#[track_caller]
pub(super) fn start<T: RowElement>(matrix: Global<T>, row: Reg<u32>, columns: u32) -> Global<T> {
    matrix.at(row.convert::<u64>() * u64::from(columns))
}

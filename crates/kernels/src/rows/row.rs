//! A row in the registers of its team, or on its way through them.

use warpwright::lang::pointer::Pointer;
use warpwright::lang::space::Space;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use super::element::{Chunk, RowElement};
use super::plan::Plan;
use super::team::Team;
use crate::vector;

/// Where a vector lies in its row.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The first column of the thread's first vector.
    column: Reg<u32>,
    /// The same, counted from the first of the CTA's part.
    local: Reg<u32>,
    /// Columns from there to this vector: known when the kernel is built, so that it costs no arithmetic.
    further: u32,
    /// Which of the thread's vectors it is, of those it has at once.
    step: usize,
    /// Whether it is inside the row, where that is not known when the kernel is built.
    inside: Option<Reg<bool>>,
}

impl Place {
    /// Where it is in a row.
    #[track_caller]
    fn of_row<T: RowElement>(self, row: Global<T>) -> Global<T> {
        row.at(self.column).at(self.further)
    }

    /// Where it is in the CTA's part of a row.
    #[track_caller]
    fn of_part<T: RowElement>(self, part: Shared<T>) -> Shared<T> {
        part.at(self.local).at(self.further)
    }

    /// The value, or 0 where the place is outside the row.
    #[track_caller]
    fn or_zero(self, value: Reg<f32>) -> Reg<f32> {
        self.inside.map_or(value, |inside| inside.select(value, 0f32))
    }
}

/// The vectors of every row that belong to one thread.
///
/// ```text
/// columns    | part of CTA 0                                      | part of CTA 1 ..
///            | t0 | t1 | .. | tn | t0 | t1 | .. | tn | ..         |
///              step 0              step 1
/// ```
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) plan: Plan,
    /// The first column of the CTA's part.
    pub(super) base: Reg<u32>,
    /// Columns of the CTA's part, where they are not [`Plan::part`].
    cut: Option<Reg<u32>>,
    first: Reg<u32>,
}

impl Share {
    #[device]
    pub(super) fn new(plan: Plan, team: &Team) -> Self {
        let base = team.cta * plan.part();
        let is_cut = plan.part() * plan.ctas != plan.columns;
        let cut = is_cut.then(|| (plan.columns - base.min(plan.columns)).min(plan.part()));
        Self { plan, base, cut, first: team.rank * plan.lanes }
    }

    /// Columns of the CTA's part.
    #[track_caller]
    pub(super) fn columns(&self) -> Reg<u32> {
        self.cut.unwrap_or_else(|| constant(self.plan.part()))
    }

    /// This thread's places from `base` on; of a part that fits its threads' registers, all.
    #[track_caller]
    fn places(&self, base: Option<Reg<u32>>) -> Vec<Place> {
        let stride = self.plan.lanes * self.plan.threads;
        let local = base.map_or(self.first, |base| self.first + base);
        let column = if self.plan.ctas > 1 { local + self.base } else { local };
        let place = |step: u32| {
            let further = step * stride;
            let is_inside = base.is_none() && self.cut.is_none() && further + stride <= self.plan.part();
            let inside = (!is_inside).then(|| (local + further).lt(self.columns()));
            Place { column, local, further, step: step as usize, inside }
        };
        (0..self.plan.steps).map(place).collect()
    }

    /// Loads the vector at `at`, which is what is at a place of a row; words of `fill` where that is outside.
    #[device]
    fn load<T: RowElement, S: Space>(
        &self,
        at: Pointer<T, S>,
        place: Place,
        fill: u32,
        access: Access,
    ) -> Chunk<T> {
        match place.inside {
            None => Chunk::load(at, self.plan.lanes, access),
            Some(inside) => {
                let mut chunk = Chunk::filled(fill, self.plan.lanes);
                if inside {
                    chunk = Chunk::load(at, self.plan.lanes, access);
                }
                chunk
            }
        }
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
        let access = match self.plan.streams {
            true => Access::new().cached(CacheOperator::Streaming),
            false => Access::new(),
        };
        match here {
            None => chunk.store(place.of_row(row), access),
            Some(here) => {
                if here {
                    chunk.store(place.of_row(row), access);
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

/// What a row is: the sum, rounded to `T`, of one or two.
pub(super) enum Source<T> {
    /// Rows in global memory. Words of this stand where a vector is outside.
    Memory(Vec<Global<T>>, u32),
    /// A row that all rows have in common, such as weights: it is kept in L1.
    Common(Global<T>),
    /// The CTA's part of such a row, in shared memory.
    Kept(Shared<T>),
    /// The CTA's parts of rows that were brought to shared memory. Words of this stand where a vector is outside.
    Brought(Vec<Shared<T>>, u32),
}

impl<T: RowElement> Row<T> {
    /// This thread's part of a row.
    #[track_caller]
    pub(super) fn new(share: Share, source: Source<T>) -> Self {
        let mut row = Self { share, source, resident: None };
        row.resident = share.plan.is_resident().then(|| row.load(None));
        row
    }

    /// Loads all places before anything is done with one.
    #[track_caller]
    fn load(&self, base: Option<Reg<u32>>) -> Vec<(Place, Chunk<T>)> {
        let places = self.share.places(base);
        let chunks = match &self.source {
            Source::Memory(rows, fill) => {
                let access = vector::read_once();
                let load =
                    |row: Global<T>, place: Place| self.share.load(place.of_row(row), place, *fill, access);
                self.sum_of(rows, load, &places)
            }
            Source::Common(row) => {
                let access = Access::new().non_coherent();
                let load =
                    |row: Global<T>, place: Place| self.share.load(place.of_row(row), place, 0, access);
                self.sum_of(&[*row], load, &places)
            }
            Source::Kept(row) => {
                let load = |row: Shared<T>, place: Place| {
                    self.share.load(place.of_part(row), place, 0, Access::new())
                };
                self.sum_of(&[*row], load, &places)
            }
            Source::Brought(rows, fill) => {
                let load = |row: Shared<T>, place: Place| {
                    self.share.load(place.of_part(row), place, *fill, Access::new())
                };
                self.sum_of(rows, load, &places)
            }
        };
        places.into_iter().zip(chunks).collect()
    }

    /// Loads from each of the sources and adds.
    #[track_caller]
    fn sum_of<S: Copy>(
        &self,
        sources: &[S],
        load: impl Fn(S, Place) -> Chunk<T>,
        places: &[Place],
    ) -> Vec<Chunk<T>> {
        let loaded: Vec<Vec<_>> =
            sources.iter().map(|source| places.iter().map(|place| load(*source, *place)).collect()).collect();
        loaded
            .into_iter()
            .reduce(|sums, more| sums.iter().zip(&more).map(|(a, b)| a.plus(b)).collect())
            .unwrap_or_default()
    }

    /// This thread's vectors, where registers hold the whole row.
    pub(super) fn resident(&self) -> Option<&[(Place, Chunk<T>)]> {
        self.resident.as_deref()
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
                for base in (constant(0u32)..self.share.plan.part()).step_by(self.share.plan.span()) {
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

    /// The values at a place of another row that is shared alike.
    #[track_caller]
    pub(super) fn at(&self, place: Place) -> Vec<Reg<f32>> {
        match (&self.resident, &self.source) {
            (Some(vectors), _) => vectors[place.step].1.values(),
            (None, Source::Common(row)) => {
                self.share.load(place.of_row(*row), place, 0, Access::new().non_coherent()).values()
            }
            (None, Source::Kept(row)) => {
                self.share.load(place.of_part(*row), place, 0, Access::new()).values()
            }
            (None, Source::Memory(..) | Source::Brought(..)) => {
                unreachable!("only what rows have in common is looked up")
            }
        }
    }

    /// The sum over this thread's elements: `add` makes of a sum and one more element their sum. A vector's elements are added one after the
    /// other, and then the vectors' sums.
    #[track_caller]
    pub(super) fn sum(&self, add: impl Fn(Reg<f32>, Reg<f32>) -> Reg<f32>) -> Reg<f32> {
        self.fold(constant(0f32).duplicate(), |sum, vectors| {
            let of_vector = |(place, chunk): &(Place, Chunk<T>)| {
                place.or_zero(chunk.values().into_iter().fold(constant(0f32), &add))
            };
            sum + pairwise(&vectors.iter().map(of_vector).collect::<Vec<_>>(), |a, b| a + b)
        })
    }
}

/// A row that all rows have in common, such as weights.
///
/// Clusters stay, so their CTAs keep their parts of it in shared memory. (Read from L2 for each row of 262,144, weights take RMSNorm from
/// 4.0 to 3.5 TB/s, measured on the H200: they are as many bytes as the row.)
#[derive(Clone, Copy)]
pub(super) struct Common<T> {
    share: Share,
    row: Global<T>,
    kept: Option<Shared<T>>,
}

impl<T: RowElement> Common<T> {
    /// The row, of which the CTA keeps its part if it stays.
    #[track_caller]
    pub(super) fn new(share: Share, row: Global<T>) -> Self {
        let stays = share.plan.stays() && share.plan.is_resident();
        Self { share, row, kept: stays.then(|| keep(share, row)) }
    }

    /// This thread's part of it: loaded when the threads' own vectors are, or, where registers are short, where it is looked up.
    #[track_caller]
    pub(super) fn row(&self, registers_are_short: bool) -> Row<T> {
        let Self { share, row, kept } = *self;
        match kept {
            Some(kept) => Row { share, source: Source::Kept(kept), resident: None },
            None if registers_are_short || share.plan.rows > 1 => {
                Row { share, source: Source::Common(row), resident: None }
            }
            None => Row::new(share, Source::Common(row)),
        }
    }
}

/// Copies the CTA's part of a row to shared memory: each thread what it will itself look up, so that nobody waits; where teams share it, the
/// first of them.
#[device]
fn keep<T: RowElement>(share: Share, row: Global<T>) -> Shared<T> {
    let kept = dynamic_shared::<T>(share.plan.span());
    if share.plan.rows > 1 {
        if thread_idx().x < share.plan.threads {
            copy(share, row, kept);
        }
        sync_threads();
    } else {
        copy(share, row, kept);
    }
    kept
}

/// Copies this thread's places of a row.
#[device]
fn copy<T: RowElement>(share: Share, row: Global<T>, kept: Shared<T>) {
    for place in share.places(None) {
        let chunk = share.load(place.of_row(row), place, 0, Access::new().non_coherent());
        chunk.store(place.of_part(kept), Access::new());
    }
}

/// Values merged two by two, then the results: no merge waits for many others.
#[track_caller]
pub(super) fn pairwise(
    values: &[Reg<f32>],
    merge: impl Fn(Reg<f32>, Reg<f32>) -> Reg<f32> + Copy,
) -> Reg<f32> {
    match values {
        [value] => *value,
        _ => {
            let (one, other) = values.split_at(values.len() / 2);
            merge(pairwise(one, merge), pairwise(other, merge))
        }
    }
}

/// The start of a row of a row-major matrix of `columns` columns.
#[track_caller]
pub(super) fn start<T: RowElement>(matrix: Global<T>, row: Reg<u32>, columns: u32) -> Global<T> {
    matrix.at(row.convert::<u64>() * u64::from(columns))
}

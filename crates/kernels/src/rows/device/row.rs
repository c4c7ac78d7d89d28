//! A row in the registers of its threads: which vectors a thread has, and how they are loaded and
//! stored.

use warpwright::lang::pointer::Pointer;
use warpwright::lang::space::Space;
use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use super::super::plan::{Evict, Plan};
use super::chunk::{Chunk, RowElement};
use super::group::Group;
use super::merge::pairwise;
use crate::overlap;

/// The position of a vector in its row.
#[derive(Clone, Copy)]
pub(super) struct Position {
    /// The column of the thread's first vector.
    column: Reg<u32>,
    /// The same, relative to the CTA's part.
    local: Reg<u32>,
    /// Columns from there to this vector, known at build time: the offset of the address.
    offset: u32,
    /// Its index among the vectors that the thread holds.
    step: usize,
    /// Whether it is inside the row, where build time does not tell.
    inside: Option<Reg<bool>>,
    /// Its elements.
    lanes: u32,
}

impl Position {
    #[track_caller]
    fn of_row<T: RowElement>(self, row: Global<T>) -> Global<T> {
        row.at(self.column).at(self.offset)
    }

    #[track_caller]
    fn of_part<T: RowElement>(self, part: Shared<T>) -> Shared<T> {
        part.at(self.local).at(self.offset)
    }

    #[track_caller]
    fn or_zero(self, value: Reg<f32>) -> Reg<f32> {
        self.inside.map_or(value, |inside| inside.select(value, 0f32))
    }
}

/// A row that begins inside a vector. Its columns are counted from that vector's first element.
///
/// ```text
/// vectors    |. . . h h h h h|w w w w w w w w| .. |w w w w w w w w|t t . . . . . .|
///             before  head     whole vectors                       tail
/// ```
#[derive(Clone, Copy)]
struct Ends {
    /// Elements of the vector before the row.
    before: Reg<u32>,
    /// Elements of the row in that vector, if it has some before the row.
    head: Reg<u32>,
    /// Columns of whole vectors.
    whole: Reg<u32>,
}

/// The vectors of every row that belong to one thread.
///
/// ```text
/// columns    | part of CTA 0                                      | part of CTA 1 ..
///            | t0 | t1 | .. | tn | t0 | t1 | .. | tn | ..         |
///              step 0              step 1
/// ```
#[derive(Clone, Copy)]
pub(super) struct Partition {
    pub(super) plan: Plan,
    /// The first column of the CTA's part.
    pub(super) base: Reg<u32>,
    /// Columns of the CTA's part, where they are not [`Plan::part`].
    cut: Option<Reg<u32>>,
    first: Reg<u32>,
    /// The thread's rank in its CTA, and the CTA's.
    rank: (Reg<u32>, Reg<u32>),
    /// The ends of the row, where rows begin inside vectors.
    ends: Option<Ends>,
}

impl Partition {
    #[device]
    pub(super) fn new(plan: Plan, group: &Group) -> Self {
        let base = group.cta * plan.part();
        let is_cut = plan.part() * plan.ctas != plan.columns && !plan.begins_inside();
        let cut = is_cut.then(|| (plan.columns - base.min(plan.columns)).min(plan.part()));
        let rank = (group.rank, group.cta);
        Self { plan, base, cut, first: group.rank * plan.lanes, rank, ends: None }
    }

    /// The same for one row.
    #[track_caller]
    pub(super) fn of_row(self, row: Reg<u32>) -> Self {
        let Self { plan, base, .. } = self;
        if !plan.begins_inside() {
            return self;
        }
        let before = before(row, plan);
        let head = (plan.lanes - before) % plan.lanes;
        let whole = (plan.columns - head) / plan.lanes * plan.lanes;
        let cut = (whole - base.min(whole)).min(plan.part());
        Self { cut: Some(cut), ends: Some(Ends { before, head, whole }), ..self }
    }

    /// The access of what a predecessor may have written.
    pub(super) fn access(&self) -> Access {
        overlap::read_once(self.plan.dependent_launch)
    }

    /// The column of the CTA's first whole vector.
    #[track_caller]
    pub(super) fn first_column(&self) -> Reg<u32> {
        self.ends.map_or(self.base, |ends| self.base + (ends.before + ends.head))
    }

    /// The positions of this thread's single elements of a row that begins inside a vector: the
    /// threads of the first CTA have one each.
    #[track_caller]
    fn ends(&self) -> Vec<Position> {
        let Some(Ends { before, head, whole }) = self.ends else { return Vec::new() };
        let (lanes, (rank, cta)) = (self.plan.lanes, self.rank);
        let position = |first: u32| {
            let element = rank + first;
            let is_head = element.lt(lanes);
            let in_row = is_head.select(element, head + whole + (element - lanes));
            let inside = is_head.select(element.lt(head).to_u32(), in_row.lt(self.plan.columns).to_u32());
            let is_one = element.lt(2 * lanes) & cta.eq(0u32) & inside.eq(1u32);
            let column = before + in_row;
            Position { column, local: column, offset: 0, step: 0, inside: Some(is_one), lanes: 1 }
        };
        (0..2 * lanes).step_by(self.plan.threads as usize).map(position).collect()
    }

    /// Columns of the CTA's part.
    #[track_caller]
    pub(super) fn columns(&self) -> Reg<u32> {
        self.cut.unwrap_or_else(|| constant(self.plan.part()))
    }

    /// The positions of this thread's vectors from `base` on; without `base`, those of the whole
    /// part, which registers hold.
    #[track_caller]
    fn positions(&self, base: Option<Reg<u32>>) -> Vec<Position> {
        let stride = self.plan.lanes * self.plan.threads;
        let local = base.map_or(self.first, |base| self.first + base);
        let column = match self.ends {
            Some(_) => local + self.first_column(),
            None if self.plan.ctas > 1 => local + self.base,
            None => local,
        };
        let position = |step: u32| {
            let offset = step * stride;
            let is_inside = base.is_none() && self.cut.is_none() && offset + stride <= self.plan.part();
            let inside = (!is_inside).then(|| (local + offset).lt(self.columns()));
            Position { column, local, offset, step: step as usize, inside, lanes: self.plan.lanes }
        };
        (0..self.plan.steps).map(position).collect()
    }

    /// Loads the vector at `at`; words of `fill` where its position is outside the row.
    #[device]
    fn load<T: RowElement, S: Space>(
        &self,
        at: Pointer<T, S>,
        position: Position,
        fill: u32,
        access: Access,
    ) -> Chunk<T> {
        match position.inside {
            None => Chunk::load(at, position.lanes, access),
            Some(inside) => {
                let mut chunk = Chunk::filled(fill, position.lanes);
                if inside {
                    chunk = Chunk::load(at, position.lanes, access);
                }
                chunk
            }
        }
    }

    /// Rounds values to `T` and stores them, where the position is inside the row and the row is
    /// valid.
    #[device]
    pub(super) fn store<T: RowElement>(
        &self,
        row: Global<T>,
        position: Position,
        valid: Option<Reg<bool>>,
        values: &[Reg<f32>],
    ) {
        let stores = match (position.inside, valid) {
            (Some(inside), Some(valid)) => Some(inside & valid),
            (inside, valid) => inside.or(valid),
        };
        let chunk = Chunk::<T>::of(values);
        let access = match self.plan.write {
            Evict::First => Access::new().cached(CacheOperator::Streaming),
            Evict::Normal => Access::new(),
        };
        match stores {
            None => chunk.store(position.of_row(row), access),
            Some(stores) => {
                if stores {
                    chunk.store(position.of_row(row), access);
                }
            }
        }
    }
}

/// An input row: in registers where they hold all of it, else read from memory each time.
pub(super) struct Row<T> {
    partition: Partition,
    source: Source<T>,
    resident: Option<Vec<(Position, Chunk<T>)>>,
}

/// Where a row is read. A row of two sources is their sum, rounded to `T`.
pub(super) enum Source<T> {
    /// Global memory, and the word that stands for vectors outside the row.
    Global(Vec<Global<T>>, u32),
    /// A vector that all rows share, such as weights, in global memory. L1 caches it.
    Broadcast(Global<T>),
    /// The CTA's part of such a vector, in shared memory.
    SharedBroadcast(Shared<T>),
    /// A stage of the pipeline: the CTA's part of each source, and the word outside the row.
    Stage(Vec<Shared<T>>, u32),
}

impl<T: RowElement> Row<T> {
    /// This thread's part of a row.
    #[track_caller]
    pub(super) fn new(partition: Partition, source: Source<T>) -> Self {
        let mut row = Self { partition, source, resident: None };
        row.resident = partition.plan.is_resident().then(|| {
            let positions = [partition.positions(None), partition.ends()].concat();
            row.load(positions)
        });
        row
    }

    /// Issues the loads of all positions before the first use.
    #[track_caller]
    fn load(&self, positions: Vec<Position>) -> Vec<(Position, Chunk<T>)> {
        let of_global = |rows: &[Global<T>], fill, access| {
            let load = |row: Global<T>, at: Position| self.partition.load(at.of_row(row), at, fill, access);
            sum_of(rows, load, &positions)
        };
        let of_shared = |parts: &[Shared<T>], fill| {
            let load = |part: Shared<T>, at: Position| {
                self.partition.load(at.of_part(part), at, fill, Access::new())
            };
            sum_of(parts, load, &positions)
        };
        let chunks = match &self.source {
            Source::Global(rows, fill) => of_global(rows, *fill, self.partition.access()),
            Source::Broadcast(row) => of_global(&[*row], 0, self.partition.access()),
            Source::SharedBroadcast(part) => of_shared(&[*part], 0),
            Source::Stage(parts, fill) => of_shared(parts, *fill),
        };
        positions.into_iter().zip(chunks).collect()
    }

    /// This thread's vectors, where registers hold the whole row.
    pub(super) fn resident(&self) -> Option<&[(Position, Chunk<T>)]> {
        self.resident.as_deref()
    }

    /// Folds `work` over this thread's vectors: once over all of them where registers hold the row,
    /// else in a loop on the device.
    #[device]
    pub(super) fn fold<S: DeviceValue + Yields<S> + Copy>(
        &self,
        mut state: S,
        work: impl Fn(S, &[(Position, Chunk<T>)]) -> S,
    ) -> S {
        match &self.resident {
            Some(vectors) => state = work(state, vectors),
            None => {
                let plan = self.partition.plan;
                if plan.begins_inside() {
                    state = work(state, &self.load(self.partition.ends()));
                }
                for base in (constant(0u32)..plan.part()).step_by(plan.span()) {
                    state = work(state, &self.load(self.partition.positions(Some(base))));
                }
            }
        }
        state
    }

    /// Calls `work` with each of this thread's vectors.
    #[track_caller]
    pub(super) fn for_each(&self, work: impl Fn(Position, Vec<Reg<f32>>)) {
        self.fold((), |(), vectors| {
            vectors.iter().for_each(|(position, chunk)| work(*position, chunk.values()));
        });
    }

    /// The values of a broadcast vector at a position of an input row.
    #[track_caller]
    pub(super) fn at(&self, position: Position) -> Vec<Reg<f32>> {
        match (&self.resident, &self.source) {
            (Some(vectors), _) => vectors[position.step].1.values(),
            (None, Source::Broadcast(row)) => {
                let access = self.partition.access();
                self.partition.load(position.of_row(*row), position, 0, access).values()
            }
            (None, Source::SharedBroadcast(part)) => {
                self.partition.load(position.of_part(*part), position, 0, Access::new()).values()
            }
            (None, Source::Global(..) | Source::Stage(..)) => {
                unreachable!("only broadcast vectors are looked up")
            }
        }
    }

    /// Folds `add` over this thread's elements, starting from 0. The elements of a vector are added
    /// in order, then the sums of the vectors.
    #[track_caller]
    pub(super) fn sum(&self, add: impl Fn(Reg<f32>, Reg<f32>) -> Reg<f32>) -> Reg<f32> {
        self.fold(constant(0f32).duplicate(), |sum, vectors| {
            let of_vector = |(position, chunk): &(Position, Chunk<T>)| {
                position.or_zero(chunk.values().into_iter().fold(constant(0f32), &add))
            };
            sum + pairwise(&vectors.iter().map(of_vector).collect::<Vec<_>>(), |a, b| a + b)
        })
    }
}

/// Loads every position of each source and adds the sources.
#[track_caller]
fn sum_of<S: Copy, T: RowElement>(
    sources: &[S],
    load: impl Fn(S, Position) -> Chunk<T>,
    positions: &[Position],
) -> Vec<Chunk<T>> {
    let loaded: Vec<Vec<_>> =
        sources.iter().map(|source| positions.iter().map(|at| load(*source, *at)).collect()).collect();
    loaded
        .into_iter()
        .reduce(|sums, more| sums.iter().zip(&more).map(|(a, b)| a.plus(b)).collect())
        .unwrap_or_default()
}

/// Where a broadcast vector is until it is looked up, if it is not in shared memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Residency {
    /// In registers, loaded at once.
    Registers,
    /// In global memory: registers are short.
    Memory,
}

/// A vector that all rows share, such as weights.
///
/// Persistent CTAs keep their part of it in shared memory. (H200, RMSNorm of 262,144 columns: 3.5
/// TB/s where L2 serves the weights for each row, 4.0 from shared memory.)
#[derive(Clone, Copy)]
pub(super) struct Broadcast<T> {
    partition: Partition,
    row: Global<T>,
    shared: Option<Shared<T>>,
}

impl<T: RowElement> Broadcast<T> {
    #[track_caller]
    pub(super) fn new(partition: Partition, row: Global<T>) -> Self {
        let is_kept = partition.plan.is_persistent() && partition.plan.is_resident();
        Self { partition, row, shared: is_kept.then(|| copy_to_shared(partition, row)) }
    }

    /// This thread's part.
    #[track_caller]
    pub(super) fn row(&self, residency: Residency) -> Row<T> {
        let Self { partition, row, shared } = *self;
        match shared {
            Some(shared) => Row { partition, source: Source::SharedBroadcast(shared), resident: None },
            None if residency == Residency::Memory || partition.plan.rows > 1 => {
                Row { partition, source: Source::Broadcast(row), resident: None }
            }
            None => Row::new(partition, Source::Broadcast(row)),
        }
    }
}

/// Copies the CTA's part to shared memory. Each thread copies what it will read, so that no barrier
/// is needed; where several groups share the copy, the first group makes it.
#[device]
fn copy_to_shared<T: RowElement>(partition: Partition, row: Global<T>) -> Shared<T> {
    let shared = dynamic_shared::<T>(partition.plan.span());
    if partition.plan.rows > 1 {
        if thread_idx().x < partition.plan.threads {
            copy(partition, row, shared);
        }
        sync_threads();
    } else {
        copy(partition, row, shared);
    }
    shared
}

/// Copies this thread's vectors.
#[device]
fn copy<T: RowElement>(partition: Partition, row: Global<T>, shared: Shared<T>) {
    for at in partition.positions(None) {
        let chunk = partition.load(at.of_row(row), at, 0, partition.access());
        chunk.store(at.of_part(shared), Access::new());
    }
}

/// The first element of a row of a row-major matrix.
#[track_caller]
pub(super) fn start<T: RowElement>(matrix: Global<T>, row: Reg<u32>, columns: u32) -> Global<T> {
    matrix.at(row.convert::<u64>() * u64::from(columns))
}

/// The first element of the vector where a row begins.
#[track_caller]
pub(super) fn first_vector<T: RowElement>(matrix: Global<T>, row: Reg<u32>, plan: Plan) -> Global<T> {
    if !plan.begins_inside() {
        return start(matrix, row, plan.columns);
    }
    let element = row.convert::<u64>() * u64::from(plan.columns);
    matrix.at(element - before(row, plan).convert::<u64>())
}

/// Elements of a row's first vector before the row.
#[track_caller]
fn before(row: Reg<u32>, plan: Plan) -> Reg<u32> {
    row * plan.columns % plan.lanes
}

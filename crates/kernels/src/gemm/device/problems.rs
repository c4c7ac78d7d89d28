//! The problems of one launch, as a tile sees its own: the extents, the operands, the coordinates
//! in C.
//!
//! Which kind of batching there is is known when the kernel is built: a single problem costs
//! nothing for what several need.

use warpwright::lang::access::Scope;
use warpwright::lang::fence::fence_tensor_map_acquire;
use warpwright::lang::tensor::MappedMatrix;
use warpwright::lang::tensor_map::TENSOR_MAP_BYTES;
use warpwright::prelude::*;

use super::epilogue::{EpilogueParameters, Origin};
use crate::gemm::problem::epilogue::NUMBERS;

/// The problems of a launch.
#[derive(Clone, Copy, DeviceValue)]
pub struct Problems {
    /// The tensor maps of A and B.
    maps: (TensorMap, TensorMap),
    /// Those of their scales.
    scale_maps: Option<(TensorMap, TensorMap)>,
    /// Whether each problem has an A, and a B, of its own: the third axis of the maps.
    own: (bool, bool),
    /// (m, n, k); of groups along m, those of all together.
    extents: (Reg<u32>, Reg<u32>, Reg<u32>),
    batch: Option<StridedBatch>,
    groups: Option<GroupsAlongM>,
    table: Option<ProblemTable>,
}

/// Problems of one shape at constant strides.
#[derive(Clone, Copy, DeviceValue)]
pub struct StridedBatch {
    /// How many.
    pub count: Reg<u32>,
    /// Elements from one C to the next.
    pub c_stride: Reg<u64>,
}

/// Groups of rows of one A and C, each with a B of its own. Where C's transpose is computed, they
/// are columns of B and C.
#[derive(Clone, Copy, DeviceValue)]
pub struct GroupsAlongM {
    /// How many.
    pub count: Reg<u32>,
    /// The first row of each, and behind them the number of all rows.
    pub offsets: Global<u32>,
    /// The most groups.
    pub capacity: u32,
    /// Whether the kernel computes C's transpose.
    pub transposed: bool,
}

/// Problems of unlike extents: a record of each in global memory, which the host wrote.
#[derive(Clone, Copy, DeviceValue)]
pub struct ProblemTable {
    /// The records.
    pub records: Global<u8>,
    /// How many.
    pub count: Reg<u32>,
    /// The most records.
    pub capacity: u32,
    /// Whether the operands have scales.
    pub is_scaled: bool,
}

/// Bytes of a record: the maps of A, B and C; m, n, k and padding in 32 bits each; the addresses of
/// C, the row scales, the column scales and the bias; the epilogue's numbers; and from
/// [`RECORD_SCALES`] on, the maps of the scales.
pub(crate) const fn record_bytes(is_scaled: bool) -> usize {
    if is_scaled { RECORD_SCALES + 2 * TENSOR_MAP_BYTES } else { RECORD_SCALES }
}

/// The offset of the maps of the scales.
pub(crate) const RECORD_SCALES: usize = 512;

/// The offset of the extents.
pub(crate) const RECORD_EXTENTS: usize = 3 * TENSOR_MAP_BYTES;

/// The offset of the addresses.
const RECORD_ADDRESSES: usize = RECORD_EXTENTS + 4 * size_of::<u32>();

/// The offset of the epilogue's numbers.
const RECORD_NUMBERS: usize = RECORD_ADDRESSES + 4 * size_of::<u64>();

#[device]
impl ProblemTable {
    fn record(&self, problem: Reg<u32>) -> Global<u8> {
        self.records.at(problem * record_bytes(self.is_scaled) as u32)
    }

    /// (m, n, k).
    fn extents(&self, problem: Reg<u32>) -> (Reg<u32>, Reg<u32>, Reg<u32>) {
        let [m, n, k, _] =
            self.record(problem).byte_offset(RECORD_EXTENTS as i64).cast::<u32>().load_vector::<4>();
        (m, n, k)
    }

    /// The map of A, B or C: 0, 1 or 2.
    fn map(&self, problem: Reg<u32>, index: usize) -> MappedMatrix {
        self.map_at(problem, index * TENSOR_MAP_BYTES)
    }

    /// The maps of the scales.
    fn scales(&self, problem: Reg<u32>) -> (MappedMatrix, MappedMatrix) {
        let scales = |index: usize| self.map_at(problem, RECORD_SCALES + index * TENSOR_MAP_BYTES);
        (scales(0), scales(1))
    }

    /// The map at an offset of a record, acquired for copies of this thread: the host wrote it.
    /// (CUDA C++ Programming Guide, "Using tensor maps in global memory".)
    fn map_at(&self, problem: Reg<u32>, offset: usize) -> MappedMatrix {
        let map = TensorMap::in_global(self.record(problem).byte_offset(offset as i64));
        fence_tensor_map_acquire(map, Scope::System);
        MappedMatrix::from(&map)
    }

    /// C of a problem.
    fn elements<C: Element>(&self, problem: Reg<u32>) -> Global<C> {
        Global::from_address_mut(self.address(problem, 0))
    }

    /// One of a problem's four addresses.
    fn address(&self, problem: Reg<u32>, index: usize) -> Reg<u64> {
        let offset = (RECORD_ADDRESSES + index * size_of::<u64>()) as i64;
        self.record(problem).byte_offset(offset).cast::<u64>().load()
    }

    /// The arguments of a problem's epilogue, and its C.
    pub(crate) fn epilogue<C: Element>(&self, problem: Reg<u32>) -> (EpilogueParameters<C>, Global<C>) {
        let numbers =
            self.record(problem).byte_offset(RECORD_NUMBERS as i64).cast::<f32>().load_vector::<NUMBERS>();
        let [rows, columns, more_columns] =
            [1, 2, 3].map(|index| Global::from_address(self.address(problem, index)));
        let c = self.elements(problem);
        (EpilogueParameters { matrix: c, numbers, rows, columns, more_columns }, c)
    }
}

#[device]
impl GroupsAlongM {
    /// The first row of a group, and the one after its last.
    fn rows(&self, problem: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let begin = self.offsets.at(problem);
        (begin.load(), begin.at(1).load())
    }

    /// The coordinate of the first in the kernel's own C.
    fn coordinate(&self, problem: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let (begin, _) = self.rows(problem);
        if self.transposed { (constant(0u32), begin) } else { (begin, constant(0u32)) }
    }
}

#[device]
impl Problems {
    /// A single one: C (m, n) = A (m, k) · B (k, n).
    pub fn one(a: &TensorMap, b: &TensorMap, extents: (Reg<u32>, Reg<u32>, Reg<u32>)) -> Self {
        let (maps, own) = ((*a, *b), (false, false));
        Self { maps, scale_maps: None, own, extents, batch: None, groups: None, table: None }
    }

    /// With scales.
    pub fn with_scales(self, scale_maps: Option<(TensorMap, TensorMap)>) -> Self {
        Self { scale_maps, ..self }
    }

    /// Several, of which each has an A, and a B, of its own or not.
    pub fn of_own(self, own: (bool, bool)) -> Self {
        Self { own, ..self }
    }

    /// Several of that shape.
    pub fn in_batch(self, batch: StridedBatch) -> Self {
        Self { batch: Some(batch), ..self }
    }

    /// Groups of those rows.
    pub fn in_groups(self, groups: GroupsAlongM) -> Self {
        Self { groups: Some(groups), ..self }
    }

    /// Those of a table.
    pub fn of_table(table: ProblemTable) -> Self {
        let nothing = (constant(0u32), constant(0u32), constant(0u32));
        let map = TensorMap::in_global(table.records);
        Self { table: Some(table), ..Self::one(&map, &map, nothing) }
    }

    /// Prefetches the maps that all share.
    pub(crate) fn prefetch(&self) {
        if self.table.is_none() {
            self.maps.0.prefetch();
            self.maps.1.prefetch();
            if let Some((a, b)) = self.scale_maps {
                a.prefetch();
                b.prefetch();
            }
        }
    }

    /// The number of problems of a batch; `None` for a single one.
    pub(crate) fn count(&self) -> Option<Reg<u32>> {
        self.batch.map(|batch| batch.count)
    }

    /// Where they have different extents: the most there may be, and how many there are.
    pub(crate) fn unlike(&self) -> Option<(u32, Reg<u32>)> {
        let groups = self.groups.map(|groups| (groups.capacity, groups.count));
        groups.or(self.table.map(|table| (table.capacity, table.count)))
    }

    /// The k of a problem, if they differ.
    pub(crate) fn k_of(&self, problem: Option<Reg<u32>>) -> Option<Reg<u32>> {
        let (_, _, k) = self.table?.extents(problem?);
        Some(k)
    }

    /// (m, n, k); of groups along m, those of all together.
    pub(crate) fn extents(&self) -> (Reg<u32>, Reg<u32>, Reg<u32>) {
        self.extents
    }

    /// Rows and columns of a problem's C.
    pub(crate) fn extents_of(&self, problem: Option<Reg<u32>>) -> (Reg<u32>, Reg<u32>) {
        if let (Some(table), Some(problem)) = (self.table, problem) {
            let (m, n, _) = table.extents(problem);
            return (m, n);
        }
        let (m, n, _) = self.extents;
        let Some((groups, problem)) = self.groups.zip(problem) else {
            return (m, n);
        };
        let (begin, end) = groups.rows(problem);
        if groups.transposed { (m, end - begin) } else { (end - begin, n) }
    }

    /// A and B of a problem, for the thread that loads their tiles.
    pub(crate) fn operands(&self, problem: Option<Reg<u32>>) -> (MappedMatrix, MappedMatrix) {
        if let (Some(table), Some(problem)) = (self.table, problem) {
            return (table.map(problem, 0), table.map(problem, 1));
        }
        let ((a, b), (a_rows, b_rows)) = (self.own(problem, self.maps), self.rows_before(problem));
        let beginning = |all: MappedMatrix, rows: Option<Reg<u32>>| match rows {
            Some(rows) => all.offset_by((rows, constant(0u32))),
            None => all,
        };
        (beginning(a, a_rows), beginning(b, b_rows))
    }

    /// The scales of a problem, for the thread that loads them. Their rows begin at
    /// [`rows_before`](Self::rows_before).
    pub(crate) fn scales(&self, problem: Option<Reg<u32>>) -> (MappedMatrix, MappedMatrix) {
        match (self.table, problem) {
            (Some(table), Some(problem)) => table.scales(problem),
            _ => self.own(problem, self.scale_maps.unwrap_or(self.maps)),
        }
    }

    /// Rows of A, and of B, before a group's first.
    pub(crate) fn rows_before(&self, problem: Option<Reg<u32>>) -> (Option<Reg<u32>>, Option<Reg<u32>>) {
        let Some((groups, problem)) = self.groups.zip(problem) else {
            return (None, None);
        };
        let (begin, _) = groups.rows(problem);
        if groups.transposed { (None, Some(begin)) } else { (Some(begin), None) }
    }

    /// A problem's part of two maps, A's and B's: its own matrix along the third axis, if it has
    /// one.
    fn own(&self, problem: Option<Reg<u32>>, (a, b): (TensorMap, TensorMap)) -> (MappedMatrix, MappedMatrix) {
        let numbered = |own: bool, map: TensorMap| {
            let all = MappedMatrix::from(&map);
            problem.filter(|_| own).map_or(all, |problem| all.batch(problem))
        };
        (numbered(self.own.0, a), numbered(self.own.1, b))
    }

    /// C of a problem, as TMA stores it; `c` is that of all.
    pub(crate) fn c_map(&self, c: &TensorMap, problem: Option<Reg<u32>>) -> MappedMatrix {
        if let (Some(table), Some(problem)) = (self.table, problem) {
            return table.map(problem, 2);
        }
        let all = MappedMatrix::from(c);
        match (problem, self.groups) {
            (Some(problem), Some(groups)) => all.offset_by(groups.coordinate(problem)),
            (Some(problem), None) => all.batch(problem),
            (None, _) => all,
        }
    }

    /// C of a problem, as threads store it; `c` is that of all.
    pub(crate) fn elements<C: Element>(&self, c: &Global<C>, problem: Option<Reg<u32>>) -> Global<C> {
        if let (Some(table), Some(problem)) = (self.table, problem) {
            return table.elements(problem);
        }
        self.origin(problem).map_or(*c, |origin| c.at(origin.element))
    }

    /// Whether a tile that ends at `end` reaches into the rows of the next group; `None` without
    /// groups along m.
    pub(crate) fn reaches_into_next(
        &self,
        problem: Option<Reg<u32>>,
        end: impl FnOnce() -> (Reg<u32>, Reg<u32>),
    ) -> Option<Reg<bool>> {
        let groups = self.groups?;
        let ((m, n), (rows, columns)) = (self.extents_of(problem), end());
        Some(if groups.transposed { columns.gt(n) } else { rows.gt(m) })
    }

    /// Where a problem begins in what all share.
    pub(crate) fn origin(&self, problem: Option<Reg<u32>>) -> Option<Origin> {
        let (problem, (m, n, _)) = (problem?, self.extents);
        if let Some(batch) = self.batch {
            let element = problem.convert::<u64>() * batch.c_stride;
            return Some(Origin { row: problem * m, column: problem * n, element });
        }
        let groups = self.groups?;
        let (begin, _) = groups.rows(problem);
        let (row, column, width) =
            if groups.transposed { (problem * m, begin, m) } else { (begin, problem * n, n) };
        Some(Origin { row, column, element: begin.convert::<u64>() * width.convert::<u64>() })
    }
}

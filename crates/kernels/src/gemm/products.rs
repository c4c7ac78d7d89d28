//! The products that one launch computes, and what a tile must know of its own: the extents, the factors, the place in C.
//!
//! Which kind they are of is known when the kernel is built: one product costs nothing for what several need.

use warpwright::lang::access::Scope;
use warpwright::lang::fence::fence_tensor_map_acquire;
use warpwright::lang::tensor::MappedMatrix;
use warpwright::lang::tensor_map::TENSOR_MAP_BYTES;
use warpwright::prelude::*;

use super::epilogue::Origin;
use super::finish::{Kinds, NUMBERS, Terms};
use super::store::Finished;

/// The products of a launch.
#[derive(Clone, Copy, DeviceValue)]
pub struct Products {
    /// The maps of A and B.
    maps: (TensorMap, TensorMap),
    /// (m, n, k); of groups of rows, those of all together.
    extents: (Reg<u32>, Reg<u32>, Reg<u32>),
    batch: Option<BatchAxis>,
    groups: Option<RowGroups>,
    records: Option<Records>,
}

/// Products of one shape, whose matrices lie one after another.
#[derive(Clone, Copy, DeviceValue)]
pub struct BatchAxis {
    /// How many.
    pub count: Reg<u32>,
    /// Whether each has an A, and a B, of its own: the third axis of their maps.
    pub own: (bool, bool),
    /// Elements from one C to the next.
    pub c_stride: Reg<u64>,
}

/// Products of which each has some rows of one A and C, and a B of its own. Where C's transpose is computed, these are columns of B and C.
#[derive(Clone, Copy, DeviceValue)]
pub struct RowGroups {
    /// How many.
    pub count: Reg<u32>,
    /// The first row of each, and behind them the number of all rows.
    pub offsets: Global<u32>,
    /// There is room for so many.
    pub most: u32,
    /// Whether the kernel computes C's transpose.
    pub transposed: bool,
}

/// Products of different extents, each with matrices of its own: a record of each in global memory, which the host wrote.
#[derive(Clone, Copy, DeviceValue)]
pub struct Records {
    /// The records.
    pub table: Global<u8>,
    /// How many.
    pub count: Reg<u32>,
    /// There is room for so many.
    pub most: u32,
    /// Whether blocks of A and B have scales.
    pub are_scaled: bool,
}

/// Bytes of a record: the maps of A, B and C; m, n, k and nothing in 32 bits each; the addresses of C, the row scales, the column scales and
/// the bias; the numbers of the epilogue; and where blocks have scales, from [`RECORD_SCALES`] on, the maps of A's and B's.
pub(super) const fn record_bytes(are_scaled: bool) -> usize {
    if are_scaled { RECORD_SCALES + 2 * TENSOR_MAP_BYTES } else { RECORD_SCALES }
}

/// Where the maps of the scales begin in it.
pub(super) const RECORD_SCALES: usize = 512;

/// Where the extents begin in it.
pub(super) const RECORD_EXTENTS: usize = 3 * TENSOR_MAP_BYTES;

/// Where the addresses begin.
const RECORD_ADDRESSES: usize = RECORD_EXTENTS + 4 * size_of::<u32>();

/// Where the numbers of the epilogue are.
const RECORD_NUMBERS: usize = RECORD_ADDRESSES + 4 * size_of::<u64>();

#[device]
impl Records {
    /// The record of a product.
    fn record(&self, product: Reg<u32>) -> Global<u8> {
        self.table.at(product * record_bytes(self.are_scaled) as u32)
    }

    /// (m, n, k).
    fn extents(&self, product: Reg<u32>) -> (Reg<u32>, Reg<u32>, Reg<u32>) {
        let [m, n, k, _] =
            self.record(product).byte_offset(RECORD_EXTENTS as i64).cast::<u32>().load_vector::<4>();
        (m, n, k)
    }

    /// Map `index` of a product's three.
    fn map(&self, product: Reg<u32>, index: usize) -> MappedMatrix {
        self.map_at(product, index * TENSOR_MAP_BYTES)
    }

    /// The scales of A and B of a product.
    fn scales(&self, product: Reg<u32>) -> (MappedMatrix, MappedMatrix) {
        let scales = |index: usize| self.map_at(product, RECORD_SCALES + index * TENSOR_MAP_BYTES);
        (scales(0), scales(1))
    }

    /// The map at a place of a record, ready for copies of this thread: the host wrote it. (CUDA Programming Guide, "Using tensor maps in
    /// global memory".)
    fn map_at(&self, product: Reg<u32>, place: usize) -> MappedMatrix {
        let map = TensorMap::in_global(self.record(product).byte_offset(place as i64));
        fence_tensor_map_acquire(map, Scope::System);
        MappedMatrix::from(&map)
    }

    /// C of a product.
    fn elements<C: Element>(&self, product: Reg<u32>) -> Global<C> {
        self.address(product, 0)
    }

    /// Address `index` of a product's four.
    fn address<E: Element>(&self, product: Reg<u32>, index: usize) -> Global<E> {
        let place = (RECORD_ADDRESSES + index * size_of::<u64>()) as i64;
        Global::from_address(self.record(product).byte_offset(place).cast::<u64>().load(), true)
    }

    /// The numbers and vectors of a product's epilogue.
    pub(super) fn terms<C: Element>(&self, product: Reg<u32>, kinds: Kinds) -> Terms<C> {
        let numbers =
            self.record(product).byte_offset(RECORD_NUMBERS as i64).cast::<f32>().load_vector::<NUMBERS>();
        let [rows, columns, more_columns] = [1, 2, 3].map(|index| self.address(product, index));
        let c = self.elements(product);
        Terms::new(kinds, numbers, [&rows, &columns, &more_columns], [&c, &c])
    }
}

#[device]
impl RowGroups {
    /// The first row of a product, and the one after its last.
    fn rows(&self, product: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let begin = self.offsets.at(product);
        (begin.load(), begin.at(1).load())
    }

    /// Where the first of them is in the kernel's own C.
    fn place(&self, product: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let (begin, _) = self.rows(product);
        if self.transposed { (constant(0u32), begin) } else { (begin, constant(0u32)) }
    }
}

#[device]
impl Products {
    /// A single one: C (m, n) = A (m, k) · B (k, n).
    pub fn one(a: &TensorMap, b: &TensorMap, extents: (Reg<u32>, Reg<u32>, Reg<u32>)) -> Self {
        Self { maps: (*a, *b), extents, batch: None, groups: None, records: None }
    }

    /// Several of that shape.
    pub fn in_batch(self, batch: BatchAxis) -> Self {
        Self { batch: Some(batch), ..self }
    }

    /// Several, whose rows together are those of A and C.
    pub fn in_groups(self, groups: RowGroups) -> Self {
        Self { groups: Some(groups), ..self }
    }

    /// Several with nothing in common.
    pub fn of_records(records: Records) -> Self {
        let nothing = (constant(0u32), constant(0u32), constant(0u32));
        let map = TensorMap::in_global(records.table);
        Self { records: Some(records), ..Self::one(&map, &map, nothing) }
    }

    /// Fetches the maps that all share, and more.
    pub(super) fn prefetch(&self, more: &[TensorMap]) {
        if self.records.is_none() {
            self.maps.0.prefetch();
            self.maps.1.prefetch();
            more.iter().for_each(|map| map.prefetch());
        }
    }

    /// How many there are of one shape; `None` of a single one.
    pub(super) fn count(&self) -> Option<Reg<u32>> {
        self.batch.map(|batch| batch.count)
    }

    /// Where they have different shapes: how many there may be and are.
    pub(super) fn uneven(&self) -> Option<(u32, Reg<u32>)> {
        let groups = self.groups.map(|groups| (groups.most, groups.count));
        groups.or(self.records.map(|records| (records.most, records.count)))
    }

    /// The depth of a product, where they have different ones.
    pub(super) fn depth_of(&self, product: Option<Reg<u32>>) -> Option<Reg<u32>> {
        let (_, _, k) = self.records?.extents(product?);
        Some(k)
    }

    /// (m, n, k), of all together where they differ.
    pub(super) fn shape(&self) -> (Reg<u32>, Reg<u32>, Reg<u32>) {
        self.extents
    }

    /// Rows and columns of a product's C.
    pub(super) fn extents_of(&self, product: Option<Reg<u32>>) -> (Reg<u32>, Reg<u32>) {
        if let (Some(records), Some(product)) = (self.records, product) {
            let (m, n, _) = records.extents(product);
            return (m, n);
        }
        let (m, n, _) = self.extents;
        let Some((groups, product)) = self.groups.zip(product) else {
            return (m, n);
        };
        let (begin, end) = groups.rows(product);
        if groups.transposed { (m, end - begin) } else { (end - begin, n) }
    }

    /// A and B of a product, for the thread that loads their tiles.
    pub(super) fn factors(&self, product: Option<Reg<u32>>) -> (MappedMatrix, MappedMatrix) {
        if let (Some(records), Some(product)) = (self.records, product) {
            return (records.map(product, 0), records.map(product, 1));
        }
        let ((a, b), (a_rows, b_rows)) = (self.own(product, self.maps), self.rows_before(product));
        let beginning = |all: MappedMatrix, rows: Option<Reg<u32>>| match rows {
            Some(rows) => all.offset_by((rows, constant(0u32))),
            None => all,
        };
        (beginning(a, a_rows), beginning(b, b_rows))
    }

    /// The scales of A and B of a product, for the thread that loads them; `maps` are those of all. Their rows begin where
    /// [`rows_before`](Self::rows_before) says.
    pub(super) fn scales(
        &self,
        product: Option<Reg<u32>>,
        maps: (TensorMap, TensorMap),
    ) -> (MappedMatrix, MappedMatrix) {
        match (self.records, product) {
            (Some(records), Some(product)) => records.scales(product),
            _ => self.own(product, maps),
        }
    }

    /// Rows of A, and of B, before the first of a product, where products have rows of one.
    pub(super) fn rows_before(&self, product: Option<Reg<u32>>) -> (Option<Reg<u32>>, Option<Reg<u32>>) {
        let Some((groups, product)) = self.groups.zip(product) else {
            return (None, None);
        };
        let (begin, _) = groups.rows(product);
        if groups.transposed { (None, Some(begin)) } else { (Some(begin), None) }
    }

    /// What a product has of two maps, of A's and of B's: its own matrix along the third axis, where it has one.
    fn own(&self, product: Option<Reg<u32>>, (a, b): (TensorMap, TensorMap)) -> (MappedMatrix, MappedMatrix) {
        let own = match (self.batch, self.groups) {
            (Some(batch), _) => batch.own,
            (None, Some(groups)) => (groups.transposed, !groups.transposed),
            (None, None) => (false, false),
        };
        let numbered = |own: bool, map: TensorMap| {
            let all = MappedMatrix::from(&map);
            product.filter(|_| own).map_or(all, |product| all.batch(product))
        };
        (numbered(own.0, a), numbered(own.1, b))
    }

    /// C of a product, as TMA writes it; `c` is that of all.
    pub(super) fn boxes(&self, c: &TensorMap, product: Option<Reg<u32>>) -> MappedMatrix {
        if let (Some(records), Some(product)) = (self.records, product) {
            return records.map(product, 2);
        }
        let all = MappedMatrix::from(c);
        match (product, self.groups) {
            (Some(product), Some(groups)) => all.offset_by(groups.place(product)),
            (Some(product), None) => all.batch(product),
            (None, _) => all,
        }
    }

    /// C of a product, as threads write it; `c` is that of all.
    pub(super) fn elements<C: Element>(&self, c: &Global<C>, product: Option<Reg<u32>>) -> Global<C> {
        if let (Some(records), Some(product)) = (self.records, product) {
            return records.elements(product);
        }
        self.origin(product).map_or(*c, |origin| c.at(origin.element))
    }

    /// Whether the rows of a tile reach into those of the next product; `None` where they are not the same matrix's.
    pub(super) fn reaches_into_next(&self, tile: &Finished) -> Option<Reg<bool>> {
        let groups = self.groups?;
        let ((m, n), (rows, columns)) = (self.extents_of(tile.product), tile.end());
        Some(if groups.transposed { columns.gt(n) } else { rows.gt(m) })
    }

    /// Where a product begins in what all share.
    pub(super) fn origin(&self, product: Option<Reg<u32>>) -> Option<Origin> {
        let (product, (m, n, _)) = (product?, self.extents);
        if let Some(batch) = self.batch {
            let element = product.convert::<u64>() * batch.c_stride;
            return Some(Origin { row: product * m, column: product * n, element });
        }
        let groups = self.groups?;
        let (begin, _) = groups.rows(product);
        let (row, column, width) =
            if groups.transposed { (product * m, begin, m) } else { (begin, product * n, n) };
        Some(Origin { row, column, element: begin.convert::<u64>() * width.convert::<u64>() })
    }
}

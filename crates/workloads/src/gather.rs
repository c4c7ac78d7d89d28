//! The gather, and the copies of rows, as workloads.

use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    HostNumber, Options, Prepared, Random, Result, Setup, Values, Work, Workload, data_types, exactly,
};

use warpwright_kernels::gather::STEPS;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;

data_types! {
    /// Types of tables.
    pub(crate) enum TableType by with_table_type { bf16, f16, f32 }
}

/// Rows of a table by their indices, as an embedding; zeros where the table has no row.
#[derive(Clone, Debug, Options)]
pub(crate) struct GatherWorkload {
    /// Rows of the result.
    #[option(default = 5, max = 1 << 24)]
    tokens: u32,
    /// Columns.
    #[option(default = 1000, min = 1, max = 1 << 24)]
    hidden: u32,
    /// Rows of the table.
    #[option(default = 50, min = 1, max = 1 << 24)]
    entries: u32,
    /// Data type of the table.
    #[option(name = "type")]
    element: TableType,
    /// Vectors of a thread.
    #[option(default = STEPS, min = 1, max = 8, search = [1, 2, 4, 8])]
    steps: u32,
}

/// The index of the table's first row.
const FIRST: i32 = 1000;

impl GatherWorkload {
    /// Indices, some of them before and after the table.
    fn indices(&self, seed: u64) -> Vec<i32> {
        let mut random = Random::new(seed);
        let mut index = || match random.below(16) {
            0 => {
                [FIRST - 1, FIRST + self.entries.cast_signed(), i32::MIN, i32::MAX][random.below(4) as usize]
            }
            _ => FIRST + random.below(self.entries.into()) as i32,
        };
        (0..self.tokens).map(|_| index()).collect()
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (rows, columns, steps) = (self.tokens as usize, self.hidden as usize, self.steps);
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let table = setup.values::<T>(Values::Normal, seed, self.entries as usize * columns)?;
            Ok((table, setup.input(rows, |_| self.indices(seed))?, setup.output::<T>(rows * columns)?))
        })?;
        Ok(buffers
            .launch(move |stream, (table, indices, y)| {
                let (table, indices) = ((&*table, columns as u32), (&*indices, FIRST));
                Ok(operations.gather_rows_by(steps, stream, table, indices, y)?)
            })
            .verify(move |(table, indices, y)| {
                let (table, indices) = (table.to_vec()?, indices.to_vec()?);
                exactly(&y.to_vec()?, |index| {
                    let entry = i64::from(indices[index / columns]) - i64::from(FIRST);
                    let at = entry * columns as i64 + (index % columns) as i64;
                    usize::try_from(at).ok().and_then(|at| table.get(at)).map_or(0.0, |x| x.exact())
                })
            }))
    }
}

impl Workload for GatherWorkload {
    const NAME: &'static str = "gather-rows";

    /// Each row is read once and written once.
    fn work(&self) -> Work {
        let elements = f64::from(self.tokens) * f64::from(self.hidden);
        let bytes = with_table_type!(self.element, T => size_of::<T>()) as f64;
        Work { operations: 0.0, bytes: 2.0 * bytes * elements + 4.0 * f64::from(self.tokens) }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_table_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}

/// Rows of those extents, written to a table.
#[derive(Clone, Debug, Options)]
pub(crate) struct TableRows {
    /// Rows of the table.
    #[option(default = 9, min = 1, max = 1 << 20)]
    entries: u32,
    /// Columns.
    #[option(default = 1000, min = 1, max = 1 << 20)]
    hidden: u32,
    /// Data type of the table.
    #[option(name = "type")]
    element: TableType,
}

impl TableRows {
    fn elements(&self) -> usize {
        self.entries as usize * self.hidden as usize
    }

    /// Each row is read once and written once.
    fn work(&self, rows: u32) -> Work {
        let bytes = with_table_type!(self.element, T => size_of::<T>()) as f64;
        Work { operations: 0.0, bytes: 2.0 * bytes * f64::from(rows) * f64::from(self.hidden) }
    }
}

/// The numbers of a buffer, exactly.
fn exact<T: HostNumber>(buffer: &Buffer<T>) -> Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(HostNumber::exact).collect())
}

/// Writes rows to rows of a table by their indices, as the states of sequences to their slots.
#[derive(Clone, Debug, Options)]
pub(crate) struct ScatterWorkload {
    /// Rows that are written, up to the table's.
    #[option(default = 5, max = 1 << 16)]
    tokens: u32,
    /// The table.
    #[option(flatten)]
    table: TableRows,
}

impl ScatterWorkload {
    /// Distinct rows in descending order.
    fn indices(&self) -> Vec<u32> {
        (0..self.tokens).map(|row| (self.table.entries - 1).saturating_sub(row)).collect()
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, columns) = (self.clone(), self.table.hidden as usize);
        let operations = Operations::new(setup.device());
        let indices = setup.device().buffer_from(&self.indices())?;
        let buffers = setup.buffers(self.work(), |seed| {
            let rows = setup.values::<T>(Values::Normal, !seed, self.tokens as usize * columns)?;
            Ok((rows, setup.values::<T>(Values::Normal, seed, self.table.elements())?, seed))
        })?;
        Ok(buffers
            .launch(move |stream, (rows, table, _)| {
                Ok(operations.scatter_rows(stream, rows, &indices, (table, columns as u32))?)
            })
            .verify(move |(rows, table, seed)| {
                let mut expected = Values::Normal.numbers::<T>(*seed, this.table.elements());
                for (row, index) in rows.to_vec()?.chunks(columns).zip(this.indices()) {
                    expected[index as usize * columns..][..columns].copy_from_slice(row);
                }
                exactly(&table.to_vec()?, |index| expected[index].exact())
            }))
    }
}

impl Workload for ScatterWorkload {
    const NAME: &'static str = "scatter-rows";

    fn work(&self) -> Work {
        self.table.work(self.tokens)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_table_type!(self.table.element, T => self.prepare_of::<T>(setup))
    }
}

/// Copies one row of a table to another, as the state of a sequence to another slot.
#[derive(Clone, Debug, Options)]
pub(crate) struct CopyRowWorkload {
    /// The row that is copied, and becomes the last one.
    #[option(default = 0, max = 1 << 20)]
    from: u32,
    /// The table.
    #[option(flatten)]
    table: TableRows,
}

impl CopyRowWorkload {
    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, columns) = (self.clone(), self.table.hidden as usize);
        let (from, to) = (self.from, self.table.entries - 1);
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            Ok((setup.values::<T>(Values::Normal, seed, this.table.elements())?, seed))
        })?;
        let elements = self.table.elements();
        Ok(buffers
            .launch(move |stream, (table, _)| {
                Ok(operations.copy_row(stream, (table, columns as u32), (from, to))?)
            })
            .verify(move |(table, seed)| {
                let mut expected = Values::Normal.numbers::<T>(*seed, elements);
                let from = from as usize * columns;
                expected.copy_within(from..from + columns, to as usize * columns);
                exactly(&table.to_vec()?, |index| expected[index].exact())
            }))
    }
}

impl Workload for CopyRowWorkload {
    const NAME: &'static str = "copy-row";

    fn work(&self) -> Work {
        self.table.work(1)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_table_type!(self.table.element, T => self.prepare_of::<T>(setup))
    }
}

/// Writes rows of two matrices side by side.
#[derive(Clone, Debug, Options)]
pub(crate) struct ConcatenateWorkload {
    /// The rows of each.
    #[option(flatten)]
    table: TableRows,
}

impl ConcatenateWorkload {
    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (columns, elements) = (self.table.hidden as usize, self.table.elements());
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let rows = |seed| setup.values::<T>(Values::Normal, seed, elements);
            Ok((rows(seed)?, rows(!seed)?, setup.output::<T>(2 * elements)?))
        })?;
        Ok(buffers
            .launch(move |stream, (a, b, joined)| {
                Ok(operations.concatenate_rows(stream, ([&*a, &*b], columns as u32), joined)?)
            })
            .verify(move |(a, b, joined)| {
                let rows = [exact(a)?, exact(b)?];
                exactly(&joined.to_vec()?, |index| {
                    let (row, column) = (index / (2 * columns), index % (2 * columns));
                    rows[column / columns][row * columns + column % columns]
                })
            }))
    }
}

impl Workload for ConcatenateWorkload {
    const NAME: &'static str = "concatenate-rows";

    fn work(&self) -> Work {
        self.table.work(2 * self.table.entries)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_table_type!(self.table.element, T => self.prepare_of::<T>(setup))
    }
}

//! The gather as a workload.

use warpwright::runtime::Storable;
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

//! Dense matrices, by rows.

/// A matrix of which the elements of a row are neighbors.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile<T> {
    rows: usize,
    columns: usize,
    values: Vec<T>,
}

impl<T: Copy + Default> Tile<T> {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, columns: usize) -> Tile<T> {
        Tile { rows, columns, values: vec![T::default(); rows * columns] }
    }

    /// A matrix of `rows` rows, with its elements row by row.
    pub fn from_rows(rows: usize, values: Vec<T>) -> Tile<T> {
        Tile { rows, columns: values.len() / rows, values }
    }

    /// All elements, row after row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The elements of a row.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &[T] {
        &self.values[row * self.columns..][..self.columns]
    }

    /// The elements of a row, to change.
    #[inline(always)]
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.values[row * self.columns..][..self.columns]
    }

    /// One element.
    #[inline(always)]
    pub fn get(&self, row: usize, column: usize) -> T {
        self.values[row * self.columns + column]
    }

    /// Sets one element.
    #[inline(always)]
    pub fn set(&mut self, row: usize, column: usize, value: T) {
        self.values[row * self.columns + column] = value;
    }

    /// A copy of some rows.
    pub fn rows_of(&self, first: usize, count: usize) -> Tile<T> {
        let values = self.values[first * self.columns..][..count * self.columns].to_vec();
        Tile { rows: count, columns: self.columns, values }
    }
}

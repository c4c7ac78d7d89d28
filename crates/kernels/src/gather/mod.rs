//! Rows of a table by their indices: an embedding, or the rows of tokens in the order of experts.
//!
//! ```text
//! y (rows, columns)   row i = row indices[i] - first of the table; zeros where the table has none
//! ```
//!
//! With tables in parts, one for each GPU, `first` is the index of a part's first row: the results
//! of all parts add up to the rows of the whole table.

mod kernel;
mod operations;

pub use operations::STEPS;

//! Rows of a table by their indices: an embedding, the rows of tokens in the order of experts, or the states of
//! sequences in slots. A scatter writes rows to their indices, a copy writes one row to another, and rows of two matrices
//! are concatenated.
//!
//! ```text
//! y (rows, columns)   row i = row indices[i] - first of the table; zeros where the table has none
//! ```
//!
//! With tables in parts, one for each GPU, `first` is the index of a part's first row: the results
//! of all parts add up to the rows of the whole table.

mod kernel;
mod operations;
mod rows;

pub use operations::STEPS;

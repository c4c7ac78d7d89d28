//! Selection: the selected elements of a buffer, compacted in order, in one launch.
//!
//! ```text
//! input       a  b  c  d  e  f  g  h
//! selected    1  0  0  1  1  0  1  0
//! scanned     0  1  1  1  2  3  3  4      the exclusive scan is where each selected element goes
//! output      a  d  e  g                  count = 4
//! ```

mod operations;
mod single_pass;

pub use single_pass::Predicate;

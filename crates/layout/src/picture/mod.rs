//! Pictures of layouts: text grids, tables, and SVG.

mod grid;
mod svg;

pub use svg::svg;

use crate::expression::Value;
use crate::{Error, coordinate_of};
use grid::Grid;
use std::fmt::Write;

/// Options of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The width of an element in bits, which determines its bank.
    pub element_bits: i64,
    /// The cells that one access touches, for marking bank conflicts.
    pub together: Together,
    /// Whether the offset of every coordinate follows the grid, line by line.
    pub coordinates: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { element_bits: 32, together: Together::Nothing, coordinates: false }
    }
}

/// The cells that one access takes, for marking bank conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// None: no conflicts are marked.
    Nothing,
    /// The cells of a row.
    Rows,
    /// The cells of a column.
    Columns,
}

/// The most cells that a picture draws.
pub const MOST_CELLS: i64 = 1 << 14;

/// The value as text: a layout as a grid of offsets, a thread-value layout as a grid of owners, other
/// values as they print.
///
/// Mode 0 runs down, the other modes across.
///
/// ```
/// use warpwright_layout::expression::evaluate;
/// use warpwright_layout::picture::{Options, text};
/// let drawn = text(&evaluate("(2,3):(3,1)")?, &Options::default())?;
/// assert_eq!(drawn, "\
/// (_2,_3):(_3,_1)
///
///       0  1  2
///     +--------
///   0 | 0  1  2
///   1 | 3  4  5
/// ");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
///
/// # Errors
/// If a layout has a device leaf, or more than [`MOST_CELLS`] elements.
pub fn text(value: &Value, options: &Options) -> Result<String, Error> {
    let mut drawn = format!("{value:#}\n");
    let grid = match Grid::of(value, options)? {
        Some(grid) => grid,
        None => return Ok(drawn),
    };
    let labels = grid.cells.iter().flatten().map(|cell| cell.label().len());
    let width = labels.max().unwrap_or(1).max(grid.columns().to_string().len()) + 2;
    let _ = write!(drawn, "\n{:6}", "");
    for column in 0..grid.columns() {
        let pad = if column == 0 { width - 2 } else { width };
        let _ = write!(drawn, "{column:>pad$}");
    }
    let _ = write!(drawn, "\n{:4}+{}\n", "", "-".repeat(width * grid.columns() - 1));
    for (row, cells) in grid.cells.iter().enumerate() {
        let _ = write!(drawn, "{row:>3} |");
        for (column, cell) in cells.iter().enumerate() {
            let pad = if column == 0 { width - 1 } else { width };
            let _ = write!(drawn, "{:>pad$}", cell.label());
        }
        drawn.push('\n');
    }
    if let (true, Value::Layout(_) | Value::Composed(_)) = (options.coordinates, value) {
        drawn.push('\n');
        let composed = value.composed()?;
        for (index, offset) in grid::values(&composed)?.iter().enumerate() {
            let _ = writeln!(drawn, "{} -> {offset}", coordinate_of(&index.into(), composed.shape())?);
        }
    }
    if options.together != Together::Nothing && !matches!(value, Value::Ownership(_)) {
        let _ = writeln!(drawn, "\ncells with bank conflicts: {}", grid.conflicts());
    }
    Ok(drawn)
}

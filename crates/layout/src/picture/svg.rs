//! Pictures as SVG.

use super::grid::{Cell, Grid};
use super::{Options, Together};
use crate::Error;
use crate::expression::Value;
use std::fmt::Write;

/// The side of a cell and the margin of a grid, in pixels.
const CELL: usize = 40;
const MARGIN: usize = 34;
/// The height of a legend.
const LEGEND: usize = 40;
/// Cells between two thick lines of a layout.
const TILE: usize = 8;
/// Threads of a warp.
const WARP: i64 = 32;
/// The height of a title.
const TITLE: usize = 30;
/// Two grids that are wider together are drawn one below the other.
const WIDEST: usize = 1600;

/// The value as an SVG document: the offsets, colored by bank; for a swizzled layout the tile
/// before and after; for a thread-value layout the owner of each element, colored by thread. Cells
/// with bank conflicts have a red border.
///
/// ```
/// use warpwright_layout::expression::evaluate;
/// use warpwright_layout::picture::{Options, Together, svg};
/// let options = Options { together: Together::Rows, ..Options::default() };
/// let drawn = svg(&evaluate("Swizzle<3,2,3> o (8,8):(1,8)")?, &options)?;
/// assert!(drawn.starts_with("<svg") && drawn.contains("before") && drawn.contains("after"));
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
///
/// # Errors
/// As for [`text`](super::text); also for a value that is not a layout.
pub fn svg(value: &Value, options: &Options) -> Result<String, Error> {
    let Some(grid) = Grid::of(value, options)? else {
        return Err(Error::bad_argument("the subject of a picture", value, "a layout, such as (4,8):(8,1)"));
    };
    let mut panels = Vec::new();
    if let Value::Composed(composed) = value
        && !composed.outer().is_empty()
    {
        let plain = composed.inner().clone().into();
        let before = Grid::of_layout(&plain, options)?;
        panels.push((format!("before: {plain:#}{}", count(&before, options)), before));
        panels.push((format!("after: {value:#}{}", count(&grid, options)), grid));
    } else {
        let conflicts =
            if matches!(value, Value::Ownership(_)) { String::new() } else { count(&grid, options) };
        panels.push((format!("{value:#}{conflicts}"), grid));
    }
    Ok(document(&panels))
}

fn count(grid: &Grid, options: &Options) -> String {
    match options.together {
        Together::Nothing => String::new(),
        _ => format!(", {} cells in conflict", grid.conflicts()),
    }
}

fn document(panels: &[(String, Grid)]) -> String {
    let width = |(title, grid): &(String, Grid)| {
        let text = title.chars().count().max(legend(grid).len());
        MARGIN + (CELL * grid.columns()).max(text * 8) + MARGIN / 2
    };
    let height = |(_, grid): &(String, Grid)| TITLE + MARGIN + CELL * grid.cells.len() + LEGEND;
    let beside: usize = panels.iter().map(width).sum();
    let are_stacked = beside > WIDEST;
    let total = match are_stacked {
        true => (panels.iter().map(width).max().unwrap_or(0), panels.iter().map(height).sum()),
        false => (beside, panels.iter().map(height).max().unwrap_or(0)),
    };
    let mut drawn = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" \
         viewBox=\"0 0 {0} {1}\" font-family=\"monospace\" text-anchor=\"middle\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        total.0, total.1
    );
    let (mut left, mut top) = (0, 0);
    for titled in panels {
        let (title, grid) = titled;
        let (x, y) = (left + MARGIN, top + TITLE + MARGIN / 2);
        let _ = writeln!(
            drawn,
            "<text x=\"{x}\" y=\"{}\" font-size=\"13\" text-anchor=\"start\">{}</text>",
            top + 20,
            escaped(title)
        );
        panel(&mut drawn, grid, x, y);
        borders(&mut drawn, grid, x, y);
        let _ = writeln!(
            drawn,
            "<text x=\"{x}\" y=\"{}\" font-size=\"12\" fill=\"#444\" text-anchor=\"start\">{}</text>",
            y + CELL * grid.cells.len() + LEGEND / 2,
            legend(grid)
        );
        if are_stacked {
            top += height(titled);
        } else {
            left += width(titled);
        }
    }
    drawn.push_str("</svg>\n");
    drawn
}

fn panel(drawn: &mut String, grid: &Grid, left: usize, top: usize) {
    for column in 0..grid.columns() {
        let x = left + CELL * column + CELL / 2;
        let _ = writeln!(
            drawn,
            "<text x=\"{x}\" y=\"{}\" font-size=\"10\" fill=\"#666\">{column}</text>",
            top - 4
        );
    }
    for (row, cells) in grid.cells.iter().enumerate() {
        let y = top + CELL * row;
        let (x, middle) = (left - 10, y + CELL / 2 + 4);
        let _ = writeln!(drawn, "<text x=\"{x}\" y=\"{middle}\" font-size=\"10\" fill=\"#666\">{row}</text>");
        for (column, cell) in cells.iter().enumerate() {
            cell_at(drawn, cell, left + CELL * column, y);
        }
    }
    // Rings last, so that no neighbor covers them.
    for (row, cells) in grid.cells.iter().enumerate() {
        for (column, _) in cells.iter().enumerate().filter(|(_, cell)| cell.conflicts) {
            let (x, y, side) = (left + CELL * column + 1, top + CELL * row + 1, CELL - 2);
            let _ = writeln!(
                drawn,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"none\" stroke=\"#d00\" stroke-width=\"2.5\"/>"
            );
        }
    }
}

/// Whether a thick line is between two cells: of different warps, or of different tiles of [`TILE`]
/// cells in a layout without owners.
fn is_border(grid: &Grid, one: (usize, usize), other: (usize, usize)) -> bool {
    let warp = |(row, column): (usize, usize)| {
        grid.cells.get(row)?.get(column)?.owners.first().map(|(thread, _)| thread.div_euclid(WARP))
    };
    match (warp(one), warp(other)) {
        (None, None) => one.0 / TILE != other.0 / TILE || one.1 / TILE != other.1 / TILE,
        (one, other) => one != other,
    }
}

/// The cells with a thick line at their left, and those with one above.
fn thick_lines(grid: &Grid) -> [Vec<(usize, usize)>; 2] {
    let cells =
        (0..grid.cells.len()).flat_map(|row| (0..grid.cells[row].len()).map(move |column| (row, column)));
    let left =
        |&(row, column): &(usize, usize)| column > 0 && is_border(grid, (row, column - 1), (row, column));
    let above =
        |&(row, column): &(usize, usize)| row > 0 && is_border(grid, (row - 1, column), (row, column));
    [cells.clone().filter(left).collect(), cells.filter(above).collect()]
}

fn borders(drawn: &mut String, grid: &Grid, left: usize, top: usize) {
    for (cells, along) in thick_lines(grid).iter().zip(['v', 'h']) {
        for (row, column) in cells {
            let _ = writeln!(
                drawn,
                "<path d=\"M{} {} {along}{CELL}\" stroke=\"#000\" stroke-width=\"3\" fill=\"none\"/>",
                left + CELL * column,
                top + CELL * row
            );
        }
    }
}

/// What numbers, colors and lines mean, as far as the grid has them.
fn legend(grid: &Grid) -> String {
    let mut cells = grid.cells.iter().flatten();
    let (meaning, lines) = if cells.any(|cell| !cell.owners.is_empty()) {
        ("T: thread, by color. V: its value.", " Thick lines: warps.")
    } else {
        let has_banks = grid.cells.iter().flatten().any(|cell| cell.bank.is_some());
        let offset = "Number: offset. Color: bank of shared memory.";
        (
            if has_banks { offset } else { "Number: value of the layout." },
            " Thick lines: every 8 rows and columns.",
        )
    };
    let lines = if thick_lines(grid).iter().all(Vec::is_empty) { "" } else { lines };
    let conflicts = if grid.conflicts() == 0 { "" } else { " Red: bank conflict." };
    format!("{meaning}{conflicts}{lines}")
}

fn cell_at(drawn: &mut String, cell: &Cell, x: usize, y: usize) {
    let fill = match (cell.owners.first(), cell.bank) {
        (Some((thread, _)), _) => color(*thread),
        (None, Some(bank)) => color(bank),
        (None, None) => "#fff".into(),
    };
    let _ = writeln!(
        drawn,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{fill}\" stroke=\"#333\" stroke-width=\"0.6\"/>"
    );
    let middle = x + CELL / 2;
    let (first, second) = match cell.owners.as_slice() {
        [] => (cell.offset.clone(), cell.bank.map(|bank| format!("bank {bank}"))),
        [(thread, value)] => (format!("T{thread}"), Some(format!("V{value}"))),
        [(thread, value), more @ ..] => (format!("T{thread}V{value}"), Some(format!("+{} more", more.len()))),
    };
    let size = if first.len() > 5 { 9 } else { 13 };
    let up = y + if second.is_some() { 19 } else { 25 };
    let _ =
        writeln!(drawn, "<text x=\"{middle}\" y=\"{up}\" font-size=\"{size}\">{}</text>", escaped(&first));
    if let Some(second) = second {
        let down = y + 33;
        let _ = writeln!(
            drawn,
            "<text x=\"{middle}\" y=\"{down}\" font-size=\"8\" fill=\"#444\">{second}</text>"
        );
    }
}

/// A light color for a bank or thread: 32 hues, distant for adjacent numbers, and darker beyond 32.
/// Written as red, green and blue, which every renderer supports.
fn color(number: i64) -> String {
    const DARKEST: f64 = 150.0;
    let hue = (number.rem_euclid(32) * 11 % 32) as f64 / 32.0;
    let light = if number.rem_euclid(64) < 32 { 1.0 } else { 0.86 };
    // Each primary is at its full within a third of the circle of hues around its own.
    let primary = |own: f64| {
        let away = ((hue - own).rem_euclid(1.0)).min((own - hue).rem_euclid(1.0));
        let strength = (2.0 - 6.0 * away).clamp(0.0, 1.0);
        ((DARKEST + (255.0 - DARKEST) * strength) * light).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", primary(0.0), primary(1.0 / 3.0), primary(2.0 / 3.0))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::evaluate;
    use crate::picture::text;

    #[test]
    fn every_cell_is_drawn_and_every_tag_closed() {
        for (expression, cells) in [
            ("(8,8):(8,1)", 64),
            ("tv(mma SM80_16x8x16_F32F16F16F32_TN C)", 128),
            ("5:2", 5),
            ("make_identity_layout((2,3))", 6),
        ] {
            let drawn = svg(&evaluate(expression).unwrap(), &Options::default()).unwrap();
            assert_eq!(drawn.matches("<rect x=").count(), cells, "{expression}");
            assert_eq!(drawn.matches("<text").count(), drawn.matches("</text>").count());
            assert!(drawn.ends_with("</svg>\n"));
        }
    }

    #[test]
    fn conflicts_are_ringed_before_and_gone_after() {
        let options = Options { together: Together::Rows, ..Options::default() };
        let drawn = svg(&evaluate("Swizzle<3,2,3> o (8,8):(1,8)").unwrap(), &options).unwrap();
        assert_eq!(drawn.matches("stroke=\"#d00\"").count(), 64);
        assert!(drawn.contains("64 cells in conflict") && drawn.contains(", 0 cells in conflict"));
        assert_eq!(drawn.matches("Red: bank conflict.").count(), 1, "the legend of the first grid");
        assert!(!drawn.contains("Thick lines"), "8 rows and columns have none: {drawn}");
    }

    #[test]
    fn wide_grids_are_below_each_other() {
        let size = |expression| {
            let drawn = svg(&evaluate(expression).unwrap(), &Options::default()).unwrap();
            let number =
                |name: &str| drawn.split(name).nth(1).unwrap().split('"').next().unwrap().parse::<usize>();
            (number(" width=\"").unwrap(), number(" height=\"").unwrap())
        };
        let (beside, below) = (size("Swizzle<3,2,3> o (8,8):(1,8)"), size("Swizzle<3,3,3> o (8,64):(64,1)"));
        assert!(beside.0 > beside.1 && below.0 < 64 * 44 && below.1 == 2 * beside.1, "{beside:?} {below:?}");
    }

    #[test]
    fn what_cannot_be_drawn_says_so() {
        assert!(svg(&evaluate("5").unwrap(), &Options::default()).is_err());
        assert!(svg(&evaluate("(m,4):(4,1)").unwrap(), &Options::default()).is_err());
        assert!(
            text(&evaluate("(1024,1024)").unwrap().layout().unwrap().into(), &Options::default()).is_err()
        );
    }

    #[test]
    fn owners_are_drawn_as_text() {
        let drawn =
            text(&evaluate("tv(mma SM80_16x8x16_F32F16F16F32_TN C)").unwrap(), &Options::default()).unwrap();
        assert!(drawn.contains("  0 |  T0V0   T0V1   T1V0   T1V1"), "{drawn}");
        assert!(drawn.contains("  1 |  T4V0"), "{drawn}");
    }
}

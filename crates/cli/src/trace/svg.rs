//! The rows of a chart as an SVG document.

use std::fmt::Write;
use std::ops::Range;

use crate::markup::escaped;

use super::chart::{KINDS, Row, columns, legend};

/// The rows begin here; their names are at the left of it.
const LEFT: f64 = 116.0;
const WIDTH: usize = 1000;
const ROW: f64 = 15.0;
/// Between the rows of two CTAs or SMs, for its name.
const GROUP: f64 = 22.0;
const TOP: f64 = 58.0;

/// A picture that reads well on light and dark ground.
pub(super) fn svg(title: &str, subtitle: &str, rows: &[Row], cycles: &Range<u64>) -> String {
    let mut body = String::new();
    let mut y = TOP;
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = &row.group;
            y += GROUP;
            let _ = writeln!(
                body,
                "<text x=\"8\" y=\"{:.0}\" font-weight=\"bold\">{}</text>",
                y - 6.0,
                escaped(group)
            );
        }
        let _ = writeln!(
            body,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 11.0,
            escaped(&row.name)
        );
        for (range, kind) in columns(row, cycles, WIDTH) {
            let _ = writeln!(
                body,
                "<rect x=\"{:.0}\" y=\"{y:.0}\" width=\"{}\" height=\"{:.0}\" fill=\"{}\"/>",
                LEFT + range.start as f64,
                range.len(),
                ROW - 3.0,
                KINDS[kind].color
            );
        }
        y += ROW;
    }
    let bottom = y;
    axis(&mut body, cycles, bottom);
    let height = names(&mut body, rows, bottom + 44.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#777\">\n<text x=\"8\" y=\"22\" font-size=\"15\">{}</text>\n\
         <text x=\"8\" y=\"42\">{}</text>\n{body}</svg>\n",
        LEFT + WIDTH as f64 + 24.0,
        escaped(title),
        escaped(subtitle)
    )
}

/// Cycles along the bottom, at round numbers.
fn axis(body: &mut String, cycles: &Range<u64>, y: f64) {
    let length = cycles.end - cycles.start;
    // At most twelve numbers: 1, 2 or 5 times a power of ten apart.
    let step = (0..20).flat_map(|power| [1, 2, 5].map(|times| times * 10u64.saturating_pow(power)));
    let step = step.into_iter().find(|step| length / step <= 12).unwrap_or(length);
    let mut cycle = cycles.start.next_multiple_of(step);
    while cycle <= cycles.end {
        let x = LEFT + (cycle - cycles.start) as f64 * WIDTH as f64 / length as f64;
        let _ = writeln!(
            body,
            "<path d=\"M{x:.1} {TOP} V{:.0}\" stroke=\"#999\" stroke-opacity=\"0.35\"/>\
             <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{cycle}</text>",
            y + 4.0,
            y + 18.0
        );
        cycle += step;
    }
    let _ = writeln!(body, "<text x=\"8\" y=\"{:.0}\">cycles</text>", y + 18.0);
}

/// The names of the colors, and the part of the warps' cycles of each. Returns the height of the picture.
fn names(body: &mut String, rows: &[Row], top: f64) -> f64 {
    let (mut x, mut y) = (8.0, top);
    for (kind, part) in legend(rows) {
        let name = match part {
            Some(part) => format!("{} {:.0} %", KINDS[kind].name, 100.0 * part),
            None => KINDS[kind].name.to_owned(),
        };
        let width = 40.0 + 6.8 * name.chars().count() as f64;
        if x + width > LEFT + WIDTH as f64 {
            (x, y) = (8.0, y + 20.0);
        }
        let _ = writeln!(
            body,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"14\" height=\"12\" fill=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{y:.0}\">{name}</text>",
            y - 10.0,
            KINDS[kind].color,
            x + 20.0
        );
        x += width;
    }
    y + 16.0
}

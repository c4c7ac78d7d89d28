//! The number line: the values of each format around a number.

use std::fmt::Write;

use warpwright_arch::DataType;
use warpwright_emulator::numeric::format::Format;
use warpwright_emulator::tensor::element;

use super::single::{encoded, short};

/// The plot, its margins, and the height of a format's line.
const WIDTH: f64 = 600.0;
const LEFT: f64 = 84.0;
const TOP: f64 = 78.0;
const ROW: f64 = 58.0;
/// Formats with more values than this in the picture are drawn as a bar.
const MOST: usize = 150;

/// The values of a format from `from` to `to`, or `None` if they are too many.
fn values(format: Format, from: f64, to: f64) -> Option<Vec<f64>> {
    let top = 1u32 << (format.width() - 1);
    let sides = |value: f64| {
        if value < 0.0 { -i64::from(encoded(format, -value)) } else { i64::from(encoded(format, value)) }
    };
    let (first, last) = (sides(from), sides(to));
    if last - first > MOST as i64 {
        return None;
    }
    let value = |at: i64| format.decode(at.unsigned_abs() as u32 | if at < 0 { top } else { 0 });
    Some((first..=last).map(value).filter(|value| (from..=to).contains(value)).collect())
}

/// A line for each format, from 0 to twice the number; the number in red, its value in blue.
pub(super) fn svg(number: f64, formats: &[DataType]) -> String {
    let reach = if number == 0.0 { 1.0 } else { number.abs() };
    let (from, to) =
        if number == 0.0 { (-reach, reach) } else { ((2.0 * number).min(0.0), (2.0 * number).max(0.0)) };
    let x_of = |value: f64| LEFT + WIDTH * (value - from) / (to - from);
    let height = TOP + ROW * formats.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{height}\" viewBox=\"0 0 720 {height}\" \
         font-family=\"sans-serif\" font-size=\"16\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"18\">values of each format near {}</text>\n",
        short(number)
    );
    for part in 0..=4 {
        let value = from + (to - from) * f64::from(part) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"56\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            x_of(value),
            short(value)
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{0:.1} 62 V{1:.1}\" stroke=\"#c0392b\" stroke-width=\"1.5\"/>",
        x_of(number),
        height - 12.0
    );
    let each = formats.iter().filter_map(|data_type| Some((data_type, element::format(*data_type)?)));
    for (row, (data_type, format)) in each.enumerate() {
        let y = TOP + ROW * row as f64 + ROW / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"12\" y=\"{:.1}\">{data_type}</text>\n<path d=\"M{LEFT} {y} h{WIDTH}\" stroke=\"#999\"/>",
            y + 5.0
        );
        match values(format, from, to) {
            Some(values) => {
                for value in values {
                    let _ = writeln!(
                        svg,
                        "<path d=\"M{:.1} {:.1} v22\" stroke=\"#333\"/>",
                        x_of(value),
                        y - 11.0
                    );
                }
            }
            None => {
                let _ = writeln!(
                    svg,
                    "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{WIDTH}\" height=\"12\" fill=\"#bbb\"/>",
                    y - 6.0
                );
            }
        }
        let value = format.decode(encoded(format, number));
        if (from..=to).contains(&value) {
            let _ = writeln!(svg, "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"6\" fill=\"#3a6ea5\"/>", x_of(value));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

//! A ladder as a picture: a bar a step, as long as it is fast, and a mark where the rival stands.

use std::fmt::Write;

use super::record::{Record, speed};
use warpwright_harness::Measure;

/// A step's bar.
struct Bar<'a> {
    label: &'a str,
    speed: f64,
    /// The rival's speed in the same minute, and its name.
    rival: Option<(f64, &'a str)>,
}

/// The chart of what `warpwright ladder KERNEL --json` prints.
pub(super) fn of_record(record: &Record) -> String {
    let (text, measure) = (|name| record.text(name), record.ladder.measure);
    let bars: Vec<_> = record
        .steps
        .iter()
        .map(|step| {
            let speed = speed(step, measure).unwrap_or(0.0);
            let rival = step["part_of_rival"].as_f64().zip(record.printed["rival"].as_str());
            Bar {
                label: step["step"].as_str().unwrap_or_default(),
                speed,
                rival: rival.map(|(part, name)| (speed / part, name)),
            }
        })
        .collect();
    let timed = bars.iter().any(|bar| bar.speed > 0.0);
    let emulated = if timed { "" } else { ", emulated: not timed" };
    let title = format!("{} {} on {}{emulated}", text("kernel"), text("options"), text("product"));
    svg(&title, measure, &bars)
}

const LABELS: f64 = 120.0;
const BARS: f64 = 560.0;
const FIGURES: f64 = 150.0;
const ROW: f64 = 26.0;
const TOP: f64 = 58.0;

/// The chart as an SVG document that reads well on light and dark ground.
fn svg(title: &str, measure: Measure, bars: &[Bar<'_>]) -> String {
    let fastest = bars
        .iter()
        .flat_map(|bar| [bar.speed, bar.rival.map_or(0.0, |(speed, _)| speed)])
        .fold(1e-9, f64::max);
    let (width, height) = (LABELS + BARS + FIGURES, TOP + ROW * bars.len() as f64 + 14.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#666\">\n\
         <text x=\"8\" y=\"20\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    let rival = bars.iter().find_map(|bar| bar.rival.map(|(_, name)| name));
    let marks =
        rival.map_or(String::new(), |name| format!("; the mark: {name}, timed in turns with the step"));
    let _ = writeln!(svg, "<text x=\"8\" y=\"40\">{}{}</text>", measure.unit().0, escaped(&marks));
    for (row, bar) in bars.iter().enumerate() {
        let top = TOP + ROW * row as f64;
        let (length, text) = (bar.speed / fastest * BARS, top + 15.0);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>",
            LABELS - 8.0,
            bar.label
        );
        let _ = writeln!(
            svg,
            "<rect x=\"{LABELS}\" y=\"{top}\" width=\"{length:.1}\" height=\"{}\" fill=\"#4a86c5\"/>",
            ROW - 6.0
        );
        let mut figure = measure.format(bar.speed);
        if let Some((speed, _)) = bar.rival {
            let at = LABELS + speed / fastest * BARS;
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {} v{}\" stroke=\"#c5543a\" stroke-width=\"2\"/>",
                top - 2.0,
                ROW - 2.0
            );
            let _ = write!(figure, " ({:.1} %)", bar.speed / speed * 100.0);
        }
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{text}\">{figure}</text>", LABELS + BARS + 10.0);
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_fills_the_chart_and_the_rival_is_marked() {
        let bars = [
            Bar { label: "naive", speed: 12.5, rival: Some((50.0, "cublas")) },
            Bar { label: "best", speed: 40.0, rival: Some((50.0, "cublas")) },
        ];
        let svg = svg("a < b", Measure::MatrixOperations, &bars);
        assert!(svg.contains("a &lt; b") && svg.contains("the mark: cublas"), "{svg}");
        assert!(svg.contains("width=\"140.0\"") && svg.contains("width=\"448.0\""), "{svg}");
        assert_eq!(svg.matches("M680.0").count(), 2, "{svg}");
        assert!(svg.contains("12.50 (25.0 %)") && svg.contains("40.00 (80.0 %)"), "{svg}");
    }

    #[test]
    fn without_times_there_are_no_bars_but_steps() {
        let svg = svg("t", Measure::Bytes, &[Bar { label: "naive", speed: 0.0, rival: None }]);
        assert!(svg.contains(">naive<") && svg.contains("width=\"0.0\""), "{svg}");
    }
}

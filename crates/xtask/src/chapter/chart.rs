//! A ladder as a picture: a bar a step. Its length is the step's speed, with a mark at the rival's;
//! where no step was timed, it is the step's warp instructions, as the emulator counts them.

use std::fmt::Write;

use serde_json::Value;

use super::record::{Record, speed};

/// What the bars are.
struct Chart {
    title: String,
    /// The unit of the bars, and what else is drawn.
    legend: String,
    bars: Vec<Bar>,
}

/// A step's bar.
struct Bar {
    label: String,
    length: f64,
    /// What is written beside it.
    figure: String,
    /// Where the rival of the same minute stands.
    rival: Option<f64>,
}

/// The chart of what `warpwright ladder KERNEL --json` prints.
pub(super) fn of_record(record: &Record) -> String {
    let is_timed = record.steps.iter().any(|step| speed(step, record.ladder.measure).is_some());
    svg(&if is_timed { of_speeds(record) } else { of_counts(record) })
}

fn title(record: &Record) -> String {
    let text = |name| record.text(name);
    let product = record.printed["product"].as_str().unwrap_or(text("device"));
    format!("{} {} on {product}", text("kernel"), text("options"))
}

fn label(step: &Value) -> String {
    step["step"].as_str().unwrap_or_default().to_owned()
}

fn of_speeds(record: &Record) -> Chart {
    let measure = record.ladder.measure;
    let bars = record.steps.iter().map(|step| {
        let length = speed(step, measure).unwrap_or(0.0);
        let part = step["part_of_rival"].as_f64();
        let of_rival = part.map_or(String::new(), |part| format!(" ({:.1} %)", part * 100.0));
        let figure = measure.format(length) + &of_rival;
        Bar { label: label(step), length, figure, rival: part.map(|part| length / part) }
    });
    let bars: Vec<_> = bars.collect();
    let name = record.printed["rival"].as_str().filter(|_| bars.iter().any(|bar| bar.rival.is_some()));
    let mark = name.map_or(String::new(), |name| format!("; the mark: {name}, timed in turns with the step"));
    Chart { title: title(record), legend: format!("{}{mark}", measure.unit().0), bars }
}

fn of_counts(record: &Record) -> Chart {
    let bars = record.steps.iter().map(|step| {
        let count = |name: &str| step["counted"][name].as_u64().unwrap_or_default();
        let figure = format!("{}, {}", count("warp_instructions"), count("bank_conflicts"));
        Bar { label: label(step), length: count("warp_instructions") as f64, figure, rival: None }
    });
    let (on, with) = (record.text("counted_on"), record.text("counted_with"));
    let legend = format!("warp instructions, and bank conflicts: counted on {on} with {with}");
    Chart { title: title(record) + ": not timed", legend, bars: bars.collect() }
}

/// The least room for the labels.
const LABELS: f64 = 120.0;
const BARS: f64 = 560.0;
const FIGURES: f64 = 150.0;
const ROW: f64 = 26.0;
const TOP: f64 = 58.0;

/// The chart as an SVG document that reads well on light and dark ground.
fn svg(Chart { title, legend, bars }: &Chart) -> String {
    let longest = bars.iter().flat_map(|bar| [bar.length, bar.rival.unwrap_or(0.0)]).fold(1e-9, f64::max);
    // Room for the title: a character of 15 pixels is about 8 wide.
    let longest_label = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    // A character of 13 pixels is about 7 wide.
    let labels = LABELS.max(16.0 + 7.0 * longest_label as f64);
    let width = (labels + BARS + FIGURES).max(24.0 + 8.0 * title.chars().count() as f64);
    let height = TOP + ROW * bars.len() as f64 + 14.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#666\">\n\
         <text x=\"8\" y=\"20\" font-size=\"15\">{}</text>\n<text x=\"8\" y=\"40\">{}</text>\n",
        escaped(title),
        escaped(legend)
    );
    for (row, bar) in bars.iter().enumerate() {
        let top = TOP + ROW * row as f64;
        let (length, text) = (bar.length / longest * BARS, top + 15.0);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>",
            labels - 8.0,
            bar.label
        );
        let _ = writeln!(
            svg,
            "<rect x=\"{labels}\" y=\"{top}\" width=\"{length:.1}\" height=\"{}\" fill=\"#4a86c5\"/>",
            ROW - 6.0
        );
        if let Some(rival) = bar.rival {
            let at = labels + rival / longest * BARS;
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {} v{}\" stroke=\"#c5543a\" stroke-width=\"2\"/>",
                top - 2.0,
                ROW - 2.0
            );
        }
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{text}\">{}</text>", labels + BARS + 10.0, bar.figure);
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chart(kernel: &str, steps: &Value) -> String {
        let printed = json!({
            "kernel": kernel, "options": "--m 64", "device": "a < b", "rival": "cublas",
            "counted_on": "emu:h200", "counted_with": "--m 32", "steps": steps,
        });
        of_record(&Record::of(printed).expect("it is a record"))
    }

    #[test]
    fn the_fastest_fills_the_chart_and_the_rival_is_marked() {
        let step = |name: &str, rate: f64| json!({"step": name, "operations_per_second": rate * 1e9, "part_of_rival": rate / 50.0});
        let svg = chart("sgemm", &json!([step("naive", 12.5), step("best", 40.0)]));
        assert!(svg.contains("a &lt; b") && svg.contains("the mark: cublas"), "{svg}");
        assert!(svg.contains("width=\"140.0\"") && svg.contains("width=\"448.0\""), "{svg}");
        assert_eq!(svg.matches("M680.0").count(), 2, "{svg}");
        assert!(svg.contains("12.50 (25.0 %)") && svg.contains("40.00 (80.0 %)"), "{svg}");
    }

    #[test]
    fn without_times_the_bars_are_instructions() {
        let step = |name: &str, instructions: u64| json!({"step": name, "counted": {"warp_instructions": instructions, "bank_conflicts": 7}});
        let svg = chart("transpose", &json!([step("naive", 400), step("shared", 100)]));
        assert!(
            svg.contains("on a &lt; b: not timed") && svg.contains("counted on emu:h200 with --m 32"),
            "{svg}"
        );
        assert!(svg.contains("width=\"560.0\"") && svg.contains("width=\"140.0\""), "{svg}");
        assert!(svg.contains(">400, 7<") && !svg.contains("the mark"), "{svg}");
    }
}

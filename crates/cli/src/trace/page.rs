//! The rows of a chart as a page that needs nothing else.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::json;
use warpwright_runtime::Prediction;

use super::chart::{KINDS, Row, legend};

/// The page, with a place for its data.
const PAGE: &str = include_str!("page.html");

/// The page of a launch. Its data are in a script element, in which `<` cannot begin an element.
pub(super) fn page(
    title: &str,
    subtitle: &str,
    prediction: &Prediction,
    rows: &[Row],
    cycles: &Range<u64>,
) -> String {
    // Instructions that a stretch names, by their number in the page.
    let mut numbers = BTreeMap::new();
    for stretch in rows.iter().flat_map(|row| &row.stretches) {
        let next = numbers.len();
        numbers.entry(stretch.instruction).or_insert(next);
    }
    let mut instructions = vec![json!(null); numbers.len()];
    for (&index, &number) in &numbers {
        let instruction = &prediction.instructions[index as usize];
        instructions[number] = json!([super::place(instruction), instruction.text]);
    }
    let row = |row: &Row| {
        let stretch = |stretch: &super::chart::Stretch| {
            json!([
                stretch.cycles.0,
                stretch.cycles.1,
                stretch.kind,
                numbers[&stretch.instruction],
                stretch.lanes
            ])
        };
        let stretches: Vec<_> = row.stretches.iter().map(stretch).collect();
        json!({"group": row.group, "name": row.name, "stretches": stretches})
    };
    let data = json!({
        "title": title,
        "subtitle": subtitle,
        "cycles": [cycles.start, cycles.end],
        "kinds": KINDS.map(|kind| [kind.name, kind.color]),
        "legend": legend(rows),
        "instructions": instructions,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    });
    PAGE.replace("\"data\"", &data.to_string().replace('<', "\\u003c"))
}

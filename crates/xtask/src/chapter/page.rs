//! The figures of a page, from a record.
//!
//! A page tells what each step adds; a record tells what each step has. In a table of the page with
//! a column `step`, columns whose names are known here get the record's figures, and the others
//! stay as they were written. In a file of Rust, the line of its header that begins with `Measured`
//! is written anew for the steps that it names.

use anyhow::{Result, bail};
use serde_json::Value;
use warpwright_harness::Measure;

use super::record::{Record, speed, speed_text};

/// The page with the record's figures in the first table that has a row for each of its steps.
pub(super) fn filled_table(page: &str, record: &Record) -> Result<String> {
    let steps = &record.steps;
    let lines: Vec<&str> = page.lines().collect();
    for (at, header) in lines.iter().enumerate() {
        let names = cells(header);
        let Some(of_steps) = names.iter().position(|name| *name == "step") else { continue };
        let rows = lines[at + 1..].iter().take_while(|line| line.starts_with('|')).count();
        let row_of = |step: &Value| {
            let name = format!("`{}`", step["step"].as_str().unwrap_or_default());
            (at + 1..=at + rows).find(|row| cells(lines[*row]).get(of_steps) == Some(&name.as_str()))
        };
        if !steps.iter().all(|step| row_of(step).is_some()) {
            continue;
        }
        let mut filled: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for step in steps {
            let row = row_of(step).expect("every step has one");
            filled[row] = filled_row(&names, &cells(lines[row]), step, record.ladder.measure);
        }
        return Ok(filled.join("\n") + "\n");
    }
    let names: Vec<_> = steps.iter().filter_map(|step| step["step"].as_str()).collect();
    bail!("no table has a column `step` with a row for each of {}", names.join(", "))
}

/// How the line of a header that has figures begins.
const MEASURED: &str = "//! Measured";

/// The file with the record's figures in the lines of its header that name steps of it:
/// `//! Measured (..): `queue` ..`.
pub(super) fn filled_header(source: &str, record: &Record) -> Result<String> {
    let mut found = false;
    let mut lines = Vec::new();
    for line in source.lines() {
        let steps = steps_named(line, record);
        found |= !steps.is_empty();
        lines.push(if steps.is_empty() { line.to_owned() } else { measured(&steps, record)? });
    }
    if !found {
        bail!("no line begins with `{MEASURED}` and names a step of {}", record.text("kernel"));
    }
    Ok(lines.join("\n") + "\n")
}

/// The steps of the record that a header's line has figures of: those in backticks behind the
/// colon.
fn steps_named<'a>(line: &str, record: &'a Record) -> Vec<&'a Value> {
    let Some((_, figures)) = line.strip_prefix(MEASURED).and_then(|line| line.split_once(':')) else {
        return Vec::new();
    };
    figures.split('`').skip(1).step_by(2).filter_map(|name| record.step(name)).collect()
}

/// The line of a header for these steps.
fn measured(steps: &[&Value], record: &Record) -> Result<String> {
    let mut figures = Vec::new();
    for step in steps {
        let name = step["step"].as_str().unwrap_or_default();
        let Some((speed, unit)) = speed_text(step, record.ladder.measure) else {
            bail!("the record has no time of {name}: it is of an emulator");
        };
        let rival = record.text("rival");
        let part = step["part_of_rival"].as_f64().filter(|_| !rival.is_empty());
        let part = part.map_or(String::new(), |part| format!(", {:.1} % of {rival}", part * 100.0));
        figures.push(format!("`{name}` {speed} {unit}{part}"));
    }
    Ok(format!("{MEASURED} ({}, `{}`): {}.", record.text("product"), record.shape(), figures.join("; ")))
}

/// A table's line with the figures of a step in the columns whose names are known, and the rest as
/// it was.
pub(super) fn filled_row(names: &[&str], old: &[&str], step: &Value, measure: Measure) -> String {
    let cell = |(name, old): (&&str, &&str)| figure(name, step, measure).unwrap_or_else(|| (*old).to_owned());
    let new: Vec<String> = names.iter().zip(old).map(cell).collect();
    format!("| {} |", new.join(" | "))
}

/// The cells of a table's line.
pub(super) fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map_or_else(Vec::new, |line| line.split('|').map(str::trim).collect())
}

/// What a column of that name has for a step; `None` where the name says nothing of a record, or
/// the record has no such figure.
fn figure(column: &str, step: &Value, measure: Measure) -> Option<String> {
    let counted = &step["counted"];
    let whole = |value: &Value| value.as_u64().map(grouped);
    let part = |value: &Value| value.as_f64().map(|part| format!("{:.1} %", part * 100.0));
    let unit = column.split(',').next().unwrap_or(column).trim();
    match unit {
        "us" | "µs" => {
            let seconds = step["time"]["median_seconds"].as_f64();
            seconds.map(|seconds| grouped((seconds * 1e6).round() as u64))
        }
        "GFLOP/s" => speed(step, measure).map(|speed| grouped(speed.round() as u64)),
        "TFLOP/s" | "TB/s" | "Gkey/s" => speed_text(step, measure).map(|(speed, unit_of_step)| {
            if unit_of_step == unit { speed } else { format!("{speed} {unit_of_step}") }
        }),
        "registers" => whole(&step["registers_per_thread"]),
        "shared bytes" => whole(&step["shared_bytes"]),
        "threads" => whole(&step["threads_per_cta"]),
        "occupancy" => part(&step["occupancy"]),
        "warp instructions" => whole(&counted["warp_instructions"]),
        "sectors" => Some(grouped(counted["global_sectors"].as_u64()? + counted["copied_sectors"].as_u64()?)),
        "passes" => whole(&counted["shared_wavefronts"]),
        "conflicts" => whole(&counted["bank_conflicts"]),
        _ if unit.starts_with("of ") => part(&step["part_of_rival"]),
        _ => None,
    }
}

/// A whole number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record() -> Record {
        let printed = json!({
            "kernel": "scan",
            "options": "--length 64 --seed 7",
            "product": "NVIDIA H200",
            "rival": "copy",
            "steps": [
                {"step": "kogge-stone", "time": {"median_seconds": 0.0012345}, "bytes_per_second": 8.7e11, "registers_per_thread": 20,
                 "operations_per_second": 1.0, "part_of_rival": 0.2041, "counted": {"warp_instructions": 1_234_567, "bank_conflicts": 0}},
                {"step": "single-pass", "time": {"median_seconds": 0.00052}, "bytes_per_second": 4.12e12, "registers_per_thread": 60,
                 "operations_per_second": 1.0, "part_of_rival": 0.966, "counted": {"warp_instructions": 999, "bank_conflicts": 7}},
            ],
        });
        Record::of(printed).expect("a record")
    }

    #[test]
    fn what_is_known_is_filled_in_and_the_rest_stays() {
        let page = "# Scan\n\n| step | what it adds | TB/s | of copy | warp instructions | conflicts |\n|---|---|---|---|---|---|\n\
                    | `kogge-stone` | few steps | 1 | | | |\n| `other` | not timed | 9 | | | |\n| `single-pass` | **one** launch | 2 | | | |\n\nThe end.\n";
        let expected = "# Scan\n\n| step | what it adds | TB/s | of copy | warp instructions | conflicts |\n|---|---|---|---|---|---|\n\
                        | `kogge-stone` | few steps | 0.87 | 20.4 % | 1,234,567 | 0 |\n| `other` | not timed | 9 | | | |\n\
                        | `single-pass` | **one** launch | 4.12 | 96.6 % | 999 | 7 |\n\nThe end.\n";
        let filled = filled_table(page, &record()).expect("the page has the table");
        assert_eq!(filled, expected);
        assert_eq!(
            filled_table(&filled, &record()).expect("it still has"),
            expected,
            "once more changes nothing"
        );
    }

    #[test]
    fn a_page_without_the_steps_is_refused() {
        let error = filled_table("| step | us |\n|---|---|\n| `kogge-stone` | 1 |\n", &record())
            .expect_err("one step is missing");
        let expected = "no table has a column `step` with a row for each of kogge-stone, single-pass";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_header_s_line_is_written_anew() {
        let source =
            "//! A scan.\n//!\n//! Measured: `single-pass`; `kogge-stone` long ago.\n\nlet measured = 1;\n";
        let expected = "//! A scan.\n//!\n//! Measured (NVIDIA H200, `--length 64`): `single-pass` 4.12 TB/s, 96.6 % of copy; \
                        `kogge-stone` 0.87 TB/s, 20.4 % of copy.\n\nlet measured = 1;\n";
        let filled = filled_header(source, &record()).expect("the line is there");
        assert_eq!(filled, expected);
        assert_eq!(
            filled_header(&filled, &record()).expect("it still is"),
            expected,
            "once more changes nothing"
        );
        let error = filled_header("//! Nothing.\n", &record()).expect_err("no line").to_string();
        assert_eq!(error, "no line begins with `//! Measured` and names a step of scan");
    }
}

//! `warpwright chapter`: the figures of a page, from the record of a run.
//!
//! A page tells what each step adds; a record (`warpwright ladder KERNEL --json`) tells what each step has. A table of the page with a column `step` is
//! filled in: columns whose names are known here get the record's figures, the others stay as they were written.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use warpwright_kernels::registry::{self, Measure};

use super::chart;
use crate::output::Output;

/// Fills the tables of a page with the figures of ladders' records, and draws the charts beside the records.
#[derive(Debug, Args)]
pub(crate) struct Chapter {
    /// What `warpwright ladder KERNEL --json` printed, in a file; the chart gets the same name with `.svg`.
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// The page whose tables are filled in: rows of the record's steps, columns such as `us`, `TB/s`, `registers`.
    #[arg(long, value_name = "PAGE")]
    page: Option<PathBuf>,
}

impl Chapter {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let mut written = Vec::new();
        for file in &self.records {
            let record = read(file).with_context(|| file.display().to_string())?;
            let svg = file.with_extension("svg");
            write(&svg, &chart::of_record(&record)?)?;
            written.push(svg);
            if let Some(page) = &self.page {
                let text = std::fs::read_to_string(page)
                    .with_context(|| format!("{} cannot be read", page.display()))?;
                let filled = filled(&text, &record).with_context(|| page.display().to_string())?;
                write(page, &filled)?;
            }
        }
        written.extend(self.page.clone());
        output.json(|| json!({"status": "ok", "written": written}));
        output.text(|| {
            written.iter().map(|file| format!("wrote {}", file.display())).collect::<Vec<_>>().join("\n")
        });
        Ok(())
    }
}

fn read(file: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?)
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
}

/// What a record's kernel is measured by.
pub(super) fn measure(record: &Value) -> Result<Measure> {
    let name = record["kernel"]
        .as_str()
        .ok_or_else(|| anyhow!("it names no kernel: it is no record of a ladder"))?;
    let ladder = registry::named(name).and_then(|kernel| kernel.ladder());
    Ok(ladder.ok_or_else(|| anyhow!("{name} has no ladder"))?.measure)
}

/// A step's speed in units of 10^12 a second, if it was timed.
pub(super) fn speed(step: &Value, measure: Measure) -> Option<f64> {
    let speed = match measure {
        Measure::Operations => &step["operations_per_second"],
        Measure::Bytes => &step["bytes_per_second"],
    };
    speed.as_f64().map(|speed| speed / 1e12)
}

/// The page with the record's figures in the first table that has a row for each of its steps.
fn filled(page: &str, record: &Value) -> Result<String> {
    let measure = measure(record)?;
    let steps = record["steps"].as_array().ok_or_else(|| anyhow!("the record has no steps"))?;
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
            let old = cells(lines[row]);
            let new: Vec<String> = names
                .iter()
                .zip(&old)
                .map(|(name, old)| figure(name, step, measure).unwrap_or_else(|| (*old).to_owned()))
                .collect();
            filled[row] = format!("| {} |", new.join(" | "));
        }
        return Ok(filled.join("\n") + "\n");
    }
    let names: Vec<_> = steps.iter().filter_map(|step| step["step"].as_str()).collect();
    bail!("no table has a column `step` with a row for each of {}", names.join(", "))
}

/// The cells of a table's line.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map_or_else(Vec::new, |line| line.split('|').map(str::trim).collect())
}

/// What a column of that name has for a step; `None` where the name says nothing of a record, or the record has no such figure.
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
        "TFLOP/s" | "TB/s" => speed(step, measure).map(|speed| {
            let digits = if speed < 100.0 { 2 } else { 0 };
            format!("{speed:.digits$}")
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
    use super::*;

    fn record() -> Value {
        json!({
            "kernel": "scan",
            "steps": [
                {"step": "kogge-stone", "time": {"median_seconds": 0.0012345}, "bytes_per_second": 8.7e11, "registers_per_thread": 20,
                 "part_of_rival": 0.2041, "counted": {"warp_instructions": 1_234_567, "bank_conflicts": 0}},
                {"step": "single-pass", "time": {"median_seconds": 0.00052}, "bytes_per_second": 4.12e12, "registers_per_thread": 60,
                 "part_of_rival": 0.966, "counted": {"warp_instructions": 999, "bank_conflicts": 7}},
            ],
        })
    }

    #[test]
    fn what_is_known_is_filled_in_and_the_rest_stays() {
        let page = "# Scan\n\n| step | what it adds | TB/s | of copy | warp instructions | conflicts |\n|---|---|---|---|---|---|\n\
                    | `kogge-stone` | few steps | 1 | | | |\n| `other` | not timed | 9 | | | |\n| `single-pass` | **one** launch | 2 | | | |\n\nThe end.\n";
        let expected = "# Scan\n\n| step | what it adds | TB/s | of copy | warp instructions | conflicts |\n|---|---|---|---|---|---|\n\
                        | `kogge-stone` | few steps | 0.87 | 20.4 % | 1,234,567 | 0 |\n| `other` | not timed | 9 | | | |\n\
                        | `single-pass` | **one** launch | 4.12 | 96.6 % | 999 | 7 |\n\nThe end.\n";
        let filled = filled(page, &record()).expect("the page has the table");
        assert_eq!(filled, expected);
    }

    #[test]
    fn a_page_without_the_steps_is_refused() {
        let error = filled("| step | us |\n|---|---|\n| `kogge-stone` | 1 |\n", &record())
            .expect_err("one step is missing");
        let expected = "no table has a column `step` with a row for each of kogge-stone, single-pass";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let error = filled("", &json!({"lines": []})).expect_err("no kernel");
        assert_eq!(error.to_string(), "it names no kernel: it is no record of a ladder");
    }
}

//! `warpwright bench list FILE`: many kernels, or many shapes of one, in one process.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Command, FromArgMatches, Subcommand};
use serde_json::json;

use super::{Bench, Measured};
use crate::conditions::{Setting, predicted_times};
use crate::file;
use crate::interrupt;
use crate::kernel::KernelChoice;
use crate::output::Output;

/// Times each line of a file: the name of a kernel and its options, as the command line has them.
pub(super) fn run(bench: &Bench, file: &Path, output: Output) -> Result<()> {
    let text = file::text(file)?;
    let choices = choices(&text).with_context(|| file.display().to_string())?;
    let device = bench.device.open_timed()?;
    let setting = Setting::of(&device, bench.vs.as_deref());
    output.text(|| setting.as_text());
    if let Some(note) = predicted_times(&device) {
        output.text(|| note);
    }
    let mut all = Vec::new();
    interrupt::end_in_order();
    for (line, choice) in &choices {
        if interrupt::is_requested() {
            break;
        }
        let measured = bench.measure(choice, &device, output)?;
        output.text(|| format!("{line}{}", figures(&measured)));
        all.push(measured);
    }
    let ratios: Vec<f64> = all.iter().filter_map(Measured::ratio).collect();
    output.json(|| {
        json!({
            "status": if interrupt::is_requested() { "interrupted" } else { "ok" },
            "run": setting.as_json(),
            "geometric_mean": geometric_mean(&ratios),
            "lines": all.iter().map(|measured| measured.as_json(&device)).collect::<Vec<_>>(),
        })
    });
    if let (Some(rival), Some(mean)) = (&bench.vs, geometric_mean(&ratios)) {
        output.text(|| format!("geometric mean of {} ratios to {rival}: {mean:.3}", ratios.len()));
    }
    Ok(())
}

/// The kernels that the lines of a text name, and those lines.
pub(crate) fn choices(text: &str) -> Result<Vec<(String, KernelChoice)>> {
    let command = KernelChoice::augment_subcommands(Command::new("a line").no_binary_name(true));
    let mut choices = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let choice = command.clone().try_get_matches_from(&words);
        let choice = choice.and_then(|matches| KernelChoice::from_arg_matches(&matches));
        let choice =
            choice.map_err(|error| anyhow!("line {}: `{line}`: {}", number + 1, sentence(&error)))?;
        choices.push((words.join(" "), choice));
    }
    if choices.is_empty() {
        bail!("no line names a kernel");
    }
    Ok(choices)
}

/// The first line of what a command line's error prints, which names what is wrong.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// The median of each, their ratio, and the clocks and power meanwhile.
fn figures(measured: &Measured) -> String {
    let mut line = String::new();
    for timed in &measured.timed {
        let tera = timed.timing.operations_per_second(&measured.work) / 1e12;
        let giga = timed.timing.bytes_per_second(&measured.work) / 1e9;
        let (microseconds, name) = (timed.timing.median() * 1e6, &timed.name);
        line += &format!(" | {name} {microseconds:.2} us {tera:.1} TFLOP/s {giga:.0} GB/s");
    }
    if let Some(ratio) = measured.ratio() {
        line += &format!(" | {ratio:.3}");
    }
    if let Some(conditions) = measured.conditions.as_text() {
        line += &format!(" | {conditions}");
    }
    line
}

fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kernels_and_their_options() {
        let text = "# the square ones\n\ngemm --m 2048 --n 64 # and this\ntranspose\n";
        let choices = choices(text).expect("two kernels");
        let lines: Vec<_> = choices.iter().map(|(line, choice)| (line.as_str(), choice.name())).collect();
        assert_eq!(lines, [("gemm --m 2048 --n 64", "gemm"), ("transpose", "transpose")]);
        let text = |name| choices[0].1.workload.text(name);
        assert_eq!((text("m").as_deref(), text("n").as_deref()), (Some("2048"), Some("64")));
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = choices("gemm\ngemm --hight 7\n").expect_err("no such option");
        assert!(format!("{error:#}").starts_with("line 2: `gemm --hight 7`: "), "{error:#}");
        assert_eq!(choices("# nothing\n").expect_err("no line").to_string(), "no line names a kernel");
    }

    #[test]
    fn the_mean_is_geometric() {
        assert_eq!(geometric_mean(&[2.0, 0.5]), Some(1.0));
        assert_eq!(geometric_mean(&[]), None);
    }
}

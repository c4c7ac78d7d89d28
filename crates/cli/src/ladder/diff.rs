//! What one step of a ladder does otherwise than another, and what that gains: time, counters, and the lines whose cycles
//! differ.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use warpwright_harness::Ladder as Steps;
use warpwright_runtime::{Device, SourceFiles, Stall};

use crate::kernel::KernelChoice;
use crate::subject::Subject;
use crate::suggestion::did_you_mean;
use crate::target::LimitOption;
use crate::time;

use super::count::total;

/// A figure of both steps.
struct Figure {
    name: &'static str,
    unit: &'static str,
    values: [f64; 2],
}

/// Warp cycles of both steps at a line of the source, or by a reason.
struct Cycles {
    name: String,
    values: [u64; 2],
}

/// Both steps.
pub(super) struct Difference {
    steps: [String; 2],
    figures: Vec<Figure>,
    stalls: Vec<Cycles>,
    lines: Vec<Cycles>,
}

/// One step.
struct Side {
    figures: Vec<(&'static str, &'static str, f64)>,
    stalls: BTreeMap<Stall, u64>,
    /// Cycles by the text of a line, which steps in different files have in common.
    lines: BTreeMap<String, u64>,
}

impl Side {
    fn of(
        choice: &KernelChoice,
        emulator: &str,
        limit: &LimitOption,
        files: &mut SourceFiles,
    ) -> Result<Self> {
        let device = Device::named(emulator)?.counted()?.timed()?;
        let observed =
            Subject::Kernel(choice).observe(device, limit).with_context(|| format!("{choice:?}"))?;
        let counts = total(&observed.counters);
        let predictions = &observed.predictions;
        let longest =
            predictions.iter().max_by_key(|one| one.cycles).context("the step launches no kernel")?;
        let sum = |of: fn(&warpwright_runtime::Prediction) -> f64| predictions.iter().map(of).sum::<f64>();
        let shared = observed.counters.iter().map(|launch| launch.shared_bytes).max().unwrap_or(0);
        let figures = vec![
            ("time", "us", sum(|one| one.microseconds)),
            ("launches", "", predictions.len() as f64),
            ("warp instructions", "", counts.executions as f64),
            ("sectors of global memory", "", (counts.global().sectors + counts.copies.sectors) as f64),
            ("sectors beyond the minimum", "", counts.global().excess() as f64),
            ("shared-memory passes", "", counts.shared.wavefronts as f64),
            ("passes due to bank conflicts", "", counts.shared.conflicts() as f64),
            ("device memory", "MB", sum(|one| one.device_bytes as f64) / 1e6),
            ("L2 cache", "MB", sum(|one| one.l2_bytes as f64) / 1e6),
            ("tensor cores busy", "%", 100.0 * longest.tensor_busy),
            ("shared memory of a CTA", "KiB", f64::from(shared) / 1024.0),
            ("registers of a thread, estimated", "", f64::from(longest.registers_per_thread)),
            ("CTAs on an SM", "", f64::from(longest.ctas_per_sm)),
        ];
        let (mut stalls, mut lines) = (BTreeMap::new(), BTreeMap::new());
        for line in predictions.iter().flat_map(|one| time::lines(one, files)) {
            *lines.entry(line.text.clone()).or_default() += line.cycles();
            for (stall, cycles) in line.stalls {
                *stalls.entry(stall).or_default() += cycles;
            }
        }
        Ok(Self { figures, stalls, lines })
    }
}

/// The figures by name of two steps, those that differ most first.
fn paired<K: Ord + Clone>(
    [before, after]: [&BTreeMap<K, u64>; 2],
    name: impl Fn(&K) -> String,
) -> Vec<Cycles> {
    let mut values: BTreeMap<K, [u64; 2]> = BTreeMap::new();
    for (side, cycles) in [before, after].into_iter().enumerate() {
        for (key, cycles) in cycles {
            values.entry(key.clone()).or_default()[side] += cycles;
        }
    }
    let mut paired: Vec<_> =
        values.into_iter().map(|(key, values)| Cycles { name: name(&key), values }).collect();
    paired.sort_by_key(|one| std::cmp::Reverse(one.values[0].abs_diff(one.values[1])));
    paired
}

impl Difference {
    /// Runs both steps once, on an emulated GPU.
    pub(super) fn of(
        ladder: &Steps,
        choice: &KernelChoice,
        steps: &[String],
        emulator: &str,
        limit: &LimitOption,
        files: &mut SourceFiles,
    ) -> Result<Self> {
        let [first, second] = steps else { bail!("--diff needs two steps") };
        let mut side = |step: &String| {
            if !ladder.steps.contains(&step.as_str()) {
                let guess = did_you_mean(step, ladder.steps.iter().copied());
                bail!(
                    "`{step}` is no step of {}{guess}; its steps are {}",
                    choice.workload.name(),
                    ladder.steps.join(", ")
                );
            }
            let mut choice = choice.clone();
            choice.workload.set(ladder.option, step)?;
            Side::of(&choice, emulator, limit, files)
        };
        let (before, after) = (side(first)?, side(second)?);
        let figures = before.figures.iter().zip(&after.figures);
        let figures = figures.map(|(&(name, unit, before), &(.., after))| Figure {
            name,
            unit,
            values: [before, after],
        });
        Ok(Self {
            steps: [first.clone(), second.clone()],
            figures: figures.collect(),
            stalls: paired([&before.stalls, &after.stalls], |stall| stall.name().to_owned()),
            lines: paired([&before.lines, &after.lines], String::clone),
        })
    }

    pub(super) fn as_json(&self) -> Value {
        let cycles = |all: &[Cycles]| {
            all.iter()
                .map(|one| json!({"name": one.name, "before": one.values[0], "after": one.values[1]}))
                .collect::<Vec<_>>()
        };
        let figure = |one: &Figure| json!({"name": one.name, "unit": one.unit, "before": one.values[0], "after": one.values[1]});
        json!({
            "steps": self.steps,
            "figures": self.figures.iter().map(figure).collect::<Vec<_>>(),
            "stalls": cycles(&self.stalls),
            "lines": cycles(&self.lines),
        })
    }

    pub(super) fn text(&self) -> String {
        let [first, second] = &self.steps;
        let mut text = vec![format!("{:<34} {first:>16} {second:>16}", "")];
        for Figure { name, unit, values: [before, after] } in &self.figures {
            let name = if unit.is_empty() { (*name).to_owned() } else { format!("{name}, {unit}") };
            text.push(format!(
                "{name:<34} {:>16} {:>16}{}",
                shown(*before),
                shown(*after),
                change(*before, *after)
            ));
        }
        let total = |side: usize| self.stalls.iter().map(|one| one.values[side]).sum::<u64>();
        let most = total(0).max(total(1)).max(1);
        text.push("\nwarp cycles by reason, millions".to_owned());
        for Cycles { name, values: [before, after] } in &self.stalls {
            if 100 * before.max(after) >= most {
                let [before, after] = [before, after].map(|&cycles| cycles as f64 / 1e6);
                text.push(format!("  {name:<32} {before:>16.2} {after:>16.2}{}", change(before, after)));
            }
        }
        text.push("\nlines whose warp cycles differ most, millions".to_owned());
        for Cycles { name, values } in self.lines.iter().take(time::SHOWN_LINES) {
            let cells = values.map(|cycles| match cycles {
                0 => "-".to_owned(),
                cycles => format!("{:.2}", cycles as f64 / 1e6),
            });
            text.push(format!("{:>10} {:>10}  {name}", cells[0], cells[1]));
        }
        text.join("\n")
    }
}

/// A figure with as many digits as tell it from its neighbours.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// By how much a figure changes, if it does.
fn change(before: f64, after: f64) -> String {
    let part = after / before - 1.0;
    if before == after || !part.is_finite() { String::new() } else { format!("  {:+.0} %", 100.0 * part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_one_step_has_is_shown_and_the_largest_difference_first() {
        let of = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|&(name, cycles)| (name.to_owned(), cycles)).collect::<BTreeMap<_, _>>()
        };
        let (before, after) = (of(&[("wait", 10), ("barrier", 100)]), of(&[("wait", 20), ("load", 50)]));
        let paired = paired([&before, &after], String::clone);
        let found: Vec<_> = paired.iter().map(|one| (one.name.as_str(), one.values)).collect();
        assert_eq!(found, [("barrier", [100, 0]), ("load", [0, 50]), ("wait", [10, 20])]);
    }
}

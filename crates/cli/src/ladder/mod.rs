//! `warpwright ladder`: the steps from a kernel's first form to its fastest, as a table.
//!
//! Each step is timed on the device in turns with the rival, and its result checked; instructions
//! are counted on the emulator, in a launch small enough for it. The times of an emulated device are predicted.

mod count;
mod diff;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use warpwright_harness::{Entry, Ladder as Steps, Measure, Prepared, Resources, Work};
use warpwright_runtime::{Device, Stream};

use crate::bench::timing::{self, Timing};
use crate::conditions::{Conditions, Setting, predicted_product};
use crate::interrupt;
use crate::kernel::{self, KernelChoice};
use crate::number;
use crate::output::Output;
use crate::sources;
use crate::target::DeviceOptions;
use count::Counted;
use diff::Difference;

/// Time the steps from a kernel's first form to its fastest, in a table.
#[derive(Debug, Args)]
pub(crate) struct Ladder {
    #[command(flatten)]
    device: DeviceOptions,
    /// Number of timed batches per step, whose median is reported.
    #[arg(long, global = true, default_value_t = 7, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(1..=u64::from(u32::MAX)))]
    batches: u32,
    /// Count only: neither time nor predict.
    #[arg(long, global = true)]
    untimed: bool,
    /// Compare two steps, on an emulated GPU: predicted time, counters, and the lines whose cycles differ.
    #[arg(long, global = true, num_args = 2, value_names = ["STEP", "STEP"], conflicts_with = "untimed")]
    diff: Vec<String>,
    #[command(subcommand)]
    choice: KernelChoice,
}

/// What is known of a step.
struct Rung {
    step: &'static str,
    work: Work,
    /// Its time and the rival's in the same minute.
    times: Option<Times>,
    resources: Resources,
    counted: Counted,
}

struct Times {
    ours: Timing,
    theirs: Option<Timing>,
    /// What the device ran at meanwhile.
    conditions: Conditions,
}

impl Rung {
    /// The speed in the measure's unit.
    fn speed(&self, measure: Measure) -> Option<f64> {
        let Times { ours, .. } = self.times.as_ref()?;
        let per_second = match measure {
            Measure::Bytes => ours.bytes_per_second(&self.work),
            _ => ours.operations_per_second(&self.work),
        };
        Some(per_second * measure.unit().1)
    }

    fn part_of_rival(&self) -> Option<f64> {
        let Times { ours, theirs, .. } = self.times.as_ref()?;
        Some(theirs.as_ref()?.median() / ours.median())
    }
}

impl Ladder {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let workload = &self.choice.workload;
        let name = workload.name();
        let ladder = workload.ladder().ok_or_else(|| anyhow!("{name} has no ladder; {}", with_ladders()))?;
        let choice = &self.choice.with_defaults(ladder.defaults)?;
        if !self.diff.is_empty() {
            return self.compare(&ladder, choice, output);
        }
        let device = self.device.open_timed()?;
        let stream = device.stream()?;
        let setting = Setting::of(&device, ladder.baseline);
        let progress = output.progress(&format!("{name} on {}", device.name()));
        let mut rungs = Vec::new();
        interrupt::end_in_order();
        for step in &ladder.steps {
            if interrupt::is_requested() {
                break;
            }
            progress.step(*step);
            let mut choice = choice.clone();
            choice.workload.set(ladder.option, step)?;
            let rung = self.rung(&ladder, step, &choice, &device, &stream);
            rungs.push(rung.with_context(|| format!("{choice:?} on {}", device.name()))?);
        }
        drop(progress);
        let product = predicted_product(&device);
        let title = format!("{name} {} on {product}", choice.workload.flags_without(ladder.option));
        let record = json!({
            "status": if interrupt::is_requested() { "interrupted" } else { "ok" },
            "run": setting.as_json(),
            "kernel": name,
            "options": choice.workload.flags_without(ladder.option),
            "device": device.name(),
            "product": product,
            "is_emulated": device.properties().is_emulated,
            "rival": ladder.baseline,
            "counted_on": ladder.counted_on,
            "counted_with": count::flags(&ladder),
            "steps": rungs.iter().map(as_json).collect::<Vec<_>>(),
        });
        output.text(|| {
            let mut conditions = rungs.iter().filter_map(|rung| rung.times.as_ref()?.conditions.as_text());
            let last = conditions
                .next_back()
                .map_or(String::new(), |last| format!("\n{}; {last}", setting.as_text()));
            let interrupted = match interrupt::is_requested() {
                true => format!("\ninterrupted: {} of {} steps", rungs.len(), ladder.steps.len()),
                false => String::new(),
            };
            as_text(&title, &ladder, &rungs) + &last + &interrupted
        });
        output.json(|| record);
        Ok(())
    }

    /// Two steps beside each other.
    fn compare(&self, ladder: &Steps, choice: &KernelChoice, output: Output) -> Result<()> {
        let emulator = match self.device.name() {
            "auto" => ladder.counted_on,
            name if name.starts_with("emu:") => name,
            name => bail!(
                "--diff predicts times, and {name} is a GPU: name an emulated one, such as {}",
                ladder.counted_on
            ),
        };
        let name = choice.workload.name();
        let progress = output.progress(&format!("{name} on {emulator}")).announced();
        let difference =
            Difference::of(ladder, choice, &self.diff, emulator, self.device.limit(), &mut sources::files())?;
        drop(progress);
        let options = choice.workload.flags_without(ladder.option);
        output.text(|| format!("{name} {options} on {emulator}, predicted\n{}", difference.text()));
        output.json(|| {
            let mut record = json!({"status": "ok", "kernel": name, "options": options, "device": emulator});
            if let (Value::Object(record), Value::Object(more)) = (&mut record, difference.as_json()) {
                record.extend(more);
            }
            record
        });
        Ok(())
    }

    fn rung(
        &self,
        ladder: &Steps,
        step: &'static str,
        choice: &KernelChoice,
        device: &Device,
        stream: &Stream,
    ) -> Result<Rung> {
        let counted = Counted::of(choice, ladder)?;
        if self.untimed {
            let Counted { work, resources, .. } = counted;
            return Ok(Rung { step, work, times: None, resources, counted });
        }
        let mut ours = choice.prepare(device)?;
        let launches = kernel::launches(ours.as_mut(), stream)?;
        // An emulator has the driver's copies and fills, and no cuBLAS.
        let is_emulated = device.properties().is_emulated;
        let baseline = ladder.baseline.filter(|&baseline| !is_emulated || baseline == "copy");
        let mut theirs = baseline.map(|baseline| choice.baseline(baseline, device)).transpose()?;
        let mut kernels: Vec<&mut dyn Prepared> = vec![ours.as_mut()];
        if let Some(theirs) = &mut theirs {
            kernels.push(theirs.as_mut());
        }
        let timings = timing::time(&mut kernels, device, stream, self.batches as usize)?;
        // The small launch that was counted is verified, and the host's reference of a large one takes minutes.
        if !is_emulated {
            kernel::verify(ours.as_mut())?;
        }
        let (conditions, mut timings) = (timings.conditions, timings.kernels.into_iter());
        let times = timings.next().map(|ours| Times { ours, theirs: timings.next(), conditions });
        let (work, resources) = (choice.workload.work(), count::resources(&launches)?);
        Ok(Rung { step, work, times, resources, counted })
    }
}

fn with_ladders() -> String {
    let names = kernel::all().filter(|entry| entry.workload().ladder().is_some()).map(Entry::name);
    format!("these have one: {}", names.collect::<Vec<_>>().join(", "))
}

fn as_json(rung: &Rung) -> Value {
    let timing = |timing: &Timing| json!({"median_seconds": timing.median(), "best_seconds": timing.best(), "worst_seconds": timing.worst()});
    json!({
        "step": rung.step,
        "time": rung.times.as_ref().map(|times| timing(&times.ours)),
        "rival": rung.times.as_ref().and_then(|times| times.theirs.as_ref()).map(timing),
        "conditions": rung.times.as_ref().map(|times| times.conditions.as_json()),
        "part_of_rival": rung.part_of_rival(),
        "operations_per_second": rung.times.as_ref().map(|times| times.ours.operations_per_second(&rung.work)),
        "bytes_per_second": rung.times.as_ref().map(|times| times.ours.bytes_per_second(&rung.work)),
        "registers_per_thread": rung.resources.registers_per_thread,
        "local_bytes": rung.resources.local_bytes,
        "threads_per_cta": rung.resources.threads_per_cta,
        "shared_bytes": rung.resources.shared_bytes,
        "occupancy": rung.resources.occupancy(),
        "counted": rung.counted.as_json(),
    })
}

/// The table's columns: the heading and how wide it is.
const COLUMNS: [(&str, usize); 13] = [
    ("step", 18),
    ("us", 10),
    ("", 8),
    ("", 10),
    ("registers", 9),
    ("shared", 7),
    ("threads", 7),
    ("occupancy", 9),
    ("instructions", 12),
    ("sectors", 8),
    ("excess", 8),
    ("wavefronts", 10),
    ("conflicts", 9),
];

fn as_text(title: &str, ladder: &Steps, rungs: &[Rung]) -> String {
    let mut headings = COLUMNS.map(|(heading, _)| heading.to_owned());
    headings[2] = ladder.measure.unit().0.to_owned();
    headings[3] = ladder.baseline.map_or(String::new(), |baseline| format!("of {baseline}"));
    let mut lines = vec![title.to_owned(), in_columns(&headings)];
    lines.extend(rungs.iter().map(|rung| in_columns(&row(rung, ladder.measure))));
    lines.push(format!(
        "warp instructions, sectors of global memory and those beyond the minimum, shared-memory wavefronts and those due to bank conflicts: counted on \
         {} with {}",
        ladder.counted_on,
        count::flags(ladder)
    ));
    lines.join("\n")
}

/// The cells of a step's row; a dash where nothing is known.
fn row(rung: &Rung, measure: Measure) -> [String; 13] {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let percent = |part: Option<f64>| known(part.map(|part| format!("{:.1} %", part * 100.0)));
    let whole = |value: Option<u32>| known(value.map(|value| value.to_string()));
    let (resources, counts) = (rung.resources, &rung.counted.counts);
    let registers = resources.registers_per_thread;
    [
        rung.step.to_owned(),
        known(rung.times.as_ref().map(|times| format!("{:.1}", times.ours.median() * 1e6))),
        known(rung.speed(measure).map(|speed| measure.format(speed))),
        percent(rung.part_of_rival()),
        whole(registers),
        resources.shared_bytes.to_string(),
        resources.threads_per_cta.to_string(),
        // Where no assembler has said how many registers there are, it would be too high.
        percent(registers.map(|_| resources.occupancy())),
        counts.executions.to_string(),
        (counts.global().sectors + counts.copies.sectors).to_string(),
        counts.global().excess().to_string(),
        counts.shared.wavefronts.to_string(),
        counts.shared.conflicts().to_string(),
    ]
}

fn in_columns(cells: &[String; 13]) -> String {
    let mut line = String::new();
    for (place, (cell, (_, width))) in cells.iter().zip(COLUMNS).enumerate() {
        line += &if place == 0 { format!("{cell:<width$}") } else { format!(" {cell:>width$}") };
    }
    line
}

//! `warpwright time`: the predicted time of a kernel, and what its warps wait for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Error, Result};
use clap::Args;
use serde_json::{Value, json};
use warpwright_runtime::{Assumption, Device, Prediction, SourceFiles, Stall};

use crate::conditions::ERROR_ESTIMATE;
use crate::kernel::KernelChoice;
use crate::number;
use crate::output::Output;
use crate::sources;
use crate::subject::{self, Subject};
use crate::target::LimitOption;

/// Predict how long a kernel takes on a GPU, and what its warps wait for, without the GPU.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Time {
    /// Launch file, as for `exec`, instead of a kernel.
    launch: Option<PathBuf>,
    /// Emulated GPU [default: emu:h200, or a GPU that runs the launch file's PTX].
    #[arg(long, global = true, value_name = "DEVICE")]
    device: Option<String>,
    /// Number of source lines in the table, the most costly first.
    #[arg(long, global = true, default_value_t = SHOWN_LINES, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<usize>(0..=u64::from(u32::MAX)))]
    lines: usize,
    /// Predict again with a change: `hbm=2x`, `l2=2x`, `tensor=2x`, `no-bank-conflicts`, `device=emu:b200`, or an
    /// option of the kernel such as `stages=5`. May be repeated; each change is tried by itself.
    #[arg(long, global = true, value_name = "CHANGE")]
    what_if: Vec<String>,
    #[command(flatten)]
    limit: LimitOption,
    #[command(subcommand)]
    choice: Option<KernelChoice>,
}

/// A change, and the predicted time with it.
struct WhatIf {
    change: String,
    microseconds: f64,
}

/// Lines of a table.
pub(crate) const SHOWN_LINES: usize = 12;

/// Warp cycles at a line of the source.
pub(crate) struct Line {
    file: Option<String>,
    line: u32,
    pub(crate) text: String,
    pub(crate) stalls: BTreeMap<Stall, u64>,
}

impl Line {
    pub(crate) fn cycles(&self) -> u64 {
        self.stalls.values().sum()
    }

    /// The reasons for most of its cycles, as parts of them.
    fn reasons(&self) -> String {
        let mut reasons: Vec<_> = self.stalls.iter().collect();
        reasons.sort_by_key(|(_, cycles)| std::cmp::Reverse(**cycles));
        let part = |cycles: u64| 100.0 * cycles as f64 / self.cycles().max(1) as f64;
        let shown = reasons.iter().take(3).filter(|(_, cycles)| part(**cycles) >= 5.0);
        let words = shown.map(|(stall, cycles)| format!("{} {:.0} %", stall.name(), part(**cycles)));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// The lines of a prediction, the most costly first.
pub(crate) fn lines(prediction: &Prediction, files: &mut SourceFiles) -> Vec<Line> {
    let mut lines: BTreeMap<(Option<String>, u32), Line> = BTreeMap::new();
    for instruction in &prediction.instructions {
        let (file, number) = match &instruction.source {
            Some(source) => (Some(source.file.clone()), source.line),
            None => (None, instruction.ptx_line),
        };
        let line = lines.entry((file.clone(), number)).or_insert_with(|| Line {
            text: match &file {
                Some(file) => files.line(file, number).unwrap_or_default().trim().to_owned(),
                None => instruction.text.clone(),
            },
            file,
            line: number,
            stalls: BTreeMap::new(),
        });
        for (stall, cycles) in &instruction.stalls {
            *line.stalls.entry(*stall).or_default() += cycles;
        }
    }
    let mut lines: Vec<Line> = lines.into_values().collect();
    // Ties stay in the order of the source.
    lines.sort_by_key(|line| std::cmp::Reverse(line.cycles()));
    lines
}

impl Time {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let subject = Subject::named(self.choice.as_ref(), self.launch.as_deref())?;
        let name = subject.name();
        let progress = output.progress(&name).announced();
        progress.step("timing");
        let emulator = subject::emulator(self.device.as_deref(), self.launch.as_deref())?;
        let predictions = subject.time(&emulator, &self.limit).with_context(|| name.clone())?;
        let mut changed = Vec::new();
        for change in &self.what_if {
            progress.step(change);
            let microseconds =
                self.with(change, &subject, &emulator).with_context(|| format!("--what-if {change}"))?;
            changed.push(WhatIf { change: change.clone(), microseconds });
        }
        drop(progress);
        output.json(|| {
            let mut record = as_json(&name, &emulator, &predictions);
            record["what_if"] = changed.iter().map(WhatIf::as_json).collect();
            record
        });
        output.text(|| {
            let mut files = sources::files();
            let total: f64 = predictions.iter().map(|prediction| prediction.microseconds).sum();
            let title = format!("{name} on {emulator}: {}, predicted", duration(total));
            let title = std::iter::once(title).chain(changed.iter().map(|what_if| what_if.text(total)));
            let title = title.collect::<Vec<_>>().join("\n");
            let parts = predictions.iter().map(|prediction| text(prediction, self.lines, &mut files));
            std::iter::once(title).chain(parts).collect::<Vec<_>>().join("\n\n")
        });
        Ok(())
    }

    /// The predicted time with a change, in microseconds.
    fn with(&self, change: &str, subject: &Subject<'_>, device: &str) -> Result<f64> {
        let sum = |predictions: Vec<Prediction>| predictions.iter().map(|one| one.microseconds).sum();
        if let Some(device) = change.strip_prefix("device=") {
            return subject.time(device, &self.limit).map(sum);
        }
        if let (Subject::Kernel(choice), Some((option, value))) = (subject, change.split_once('='))
            && choice.workload.flags().split_whitespace().any(|flag| flag.strip_prefix("--") == Some(option))
        {
            let mut choice = (*choice).clone();
            choice.workload.set(option, value)?;
            return Subject::Kernel(&choice).time(device, &self.limit).map(sum);
        }
        let assumption: Assumption = change.parse().map_err(Error::msg)?;
        let device = Device::named(device)?.timed()?.assuming(&[assumption])?;
        Ok(sum(subject.observe(device, &self.limit)?.predictions))
    }
}

/// A prediction for people, with so many lines.
pub(crate) fn text(prediction: &Prediction, shown: usize, files: &mut SourceFiles) -> String {
    let [x, y, z] = prediction.grid;
    let [bx, by, bz] = prediction.block;
    let mut text = vec![
        format!(
            "{}: {}, {} cycles at {:.0} MHz; {x} x {y} x {z} CTAs of {} threads, {} on an SM \
             ({} registers per thread, estimated)",
            prediction.kernel,
            duration(prediction.microseconds),
            prediction.cycles,
            prediction.clock_mhz,
            bx * by * bz,
            prediction.ctas_per_sm,
            prediction.registers_per_thread,
        ),
        format!(
            "tensor cores busy {:.1} %; device memory {}, L2 {}",
            100.0 * prediction.tensor_busy,
            rate(prediction.device_bytes, prediction.microseconds),
            rate(prediction.l2_bytes, prediction.microseconds),
        ),
    ];
    let ctas = prediction.ctas();
    if prediction.simulated_ctas < ctas {
        text.push(format!(
            "{} of {ctas} CTAs were simulated; the time of the others follows from theirs",
            prediction.simulated_ctas
        ));
    }
    if prediction.released > 0 {
        text.push(format!(
            "{} waits had no end in the model and were cut short: the time is too low",
            prediction.released
        ));
    }
    let lines = lines(prediction, files);
    let all: u64 = lines.iter().map(Line::cycles).sum();
    text.push(format!("{:>7}  {:<24} {}", "cycles", "line", "stalls"));
    for line in lines.iter().take(shown) {
        let part = 100.0 * line.cycles() as f64 / all.max(1) as f64;
        text.push(format!(
            "{part:>6.1}%  {:<24} {}",
            sources::place(line.file.as_deref(), line.line),
            line.reasons()
        ));
        text.push(format!("{:>9}{}", "", line.text));
    }
    text.join("\n")
}

impl WhatIf {
    fn as_json(&self) -> Value {
        json!({"change": self.change, "microseconds": self.microseconds})
    }

    fn text(&self, unchanged: f64) -> String {
        let change = 100.0 * (self.microseconds / unchanged - 1.0);
        format!("  with {:<22} {} ({change:+.1} %)", self.change, duration(self.microseconds))
    }
}

/// A time with its unit.
fn duration(microseconds: f64) -> String {
    if microseconds < 1000.0 {
        format!("{microseconds:.2} us")
    } else {
        format!("{:.3} ms", microseconds / 1000.0)
    }
}

/// Bytes, and their rate.
fn rate(bytes: u64, microseconds: f64) -> String {
    format!("{:.1} MB at {:.2} TB/s", bytes as f64 / 1e6, bytes as f64 / microseconds / 1e6)
}

pub(crate) fn as_json(name: &str, device: &str, predictions: &[Prediction]) -> Value {
    let microseconds: f64 = predictions.iter().map(|prediction| prediction.microseconds).sum();
    let cycles: u64 = predictions.iter().map(|prediction| prediction.cycles).sum();
    json!({
        "status": "ok",
        "timed": name,
        "device": device,
        "microseconds": microseconds,
        "cycles": cycles,
        "error_estimate": ERROR_ESTIMATE,
        "launches": predictions,
    })
}

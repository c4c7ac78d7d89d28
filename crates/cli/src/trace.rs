//! `warpwright trace`: what happens when in some CTAs, as a trace for Perfetto.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use warpwright_runtime::{Device, Prediction, Stall, Track};

use crate::kernel::KernelChoice;
use crate::number;
use crate::output::Output;
use crate::sources;
use crate::subject::{self, Subject};
use crate::target::LimitOption;

/// Write what each warp of some CTAs does when, by the model of time, as a trace for Perfetto.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Trace {
    /// Launch file, as for `exec`, instead of a kernel.
    launch: Option<PathBuf>,
    /// Emulated GPU [default: emu:h200, or a GPU that runs the launch file's PTX].
    #[arg(long, global = true, value_name = "DEVICE")]
    device: Option<String>,
    /// Number of CTAs that are shown, the first of each launch.
    #[arg(long, global = true, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(1..=1024))]
    ctas: u32,
    /// File that the trace is written to, in the JSON format of Chrome and Perfetto (ui.perfetto.dev).
    #[arg(long, global = true, default_value = "trace.json", value_name = "FILE")]
    perfetto: PathBuf,
    #[command(flatten)]
    limit: LimitOption,
    #[command(subcommand)]
    choice: Option<KernelChoice>,
}

impl Trace {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let subject = Subject::named(self.choice.as_ref(), self.launch.as_deref())?;
        let name = subject.name();
        let progress = output.progress(&name).announced();
        progress.step("tracing");
        let emulator = subject::emulator(self.device.as_deref(), self.launch.as_deref())?;
        let device = Device::named(&emulator)?.traced(self.ctas)?;
        let predictions = subject.observe(device, &self.limit).with_context(|| name.clone())?.predictions;
        let events = events(&predictions);
        let trace = json!({"displayTimeUnit": "ns", "traceEvents": events});
        crate::file::write(&self.perfetto, trace.to_string())
            .with_context(|| format!("{} cannot be written", self.perfetto.display()))?;
        drop(progress);
        let slices: usize = predictions.iter().map(|prediction| prediction.timeline.len()).sum();
        output.json(|| {
            json!({
                "status": "ok",
                "traced": name,
                "device": emulator,
                "file": self.perfetto.display().to_string(),
                "launches": predictions.len(),
                "slices": slices,
            })
        });
        output.text(|| {
            format!(
                "{name} on {emulator}: {slices} slices of {} launches in {}, predicted; open it in ui.perfetto.dev",
                predictions.len(),
                self.perfetto.display()
            )
        });
        Ok(())
    }
}

/// The process and the thread that a track is in a trace, with their names.
fn lane(track: Track) -> (u64, u64, String, String) {
    match track {
        Track::Warp { cta, warp } => {
            (u64::from(cta), warp.into(), format!("CTA {cta}"), format!("warp {warp}"))
        }
        Track::Copies { sm } => {
            (1 << 20 | u64::from(sm), 100, format!("SM {sm}"), "copies of the TMA".to_owned())
        }
        Track::TensorCore { sm, partition } => (
            1 << 20 | u64::from(sm),
            partition.into(),
            format!("SM {sm}"),
            format!("tensor core {partition}"),
        ),
    }
}

/// The events of all launches, one after another, in microseconds.
fn events(predictions: &[Prediction]) -> Vec<Value> {
    let mut events = Vec::new();
    let mut lanes = BTreeSet::new();
    let mut start = 0.0;
    for prediction in predictions {
        let at = |cycles: u64| start + cycles as f64 / prediction.clock_mhz;
        for (index, slice) in prediction.timeline.iter().enumerate() {
            let (process, thread, process_name, thread_name) = lane(slice.track);
            let instruction = &prediction.instructions[slice.instruction as usize];
            let place = match &instruction.source {
                Some(source) => sources::place(Some(&source.file), source.line),
                None => sources::place(None, instruction.ptx_line),
            };
            lanes.insert((process, thread, process_name, thread_name));
            let arguments =
                json!({"instruction": instruction.text, "place": place, "stall": slice.stall.name()});
            let (first, end) = (at(slice.cycles.0), at(slice.cycles.1));
            if let Track::Copies { .. } = slice.track {
                // Copies overlap: each is an asynchronous slice.
                for (phase, time) in [("b", first), ("e", end)] {
                    events.push(json!({
                        "name": place, "cat": "copy", "ph": phase, "id": index, "ts": time,
                        "pid": process, "tid": thread, "args": arguments,
                    }));
                }
                continue;
            }
            let name = if slice.stall == Stall::Selected { place } else { slice.stall.name().to_owned() };
            events.push(json!({
                "name": name, "cat": "issue", "ph": "X", "ts": first, "dur": end - first,
                "pid": process, "tid": thread, "args": arguments,
            }));
        }
        start += prediction.microseconds;
    }
    for (process, thread, process_name, thread_name) in lanes {
        for (what, name) in [("process_name", process_name), ("thread_name", thread_name)] {
            events.push(
                json!({"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}),
            );
        }
    }
    events
}

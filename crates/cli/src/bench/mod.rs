//! `warpwright bench`: times a kernel, or the emulator.

mod all_reduce;
mod emulator;
mod launch;
pub(crate) mod list;
pub(crate) mod timing;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use serde_json::{Value, json};
use warpwright_harness::{Prepared, Work};
use warpwright_runtime::Device;

use crate::conditions::{Conditions, Setting, predicted_product, predicted_times};
use crate::kernel::{self, KernelChoice};
use crate::number;
use crate::output::Output;
use crate::target::DeviceOptions;
use timing::{Batches, Timing};

/// Time a kernel, a list of kernels, launches, or the emulator.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    device: DeviceOptions,
    /// Time a baseline, alternating with the kernel: `cublas`, or `copy`, a driver copy of the same
    /// size.
    #[arg(long, global = true, value_name = "BASELINE")]
    vs: Option<String>,
    /// Number of timed batches, whose median is reported.
    #[arg(long, global = true, default_value_t = 21, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(1..=u64::from(u32::MAX)))]
    batches: u32,
    /// Idle time before each batch in milliseconds, so that the power limit does not lower the
    /// clock.
    #[arg(long, global = true, default_value_t = 0, value_name = "MS", allow_negative_numbers = true, value_parser = number::integer::<u64>(0..=60_000))]
    rest: u64,
    /// Time the launches of each batch as one CUDA graph, without the host's time for each.
    #[arg(long, global = true)]
    graph: bool,
    /// Do not verify the results: references of large problems are slow.
    #[arg(long, global = true)]
    unchecked: bool,
    /// Print the candidates of the heuristic, the one it chooses, and why.
    #[arg(long, global = true)]
    explain: bool,
    #[command(subcommand)]
    what: What,
}

/// What is timed.
#[derive(Clone, Debug)]
enum What {
    AllReduce(all_reduce::AllReduceBench),
    Emulator(emulator::EmulatorBench),
    Launch,
    List(PathBuf),
    Kernel(KernelChoice),
}

impl FromArgMatches for What {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand_name() {
            Some("all-reduce") => {
                let matches = matches.subcommand_matches("all-reduce").expect("it is the subcommand");
                all_reduce::AllReduceBench::from_arg_matches(matches).map(Self::AllReduce)
            }
            Some("emulator") => {
                let matches = matches.subcommand_matches("emulator").expect("it is the subcommand");
                emulator::EmulatorBench::from_arg_matches(matches).map(Self::Emulator)
            }
            Some("launch") => Ok(Self::Launch),
            Some("list") => {
                let matches = matches.subcommand_matches("list").expect("it is the subcommand");
                let file = matches.get_one::<PathBuf>("FILE").expect("it is required");
                Ok(Self::List(file.clone()))
            }
            _ => KernelChoice::from_arg_matches(matches).map(Self::Kernel),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for What {
    fn augment_subcommands(command: Command) -> Command {
        let all_reduce = all_reduce::AllReduceBench::augment_args(Command::new("all-reduce"))
            .about("Time an all-reduce on several GPUs of this host");
        let emulator = emulator::EmulatorBench::augment_args(Command::new("emulator"))
            .about("Time the emulator on this machine");
        let launch =
            Command::new("launch").about("Time the host: the first use of a kernel, and each launch");
        let file = Arg::new("FILE").required(true).value_parser(clap::value_parser!(PathBuf));
        let list = Command::new("list")
            .about("Time each line of a file, a kernel and its options, and print the mean ratio to the baseline")
            .arg(file.help("File with a kernel and its options on each line; # begins a comment"));
        let command = KernelChoice::augment_subcommands(command).subcommand(all_reduce);
        command.subcommand(emulator).subcommand(launch).subcommand(list)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        ["all-reduce", "emulator", "launch", "list"].contains(&name) || KernelChoice::has_subcommand(name)
    }
}

/// A kernel's timing, with the name it is shown by.
struct Timed {
    name: String,
    timing: Timing,
}

/// The timing of a kernel, and of its baseline if one is given.
struct Measured {
    choice: KernelChoice,
    explanation: Option<String>,
    work: Work,
    timed: Vec<Timed>,
    /// Clocks and power while it was timed.
    conditions: Conditions,
    /// Whether the results were verified.
    is_checked: bool,
}

impl Bench {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        match &self.what {
            What::AllReduce(options) => all_reduce::run(options, self.device.name(), self.batches, output),
            What::Emulator(options) => emulator::run(options, output),
            What::Launch => launch::run(&self.device.open()?, output),
            What::List(file) => list::run(self, file, output),
            What::Kernel(choice) => {
                let device = self.device.open_timed()?;
                let setting = Setting::of(&device, self.vs.as_deref());
                let measured = self.measure(choice, &device, output)?;
                output.json(|| {
                    let mut record = measured.as_json(&device);
                    record["run"] = setting.as_json();
                    record
                });
                output.text(|| measured.as_text(&device, &setting));
                Ok(())
            }
        }
    }

    /// Times a kernel in turns with its baseline, and verifies both.
    fn measure(&self, choice: &KernelChoice, device: &Device, output: Output) -> Result<Measured> {
        let explanation = choice.explanation(self.explain, device)?;
        let failed = || format!("{choice:?} on {}", device.name());
        let progress = output.progress(&format!("{} on {}", choice.name(), device.name()));
        let stream = device.stream()?;
        progress.step("preparing");
        let mut prepared = vec![(choice.name(), choice.prepare(device).with_context(failed)?)];
        let work = choice.workload.work();
        if let Some(baseline) = &self.vs {
            prepared.push((baseline, choice.baseline(baseline, device).with_context(failed)?));
        }
        progress.step("timing");
        let mut kernels: Vec<&mut dyn Prepared> = Vec::new();
        for (_, prepared) in &mut prepared {
            kernels.push(prepared.as_mut());
        }
        let rest = Duration::from_millis(self.rest);
        let batches = Batches { count: self.batches as usize, rest, as_graph: self.graph };
        let timings = timing::time(&mut kernels, device, &stream, batches)?;
        let mut timed = Vec::new();
        for ((name, prepared), timing) in prepared.iter_mut().zip(timings.kernels) {
            if !self.unchecked {
                progress.step(format!("checking {name}"));
                kernel::verify(prepared.as_mut()).with_context(|| format!("{name}: {}", failed()))?;
            }
            timed.push(Timed { name: (*name).to_owned(), timing });
        }
        Ok(Measured {
            choice: choice.clone(),
            explanation,
            work,
            timed,
            conditions: timings.conditions,
            is_checked: !self.unchecked,
        })
    }
}

impl Measured {
    /// The baseline's time over the kernel's.
    fn ratio(&self) -> Option<f64> {
        match self.timed.as_slice() {
            [ours, theirs] => Some(theirs.timing.median() / ours.timing.median()),
            _ => None,
        }
    }

    fn as_json(&self, device: &Device) -> Value {
        json!({
            "status": "ok",
            "explanation": self.explanation,
            "kernel": self.choice.name(),
            "options": self.choice.flags(),
            "device": device.name(),
            "product": predicted_product(device),
            "is_emulated": device.properties().is_emulated,
            "checked": self.is_checked,
            "operations": self.work.operations,
            "bytes": self.work.bytes,
            "conditions": self.conditions.as_json(),
            "timings": self.timed.iter().map(|timed| as_json(timed, &self.work)).collect::<Vec<_>>(),
        })
    }

    fn as_text(&self, device: &Device, setting: &Setting) -> String {
        let on = format!("{} ({})", device.name(), predicted_product(device));
        let mut lines = self.explanation.iter().cloned().collect::<Vec<_>>();
        lines.push(format!("{:?} on {on}", self.choice));
        lines.extend(self.timed.iter().map(|timed| as_text(timed, &self.work)));
        if let (Some(ratio), [ours, theirs]) = (self.ratio(), self.timed.as_slice()) {
            lines.push(format!("{} is {ratio:.3} times as fast as {}", ours.name, theirs.name));
        }
        lines.extend(predicted_times(device));
        if let Some(conditions) = self.conditions.as_text() {
            lines.push(format!("{}; {conditions}", setting.as_text()));
        }
        lines.join("\n")
    }
}

fn as_json(Timed { name, timing }: &Timed, work: &Work) -> Value {
    json!({
        "name": name,
        "median_seconds": timing.median(),
        "best_seconds": timing.best(),
        "worst_seconds": timing.worst(),
        "launches_per_batch": timing.launches,
        "operations_per_second": timing.operations_per_second(work),
        "bytes_per_second": timing.bytes_per_second(work),
    })
}

fn as_text(Timed { name, timing }: &Timed, work: &Work) -> String {
    format!(
        "{name:<12} {:>12.3} us (best {:.3}, worst {:.3}) {:>9.2} TFLOP/s {:>9.1} GB/s",
        timing.median() * 1e6,
        timing.best() * 1e6,
        timing.worst() * 1e6,
        timing.operations_per_second(work) / 1e12,
        timing.bytes_per_second(work) / 1e9,
    )
}

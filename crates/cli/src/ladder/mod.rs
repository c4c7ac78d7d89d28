//! `warpwright ladder`: the steps on the way to a kernel's fastest form, as one table and one chart.
//!
//! Each step is timed on the device in turns with the rival, and its result checked; instructions are counted on the emulator,
//! in a launch small enough for it. An emulated device has no times.

mod chart;
mod page;

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use warpwright_emulator::Counts;
use warpwright_kernels::registry::{
    self, Ladder as Steps, LibraryKernel, Measure, Options, Prepared, Resources, Work,
};
use warpwright_runtime::{Device, Stream};

use crate::bench::timing::{self, Timing};
use crate::conditions::{Conditions, Setting};
use crate::kernel::KernelChoice;
use crate::output::Output;
use crate::target::DeviceOptions;
pub(crate) use page::Chapter;

/// Where instructions are counted.
const COUNTED_ON: &str = "emu:h200";

/// Times the steps on the way to a kernel's fastest form, and prints them as one table.
#[derive(Debug, Args)]
pub(crate) struct Ladder {
    #[command(flatten)]
    device: DeviceOptions,
    /// How many batches of each step to time; their median counts.
    #[arg(long, global = true, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batches: u32,
    /// Draw the steps as a chart into this file.
    #[arg(long, global = true, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(subcommand)]
    choice: KernelChoice,
}

/// What is known of a step.
struct Rung {
    step: &'static str,
    work: Work,
    /// Its time and the rival's in the same minute; none where the device is emulated.
    times: Option<Times>,
    resources: Option<Resources>,
    /// What one launch of the small size did.
    counts: Counts,
    counted_work: Work,
}

struct Times {
    ours: Timing,
    theirs: Option<Timing>,
    /// What the device ran at meanwhile.
    conditions: Conditions,
}

impl Rung {
    fn part_of_rival(&self) -> Option<f64> {
        let Times { ours, theirs, .. } = self.times.as_ref()?;
        Some(theirs.as_ref()?.median() / ours.median())
    }

    /// Operations or bytes a second, in units of 10^12.
    fn speed(&self, measure: Measure) -> Option<f64> {
        let Times { ours, .. } = self.times.as_ref()?;
        let speed = match measure {
            Measure::Operations => ours.operations_per_second(&self.work),
            Measure::Bytes => ours.bytes_per_second(&self.work),
        };
        Some(speed / 1e12)
    }
}

impl Ladder {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let KernelChoice { kernel, options } = &self.choice;
        let ladder =
            kernel.ladder().ok_or_else(|| anyhow!("{} has no ladder; {}", kernel.name(), with_ladders()))?;
        let device = self.device.open()?;
        let stream = device.stream()?;
        let setting = Setting::of(&device, ladder.rival);
        let progress = output.progress(&format!("{} on {}", kernel.name(), device.name()));
        let mut rungs = Vec::new();
        for step in ladder.steps {
            progress.step(*step);
            let mut options = options.clone();
            options.set(ladder.option, step)?;
            let failed =
                |error: anyhow::Error| anyhow!("{} {options} on {}: {error:#}", kernel.name(), device.name());
            rungs.push(self.rung(*kernel, &ladder, step, &options, &device, &stream).map_err(failed)?);
        }
        drop(progress);
        let emulated = if device.properties().is_emulated { ", emulated: not timed" } else { "" };
        let product = &device.properties().product;
        let title = format!("{} {} on {product}{emulated}", kernel.name(), shape(options, &ladder));
        let record = json!({
            "status": "ok",
            "run": setting.as_json(),
            "kernel": kernel.name(),
            "options": shape(options, &ladder),
            "device": device.name(),
            "product": device.properties().product,
            "rival": ladder.rival,
            "counted_on": COUNTED_ON,
            "counted_with": ladder.counted.iter().map(|(name, value)| format!("--{name} {value}")).collect::<Vec<_>>().join(" "),
            "steps": rungs.iter().map(as_json).collect::<Vec<_>>(),
        });
        if let Some(file) = &self.svg {
            std::fs::write(file, chart::of_record(&record)?)
                .with_context(|| format!("{} cannot be written", file.display()))?;
        }
        output.json(|| record);
        output.text(|| {
            let mut conditions = rungs.iter().filter_map(|rung| rung.times.as_ref()?.conditions.as_text());
            let last = conditions
                .next_back()
                .map_or(String::new(), |last| format!("\n{}; {last}", setting.as_text()));
            as_text(&title, &ladder, &rungs) + &last
        });
        Ok(())
    }

    fn rung(
        &self,
        kernel: &dyn LibraryKernel,
        ladder: &Steps,
        step: &'static str,
        options: &Options,
        device: &Device,
        stream: &Stream,
    ) -> Result<Rung> {
        let mut small = options.clone();
        for (name, value) in ladder.counted {
            small.set(name, value)?;
        }
        let emulator = Device::named(COUNTED_ON)?.counted()?;
        let mut counted = kernel.prepare(&emulator, &small).map_err(anyhow::Error::from_boxed)?;
        // What was launched to prepare is no part of the step.
        emulator.take_counters();
        counted.launch(&emulator.stream()?).map_err(anyhow::Error::from_boxed)?;
        let mut counts = Counts::default();
        emulator.take_counters().iter().for_each(|launch| counts += launch.total().counts);
        counted.verify().map_err(anyhow::Error::from_boxed)?;
        let (counted_work, resources) = (counted.work(), counted.resources());
        if device.properties().is_emulated {
            let work = counted_work;
            return Ok(Rung { step, work, times: None, resources, counts, counted_work });
        }
        let mut ours = kernel.prepare(device, options).map_err(anyhow::Error::from_boxed)?;
        let rival = ladder.rival.and_then(|rival| kernel.rival(rival, device, options));
        let mut theirs = rival.transpose().map_err(anyhow::Error::from_boxed)?;
        let mut kernels: Vec<&mut dyn Prepared> = vec![ours.as_mut()];
        if let Some(theirs) = &mut theirs {
            kernels.push(theirs.as_mut());
        }
        let timings = timing::time(&mut kernels, device, stream, self.batches as usize)?;
        ours.verify().map_err(anyhow::Error::from_boxed)?;
        let (conditions, mut timings) = (timings.conditions, timings.kernels.into_iter());
        let times = timings.next().map(|ours| Times { ours, theirs: timings.next(), conditions });
        let (work, resources) = (ours.work(), ours.resources());
        Ok(Rung { step, work, times, resources, counts, counted_work })
    }
}

/// The options but for the one that chooses the step.
fn shape(options: &Options, ladder: &Steps) -> String {
    options.without(ladder.option)
}

fn with_ladders() -> String {
    let names: Vec<_> = registry::all()
        .iter()
        .filter(|kernel| kernel.ladder().is_some())
        .map(|kernel| kernel.name())
        .collect();
    format!("these have one: {}", names.join(", "))
}

fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Operations => "TFLOP/s",
        Measure::Bytes => "TB/s",
    }
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
        "registers_per_thread": rung.resources.and_then(|resources| resources.registers_per_thread),
        "local_bytes": rung.resources.map(|resources| resources.local_bytes),
        "threads_per_cta": rung.resources.map(|resources| resources.threads_per_cta),
        "shared_bytes": rung.resources.map(|resources| resources.shared_bytes),
        "occupancy": rung.resources.map(|resources| resources.occupancy()),
        "counted": {
            "operations": rung.counted_work.operations,
            "warp_instructions": rung.counts.executions,
            "global_requests": rung.counts.global.requests,
            "global_sectors": rung.counts.global.sectors,
            "excess_sectors": rung.counts.global.excess(),
            "copied_sectors": rung.counts.copies.sectors,
            "shared_requests": rung.counts.shared.requests,
            "shared_wavefronts": rung.counts.shared.wavefronts,
            "bank_conflicts": rung.counts.shared.conflicts(),
        },
    })
}

fn as_text(title: &str, ladder: &Steps, rungs: &[Rung]) -> String {
    let versus = ladder.rival.map_or(String::new(), |rival| format!("of {rival}"));
    let mut lines = vec![
        title.to_owned(),
        format!(
            "{:<16} {:>10} {:>8} {:>10} {:>9} {:>7} {:>7} {:>8} {:>12} {:>8} {:>8} {:>10} {:>9}",
            "step",
            "us",
            unit(ladder.measure),
            versus,
            "registers",
            "shared",
            "threads",
            "warps",
            "instructions",
            "sectors",
            "excess",
            "wavefronts",
            "conflicts"
        ),
    ];
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let percent =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 100.0));
    let whole = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    for rung in rungs {
        let resources = rung.resources;
        lines.push(format!(
            "{:<16} {:>10} {:>8} {:>10} {:>9} {:>7} {:>7} {:>8} {:>12} {:>8} {:>8} {:>10} {:>9}",
            rung.step,
            number(rung.times.as_ref().map(|times| times.ours.median() * 1e6), 1),
            number(rung.speed(ladder.measure), 2),
            percent(rung.part_of_rival()),
            whole(resources.and_then(|resources| resources.registers_per_thread)),
            whole(resources.map(|resources| resources.shared_bytes)),
            whole(resources.map(|resources| resources.threads_per_cta)),
            percent(
                resources
                    .filter(|resources| resources.registers_per_thread.is_some())
                    .map(|resources| resources.occupancy())
            ),
            rung.counts.executions,
            rung.counts.global.sectors + rung.counts.copies.sectors,
            rung.counts.global.excess(),
            rung.counts.shared.wavefronts,
            rung.counts.shared.conflicts(),
        ));
    }
    let counted: Vec<_> = ladder.counted.iter().map(|(name, value)| format!("--{name} {value}")).collect();
    lines.push(format!(
        "instructions of warps, sectors of global memory and those that no byte needed, passes of shared memory and those that bank conflicts cost: counted on \
         {COUNTED_ON} with {}",
        counted.join(" ")
    ));
    lines.join("\n")
}

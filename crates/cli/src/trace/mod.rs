//! `warpwright trace`: what happens when in some CTAs, as a picture, a page, or a trace for Perfetto.

mod chart;
mod lanes;
mod page;
mod perfetto;
mod svg;

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use warpwright_runtime::{Device, Prediction, TimedInstruction, Track};

use crate::kernel::KernelChoice;
use crate::number;
use crate::output::Output;
use crate::sources;
use crate::subject::{self, Subject};
use crate::target::LimitOption;

/// Show what each warp of some CTAs does when, by the model of time: as a picture, as a page in which one moves and
/// zooms, or as a trace for Perfetto.
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
    /// Warps of each CTA that the picture and the page show, such as `0..4` [default: all].
    #[arg(long, global = true, value_name = "FROM..TO", value_parser = number::range)]
    warps: Option<Range<u64>>,
    /// Cycles that the picture and the page show, such as `2000..4000` [default: all].
    #[arg(long, global = true, value_name = "FROM..TO", value_parser = number::range)]
    cycles: Option<Range<u64>>,
    /// Launch that the picture and the page show, from 1 on [default: the longest].
    #[arg(long = "launch", global = true, value_name = "N", value_parser = number::integer::<u32>(1..=1 << 20))]
    number: Option<u32>,
    /// Print which lanes of each warp execute which line.
    #[arg(long, global = true)]
    lanes: bool,
    /// File for a picture.
    #[arg(long, global = true, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// File for a page, which a browser shows without a network.
    #[arg(long, global = true, value_name = "FILE")]
    html: Option<PathBuf>,
    /// File for a trace of all launches in the JSON format of Chrome and Perfetto (ui.perfetto.dev) [default: trace.json, unless
    /// something else is asked for].
    #[arg(long, global = true, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    #[command(flatten)]
    limit: LimitOption,
    #[command(subcommand)]
    choice: Option<KernelChoice>,
}

impl Trace {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let subject = Subject::named(self.choice.as_ref(), self.launch.as_deref())?;
        let name = subject.name();
        let perfetto = match (&self.perfetto, &self.svg, &self.html) {
            (None, None, None) if !self.lanes => Some(PathBuf::from("trace.json")),
            (perfetto, ..) => perfetto.clone(),
        };
        let inputs =
            self.launch.iter().map(|path| ("the launch file".to_owned(), path.clone())).collect::<Vec<_>>();
        let outputs = [("--perfetto", &perfetto), ("--svg", &self.svg), ("--html", &self.html)];
        let outputs = outputs.into_iter().filter_map(|(what, path)| Some((what.to_owned(), path.clone()?)));
        let outputs: Vec<_> = outputs.collect();
        crate::file::expect_kept(&outputs, &inputs)?;
        let progress = output.progress(&name).announced();
        progress.step("tracing");
        let emulator = subject::emulator(self.device.as_deref(), self.launch.as_deref())?;
        let device = Device::named(&emulator)?.traced(self.ctas)?;
        let predictions = subject.observe(device, &self.limit).with_context(|| name.clone())?.predictions;
        if let Some(path) = &perfetto {
            crate::file::write(path, perfetto::trace(&predictions).to_string())?;
        }
        let mut steps = (Vec::new(), String::new());
        if self.svg.is_some() || self.html.is_some() || self.lanes {
            let (number, prediction) = self.shown(&predictions)?;
            let (cycles, warps) = (self.shown_cycles(prediction)?, self.warps.as_ref());
            let rows = chart::rows(prediction, &cycles, warps);
            if let Some(warps) = warps
                && !rows.iter().any(chart::Row::is_of_warp)
            {
                bail!("the CTAs that are shown have no warp {}: choose others with --warps", warps.start);
            }
            let title = format!("{name} on {emulator}, predicted");
            let of = match predictions.len() {
                1 => String::new(),
                launches => format!(", launch {number} of {launches}"),
            };
            let subtitle = format!(
                "{}{of}: cycles {} to {} of {}",
                prediction.kernel, cycles.start, cycles.end, prediction.cycles
            );
            if let Some(path) = &self.svg {
                crate::file::write(path, svg::svg(&title, &subtitle, &rows, &cycles))?;
            }
            if let Some(path) = &self.html {
                crate::file::write(path, page::page(&title, &subtitle, prediction, &rows, &cycles))?;
            }
            if self.lanes {
                let text = lanes::text(prediction, &cycles, warps, &mut sources::files());
                steps = (lanes::as_json(prediction, &cycles, warps), text);
            }
        }
        drop(progress);
        let slices: usize = predictions.iter().map(|prediction| prediction.timeline.len()).sum();
        let files: Vec<String> = outputs.iter().map(|(_, path)| path.display().to_string()).collect();
        output.json(|| {
            json!({
                "status": "ok",
                "traced": name,
                "device": emulator,
                "files": files,
                "launches": predictions.len(),
                "slices": slices,
                "lanes": steps.0,
            })
        });
        output.text(|| {
            let launches = predictions.len();
            let s = if launches == 1 { "" } else { "es" };
            let mut text =
                format!("{name} on {emulator}, predicted: {slices} slices of {launches} launch{s}");
            if !files.is_empty() {
                text += &format!(", in {}", files.join(", "));
            }
            if perfetto.is_some() {
                text += "; ui.perfetto.dev opens the trace";
            }
            (text + "\n" + &steps.1).trim_end().to_owned()
        });
        Ok(())
    }

    /// The launch that a picture shows, and its number from 1 on.
    fn shown<'a>(&self, predictions: &'a [Prediction]) -> Result<(usize, &'a Prediction)> {
        let longest = predictions
            .iter()
            .enumerate()
            .max_by_key(|(index, prediction)| (prediction.cycles, usize::MAX - index));
        let index = match self.number {
            Some(number) => number as usize - 1,
            None => longest.map_or(0, |(index, _)| index),
        };
        let count = predictions.len();
        let prediction = predictions
            .get(index)
            .with_context(|| format!("there are {count} launches: --launch names another"))?;
        Ok((index + 1, prediction))
    }

    /// The cycles that a picture shows: as many as the shown CTAs take, unless the user says others.
    fn shown_cycles(&self, prediction: &Prediction) -> Result<Range<u64>> {
        let end = prediction.timeline.iter().map(|slice| slice.cycles.1).max().unwrap_or(1);
        let cycles = self.cycles.clone().unwrap_or(0..end);
        if cycles.start >= end {
            bail!(
                "the CTAs that are shown end at cycle {end}, before cycle {}: choose others with --cycles",
                cycles.start
            );
        }
        Ok(cycles.start..cycles.end.min(end))
    }
}

/// The names of a track's CTA or SM, and of the track.
fn names(track: Track) -> (String, String) {
    match track {
        Track::Warp { cta, warp } => (format!("CTA {cta}"), format!("warp {warp}")),
        Track::Copies { sm } => (format!("SM {sm}"), "copies of the TMA".to_owned()),
        Track::TensorCore { sm, partition } => (format!("SM {sm}"), format!("tensor core {partition}")),
    }
}

/// The author's line of an instruction, or the line of its PTX.
fn place(instruction: &TimedInstruction) -> String {
    match &instruction.source {
        Some(source) => sources::place(Some(&source.file), source.line),
        None => sources::place(None, instruction.ptx_line),
    }
}

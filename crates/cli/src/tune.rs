//! `warpwright tune`: searches for the fastest configuration of a kernel, and keeps it.
//!
//! All candidates are timed in turns, in one process. The fastest few are timed again, longer; then
//! those around the fastest one; then its result is checked, and it is kept.

use anyhow::{Context, Error, Result, bail};
use clap::Args;
use serde_json::json;
use warpwright_harness::{Candidate, Prepared};
use warpwright_runtime::{Device, Stream};

use crate::bench::timing;
use crate::conditions::{predicted_product, predicted_times};
use crate::interrupt;
use crate::kernel::{self, KernelChoice};
use crate::number;
use crate::output::{Output, Progress};
use crate::target::DeviceOptions;

/// Batches of the first round, in which all candidates are timed.
const FIRST_BATCHES: usize = 2;

/// Candidates of the second round.
const FINALISTS: usize = 5;

/// Search for the fastest configuration of a kernel, and cache it for later runs.
#[derive(Debug, Args)]
pub(crate) struct Tune {
    #[command(flatten)]
    device: DeviceOptions,
    /// Number of candidates in the first round.
    #[arg(long, global = true, default_value_t = 24, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(1..=u64::from(u32::MAX)))]
    candidates: u32,
    /// Number of timed batches of each finalist, whose median is compared.
    #[arg(long, global = true, default_value_t = 11, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(1..=u64::from(u32::MAX)))]
    batches: u32,
    #[command(subcommand)]
    choice: KernelChoice,
}

/// A candidate, its number, and its median time.
struct Timed {
    index: usize,
    candidate: Candidate,
    seconds: f64,
}

impl Tune {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let choice = &self.choice;
        let device = self.device.open_timed()?;
        let failed = |error| Error::from_boxed(error).context(format!("{choice:?} on {}", device.name()));
        let Some(search) = choice.workload.search(&choice.setup(&device)) else {
            bail!("{} has a single configuration, which needs no search", choice.name());
        };
        let mut search = search.map_err(failed)?;
        interrupt::end_in_order();
        let stream = device.stream()?;
        let progress = output.progress(&format!("{} on {}", choice.name(), device.name()));
        let emulated = device.properties().is_emulated;
        let batches = if emulated { 1 } else { self.batches as usize };

        let first = search.first(self.candidates as usize);
        let mut all = numbered(first, 0);
        let tried = all.len();
        time(&mut all, &device, &stream, FIRST_BATCHES.min(batches), &progress)?;
        let mut others = all.split_off(FINALISTS.min(all.len()));
        let Some(fastest) = all.first() else { bail!("{} has no candidates", choice.name()) };
        if !interrupt::is_requested() {
            all.extend(numbered(search.around(fastest.index), tried));
            time(&mut all, &device, &stream, batches, &progress)?;
        }
        let mut file = None;
        // Ctrl-C leaves what was timed so far, of which nothing is checked or kept.
        let is_interrupted = interrupt::is_requested();
        if is_interrupted {
            all.retain(|timed| timed.seconds.is_finite());
            others.retain(|timed| timed.seconds.is_finite());
        } else {
            progress.step("checking");
            let winner = &mut all[0];
            // The others have written the same result since.
            winner.candidate.prepared.launch(&stream).map_err(failed)?;
            let verified = kernel::verify(winner.candidate.prepared.as_mut());
            verified.with_context(|| format!("{choice:?} on {}", device.name()))?;
            let (index, seconds) = (winner.index, winner.seconds);
            // Only what was measured is kept.
            file = if emulated { None } else { search.keep(index, seconds).map_err(failed)? };
        }
        let work = choice.workload.work();
        drop(progress);

        let speed = |timed: &Timed| work.operations / timed.seconds / 1e12;
        let entry = |timed: &Timed| json!({"candidate": timed.candidate.name, "seconds": timed.seconds, "operations_per_second": speed(timed) * 1e12});
        output.json(|| {
            json!({
                "status": if is_interrupted { "interrupted" } else { "ok" },
                "kernel": choice.name(),
                "options": choice.flags(),
                "device": device.name(),
                "product": predicted_product(&device),
                "is_emulated": emulated,
                "kept_in": file.as_ref().map(|file| file.display().to_string()),
                "finalists": all.iter().map(entry).collect::<Vec<_>>(),
                "others": others.iter().map(entry).collect::<Vec<_>>(),
            })
        });
        output.text(|| {
            let mut lines = vec![format!("{choice:?} on {}", predicted_product(&device))];
            let line = |timed: &Timed| {
                format!(
                    "{:>10.1} us {:>8.1} TFLOP/s  {}",
                    timed.seconds * 1e6,
                    speed(timed),
                    timed.candidate.name
                )
            };
            lines.extend(all.iter().map(line));
            lines.push(format!("the first round's others, {} batches each:", FIRST_BATCHES.min(batches)));
            lines.extend(others.iter().map(line));
            lines.push(match &file {
                _ if is_interrupted => {
                    format!("interrupted: {} candidates are timed, none is kept", all.len() + others.len())
                }
                Some(file) => format!("kept in {}: {}", file.display(), all[0].candidate.name),
                None if emulated => {
                    format!("{} Nothing is kept.", predicted_times(&device).unwrap_or_default())
                }
                None => format!("not kept: pass the fastest as flags: {}", all[0].candidate.name),
            });
            lines.join("\n")
        });
        Ok(())
    }
}

fn numbered(candidates: Vec<Candidate>, from: usize) -> Vec<Timed> {
    let number = |(index, candidate)| Timed { index: from + index, candidate, seconds: f64::INFINITY };
    candidates.into_iter().enumerate().map(number).collect()
}

/// Times candidates in turns, and puts the fastest first. A prediction does not vary, so none is made twice.
fn time(
    all: &mut [Timed],
    device: &Device,
    stream: &Stream,
    batches: usize,
    progress: &Progress,
) -> Result<()> {
    let is_emulated = device.properties().is_emulated;
    let mut timed: Vec<_> =
        all.iter_mut().filter(|timed| !is_emulated || timed.seconds.is_infinite()).collect();
    progress.step(format!("timing {} candidates", timed.len()));
    let mut kernels: Vec<&mut dyn Prepared> = Vec::new();
    for timed in &mut timed {
        kernels.push(timed.candidate.prepared.as_mut());
    }
    let timings = timing::time(&mut kernels, device, stream, batches)?;
    for (timed, timing) in timed.into_iter().zip(timings.kernels) {
        timed.seconds = timing.median();
    }
    all.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    Ok(())
}

//! `warpwright check`: runs a kernel with every checker on.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use warpwright_ptx::{IgnoredGuard, ignored_guards, parse};
use warpwright_runtime::{Device, Error, Finding, Schedule, codes, explain};

use crate::exec;
use crate::findings::{Findings, schedule, shown};
use crate::interrupt;
use crate::kernel::KernelChoice;
use crate::number;
use crate::output::{Output, Status};
use crate::subject::{self, Subject};
use crate::suggestion::did_you_mean;
use crate::target::LimitOption;

/// Run a kernel on the emulator with every checker on, at several schedules.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Check {
    /// Launch file, as for `exec`, instead of a kernel.
    launch: Option<PathBuf>,
    /// Emulated GPU [default: emu:h200, or a GPU that runs the launch file's PTX].
    #[arg(long, global = true, value_name = "DEVICE")]
    device: Option<String>,
    /// Check one schedule only: `eager`, `latest`, or `random:SEED`.
    #[arg(long, global = true, value_name = "SCHEDULE", value_parser = schedule)]
    schedule: Option<Schedule>,
    /// Number of random schedules besides `eager` and `latest`.
    #[arg(long, global = true, default_value_t = 4, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u64>(0..=1_000_000))]
    seeds: u64,
    #[command(flatten)]
    limit: LimitOption,
    /// Explain the code of a finding, and run nothing.
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    #[command(subcommand)]
    choice: Option<KernelChoice>,
}

impl Check {
    /// Runs it.
    pub(crate) fn run(&self, output: Output) -> Result<Status> {
        if let Some(code) = &self.explain {
            let page = explain(code).ok_or_else(|| unknown_code(code))?;
            output.json(|| json!({"status": "ok", "code": code, "page": page}));
            output.text(|| page.to_owned());
            return Ok(Status::Done);
        }
        let name = Subject::named(self.choice.as_ref(), self.launch.as_deref())?.name();
        let device = subject::emulator(self.device.as_deref(), self.launch.as_deref())?;
        let progress = output.progress(&name).announced();
        let mut found = Findings::default();
        interrupt::end_in_order();
        for schedule in self.schedules() {
            if interrupt::is_requested() {
                break;
            }
            progress.step(shown(schedule));
            found.add(schedule, self.findings(&device, schedule)?);
        }
        drop(progress);
        let remarks = self.launch.as_ref().map_or_else(Vec::new, |launch| remarks(launch));
        output.json(|| as_json(&name, &found, &remarks));
        output.text(|| as_text(&name, &found, &remarks));
        Ok(if found.is_empty() { Status::Done } else { Status::Found })
    }

    fn schedules(&self) -> Vec<Schedule> {
        match self.schedule {
            Some(schedule) => vec![schedule],
            None => [Schedule::Eager, Schedule::Latest]
                .into_iter()
                .chain((1..=self.seeds).map(Schedule::Random))
                .collect(),
        }
    }

    /// What is found at a schedule.
    fn findings(&self, name: &str, schedule: Schedule) -> Result<Vec<Finding>> {
        let device = self.limit.apply(Device::with_schedule(name, schedule)?.checked()?)?;
        let outcome = match (&self.choice, &self.launch) {
            (Some(choice), _) => {
                let stream = device.stream()?;
                let ran = choice
                    .prepare(&device)
                    .and_then(|mut prepared| prepared.launch(&stream).map_err(anyhow::Error::from_boxed));
                ran.map(|_| ())
            }
            (None, Some(launch)) => exec::check(launch, &device),
            (None, None) => Ok(()),
        };
        match outcome {
            Ok(()) => Ok(Vec::new()),
            Err(error) => findings_of(&error).ok_or(error).context(name.to_owned()),
        }
    }
}

/// What a GPU does otherwise than the emulator in the PTX of a launch file, which is no finding: the
/// driver's assembler is at fault.
fn remarks(launch: &Path) -> Vec<IgnoredGuard> {
    let texts = exec::ptx(launch).unwrap_or_default();
    texts.iter().filter_map(|text| parse(text).ok()).flat_map(|module| ignored_guards(&module)).collect()
}

fn remark_text(remark: &IgnoredGuard) -> String {
    let IgnoredGuard { function, line, text } = remark;
    format!(
        "remark: the driver's assembler ignores the guard of `{text}` (line {line}, in `{function}`): on a GPU \
         the destination changes even where the guard is false; branch around the instruction, or select its \
         result with `selp`"
    )
}

/// What an error says the checkers found, and what stopped the kernel.
fn findings_of(error: &anyhow::Error) -> Option<Vec<Finding>> {
    let findings = error.chain().find_map(|cause| Some(cause.downcast_ref::<Error>()?.findings()));
    findings.filter(|findings| !findings.is_empty())
}

fn unknown_code(code: &str) -> anyhow::Error {
    let known = codes().collect::<Vec<_>>().join(", ");
    match did_you_mean(code, codes()).as_str() {
        "" => anyhow!("unknown code `{code}`; expected one of {known}"),
        guess => anyhow!("unknown code `{code}`{guess} The codes are {known}"),
    }
}

fn as_text(name: &str, found: &Findings, remarks: &[IgnoredGuard]) -> String {
    let remarks = remarks.iter().map(remark_text);
    if found.is_empty() {
        let run = found.schedules().join(", ");
        let interrupted = if interrupt::is_requested() { ", before it was interrupted" } else { "" };
        let summary = format!("{name}: nothing found at the schedules {run}{interrupted}");
        return remarks.chain([summary]).collect::<Vec<_>>().join("\n\n");
    }
    let all = found.schedules().len();
    let mut parts = found.texts(std::io::stdout().is_terminal(), |finding, schedules| {
        let when = match schedules.len() == all {
            true => "at every schedule".to_owned(),
            false => format!("at {} of {all} schedules", schedules.len()),
        };
        Some(format!(
            "found {when}; `--schedule {}` shows it, `--explain {}` says more",
            shown(schedules[0]),
            finding.kind.code()
        ))
    });
    let follow = found.len() - parts.len();
    let count = if parts.len() == 1 { "1 finding".to_owned() } else { format!("{} findings", parts.len()) };
    let count = match follow {
        0 => count,
        _ => format!(
            "{count}, and {follow} that may follow from {}",
            if parts.len() == 1 { "it" } else { "them" }
        ),
    };
    parts.extend(remarks);
    parts.push(format!("{name}: {count}"));
    parts.join("\n\n")
}

fn as_json(name: &str, found: &Findings, remarks: &[IgnoredGuard]) -> Value {
    json!({
        "status": match found.is_empty() {
            false => "found",
            true if interrupt::is_requested() => "interrupted",
            true => "clean",
        },
        "checked": name,
        "schedules": found.schedules(),
        "findings": found.json(),
        "remarks": remarks.iter().map(remark_text).collect::<Vec<_>>(),
    })
}

//! `warpwright check`: runs a kernel with every checker on.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use warpwright_ptx::{IgnoredGuard, ignored_guards, parse};
use warpwright_runtime::{Device, Error, Finding, Label, Schedule, codes, explain, ordered, render_causes};

use crate::exec;
use crate::interrupt;
use crate::kernel::KernelChoice;
use crate::number;
use crate::output::{Output, Status, shortened};
use crate::sources;
use crate::subject::{self, Subject};
use crate::suggestion::did_you_mean;
use crate::target::{self, LimitOption};

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
    #[arg(long, global = true, value_name = "SCHEDULE", value_parser = target::schedule)]
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

/// A finding, and the schedules that showed it.
struct Told {
    finding: Finding,
    schedules: Vec<Schedule>,
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
        let mut schedules = self.schedules();
        let mut told: Vec<Told> = Vec::new();
        interrupt::end_in_order();
        for (number, schedule) in schedules.clone().into_iter().enumerate() {
            if interrupt::is_requested() {
                schedules.truncate(number);
                break;
            }
            progress.step(shown(schedule));
            for finding in self.findings(&device, schedule)? {
                match told.iter_mut().find(|told| is_same(&told.finding, &finding)) {
                    Some(told) => told.schedules.push(schedule),
                    None => told.push(Told { finding, schedules: vec![schedule] }),
                }
            }
        }
        drop(progress);
        let remarks = self.launch.as_ref().map_or_else(Vec::new, |launch| remarks(launch));
        let told = causes_first(told);
        output.json(|| as_json(&name, &schedules, &told, &remarks));
        output.text(|| as_text(&name, &schedules, &told, &remarks));
        Ok(if told.is_empty() { Status::Done } else { Status::Found })
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

/// Whether two schedules show one finding.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let place = |label: &Label| (label.source.clone(), label.ptx_line);
    let places = |finding: &Finding| finding.labels.iter().map(place).collect::<Vec<_>>();
    let of = |finding: &Finding| (finding.kind, finding.tile, places(finding));
    of(one) == of(other)
}

/// The findings of all schedules in one order.
fn causes_first(told: Vec<Told>) -> Vec<Told> {
    let findings: Vec<Finding> = told.iter().map(|told| told.finding.clone()).collect();
    let placed = ordered(&findings, None).into_iter().map(|finding| {
        let shown = told.iter().find(|told| is_same(&told.finding, &finding));
        Told { schedules: shown.map(|told| told.schedules.clone()).unwrap_or_default(), finding }
    });
    placed.collect()
}

fn unknown_code(code: &str) -> anyhow::Error {
    let known = codes().collect::<Vec<_>>().join(", ");
    match did_you_mean(code, codes()).as_str() {
        "" => anyhow!("unknown code `{code}`; expected one of {known}"),
        guess => anyhow!("unknown code `{code}`{guess} The codes are {known}"),
    }
}

/// A schedule as `--schedule` takes it.
fn shown(schedule: Schedule) -> String {
    match schedule {
        Schedule::Eager => "eager".to_owned(),
        Schedule::Latest => "latest".to_owned(),
        Schedule::Random(seed) => format!("random:{seed}"),
    }
}

fn as_text(name: &str, schedules: &[Schedule], told: &[Told], remarks: &[IgnoredGuard]) -> String {
    let remarks = remarks.iter().map(remark_text);
    if told.is_empty() {
        let run: Vec<String> = schedules.iter().copied().map(shown).collect();
        let interrupted = if interrupt::is_requested() { ", before it was interrupted" } else { "" };
        let summary = format!("{name}: nothing found at the schedules {}{interrupted}", run.join(", "));
        return remarks.chain([summary]).collect::<Vec<_>>().join("\n\n");
    }
    let styled = std::io::stdout().is_terminal();
    let mut files = sources::files();
    let noted: Vec<Finding> = told
        .iter()
        .map(|told| {
            let mut finding = told.finding.clone();
            let when = match told.schedules.len() == schedules.len() {
                true => "at every schedule".to_owned(),
                false => format!("at {} of {} schedules", told.schedules.len(), schedules.len()),
            };
            finding.notes.push(format!(
                "found {when}; `--schedule {}` shows it, `--explain {}` says more",
                shown(told.schedules[0]),
                finding.kind.code()
            ));
            finding
        })
        .collect();
    let texts = render_causes(&noted, &mut files, styled);
    let mut parts: Vec<String> = texts.into_iter().map(|(_, text)| shortened(&text)).collect();
    let follow = told.len() - parts.len();
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

fn as_json(name: &str, schedules: &[Schedule], told: &[Told], remarks: &[IgnoredGuard]) -> Value {
    let label = |label: &Label| {
        json!({
            "file": label.source.as_ref().map(|source| &source.file),
            "line": label.source.as_ref().map(|source| source.line),
            "column": label.source.as_ref().map(|source| source.column),
            "called_from": label.inlining.callers,
            "inlined_from": label.inlining.inside,
            "ptx_line": label.ptx_line,
            "ptx": label.ptx_text,
            "text": label.text,
        })
    };
    let finding = |told: &Told| {
        let finding = &told.finding;
        json!({
            "code": finding.kind.code(),
            "kernel": finding.kernel,
            "message": finding.message,
            "labels": finding.labels.iter().map(label).collect::<Vec<_>>(),
            "memory": finding.memory.iter().map(label).collect::<Vec<_>>(),
            "notes": finding.notes,
            "help": finding.help,
            "count": finding.count,
            "follows_from": finding.cause,
            "schedules": told.schedules.iter().copied().map(shown).collect::<Vec<_>>(),
        })
    };
    json!({
        "status": match told.is_empty() {
            false => "found",
            true if interrupt::is_requested() => "interrupted",
            true => "clean",
        },
        "checked": name,
        "schedules": schedules.iter().copied().map(shown).collect::<Vec<_>>(),
        "findings": told.iter().map(finding).collect::<Vec<_>>(),
        "remarks": remarks.iter().map(remark_text).collect::<Vec<_>>(),
    })
}

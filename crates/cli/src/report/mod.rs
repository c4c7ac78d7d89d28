//! `warpwright report`: counters of a kernel on the emulator, and advice.

mod advice;
mod cost;
mod html;
mod registers;
mod table;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use warpwright_arch::{Arch, Capability, KernelResources, Occupancy, OneMore};
use warpwright_runtime::{Counters, LineCounts, SourceFiles};

use crate::exec;
use crate::kernel::KernelChoice;
use crate::number;
use crate::output::Output;
use crate::sources;
use crate::subject::{self, Subject};
use crate::target::LimitOption;
use cost::Cost;
use registers::Assembled;

/// Count what a kernel does on the emulator: a table by source line, occupancy, and advice.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Report {
    /// Launch file, as for `exec`, instead of a kernel.
    launch: Option<PathBuf>,
    /// Emulated GPU [default: emu:h200, or a GPU that runs the launch file's PTX].
    #[arg(long, global = true, value_name = "DEVICE")]
    device: Option<String>,
    /// Registers per thread, if ptxas is not installed.
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(1..=255))]
    regs: Option<u32>,
    /// Number of source lines in the table, the most costly first.
    #[arg(long, global = true, default_value_t = SHOWN_LINES, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<usize>(0..=u64::from(u32::MAX)))]
    lines: usize,
    /// Write an HTML page with the sources beside their counters.
    #[arg(long, global = true, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    limit: LimitOption,
    #[command(subcommand)]
    choice: Option<KernelChoice>,
}

/// Lines of a table.
pub(crate) const SHOWN_LINES: usize = 20;

/// One kernel's part of a report.
pub(crate) struct KernelReport {
    counters: Counters,
    /// The PTX it was loaded from.
    ptx: Arc<str>,
    /// Lines with their costs, the most costly first.
    lines: Vec<(LineCounts, Cost)>,
    total: LineCounts,
    cost: Cost,
    assembled: Assembled,
    resources: KernelResources,
    occupancy: Option<(Occupancy, Option<OneMore>)>,
}

impl KernelReport {
    fn new(counters: Counters, ptx: Arc<str>, arch: &'static Arch, assembled: Assembled) -> Self {
        let mut lines: Vec<(LineCounts, Cost)> = counters
            .lines()
            .into_iter()
            .map(|line| {
                let cost = Cost::of(&line, arch);
                (line, cost)
            })
            .collect();
        // Ties stay in the order of the source.
        lines.sort_by(|(_, a), (_, b)| b.clocks().total_cmp(&a.clocks()));
        let (total, resources) = (counters.total(), assembled.resources(&counters));
        let cost = Cost::of(&total, arch);
        let occupancy = arch
            .capability
            .occupancy(&resources)
            .ok()
            .map(|occupancy| (occupancy, arch.capability.one_more(&resources).ok().flatten()));
        Self { counters, ptx, lines, total, cost, assembled, resources, occupancy }
    }

    /// What a line costs, as a part of what all lines do.
    fn part(&self, cost: &Cost) -> f64 {
        let all: f64 = self.lines.iter().map(|(_, cost)| cost.clocks()).sum();
        if all > 0.0 { cost.clocks() / all } else { 0.0 }
    }
}

/// What each kernel did, with its registers: those that are stated, those of the assembler, or estimated ones. `ptx`
/// is what a kernel was loaded from.
pub(crate) fn kernels(
    counted: Vec<Counters>,
    ptx: impl Fn(&str) -> Arc<str>,
    arch: &'static Arch,
    registers_per_thread: Option<u32>,
) -> Vec<KernelReport> {
    let report = |counters: Counters| {
        let ptx = ptx(&counters.kernel);
        let assembler = registers::assemble(&ptx, arch.capability);
        let assembled = registers::of(&counters, assembler.as_ref(), registers_per_thread);
        KernelReport::new(counters, ptx, arch, assembled)
    };
    counted.into_iter().map(report).collect()
}

/// The reports for people, each with so many lines.
pub(crate) fn as_text(
    title: String,
    kernels: &[KernelReport],
    arch: &Arch,
    lines: usize,
    files: &mut SourceFiles,
) -> String {
    let parts = kernels.iter().map(|kernel| table::text(kernel, arch, lines, files));
    std::iter::once(title).chain(parts).collect::<Vec<_>>().join("\n\n")
}

impl Report {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let subject = Subject::named(self.choice.as_ref(), self.launch.as_deref())?;
        let name = subject.name();
        exec::expect_kept(("--html", self.html.as_deref()), self.launch.as_deref())?;
        let progress = output.progress(&name).announced();
        progress.step("counting");
        let emulator = subject::emulator(self.device.as_deref(), self.launch.as_deref())?;
        let (counted, launches) = subject.count(&emulator, &self.limit).with_context(|| name.clone())?;
        let arch = Arch::named(emulator.trim_start_matches("emu:"))?;
        progress.step("assembling");
        let ptx = |kernel: &str| {
            let launch = launches.iter().find(|launch| *launch.kernel == *kernel);
            launch.map_or_else(|| "".into(), |launch| launch.ptx.clone())
        };
        let kernels = kernels(counted, ptx, arch, self.regs);
        let mut files = sources::files();
        let title = format!("{name} on {emulator}");
        if let Some(file) = &self.html {
            crate::file::write(file, html::page(&title, &kernels, arch, &mut files))?;
        }
        drop(progress);
        output.json(|| as_json(&name, &emulator, &kernels, arch));
        output.text(|| as_text(title, &kernels, arch, self.lines, &mut files));
        Ok(())
    }
}

fn place(line: &LineCounts) -> String {
    sources::place(line.file.as_deref(), line.line)
}

/// The text of a line: of its source, or of the PTX.
fn text_of(line: &LineCounts, ptx: &str, files: &mut SourceFiles) -> String {
    let text = match &line.file {
        Some(file) => files.line(file, line.line).map(str::to_owned),
        None => ptx.lines().nth(line.line as usize - 1).map(str::to_owned),
    };
    text.unwrap_or_default().trim().to_owned()
}

/// What an SM holds of a kernel, in a sentence.
fn occupancy_sentence(kernel: &KernelReport, capability: &Capability) -> String {
    let KernelResources { threads_per_cta, registers_per_thread, shared_bytes } = kernel.resources;
    let registers = match (&kernel.assembled, registers_per_thread) {
        (Assembled::Estimated(registers), _) => {
            format!(
                "about {registers} registers per thread (estimated: `WARPWRIGHT_PTXAS` names no assembler)"
            )
        }
        (_, registers) => format!("{registers} registers per thread"),
    };
    let takes =
        format!("{threads_per_cta} threads and {shared_bytes} bytes of shared memory per CTA, {registers}");
    let Some((occupancy, more)) = &kernel.occupancy else {
        return format!("occupancy: {takes}: no CTA fits an SM");
    };
    let part = 100.0 * f64::from(occupancy.warps_per_sm) / f64::from(capability.warps_per_sm);
    let most = if matches!(kernel.assembled, Assembled::Estimated(_)) { "about " } else { "" };
    let more = more.map_or(String::new(), |more| {
        let parts = [
            more.threads_per_cta.map(|most| format!("{most} threads")),
            more.registers_per_thread.map(|most| format!("{most} registers per thread")),
            more.shared_bytes.map(|most| format!("{most} bytes of shared memory")),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        format!("; one more would fit with {}", parts.join(" and "))
    });
    format!(
        "occupancy: {takes}: {most}{} per SM, {} of {} warps ({part:.0} %), limited by {}{more}",
        table::count(u64::from(occupancy.ctas_per_sm), "CTA"),
        occupancy.warps_per_sm,
        capability.warps_per_sm,
        occupancy.limiter.name()
    )
}

pub(crate) fn as_json(name: &str, device: &str, kernels: &[KernelReport], arch: &Arch) -> Value {
    let kernels: Vec<Value> = kernels
        .iter()
        .map(|kernel| {
            let lines: Vec<Value> = kernel
                .lines
                .iter()
                .map(|(line, cost)| {
                    json!({"cost": kernel.part(cost), "busiest": cost.busiest().name(), "counts": line})
                })
                .collect();
            json!({
                "kernel": kernel.counters.kernel,
                "lines": lines,
                "total": kernel.total,
                "busiest": kernel.cost.busiest().name(),
                "occupancy": kernel.occupancy.as_ref().map(|(occupancy, _)| json!({
                    "ctas_per_sm": occupancy.ctas_per_sm,
                    "warps_per_sm": occupancy.warps_per_sm,
                    "limiter": occupancy.limiter.name(),
                    "registers_per_thread": kernel.resources.registers_per_thread,
                    "shared_bytes": kernel.resources.shared_bytes,
                    "threads_per_cta": kernel.resources.threads_per_cta,
                })),
                "advice": advice::of(kernel, arch),
                "counters": kernel.counters,
            })
        })
        .collect();
    json!({"status": "ok", "counted": name, "device": device, "kernels": kernels})
}

//! The `warpwright` command.

mod annotate;
mod bench;
mod check;
mod conditions;
mod devices;
mod dtype;
mod exec;
mod kernel;
mod ladder;
mod layout;
mod npy;
mod occupancy;
mod output;
mod ptx;
mod report;
mod roofline;
mod run;
mod subject;
mod target;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use output::Output;

/// Write, run, check and time tensor-core GPU kernels, with or without a GPU.
#[derive(Debug, Parser)]
#[command(name = "warpwright", version)]
struct Command {
    /// Print results as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Devices(devices::Devices),
    Run(run::Run),
    Bench(bench::Bench),
    Ladder(ladder::Ladder),
    Tune(tune::Tune),
    Ptx(ptx::Ptx),
    Exec(exec::Exec),
    Check(check::Check),
    Report(report::Report),
    Roofline(roofline::Roofline),
    Layout(layout::Layout),
    Occupancy(occupancy::Occupancy),
}

fn main() -> ExitCode {
    let command = Command::parse();
    let output = if command.json { Output::Json } else { Output::Text };
    let outcome = match &command.verb {
        Verb::Devices(devices) => devices.run(output),
        Verb::Run(run) => run.run(output),
        Verb::Bench(bench) => bench.run(output),
        Verb::Ladder(ladder) => ladder.run(output),
        Verb::Tune(tune) => tune.run(output),
        Verb::Ptx(ptx) => ptx.run(output),
        Verb::Exec(exec) => exec.run(output),
        Verb::Check(check) => return check.run(output),
        Verb::Report(report) => report.run(output),
        Verb::Roofline(roofline) => roofline.run(output),
        Verb::Layout(layout) => layout.run(output),
        Verb::Occupancy(occupancy) => occupancy.run(output),
    };
    output.finish(&outcome)
}

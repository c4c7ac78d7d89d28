//! The `warpwright` command as a library: what the program runs, and what reads its inputs.

mod annotate;
mod bench;
mod check;
mod conditions;
mod devices;
mod dtype;
mod exec;
mod file;
pub mod inputs;
mod kernel;
mod kernels;
mod ladder;
mod layout;
mod npy;
mod number;
mod occupancy;
mod output;
mod ptx;
mod report;
mod roofline;
mod run;
mod sources;
mod subject;
mod target;
mod tune;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
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
    Kernels(kernels::Kernels),
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

impl Command {
    /// Runs the command. `false` is an answer that the exit status tells: something was found.
    fn run(&self) -> Result<bool> {
        let output = self.output();
        match &self.verb {
            Verb::Check(check) => return check.run(output),
            Verb::Devices(devices) => devices.run(output),
            Verb::Kernels(kernels) => kernels.run(output),
            Verb::Run(run) => run.run(output),
            Verb::Bench(bench) => bench.run(output),
            Verb::Ladder(ladder) => ladder.run(output),
            Verb::Tune(tune) => tune.run(output),
            Verb::Ptx(ptx) => ptx.run(output),
            Verb::Exec(exec) => exec.run(output),
            Verb::Report(report) => report.run(output),
            Verb::Roofline(roofline) => roofline.run(output),
            Verb::Layout(layout) => layout.run(output),
            Verb::Occupancy(occupancy) => occupancy.run(output),
        }?;
        Ok(true)
    }

    fn output(&self) -> Output {
        if self.json { Output::Json } else { Output::Text }
    }
}

/// Runs a command line, whose first word is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    match Command::try_parse_from(&arguments) {
        Ok(command) => command.output().finish(command.run()),
        Err(error) if error.use_stderr() && arguments.iter().any(|word| word == "--json") => {
            Output::Json.refuse(&error.to_string());
            ExitCode::from(2)
        }
        Err(error) => {
            let _ = error.print();
            ExitCode::from(error.exit_code() as u8)
        }
    }
}

/// Why a command line is refused, as the program prints it; `None` if it runs. What a command that
/// runs prints goes to standard output.
pub fn refusal(arguments: &[&str]) -> Option<String> {
    let words = std::iter::once("warpwright").chain(arguments.iter().copied());
    match Command::try_parse_from(words) {
        Ok(command) => command.run().err().map(|error| output::message(&error)),
        Err(error) => Some(error.to_string()),
    }
}

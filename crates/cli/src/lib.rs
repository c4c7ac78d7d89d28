//! The `warpwright` command as a library: what the program runs, and what reads its inputs.

mod annotate;
mod bench;
mod check;
mod completions;
mod conditions;
mod devices;
mod dtype;
mod emulation;
mod exec;
mod file;
pub mod findings;
mod formats;
mod gates;
mod gpu;
pub mod inputs;
mod interrupt;
mod kernel;
mod kernels;
mod ladder;
mod layout;
mod manual;
mod markup;
mod npy;
mod number;
mod occupancy;
mod output;
mod probe;
mod ptx;
mod report;
pub mod results;
mod roofline;
mod run;
mod run_cuda;
mod sources;
mod subject;
mod suggestion;
mod target;
mod time;
mod trace;
mod tune;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use output::{Output, STATUS_HELP, Status};

pub use output::Answer;

/// The version, and the commit that it was built from where that is known.
const VERSION: &str = env!("WARPWRIGHT_VERSION");

/// The environment variables that the command reads.
const ENVIRONMENT_HELP: &str = "\
Environment:
  WARPWRIGHT_DEVICE            device where `--device` names none [default: auto]
  WARPWRIGHT_CACHE             folder of the results of `tune` [default: warpwright below XDG_CACHE_HOME or ~/.cache]
  WARPWRIGHT_PTXAS             assembler that `report` takes registers from [default: ptxas, from the PATH]
  WARPWRIGHT_JIT_OPTIMIZATION  level at which the driver's assembler optimizes, 0 (none) to 4 [default: 4]
  WARPWRIGHT_CUDA_LIBRARY      path of libwarpwright_cuda.so, for `run-cuda` [default: beside the command]
  WARPWRIGHT_CUBLAS            path of libcublasLt.so, for `bench --vs cublas` [default: the system's]
  WARPWRIGHT_NCCL              path of libnccl.so.2, for `bench all-reduce` [default: the system's]";

/// Write, run, check and time tensor-core GPU kernels, with or without a GPU.
#[derive(Debug, Parser)]
#[command(name = "warpwright", version = VERSION)]
#[command(after_help = "`warpwright --help` lists the environment variables and the exit statuses.")]
#[command(after_long_help = format!("{ENVIRONMENT_HELP}\n\n{STATUS_HELP}"))]
struct Command {
    /// Print results as JSON; `docs/json.md` describes them.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Devices(devices::Devices),
    Gpu(gpu::Gpu),
    Number(formats::Number),
    Gates(gates::Gates),
    Kernels(kernels::Kernels),
    Run(run::Run),
    RunCuda(run_cuda::RunCuda),
    Bench(bench::Bench),
    Ladder(ladder::Ladder),
    Tune(tune::Tune),
    Probe(probe::ProbeCommand),
    Ptx(ptx::Ptx),
    Exec(exec::Exec),
    Check(check::Check),
    Report(report::Report),
    Time(time::Time),
    Trace(trace::Trace),
    Roofline(roofline::Roofline),
    Layout(layout::Layout),
    Occupancy(occupancy::Occupancy),
    Completions(completions::Completions),
    Man(manual::Man),
}

impl Command {
    /// Runs the command.
    fn run(&self) -> Result<Status> {
        let output = self.output();
        output.select();
        match &self.verb {
            Verb::Check(check) => return check.run(output),
            Verb::RunCuda(run_cuda) => return run_cuda.run(output),
            Verb::Devices(devices) => devices.run(output),
            Verb::Gpu(gpu) => gpu.run(output),
            Verb::Number(number) => number.run(output),
            Verb::Gates(gates) => gates.run(output),
            Verb::Kernels(kernels) => kernels.run(output),
            Verb::Run(run) => run.run(output),
            Verb::Bench(bench) => bench.run(output),
            Verb::Ladder(ladder) => ladder.run(output),
            Verb::Tune(tune) => tune.run(output),
            Verb::Probe(probe) => probe.run(output),
            Verb::Ptx(ptx) => ptx.run(output),
            Verb::Exec(exec) => exec.run(output),
            Verb::Report(report) => report.run(output),
            Verb::Time(time) => time.run(output),
            Verb::Trace(trace) => trace.run(output),
            Verb::Roofline(roofline) => roofline.run(output),
            Verb::Layout(layout) => layout.run(output),
            Verb::Occupancy(occupancy) => occupancy.run(output),
            Verb::Completions(completions) => completions.run(),
            Verb::Man(man) => man.run(output),
        }?;
        Ok(Status::Done)
    }

    fn output(&self) -> Output {
        if self.json { Output::Json } else { Output::Text }
    }
}

/// Runs a command line, whose first word is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(status(arguments))
}

/// Runs a command line, whose first word is the program's name. Returns the exit status.
pub fn status(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<_> = arguments.into_iter().collect();
    match read(&arguments) {
        Ok(command) => command.output().finish(command.run()),
        Err(error) if error.use_stderr() && arguments.iter().any(|word| word == "--json") => {
            Output::Json.refuse(&output::shortened(&error.to_string()));
            Status::Refused as u8
        }
        Err(error) if error.use_stderr() => {
            let text = output::shortened(&error.render().ansi().to_string());
            let _ = write!(anstream::stderr(), "{text}");
            Status::Refused as u8
        }
        Err(error) => {
            let _ = error.print();
            error.exit_code() as u8
        }
    }
}

/// Runs a command line, whose first word is the program's name, as with `--json`. Returns the exit status, and
/// what the program would print.
pub fn answer(arguments: impl IntoIterator<Item = OsString>) -> (u8, Answer) {
    output::kept(|| status(arguments.into_iter().chain([OsString::from("--json")])))
}

/// Reads a command line.
fn read(words: &[OsString]) -> Result<Command, clap::Error> {
    Command::try_parse_from(words).map_err(|error| suggested(error, words))
}

/// The error with the nearest verb or kernel to a mistyped one, where clap has none: it does not
/// count letters that changed places.
fn suggested(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let is_suggested = error.get(ContextKind::SuggestedSubcommand).is_some();
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand).cloned() else {
        return error;
    };
    if error.kind() != ErrorKind::InvalidSubcommand || is_suggested {
        return error;
    }
    let command = Command::command();
    let verb =
        words.iter().skip(1).filter_map(|word| word.to_str()).find_map(|word| command.find_subcommand(word));
    let known: Vec<&str> =
        verb.unwrap_or(&command).get_subcommands().map(|command| command.get_name()).collect();
    if let Some(near) = suggestion::nearest(&wrong, known) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near.to_owned()]));
    }
    error
}

/// The verbs of the command.
pub fn verbs() -> Vec<String> {
    Command::command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect()
}

/// Why a command line is refused, as the program prints it; `None` if it runs. What a command that
/// runs prints goes to standard output.
pub fn refusal(arguments: &[&str]) -> Option<String> {
    let words: Vec<_> =
        std::iter::once("warpwright").chain(arguments.iter().copied()).map(OsString::from).collect();
    match read(&words) {
        Ok(command) => command.run().err().map(|error| output::message(&error)),
        Err(error) => Some(error.to_string()),
    }
}

//! The `warpwright` command.

mod dtype;
mod exec;
mod npy;
mod output;
mod target;

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
    Exec(exec::Exec),
}

fn main() -> ExitCode {
    let command = Command::parse();
    let output = if command.json { Output::Json } else { Output::Text };
    let outcome = match &command.verb {
        Verb::Exec(exec) => exec.run(output),
    };
    output.finish(&outcome)
}

//! The `warpwright-llm` command.

use std::io::{Error, ErrorKind};
use std::process::ExitCode;

use clap::Parser;
use warpwright_llm_cli::Command;

fn main() -> ExitCode {
    match Command::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        // `| head` has read enough.
        Err(error) if error.downcast_ref().is_some_and(|e: &Error| e.kind() == ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        // A sentence: a user has no use for a backtrace.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! The `warpwright-llm` command.

use std::process::ExitCode;

use clap::Parser;
use warpwright_llm_cli::{Command, ends_with_output, is_end_of_output, sentence};

fn main() -> ExitCode {
    ends_with_output();
    match Command::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has read enough.
        Err(error) if is_end_of_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

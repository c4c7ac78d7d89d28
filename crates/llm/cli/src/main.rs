//! The `warpwright-llm` command.

use std::process::ExitCode;

use warpwright_llm_cli::{Command, ends_with_output, is_end_of_output, sentence};

fn main() -> ExitCode {
    ends_with_output();
    let arguments: Vec<_> = std::env::args_os().collect();
    match Command::read(arguments).unwrap_or_else(|error| error.exit()).run() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has read enough.
        Err(error) if is_end_of_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

//! `xtask sweep`: the tests that take minutes.

mod sanitizer;

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use warpwright_testing::share::SWEEP;

/// Crates whose ignored tests are sweeps, and of whose long lists of cases `cargo test` takes a
/// share. (Other crates ignore tests that write files.)
const CRATES: [&str; 5] =
    ["warpwright-kernels", "warpwright-lang", "warpwright-lessons", "warpwright-cli", "warpwright-ptx"];

/// Run the tests that take minutes: many shapes, seeds, architectures and mutants.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Sweep {
    #[command(subcommand)]
    sanitizer: Option<Sanitized>,
    /// Only tests whose names contain this text.
    filter: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Sanitized {
    /// Run the fuzzers and the emulator's tests under AddressSanitizer.
    Asan(sanitizer::Sanitizer),
    /// Run them under ThreadSanitizer, where the toolchain has the standard library's source.
    Tsan(sanitizer::Sanitizer),
}

impl Sweep {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.sanitizer {
            Some(Sanitized::Asan(sanitizer)) => return sanitizer.run(&sanitizer::ADDRESS),
            Some(Sanitized::Tsan(sanitizer)) => return sanitizer.run(&sanitizer::THREAD),
            None => {}
        }
        let mut command = cargo();
        command.arg("test").args(CRATES.iter().flat_map(|name| ["-p", name])).arg("--");
        command.arg("--include-ignored").args(&self.filter).env(SWEEP, "1");
        let status = command.status().context("cargo does not start")?;
        if !status.success() {
            bail!("a sweep found a failure");
        }
        Ok(())
    }
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

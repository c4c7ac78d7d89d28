//! `xtask sweep`: the tests that take minutes.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use warpwright_testing::share::SWEEP;

/// Crates whose ignored tests are sweeps, and of whose long lists of cases `cargo test` takes a
/// share. (Other crates ignore tests that write files.)
const CRATES: [&str; 5] =
    ["warpwright-kernels", "warpwright-lang", "warpwright-lessons", "warpwright-cli", "warpwright-ptx"];

/// Run the tests that take minutes: many shapes, seeds, architectures and mutants.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    /// Only tests whose names contain this text.
    filter: Option<String>,
}

impl Sweep {
    pub(crate) fn run(&self) -> Result<()> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command.arg("test").args(CRATES.iter().flat_map(|name| ["-p", name])).arg("--");
        command.arg("--include-ignored").args(&self.filter).env(SWEEP, "1");
        let status = command.status().context("cargo does not start")?;
        if !status.success() {
            bail!("a sweep found a failure");
        }
        Ok(())
    }
}

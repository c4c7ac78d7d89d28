//! Tests and fuzzers under a sanitizer of the compiler: `-Zsanitizer`, which a stable toolchain accepts
//! with `RUSTC_BOOTSTRAP`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::super::fuzz;
use super::cargo;

/// The crates that execute what users write, or read it.
const CRATES: [&str; 6] = [
    "warpwright-ptx",
    "warpwright-layout",
    "warpwright-events",
    "warpwright-emulator",
    "warpwright-check",
    "warpwright-count",
];

/// A sanitizer by its name in `-Zsanitizer`.
pub(super) struct Kind {
    name: &'static str,
    /// Whether the standard library must be compiled with it: ThreadSanitizer reports what it cannot see
    /// synchronize.
    builds_standard_library: bool,
    /// The environment variable of its options, and these. Memory that lives as long as the program, such
    /// as the devices of tests, is no leak.
    options: (&'static str, &'static str),
}

pub(super) const ADDRESS: Kind =
    Kind { name: "address", builds_standard_library: false, options: ("ASAN_OPTIONS", "detect_leaks=0") };

pub(super) const THREAD: Kind =
    Kind { name: "thread", builds_standard_library: true, options: ("TSAN_OPTIONS", "halt_on_error=1") };

/// What runs under a sanitizer.
#[derive(Debug, Args)]
pub(crate) struct Sanitizer {
    /// Number of cases of each fuzzer.
    #[arg(long, default_value_t = 20_000)]
    cases: u64,
    /// Only tests whose names contain this text.
    filter: Option<String>,
}

impl Sanitizer {
    pub(super) fn run(&self, kind: &Kind) -> Result<()> {
        let toolchain = Toolchain::query()?;
        let source = Path::new(&toolchain.root).join("lib/rustlib/src/rust/library");
        if kind.builds_standard_library && !source.exists() {
            println!(
                "skipped: the sanitizer `{}` needs the standard library compiled with it, and this toolchain \
                 has no source of it; install it with `rustup component add rust-src`",
                kind.name
            );
            return Ok(());
        }
        let mut failed = Vec::new();
        let mut run = |what: &str, command: &mut Command| -> Result<()> {
            println!("{what} under the sanitizer `{}`", kind.name);
            if !command.status().context("cargo does not start")?.success() {
                failed.push(what.to_owned());
            }
            Ok(())
        };
        let mut tests = kind.cargo("test", &toolchain);
        tests.args(CRATES.iter().flat_map(|name| ["-p", name])).arg("--").args(&self.filter);
        run("the tests", &mut tests)?;
        for target in fuzz::targets() {
            let mut fuzzer = kind.cargo("run", &toolchain);
            fuzzer.args(["-p", "xtask", "--", "fuzz", target, "--limit", "600"]);
            run(&format!("the fuzzer `{target}`"), fuzzer.arg("--cases").arg(self.cases.to_string()))?;
        }
        if !failed.is_empty() {
            bail!("the sanitizer `{}` or a test found a failure in {}", kind.name, failed.join(", "));
        }
        Ok(())
    }
}

impl Kind {
    /// A cargo command whose programs are sanitized. Naming the target leaves build scripts and macros out.
    fn cargo(&self, command: &str, toolchain: &Toolchain) -> Command {
        let mut cargo = cargo();
        cargo.args([command, "--target", &toolchain.host]);
        if self.builds_standard_library {
            cargo.arg("-Zbuild-std");
        }
        let (variable, options) = self.options;
        cargo.env("RUSTC_BOOTSTRAP", "1").env(variable, options);
        cargo.env("RUSTFLAGS", format!("-Zsanitizer={}", self.name));
        cargo.env("CARGO_TARGET_DIR", format!("target/sanitizer-{}", self.name));
        cargo
    }
}

/// The compiler that cargo uses.
struct Toolchain {
    host: String,
    root: String,
}

impl Toolchain {
    fn query() -> Result<Self> {
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = |arguments: &[&str]| -> Result<String> {
            let output = Command::new(&compiler).args(arguments).output().context("rustc does not start")?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let version = said(&["-vV"])?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc names no host")?.to_owned();
        Ok(Self { host, root: said(&["--print", "sysroot"])?.trim().to_owned() })
    }
}

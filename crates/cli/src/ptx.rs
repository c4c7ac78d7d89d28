//! `warpwright ptx`: the PTX of a kernel of the library.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use warpwright_arch::Capability;
use warpwright_kernels::registry::{LibraryKernel, Options};

use crate::annotate::annotate;
use crate::kernel::KernelChoice;
use crate::output::Output;

/// Prints the PTX of a kernel, or writes that of all kernels to a directory.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Ptx {
    /// The architectures to write for, separated by commas: `sm_80,sm_90a`.
    #[arg(long, global = true, value_delimiter = ',', default_value = "sm_90a", value_name = "ARCH")]
    arch: Vec<String>,
    /// Write each to a file `KERNEL.ARCH.ptx` in this directory.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// All kernels, with their default options, for each architecture that applies.
    #[arg(long, required = true, requires = "out")]
    all: bool,
    /// The Rust line behind each instruction beside it.
    #[arg(long, global = true)]
    annotate: bool,
    #[command(subcommand)]
    choice: Option<KernelChoice>,
}

impl Ptx {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let mut written = Vec::new();
        for arch in &self.arch {
            let capability = Capability::for_target(arch)
                .ok_or_else(|| anyhow!("there is no architecture `{arch}`; there are {}", known_targets()))?;
            match &self.choice {
                Some(KernelChoice { kernel, options, .. }) => {
                    if !kernel.applies_to(capability) {
                        bail!("{} does not run on {arch}", kernel.name());
                    }
                    let text = self.text(*kernel, options, arch)?;
                    match &self.out {
                        Some(directory) => written.push(write(directory, kernel.name(), arch, &text)?),
                        None => {
                            output.json(|| json!({"kernel": kernel.name(), "arch": arch, "ptx": text}));
                            output.text(|| text);
                        }
                    }
                }
                None => {
                    let directory = self.out.as_ref().context("--all needs --out")?;
                    for kernel in crate::kernel::all().filter(|kernel| kernel.applies_to(capability)) {
                        let text = self.text(kernel, &Options::defaults(kernel.options()), arch)?;
                        written.push(write(directory, kernel.name(), arch, &text)?);
                    }
                }
            }
        }
        if self.out.is_some() {
            output.json(|| json!({"written": written}));
            output.text(|| written.join("\n"));
        }
        Ok(())
    }

    fn text(&self, kernel: &dyn LibraryKernel, options: &Options, arch: &str) -> Result<String> {
        let text = kernel
            .ptx(arch, options)
            .map_err(|error| anyhow!("{} {options} for {arch}: {error}", kernel.name()))?;
        Ok(if self.annotate { annotate(&text) } else { text })
    }
}

fn write(directory: &Path, kernel: &str, arch: &str, text: &str) -> Result<String> {
    let path = directory.join(format!("{kernel}.{arch}.ptx"));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path.display().to_string())
}

fn known_targets() -> String {
    warpwright_arch::CAPABILITIES.iter().map(|row| row.target).collect::<Vec<_>>().join(", ")
}

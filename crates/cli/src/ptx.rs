//! `warpwright ptx`: the PTX that a kernel launches, read from the log of a dry run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use warpwright_arch::Capability;
use warpwright_runtime::{Device, Extents, Launch, LaunchRecord};

use crate::annotate::annotate;
use crate::file;
use crate::kernel::{self, KernelChoice};
use crate::output::Output;

/// Print the PTX that a kernel launches, or write that of all kernels to a directory.
#[derive(Debug, Args)]
pub(crate) struct Ptx {
    /// Architectures, separated by commas: `sm_80,sm_90a`.
    #[arg(long, global = true, value_delimiter = ',', default_value = "sm_90a", value_name = "ARCH")]
    arch: Vec<String>,
    /// Write files `KERNEL.ARCH.ptx` to this directory, numbered if a run launches several kernels.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// All kernels with their default options, for each architecture that they support.
    #[arg(long, requires = "out")]
    all: bool,
    /// Print the Rust source line beside each instruction.
    #[arg(long, global = true)]
    annotate: bool,
    #[command(subcommand)]
    choice: Option<KernelChoice>,
}

/// A kernel's PTX and the configurations it is launched in.
struct Launched {
    kernel: Arc<str>,
    ptx: Arc<str>,
    launches: Vec<Launch>,
}

impl Ptx {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let mut written = Vec::new();
        for arch in &self.arch {
            let capability = Capability::for_target(arch).ok_or_else(|| {
                anyhow!("unknown architecture `{arch}`; expected one of {}", known_targets())
            })?;
            match &self.choice {
                Some(choice) => {
                    if !choice.workload.supports(capability) {
                        bail!("{} does not support {arch}", choice.name());
                    }
                    let launched = launched(choice, capability)?;
                    match &self.out {
                        Some(directory) => written.extend(self.write(directory, choice, arch, &launched)?),
                        None => self.print(choice, arch, &launched, output),
                    }
                }
                None if !self.all => bail!("expected a kernel, or `--all` with `--out DIRECTORY`"),
                None => {
                    let directory = self.out.as_ref().context("--all needs --out")?;
                    for choice in kernel::all().map(|entry| KernelChoice::from(entry.workload())) {
                        if choice.workload.supports(capability) {
                            let launched = launched(&choice, capability)?;
                            written.extend(self.write(directory, &choice, arch, &launched)?);
                        }
                    }
                }
            }
        }
        if self.out.is_some() {
            output.json(|| json!({"status": "ok", "written": written}));
            output.text(|| written.join("\n"));
        }
        Ok(())
    }

    fn text(&self, launched: &Launched) -> String {
        if self.annotate { annotate(&launched.ptx) } else { launched.ptx.to_string() }
    }

    /// Each kernel behind a comment with its launches.
    fn print(&self, choice: &KernelChoice, arch: &str, launched: &[Launched], output: Output) {
        output.json(|| {
            let kernels = launched.iter().map(|launched| {
                let launches = launched.launches.iter().map(|launch| {
                    json!({
                        "grid": launch.grid.0,
                        "block": launch.block.0,
                        "cluster": launch.cluster.0,
                        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
                    })
                });
                json!({"name": &*launched.kernel, "launches": launches.collect::<Vec<_>>(), "ptx": self.text(launched)})
            });
            json!({"status": "ok", "kernel": choice.name(), "arch": arch, "kernels": kernels.collect::<Vec<_>>()})
        });
        output.text(|| {
            let kernels = launched.iter().map(|launched| {
                let launches =
                    launched.launches.iter().map(|launch| format!("// {}\n", configuration(launch)));
                format!("{}{}", launches.collect::<String>(), self.text(launched))
            });
            kernels.collect::<Vec<_>>().join("\n")
        });
    }

    /// Writes a file for each kernel.
    fn write(
        &self,
        directory: &Path,
        choice: &KernelChoice,
        arch: &str,
        launched: &[Launched],
    ) -> Result<Vec<String>> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("{} cannot be created", directory.display()))?;
        let mut paths = Vec::new();
        for (index, kernel) in launched.iter().enumerate() {
            let number = if launched.len() == 1 { String::new() } else { format!(".{}", index + 1) };
            let path = directory.join(format!("{}{number}.{arch}.ptx", choice.name()));
            file::write(&path, self.text(kernel))?;
            paths.push(path.display().to_string());
        }
        Ok(paths)
    }
}

/// The kernels that one run launches, each once, in the order of their first launches.
fn launched(choice: &KernelChoice, capability: &'static Capability) -> Result<Vec<Launched>> {
    let records = Device::dry_run(capability)
        .map_err(anyhow::Error::from)
        .and_then(|device| choice.launches(&device))
        .with_context(|| format!("{choice:?} for {}", capability.target))?;
    let mut kernels: Vec<Launched> = Vec::new();
    for LaunchRecord { kernel, ptx, launch, .. } in records {
        match kernels.iter_mut().find(|known| known.ptx == ptx && known.kernel == kernel) {
            Some(known) if known.launches.contains(&launch) => {}
            Some(known) => known.launches.push(launch),
            None => kernels.push(Launched { kernel, ptx, launches: vec![launch] }),
        }
    }
    Ok(kernels)
}

/// A launch configuration in a line.
fn configuration(launch: &Launch) -> String {
    let extents = |Extents([x, y, z]): Extents| match (y, z) {
        (1, 1) => x.to_string(),
        (y, 1) => format!("({x}, {y})"),
        (y, z) => format!("({x}, {y}, {z})"),
    };
    let mut text = format!("launch: grid {}, block {}", extents(launch.grid), extents(launch.block));
    if launch.cluster.0 != [1; 3] {
        text += &format!(", cluster {}", extents(launch.cluster));
    }
    if launch.dynamic_shared_bytes > 0 {
        text += &format!(", {} bytes of dynamic shared memory", launch.dynamic_shared_bytes);
    }
    text
}

fn known_targets() -> String {
    warpwright_arch::CAPABILITIES.iter().map(|row| row.target).collect::<Vec<_>>().join(", ")
}

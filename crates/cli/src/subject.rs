//! What a verb that runs one thing on the emulator runs: a kernel of the library, or a launch file.

use std::path::Path;

use anyhow::{Result, bail};
use warpwright_arch::{ARCHITECTURES, Arch};
use warpwright_runtime::{Counters, Device, LaunchRecord};

use crate::exec;
use crate::kernel::{self, KernelChoice};

/// The name of the emulator that was asked for. If none was: of an H200, or where the PTX of a
/// launch file is for other GPUs, of one of those.
pub(crate) fn emulator(asked: Option<&str>, launch: Option<&Path>) -> Result<String> {
    const USUAL: &str = "emu:h200";
    let (None, Some(launch)) = (asked, launch) else { return Ok(asked.unwrap_or(USUAL).to_owned()) };
    let text = exec::ptx(launch)?;
    let target = text.lines().find_map(|line| line.trim().strip_prefix(".target "));
    let target = target.and_then(|line| line.split(',').next()).unwrap_or_default().trim();
    let h200 = Arch::named("h200")?;
    // If no architecture runs the target, loading the module reports it.
    let found = std::iter::once(h200).chain(&ARCHITECTURES).find(|arch| arch.capability.runs(target));
    Ok(format!("emu:{}", found.unwrap_or(h200).name))
}

/// Whether this is a mistyped kernel rather than the path of a file: no such file exists, and it has
/// neither a folder nor an extension.
fn is_name(path: &Path) -> bool {
    let is_plain = path.extension().is_none() && path.components().count() == 1;
    is_plain && !path.exists()
}

/// A kernel of the library, or a launch file.
pub(crate) enum Subject<'a> {
    Kernel(&'a KernelChoice),
    Launch(&'a Path),
}

impl<'a> Subject<'a> {
    /// The one that was named.
    pub(crate) fn named(choice: Option<&'a KernelChoice>, launch: Option<&'a Path>) -> Result<Self> {
        match (choice, launch) {
            (Some(choice), _) => Ok(Self::Kernel(choice)),
            (None, Some(launch)) if is_name(launch) => bail!(
                "{} is neither a kernel nor a launch file; `warpwright kernels` lists the kernels",
                launch.display()
            ),
            (None, Some(launch)) => Ok(Self::Launch(launch)),
            (None, None) => bail!("expected a kernel or a launch file"),
        }
    }

    /// As it was named.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Kernel(choice) => format!("{choice:?}"),
            Self::Launch(launch) => launch.display().to_string(),
        }
    }

    /// Runs it once on an emulator: what each of its kernels did, and the launches.
    pub(crate) fn count(&self, device: &str) -> Result<(Vec<Counters>, Vec<LaunchRecord>)> {
        let device = Device::named(device)?.counted()?;
        let launches = match self {
            Self::Kernel(choice) => {
                let mut prepared = choice.prepare(&device)?;
                // Launches of the preparation are not part of the run.
                device.take_counters();
                kernel::launches(prepared.as_mut(), &device.stream()?)?
            }
            Self::Launch(launch) => {
                let (outcome, launches) = device.log_launches(|| exec::check(launch, &device));
                outcome?;
                launches
            }
        };
        Ok((device.take_counters(), launches))
    }
}

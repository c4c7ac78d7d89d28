//! What a verb that runs one thing on the emulator runs: a kernel of the library, or a launch file.

use std::path::Path;

use anyhow::{Result, bail};
use warpwright_arch::{ARCHITECTURES, Arch};
use warpwright_runtime::{Counters, Device};

use crate::exec;
use crate::kernel::KernelChoice;

/// The name of the emulator that was asked for. If none was: of an H200, or where the PTX of a launch file is for other GPUs, of one of those.
pub(crate) fn emulator(asked: Option<&str>, launch: Option<&Path>) -> Result<String> {
    const USUAL: &str = "emu:h200";
    let (None, Some(launch)) = (asked, launch) else { return Ok(asked.unwrap_or(USUAL).to_owned()) };
    let text = exec::ptx(launch)?;
    let target = text.lines().find_map(|line| line.trim().strip_prefix(".target "));
    let target = target.and_then(|line| line.split(',').next()).unwrap_or_default().trim();
    let h200 = Arch::named("h200")?;
    // What nothing runs is told of when it is loaded.
    let found = std::iter::once(h200).chain(&ARCHITECTURES).find(|arch| arch.capability.runs(target));
    Ok(format!("emu:{}", found.unwrap_or(h200).name))
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
            (None, Some(launch)) => Ok(Self::Launch(launch)),
            (None, None) => bail!("name a kernel of the library, or a launch file"),
        }
    }

    /// As it was named.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Kernel(choice) => format!("{} {}", choice.kernel.name(), choice.options),
            Self::Launch(launch) => launch.display().to_string(),
        }
    }

    /// The PTX that runs on a device of a target.
    pub(crate) fn ptx(&self, target: &str) -> Result<String> {
        match self {
            Self::Kernel(KernelChoice { kernel, options, .. }) => {
                kernel.ptx(target, options).map_err(anyhow::Error::from_boxed)
            }
            Self::Launch(launch) => exec::ptx(launch),
        }
    }

    /// Runs it once on an emulator, and says what each of its kernels did.
    pub(crate) fn count(&self, device: &str) -> Result<Vec<Counters>> {
        let device = Device::named(device)?.counted()?;
        match self {
            Self::Kernel(KernelChoice { kernel, options, .. }) => {
                let mut prepared = kernel.prepare(&device, options).map_err(anyhow::Error::from_boxed)?;
                let stream = device.stream()?;
                // What was launched to prepare is no part of it.
                device.take_counters();
                prepared.launch(&stream).map_err(anyhow::Error::from_boxed)?;
            }
            Self::Launch(launch) => exec::check(launch, &device)?,
        }
        Ok(device.take_counters())
    }
}

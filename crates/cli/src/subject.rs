//! What a verb that runs one thing on the emulator runs: a kernel of the library, or a launch file.

use std::path::Path;

use anyhow::{Result, bail};
use warpwright_harness::Entry;
use warpwright_runtime::{Counters, Device, LaunchRecord, Prediction};

use crate::exec;
use crate::kernel::{self, KernelChoice};
use crate::suggestion::did_you_mean;
use crate::target::{LimitOption, emulator_for};

/// The name of the emulator that was asked for. If none was: of an H200, or where the PTX of a
/// launch file is for other GPUs, of one of those.
pub(crate) fn emulator(asked: Option<&str>, launch: Option<&Path>) -> Result<String> {
    match (asked, launch) {
        (None, Some(launch)) => emulator_for(&exec::ptx(launch)?),
        _ => Ok(asked.unwrap_or("emu:h200").to_owned()),
    }
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

/// What an emulated device has counted and predicted of a run, and the launches.
pub(crate) struct Observed {
    pub(crate) counters: Vec<Counters>,
    pub(crate) predictions: Vec<Prediction>,
    launches: Vec<LaunchRecord>,
}

impl<'a> Subject<'a> {
    /// The one that was named.
    pub(crate) fn named(choice: Option<&'a KernelChoice>, launch: Option<&'a Path>) -> Result<Self> {
        match (choice, launch) {
            (Some(choice), _) => Ok(Self::Kernel(choice)),
            (None, Some(launch)) if is_name(launch) => {
                let name = launch.display().to_string();
                let guess = did_you_mean(&name, kernel::all().map(Entry::name));
                bail!(
                    "{name} is neither a kernel nor a launch file{guess}{} `warpwright kernels` lists the kernels",
                    if guess.is_empty() { ";" } else { "" }
                )
            }
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
    pub(crate) fn count(
        &self,
        device: &str,
        limit: &LimitOption,
    ) -> Result<(Vec<Counters>, Vec<LaunchRecord>)> {
        let observed = self.observe(Device::named(device)?.counted()?, limit)?;
        Ok((observed.counters, observed.launches))
    }

    /// Runs it once on an emulator: the predicted times of its launches, in their order.
    pub(crate) fn time(&self, device: &str, limit: &LimitOption) -> Result<Vec<Prediction>> {
        Ok(self.observe(Device::named(device)?.timed()?, limit)?.predictions)
    }

    /// Runs it once on an emulated device that counts or predicts.
    pub(crate) fn observe(&self, device: Device, limit: &LimitOption) -> Result<Observed> {
        let device = limit.apply(device)?;
        let launches = self.launch(&device, || {
            device.take_counters();
            device.take_predictions();
        })?;
        let (counters, predictions) = (device.take_counters(), device.take_predictions());
        Ok(Observed { counters, predictions, launches })
    }

    /// Runs it once. Launches of the preparation are not part of the run: `prepared` is called after them.
    fn launch(&self, device: &Device, prepared: impl FnOnce()) -> Result<Vec<LaunchRecord>> {
        match self {
            Self::Kernel(choice) => {
                let mut work = choice.prepare(device)?;
                prepared();
                kernel::launches(work.as_mut(), &device.stream()?)
            }
            Self::Launch(launch) => {
                let (outcome, launches) = device.log_launches(|| exec::check(launch, device));
                outcome?;
                Ok(launches)
            }
        }
    }
}

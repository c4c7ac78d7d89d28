//! The flags that choose a device.

use anyhow::{Context, Result};
use clap::Args;
use warpwright_arch::{ARCHITECTURES, Arch};
use warpwright_runtime::{Device, Limit, Schedule};

use crate::findings::schedule;
use crate::output::printing;

/// The device and its schedule.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceOptions {
    /// Device: `auto`, `cuda:N`, or `emu:GPU` such as `emu:h200`.
    #[arg(long, global = true, env = "WARPWRIGHT_DEVICE", default_value = "auto", value_name = "DEVICE")]
    device: String,
    /// Order in which an emulator completes asynchronous work: `eager`, `latest`, or `random:SEED`.
    #[arg(long, global = true, default_value = "eager", value_name = "SCHEDULE", value_parser = schedule)]
    schedule: Schedule,
    #[command(flatten)]
    limit: LimitOption,
}

/// How much a launch may execute.
#[derive(Clone, Debug, Args)]
pub(crate) struct LimitOption {
    /// Stop each launch on the emulator after a time (`60s`, `5min`) or a number of warp instructions
    /// (`1000000000`), and say where it was [default: no limit].
    #[arg(long, global = true, value_name = "LIMIT", value_parser = limit)]
    limit: Option<Limit>,
}

impl LimitOption {
    /// The device with the limit, and with what its kernels print apart from JSON.
    pub(crate) fn apply(&self, device: Device) -> Result<Device> {
        let device = printing(device)?;
        match self.limit {
            Some(limit) => device.limited(limit).context("--limit"),
            None => Ok(device),
        }
    }
}

/// Reads a limit: a time such as `60s`, or a number of warp instructions.
///
/// # Errors
/// It is neither.
pub fn limit(text: &str) -> Result<Limit, String> {
    let refused =
        || "expected a time such as `60s`, or a number of warp instructions, more than 0".to_owned();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let count = text.parse().ok().filter(|&count| count > 0);
        return count.map(Limit::WarpInstructions).ok_or_else(refused);
    }
    let time = humantime::parse_duration(text).ok().filter(|time| !time.is_zero());
    time.map(Limit::Time).ok_or_else(refused)
}

impl DeviceOptions {
    /// Opens the device for a launch file of these modules; where none is named and there is no GPU, the
    /// emulator of one that they are for.
    pub(crate) fn open_for(&self, modules: impl FnOnce() -> Result<Vec<String>>) -> Result<Device> {
        if !self.device.is_empty() && self.device != "auto" {
            return self.open();
        }
        match Device::cuda(0) {
            Ok(gpu) => self.limit.apply(gpu),
            Err(_) => {
                let device = Device::with_schedule(&emulator_for(&modules()?)?, self.schedule);
                self.limit.apply(device.context("cannot open the device")?)
            }
        }
    }

    /// The name of the device.
    pub(crate) fn name(&self) -> &str {
        if self.device.is_empty() { "auto" } else { &self.device }
    }

    /// The limit of a launch.
    pub(crate) fn limit(&self) -> &LimitOption {
        &self.limit
    }

    /// Opens the device; an emulated one predicts the times of the GPU.
    pub(crate) fn open_timed(&self) -> Result<Device> {
        let device = self.open()?;
        if device.properties().is_emulated { Ok(device.timed()?) } else { Ok(device) }
    }

    /// Opens the device.
    pub(crate) fn open(&self) -> Result<Device> {
        let device = Device::with_schedule(self.name(), self.schedule);
        self.limit.apply(device.context("cannot open the device")?)
    }
}

/// The name of the emulator of an H200, or where these modules are for other GPUs, of one of those.
pub(crate) fn emulator_for(modules: &[String]) -> Result<String> {
    let targets: Vec<&str> = modules.iter().map(|text| target(text)).collect();
    let h200 = Arch::named("h200")?;
    let runs_all = |arch: &&Arch| targets.iter().all(|target| arch.capability.runs(target));
    // If no architecture runs the targets, loading a module reports it.
    let found = std::iter::once(h200).chain(&ARCHITECTURES).find(runs_all);
    Ok(format!("emu:{}", found.unwrap_or(h200).name))
}

/// The target of a module.
fn target(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(".target "));
    line.and_then(|line| line.split(',').next()).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        use std::time::Duration;
        assert_eq!(limit("60s"), Ok(Limit::Time(Duration::from_secs(60))));
        assert_eq!(limit("5min"), Ok(Limit::Time(Duration::from_secs(300))));
        assert_eq!(limit("1000000"), Ok(Limit::WarpInstructions(1_000_000)));
        for wrong in ["", "0", "0s", "-1", "1e9", "s", "60 apples", "99999999999999999999"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }
}

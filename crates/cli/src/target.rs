//! The flags that choose a device.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use warpwright_runtime::{Device, Schedule};

use crate::subject;

/// The device and its schedule.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceOptions {
    /// Device: `auto`, `cuda:N`, or `emu:GPU` such as `emu:h200`.
    #[arg(long, global = true, env = "WARPWRIGHT_DEVICE", default_value = "auto", value_name = "DEVICE")]
    device: String,
    /// Order in which an emulator completes asynchronous work: `eager`, `latest`, or `random:SEED`.
    #[arg(long, global = true, default_value = "eager", value_name = "SCHEDULE", value_parser = schedule)]
    schedule: Schedule,
}

impl DeviceOptions {
    /// Opens the device for a launch file; where none is named and there is no GPU, the emulator of
    /// one that its PTX is for.
    pub(crate) fn open_for(&self, launch: &Path) -> Result<Device> {
        if !self.device.is_empty() && self.device != "auto" {
            return self.open();
        }
        match Device::cuda(0) {
            Ok(gpu) => Ok(gpu),
            Err(_) => {
                let emulator = subject::emulator(None, Some(launch))?;
                Device::with_schedule(&emulator, self.schedule).context("cannot open the device")
            }
        }
    }

    /// The name of the device.
    pub(crate) fn name(&self) -> &str {
        if self.device.is_empty() { "auto" } else { &self.device }
    }

    /// Opens the device.
    pub(crate) fn open(&self) -> Result<Device> {
        Device::with_schedule(self.name(), self.schedule).context("cannot open the device")
    }
}

/// Reads a schedule.
pub(crate) fn schedule(text: &str) -> Result<Schedule, String> {
    match text {
        "eager" => Ok(Schedule::Eager),
        "latest" => Ok(Schedule::Latest),
        _ => text
            .strip_prefix("random:")
            .and_then(|seed| seed.parse().ok())
            .map(Schedule::Random)
            .ok_or_else(|| "expected `eager`, `latest` or `random:SEED` with an integer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read() {
        assert_eq!(schedule("eager"), Ok(Schedule::Eager));
        assert_eq!(schedule("latest"), Ok(Schedule::Latest));
        assert_eq!(schedule("random:42"), Ok(Schedule::Random(42)));
        for wrong in ["", "random", "random:", "random:x", "random:-1", "Eager"] {
            assert!(schedule(wrong).is_err(), "{wrong}");
        }
    }
}

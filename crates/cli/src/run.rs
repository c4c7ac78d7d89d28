//! `warpwright run`: runs a kernel of the library and checks every element of its result.

use std::time::Instant;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;

use crate::kernel::KernelChoice;
use crate::output::Output;
use crate::target::DeviceOptions;

/// Runs a kernel of the library and checks every element of its result.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    device: DeviceOptions,
    /// Say what the kernel's configuration is chosen among, which it is and why.
    #[arg(long, global = true)]
    explain: bool,
    #[command(subcommand)]
    choice: KernelChoice,
}

impl Run {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let KernelChoice { kernel, options, .. } = &self.choice;
        let device = self.device.open()?;
        let explanation = self.choice.explanation(self.explain, &device)?;
        let progress = output.progress(&format!("{} on {}", kernel.name(), device.name()));
        let failed = |error| anyhow!("{} {options} on {}: {error}", kernel.name(), device.name());
        progress.step("preparing");
        let mut prepared = kernel.prepare(&device, options).map_err(failed)?;
        let stream = device.stream()?;
        progress.step("running");
        let begin = Instant::now();
        let counts = prepared.launch(&stream).map_err(failed)?;
        stream.synchronize()?;
        let seconds = begin.elapsed().as_secs_f64();
        progress.step("checking");
        let verified = prepared.verify().map_err(failed)?;
        drop(progress);
        output.json(|| {
            json!({
                "status": "ok",
                "explanation": explanation,
                "kernel": kernel.name(),
                "options": options.to_string(),
                "device": device.name(),
                "seconds": seconds,
                "elements": verified.elements,
                "worst_error_of_tolerance": verified.worst,
                "warp_instructions": counts.warp_instructions,
                "lane_operations": counts.lane_operations,
                "mma_multiply_adds": counts.mma_multiply_adds,
            })
        });
        output.text(|| {
            let explanation = explanation.map_or(String::new(), |text| format!("{text}\n"));
            format!(
                "{explanation}{} {options} on {}: all {} elements agree with the reference (worst error {:.3} of what is tolerated), {seconds:.6} s",
                kernel.name(),
                device.name(),
                verified.elements,
                verified.worst,
            )
        });
        Ok(())
    }
}

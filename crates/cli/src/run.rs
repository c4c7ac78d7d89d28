//! `warpwright run`: runs a kernel and verifies every element of its result.

use std::time::Instant;

use anyhow::{Context, Error, Result};
use clap::Args;
use serde_json::json;

use crate::kernel::{self, KernelChoice};
use crate::output::Output;
use crate::target::DeviceOptions;

/// Run a kernel and verify every element of its result.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    device: DeviceOptions,
    /// Print the candidates of the heuristic, the one it chooses, and why.
    #[arg(long, global = true)]
    explain: bool,
    #[command(subcommand)]
    choice: KernelChoice,
}

impl Run {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let device = self.device.open()?;
        let explanation = self.choice.explanation(self.explain, &device)?;
        let choice = &self.choice;
        let progress = output.progress(&format!("{} on {}", choice.name(), device.name())).announced();
        let failed = || format!("{choice:?} on {}", device.name());
        progress.step("preparing");
        let mut prepared = choice.prepare(&device).with_context(failed)?;
        let stream = device.stream()?;
        progress.step("running");
        let begin = Instant::now();
        let counts = prepared.launch(&stream).map_err(Error::from_boxed).with_context(failed)?;
        stream.synchronize()?;
        let seconds = begin.elapsed().as_secs_f64();
        progress.step("checking");
        let verified = kernel::verify(prepared.as_mut()).with_context(failed)?;
        drop(progress);
        output.json(|| {
            json!({
                "status": "ok",
                "explanation": explanation,
                "kernel": choice.name(),
                "options": choice.flags(),
                "device": device.name(),
                "is_emulated": device.properties().is_emulated,
                "seconds": seconds,
                "elements": verified.elements,
                "worst_error_of_tolerance": verified.worst,
                "finding": verified.finding,
                "warp_instructions": counts.warp_instructions,
                "lane_operations": counts.lane_operations,
                "mma_multiply_adds": counts.mma_multiply_adds,
            })
        });
        output.text(|| {
            let explanation = explanation.map_or(String::new(), |text| format!("{text}\n"));
            let finding = verified.finding.as_ref().map_or(String::new(), |finding| format!("\n{finding}"));
            let of_emulator = if device.properties().is_emulated { " of the emulator" } else { "" };
            format!(
                "{explanation}all {} elements agree with the reference (largest error: {:.3} of its tolerance): {choice:?} on {}, {seconds:.6} s{of_emulator}{finding}",
                verified.elements,
                verified.worst,
                device.name(),
            )
        });
        Ok(())
    }
}

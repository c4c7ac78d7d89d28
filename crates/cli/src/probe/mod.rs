//! `warpwright probe`: what a model of a GPU's time needs, measured on the GPU.

mod bandwidth;
mod cluster;
mod instructions;
mod launch;
mod memory;
mod session;
mod shared_memory;
mod steps;
mod tensor_core;
mod transfer;
mod transfer_kernels;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use self::session::{Figure, Probe, Session};
use crate::conditions::{Conditions, Setting, predicted_product, predicted_times};
use crate::interrupt;
use crate::output::Output;
use crate::target::DeviceOptions;

/// Measure the latencies, issue intervals and bandwidths of a GPU.
///
/// Latencies are cycles from an instruction to the next that uses its result, intervals cycles between
/// independent instructions of a sub-core. The kernels are for sm_90a.
#[derive(Debug, Args)]
pub(crate) struct ProbeCommand {
    #[command(flatten)]
    device: DeviceOptions,
    /// Run only the probes with this text in their family or name, such as `TMA` or `fma`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// All probes.
fn probes() -> Vec<Box<dyn Probe>> {
    let steps = [instructions::steps(), shared_memory::steps(), tensor_core::steps()].into_iter().flatten();
    let mut all: Vec<Box<dyn Probe>> = steps.map(|step| Box::new(step) as Box<dyn Probe>).collect();
    for more in
        [memory::probes(), bandwidth::probes(), transfer::probes(), cluster::probes(), launch::probes()]
    {
        all.extend(more);
    }
    all
}

impl ProbeCommand {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let device = self.device.open_timed()?;
        let mut chosen = probes();
        if let Some(text) = &self.only {
            chosen.retain(|probe| probe.family().contains(text) || probe.name().contains(text));
            if chosen.is_empty() {
                bail!("no probe has `{text}` in its family or name");
            }
        }
        let setting = Setting::of(&device, None);
        let progress = output.progress(&format!("probes of {}", device.name()));
        let mut session = Session::new(device)?;
        let before = session.device.reading();
        let mut figures: Vec<Figure> = Vec::new();
        for probe in &chosen {
            if interrupt::is_requested() {
                break;
            }
            progress.step(probe.name());
            let found = probe.measure(&mut session);
            figures.extend(found.with_context(|| format!("probe `{}` of {}", probe.name(), probe.family()))?);
        }
        let conditions = Conditions { before, after: session.device.reading() };
        drop(progress);
        let device = &session.device;
        output.json(|| {
            json!({
                "status": "ok",
                "run": setting.as_json(),
                "device": device.name(),
                "product": predicted_product(device),
                "is_emulated": device.properties().is_emulated,
                "conditions": conditions.as_json(),
                "figures": figures.iter().map(Figure::as_json).collect::<Vec<_>>(),
            })
        });
        output.text(|| {
            let mut lines = vec![format!("{} ({})", device.name(), predicted_product(device))];
            let mut family = "";
            for figure in &figures {
                if figure.family != family {
                    family = figure.family;
                    lines.push(format!("{family}:"));
                }
                lines.push(format!("  {figure}"));
            }
            lines.extend(predicted_times(device));
            let clocks = conditions.as_text().map(|text| format!("; {text}")).unwrap_or_default();
            lines.push(format!("{}{clocks}", setting.as_text()));
            lines.join("\n")
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use warpwright_runtime::Device;
    use warpwright_testing::in_threads;
    use warpwright_testing::ptxas::Assembler;

    use super::*;

    #[test]
    fn every_probe_runs_on_the_emulator() {
        let device = Device::named("emu:h200").expect("an emulator");
        let mut session = Session::new(device).expect("its buffers");
        for probe in probes() {
            let figures = probe.measure(&mut session);
            let figures = figures.unwrap_or_else(|error| panic!("{}: {error:#}", probe.name()));
            assert!(!figures.is_empty(), "{}", probe.name());
            for figure in figures {
                assert!(figure.value.is_finite(), "{figure}");
            }
        }
    }

    #[test]
    fn names_are_one_of_a_kind() {
        let mut names = HashSet::new();
        for probe in probes() {
            assert!(names.insert((probe.family(), probe.name())), "{} {}", probe.family(), probe.name());
        }
    }

    #[test]
    fn ptxas_accepts_every_probe() {
        let Some(ptxas) = Assembler::from_environment() else { return };
        let texts: Vec<_> =
            probes().iter().map(|probe| (probe.name(), session::module(&probe.ptx()))).collect();
        in_threads(texts.chunks(texts.len().div_ceil(4)), |texts| {
            for (name, text) in texts {
                ptxas.assemble("sm_90a", text).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        });
    }
}

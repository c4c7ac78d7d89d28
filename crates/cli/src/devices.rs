//! `warpwright devices`: what there is to run on.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use warpwright_arch::ARCHITECTURES;
use warpwright_runtime::{Device, DeviceProperties, Error};

use crate::output::Output;

/// List the GPUs of this machine and those that can be emulated.
#[derive(Debug, Args)]
pub(crate) struct Devices {}

impl Devices {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let (gpus, missing) = gpus()?;
        output.json(|| {
            json!({
                "status": "ok",
                "gpus": gpus.iter().map(as_json).collect::<Vec<_>>(),
                "no_gpu": missing,
                "emulated": ARCHITECTURES.iter().map(|arch| json!({
                    "name": format!("emu:{}", arch.name),
                    "product": arch.product,
                    "target": arch.capability.target,
                    "sm_count": arch.sm_count,
                    "global_bytes": arch.global_bytes,
                })).collect::<Vec<_>>(),
            })
        });
        output.text(|| as_text(&gpus, missing.as_deref()));
        Ok(())
    }
}

/// The GPUs there are, or why there are none.
fn gpus() -> Result<(Vec<DeviceProperties>, Option<String>)> {
    let count = match Device::cuda_count() {
        Ok(count) => count,
        Err(error @ Error::NoDriver { .. }) => return Ok((Vec::new(), Some(error.to_string()))),
        Err(error) => return Err(error.into()),
    };
    let open = |ordinal| Ok(Device::cuda(ordinal)?.properties().clone());
    Ok(((0..count).map(open).collect::<Result<_>>()?, None))
}

fn as_json(gpu: &DeviceProperties) -> Value {
    json!({
        "name": gpu.name,
        "product": gpu.product,
        "target": gpu.target,
        "sm_count": gpu.sm_count,
        "global_bytes": gpu.global_bytes,
        "l2_bytes": gpu.l2_bytes,
        "boost_mhz": gpu.boost_mhz,
        "bytes_per_second": gpu.bytes_per_second,
        "driver": gpu.driver.map(|(major, minor)| format!("{major}.{minor}")),
    })
}

fn as_text(gpus: &[DeviceProperties], missing: Option<&str>) -> String {
    let gib = |bytes: u64| bytes >> 30;
    let mut lines = Vec::new();
    lines.extend(missing.map(str::to_owned));
    for gpu in gpus {
        let (major, minor) = gpu.driver.unwrap_or_default();
        lines.push(format!(
            "{:<12} {:<26} {:<8} {:>3} SMs {:>4} GiB  {:.0} GB/s, CUDA {major}.{minor}",
            gpu.name,
            gpu.product,
            gpu.target,
            gpu.sm_count,
            gib(gpu.global_bytes),
            gpu.bytes_per_second / 1e9,
        ));
    }
    for arch in &ARCHITECTURES {
        lines.push(format!(
            "{:<12} {:<26} {:<8} {:>3} SMs {:>4} GiB  emulated",
            format!("emu:{}", arch.name),
            arch.product,
            arch.capability.target,
            arch.sm_count,
            gib(arch.global_bytes),
        ));
    }
    lines.join("\n")
}

//! `warpwright gpu`: what each GPU is, from the tables of `arch`.

mod page;
mod picture;
mod table;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use warpwright_arch::{ARCHITECTURES, Arch};

use crate::file;
use crate::output::Output;

/// Compare all GPUs, or print and draw what one is made of: dies, SMs, clocks, memory, rates.
#[derive(Debug, Args)]
pub(crate) struct Gpu {
    /// One GPU, such as `h200`; without it, a table of all.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Draw an SM of the GPU to this file as SVG.
    #[arg(long, value_name = "FILE", requires = "name")]
    svg: Option<PathBuf>,
    /// Draw the whole die instead of one SM.
    #[arg(long, requires = "svg")]
    die: bool,
}

impl Gpu {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let Some(name) = &self.name else {
            let mut all: Vec<&Arch> = ARCHITECTURES.iter().collect();
            all.sort_by_key(|arch| (arch.capability.compute_capability, arch.bytes_per_second as u64));
            output.json(|| as_json(&all));
            output.text(|| table::text(&all));
            return Ok(());
        };
        let arch = Arch::named(name.trim_start_matches("emu:"))?;
        if let Some(path) = &self.svg {
            let drawn = if self.die { picture::die(arch)? } else { picture::sm(arch) };
            file::write(path, drawn)?;
        }
        output.json(|| as_json(&[arch]));
        output.text(|| page::text(arch));
        Ok(())
    }
}

/// The name of each rate, and its multiply-adds per SM and clock; without those that the GPU lacks.
fn rates(arch: &Arch) -> Vec<(&'static str, u32, bool)> {
    let tensor = &arch.tensor;
    let all = [
        ("f64", arch.f64_per_sm_clock, false),
        ("f32", arch.f32_per_sm_clock, false),
        ("tensor f64", tensor.f64, true),
        ("tensor tf32", tensor.tf32, true),
        ("tensor f16, bf16", tensor.f16, true),
        ("tensor fp8", tensor.fp8, true),
        ("tensor fp4", tensor.fp4, true),
        ("tensor int8", tensor.int8, true),
    ];
    all.into_iter().filter(|(_, rate, _)| *rate > 0).collect()
}

/// Operations per second at a rate in multiply-adds per SM and clock.
fn per_second(arch: &Arch, rate: u32, is_tensor: bool) -> f64 {
    match is_tensor {
        true => arch.tensor_peak(rate),
        false => arch.core_peak(rate),
    }
}

fn as_json(all: &[&Arch]) -> Value {
    let gpus = all.iter().map(|arch| {
        let capability = arch.capability;
        let rates = rates(arch).into_iter().map(|(name, rate, _)| (name.to_owned(), json!(rate)));
        json!({
            "name": arch.name,
            "product": arch.product,
            "target": capability.target,
            "die": arch.die().map(|die| json!({
                "name": die.name,
                "year": die.year,
                "process": die.process,
                "transistors": die.transistors,
                "gpcs": die.gpcs,
                "sm_count": die.sm_count(),
            })),
            "sm_count": arch.sm_count,
            "boost_mhz": arch.boost_mhz,
            "tensor_mhz": arch.tensor_mhz,
            "global_bytes": arch.global_bytes,
            "bytes_per_second": arch.bytes_per_second,
            "l2_bytes": arch.l2_bytes,
            "warps_per_sm": capability.warps_per_sm,
            "registers_per_sm": capability.registers_per_sm,
            "shared_bytes_per_sm": capability.shared_bytes_per_sm,
            "tensor_memory_columns": capability.tensor_memory_columns,
            "multiply_adds_per_sm_clock": rates.collect::<serde_json::Map<_, _>>(),
        })
    });
    json!({"status": "ok", "gpus": gpus.collect::<Vec<_>>()})
}

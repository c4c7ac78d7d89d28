//! `warpwright bench emulator`: how fast the emulator is, on a fixed set of kernels, and against
//! the CPU's own matrix product.

mod benches;
mod warp_gemm;
mod warpgroup_gemm;

use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::number;
use crate::output::Output;
use benches::Figures;

/// Rows, columns and depth of both.
const SIZE: usize = 1024;
/// The host's product is timed this often; the best counts.
const HOST_RUNS: usize = 5;

/// The bench whose time is compared with the host's.
const PRODUCT: &str = "gemm 1024";

/// How fast the emulator is on this machine
#[derive(Clone, Debug, Args)]
pub(super) struct EmulatorBench {
    /// Host threads; 0 uses one per core.
    #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u16>(0..=1024))]
    threads: u16,
    /// Run under the checkers.
    #[arg(long)]
    checked: bool,
    /// Run only this bench, for example `gemm 4096`.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

fn unknown(name: &str) -> String {
    let known: Vec<_> = benches::NAMES.iter().chain(&benches::LONG_NAMES).copied().collect();
    format!("unknown bench `{name}`; expected one of {}", known.join(", "))
}

pub(super) fn run(options: &EmulatorBench, output: Output) -> Result<()> {
    if let Some(only) = &options.only {
        let mut names = benches::NAMES.iter().chain(&benches::LONG_NAMES);
        let name = names.find(|name| *name == only).with_context(|| unknown(only))?;
        let figures = benches::run(name, options.threads.into(), options.checked)?;
        output.text(|| format!("{:<10} {:>12.2} ms", figures.name, figures.best.as_secs_f64() * 1e3));
        output.json(|| json!({ "status": "ok", "name": name, "seconds": figures.best.as_secs_f64() }));
        return Ok(());
    }

    let progress = output.progress("bench of the emulator");
    let mut figures = Vec::new();
    for name in benches::NAMES {
        progress.step(name);
        figures.push(benches::run(name, options.threads.into(), options.checked)?);
    }
    progress.step("sgemm on the host");
    let product =
        figures.iter().find(|figures| figures.name == PRODUCT).context("the emulator has no such bench")?;
    let host_seconds = host_product();
    let ratio = product.best.as_secs_f64() / host_seconds;
    drop(progress);
    let threads = figures.first().map_or(1, |figures| figures.threads);
    output.json(|| {
        json!({
            "status": "ok",
            "threads": threads,
            "kernels": figures.iter().map(|figures| json!({
                "name": figures.name,
                "seconds": figures.best.as_secs_f64(),
                "warp_instructions_per_second_and_core": figures.warp_instructions(),
                "lane_operations_per_second_and_core": figures.lane_operations(),
                "mma_multiply_adds_per_second_and_core": figures.mma_multiply_adds(),
            })).collect::<Vec<_>>(),
            "sgemm_on_host_seconds": host_seconds,
            "gemm_to_sgemm_on_host": ratio,
        })
    });
    output.text(|| as_text(&figures, threads, host_seconds, ratio));
    Ok(())
}

fn as_text(figures: &[Figures], threads: usize, host_seconds: f64, ratio: f64) -> String {
    let mut lines = vec![format!(
        "{:<10} {:>12} {:>24} {:>22} {:>22}   each core of {threads}",
        "kernel", "ms", "M warp-instructions/s", "G lane-operations/s", "G mma multiply-adds/s"
    )];
    for figures in figures {
        lines.push(format!(
            "{:<10} {:>12.2} {:>24.1} {:>22.2} {:>22.2}",
            figures.name,
            figures.best.as_secs_f64() * 1e3,
            figures.warp_instructions() / 1e6,
            figures.lane_operations() / 1e9,
            figures.mma_multiply_adds() / 1e9,
        ));
    }
    lines.push(format!(
        "emulating a bf16 GEMM of {SIZE} x {SIZE} x {SIZE} takes {ratio:.1} times as long as sgemm on the host ({:.1} ms)",
        host_seconds * 1e3
    ));
    lines.join("\n")
}

/// Seconds of the host's own product, the best of several.
fn host_product() -> f64 {
    let operand = |seed: usize| -> Vec<f32> {
        (0..SIZE * SIZE).map(|index| ((index * 31 + seed) % 17) as f32 / 17.0 - 0.5).collect()
    };
    let (a, b) = (operand(1), operand(2));
    let mut c = vec![0f32; SIZE * SIZE];
    let row = SIZE as isize;
    let mut once = || {
        let begin = Instant::now();
        // SAFETY: each matrix has SIZE x SIZE elements, and the strides are those of rows of SIZE;
        // `c` overlaps neither input.
        unsafe {
            matrixmultiply::sgemm(
                SIZE,
                SIZE,
                SIZE,
                1.0,
                a.as_ptr(),
                row,
                1,
                b.as_ptr(),
                row,
                1,
                0.0,
                c.as_mut_ptr(),
                row,
                1,
            );
        }
        begin.elapsed().as_secs_f64()
    };
    (0..HOST_RUNS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

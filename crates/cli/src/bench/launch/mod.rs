//! `warpwright bench launch`: what the host pays for the first use of a kernel, and for each launch
//! after it.

mod cost;

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use warpwright_runtime::Device;

use crate::conditions::{Setting, emulated_times, timed_product};
use crate::output::Output;
use cost::{FirstUse, LaunchCost, first_use, launch_costs};

/// Launches of each kernel on a GPU. An emulated launch runs the kernel.
const LAUNCHES: usize = 10_000;
const EMULATED_LAUNCHES: usize = 10;

pub(super) fn run(device: &Device, output: Output) -> Result<()> {
    let setting = Setting::of(device, None);
    let emulated = device.properties().is_emulated;
    let progress = output.progress(&format!("launches on {}", device.name()));
    // Before anything else, so that nothing of it has been done.
    progress.step("first use");
    let first = first_use(device).map_err(anyhow::Error::from_boxed)?;
    progress.step("launches");
    let launches = if emulated { EMULATED_LAUNCHES } else { LAUNCHES };
    let costs = launch_costs(device, launches).map_err(anyhow::Error::from_boxed)?;
    drop(progress);
    output.json(|| {
        json!({
            "status": "ok",
            "run": setting.as_json(),
            "device": device.name(),
            "product": timed_product(device),
            "is_emulated": emulated,
            "first_use": {
                "stage_seconds": first.stage.as_secs_f64(),
                "write_seconds": first.write.as_secs_f64(),
                "load_seconds": first.load.as_secs_f64(),
                "total_seconds": first.total().as_secs_f64(),
                "ptx_bytes": first.ptx_bytes,
            },
            "launches": costs.iter().map(|cost| json!({
                "kernel": cost.kernel,
                "arguments": cost.arguments,
                "launches": cost.launches,
                "median_seconds": cost.median.as_secs_f64(),
                "highest_seconds": cost.highest.as_secs_f64(),
            })).collect::<Vec<_>>(),
        })
    });
    output.text(|| {
        let note = emulated_times(device).map_or(String::new(), |note| format!("\n{note}"));
        as_text(&first, &costs, device.name()) + &note
    });
    Ok(())
}

fn as_text(first: &FirstUse, costs: &[LaunchCost], device: &str) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut lines = vec![format!(
        "first use of the Hopper GEMM on {device}: {:.2} ms (stage {:.2}, write {} KB of PTX {:.2}, load {:.2})",
        ms(first.total()),
        ms(first.stage),
        first.ptx_bytes.div_ceil(1024),
        ms(first.write),
        ms(first.load),
    )];
    for cost in costs {
        lines.push(format!(
            "each launch of {} ({}): {:.2} us, at most {:.2} us, of {}",
            cost.kernel,
            cost.arguments,
            ms(cost.median) * 1e3,
            ms(cost.highest) * 1e3,
            cost.launches,
        ));
    }
    lines.join("\n")
}

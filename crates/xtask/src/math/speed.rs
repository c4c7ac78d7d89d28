//! The throughput of each function in a loop, beside CUDA's library.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use warpwright::prelude::*;
use warpwright::runtime::Device;
use warpwright_lang::math::table::Function;

/// Time a loop of each function, and print its throughput beside CUDA's.
///
/// The CUDA program is `crates/xtask/src/math/libdevice.cu`, with the same loop. Compile and run it
/// on the same GPU: `nvcc -O3 -arch=native -o libdevice libdevice.cu && ./libdevice >
/// libdevice.txt`.
#[derive(Debug, Args)]
pub(crate) struct Speed {
    /// Output of the CUDA program.
    #[arg(long)]
    libdevice: Option<PathBuf>,
    /// CTAs of a launch.
    #[arg(long, default_value_t = 132 * 8)]
    grid: u32,
    /// Rounds of the loop, each with four evaluations.
    #[arg(long, default_value_t = 4096)]
    rounds: u32,
}

const THREADS: u32 = 256;
const LAUNCHES: u32 = 21;

/// Four running sums of a function at arguments that advance by a step.
struct Loop {
    function: fn(Reg<f32>) -> Reg<f32>,
}

impl Loop {
    #[kernel]
    fn run(&self, first: f32, step: f32, rounds: u32, sums: &mut Global<f32>) {
        launch::threads(THREADS);
        let thread = block_idx().x * THREADS + thread_idx().x;
        let mut x = (thread as f32).mul_add(step, first);
        let mut sum = [constant(0.0f32); 4];
        for _ in 0..rounds {
            for k in 0..4 {
                sum[k] += (self.function)(x);
                x += step;
            }
        }
        sums[thread] = sum[0] + sum[1] + sum[2] + sum[3];
    }
}

impl Speed {
    pub(crate) fn run(&self, device: &Device, functions: &[&Function<f32>]) -> Result<Value> {
        let theirs = self.libdevice.as_deref().map(read).transpose()?.unwrap_or_default();
        println!("{:<16} {:>10} {:>10} {:>6}", "function", "ours", "CUDA's", "ratio");
        let mut rows = Vec::new();
        for function in functions {
            let ours = self.throughput(device, function)?;
            let theirs = theirs.get(function.name).copied();
            let ratio = theirs.map(|theirs| ours / theirs);
            let show = |number: Option<f64>, digits| {
                number.map_or("-".to_owned(), |number| format!("{number:.digits$}"))
            };
            println!("{:<16} {ours:>10.1} {:>10} {:>6}", function.name, show(theirs, 1), show(ratio, 3));
            rows.push(json!({ "function": function.name, "ours": ours, "cuda": theirs, "ratio": ratio }));
        }
        println!("in 10^9 evaluations a second");
        Ok(json!({ "device": device.name(), "functions": rows }))
    }

    /// 10^9 evaluations a second: the median of several launches.
    fn throughput(&self, device: &Device, function: &Function<f32>) -> Result<f64> {
        let kernel = device.compile(&Loop { function: function.record }.run()?)?;
        let threads = self.grid * THREADS;
        let mut sums = device.uninitialized::<f32>(threads as usize)?;
        let stream = device.stream()?;
        let evaluations = f64::from(threads) * f64::from(self.rounds) * 4.0;
        let (low, high) = function.range;
        // The last thread ends at the end of the range.
        let step = (high - low) / (threads as f32 + self.rounds as f32 * 4.0);
        let launches = if device.properties().is_emulated { 1 } else { LAUNCHES };
        let mut seconds = Vec::new();
        for _ in 0..=launches {
            let begin = stream.record()?;
            kernel.launch(&stream, self.grid, (low, step, self.rounds, &mut sums))?;
            let end = stream.record()?;
            end.synchronize()?;
            seconds.push(end.since(&begin)?.as_secs_f64());
        }
        // The first launch is a warm-up.
        seconds.remove(0);
        seconds.sort_by(f64::total_cmp);
        Ok(evaluations / seconds[seconds.len() / 2] / 1e9)
    }
}

/// The lines of the CUDA program: a function and its throughput.
fn read(path: &std::path::Path) -> Result<HashMap<String, f64>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let line = |line: &str| {
        let (name, number) =
            line.split_once(' ').with_context(|| format!("`{line}` is not a name and a number"))?;
        Ok((name.to_owned(), number.trim().parse()?))
    };
    text.lines().map(line).collect()
}

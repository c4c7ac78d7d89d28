//! `warpwright bench all-reduce`: how long several GPUs of a host take to add up their buffers, by size.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use warpwright::prelude::bf16;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;
use warpwright_runtime::{Buffer, Device, Graph, Stream};

use crate::conditions::{Setting, emulated_times, timed_product};
use crate::number;
use crate::output::Output;

/// All-reduces of a graph on GPUs.
const OF_GRAPH: u32 = 64;
/// Graphs that are launched before the timed ones.
const WARM_UP: u32 = 3;

/// All-reduce of bf16 on several GPUs of a host
#[derive(Clone, Debug, Args)]
pub(super) struct AllReduceBench {
    /// GPUs, from the device on.
    #[arg(long, default_value_t = 2, value_name = "N", allow_negative_numbers = true, value_parser = number::integer::<u32>(2..=8))]
    ranks: u32,
    /// Sizes of the buffers in KiB. The defaults are those of decodes of 1, 16, 64 and 128 sequences and of a
    /// prompt of 8,192 tokens, with 4,096 elements each.
    #[arg(long, value_name = "KIB", value_delimiter = ',', default_value = "8,128,512,1024,65536", value_parser = number::integer::<u32>(1..=1 << 21))]
    kib: Vec<u32>,
}

/// What a rank launches.
struct Rank {
    stream: Stream,
    graph: Graph,
    y: Buffer<bf16>,
    // The graph refers to its memory.
    _communicator: Communicator,
}

pub(super) fn run(options: &AllReduceBench, device: &str, batches: u32, output: Output) -> Result<()> {
    let devices = Device::peers(device, options.ranks).context("cannot open the devices")?;
    let setting = Setting::of(&devices[0], None);
    let is_emulated = devices[0].properties().is_emulated;
    let progress = output.progress(&format!("all-reduce on {} devices", devices.len()));
    let mut timed = vec![];
    for kib in &options.kib {
        progress.step(format!("{kib} KiB"));
        let batches = if is_emulated { 1 } else { batches };
        timed.push((*kib, time(&devices, *kib as usize * 1024, batches)?));
    }
    drop(progress);
    output.json(|| {
        json!({
            "status": "ok",
            "run": setting.as_json(),
            "device": devices[0].name(),
            "product": timed_product(&devices[0]),
            "is_emulated": is_emulated,
            "ranks": options.ranks,
            "all_reduce": timed.iter().map(|(kib, median)| json!({
                "bytes": u64::from(*kib) * 1024,
                "median_seconds": median.as_secs_f64(),
            })).collect::<Vec<_>>(),
        })
    });
    output.text(|| {
        let line = |(kib, median): &(u32, Duration)| {
            let sent = f64::from(*kib) * 1024.0 * f64::from(options.ranks - 1);
            let seconds = median.as_secs_f64();
            format!("{kib:>8} KiB {:>10.2} us {:>8.1} GB/s sent by each", seconds * 1e6, sent / seconds / 1e9)
        };
        let note = emulated_times(&devices[0]).map_or(String::new(), |note| format!("\n{note}"));
        timed.iter().map(line).collect::<Vec<_>>().join("\n") + &note
    });
    Ok(())
}

/// The median time of an all-reduce of `bytes` bytes on the first rank.
fn time(devices: &[Device], bytes: usize, batches: u32) -> Result<Duration> {
    let of_graph = if devices[0].properties().is_emulated { 1 } else { OF_GRAPH };
    let communicators = Communicator::of_devices(devices)?;
    let ranks = devices.iter().zip(communicators).map(|(device, communicator)| {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let x = vec![bf16::from_f32(1.0 + communicator.rank() as f32); bytes / size_of::<bf16>()];
        let (x, mut y) = (device.buffer_from(&x)?, device.zeros(x.len())?);
        let graph = stream.capture(|stream| {
            (0..of_graph).try_for_each(|_| communicator.all_reduce(&operations, stream, &x, &mut y).map(drop))
        })?;
        Ok(Rank { stream, graph, y, _communicator: communicator })
    });
    let ranks = ranks.collect::<Result<Vec<_>>>()?;
    let measure = |rank: &Rank| -> Result<Duration> {
        let mut times = vec![];
        for batch in 0..WARM_UP + batches {
            let begin = rank.stream.record()?;
            rank.graph.launch(&rank.stream)?;
            let end = rank.stream.record()?;
            end.synchronize()?;
            if batch >= WARM_UP {
                times.push(end.since(&begin)? / of_graph);
            }
        }
        let expected = bf16::from_f32((1..=devices.len()).sum::<usize>() as f32);
        if rank.y.to_vec()?.iter().any(|found| *found != expected) {
            bail!("a wrong sum on {}", rank.stream.device().name());
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    };
    thread::scope(|scope| {
        let others: Vec<_> = ranks[1..].iter().map(|rank| scope.spawn(|| measure(rank))).collect();
        let first = measure(&ranks[0]);
        for other in others {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        first
    })
}

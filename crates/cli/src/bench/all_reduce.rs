//! `warpwright bench all-reduce`: how long several GPUs of a host take to add up their buffers, by size.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use warpwright::prelude::bf16;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;
use warpwright_runtime::nccl::{self, NcclRank};
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
    /// Time NCCL, too, whose library is loaded for it. Its all-reduces are launched one by one, ours in a graph.
    #[arg(long)]
    nccl: bool,
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
    let batches = if is_emulated { 1 } else { batches };
    for kib in &options.kib {
        progress.step(format!("{kib} KiB"));
        timed.push(("", *kib, time(&devices, *kib as usize * 1024, batches)?));
    }
    if options.nccl {
        // After ours: see `warpwright_runtime::nccl`.
        for kib in &options.kib {
            progress.step(format!("{kib} KiB by NCCL"));
            timed.push((" by NCCL", *kib, time_nccl(&devices, *kib as usize * 1024, batches)?));
        }
    }
    drop(progress);
    let nccl_version = if options.nccl { Some(nccl::version()?) } else { None };
    output.json(|| {
        json!({
            "status": "ok",
            "run": setting.as_json(),
            "device": devices[0].name(),
            "product": timed_product(&devices[0]),
            "is_emulated": is_emulated,
            "ranks": options.ranks,
            "nccl_version": nccl_version,
            "all_reduce": timed.iter().map(|(by, kib, median)| json!({
                "by": if by.is_empty() { "warpwright" } else { "nccl" },
                "bytes": u64::from(*kib) * 1024,
                "median_seconds": median.as_secs_f64(),
            })).collect::<Vec<_>>(),
        })
    });
    output.text(|| {
        let line = |(by, kib, median): &(&str, u32, Duration)| {
            // What a rank sends if all ranks get its part.
            let sent = f64::from(*kib) * 1024.0 * f64::from(options.ranks - 1);
            let seconds = median.as_secs_f64();
            let (microseconds, rate) = (seconds * 1e6, sent / seconds / 1e9);
            format!("{kib:>8} KiB {microseconds:>10.2} us {rate:>8.1} GB/s{by}")
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
        let (x, mut y) = buffers(device, communicator.rank(), bytes)?;
        let graph = stream.capture(|stream| {
            (0..of_graph).try_for_each(|_| communicator.all_reduce(&operations, stream, &x, &mut y).map(drop))
        })?;
        Ok(Rank { stream, graph, y, _communicator: communicator })
    });
    let measure = |rank: Rank| {
        let median =
            median((&rank.stream, of_graph), batches, || Ok(rank.graph.launch(&rank.stream).map(drop)?))?;
        check(&rank.y, devices.len())?;
        Ok(median)
    };
    on_threads(ranks.collect::<Result<Vec<_>>>()?, measure)
}

/// The same of NCCL.
fn time_nccl(devices: &[Device], bytes: usize, batches: u32) -> Result<Duration> {
    let ranks =
        NcclRank::of_devices(devices)?.into_iter().zip(devices).enumerate().map(|(rank, (nccl, device))| {
            let (x, y) = buffers(device, rank as u32, bytes)?;
            Ok((nccl, device.stream()?, x, y))
        });
    let measure = |(mut nccl, stream, x, mut y): (NcclRank, Stream, Buffer<bf16>, Buffer<bf16>)| {
        let launch = || Ok((0..OF_GRAPH).try_for_each(|_| nccl.all_reduce(&stream, &x, &mut y))?);
        let median = median((&stream, OF_GRAPH), batches, launch)?;
        check(&y, devices.len())?;
        Ok(median)
    };
    on_threads(ranks.collect::<Result<Vec<_>>>()?, measure)
}

/// The part of a rank, and what the sum is written to.
fn buffers(device: &Device, rank: u32, bytes: usize) -> Result<(Buffer<bf16>, Buffer<bf16>)> {
    let x = vec![bf16::from_f32(1.0 + rank as f32); bytes / size_of::<bf16>()];
    Ok((device.buffer_from(&x)?, device.zeros(x.len())?))
}

/// The median time of an all-reduce, of which `launch` starts `of_batch`.
fn median(
    (stream, of_batch): (&Stream, u32),
    batches: u32,
    mut launch: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    let mut times = vec![];
    for batch in 0..WARM_UP + batches {
        let begin = stream.record()?;
        launch()?;
        let end = stream.record()?;
        end.synchronize()?;
        if batch >= WARM_UP {
            times.push(end.since(&begin)? / of_batch);
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Refuses a wrong sum of the parts of all ranks.
fn check(y: &Buffer<bf16>, ranks: usize) -> Result<()> {
    let expected = bf16::from_f32((1..=ranks).sum::<usize>() as f32);
    if y.to_vec()?.iter().any(|found| *found != expected) {
        bail!("a wrong sum on {}", y.device().name());
    }
    Ok(())
}

/// Measures each rank on a thread of its own. The result is that of the first.
fn on_threads<R: Send>(ranks: Vec<R>, measure: impl Fn(R) -> Result<Duration> + Sync) -> Result<Duration> {
    let measure = &measure;
    thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || measure(rank))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Duration>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let times = threads.into_iter().map(join).collect::<Result<Vec<_>>>()?;
        times.first().copied().context("there is a rank")
    })
}

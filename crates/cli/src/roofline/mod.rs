//! `warpwright roofline`: how far a kernel could go, from what it does.
//!
//! Operations and bytes are counted on the emulator; the roofs are the GPU's, as measured where
//! they were. On a GPU the kernel is timed as well; otherwise its time is predicted.

mod chart;

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use warpwright_arch::{Arch, Bound, Roof};
use warpwright_runtime::{Counters, Device, Unit};

use crate::bench::timing;
use crate::exec;
use crate::file;
use crate::kernel::{self, KernelChoice};
use crate::output::Output;
use crate::subject::{self, Subject};
use crate::target::LimitOption;

/// How many batches are timed; their median counts.
const BATCHES: usize = 7;

/// Place a kernel under the roofs of a GPU, with operations and bytes counted on the emulator.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Roofline {
    /// Launch file, as for `exec`, instead of a kernel.
    launch: Option<PathBuf>,
    /// GPU whose roofs are drawn: `emu:GPU`, or `cuda:N`, where the kernel is timed as well
    /// [default: emu:h200, or a GPU that runs the launch file's PTX].
    #[arg(long, global = true, value_name = "DEVICE")]
    device: Option<String>,
    /// Draw the chart to this SVG file.
    #[arg(long, global = true, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    limit: LimitOption,
    #[command(subcommand)]
    choice: Option<KernelChoice>,
}

/// What a kernel does, and what the roofs make of it.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    /// Operations that run into a roof, by it.
    operations: Vec<(Bound, u64)>,
    /// Bytes of device memory: each sector that was read, and each that was written, once a launch.
    bytes: u64,
    /// Of them, those that were read.
    read_bytes: u64,
    /// What device memory moves a second in the kernel's shares of reads and writes.
    memory_per_second: f64,
    /// Bytes between L2 and the SMs: all sectors of all requests.
    l2_bytes: u64,
    /// The least time, in seconds.
    seconds: f64,
    /// What takes the longest.
    limit: Bound,
}

/// The time of one launch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    seconds: f64,
    is_predicted: bool,
}

impl Time {
    fn word(self) -> &'static str {
        if self.is_predicted { "predicted" } else { "measured" }
    }
}

/// The roof of a unit's operations; integers and special functions have none here.
fn bound(unit: Unit) -> Option<Bound> {
    Some(match unit {
        Unit::F32 => Bound::F32,
        Unit::F16 => Bound::F16,
        Unit::F64 => Bound::F64,
        Unit::TensorF64 => Bound::TensorF64,
        Unit::TensorTf32 => Bound::TensorTf32,
        Unit::TensorBf16 => Bound::TensorBf16,
        Unit::TensorF16 => Bound::TensorF16,
        Unit::TensorFp8 => Bound::TensorFp8,
        Unit::TensorFp4 => Bound::TensorFp4,
        Unit::TensorInt8 => Bound::TensorInt8,
        _ => return None,
    })
}

/// How fast a roof is; one that the GPU lacks limits nothing.
fn rate(bound: Bound, roofs: &[Roof]) -> f64 {
    roofs.iter().find(|roof| roof.bound == bound).map_or(f64::INFINITY, |roof| roof.per_second)
}

/// How long device memory takes at least. As much as is both read and written goes as a copy does,
/// and the rest as reads do: of writes alone nothing faster is known.
fn memory_seconds(read: u64, written: u64, roofs: &[Roof]) -> f64 {
    let as_copy = 2 * read.min(written);
    as_copy as f64 / rate(Bound::DeviceMemory, roofs)
        + (read + written - as_copy) as f64 / rate(Bound::DeviceMemoryReads, roofs)
}

impl Place {
    /// The place of all kernels of a launch together.
    fn of(counted: &[Counters], roofs: &[Roof]) -> Self {
        let mut operations: Vec<(Bound, u64)> = Vec::new();
        let (mut read_bytes, mut written_bytes, mut l2_bytes) = (0, 0, 0);
        for counters in counted {
            let total = counters.total();
            read_bytes += 32 * counters.sectors_read;
            written_bytes += 32 * counters.sectors_written;
            l2_bytes += 32 * (total.counts.global().sectors + total.counts.copies.sectors);
            for (unit, count) in total.operations {
                let Some(bound) = bound(unit) else { continue };
                match operations.iter_mut().find(|(found, _)| *found == bound) {
                    Some((_, sum)) => *sum += count,
                    None => operations.push((bound, count)),
                }
            }
        }
        let seconds = |bound: Bound, count: u64| count as f64 / rate(bound, roofs);
        let (bytes, of_memory) =
            (read_bytes + written_bytes, memory_seconds(read_bytes, written_bytes, roofs));
        let memory_per_second = match bytes {
            0 => rate(Bound::DeviceMemory, roofs),
            bytes => bytes as f64 / of_memory,
        };
        let memory = (Bound::DeviceMemory, of_memory);
        let (limit, seconds) = operations
            .iter()
            .map(|&(bound, count)| (bound, seconds(bound, count)))
            .fold(memory, |most, next| if next.1 > most.1 { next } else { most });
        Self { operations, bytes, read_bytes, memory_per_second, l2_bytes, seconds, limit }
    }

    fn all_operations(&self) -> u64 {
        self.operations.iter().map(|(_, count)| count).sum()
    }

    /// Operations a byte of device memory.
    fn intensity(&self) -> f64 {
        self.all_operations() as f64 / self.bytes.max(1) as f64
    }

    /// The unit with most operations; the CUDA cores where there are none.
    fn main_bound(&self) -> Bound {
        self.operations.iter().max_by_key(|(_, count)| *count).map_or(Bound::F32, |(bound, _)| *bound)
    }
}

impl Roofline {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let subject = Subject::named(self.choice.as_ref(), self.launch.as_deref())?;
        let name = subject.name();
        exec::expect_kept(("--svg", self.svg.as_deref()), self.launch.as_deref())?;
        let device = Device::named(&subject::emulator(self.device.as_deref(), self.launch.as_deref())?)?;
        let arch = arch_of(&device)?;
        let roofs = arch.roofs();
        let progress = output.progress(&name).announced();
        progress.step("counting");
        let counting = Device::named(&format!("emu:{}", arch.name))?.counted()?;
        let is_predicted = device.properties().is_emulated;
        let counting = if is_predicted { counting.timed()? } else { counting };
        let observed = subject.observe(counting, &self.limit).with_context(|| name.clone())?;
        let place = Place::of(&observed.counters, &roofs);
        let time = if is_predicted {
            let microseconds: f64 = observed.predictions.iter().map(|launch| launch.microseconds).sum();
            Some(Time { seconds: microseconds / 1e6, is_predicted })
        } else {
            progress.step("timing");
            self.measured(&device)?
        };
        drop(progress);
        if let Some(file) = &self.svg {
            let title = format!("{name} on {}", arch.product);
            file::write(file, chart::svg(&title, &place, time, &roofs))?;
        }
        output.json(|| as_json(&name, arch, &place, time, &roofs));
        output.text(|| as_text(&name, arch, &place, time, &roofs));
        Ok(())
    }

    /// The time that the kernel takes on a GPU.
    fn measured(&self, device: &Device) -> Result<Option<Time>> {
        let Some(choice) = &self.choice else {
            bail!(
                "only kernels of the library can be timed here; place a launch file with `--device emu:GPU`"
            );
        };
        let mut prepared = choice.prepare(device)?;
        let timings = timing::time(&mut [prepared.as_mut()], device, &device.stream()?, BATCHES)?;
        kernel::verify(prepared.as_mut())?;
        let measured = timings.kernels.first().map(timing::Timing::median);
        Ok(measured.map(|seconds| Time { seconds, is_predicted: false }))
    }
}

/// The GPU whose roofs are meant.
fn arch_of(device: &Device) -> Result<&'static Arch> {
    let properties = device.properties();
    if properties.is_emulated {
        return Ok(Arch::named(properties.name.trim_start_matches("emu:"))?);
    }
    let known =
        warpwright_arch::ARCHITECTURES.iter().find(|arch| properties.product.starts_with(arch.product));
    known.ok_or_else(|| {
        anyhow!("the roofs of {} are not known; `--device emu:GPU` takes those of GPU", properties.product)
    })
}

fn is_memory(bound: Bound) -> bool {
    matches!(bound, Bound::DeviceMemory | Bound::DeviceMemoryReads)
}

/// A rate with its unit.
fn shown(bound: Bound, per_second: f64) -> String {
    let unit = if is_memory(bound) { "B/s" } else { "OP/s" };
    match per_second {
        rate if rate >= 1e12 => format!("{:.2} T{unit}", rate / 1e12),
        rate if rate >= 1e9 => format!("{:.2} G{unit}", rate / 1e9),
        rate => format!("{:.2} M{unit}", rate / 1e6),
    }
}

/// How fast the kernel goes if it takes this long: operations per second, or bytes where it computes
/// nothing.
fn speed(place: &Place, seconds: f64) -> String {
    match place.all_operations() {
        0 => shown(Bound::DeviceMemory, place.bytes as f64 / seconds),
        operations => shown(place.main_bound(), operations as f64 / seconds),
    }
}

fn as_text(name: &str, arch: &Arch, place: &Place, time: Option<Time>, roofs: &[Roof]) -> String {
    let mut lines = vec![format!("{name} under the roofs of {}", arch.product)];
    for (bound, count) in &place.operations {
        lines.push(format!("operations    {:>16} {}", count, bound.name()));
    }
    if place.operations.is_empty() {
        lines.push("operations                   0".to_owned());
    }
    lines.push(format!(
        "device memory {:>16} bytes: {:.2} operations per byte",
        place.bytes,
        place.intensity()
    ));
    let of_l2 = place.all_operations() as f64 / place.l2_bytes.max(1) as f64;
    lines.push(format!("L2            {:>16} bytes: {of_l2:.2} operations per byte", place.l2_bytes));
    lines.push(String::new());
    for roof in roofs.iter().filter(|roof| is_of(roof, place)) {
        lines.push(format!(
            "roof          {:<16} {:>12}  {}",
            roof.bound.name(),
            shown(roof.bound, roof.per_second),
            roof.source
        ));
    }
    lines.push(format!(
        "memory        {:<16} {:>12}  for {:.0} % reads",
        "in its shares",
        shown(Bound::DeviceMemory, place.memory_per_second),
        100.0 * place.read_bytes as f64 / place.bytes.max(1) as f64
    ));
    lines.push(format!(
        "at most {}, limited by {}: {} at least",
        speed(place, place.seconds),
        place.limit.name(),
        shown_time(place.seconds)
    ));
    if let Some(time @ Time { seconds, is_predicted }) = time {
        // A roof is the best that was measured, so what is faster is the new roof.
        let is_beyond = seconds < place.seconds && !is_predicted;
        let beyond = if is_beyond { ", faster than anything measured before" } else { "" };
        lines.push(format!(
            "{} {}: {}, {:.1} % of that{beyond}",
            time.word(),
            speed(place, seconds),
            shown_time(seconds),
            100.0 * (place.seconds / seconds).min(1.0)
        ));
    }
    lines.join("\n")
}

/// Microseconds; nanoseconds of what a small launch takes under the roofs.
fn shown_time(seconds: f64) -> String {
    if seconds >= 1e-6 { format!("{:.3} us", 1e6 * seconds) } else { format!("{:.3} ns", 1e9 * seconds) }
}

/// Whether a roof is over what the kernel does.
fn is_of(roof: &Roof, place: &Place) -> bool {
    is_memory(roof.bound) || place.operations.iter().any(|(bound, _)| *bound == roof.bound)
}

fn as_json(name: &str, arch: &Arch, place: &Place, time: Option<Time>, roofs: &[Roof]) -> Value {
    let roof = |roof: &Roof| {
        json!({
            "bound": roof.bound.name(),
            "per_second": roof.per_second,
            "measured": roof.is_measured,
            "source": roof.source,
        })
    };
    let operations = place.operations.iter().map(|(bound, count)| (bound.name().to_owned(), json!(count)));
    json!({
        "status": "ok",
        "kernel": name,
        "product": arch.product,
        "operations": operations.collect::<serde_json::Map<_, _>>(),
        "device_memory_bytes": place.bytes,
        "device_memory_bytes_read": place.read_bytes,
        "device_memory_per_second": place.memory_per_second,
        "l2_bytes": place.l2_bytes,
        "operations_per_byte": place.intensity(),
        "least_seconds": place.seconds,
        "limited_by": place.limit.name(),
        "measured_seconds": time.filter(|time| !time.is_predicted).map(|time| time.seconds),
        "predicted_seconds": time.filter(|time| time.is_predicted).map(|time| time.seconds),
        "roofs": roofs.iter().map(roof).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(operations: Vec<(Bound, u64)>, bytes: u64) -> Place {
        Place {
            operations,
            bytes,
            read_bytes: bytes / 2,
            memory_per_second: 4.28e12,
            l2_bytes: bytes,
            seconds: 1.0,
            limit: Bound::DeviceMemory,
        }
    }

    #[test]
    fn intensity_and_speed_follow_from_the_counts() {
        let gemm = place(vec![(Bound::F32, 3), (Bound::TensorBf16, 1 << 30)], 1 << 20);
        assert_eq!(gemm.main_bound(), Bound::TensorBf16);
        assert!((gemm.intensity() - 1024.0).abs() < 0.01);
        assert_eq!(speed(&gemm, 1e-3), "1.07 TOP/s");
        let copy = place(Vec::new(), 4_260_000);
        assert_eq!((copy.intensity(), speed(&copy, 1e-6)), (0.0, "4.26 TB/s".to_owned()));
    }

    #[test]
    fn times_of_small_launches_are_told() {
        assert_eq!([2.5e-4, 1e-6, 8.19e-10].map(shown_time), ["250.000 us", "1.000 us", "0.819 ns"]);
    }

    #[test]
    fn memory_is_as_fast_as_its_share_of_reads_lets_it() {
        let roofs = Arch::named("h200").expect("in the table").roofs();
        let of = |read, written| {
            let tera = (read + written) as f64 / memory_seconds(read, written, &roofs) / 1e12;
            (tera * 1e3).round() / 1e3
        };
        assert_eq!((of(1000, 1000), of(1000, 0)), (4.28, 4.69));
        // `add` reads twice what it writes, and was measured at 4.36 TB/s
        // (docs/results/2026-11-21-memory-bound.md).
        assert!((4.36..4.42).contains(&of(2000, 1000)), "{}", of(2000, 1000));
        assert!(of(0, 1000) >= of(1000, 1000), "of writes alone nothing was measured");
    }

    #[test]
    fn nothing_is_past_its_roof() {
        let arch = Arch::named("h200").expect("in the table");
        let roofs = arch.roofs();
        let mut place = place(vec![(Bound::F32, 1000)], 1 << 20);
        place.seconds = 2e-6;
        let timed =
            |seconds, is_predicted| as_text("k", arch, &place, Some(Time { seconds, is_predicted }), &roofs);
        let told = |seconds| timed(seconds, false);
        assert!(told(4e-6).ends_with("50.0 % of that"), "{}", told(4e-6));
        assert!(
            told(1e-6).ends_with("100.0 % of that, faster than anything measured before"),
            "{}",
            told(1e-6)
        );
        let predicted = timed(1e-6, true);
        assert!(predicted.contains("\npredicted ") && predicted.ends_with("100.0 % of that"), "{predicted}");
    }
}

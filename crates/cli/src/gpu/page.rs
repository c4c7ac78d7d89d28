//! One GPU, whole.

use warpwright_arch::Arch;
use warpwright_arch::timing::Figure;

use super::{per_second, rates};

/// Bytes of a register.
const REGISTER_BYTES: u32 = 4;

pub(super) fn text(arch: &Arch) -> String {
    let (major, minor) = arch.capability.compute_capability;
    let mut lines = vec![format!(
        "{}: {}, compute capability {major}.{minor}, {}",
        arch.name, arch.product, arch.capability.target
    )];
    lines.extend(die(arch));
    lines.extend(sm(arch));
    lines.push(String::new());
    lines.push(format!("{:<18} {:>14} {:>12}", "multiply-adds", "per SM, clock", "TFLOP/s"));
    for (name, rate, is_tensor) in rates(arch) {
        let tera = per_second(arch, rate, is_tensor) / 1e12;
        lines.push(format!("{name:<18} {rate:>14} {tera:>12.1}"));
    }
    lines.push(clocks(arch));
    lines.push(String::new());
    lines.extend(memories(arch));
    lines.join("\n")
}

fn clocks(arch: &Arch) -> String {
    match arch.boost_mhz == arch.tensor_mhz {
        true => format!("at {} MHz", arch.boost_mhz),
        false => format!("at {} MHz, tensor rates at {} MHz", arch.boost_mhz, arch.tensor_mhz),
    }
}

fn die(arch: &Arch) -> Option<String> {
    let die = arch.die()?;
    let pieces = if die.pieces == 1 { "die" } else { "two dies as one" };
    Some(format!(
        "{pieces}: {}, {}, {}, {:.1} billion transistors; {} GPCs of {} TPCs of 2 SMs: {} SMs, {} enabled",
        die.name,
        die.year,
        die.process,
        die.transistors / 1e9,
        die.gpcs,
        die.tpcs_per_gpc,
        die.sm_count(),
        arch.sm_count
    ))
}

fn sm(arch: &Arch) -> Vec<String> {
    let capability = arch.capability;
    let partitions = capability.partitions_per_sm;
    let tensor_cores = match capability.tensor_cores_per_partition() {
        1 => "1 tensor core".to_owned(),
        count => format!("{count} tensor cores"),
    };
    let mut lines = vec![
        format!(
            "SM: {partitions} partitions, each with a scheduler, {} f32 lanes, {tensor_cores}, {} registers of 32 bits",
            arch.f32_per_sm_clock / partitions,
            capability.registers_per_sm / partitions
        ),
        format!(
            "    at most {} warps ({} threads) and {} CTAs at once, {} KiB of shared memory",
            capability.warps_per_sm,
            capability.threads_per_sm,
            capability.ctas_per_sm,
            capability.shared_bytes_per_sm >> 10
        ),
        format!(
            "all SMs: {} threads at once, {} f32 multiply-adds a clock",
            arch.sm_count * capability.threads_per_sm,
            arch.sm_count * arch.f32_per_sm_clock
        ),
    ];
    if capability.tensor_memory_columns > 0 {
        let kib = (capability.tensor_memory_columns * 128 * REGISTER_BYTES) >> 10;
        lines.insert(
            2,
            format!("    tensor memory: 128 lanes, {} columns, {kib} KiB", capability.tensor_memory_columns),
        );
    }
    lines
}

/// A row of the table of memories: its name, what it holds, and the latency where it is known.
fn memories(arch: &Arch) -> Vec<String> {
    let (capability, timing) = (arch.capability, arch.timing());
    let kib = |bytes: u32| format!("{} KiB per SM", bytes >> 10);
    let latency = |figure: Figure| (format!("{:.0}", figure.value), figure.source);
    let rows = [
        ("registers", kib(capability.registers_per_sm * REGISTER_BYTES), None),
        ("shared memory", kib(capability.shared_bytes_per_sm), Some(timing.shared_latency)),
        ("L1 cache", "beside shared memory".to_owned(), Some(timing.l1_latency)),
        (
            "L2 cache",
            format!("{:.1} MiB", arch.l2_bytes as f64 / f64::from(1 << 20)),
            Some(timing.l2_latency),
        ),
        ("device memory", format!("{} GiB", arch.global_bytes >> 30), Some(timing.device_latency)),
    ];
    let mut lines = vec![format!("{:<16} {:>20} {:>8}  source of the latency", "memory", "size", "cycles")];
    for (name, size, figure) in rows {
        let (cycles, source) = figure.map_or(("-".to_owned(), ""), latency);
        lines.push(format!("{name:<16} {size:>20} {cycles:>8}  {source}").trim_end().to_owned());
    }
    lines.push(format!("device memory: {:.2} TB/s", arch.bytes_per_second / 1e12));
    lines
}

//! The memory of the host, in which the emulator keeps that of its device.

use std::path::Path;

/// Allocations smaller than this are not compared with the host's memory. The host may grant a
/// larger allocation that it cannot fill, and then ends the process.
pub(super) const SMALL: u64 = 64 << 20;

/// Available bytes of the host: `MemAvailable` of Linux, or what the limit of the process's control
/// group leaves, if that is less. `None` if the system does not report it.
pub fn available_host_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    let of_machine = kilobytes.saturating_mul(1024);
    Some(group_bytes().map_or(of_machine, |of_group| of_group.min(of_machine)))
}

/// What the limit of the process's control group leaves, if it has one.
fn group_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = Path::new("/sys/fs/cgroup").join(group);
    let number = |file| std::fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

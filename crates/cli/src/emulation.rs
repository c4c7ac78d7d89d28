//! What the emulator's user hears while it works: how long it will take, and how to stop it.

use std::io::Write;
use std::sync::Once;
use std::time::Duration;

use warpwright_harness::Work;
use warpwright_runtime::Device;

/// What the emulator does in a second on a core, roughly: `warpwright bench emulator`.
const OPERATIONS_PER_SECOND: f64 = 1e9;
const BYTES_PER_SECOND: f64 = 1e8;
/// Emulations that take longer say so first.
const LONG_SECONDS: f64 = 20.0;
/// Operations of a thread that does little.
const OPERATIONS_OF_A_THREAD: f64 = 10.0;

/// Says once, before it begins, that an emulator will take long for work that is known.
pub(crate) fn announce_work(device: &Device, what: &str, Work { operations, bytes }: Work) {
    if let Some(time) = long_time(device, operations / OPERATIONS_PER_SECOND + bytes / BYTES_PER_SECOND) {
        say(&format!(
            "{what} computes {operations:.1e} operations on {bytes:.1e} bytes, which takes the emulator about \
             {time} on this machine; Ctrl-C stops it"
        ));
    }
}

/// Says once, before they begin, that an emulator will take long for launches of that many threads,
/// even if each does little.
pub(crate) fn announce(device: &Device, threads: u64) {
    let threads = threads as f64;
    if let Some(time) = long_time(device, threads * OPERATIONS_OF_A_THREAD / OPERATIONS_PER_SECOND) {
        say(&format!(
            "the launches have {threads:.1e} threads, which takes the emulator at least {time} on this machine; \
             Ctrl-C stops it, and `--limit 60s` stops a launch after that time"
        ));
    }
}

/// The time of a number of seconds of one core, if the device is an emulator and it is long.
fn long_time(device: &Device, core_seconds: f64) -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let is_executed = device.properties().is_emulated && !device.is_dry_run();
    let seconds = core_seconds / cores;
    (is_executed && seconds > LONG_SECONDS).then(|| duration(seconds))
}

fn say(note: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let _ = writeln!(std::io::stderr(), "note: {note}");
    });
}

/// A long time in words, as exact as an estimate is.
fn duration(seconds: f64) -> String {
    const YEAR: f64 = 365.25 * 24.0 * 3600.0;
    if seconds > YEAR {
        return format!("{:.0e} years", seconds / YEAR);
    }
    humantime::format_duration(Duration::from_secs(10 * (seconds / 10.0) as u64)).to_string()
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn long_times_are_words() {
        assert_eq!(duration(20.0), "20s");
        assert_eq!(duration(4000.0), "1h 6m 40s");
        assert_eq!(duration(1e10), "3e2 years");
        assert_eq!(duration(f64::MAX / 2.0), "3e300 years");
    }
}

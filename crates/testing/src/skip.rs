//! Tests that need what a machine may lack.
//!
//! `WARPWRIGHT_REQUIRE_GPU=2` and `WARPWRIGHT_REQUIRE_PTXAS=1` say what the machine has: a test that lacks
//! it then fails.

use std::fmt::Display;

/// Reports that a test, or a part of it, did not run. Every such test reports it here, so that
/// `skipped:` finds them all.
///
/// # Panics
/// If the machine is said to have what the test needs: the environment variable `requirement` is at least
/// `count`.
pub fn skipped(requirement: &str, count: u32, why: impl Display) {
    let has = std::env::var(requirement).ok().and_then(|value| value.parse::<u32>().ok());
    assert!(has.is_none_or(|has| has < count), "{requirement} is set: {why}");
    let thread = std::thread::current();
    eprintln!("skipped: {}: {why}", thread.name().unwrap_or("a test"));
}

/// The GPU that a test opened. `None` reports the test as skipped.
///
/// # Panics
/// If no GPU opened and `WARPWRIGHT_REQUIRE_GPU` is at least 1.
pub fn gpu<Device, Error: Display>(opened: Result<Device, Error>) -> Option<Device> {
    opened.map_err(|error| skipped("WARPWRIGHT_REQUIRE_GPU", 1, error)).ok()
}

/// The number of GPUs, if there are two at least. `None` reports the test as skipped.
///
/// # Panics
/// If there are fewer and `WARPWRIGHT_REQUIRE_GPU` is at least 2.
pub fn several_gpus(count: u32) -> Option<u32> {
    let skip = || {
        skipped("WARPWRIGHT_REQUIRE_GPU", 2, format!("two GPUs are needed, and the driver reports {count}"));
        None
    };
    (count >= 2).then_some(count).or_else(skip)
}

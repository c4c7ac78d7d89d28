//! Tests that need what a machine may lack.

use std::fmt::Display;

/// Reports that a test, or a part of it, did not run. Every such test reports it here, so that
/// `skipped:` finds them all.
pub fn skipped(why: impl Display) {
    let thread = std::thread::current();
    eprintln!("skipped: {}: {why}", thread.name().unwrap_or("a test"));
}

/// The GPU that a test opened. `None` reports the test as skipped.
///
/// # Panics
/// If no GPU opened and `WARPWRIGHT_REQUIRE_GPU=1`.
pub fn gpu<Device, Error: Display>(opened: Result<Device, Error>) -> Option<Device> {
    match opened {
        Ok(device) => Some(device),
        Err(error) => {
            let is_required = std::env::var("WARPWRIGHT_REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!is_required, "WARPWRIGHT_REQUIRE_GPU is set: {error}");
            skipped(error);
            None
        }
    }
}

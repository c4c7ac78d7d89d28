//! Rules of the configurations of several lessons.

use warpwright::arch::limits::{STATIC_SHARED_BYTES, THREADS_PER_CTA};
use warpwright_kernels::operations::{OperationError, Result};

/// Refuses a kernel's configuration whose CTAs do not have a power of two of threads, from `least`
/// on.
pub(crate) fn expect_power_of_two_threads(what: &'static str, least: u32, threads: u32) -> Result<()> {
    if threads.is_power_of_two() && (least..=THREADS_PER_CTA).contains(&threads) {
        return Ok(());
    }
    let reason = format!(
        "its CTAs have {threads} threads; give them a power of two from {least} to {THREADS_PER_CTA}"
    );
    Err(OperationError::Shape { what, reason })
}

/// Refuses a kernel's configuration whose arrays take more shared memory than a kernel may declare.
pub(crate) fn expect_declared_shared(what: &'static str, bytes: u64) -> Result<()> {
    if bytes <= u64::from(STATIC_SHARED_BYTES) {
        return Ok(());
    }
    let reason = format!(
        "its CTAs take {bytes} bytes of shared memory, and have {STATIC_SHARED_BYTES}; give them fewer threads or elements"
    );
    Err(OperationError::Shape { what, reason })
}

//! The last step of a ladder: the library's workload.

use warpwright_harness::{DynWorkload, Options, Prepared, Result, Setup};
use warpwright_workloads::workload;

/// The library's workload of that name, with the options that the lesson shares with it, and
/// `more`.
pub(crate) fn library(
    name: &str,
    lesson: &impl Options,
    more: &[(&str, &str)],
) -> Result<Box<dyn DynWorkload>> {
    let mut workload = workload(name).ok_or_else(|| format!("the library has no workload {name}"))?;
    for spec in workload.specs() {
        if let Some(text) = lesson.text(spec.name) {
            workload.set(spec.name, &text)?;
        }
    }
    for (name, text) in more {
        workload.set(name, text)?;
    }
    Ok(workload)
}

/// The baseline of the library's workload of that name.
pub(crate) fn baseline(
    name: &str,
    lesson: &impl Options,
    baseline: &str,
    setup: &Setup,
) -> Option<Result<Box<dyn Prepared>>> {
    match library(name, lesson, &[]) {
        Ok(workload) => workload.baseline(baseline, setup),
        Err(error) => Some(Err(error)),
    }
}

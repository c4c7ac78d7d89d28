//! A kernel's launch requirements, stated in its body at build time, and programmatic dependent
//! launch.

use warpwright_arch::limits::{CTAS_PER_CLUSTER, CTAS_PER_SM, REGISTERS_PER_THREAD, THREADS_PER_CTA};

use crate::operation::{perform, refuse};
use crate::recorder;
use crate::requirement::{Feature, require};

/// States the block: exactly these extents: `.reqntid`.
#[track_caller]
pub fn required_block(x: u32, y: u32, z: u32) {
    let threads = u64::from(x) * u64::from(y) * u64::from(z);
    refuse_outside(threads, THREADS_PER_CTA, |most| format!("a CTA has 1 to {most} threads"));
    recorder::with(|recorder| recorder.kernel().launch.required_block = Some([x, y, z]));
}

/// States the block: a row of `count` threads: `.reqntid`.
#[track_caller]
pub fn threads(count: u32) {
    required_block(count, 1, 1);
}

/// The block has at most this many threads: `.maxntid`.
#[track_caller]
pub fn maximum_threads(count: u32) {
    refuse_outside(count.into(), THREADS_PER_CTA, |most| format!("a CTA has 1 to {most} threads"));
    recorder::with(|recorder| recorder.kernel().launch.maximum_threads = Some(count));
}

/// At least this many CTAs should fit on an SM: `.minnctapersm`.
#[track_caller]
pub fn blocks_per_sm(count: u32) {
    refuse_outside(count.into(), CTAS_PER_SM, |most| format!("an SM holds 1 to {most} CTAs"));
    recorder::with(|recorder| recorder.kernel().launch.minimum_blocks_per_sm = Some(count));
}

/// Each thread uses at most this many registers: `.maxnreg`.
#[track_caller]
pub fn maximum_registers(count: u32) {
    refuse_outside(count.into(), REGISTERS_PER_THREAD, |most| format!("a thread has 1 to {most} registers"));
    recorder::with(|recorder| recorder.kernel().launch.maximum_registers = Some(count));
}

/// CTAs form clusters of these extents, on sm_90 and later: `.reqnctapercluster`.
#[track_caller]
pub fn cluster(x: u32, y: u32, z: u32) {
    let blocks = u64::from(x) * u64::from(y) * u64::from(z);
    refuse_outside(blocks, CTAS_PER_CLUSTER, |most| format!("a cluster has 1 to {most} CTAs"));
    recorder::with(|recorder| recorder.kernel().launch.cluster = Some([x, y, z]));
}

/// Waits until the predecessor has ended and its writes are visible, if the launch allowed this
/// grid to begin earlier (programmatic dependent launch); otherwise it returns immediately. Before
/// it, the kernel must not access what the predecessor writes; sm_90.
#[track_caller]
pub fn grid_dependency_wait() {
    require(Feature::DependentLaunch);
    perform("griddepcontrol.wait", []);
}

/// Lets the dependent launch begin once every CTA has called this or exited; sm_90.
#[track_caller]
pub fn grid_dependency_launch() {
    require(Feature::DependentLaunch);
    perform("griddepcontrol.launch_dependents", []);
}

#[track_caller]
fn refuse_outside(count: u64, most: u32, message: impl Fn(u32) -> String) {
    if !(1..=u64::from(most)).contains(&count) {
        refuse(message(most));
    }
}

//! A kernel's launch requirements, stated in its body at build time, and programmatic dependent
//! launch.

use warpwright_arch::limits::{CTAS_PER_CLUSTER, CTAS_PER_SM, REGISTERS_PER_THREAD, THREADS_PER_CTA};

use warpwright_ir::{Kernel, Operand};

use crate::operation::{here, perform, refuse};
use crate::recorder;
use crate::requirement::{Feature, require};

/// States the block: exactly these extents: `.reqntid`.
#[track_caller]
pub fn required_block(x: u32, y: u32, z: u32) {
    let threads = u64::from(x) * u64::from(y) * u64::from(z);
    refuse_outside(threads, THREADS_PER_CTA, |most| format!("a CTA has 1 to {most} threads"));
    let block = [x, y, z];
    let before = recorder::with(|recorder| recorder.kernel().launch.required_block.replace(block));
    refuse_another("block", before, block, "`launch::required_block`, `launch::threads` or `roles`");
    demand_block_within_maximum();
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
    demand_block_within_maximum();
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
    let cluster = [x, y, z];
    let before = recorder::with(|recorder| recorder.kernel().launch.cluster.replace(cluster));
    refuse_another("cluster", before, cluster, "`launch::cluster` or `ClusterGrid::new`");
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

/// Refuses extents other than those that were stated before.
#[track_caller]
fn refuse_another(what: &str, before: Option<[u32; 3]>, now: [u32; 3], by: &str) {
    if let Some(before) = before.filter(|before| *before != now) {
        let [before, now] = [before, now].map(|[x, y, z]| format!("({x}, {y}, {z})"));
        refuse(format!("the {what} is {now} here, and {before} before: state it once, by {by}"));
    }
}

/// Refuses a block of more threads than the kernel's most.
#[track_caller]
fn demand_block_within_maximum() {
    let (threads, most) = recorder::with(|recorder| {
        let launch = &recorder.kernel().launch;
        (launch.required_block.map(|block| block.iter().product::<u32>()), launch.maximum_threads)
    });
    if let Some((threads, most)) = threads.zip(most).filter(|(threads, most)| threads > most) {
        refuse(format!(
            "the block has {threads} threads, and `launch::maximum_threads` allows {most}: state one of them"
        ));
    }
}

/// The most threads of a block of the kernel, as far as it states them.
fn most_threads(kernel: &Kernel) -> Option<u32> {
    let required = kernel.launch.required_block.map(|block| block.iter().product());
    required.or(kernel.launch.maximum_threads)
}

/// Refuses an operation of more threads than the block has.
#[track_caller]
pub(crate) fn demand_threads(operation: impl Into<String>, threads: u32) {
    let (operation, location) = (operation.into(), here());
    recorder::with(|recorder| {
        recorder.demand_at_end(location, move |kernel| {
            let most = most_threads(kernel).filter(|most| threads > *most)?;
            Some(format!(
                "{operation} {threads} threads, and the block has {most}: state a block of at least {threads}"
            ))
        });
    });
}

/// Refuses CTAs that the cluster does not have: `ranks` has a bit for each rank, or is one rank.
#[track_caller]
pub(crate) fn demand_ranks(operation: &'static str, ranks: Operand, is_mask: bool) {
    let Operand::Integer(ranks) = ranks else { return };
    let location = here();
    recorder::with(|recorder| {
        recorder.demand_at_end(location, move |kernel| {
            let ctas: u32 = kernel.launch.cluster?.iter().product();
            let outside =
                if is_mask { ranks == 0 || ranks >> ctas != 0 } else { !(0..ctas.into()).contains(&ranks) };
            let what =
                if is_mask { format!("the mask {ranks:#b} names CTAs") } else { format!("CTA {ranks} is") };
            outside.then(|| {
                format!(
                    "`{operation}`: {what} outside the cluster, whose {ctas} CTAs have ranks 0 to {}",
                    ctas - 1
                )
            })
        });
    });
}

#[track_caller]
fn refuse_outside(count: u64, most: u32, message: impl Fn(u32) -> String) {
    if !(1..=u64::from(most)).contains(&count) {
        refuse(format!("{}, not {count}", message(most)));
    }
}

//! Launches: checks, and the execution of a grid's clusters on the host's cores.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use warpwright_arch::Arch;
use warpwright_events::{Fault, LaunchObserver};

use crate::host::Standstill;
use crate::kernel::image::Kernel;
use crate::launch::context::LaunchContext;
use crate::launch::limit::Limit;
use crate::launch::schedule::Schedule;
use crate::operation::kind::Operation;
use crate::scheduling::cluster::{Cluster, ClusterPause, Proof};
use crate::scheduling::scheduled::Scheduled;
use crate::scheduling::stillness::StillClusters;

/// The parameters of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// CTAs of a cluster along x, y and z.
    pub cluster: [u32; 3],
    /// Shared memory beyond the kernel's own variables.
    pub dynamic_shared_bytes: u32,
    /// The parameters' bytes, laid out as the kernel declares them.
    pub parameters: &'a [u8],
    /// When asynchronous copies move their data.
    pub schedule: Schedule,
    /// How much it may execute; `None`: any amount.
    pub limit: Option<Limit>,
    /// Its observers.
    pub observers: &'a [&'a dyn LaunchObserver],
}

impl Default for Launch<'_> {
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [1; 3],
            cluster: [1; 3],
            dynamic_shared_bytes: 0,
            parameters: &[],
            schedule: Schedule::Eager,
            limit: None,
            observers: &[],
        }
    }
}

/// The result of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchReport {
    /// The kernel's printed output, CTA by CTA.
    pub output: String,
    /// CTAs run.
    pub ctas: u64,
    /// Instructions issued, counted once a warp.
    pub warp_instructions: u64,
    /// Instructions issued, counted once for every lane on the path that issued them.
    pub lane_operations: u64,
    /// Multiply-adds of the matrix instructions.
    pub mma_multiply_adds: u64,
}

/// The cluster extents of a launch: its own, or those that the kernel requires.
pub(crate) fn cluster_extents(kernel: &Kernel, launch: &Launch<'_>) -> [u32; 3] {
    match kernel.bounds.required_cluster {
        Some(required) if launch.cluster == [1; 3] => required,
        _ => launch.cluster,
    }
}

/// The clusters of a grid.
pub(crate) fn cluster_count(grid: [u32; 3], cluster: [u32; 3]) -> u64 {
    (0..3).map(|axis| u64::from(grid[axis] / cluster[axis])).product()
}

/// Refuses a launch that the device, or the kernel, does not allow.
pub(crate) fn check(kernel: &Kernel, launch: &Launch<'_>, arch: &Arch) -> Result<(), Box<Fault>> {
    let limits = arch.capability;
    let refuse = |message: String| Err(Box::new(Fault::bad_launch(&kernel.name, message)));
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        let (grid, block) = (launch.grid[axis], launch.block[axis]);
        if grid == 0 || grid > limits.grid_extents[axis] {
            let most = limits.grid_extents[axis];
            return refuse(format!("The grid's {name} extent is {grid}; it must be from 1 to {most}."));
        }
        if block == 0 || block > limits.cta_extents[axis] {
            let most = limits.cta_extents[axis];
            return refuse(format!("The block's {name} extent is {block}; it must be from 1 to {most}."));
        }
    }
    let [x, y, z] = launch.block;
    let threads = x * y * z;
    if threads > limits.threads_per_cta {
        let most = limits.threads_per_cta;
        return refuse(format!(
            "A block of {x} x {y} x {z} has {threads} threads; the device allows {most}."
        ));
    }
    if let Some(required) = kernel.bounds.required_block
        && required != launch.block
    {
        return refuse(format!(
            "The kernel requires a block of {required:?} (.reqntid); the launch has {:?}.",
            launch.block
        ));
    }
    if let Some(most) = kernel.bounds.most_threads
        && threads > most
    {
        return refuse(format!(
            "The kernel allows {most} threads per CTA (.maxntid); the launch has \
         {threads}."
        ));
    }
    check_cluster(kernel, launch, arch)?;
    let shared = u64::from(kernel.dynamic_shared_offset.max(kernel.static_shared_bytes))
        + u64::from(launch.dynamic_shared_bytes);
    if shared > u64::from(limits.shared_bytes_per_cta_opt_in) {
        return refuse(format!(
            "The kernel's variables take {} bytes of shared memory and the launch requests {} more; a CTA \
             may have {}.",
            kernel.static_shared_bytes, launch.dynamic_shared_bytes, limits.shared_bytes_per_cta_opt_in
        ));
    }
    let wanted = kernel.parameter_bytes() as usize;
    if launch.parameters.len() != wanted {
        return refuse(format!(
            "The kernel takes {wanted} bytes of parameters ({} of them); the launch passes {} bytes.",
            kernel.parameters.len(),
            launch.parameters.len()
        ));
    }
    Ok(())
}

/// Refuses clusters that the device, or the kernel, does not allow.
fn check_cluster(kernel: &Kernel, launch: &Launch<'_>, arch: &Arch) -> Result<(), Box<Fault>> {
    let refuse = |message: String| Err(Box::new(Fault::bad_launch(&kernel.name, message)));
    let extents = cluster_extents(kernel, launch);
    if extents.contains(&0) {
        return refuse(format!("A cluster of {extents:?} has no CTAs; every extent must be at least 1."));
    }
    let ctas = extents.iter().fold(1u32, |product, &extent| product.saturating_mul(extent));
    let most = arch.capability.ctas_per_cluster_opt_in.max(1);
    if ctas > most {
        return refuse(format!("The launch has clusters of {ctas} CTAs; {} allows {most}.", arch.product));
    }
    if let Some(most) = kernel.bounds.most_cluster_ctas
        && ctas > most
    {
        return refuse(format!(
            "The kernel allows {most} CTAs per cluster (.maxclusterrank); the launch has {ctas}."
        ));
    }
    if let Some(required) = kernel.bounds.required_cluster
        && required != extents
    {
        return refuse(format!(
            "The kernel requires clusters of {required:?} (.reqnctapercluster); the launch has {extents:?}."
        ));
    }
    if (0..3).any(|axis| !launch.grid[axis].is_multiple_of(extents[axis])) {
        return refuse(format!("A grid of {:?} is not made of whole clusters of {extents:?}.", launch.grid));
    }
    Ok(())
}

/// Totals of the CTAs one worker finished.
#[derive(Default)]
pub(super) struct Tally {
    report: LaunchReport,
    /// The printed output, by CTA.
    output: Vec<(u64, String)>,
}

/// Runs all CTAs of a grid on the threads of a pool.
pub(crate) fn run(
    context: &LaunchContext<'_>,
    code: &[Operation],
    pool: &rayon::ThreadPool,
) -> Result<LaunchReport, Box<Fault>> {
    let grid = Grid {
        context,
        code,
        resident: AtomicU64::new(0),
        most_resident: context.resident_clusters(),
        still: StillClusters::default(),
        fault: Mutex::new(None),
    };
    let mut tallies = Vec::new();
    let workers = match context.scheduler {
        Some(scheduler) => {
            let mut scheduled = Scheduled::new(&grid);
            scheduler.schedule(&mut scheduled);
            tallies.push(scheduled.finish());
            0
        }
        None => (pool.current_num_threads() as u64).min(cluster_count(context.grid, context.cluster)),
    };
    let tallies = Mutex::new(tallies);
    pool.scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|_| {
                let tally = grid.work(VecDeque::new(), Tally::default());
                tallies.lock().unwrap_or_else(PoisonError::into_inner).push(tally);
            });
        }
    });
    context.observers.iter().for_each(|observer| observer.end(context));
    let mut report = LaunchReport::default();
    let mut output = Vec::new();
    for tally in tallies.into_inner().unwrap_or_else(PoisonError::into_inner) {
        report.ctas += tally.report.ctas;
        report.warp_instructions += tally.report.warp_instructions;
        report.lane_operations += tally.report.lane_operations;
        report.mma_multiply_adds += tally.report.mma_multiply_adds;
        output.extend(tally.output);
    }
    output.sort_by_key(|(cta, _)| *cta);
    report.output = output.into_iter().map(|(_, text)| text).collect();
    match grid.fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Err(Box::new(Fault { output: report.output, ..*fault })),
        None => Ok(report),
    }
}

/// Clusters of a worker that have let others run, at most.
const MOST_YIELDED: usize = 4;

/// A running grid, and the number of resident clusters.
pub(super) struct Grid<'a> {
    pub(super) context: &'a LaunchContext<'a>,
    pub(super) code: &'a [Operation],
    resident: AtomicU64,
    most_resident: u64,
    still: StillClusters,
    fault: Mutex<Option<Box<Fault>>>,
}

impl Grid<'_> {
    /// One worker: starts clusters while the device has room, and runs waiting ones in turn. It begins with
    /// clusters that wait, and with the totals of those that have ended.
    pub(super) fn work(&self, mut waiting: VecDeque<Cluster>, mut tally: Tally) -> Tally {
        let mut spare: Option<Cluster> = None;
        // Clusters that have let others run, the next to run first.
        let mut yielded: VecDeque<Cluster> = VecDeque::new();
        while !self.context.stop.load(Ordering::Relaxed) {
            let full = yielded.len() >= MOST_YIELDED;
            let next = if full { yielded.pop_front() } else { self.begin(&mut spare) };
            let mut cluster = match next.or_else(|| yielded.pop_front()) {
                Some(cluster) => cluster,
                None => match waiting.pop_front() {
                    Some(cluster) => cluster,
                    None if self.context.pending.is_empty() => break,
                    None => {
                        std::thread::yield_now();
                        continue;
                    }
                },
            };
            match cluster.run(self.context, self.code) {
                Ok(ClusterPause::Done) => {
                    self.finish(&mut cluster, &mut tally);
                    spare = Some(cluster);
                }
                Ok(ClusterPause::Yielded) => yielded.push_back(cluster),
                Ok(ClusterPause::Waiting) => {
                    waiting.push_back(cluster);
                    std::thread::yield_now();
                }
                Ok(ClusterPause::Still) => {
                    if let Some(proof) = self.deadlocked(&cluster) {
                        self.fail(cluster.deadlock(self.context, self.code, proof));
                    }
                    waiting.push_back(cluster);
                    std::thread::yield_now();
                }
                Err(fault) => {
                    self.fail(fault);
                    waiting.push_back(cluster);
                }
            }
        }
        // After a failure, what the others have printed is still shown.
        waiting.iter_mut().chain(&mut yielded).for_each(|cluster| self.take_output(cluster, &mut tally));
        tally
    }

    /// Stops the launch.
    pub(super) fn fail(&self, fault: Box<Fault>) {
        self.context.stop.store(true, Ordering::Relaxed);
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(fault);
    }

    /// Whether nothing in the grid can proceed, now that a cluster is still.
    fn deadlocked(&self, cluster: &Cluster) -> Option<Proof> {
        let still = self.still.add(cluster.linear, cluster.stillness.epoch());
        let resident = self.resident.load(Ordering::SeqCst);
        let none_starts = self.context.pending.is_empty() || resident >= self.most_resident;
        // A cluster that has ended since, or begun and ended, has left a change.
        let (changes, epoch) = (self.context.changes(), cluster.stillness.epoch());
        let is_latest = changes.load(Ordering::SeqCst) == epoch;
        if !(none_starts && is_latest && still == resident) {
            return None;
        }
        match self.context.running.stand_still(epoch) {
            Standstill::Temporary => None,
            Standstill::WithoutPeer => Some(Proof::WithoutPeer),
            Standstill::Everywhere => {
                let leaps = self.context.clock.leap(changes, epoch);
                (!leaps).then(|| Proof::Still { others: resident - 1 })
            }
        }
    }

    /// The next cluster of the grid, if the device has room for one.
    fn begin(&self, spare: &mut Option<Cluster>) -> Option<Cluster> {
        if self.context.pending.is_empty() {
            return None;
        }
        if self.resident.fetch_add(1, Ordering::SeqCst) >= self.most_resident {
            self.resident.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        let next = self.next(spare);
        if next.is_none() {
            self.resident.fetch_sub(1, Ordering::SeqCst);
        }
        next
    }

    /// The next cluster of the grid. It counts as resident although the device may have no room, as an observer
    /// that schedules the launch has its own account of that.
    pub(super) fn admit(&self, spare: &mut Option<Cluster>) -> Option<Cluster> {
        let next = self.next(spare)?;
        self.resident.fetch_add(1, Ordering::SeqCst);
        Some(next)
    }

    fn next(&self, spare: &mut Option<Cluster>) -> Option<Cluster> {
        let linear = self.context.pending.take()?;
        Some(match spare.take() {
            Some(mut cluster) => {
                cluster.restart(self.context, linear);
                cluster
            }
            None => Cluster::new(self.context, linear),
        })
    }

    /// A cluster has ended.
    pub(super) fn finish(&self, cluster: &mut Cluster, tally: &mut Tally) {
        self.resident.fetch_sub(1, Ordering::SeqCst);
        let counts = cluster.take_counts();
        tally.report.warp_instructions += counts.warp_instructions;
        tally.report.lane_operations += counts.lane_operations;
        for block in &mut cluster.blocks {
            tally.report.ctas += 1;
            tally.report.mma_multiply_adds += std::mem::take(&mut block.mma_multiply_adds);
        }
        self.take_output(cluster, tally);
    }

    /// Takes what the CTAs of a cluster have printed.
    fn take_output(&self, cluster: &mut Cluster, tally: &mut Tally) {
        for block in &mut cluster.blocks {
            if !block.output.is_empty() {
                let linear = self.context.linear_cta(block.index);
                tally.output.push((linear, std::mem::take(&mut block.output)));
            }
        }
    }
}

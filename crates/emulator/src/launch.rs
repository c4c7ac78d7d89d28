//! Launches: checking what is asked for, and running the CTAs of a grid on the host's cores.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use warpwright_arch::{Arch, KernelResources};

use crate::cta::{Cta, CtaPause};
use crate::fault::Fault;
use crate::memory::Memory;
use crate::program::Kernel;

/// When asynchronous copies move their data, between the earliest and the latest moment the program allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// As soon as they are issued.
    #[default]
    Eager,
    /// When something waits for them and nothing else can go on, so that a missing wait shows.
    Latest,
    /// At moments drawn from a generator seeded with this number. The same seed gives the same run.
    Random(u64),
}

/// What to launch a kernel with.
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
        }
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchReport {
    /// What the kernel printed, CTA by CTA.
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

/// What all CTAs of a launch share.
#[derive(Debug)]
pub(crate) struct LaunchContext<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) memory: &'a Memory,
    pub(crate) arch: &'static Arch,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) parameters: &'a [u8],
    pub(crate) dynamic_shared_bytes: u32,
    /// Static and dynamic.
    pub(crate) shared_bytes: u32,
    pub(crate) schedule: Schedule,
    pub(crate) grid_id: u64,
    pub(crate) started: Instant,
    /// Another CTA has failed.
    pub(crate) stop: AtomicBool,
}

impl LaunchContext<'_> {
    pub(crate) fn threads_per_cta(&self) -> u32 {
        self.block.iter().product()
    }

    pub(crate) fn ctas(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).product()
    }

    pub(crate) fn linear_cta(&self, [x, y, z]: [u32; 3]) -> u64 {
        let [width, height, _] = self.grid.map(u64::from);
        u64::from(x) + width * (u64::from(y) + height * u64::from(z))
    }

    /// A parameter of up to eight bytes. It is inside the parameters: the decoder saw to it.
    pub(crate) fn parameter(&self, offset: u32, bytes: u32, signed: bool) -> u64 {
        let mut value = [0; 8];
        let source = self.parameters.get(offset as usize..(offset + bytes) as usize).unwrap_or_default();
        value[..source.len()].copy_from_slice(source);
        let shift = 64 - 8 * bytes;
        let value = u64::from_le_bytes(value) << shift;
        if signed { (value as i64 >> shift) as u64 } else { value >> shift }
    }

    fn cta_index(&self, linear: u64) -> [u32; 3] {
        let [width, height, _] = self.grid.map(u64::from);
        [linear % width, linear / width % height, linear / (width * height)].map(|axis| axis as u32)
    }

    /// CTAs that the device holds at once.
    fn resident_ctas(&self) -> u64 {
        let resources = KernelResources {
            threads_per_cta: self.threads_per_cta(),
            registers_per_thread: self.kernel.bounds.most_registers.unwrap_or(32),
            shared_bytes: self.shared_bytes,
        };
        let per_sm = self.arch.capability.occupancy(&resources).map_or(1, |occupancy| occupancy.ctas_per_sm);
        u64::from(self.arch.sm_count) * u64::from(per_sm.max(1))
    }
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
            "The kernel requires a block of {required:?} (.reqntid); {:?} was given.",
            launch.block
        ));
    }
    if let Some(most) = kernel.bounds.most_threads
        && threads > most
    {
        return refuse(format!("The kernel allows {most} threads a block (.maxntid); {threads} were given."));
    }
    if launch.cluster.contains(&0) {
        return refuse(format!(
            "A cluster of {:?} has no CTAs; every extent must be at least 1.",
            launch.cluster
        ));
    }
    let cluster: u32 = launch.cluster.iter().product();
    if cluster > limits.ctas_per_cluster_opt_in.max(1) {
        return refuse(format!(
            "A cluster of {cluster} CTAs was asked for; {} allows {}.",
            arch.product,
            limits.ctas_per_cluster_opt_in.max(1)
        ));
    }
    if let Some(required) = kernel.bounds.required_cluster
        && required != launch.cluster
    {
        let given = launch.cluster;
        return refuse(format!(
            "The kernel requires clusters of {required:?} (.reqnctapercluster); {given:?} was given."
        ));
    }
    for axis in 0..3 {
        if !launch.grid[axis].is_multiple_of(launch.cluster[axis]) {
            return refuse(format!(
                "A grid of {:?} is not made of whole clusters of {:?}.",
                launch.grid, launch.cluster
            ));
        }
    }
    if cluster > 1 {
        return refuse("Clusters of more than one CTA are not emulated.".to_owned());
    }
    let shared = u64::from(kernel.dynamic_shared_offset.max(kernel.static_shared_bytes))
        + u64::from(launch.dynamic_shared_bytes);
    if shared > u64::from(limits.shared_bytes_per_cta_opt_in) {
        return refuse(format!(
            "The kernel's variables take {} bytes of shared memory and the launch asks for {} more; a CTA may have {}.",
            kernel.static_shared_bytes, launch.dynamic_shared_bytes, limits.shared_bytes_per_cta_opt_in
        ));
    }
    let wanted = kernel.parameter_bytes() as usize;
    if launch.parameters.len() != wanted {
        return refuse(format!(
            "The kernel takes {wanted} bytes of parameters ({} of them); {} bytes were given.",
            kernel.parameters.len(),
            launch.parameters.len()
        ));
    }
    Ok(())
}

/// Totals of the CTAs one worker finished.
#[derive(Default)]
struct Tally {
    report: LaunchReport,
    /// What was printed, by CTA.
    output: Vec<(u64, String)>,
}

/// Runs all CTAs of a grid on the threads of a pool.
pub(crate) fn run(context: &LaunchContext<'_>, pool: &rayon::ThreadPool) -> Result<LaunchReport, Box<Fault>> {
    let grid = Grid {
        context,
        next: AtomicU64::new(0),
        resident: AtomicU64::new(0),
        most_resident: context.resident_ctas(),
        fault: Mutex::new(None),
    };
    let workers = (pool.current_num_threads() as u64).min(context.ctas());
    let tallies: Mutex<Vec<Tally>> = Mutex::new(Vec::new());
    pool.scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|_| {
                let tally = grid.work();
                tallies.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(tally);
            });
        }
    });
    if let Some(fault) = grid.fault.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        return Err(fault);
    }
    let mut report = LaunchReport::default();
    let mut output = Vec::new();
    for tally in tallies.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        report.ctas += tally.report.ctas;
        report.warp_instructions += tally.report.warp_instructions;
        report.lane_operations += tally.report.lane_operations;
        report.mma_multiply_adds += tally.report.mma_multiply_adds;
        output.extend(tally.output);
    }
    output.sort_by_key(|(cta, _)| *cta);
    report.output = output.into_iter().map(|(_, text)| text).collect();
    Ok(report)
}

/// A grid being run: the CTAs not yet begun, and how many are under way.
struct Grid<'a> {
    context: &'a LaunchContext<'a>,
    next: AtomicU64,
    resident: AtomicU64,
    most_resident: u64,
    fault: Mutex<Option<Box<Fault>>>,
}

impl Grid<'_> {
    /// One worker: begins CTAs while the device has room, and goes round those that wait for others.
    fn work(&self) -> Tally {
        let mut tally = Tally::default();
        let mut waiting: VecDeque<Cta> = VecDeque::new();
        let mut spare: Option<Cta> = None;
        while !self.context.stop.load(Ordering::Relaxed) {
            let mut cta = match self.begin(&mut spare) {
                Some(cta) => cta,
                None => match waiting.pop_front() {
                    Some(cta) => cta,
                    None if self.next.load(Ordering::Relaxed) >= self.context.ctas() => break,
                    None => {
                        std::thread::yield_now();
                        continue;
                    }
                },
            };
            match cta.run(self.context) {
                Ok(CtaPause::Done) => {
                    self.resident.fetch_sub(1, Ordering::Relaxed);
                    self.finish(&mut cta, &mut tally);
                    spare = Some(cta);
                }
                Ok(CtaPause::Waiting) => {
                    waiting.push_back(cta);
                    std::thread::yield_now();
                }
                Err(fault) => {
                    self.context.stop.store(true, Ordering::Relaxed);
                    let mut first = self.fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    first.get_or_insert(fault);
                }
            }
        }
        tally
    }

    /// The next CTA of the grid, if the device has room for one.
    fn begin(&self, spare: &mut Option<Cta>) -> Option<Cta> {
        if self.next.load(Ordering::Relaxed) >= self.context.ctas() {
            return None;
        }
        if self.resident.fetch_add(1, Ordering::Relaxed) >= self.most_resident {
            self.resident.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let linear = self.next.fetch_add(1, Ordering::Relaxed);
        if linear >= self.context.ctas() {
            self.resident.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let index = self.context.cta_index(linear);
        Some(match spare.take() {
            Some(mut cta) => {
                cta.restart(self.context, index);
                cta
            }
            None => Cta::new(self.context, index),
        })
    }

    fn finish(&self, cta: &mut Cta, tally: &mut Tally) {
        let counts = cta.take_counts();
        tally.report.ctas += 1;
        tally.report.warp_instructions += counts.warp_instructions;
        tally.report.lane_operations += counts.lane_operations;
        tally.report.mma_multiply_adds += std::mem::take(&mut cta.block.mma_multiply_adds);
        if !cta.block.output.is_empty() {
            let linear = self.context.linear_cta(cta.block.index);
            tally.output.push((linear, std::mem::take(&mut cta.block.output)));
        }
    }
}

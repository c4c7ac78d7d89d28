//! State that all CTAs of a launch share.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpwright_arch::{Arch, KernelResources};
use warpwright_events::LaunchObserver;

use crate::host::RunningLaunch;
use crate::kernel::image::Kernel;
use crate::launch::limit::Allowance;
use crate::launch::pending::PendingClusters;
use crate::launch::schedule::Schedule;
use crate::launch::time::LaunchClock;
use crate::memory::Memory;

/// State that all CTAs of a launch share.
#[derive(Debug)]
pub(crate) struct LaunchContext<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) memory: &'a Memory,
    pub(crate) arch: &'static Arch,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// CTAs of a cluster along x, y and z.
    pub(crate) cluster: [u32; 3],
    /// Whether the launch or the kernel specifies clusters, of any size.
    pub(crate) explicit_cluster: bool,
    pub(crate) parameters: &'a [u8],
    pub(crate) dynamic_shared_bytes: u32,
    /// Static and dynamic.
    pub(crate) shared_bytes: u32,
    pub(crate) schedule: Schedule,
    pub(crate) observers: &'a [&'a dyn LaunchObserver],
    /// The observer that decides when each warp runs.
    pub(crate) scheduler: Option<&'a dyn LaunchObserver>,
    /// The ordered operations, if there is one.
    pub(crate) ordered: Box<[bool]>,
    /// Held by the CTA that performs a strong access to global memory, if an observer orders them.
    pub(crate) strong_accesses: Option<Mutex<()>>,
    pub(crate) grid_id: u64,
    /// The clusters that have not started.
    pub(crate) pending: PendingClusters,
    /// The value of its clocks.
    pub(crate) clock: LaunchClock,
    /// The launch among those of the host, with the number of changes.
    pub(crate) running: RunningLaunch<'a>,
    /// What is left of its limit.
    pub(crate) allowance: Allowance,
    /// Whether another cluster has failed.
    pub(crate) stop: AtomicBool,
}

/// Bytes to a multiple of which the shared memory of the system is aligned.
const RESERVED_SHARED_ALIGNMENT: u32 = 1024;

/// The start of the system's shared memory, after these bytes of the CTA's own.
pub(crate) fn reserved_shared_start(shared_bytes: u32) -> u32 {
    shared_bytes.next_multiple_of(RESERVED_SHARED_ALIGNMENT)
}

impl LaunchContext<'_> {
    /// The number of changes that a thread may wait for.
    pub(crate) fn changes(&self) -> &AtomicU64 {
        &self.running.host.changes
    }

    pub(crate) fn threads_per_cta(&self) -> u32 {
        self.block.iter().product()
    }

    pub(crate) fn ctas_per_cluster(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Clusters along x, y and z.
    pub(crate) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis])
    }

    /// The rank in its cluster of the CTA at an index of the grid.
    pub(crate) fn rank_in_cluster(&self, cta: [u32; 3]) -> u32 {
        let [x, y, z]: [u32; 3] = std::array::from_fn(|axis| cta[axis] % self.cluster[axis]);
        let [width, height, _] = self.cluster;
        x + width * (y + height * z)
    }

    /// The index in the grid of a CTA, by the number of its cluster and its rank there.
    pub(crate) fn cta_of_cluster(&self, cluster: u64, rank: u32) -> [u32; 3] {
        let of_cluster = index_at(cluster, self.clusters());
        let within = index_at(rank.into(), self.cluster);
        std::array::from_fn(|axis| of_cluster[axis] * self.cluster[axis] + within[axis])
    }

    pub(crate) fn linear_cta(&self, [x, y, z]: [u32; 3]) -> u64 {
        let [width, height, _] = self.grid.map(u64::from);
        u64::from(x) + width * (u64::from(y) + height * u64::from(z))
    }

    /// A parameter of up to eight bytes. The decoder ensures that it is inside the parameters.
    pub(crate) fn parameter(&self, offset: u32, bytes: u32, signed: bool) -> u64 {
        let mut value = [0; 8];
        let source = self.parameters.get(offset as usize..(offset + bytes) as usize).unwrap_or_default();
        value[..source.len()].copy_from_slice(source);
        let shift = 64 - 8 * bytes;
        let value = u64::from_le_bytes(value) << shift;
        if signed { (value as i64 >> shift) as u64 } else { value >> shift }
    }

    /// The start of the shared memory that the hardware reserves for the system in each CTA. On a
    /// device it is before the kernel's own; here it is after, so that the kernel's starts at 0.
    pub(crate) fn reserved_shared_start(&self) -> u32 {
        reserved_shared_start(self.shared_bytes)
    }

    /// The shared memory that a CTA may access: its own, and the system's if the kernel reads its
    /// address.
    pub(crate) fn reachable_shared_bytes(&self) -> u32 {
        if self.kernel.knows_reserved_shared() {
            self.reserved_shared_start() + self.arch.capability.shared_bytes_reserved
        } else {
            self.shared_bytes
        }
    }

    /// Locks strong accesses to global memory if an observer orders them.
    #[inline(always)]
    pub(crate) fn strong_access(&self) -> Option<MutexGuard<'_, ()>> {
        self.strong_accesses.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Clusters that the device holds at once.
    pub(crate) fn resident_clusters(&self) -> u64 {
        let resources = KernelResources {
            threads_per_cta: self.threads_per_cta(),
            registers_per_thread: self.kernel.bounds.most_registers.unwrap_or(32),
            shared_bytes: self.shared_bytes,
        };
        let per_sm = self.arch.capability.occupancy(&resources).map_or(1, |occupancy| occupancy.ctas_per_sm);
        let ctas = u64::from(self.arch.sm_count) * u64::from(per_sm.max(1));
        (ctas / u64::from(self.ctas_per_cluster())).max(1)
    }
}

/// The coordinate of the `linear`-th element of a box, x fastest.
fn index_at(linear: u64, extents: [u32; 3]) -> [u32; 3] {
    let [width, height, _] = extents.map(u64::from);
    [linear % width, linear / width % height, linear / (width * height)].map(|axis| axis as u32)
}

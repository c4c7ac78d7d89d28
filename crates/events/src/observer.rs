//! The traits of observers.

use std::fmt::Debug;
use std::sync::Arc;

use warpwright_arch::limits::REGISTERS_PER_SM;

use crate::code::{Code, MemoryArray};
use crate::event::{Event, MemorySpace};
use crate::fault::Label;
use crate::initialized::InitializedBytes;
use crate::registers::estimated_registers;

/// A launch, before it runs.
#[derive(Clone, Debug)]
pub struct LaunchInfo {
    /// The kernel's code.
    pub code: Arc<Code>,
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// CTAs of a cluster along x, y and z.
    pub cluster: [u32; 3],
    /// Shared memory of a CTA, static and dynamic, in bytes.
    pub shared_bytes: u32,
    /// Registers of a thread at most, if the kernel says so (`.maxnreg`).
    pub most_registers: Option<u32>,
    /// CTAs that an SM holds at least, if the kernel says so (`.minnctapersm`).
    pub least_ctas_per_sm: Option<u32>,
    /// The offset in shared memory from which on it is the system's, which initializes it.
    pub system_shared: u32,
    /// The bytes of global memory that have been written.
    pub initialized: Arc<InitializedBytes>,
}

impl LaunchInfo {
    /// CTAs of the grid.
    pub fn ctas(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).product()
    }

    /// Threads of a CTA.
    pub fn threads_per_cta(&self) -> u32 {
        self.block.iter().product()
    }

    /// Registers per thread, estimated from the values that are live at once: as few as the CTAs that an SM
    /// must hold need.
    pub fn estimated_registers(&self) -> u32 {
        let ctas = self.least_ctas_per_sm.unwrap_or(1).max(1);
        let most = REGISTERS_PER_SM / (self.threads_per_cta().next_multiple_of(128) * ctas).max(1);
        estimated_registers(&self.code).min(self.most_registers.unwrap_or(u32::MAX)).min(most / 8 * 8)
    }

    /// CTAs of a cluster.
    pub fn ctas_per_cluster(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// The index in the grid of a CTA, by its linear index.
    pub fn cta_index(&self, linear: u32) -> [u32; 3] {
        let [width, height, _] = self.grid;
        [linear % width, linear / width % height, linear / (width * height)]
    }
}

/// Watches a launch. Clusters run on several threads of the host.
pub trait LaunchObserver: Sync + Debug {
    /// Whether it wants to know of every instruction: [`Event::Executed`], [`Event::PredicatedOff`]
    /// and [`Event::Diverged`].
    fn wants_instructions(&self) -> bool {
        false
    }

    /// Whether strong accesses to global memory are executed one at a time, so that they are
    /// reported in their order. Otherwise accesses of CTAs on different host threads may be
    /// reported out of order.
    fn orders_strong_accesses(&self) -> bool {
        false
    }

    /// Whether it decides when each warp runs. The emulator then calls [`schedule`](Self::schedule), and
    /// runs in its own order what is left afterwards.
    fn schedules(&self) -> bool {
        false
    }

    /// Runs the warps of the launch in an order of its own.
    fn schedule(&self, clusters: &mut dyn ResidentClusters) {
        let _ = clusters;
    }

    /// The observer of a cluster that starts, given the linear grid indices of its CTAs by rank. It
    /// is dropped when the cluster has ended or the launch has failed.
    fn cluster(&self, ctas: &[u32]) -> Box<dyn ClusterObserver>;

    /// The launch has ended, or failed. `names` resolves addresses while the launch's arguments are
    /// available.
    fn end(&self, names: &dyn AddressNames) {
        let _ = names;
    }
}

/// Watches a cluster of CTAs, which runs on one thread of the host at a time.
pub trait ClusterObserver {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>);

    /// Whether it wants every instruction now. The emulator calls it at the start and after [`Event::Shuffle`],
    /// [`Event::Access`], [`Event::LocalLoad`], [`Event::Executed`] and [`Event::Exit`].
    fn follows(&self) -> bool {
        false
    }
}

/// Names the memory at an address.
pub trait AddressNames {
    /// The name of an address, or of the memory before it if nothing is at the address. Shared
    /// addresses are those of `.shared::cluster`.
    fn name(&self, space: MemorySpace, address: u64) -> AddressName;

    /// The elements of an argument that a range of global memory is: `elements 0 to 63 of `y``.
    fn elements(&self, first: u64, end: u64) -> Option<String> {
        let _ = (first, end);
        None
    }

    /// The name of an array in shared memory, and how far outside it an address is.
    fn outside(&self, array: &MemoryArray, address: u64) -> AddressName {
        let _ = (array, address);
        AddressName::default()
    }
}

/// The name of an address: an element of a tile or of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressName {
    /// Where the kernel allocates the memory, and which element the address is.
    pub labels: Vec<Label>,
    /// The same as a sentence, if the kernel's source is unknown.
    pub note: Option<String>,
}

impl AddressName {
    /// Adds the entries that are missing.
    pub fn add_to(self, memory: &mut Vec<Label>, notes: &mut Vec<String>) {
        for label in self.labels {
            if !memory.contains(&label) {
                memory.push(label);
            }
        }
        notes.extend(self.note.filter(|note| !notes.contains(note)));
    }
}

/// The clusters of a launch, while an observer schedules their warps. The warps of a cluster are numbered CTA
/// by CTA.
pub trait ResidentClusters {
    /// Starts the next cluster of the grid. Returns its number, or `None` if all have started.
    fn start(&mut self) -> Option<usize>;

    /// Runs a warp from a cycle of the GPU's clock on, until it waits or comes to an
    /// [ordered](crate::Instruction::is_ordered) instruction. A turn begins with such an instruction if the one
    /// before ended there.
    fn run_warp(&mut self, cluster: usize, warp: usize, cycle: u64) -> Turn;

    /// Ends asynchronous work that warps of a cluster wait for, when none of them can go on. Returns whether
    /// there was any.
    fn complete(&mut self, cluster: usize) -> bool;
}

/// A turn of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Why it ended.
    pub end: TurnEnd,
    /// Whether the warp did anything that another may wait for.
    pub changed: bool,
}

/// Why a turn of a warp ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The operation at this index is ordered.
    Before(u32),
    /// It has run for long.
    Yields,
    /// It waits for others.
    Waits,
    /// Its lanes have exited.
    Exits,
    /// The launch has failed.
    Fails,
}

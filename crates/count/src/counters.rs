//! Counters as plain data: by instruction, by source line and in total.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;
use warpwright_events::{Source, Unit, Work};

/// A struct of counts, which add up field by field.
macro_rules! counts {
    ($(#[$of_struct:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$of_struct])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct $name {
            $($(#[$of_field])* pub $field: $ty,)*
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counts! {
    /// Accesses to shared memory by loads, stores, atomics, `ldmatrix`, `stmatrix` and `cp.async`.
    SharedCounts {
        /// Accesses, counted once a warp.
        requests: u64,
        /// Passes that the memory made: in each, a bank serves one word of 4 bytes.
        wavefronts: u64,
        /// Passes that the same lanes need at least.
        ideal: u64,
        /// Bytes that lanes access.
        bytes: u64,
    }
}

impl SharedCounts {
    /// Additional passes because of bank conflicts.
    pub fn conflicts(&self) -> u64 {
        self.wavefronts - self.ideal
    }
}

counts! {
    /// Accesses to global or local memory by loads, stores, atomics and `cp.async`.
    SectorCounts {
        /// Accesses, counted once a warp.
        requests: u64,
        /// Sectors of 32 bytes that the accesses touched, each access by itself.
        sectors: u64,
        /// Sectors that the bytes of each access need at least.
        ideal: u64,
        /// Bytes of each access; bytes shared by several lanes count once.
        bytes: u64,
    }
}

impl SectorCounts {
    /// Sectors beyond the minimum for the bytes.
    pub fn excess(&self) -> u64 {
        self.sectors - self.ideal
    }
}

counts! {
    /// Bulk and tensor copies, reductions and asynchronous stores.
    CopyCounts {
        /// Copies issued; a multicast copy counts once for each CTA.
        copies: u64,
        /// Bytes written at their targets.
        bytes: u64,
        /// Sectors of global memory that they touched.
        sectors: u64,
        /// Sectors that their bytes need at least.
        ideal: u64,
    }
}

counts! {
    /// Counters of one instruction, one line, or a launch.
    Counts {
        /// Executions, counted once a warp.
        executions: u64,
        /// Lanes that executed: 32 per execution if none is on another path, exited or predicated
        /// off.
        lanes: u64,
        /// Branches at which lanes of a warp parted.
        divergent_branches: u64,
        /// Shared memory.
        shared: SharedCounts,
        /// Reads of global memory: loads, and `cp.async`.
        global_loads: SectorCounts,
        /// Writes of global memory: stores, and atomic operations.
        global_stores: SectorCounts,
        /// Local memory. Spills are not here: the assembler makes them, from registers.
        local: SectorCounts,
        /// Atomic operations, counted once a lane.
        atomics: u64,
        /// Atomic operations that waited for another lane of the warp at the same address.
        atomic_conflicts: u64,
        /// Bulk and tensor copies.
        copies: CopyCounts,
        /// Arithmetic operations of `tcgen05.mma`, whose shape is known only when it is issued.
        tensor_operations: u64,
        /// Barriers of the CTA, counted once a CTA.
        barriers: u64,
        /// Barriers across which no data passed: no thread touched afterwards what another touched
        /// before.
        idle_barriers: u64,
        /// Loads and stores that a wider previous access could have included. Counted once per
        /// warp.
        narrow: u64,
    }
}

impl Counts {
    /// Global memory, in both directions.
    pub fn global(&self) -> SectorCounts {
        let mut both = self.global_loads;
        both += self.global_stores;
        both
    }

    /// Lanes on another path, exited or predicated off.
    pub fn lanes_lost(&self) -> u64 {
        32 * self.executions - self.lanes
    }
}

/// One PTX instruction of a kernel, and its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstructionCounts {
    /// The line of the PTX text.
    pub ptx_line: u32,
    /// The instruction.
    pub text: String,
    /// The position in the kernel's source, if the PTX names it.
    pub source: Option<Source>,
    /// The work of one execution.
    pub work: Work,
    /// Its counters.
    pub counts: Counts,
}

impl InstructionCounts {
    /// Arithmetic operations that it did.
    pub fn operations(&self) -> u64 {
        self.work.operations(self.counts.executions, self.counts.lanes) + self.counts.tensor_operations
    }
}

/// The counters of one launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// The kernel.
    pub kernel: String,
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// CTAs of a cluster along x, y and z.
    pub cluster: [u32; 3],
    /// Shared memory of a CTA, static and dynamic, in bytes.
    pub shared_bytes: u32,
    /// Registers per thread, estimated from the values that are live at once.
    pub estimated_registers: u32,
    /// The number of launches added up.
    pub launches: u64,
    /// Sectors of 32 bytes of global memory that were read, each counted once per launch: DRAM
    /// traffic, assuming infinite caches that start empty.
    pub sectors_read: u64,
    /// Sectors written, each counted once a launch.
    pub sectors_written: u64,
    /// The kernel's instructions in PTX order, including unexecuted ones.
    pub instructions: Vec<InstructionCounts>,
}

/// A source line, and the counters of its instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    /// The file; `None` if the PTX has no `.loc`, and the line is one of the PTX text.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: u32,
    /// The sum of its instructions' counters.
    pub counts: Counts,
    /// Arithmetic operations by the unit that did them.
    pub operations: BTreeMap<Unit, u64>,
    /// Executions of instructions by the unit that they keep busy, counted once a warp.
    pub issued: BTreeMap<Unit, u64>,
}

impl LineCounts {
    fn add(&mut self, instruction: &InstructionCounts) {
        self.counts += instruction.counts;
        *self.issued.entry(instruction.work.unit).or_default() += instruction.counts.executions;
        let operations = instruction.operations();
        if operations > 0 {
            *self.operations.entry(instruction.work.unit).or_default() += operations;
        }
    }
}

impl Counters {
    /// By source line, in the order of files and lines, without unexecuted lines.
    pub fn lines(&self) -> Vec<LineCounts> {
        let mut lines: BTreeMap<(Option<&str>, u32), LineCounts> = BTreeMap::new();
        for instruction in self.instructions.iter().filter(|instruction| instruction.counts.executions > 0) {
            let file = instruction.source.as_ref().map(|source| source.file.as_str());
            let line = instruction.source.as_ref().map_or(instruction.ptx_line, |source| source.line);
            let of_line = lines.entry((file, line)).or_insert_with(|| LineCounts {
                file: file.map(str::to_owned),
                line,
                ..LineCounts::default()
            });
            of_line.add(instruction);
        }
        lines.into_values().collect()
    }

    /// All of it together.
    pub fn total(&self) -> LineCounts {
        let mut total = LineCounts::default();
        self.instructions.iter().for_each(|instruction| total.add(instruction));
        total
    }

    /// Threads of a CTA.
    pub fn threads_per_cta(&self) -> u32 {
        self.block.iter().product()
    }

    /// CTAs of the launch.
    pub fn ctas(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).product()
    }

    /// Whether another launch is of the same code with the same extents.
    fn is_like(&self, other: &Self) -> bool {
        let shape = |counters: &Self| {
            (
                counters.grid,
                counters.block,
                counters.cluster,
                counters.shared_bytes,
                counters.instructions.len(),
            )
        };
        let same =
            |(a, b): (&InstructionCounts, &InstructionCounts)| (a.ptx_line, &a.text) == (b.ptx_line, &b.text);
        self.kernel == other.kernel
            && shape(self) == shape(other)
            && self.instructions.iter().zip(&other.instructions).all(same)
    }

    /// Adds another launch of the same kernel with the same extents; returns it otherwise.
    pub fn absorb(&mut self, other: Self) -> Result<(), Box<Self>> {
        if !self.is_like(&other) {
            return Err(Box::new(other));
        }
        self.launches += other.launches;
        self.sectors_read += other.sectors_read;
        self.sectors_written += other.sectors_written;
        for (instruction, more) in self.instructions.iter_mut().zip(other.instructions) {
            instruction.counts += more.counts;
        }
        Ok(())
    }
}

//! The configuration of a row kernel: which threads share a row, and how rows are scheduled.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::lang::element::Element;
use warpwright::runtime::{Compiled, Launch};

use crate::operations::Result;
use crate::vector;

/// How rows are scheduled over clusters (a cluster is one CTA where one CTA holds a row).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum RowScheduler {
    /// One cluster per row.
    NonPersistent,
    /// Persistent clusters: as many as fit the device, each of which processes several rows.
    Persistent,
    /// Persistent clusters whose next rows are copied to stages in shared memory meanwhile.
    Pipelined,
    /// Pipelined, and the reduction over the cluster overlaps the stores of the row before.
    Staggered,
    /// The whole grid shares each row and reduces through global memory; the warps of a CTA
    /// alternate between rows.
    Grid,
}

/// An eviction priority in L2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Evict {
    /// The default priority.
    #[default]
    Normal,
    /// Evicted first.
    First,
}

/// What a plan shall have; `None` leaves it to the heuristic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuning {
    /// Threads per CTA of a row.
    pub threads: Option<u32>,
    /// CTAs per row.
    pub ctas: Option<u32>,
    /// Vectors of a row per thread.
    pub steps: Option<u32>,
    /// CTAs per SM.
    pub ctas_per_sm: Option<u32>,
    /// How clusters are scheduled over the rows.
    pub scheduler: Option<RowScheduler>,
    /// Stages of the rows in shared memory.
    pub stages: Option<u32>,
    /// Maximum number of resident clusters, for persistent schedulers.
    pub clusters: Option<u32>,
    /// L2 eviction priority of rows that are copied to shared memory.
    pub evict: Evict,
    /// L2 eviction priority of the output.
    pub write: Option<Evict>,
}

impl Tuning {
    /// All of it is left to the heuristic.
    pub const AUTO: Self = Self {
        threads: None,
        ctas: None,
        steps: None,
        ctas_per_sm: None,
        scheduler: None,
        stages: None,
        clusters: None,
        evict: Evict::Normal,
        write: None,
    };
}

/// What a kernel reads and writes per row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traffic {
    /// Matrices whose sum is the input row.
    pub sources: u32,
    /// Vectors that all rows share, such as weights.
    pub broadcasts: u32,
    /// Matrices that are written.
    pub results: u32,
}

impl Traffic {
    /// One matrix read and one written.
    pub const SOFTMAX: Self = Self { sources: 1, broadcasts: 0, results: 1 };
    /// One matrix and the weights read, one matrix written.
    pub const RMS_NORM: Self = Self { sources: 1, broadcasts: 1, results: 1 };
    /// Two matrices and the weights read, two matrices written.
    pub const ADD_RMS_NORM: Self = Self { sources: 2, broadcasts: 1, results: 2 };
    /// One matrix, weights and biases read, one matrix written.
    pub const LAYER_NORM: Self = Self { sources: 1, broadcasts: 2, results: 1 };
    /// One matrix read.
    pub const CROSS_ENTROPY: Self = Self { sources: 1, broadcasts: 0, results: 0 };
}

/// How the threads of a grid share rows of one length.
///
/// ```text
/// threads of a CTA per row      CTAs per row      rows of a CTA
/// up to 32 (part of a warp)     1                 several, no barrier      short rows
/// up to 512                     1                 1                        rows that the registers of a CTA hold
/// 512 or 1024                   2 to 16           1                        rows that the registers of a cluster hold
/// 1024                          as many           1, read twice            longer rows, and long ones without clusters
/// 32                            128, no cluster   one per warp             rows of which each SM holds a part
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Elements of a row.
    pub columns: u32,
    /// Elements of a vector, which a thread moves at once.
    pub lanes: u32,
    /// Threads of one CTA that share a row: a power of two up to 32, or whole warps.
    pub threads: u32,
    /// Rows that a CTA processes at once; 1 where a row takes more than a warp.
    pub rows: u32,
    /// CTAs that share a row: a cluster, or the grid.
    pub ctas: u32,
    /// Vectors of a row that a thread holds at once.
    pub steps: u32,
    /// Resident CTAs per SM.
    pub ctas_per_sm: u32,
    /// How rows are scheduled.
    pub scheduler: RowScheduler,
    /// Stages of the pipeline in shared memory; 0 without one.
    pub stages: u32,
    /// Most clusters of a persistent launch; `None`: as many as fit the device.
    pub clusters: Option<u32>,
    /// The L2 priority of copies to the pipeline.
    pub evict: Evict,
    /// The L2 priority of stores: `First` is the cache operator `.cs` (streaming).
    pub write: Evict,
    /// A CTA prefetches into L2 the row that will be read after its own.
    pub prefetches_rows: bool,
    /// Programmatic dependent launch: the grid starts before its predecessor ends, and prefetches
    /// its first rows. sm_90.
    pub dependent_launch: bool,
}

impl Plan {
    /// Registers per thread at this occupancy.
    pub(super) fn registers(&self) -> u32 {
        /// Of an SM, since sm_70.
        const REGISTERS: u32 = 1 << 16;
        REGISTERS / (self.cta_threads() * self.ctas_per_sm)
    }

    /// Whether clusters process several rows each.
    pub fn is_persistent(&self) -> bool {
        self.scheduler != RowScheduler::NonPersistent
    }

    /// Rounds between sending the partial results of a row and finishing it.
    pub(super) fn lag(&self) -> u32 {
        /// Rows that the warps of a CTA process while a word gets through memory from every CTA to
        /// every other: 2 to 4 us. (H200, LayerNorm of 262,144 columns, 8 warps: 3.83 TB/s with a
        /// lag of one round, 3.91 with two.)
        const ROWS_IN_FLIGHT: u32 = 16;
        match self.scheduler {
            RowScheduler::Grid => ROWS_IN_FLIGHT.div_ceil(self.rows),
            RowScheduler::Staggered => 1,
            _ => 0,
        }
    }

    /// Whether rows begin inside vectors: threads have single elements of a row's ends too.
    pub fn begins_inside(&self) -> bool {
        !self.columns.is_multiple_of(self.lanes)
    }

    /// Columns of a row that one CTA processes; the last may have fewer.
    pub fn part(&self) -> u32 {
        // Of a row that begins inside a vector, the columns of whole vectors.
        let columns =
            if self.begins_inside() { self.columns / self.lanes * self.lanes } else { self.columns };
        columns.div_ceil(self.ctas).next_multiple_of(self.lanes)
    }

    /// Columns that the threads of a CTA hold at once.
    pub fn span(&self) -> u32 {
        self.lanes * self.threads * self.steps
    }

    /// Whether registers hold the whole row, so that it is read once.
    pub fn is_resident(&self) -> bool {
        self.span() >= self.part()
    }

    /// Threads of a CTA.
    pub fn cta_threads(&self) -> u32 {
        self.threads * self.rows
    }

    /// Whether bulk copies can read a CTA's part of a row, or the whole vectors of it: they begin and
    /// end at multiples of 16 bytes.
    pub(super) fn has_bulk_rows<T: Element>(&self) -> bool {
        let by_row = self.rows == 1 || self.scheduler == RowScheduler::Grid;
        self.dependent_launch && by_row && self.lanes * T::BYTES == vector::WIDEST_BYTES
    }

    /// CTAs for `rows` rows, in whole clusters. Where a grid cannot have that many, CTAs process
    /// further rows.
    pub fn grid(&self, rows: u32) -> u32 {
        let most = i32::MAX as u32 / self.ctas;
        rows.div_ceil(self.rows).min(most) * self.ctas
    }

    /// The launch of a kernel with this plan on `rows` rows.
    ///
    /// # Errors
    /// Not even one cluster fits the device.
    pub fn shape<Args>(&self, kernel: &Compiled<Args>, rows: u32) -> Result<Launch> {
        let shape = |grid| {
            let shape = kernel.shape(grid);
            if self.dependent_launch { shape.overlapping() } else { shape }
        };
        if self.scheduler == RowScheduler::Grid {
            return Ok(shape(self.ctas).cooperative());
        }
        let all = shape(self.grid(rows));
        if !self.is_persistent() {
            return Ok(all);
        }
        let fit = kernel.function().resident_clusters(&all)?;
        let wanted = self.clusters.map_or(fit, |clusters| clusters.min(fit));
        Ok(shape(wanted.min(rows) * self.ctas))
    }
}

//! Who holds a row: the choice by its length.

use warpwright::arch::Capability;
use warpwright::arch::limits::{CTAS_PER_CLUSTER, THREADS_PER_CTA, WARP_SIZE};
use warpwright::lang::element::Element;
use warpwright::runtime::{Compiled, Launch};
use warpwright_harness::OptionValue;

use crate::operations::{OperationError, Result};
use crate::vector;

/// How clusters, or CTAs, come by their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, OptionValue)]
pub enum Turnover {
    /// The device starts one for each row.
    #[option(name = "non-persistent")]
    Leave,
    /// As many as fit the device stay, and go from row to row.
    #[option(name = "persistent")]
    Stay,
    /// They stay, and while they work on a row, the next ones come to a ring in shared memory.
    #[option(name = "pipelined")]
    Ring,
    /// The same, and what is known of a row is exchanged while the results of the row before it are written: nobody waits for it.
    #[option(name = "staggered")]
    Stagger,
    /// The whole grid shares each row, and what is known of it goes through global memory; the warps of a CTA take turns with the rows.
    #[option(name = "grid")]
    Spread,
}

/// What a kernel moves for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traffic {
    /// Matrices of which a row is the sum.
    pub sources: u32,
    /// Rows that all rows have in common, such as weights.
    pub commons: u32,
    /// Matrices that are written.
    pub results: u32,
}

impl Traffic {
    /// One matrix read and one written.
    pub const SOFTMAX: Self = Self { sources: 1, commons: 0, results: 1 };
    /// One matrix and the weights read, one matrix written.
    pub const RMS_NORM: Self = Self { sources: 1, commons: 1, results: 1 };
    /// Two matrices and the weights read, two matrices written.
    pub const ADD_RMS_NORM: Self = Self { sources: 2, commons: 1, results: 2 };
    /// One matrix, weights and biases read, one matrix written.
    pub const LAYER_NORM: Self = Self { sources: 1, commons: 2, results: 1 };
    /// One matrix read.
    pub const CROSS_ENTROPY: Self = Self { sources: 1, commons: 0, results: 0 };

    /// Threads that an SM should hold, in CTAs of `threads` that hold `steps` vectors of each row: so few that each has the registers it
    /// needs. (Measured on the H200 with bf16. Add + RMSNorm of 16,384 columns, which holds two rows: 4.21 TB/s with 512 threads an SM, 3.95
    /// with 1024. LayerNorm of 4096: 4.01 with 768, 3.91 with 1024; of 1024, where registers are spilled: 3.80 and 2.39. In CTAs of
    /// 512 it makes 4.12 with two an SM and 3.21 with one.)
    fn sm_threads(self, threads: u32, steps: u32) -> u32 {
        if self.sources * steps > STEPS {
            SM_THREADS / 2
        } else if self.commons > 1 && threads <= 256 {
            SM_THREADS / 4 * 3
        } else {
            SM_THREADS
        }
    }
}

/// How the threads of a grid share rows of one length.
///
/// ```text
/// threads of a CTA for a row    CTAs for a row    rows of a CTA
/// up to 32 (part of a warp)     1                 several, no barrier      short rows
/// up to 512                     1                 1                        rows that a CTA's registers hold
/// 512 or 1024                   2 to 16           1                        rows that a cluster's registers hold
/// 1024                          as many           1, read twice            longer rows, and long ones without clusters
/// 32                            128, no cluster   a warp has one           rows of which each SM has a part
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Elements of a row.
    pub columns: u32,
    /// Elements that a thread moves at once.
    pub lanes: u32,
    /// Threads of one CTA that share a row: a power of two up to 32, or whole warps.
    pub threads: u32,
    /// Rows that a CTA works on at once; 1 where a row takes more than a warp.
    pub rows: u32,
    /// CTAs that share a row: a cluster.
    pub ctas: u32,
    /// Vectors that a thread holds of a row at once.
    pub steps: u32,
    /// CTAs that an SM should hold.
    pub ctas_per_sm: u32,
    /// How rows come to a cluster.
    pub turnover: Turnover,
    /// Stages of the ring in shared memory that rows come to; 0 where they do not.
    pub stages: u32,
    /// Clusters that stay at most; 0: as many as fit the device.
    pub clusters: u32,
    /// Whether what comes to the ring is the first that L2 gives up.
    pub evicts: bool,
    /// Whether what is written is the first that L2 gives up.
    pub streams: bool,
    /// Whether a CTA asks L2 for the row that will be read in its place.
    pub looks_ahead: bool,
    /// Whether the grid may begin before the one in front of it has ended, and ask L2 for rows ahead: sm_90.
    pub overlaps: bool,
}

/// Vectors of a thread: 64 bytes on their way, in 16 of the 64 registers that leave room for [`SM_THREADS`]. Measured on the
/// H200: with 2 a row has too many threads to wait for one another, with 8 an SM too few.
const STEPS: u32 = 4;
/// Vectors that a thread can be told to hold: half of its registers.
pub(super) const MOST_STEPS: u32 = 16;
/// Threads that an SM should hold at most: 64 registers each.
const SM_THREADS: u32 = 1024;
/// Threads of a CTA before a row is shared by more CTAs: an SM holds two such CTAs, and one loads while the other computes.
const LONG_ROW_THREADS: u32 = 512;
/// Threads of a CTA whose rows take a warp or less.
const SHORT_ROW_THREADS: u32 = 128;
/// Bytes of a CTA's part of a row from which it pays to ask L2 for a row before its threads do. Measured on the H200.
const AHEAD_BYTES: u32 = 8 << 10;

impl Plan {
    /// The plan for rows of `columns` elements of `T`, of a kernel that moves so much, on a GPU of that capability with `sms` SMs.
    pub fn new<T: Element>(columns: u32, traffic: Traffic, capability: &Capability, sms: u32) -> Self {
        Self::of_length::<T>(columns, traffic, capability).as_measured::<T>(traffic, capability, sms)
    }

    /// The plan that the length alone makes.
    pub(super) fn of_length<T: Element>(columns: u32, traffic: Traffic, capability: &Capability) -> Self {
        let lanes = vector::widest(columns.into(), T::BYTES);
        let vectors = columns.div_ceil(lanes);
        let (most, cluster) = (capability.threads_per_cta, capability.ctas_per_cluster_opt_in);
        // A row of two is as many bytes on their way with half the vectors of each, as long as a CTA holds it.
        let at_once = if vectors <= LONG_ROW_THREADS * STEPS / traffic.sources {
            STEPS / traffic.sources
        } else {
            STEPS
        };
        let (threads, ctas) = match vectors.div_ceil(at_once) {
            threads if threads <= 32 => (threads.max(1).next_power_of_two(), 1),
            threads if threads <= LONG_ROW_THREADS => (threads.next_multiple_of(32), 1),
            threads if threads <= LONG_ROW_THREADS * cluster => {
                (LONG_ROW_THREADS, threads.div_ceil(LONG_ROW_THREADS).next_power_of_two())
            }
            _ => (most, cluster),
        };
        Self::of_shares::<T>(columns, lanes, [threads, ctas], STEPS, traffic, capability)
    }

    fn of_shares<T: Element>(
        columns: u32,
        lanes: u32,
        [threads, ctas]: [u32; 2],
        most_steps: u32,
        traffic: Traffic,
        capability: &Capability,
    ) -> Self {
        let rows = if threads <= 32 { SHORT_ROW_THREADS / threads } else { 1 };
        let part = columns.div_ceil(ctas).next_multiple_of(lanes);
        let held = part.div_ceil(lanes * threads).max(1);
        let steps = held.min(most_steps);
        let ctas_per_sm = (traffic.sm_threads(threads * rows, steps) / (threads * rows)).max(1);
        let overlaps = capability.compute_capability >= (9, 0);
        let looks_ahead = overlaps && part * T::BYTES >= AHEAD_BYTES;
        Self {
            columns,
            lanes,
            threads,
            rows,
            ctas,
            steps,
            ctas_per_sm,
            turnover: Turnover::Leave,
            stages: 0,
            clusters: 0,
            evicts: false,
            streams: traffic.results > 1,
            looks_ahead,
            overlaps,
        }
    }

    /// Registers that a thread has if so many CTAs share an SM.
    pub(super) fn registers(&self) -> u32 {
        /// Of an SM, since sm_70.
        const REGISTERS: u32 = 1 << 16;
        REGISTERS / (self.cta_threads() * self.ctas_per_sm)
    }

    /// Whether clusters stay and go from row to row.
    pub fn stays(&self) -> bool {
        self.turnover != Turnover::Leave
    }

    /// Rounds from sending what is known of a row to finishing it.
    pub(super) fn lag(&self) -> u32 {
        /// Rows that a CTA's warps go through while a word gets through memory from every CTA to every other: 2 to 4 us. (Measured on the H200: with
        /// 8 warps LayerNorm of 262,144 makes 3.83 TB/s where a row is finished one round later, and 3.91 where it is two.)
        const ROWS_ON_THE_WAY: u32 = 16;
        match self.turnover {
            Turnover::Spread => ROWS_ON_THE_WAY.div_ceil(self.rows),
            Turnover::Stagger => 1,
            _ => 0,
        }
    }

    /// The same rows shared by another number of threads and CTAs, each of which holds so many vectors at most.
    ///
    /// # Errors
    /// No plan has such numbers.
    pub(super) fn shared_by<T: Element>(
        &self,
        [threads, ctas]: [u32; 2],
        steps: u32,
        traffic: Traffic,
        capability: &Capability,
    ) -> Result<Self> {
        let steps = if steps == 0 { STEPS } else { steps };
        let refuse = |reason| Err(OperationError::Shape { what: "a plan for rows", reason });
        let parts_of_a_warp = threads.is_power_of_two() && threads <= 32;
        let whole_warps =
            threads.is_multiple_of(WARP_SIZE) && (WARP_SIZE..=THREADS_PER_CTA).contains(&threads);
        if !parts_of_a_warp && !whole_warps {
            return refuse(format!("{threads} threads are neither a part of a warp nor up to 32 whole ones"));
        }
        if !(1..=CTAS_PER_CLUSTER).contains(&ctas) || (ctas > 1 && threads <= 32) {
            return refuse(format!(
                "a row is shared by 1 CTA, or by up to 16 of more than a warp each, not {ctas} of {threads} threads"
            ));
        }
        if steps > MOST_STEPS {
            return refuse(format!("a thread holds {MOST_STEPS} vectors at most, not {steps}"));
        }
        Ok(Self::of_shares::<T>(self.columns, self.lanes, [threads, ctas], steps, traffic, capability))
    }

    /// Columns of a row that one CTA takes; the last may take fewer.
    pub fn part(&self) -> u32 {
        self.columns.div_ceil(self.ctas).next_multiple_of(self.lanes)
    }

    /// Columns that a CTA's threads hold at once.
    pub fn span(&self) -> u32 {
        self.lanes * self.threads * self.steps
    }

    /// Whether a row's threads hold all of it, so that it is read once.
    pub fn is_resident(&self) -> bool {
        self.span() >= self.part()
    }

    /// Threads of a CTA.
    pub fn cta_threads(&self) -> u32 {
        self.threads * self.rows
    }

    /// Whether whole rows of `T` can be asked for by bulk operations: they begin and end at multiples of 16 bytes.
    pub(super) fn prefetches<T: Element>(&self) -> bool {
        let by_row = self.rows == 1 || self.turnover == Turnover::Spread;
        self.overlaps && by_row && self.lanes * T::BYTES == vector::WIDEST_BYTES
    }

    /// CTAs for `rows` rows, whole clusters. They go on with further rows where a grid may have no more.
    pub fn grid(&self, rows: u32) -> u32 {
        let most = i32::MAX as u32 / self.ctas;
        rows.div_ceil(self.rows).min(most) * self.ctas
    }

    /// How a kernel with this plan is launched on `rows` rows.
    ///
    /// # Errors
    /// Not even one cluster fits the device.
    pub fn shape<Args>(&self, kernel: &Compiled<Args>, rows: u32) -> Result<Launch> {
        let shape = |grid| {
            let shape = kernel.shape(grid);
            if self.overlaps { shape.overlapping() } else { shape }
        };
        if self.turnover == Turnover::Spread {
            return Ok(shape(self.ctas).cooperative());
        }
        let all = shape(self.grid(rows));
        if !self.stays() {
            return Ok(all);
        }
        let fit = kernel.function().clusters_at_once(&all)?;
        let wanted = if self.clusters == 0 { fit } else { self.clusters.min(fit) };
        Ok(shape(wanted.min(rows) * self.ctas))
    }
}

#[cfg(test)]
mod tests {
    use warpwright::arch::Arch;
    use warpwright::lang::element::bf16;

    use super::*;

    #[test]
    fn every_length_has_a_plan_that_covers_it() {
        for name in ["a100", "h200"] {
            let capability = Arch::named(name).expect("in the table").capability;
            for columns in (1..5000).chain((5000..600_000).step_by(997)).chain([262_144]) {
                for plan in [
                    Plan::of_length::<bf16>(columns, Traffic::SOFTMAX, capability),
                    Plan::of_length::<f32>(columns, Traffic::SOFTMAX, capability),
                ] {
                    assert!(columns.is_multiple_of(plan.lanes), "{plan:?}");
                    assert!(plan.cta_threads().is_multiple_of(32) && plan.cta_threads() <= 1024, "{plan:?}");
                    assert!(plan.threads.is_multiple_of(32) || 32 % plan.threads == 0, "{plan:?}");
                    assert!(plan.rows == 1 || plan.threads <= 32, "{plan:?}");
                    assert!(plan.is_resident() || plan.steps == STEPS, "{plan:?}");
                    assert!(plan.ctas == 1 || name == "h200", "{plan:?}");
                    // Nobody is idle for a whole step that another strategy would not need.
                    assert!(plan.span() < 2 * plan.part().next_multiple_of(plan.lanes * 32), "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn known_plans() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        let plan = |columns| {
            let Plan { threads, rows, ctas, steps, .. } =
                Plan::of_length::<bf16>(columns, Traffic::SOFTMAX, h200);
            (threads, rows, ctas, steps)
        };
        assert_eq!(plan(64), (2, 64, 1, 4));
        assert_eq!(plan(1024), (32, 4, 1, 4));
        assert_eq!(plan(4096), (128, 1, 1, 4));
        assert_eq!(plan(16_384), (512, 1, 1, 4));
        assert_eq!(plan(32_768), (512, 1, 2, 4));
        assert_eq!(plan(262_144), (512, 1, 16, 4));
        assert_eq!(plan(1 << 20), (1024, 1, 16, 4));
    }

    #[test]
    fn an_sm_holds_as_many_threads_as_have_the_registers_they_need() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        let ctas_per_sm = |traffic, columns| Plan::of_length::<bf16>(columns, traffic, h200).ctas_per_sm;
        assert_eq!([1024, 4096, 16_384].map(|columns| ctas_per_sm(Traffic::SOFTMAX, columns)), [8, 8, 2]);
        assert_eq!([1024, 4096, 16_384].map(|columns| ctas_per_sm(Traffic::LAYER_NORM, columns)), [6, 6, 2]);
        assert_eq!(
            [4096, 8192, 16_384].map(|columns| ctas_per_sm(Traffic::ADD_RMS_NORM, columns)),
            [4, 2, 1]
        );
    }
}

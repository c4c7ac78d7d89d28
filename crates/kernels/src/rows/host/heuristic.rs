//! The choice of a [`Plan`]: by the length of the rows, then by what was measured for long ones.

use warpwright::arch::Capability;
use warpwright::arch::limits::{CTAS_PER_CLUSTER, CTAS_PER_SM, THREADS_PER_CTA, WARP_SIZE};
use warpwright::lang::element::Element;

use super::super::plan::{Evict, Plan, RowScheduler, Traffic, Tuning};
use crate::operations::{OperationError, Result};
use crate::vector;

/// The fastest tuning on the H200 for rows of clusters, by what a kernel moves and from that many
/// CTAs per row on. `docs/benches/rows-long.txt` lists the rows of 16 CTAs (262,144 columns),
/// `docs/benches/rows-between.txt` the shorter ones.
const MEASURED: &[(Traffic, u32, Tuning)] = &[
    (
        Traffic::SOFTMAX,
        16,
        Tuning { scheduler: Some(RowScheduler::NonPersistent), write: Some(Evict::First), ..FEW_THREADS },
    ),
    (Traffic::RMS_NORM, 16, Tuning { scheduler: Some(RowScheduler::Persistent), ..FEW_THREADS }),
    (
        Traffic::ADD_RMS_NORM,
        16,
        Tuning {
            scheduler: Some(RowScheduler::NonPersistent),
            threads: Some(1024),
            ctas: Some(8),
            ..Tuning::AUTO
        },
    ),
    (Traffic::LAYER_NORM, 2, Tuning { scheduler: Some(RowScheduler::NonPersistent), ..FEW_THREADS }),
    (
        Traffic::LAYER_NORM,
        8,
        Tuning {
            scheduler: Some(RowScheduler::Staggered),
            threads: Some(512),
            ctas_per_sm: Some(1),
            stages: Some(4),
            ..Tuning::AUTO
        },
    ),
    // A row that is only read takes one pass, whether registers hold it or not. With the registers of two CTAs
    // an SM, 512 rows of 151,936 columns take 43.7 us; of one, 42.2.
    (
        Traffic::CROSS_ENTROPY,
        2,
        Tuning {
            scheduler: Some(RowScheduler::NonPersistent),
            threads: Some(256),
            ctas: Some(1),
            ctas_per_sm: Some(1),
            ..Tuning::AUTO
        },
    ),
    (
        Traffic::CROSS_ENTROPY,
        8,
        Tuning {
            scheduler: Some(RowScheduler::NonPersistent),
            threads: Some(512),
            ctas: Some(1),
            ctas_per_sm: Some(1),
            ..Tuning::AUTO
        },
    ),
];

/// Half the threads, each with twice the registers and twice as much of the row: two CTAs per SM,
/// and half the instructions of the reduction.
const FEW_THREADS: Tuning =
    Tuning { threads: Some(256), steps: Some(8), ctas_per_sm: Some(2), ..Tuning::AUTO };

/// The tuning of long rows where the measured one does not fit.
const PIPELINED: Tuning = Tuning { scheduler: Some(RowScheduler::Pipelined), ..Tuning::AUTO };

/// CTAs per row from which clusters are persistent. (H200, RMSNorm: of 16 CTAs, 3.63 TB/s with a
/// cluster per row and 3.92 with persistent ones; of 4 CTAs, 4.03 and 3.85.)
const LONG_ROW_CTAS: u32 = 16;

/// Stages of a pipeline, where there is room.
const PIPELINED_STAGES: u32 = 3;
/// The same of a staggered one: two rows are in use, two more in flight.
const STAGGERED_STAGES: u32 = 4;
const MIN_STAGGERED_STAGES: u32 = 3;

/// Threads of a CTA, CTAs, and stages of each warp of rows that a grid shares.
const GRID_THREADS: u32 = 256;
const GRID_CTAS: u32 = 128;
const GRID_STAGES: u32 = 5;

/// Threads of an SM at most, on every GPU with clusters.
const MAX_SM_THREADS: u32 = 2048;

/// Vectors per thread: 64 bytes in flight, in 16 of the 64 registers that [`SM_THREADS`] leave.
/// (H200: with 2, too many threads wait for one another; with 8, an SM has too few.)
const STEPS: u32 = 4;
/// Vectors per thread at most: half of its registers.
const MAX_STEPS: u32 = 16;
/// Threads of an SM: 64 registers each.
const SM_THREADS: u32 = 1024;
/// Threads of a CTA before more CTAs share a row: an SM holds two, and one loads while the other
/// computes.
const LONG_ROW_THREADS: u32 = 512;
/// Threads of a CTA whose rows take a warp or less.
const SHORT_ROW_THREADS: u32 = 128;
/// Bytes of a CTA's part of a row from which a prefetch into L2 pays off. (H200.)
const PREFETCH_BYTES: u32 = 8 << 10;

/// Vectors of a row from which it is read in whole vectors although rows begin inside of them: the
/// threads of the first and the last one take as long as with one element each.
const INSIDE_VECTORS: u32 = 64;

impl Traffic {
    /// Elements that a thread moves at once: as many as rows are multiples of; if that is a word or
    /// less of longer rows, a vector. Vectors that all rows share would begin elsewhere.
    fn lanes<T: Element>(self, columns: u32) -> u32 {
        let (of_all, widest) = (vector::widest(columns.into(), T::BYTES), vector::width::<T>());
        let is_inside = self.broadcasts == 0 && of_all * T::BYTES <= 4 && columns >= INSIDE_VECTORS * widest;
        if is_inside { widest } else { of_all }
    }

    /// Threads of an SM, in CTAs of `threads` that hold `steps` vectors of each row: few enough
    /// that each has the registers it needs. (H200, bf16. Add + RMSNorm of 16,384 columns, which
    /// holds two rows: 4.21 TB/s with 512 threads per SM, 3.95 with 1024. LayerNorm of 4096: 4.01
    /// with 768, 3.91 with 1024; of 1024, where registers spill: 3.80 and 2.39; in CTAs of 512,
    /// 4.12 with two per SM and 3.21 with one.)
    fn sm_threads(self, threads: u32, steps: u32) -> u32 {
        if self.sources * steps > STEPS {
            SM_THREADS / 2
        } else if self.broadcasts > 1 && threads <= 256 {
            SM_THREADS / 4 * 3
        } else {
            SM_THREADS
        }
    }
}

impl Plan {
    /// The plan for rows of `columns` elements of `T`, on a GPU with `sms` SMs.
    pub fn new<T: Element>(columns: u32, traffic: Traffic, capability: &Capability, sms: u32) -> Self {
        Self::of_length::<T>(columns, traffic, capability).as_measured::<T>(traffic, capability, sms)
    }

    /// The plan by the length of the rows alone.
    pub fn of_length<T: Element>(columns: u32, traffic: Traffic, capability: &Capability) -> Self {
        let lanes = traffic.lanes::<T>(columns);
        let vectors = columns.div_ceil(lanes);
        let (most, cluster) = (capability.threads_per_cta, capability.ctas_per_cluster_opt_in);
        // A row of two sources has as many bytes in flight with half the vectors of each, as long
        // as a CTA holds it.
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
        max_steps: u32,
        traffic: Traffic,
        capability: &Capability,
    ) -> Self {
        let rows = if threads <= 32 { SHORT_ROW_THREADS / threads } else { 1 };
        let dependent_launch = capability.compute_capability >= (9, 0);
        let plan = Self {
            columns,
            lanes,
            threads,
            rows,
            ctas,
            steps: 1,
            ctas_per_sm: 1,
            scheduler: RowScheduler::NonPersistent,
            stages: 0,
            clusters: None,
            evict: Evict::Normal,
            write: if traffic.results > 1 { Evict::First } else { Evict::Normal },
            prefetches_rows: false,
            dependent_launch,
        };
        let part = plan.part();
        let steps = part.div_ceil(lanes * threads).max(1).min(max_steps);
        let ctas_per_sm = (traffic.sm_threads(threads * rows, steps) / (threads * rows)).max(1);
        let plan = Self { steps, ctas_per_sm, ..plan };
        // L2 does not hold the rows that registers do not hold until they are read. (H200, cross-entropy
        // of 151,936 columns: 451 MB from DRAM for 311 MB.)
        let prefetches_rows = dependent_launch && plan.is_resident() && part * T::BYTES >= PREFETCH_BYTES;
        Self { prefetches_rows, ..plan }
    }

    /// The fastest plan that was measured for rows of this length, if it fits the device.
    fn as_measured<T: Element>(self, traffic: Traffic, capability: &Capability, sms: u32) -> Self {
        let is_for = |(of, from, _): &&(Traffic, u32, Tuning)| *of == traffic && *from <= self.ctas;
        let measured = MEASURED.iter().rfind(is_for).map(|(.., tuning)| *tuning);
        let possible = |tuning| {
            let plan = self.tuned::<T>(traffic, tuning, capability).ok()?;
            // The CTAs of a grid that shares rows must all be resident.
            let fits = plan.scheduler != RowScheduler::Grid || plan.ctas <= sms * plan.ctas_per_sm;
            (fits && (plan.is_resident() || traffic.results == 0)).then_some(plan)
        };
        let tuned = measured.and_then(possible);
        if self.ctas < LONG_ROW_CTAS {
            return tuned.unwrap_or(self);
        }
        // Rows that registers do not hold are read twice; persistent CTAs keep the weights in L1.
        let reread =
            if traffic.broadcasts > 0 { RowScheduler::Persistent } else { RowScheduler::NonPersistent };
        tuned.or_else(|| possible(PIPELINED)).unwrap_or(Self { scheduler: reread, ..self })
    }

    /// The plan with another tuning.
    ///
    /// # Errors
    /// No plan can have these numbers, or shared memory does not hold the stages.
    pub fn tuned<T: Element>(
        &self,
        traffic: Traffic,
        tuning: Tuning,
        capability: &Capability,
    ) -> Result<Self> {
        if tuning.scheduler == Some(RowScheduler::Grid) {
            return self.shared_by_grid::<T>(traffic, tuning, capability);
        }
        let shares = [tuning.threads.unwrap_or(self.threads), tuning.ctas.unwrap_or(self.ctas)];
        let steps = tuning.steps.unwrap_or(STEPS);
        let plan = self.shared_by::<T>(shares, steps, traffic, capability)?;
        let ctas_per_sm = tuning.ctas_per_sm.unwrap_or(plan.ctas_per_sm);
        let threads = plan.cta_threads();
        if !(1..=CTAS_PER_SM).contains(&ctas_per_sm) || ctas_per_sm * threads > MAX_SM_THREADS {
            return refuse(format!("no SM holds {ctas_per_sm} CTAs of {threads} threads"));
        }
        let plan = Self { ctas_per_sm, clusters: tuning.clusters, ..plan.with_caching(tuning) };
        match tuning.scheduler {
            None | Some(RowScheduler::NonPersistent) => Ok(plan),
            Some(RowScheduler::Persistent) => Ok(Self { scheduler: RowScheduler::Persistent, ..plan }),
            Some(scheduler) => plan.with_pipeline::<T>(traffic, scheduler, tuning.stages, capability),
        }
    }

    fn with_caching(self, tuning: Tuning) -> Self {
        Self { evict: tuning.evict, write: tuning.write.unwrap_or(self.write), ..self }
    }

    /// The same rows shared by other numbers of threads and CTAs.
    fn shared_by<T: Element>(
        &self,
        [threads, ctas]: [u32; 2],
        steps: u32,
        traffic: Traffic,
        capability: &Capability,
    ) -> Result<Self> {
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
        if !(1..=MAX_STEPS).contains(&steps) {
            return refuse(format!("a thread holds 1 to {MAX_STEPS} vectors, not {steps}"));
        }
        Ok(Self::of_shares::<T>(self.columns, self.lanes, [threads, ctas], steps, traffic, capability))
    }

    /// The same rows, each shared by the whole grid and, in each CTA, processed by one warp.
    fn shared_by_grid<T: Element>(
        self,
        traffic: Traffic,
        tuning: Tuning,
        capability: &Capability,
    ) -> Result<Self> {
        let threads = tuning.threads.unwrap_or(GRID_THREADS);
        let ctas = tuning.ctas.unwrap_or(GRID_CTAS);
        if !threads.is_multiple_of(32) || threads > capability.threads_per_cta || !ctas.is_multiple_of(32) {
            return refuse(format!(
                "a grid that shares rows has a multiple of 32 CTAs of whole warps, not {ctas} of {threads} threads"
            ));
        }
        let vector = vector::widest(self.columns.into(), T::BYTES);
        let part = self.columns.div_ceil(ctas).next_multiple_of(vector);
        let steps = part.div_ceil(self.lanes * 32);
        if steps > MAX_STEPS || (ctas - 1) * part >= self.columns {
            return refuse(format!(
                "a grid of {ctas} CTAs cannot share rows of {} columns; use another scheduler",
                self.columns
            ));
        }
        let plan = Self {
            threads: 32,
            rows: threads / 32,
            ctas,
            steps,
            ctas_per_sm: tuning.ctas_per_sm.unwrap_or(1),
            clusters: None,
            ..self.with_caching(tuning)
        };
        plan.with_pipeline::<T>(traffic, RowScheduler::Grid, tuning.stages, capability)
    }

    /// The same with a pipeline; without `stages`, of the best number that fits.
    fn with_pipeline<T: Element>(
        self,
        traffic: Traffic,
        scheduler: RowScheduler,
        stages: Option<u32>,
        capability: &Capability,
    ) -> Result<Self> {
        /// Bytes of static shared memory of a CTA.
        const STATIC: u32 = 2 << 10;
        let plan = Self { scheduler, ..self };
        if !(plan.is_resident() && plan.has_bulk_rows::<T>()) || plan.begins_inside() {
            return refuse(
                "a pipeline needs sm_90 and rows of whole 16-byte vectors that registers hold; use another scheduler".to_owned(),
            );
        }
        let (least, good) = match scheduler {
            RowScheduler::Staggered => (MIN_STAGGERED_STAGES, STAGGERED_STAGES),
            // The rows that wait for their reduction, the one that is gathered, and one in flight.
            RowScheduler::Grid => (plan.lag() + 2, GRID_STAGES),
            _ => (1, PIPELINED_STAGES),
        };
        if scheduler == RowScheduler::Staggered && self.ctas == 1 {
            return refuse(
                "a row of one CTA has no reduction over CTAs to overlap; use the pipelined scheduler"
                    .to_owned(),
            );
        }
        let reserved = capability.shared_bytes_reserved;
        let bytes = capability.shared_bytes_per_sm / self.ctas_per_sm - reserved - STATIC;
        let row = self.span() * T::BYTES;
        let stage = row * traffic.sources * self.rows;
        let most = bytes.saturating_sub(row * traffic.broadcasts) / stage;
        let stages = stages.unwrap_or(good.min(most).max(least));
        if stages < least || stages > most {
            return refuse(format!(
                "a pipeline of {stages} stages of {stage} bytes: it needs at least {least}, and shared memory holds {most}"
            ));
        }
        Ok(Self { stages, ..plan })
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(OperationError::Shape { what: "a plan for rows", reason })
}

#[cfg(test)]
mod tests {
    use warpwright::arch::Arch;
    use warpwright::lang::element::bf16;

    use super::*;

    fn long_rows(traffic: Traffic, tuning: Tuning) -> Result<Plan> {
        let h200 = Arch::named("h200").expect("in the table").capability;
        Plan::of_length::<bf16>(262_144, traffic, h200).tuned::<bf16>(traffic, tuning, h200)
    }

    #[test]
    fn as_many_stages_as_shared_memory_holds() {
        let stages = |traffic, scheduler, [threads, ctas_per_sm]: [u32; 2]| {
            let (threads, ctas_per_sm) = (Some(threads), Some(ctas_per_sm));
            let tuning = Tuning { threads, ctas_per_sm, scheduler: Some(scheduler), ..Tuning::AUTO };
            long_rows(traffic, tuning).map(|plan| plan.stages).ok()
        };
        use RowScheduler::{Pipelined, Staggered};
        // 113 KB for each of two CTAs, 227 KB for one; a stage is 32 KB, and so is each row that is
        // kept.
        assert_eq!(stages(Traffic::SOFTMAX, Pipelined, [512, 2]), Some(3));
        assert_eq!(stages(Traffic::RMS_NORM, Pipelined, [512, 2]), Some(2));
        assert_eq!(stages(Traffic::LAYER_NORM, Pipelined, [512, 2]), Some(1));
        assert_eq!(stages(Traffic::SOFTMAX, Staggered, [512, 2]), Some(3));
        assert_eq!(stages(Traffic::RMS_NORM, Staggered, [512, 2]), None);
        assert_eq!(stages(Traffic::LAYER_NORM, Staggered, [1024, 1]), Some(4));
        assert_eq!(stages(Traffic::ADD_RMS_NORM, Staggered, [1024, 1]), Some(3));
    }

    #[test]
    fn impossible_tunings_are_refused() {
        let refused = |tuning| long_rows(Traffic::LAYER_NORM, tuning).expect_err("no such plan").to_string();
        assert_eq!(
            refused(Tuning { ctas_per_sm: Some(5), ..Tuning::AUTO }),
            "a plan for rows: no SM holds 5 CTAs of 512 threads"
        );
        let scheduler = Some(RowScheduler::Staggered);
        let deep = Tuning { threads: Some(1024), scheduler, stages: Some(6), ..Tuning::AUTO };
        assert_eq!(
            refused(deep),
            "a plan for rows: a pipeline of 6 stages of 32768 bytes: it needs at least 3, and shared memory holds 5"
        );
    }

    #[test]
    fn a_cta_reads_a_long_row_that_has_no_result() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        for (columns, threads) in [(32_768, 256), (151_936, 512), (262_144, 512), (1 << 20, 512)] {
            let plan = Plan::new::<bf16>(columns, Traffic::CROSS_ENTROPY, h200, 132);
            assert_eq!((plan.scheduler, plan.ctas), (RowScheduler::NonPersistent, 1), "{columns} columns");
            assert_eq!((plan.threads, plan.prefetches_rows), (threads, false), "{columns} columns");
        }
    }

    #[test]
    fn rows_of_a_grid_wait_for_the_rows_before() {
        let lag = |threads| {
            let scheduler = Some(RowScheduler::Grid);
            let tuning = Tuning { scheduler, threads: Some(threads), ..Tuning::AUTO };
            long_rows(Traffic::SOFTMAX, tuning).map(|plan| plan.lag()).ok()
        };
        assert_eq!([128, 256, 384, 512].map(lag), [Some(4), Some(2), Some(2), Some(1)]);
    }

    #[test]
    fn long_rows_that_begin_inside_vectors_are_read_in_vectors() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        for (traffic, columns, expected) in [
            (Traffic::SOFTMAX, 5003, (8, 160, 1)),
            (Traffic::SOFTMAX, 5002, (8, 160, 1)),
            (Traffic::SOFTMAX, 5004, (4, 320, 1)),
            (Traffic::SOFTMAX, 511, (1, 128, 1)),
            (Traffic::CROSS_ENTROPY, 40_001, (8, 256, 1)),
            (Traffic::RMS_NORM, 5003, (1, 512, 4)),
        ] {
            let plan = Plan::new::<bf16>(columns, traffic, h200, 132);
            assert_eq!((plan.lanes, plan.threads, plan.ctas), expected, "{columns} columns");
            assert_eq!(plan.is_resident(), traffic != Traffic::CROSS_ENTROPY);
        }
    }

    #[test]
    fn the_measured_plans_are_possible() {
        for (traffic, _, tuning) in MEASURED {
            let plan = long_rows(*traffic, *tuning).expect("it was measured");
            assert_eq!(Some(plan.scheduler), tuning.scheduler);
        }
    }

    #[test]
    fn rows_of_clusters_take_what_was_measured_from_their_ctas_on() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        let plan = |traffic, columns| {
            let plan = Plan::new::<bf16>(columns, traffic, h200, 132);
            assert!(plan.is_resident(), "{plan:?}");
            (plan.ctas, plan.threads, plan.steps, plan.scheduler)
        };
        use RowScheduler::{NonPersistent, Persistent, Staggered};
        let lengths = [16_384, 32_768, 65_536, 131_072, 262_144];
        assert_eq!(
            lengths.map(|columns| plan(Traffic::LAYER_NORM, columns)),
            [
                (1, 512, 4, NonPersistent),
                (2, 256, 8, NonPersistent),
                (4, 256, 8, NonPersistent),
                (8, 512, 4, Staggered),
                (16, 512, 4, Staggered)
            ]
        );
        assert_eq!(plan(Traffic::RMS_NORM, 131_072), (8, 512, 4, NonPersistent));
        assert_eq!(plan(Traffic::RMS_NORM, 262_144), (16, 256, 8, Persistent));
    }

    #[test]
    fn every_length_has_a_plan_that_covers_it() {
        for name in ["a100", "h200"] {
            let capability = Arch::named(name).expect("in the table").capability;
            for columns in (1..5000).chain((5000..600_000).step_by(997)).chain([262_144]) {
                for plan in [
                    Plan::of_length::<bf16>(columns, Traffic::SOFTMAX, capability),
                    Plan::of_length::<f32>(columns, Traffic::SOFTMAX, capability),
                ] {
                    let is_long = columns >= INSIDE_VECTORS * plan.lanes;
                    assert!(!plan.begins_inside() || is_long, "{plan:?}");
                    assert!(plan.part() * plan.ctas + 2 * (plan.lanes - 1) >= columns, "{plan:?}");
                    assert!(plan.cta_threads().is_multiple_of(32) && plan.cta_threads() <= 1024, "{plan:?}");
                    assert!(plan.threads.is_multiple_of(32) || 32 % plan.threads == 0, "{plan:?}");
                    assert!(plan.rows == 1 || plan.threads <= 32, "{plan:?}");
                    assert!(plan.is_resident() || plan.steps == STEPS, "{plan:?}");
                    assert!(plan.ctas == 1 || name == "h200", "{plan:?}");
                    // No thread is idle for a whole step that another plan would not need.
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

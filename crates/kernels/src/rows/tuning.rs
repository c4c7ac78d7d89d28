//! What is chosen for rows by measuring, and what may be tried instead.

use warpwright::arch::Capability;
use warpwright::arch::limits::CTAS_PER_SM;
use warpwright::lang::element::Element;

use super::plan::{MOST_STEPS, Plan, Traffic, Turnover};
use crate::operations::{OperationError, Result};

/// What a plan has besides what the length of the rows says; 0 and `None` leave it at that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuning {
    /// Threads of one CTA that share a row.
    pub threads: u32,
    /// CTAs that share a row.
    pub ctas: u32,
    /// Vectors of a row that a thread holds at once at most.
    pub steps: u32,
    /// CTAs that an SM should hold.
    pub ctas_per_sm: u32,
    /// How clusters come by their rows.
    pub turnover: Option<Turnover>,
    /// Stages of the ring, where rows come through one.
    pub stages: u32,
    /// Clusters that stay.
    pub clusters: u32,
    /// Whether what comes to the ring is the first that L2 gives up.
    pub evicts: bool,
    /// Whether what is written is the first that L2 gives up; `None` where what the kernel moves decides.
    pub streams: Option<bool>,
}

impl Tuning {
    const NOTHING: Self = Self {
        threads: 0,
        ctas: 0,
        steps: 0,
        ctas_per_sm: 0,
        turnover: None,
        stages: 0,
        clusters: 0,
        evicts: false,
        streams: None,
    };
}

/// What was fastest on the H200 for rows that clusters share: what a kernel moves, and from how many CTAs a row on. The longest, of 16 CTAs, are
/// rows of 262,144 in `docs/benches/rows-long.txt`; those between them and 16,384, in `docs/benches/rows-between.txt`.
const LONG_ROWS: &[(Traffic, u32, Tuning)] = &[
    (Traffic::SOFTMAX, 16, Tuning { turnover: Some(Turnover::Leave), streams: Some(true), ..FEW_THREADS }),
    (Traffic::RMS_NORM, 16, Tuning { turnover: Some(Turnover::Stay), ..FEW_THREADS }),
    (
        Traffic::ADD_RMS_NORM,
        16,
        Tuning { turnover: Some(Turnover::Leave), threads: 1024, ctas: 8, ..Tuning::NOTHING },
    ),
    (Traffic::LAYER_NORM, 2, Tuning { turnover: Some(Turnover::Leave), ..FEW_THREADS }),
    (
        Traffic::LAYER_NORM,
        8,
        Tuning {
            turnover: Some(Turnover::Stagger),
            threads: 512,
            ctas_per_sm: 1,
            stages: 4,
            ..Tuning::NOTHING
        },
    ),
    (
        Traffic::CROSS_ENTROPY,
        16,
        Tuning { turnover: Some(Turnover::Spread), threads: 512, evicts: true, ..Tuning::NOTHING },
    ),
];

/// Half the threads, each with twice as much of the row and twice the registers: two CTAs an SM, as with 512 threads, and half as many instructions
/// for what threads exchange.
const FEW_THREADS: Tuning = Tuning { threads: 256, steps: 8, ctas_per_sm: 2, ..Tuning::NOTHING };

/// Where there is no room for that.
const RING: Tuning = Tuning { turnover: Some(Turnover::Ring), ..Tuning::NOTHING };

/// CTAs of the clusters whose rows are long. Measured on the H200: RMSNorm of 262,144 columns, 16 CTAs a row, 3.63 TB/s where the device starts a
/// cluster for each row and 3.92 where clusters stay; of 65,536 columns, 4 CTAs a row, 4.03 and 3.85.
const LONG_ROW_CTAS: u32 = 16;

/// Stages of a ring where nothing else is asked for and there is room.
const RING_STAGES: u32 = 3;
/// The same of a staggered one: two rows are worked on, and two more are on their way.
const STAGGERED_STAGES: u32 = 4;
/// What a staggered ring needs: two rows are worked on.
const LEAST_STAGGERED_STAGES: u32 = 3;

/// Of a spread row: threads of a CTA, CTAs, and stages of each warp where there is room.
const SPREAD_THREADS: u32 = 256;
const SPREAD_CTAS: u32 = 128;
const SPREAD_STAGES: u32 = 5;

/// Threads of an SM, at most, on every GPU with clusters.
const MOST_SM_THREADS: u32 = 2048;

impl Plan {
    /// What was measured to be best for rows of this length.
    pub(super) fn as_measured<T: Element>(self, traffic: Traffic, capability: &Capability, sms: u32) -> Self {
        let is_for = |(of, from, _): &&(Traffic, u32, Tuning)| *of == traffic && *from <= self.ctas;
        let measured = LONG_ROWS.iter().rfind(is_for).map(|(.., tuning)| *tuning);
        let possible = |tuning| {
            let plan = self.tuned::<T>(traffic, tuning, capability).ok()?;
            // The CTAs of a spread row must all be there at once.
            let fits = plan.turnover != Turnover::Spread || plan.ctas <= sms * plan.ctas_per_sm;
            (fits && plan.is_resident()).then_some(plan)
        };
        let tuned = measured.and_then(possible);
        if self.ctas < LONG_ROW_CTAS {
            return tuned.unwrap_or(self);
        }
        // Rows too long for a ring are read twice, and what they have in common stays in L1 all the better.
        let unheld = if traffic.commons > 0 { Turnover::Stay } else { Turnover::Leave };
        tuned.or_else(|| possible(RING)).unwrap_or(Self { turnover: unheld, ..self })
    }

    /// The same rows in another way: to find out what is fastest.
    ///
    /// # Errors
    /// No plan can have these numbers, or there is no room for them.
    pub fn tuned<T: Element>(
        &self,
        traffic: Traffic,
        tuning: Tuning,
        capability: &Capability,
    ) -> Result<Self> {
        if tuning.turnover == Some(Turnover::Spread) {
            return self.spread::<T>(traffic, tuning, capability);
        }
        let or = |given, own| if given == 0 { own } else { given };
        let shares = [or(tuning.threads, self.threads), or(tuning.ctas, self.ctas)];
        let plan = self.shared_by::<T>(shares, tuning.steps, traffic, capability)?;
        let ctas_per_sm = or(tuning.ctas_per_sm, plan.ctas_per_sm);
        if ctas_per_sm > CTAS_PER_SM || ctas_per_sm * plan.cta_threads() > MOST_SM_THREADS {
            let threads = plan.cta_threads();
            return refuse(format!("no SM holds {ctas_per_sm} CTAs of {threads} threads"));
        }
        let (evicts, streams) = (tuning.evicts, tuning.streams.unwrap_or(plan.streams));
        let plan = Self { ctas_per_sm, clusters: tuning.clusters, evicts, streams, ..plan };
        match tuning.turnover {
            None | Some(Turnover::Leave) => Ok(plan),
            Some(Turnover::Stay) => Ok(Self { turnover: Turnover::Stay, ..plan }),
            Some(turnover) => plan.with_ring::<T>(traffic, turnover, tuning.stages, capability),
        }
    }

    /// The same rows, each shared by the whole grid: its CTAs have `threads` threads, and a warp's turn is a row.
    fn spread<T: Element>(self, traffic: Traffic, tuning: Tuning, capability: &Capability) -> Result<Self> {
        let or = |given, own| if given == 0 { own } else { given };
        let (threads, ctas) = (or(tuning.threads, SPREAD_THREADS), or(tuning.ctas, SPREAD_CTAS));
        if !threads.is_multiple_of(32) || threads > capability.threads_per_cta || !ctas.is_multiple_of(32) {
            return refuse(format!(
                "rows are spread over a multiple of 32 CTAs of whole warps, not over {ctas} of {threads} threads"
            ));
        }
        let part = self.columns.div_ceil(ctas).next_multiple_of(self.lanes);
        let steps = part.div_ceil(self.lanes * 32);
        if steps > MOST_STEPS || (ctas - 1) * part >= self.columns {
            return refuse(format!("rows of {} columns are not spread over {ctas} CTAs", self.columns));
        }
        let ctas_per_sm = or(tuning.ctas_per_sm, 1);
        let (rows, evicts, streams) = (threads / 32, tuning.evicts, tuning.streams.unwrap_or(self.streams));
        let plan = Self { threads: 32, rows, ctas, steps, ctas_per_sm, evicts, streams, clusters: 0, ..self };
        plan.with_ring::<T>(traffic, Turnover::Spread, tuning.stages, capability)
    }

    /// The same with rows that come through a ring; of 0 stages, as many as are good and have room.
    fn with_ring<T: Element>(
        self,
        traffic: Traffic,
        turnover: Turnover,
        stages: u32,
        capability: &Capability,
    ) -> Result<Self> {
        /// Bytes of static shared memory of a CTA.
        const STATIC: u32 = 2 << 10;
        let plan = Self { turnover, ..self };
        if !(plan.is_resident() && plan.prefetches::<T>()) {
            return refuse(
                "only rows of whole vectors of 16 bytes, which registers hold, come through a ring, on sm_90"
                    .to_owned(),
            );
        }
        let (least, good) = match turnover {
            Turnover::Stagger => (LEAST_STAGGERED_STAGES, STAGGERED_STAGES),
            // Rows that wait, the one that is gathered, and one on its way.
            Turnover::Spread => (plan.lag() + 2, SPREAD_STAGES),
            _ => (1, RING_STAGES),
        };
        if turnover == Turnover::Stagger && self.ctas == 1 {
            return refuse("the threads of one CTA have no others to wait for".to_owned());
        }
        let reserved = capability.shared_bytes_reserved;
        let room = capability.shared_bytes_per_sm / self.ctas_per_sm - reserved - STATIC;
        let row = self.span() * T::BYTES;
        let stage = row * traffic.sources * self.rows;
        let most = room.saturating_sub(row * traffic.commons) / stage;
        let stages = if stages == 0 { good.min(most).max(least) } else { stages };
        if stages < least || stages > most {
            return refuse(format!(
                "a ring of {stages} stages was asked for: it takes at least {least}, and there is room for {most} of {stage} bytes"
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
    fn as_many_stages_as_there_is_room_for() {
        let stages = |traffic, turnover, [threads, ctas_per_sm]: [u32; 2]| {
            let turnover = Some(turnover);
            let tuning = Tuning { threads, ctas_per_sm, turnover, ..Tuning::default() };
            long_rows(traffic, tuning).map(|plan| plan.stages).ok()
        };
        use Turnover::{Ring, Stagger};
        // 113 KB for each of two CTAs, 227 KB for one; a stage is 32 KB, and so is each row that is kept.
        assert_eq!(stages(Traffic::SOFTMAX, Ring, [512, 2]), Some(3));
        assert_eq!(stages(Traffic::RMS_NORM, Ring, [512, 2]), Some(2));
        assert_eq!(stages(Traffic::LAYER_NORM, Ring, [512, 2]), Some(1));
        assert_eq!(stages(Traffic::SOFTMAX, Stagger, [512, 2]), Some(3));
        assert_eq!(stages(Traffic::RMS_NORM, Stagger, [512, 2]), None);
        assert_eq!(stages(Traffic::LAYER_NORM, Stagger, [1024, 1]), Some(4));
        assert_eq!(stages(Traffic::ADD_RMS_NORM, Stagger, [1024, 1]), Some(3));
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let refused = |tuning| long_rows(Traffic::LAYER_NORM, tuning).expect_err("no such plan").to_string();
        let nothing = Tuning::default();
        assert_eq!(
            refused(Tuning { ctas_per_sm: 5, ..nothing }),
            "a plan for rows: no SM holds 5 CTAs of 512 threads"
        );
        let deep = Tuning { threads: 1024, turnover: Some(Turnover::Stagger), stages: 6, ..nothing };
        assert_eq!(
            refused(deep),
            "a plan for rows: a ring of 6 stages was asked for: it takes at least 3, and there is room for 5 of 32768 bytes"
        );
    }

    #[test]
    fn rows_are_spread_where_all_ctas_are_there_at_once() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        let plan = |columns, sms| Plan::new::<bf16>(columns, Traffic::CROSS_ENTROPY, h200, sms);
        let spread = plan(262_144, 132);
        assert_eq!(
            (spread.turnover, spread.ctas, spread.rows, spread.stages),
            (Turnover::Spread, 128, 16, 3)
        );
        assert_eq!(plan(262_144, 114).turnover, Turnover::Ring);
        assert_eq!(plan(262_144 - 8, 132).turnover, Turnover::Spread);
        // Registers hold no such row.
        assert_eq!(plan(1 << 20, 132).turnover, Turnover::Leave);
        assert_eq!(plan(65_536, 132).turnover, Turnover::Leave);
        let lag = |threads| {
            let tuning = Tuning { turnover: Some(Turnover::Spread), threads, ..Tuning::default() };
            long_rows(Traffic::SOFTMAX, tuning).map(|plan| plan.lag()).ok()
        };
        assert_eq!([128, 256, 384, 512].map(lag), [Some(4), Some(2), Some(2), Some(1)]);
    }

    #[test]
    fn the_measured_plans_are_possible() {
        for (traffic, _, tuning) in LONG_ROWS {
            let plan = long_rows(*traffic, *tuning).expect("it was measured");
            assert_eq!(Some(plan.turnover), tuning.turnover);
        }
    }

    #[test]
    fn rows_of_clusters_take_what_was_measured_from_their_ctas_on() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        let plan = |traffic, columns| {
            let plan = Plan::new::<bf16>(columns, traffic, h200, 132);
            assert!(plan.is_resident(), "{plan:?}");
            (plan.ctas, plan.threads, plan.steps, plan.turnover)
        };
        use Turnover::{Leave, Stagger, Stay};
        let lengths = [16_384, 32_768, 65_536, 131_072, 262_144];
        assert_eq!(
            lengths.map(|columns| plan(Traffic::LAYER_NORM, columns)),
            [
                (1, 512, 4, Leave),
                (2, 256, 8, Leave),
                (4, 256, 8, Leave),
                (8, 512, 4, Stagger),
                (16, 512, 4, Stagger)
            ]
        );
        assert_eq!(plan(Traffic::RMS_NORM, 131_072), (8, 512, 4, Leave));
        assert_eq!(plan(Traffic::RMS_NORM, 262_144), (16, 256, 8, Stay));
    }
}

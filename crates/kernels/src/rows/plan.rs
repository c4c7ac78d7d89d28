//! Who holds a row: the choice by its length.

use warpwright::arch::Capability;
use warpwright::lang::element::Element;

use crate::vector;

/// How the threads of a grid share rows of one length.
///
/// ```text
/// threads of a CTA for a row    CTAs for a row    rows of a CTA
/// up to 32 (part of a warp)     1                 several, no barrier      short rows
/// up to 1024                    1                 1                        rows that a CTA's registers hold
/// up to 1024                    up to 8           1                        rows that a cluster's registers hold
/// 1024                          1                 1, read twice            longer rows, and long ones without clusters
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
}

/// Vectors of a thread, where there is a choice: enough bytes on their way with few registers.
const STEPS: u32 = 2;
/// Vectors of a thread before a row is shared by more CTAs, or read twice.
const MOST_STEPS: u32 = 4;
/// Threads of a CTA whose rows take a warp or less.
const SHORT_ROW_THREADS: u32 = 128;
/// CTAs that a cluster may have on every GPU that has clusters. PTX ISA, "Cluster of Cooperative Thread Arrays".
const PORTABLE_CLUSTER: u32 = 8;

impl Plan {
    /// The plan for rows of `columns` elements of `T`, on a GPU of that capability.
    pub fn new<T: Element>(columns: u32, capability: &Capability) -> Self {
        let lanes = vector::widest(columns.into(), T::BYTES);
        let vectors = columns.div_ceil(lanes);
        let most = capability.threads_per_cta;
        let clusters = capability.compute_capability >= (9, 0);
        let (threads, ctas) = match vectors.div_ceil(STEPS) {
            threads if threads <= 32 => (threads.max(1).next_power_of_two(), 1),
            threads if threads <= most => (threads.next_multiple_of(32), 1),
            _ if vectors <= most * MOST_STEPS => (most, 1),
            _ if clusters => {
                let ctas = vectors.div_ceil(most * MOST_STEPS).next_power_of_two();
                (most, ctas.min(PORTABLE_CLUSTER))
            }
            _ => (most, 1),
        };
        let rows = if threads <= 32 { SHORT_ROW_THREADS / threads } else { 1 };
        let steps = vectors.div_ceil(threads * ctas).clamp(1, MOST_STEPS);
        Self { columns, lanes, threads, rows, ctas, steps }
    }

    /// Elements of a row that its threads hold at once.
    pub fn span(&self) -> u32 {
        self.lanes * self.threads * self.ctas * self.steps
    }

    /// Whether a row's threads hold all of it, so that it is read once.
    pub fn is_resident(&self) -> bool {
        self.span() >= self.columns
    }

    /// Threads of a CTA.
    pub fn cta_threads(&self) -> u32 {
        self.threads * self.rows
    }

    /// CTAs for `rows` rows, whole clusters; as many as a grid may have, and each then goes on with further rows.
    pub fn grid(&self, rows: u32) -> u32 {
        let most = i32::MAX as u32 / self.ctas;
        rows.div_ceil(self.rows).min(most) * self.ctas
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
                for plan in [Plan::new::<bf16>(columns, capability), Plan::new::<f32>(columns, capability)] {
                    assert!(columns.is_multiple_of(plan.lanes), "{plan:?}");
                    assert!(plan.cta_threads().is_multiple_of(32) && plan.cta_threads() <= 1024, "{plan:?}");
                    assert!(plan.threads.is_multiple_of(32) || 32 % plan.threads == 0, "{plan:?}");
                    assert!(plan.rows == 1 || plan.threads <= 32, "{plan:?}");
                    assert!(plan.is_resident() || plan.steps == MOST_STEPS, "{plan:?}");
                    assert!(plan.ctas == 1 || name == "h200", "{plan:?}");
                    // Nobody is idle for a whole step that another strategy would not need.
                    assert!(plan.span() < 2 * columns.next_multiple_of(plan.lanes * 32), "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn known_plans() {
        let h200 = Arch::named("h200").expect("in the table").capability;
        let plan = |columns| {
            let Plan { threads, rows, ctas, steps, .. } = Plan::new::<bf16>(columns, h200);
            (threads, rows, ctas, steps)
        };
        assert_eq!(plan(64), (4, 32, 1, 2));
        assert_eq!(plan(512), (32, 4, 1, 2));
        assert_eq!(plan(4096), (256, 1, 1, 2));
        assert_eq!(plan(16_384), (1024, 1, 1, 2));
        assert_eq!(plan(32_768), (1024, 1, 1, 4));
        assert_eq!(plan(262_144), (1024, 1, 8, 4));
    }
}

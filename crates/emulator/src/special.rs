//! Special registers.
//!
//! All but the clocks are constant for a thread's life, so they are ordinary columns that are filled when the warp
//! starts; only the clocks are read by an operation of their own.

use std::time::Duration;

use warpwright_events::LANES;

use crate::launch::LaunchContext;

/// A special register that never changes in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SpecialRegister {
    ThreadIndex(usize),
    CtaExtent(usize),
    CtaIndex(usize),
    GridExtent(usize),
    Lane,
    Warp,
    Warps,
    Sm,
    Sms,
    Grid,
    LaneMaskEqual,
    LaneMaskLess,
    LaneMaskLessEqual,
    LaneMaskGreater,
    LaneMaskGreaterEqual,
    DynamicSharedBytes,
    TotalSharedBytes,
    AggregateSharedBytes,
    /// Where the shared memory that is the system's starts.
    ReservedSharedStart,
    /// Where it ends.
    ReservedSharedEnd,
    /// Its bytes.
    ReservedSharedBytes,
    ClusterIndex(usize),
    ClusterCount(usize),
    CtaInCluster(usize),
    ClusterExtent(usize),
    CtaRankInCluster,
    CtasInCluster,
    ClusterIsExplicit,
    Zero,
}

/// A special register that is read anew each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Clock {
    /// Cycles of the SM.
    Cycles,
    /// The high half of the cycles.
    CyclesHigh,
    /// Nanoseconds since the epoch.
    Nanoseconds,
    NanosecondsHigh,
}

/// What a name like `%tid.x` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Constant(SpecialRegister),
    Clock(Clock),
}

impl Special {
    /// Looks a name up, with its percent sign.
    pub(crate) fn named(name: &str) -> Option<Special> {
        let name = name.strip_prefix('%')?;
        let (stem, axis) = match name.rsplit_once('.') {
            Some((stem, "x")) => (stem, 0),
            Some((stem, "y")) => (stem, 1),
            Some((stem, "z")) => (stem, 2),
            Some((stem, "w")) => (stem, 3),
            _ => ("", 0),
        };
        let vector = match stem {
            "tid" => Some(SpecialRegister::ThreadIndex(axis)),
            "ntid" => Some(SpecialRegister::CtaExtent(axis)),
            "ctaid" => Some(SpecialRegister::CtaIndex(axis)),
            "nctaid" => Some(SpecialRegister::GridExtent(axis)),
            "clusterid" => Some(SpecialRegister::ClusterIndex(axis)),
            "nclusterid" => Some(SpecialRegister::ClusterCount(axis)),
            "cluster_ctaid" => Some(SpecialRegister::CtaInCluster(axis)),
            "cluster_nctaid" => Some(SpecialRegister::ClusterExtent(axis)),
            _ => None,
        };
        if let Some(register) = vector {
            return Some(Special::Constant(if axis == 3 { SpecialRegister::Zero } else { register }));
        }
        let constant = match name {
            "laneid" => SpecialRegister::Lane,
            "warpid" => SpecialRegister::Warp,
            "nwarpid" => SpecialRegister::Warps,
            "smid" => SpecialRegister::Sm,
            "nsmid" => SpecialRegister::Sms,
            "gridid" => SpecialRegister::Grid,
            "lanemask_eq" => SpecialRegister::LaneMaskEqual,
            "lanemask_lt" => SpecialRegister::LaneMaskLess,
            "lanemask_le" => SpecialRegister::LaneMaskLessEqual,
            "lanemask_gt" => SpecialRegister::LaneMaskGreater,
            "lanemask_ge" => SpecialRegister::LaneMaskGreaterEqual,
            "dynamic_smem_size" => SpecialRegister::DynamicSharedBytes,
            "total_smem_size" => SpecialRegister::TotalSharedBytes,
            "aggr_smem_size" => SpecialRegister::AggregateSharedBytes,
            "cluster_ctarank" => SpecialRegister::CtaRankInCluster,
            "cluster_nctarank" => SpecialRegister::CtasInCluster,
            "is_explicit_cluster" => SpecialRegister::ClusterIsExplicit,
            // Where the parts 0 and 1 lie in the region is not documented; cooperative groups use part 1 alone.
            "reserved_smem_offset_begin" | "reserved_smem_offset_0" | "reserved_smem_offset_1" => {
                SpecialRegister::ReservedSharedStart
            }
            "reserved_smem_offset_end" => SpecialRegister::ReservedSharedEnd,
            "reserved_smem_offset_cap" => SpecialRegister::ReservedSharedBytes,
            // No graph launches anything here.
            "current_graph_exec" => SpecialRegister::Zero,
            "clock" | "clock64" => return Some(Special::Clock(Clock::Cycles)),
            "clock_hi" => return Some(Special::Clock(Clock::CyclesHigh)),
            "globaltimer" | "globaltimer_lo" => return Some(Special::Clock(Clock::Nanoseconds)),
            "globaltimer_hi" => return Some(Special::Clock(Clock::NanosecondsHigh)),
            _ => {
                let numbered = |prefix: &str, end: u32| {
                    name.strip_prefix(prefix)
                        .and_then(|rest| rest.strip_suffix("_64").unwrap_or(rest).parse::<u32>().ok())
                        .is_some_and(|number| number < end)
                };
                if numbered("envreg", 32) || numbered("pm", 8) {
                    SpecialRegister::Zero
                } else {
                    return None;
                }
            }
        };
        Some(Special::Constant(constant))
    }
}

/// Where a warp is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpPosition {
    pub(crate) cta: [u32; 3],
    pub(crate) warp: u32,
}

impl SpecialRegister {
    /// Whether it tells of the shared memory that is the system's.
    pub(crate) fn is_of_reserved_shared(self) -> bool {
        matches!(
            self,
            SpecialRegister::ReservedSharedStart
                | SpecialRegister::ReservedSharedEnd
                | SpecialRegister::ReservedSharedBytes
        )
    }

    /// Its values in a warp.
    pub(crate) fn column(self, launch: &LaunchContext<'_>, position: WarpPosition) -> [u64; LANES] {
        let all = |value: u32| [u64::from(value); LANES];
        let lanes = |of: fn(u32) -> u32| std::array::from_fn(|lane| u64::from(of(lane as u32)));
        let linear = launch.linear_cta(position.cta);
        match self {
            SpecialRegister::ThreadIndex(axis) => std::array::from_fn(|lane| {
                let thread = position.warp * LANES as u32 + lane as u32;
                let [x, y, _] = launch.block;
                u64::from([thread % x, thread / x % y, thread / (x * y)][axis])
            }),
            SpecialRegister::CtaExtent(axis) => all(launch.block[axis]),
            SpecialRegister::CtaIndex(axis) => all(position.cta[axis]),
            SpecialRegister::ClusterIndex(axis) => all(position.cta[axis] / launch.cluster[axis]),
            SpecialRegister::GridExtent(axis) => all(launch.grid[axis]),
            SpecialRegister::ClusterCount(axis) => all(launch.clusters()[axis]),
            SpecialRegister::Lane => lanes(|lane| lane),
            SpecialRegister::Warp => all(position.warp),
            SpecialRegister::Warps => all(launch.arch.capability.warps_per_sm),
            SpecialRegister::Sm => all((linear % u64::from(launch.arch.sm_count)) as u32),
            SpecialRegister::Sms => all(launch.arch.sm_count),
            SpecialRegister::Grid => [launch.grid_id; LANES],
            SpecialRegister::LaneMaskEqual => lanes(|lane| 1 << lane),
            SpecialRegister::LaneMaskLess => lanes(|lane| (1 << lane) - 1),
            SpecialRegister::LaneMaskLessEqual => lanes(|lane| (1 << lane) | ((1 << lane) - 1)),
            SpecialRegister::LaneMaskGreater => lanes(|lane| !((1 << lane) | ((1 << lane) - 1))),
            SpecialRegister::LaneMaskGreaterEqual => lanes(|lane| !((1 << lane) - 1)),
            SpecialRegister::DynamicSharedBytes => all(launch.dynamic_shared_bytes),
            SpecialRegister::TotalSharedBytes => all(launch.shared_bytes),
            SpecialRegister::AggregateSharedBytes => {
                all(launch.shared_bytes + launch.arch.capability.shared_bytes_reserved)
            }
            SpecialRegister::ReservedSharedStart => all(launch.reserved_shared_start()),
            SpecialRegister::ReservedSharedEnd => {
                all(launch.reserved_shared_start() + launch.arch.capability.shared_bytes_reserved)
            }
            SpecialRegister::ReservedSharedBytes => all(launch.arch.capability.shared_bytes_reserved),
            SpecialRegister::CtaInCluster(axis) => all(position.cta[axis] % launch.cluster[axis]),
            SpecialRegister::CtaRankInCluster => all(launch.rank_in_cluster(position.cta)),
            SpecialRegister::ClusterExtent(axis) => all(launch.cluster[axis]),
            SpecialRegister::CtasInCluster => all(launch.ctas_per_cluster()),
            SpecialRegister::ClusterIsExplicit => all(launch.explicit_cluster.into()),
            SpecialRegister::Zero => all(0),
        }
    }
}

impl Clock {
    /// Its value at a moment of the launch. Cycles are time at the device's highest clock.
    pub(crate) fn read(self, launch: &LaunchContext<'_>, elapsed: Duration) -> u64 {
        let cycles = || cycles(elapsed, launch.arch.boost_mhz);
        let nanoseconds = || launch.clock.date(elapsed).as_nanos() as u64;
        match self {
            Clock::Cycles => cycles(),
            Clock::CyclesHigh => cycles() >> 32,
            Clock::Nanoseconds => nanoseconds(),
            Clock::NanosecondsHigh => nanoseconds() >> 32,
        }
    }
}

fn cycles(elapsed: Duration, mhz: u32) -> u64 {
    (elapsed.as_nanos() as u64).wrapping_mul(u64::from(mhz)) / 1000
}

//! Special registers.
//!
//! All except the clocks are constant for a thread, so they are ordinary columns that are filled
//! when the warp starts; only the clocks have an operation that reads them.

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
    /// The start of the system's shared memory.
    ReservedSharedStart,
    /// Its end.
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

/// A special register that is read each time.
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

/// The component of a special register that is a vector.
fn vector(stem: &str, axis: usize) -> Option<SpecialRegister> {
    Some(match stem {
        "tid" => SpecialRegister::ThreadIndex(axis),
        "ntid" => SpecialRegister::CtaExtent(axis),
        "ctaid" => SpecialRegister::CtaIndex(axis),
        "nctaid" => SpecialRegister::GridExtent(axis),
        "clusterid" => SpecialRegister::ClusterIndex(axis),
        "nclusterid" => SpecialRegister::ClusterCount(axis),
        "cluster_ctaid" => SpecialRegister::CtaInCluster(axis),
        "cluster_nctaid" => SpecialRegister::ClusterExtent(axis),
        _ => return None,
    })
}

/// The meaning of a name like `%tid.x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Constant(SpecialRegister),
    Clock(Clock),
}

impl Special {
    /// Whether a name, with its percent sign, is that of a vector of four: `%tid`.
    pub(crate) fn is_vector(name: &str) -> bool {
        name.strip_prefix('%').is_some_and(|stem| vector(stem, 0).is_some())
    }

    /// Resolves a name, with its percent sign.
    pub(crate) fn named(name: &str) -> Option<Special> {
        let name = name.strip_prefix('%')?;
        let (stem, axis) = match name.rsplit_once('.') {
            Some((stem, "x")) => (stem, 0),
            Some((stem, "y")) => (stem, 1),
            Some((stem, "z")) => (stem, 2),
            Some((stem, "w")) => (stem, 3),
            _ => ("", 0),
        };
        if let Some(register) = vector(stem, axis) {
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
            // The positions of parts 0 and 1 in the region are not documented; cooperative groups
            // use part 1 alone.
            "reserved_smem_offset_begin" | "reserved_smem_offset_0" | "reserved_smem_offset_1" => {
                SpecialRegister::ReservedSharedStart
            }
            "reserved_smem_offset_end" => SpecialRegister::ReservedSharedEnd,
            "reserved_smem_offset_cap" => SpecialRegister::ReservedSharedBytes,
            // Graph launches are not emulated.
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

/// The position of a warp in the grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpPosition {
    pub(crate) cta: [u32; 3],
    pub(crate) warp: u32,
}

impl SpecialRegister {
    /// Whether it describes the system's shared memory.
    pub(crate) fn is_of_reserved_shared(self) -> bool {
        matches!(
            self,
            SpecialRegister::ReservedSharedStart
                | SpecialRegister::ReservedSharedEnd
                | SpecialRegister::ReservedSharedBytes
        )
    }
}

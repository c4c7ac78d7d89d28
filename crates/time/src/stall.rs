//! Stall reasons.

use serde::Serialize;

/// Why a warp does not issue: the stall reasons of Nsight Compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stall {
    /// It issues.
    #[default]
    Selected,
    /// It waits for the fixed latency of an instruction before.
    Wait,
    /// It waits for global or local memory.
    LongScoreboard,
    /// It waits for shared memory, an exchange between lanes, or a special function.
    ShortScoreboard,
    /// It waits at a barrier of its CTA or of its cluster.
    Barrier,
    /// It waits for the phase of an mbarrier: for a copy, or for another warp.
    Mbarrier,
    /// It waits for MMAs of its warpgroup.
    Gmma,
    /// The pipe of its instruction is busy.
    MathPipeThrottle,
    /// The queue of the load/store unit is full.
    MioThrottle,
    /// It waits for a fence of memory.
    Membar,
    /// It sleeps (`nanosleep`).
    Sleeping,
    /// It waits for a branch.
    BranchResolving,
    /// Another warp issues.
    NotSelected,
    /// Its instruction has not been fetched.
    NoInstruction,
}

impl Stall {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Selected,
        Self::Wait,
        Self::LongScoreboard,
        Self::ShortScoreboard,
        Self::Barrier,
        Self::Mbarrier,
        Self::Gmma,
        Self::MathPipeThrottle,
        Self::MioThrottle,
        Self::Membar,
        Self::Sleeping,
        Self::BranchResolving,
        Self::NotSelected,
        Self::NoInstruction,
    ];

    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::Wait => "wait",
            Self::LongScoreboard => "long scoreboard",
            Self::ShortScoreboard => "short scoreboard",
            Self::Barrier => "barrier",
            Self::Mbarrier => "mbarrier",
            Self::Gmma => "wgmma",
            Self::MathPipeThrottle => "math pipe throttle",
            Self::MioThrottle => "MIO throttle",
            Self::Membar => "membar",
            Self::Sleeping => "sleeping",
            Self::BranchResolving => "branch resolving",
            Self::NotSelected => "not selected",
            Self::NoInstruction => "no instruction",
        }
    }
}

/// The number of stall reasons.
pub(crate) const STALLS: usize = Stall::ALL.len();

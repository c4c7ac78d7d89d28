//! An agent at an instruction, and how reports name it.

use warpwright_events::{LaunchInfo, lane_list};

/// An agent at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// The linear index of the CTA.
    pub(crate) cta: u32,
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
    pub(crate) pc: u32,
}

impl Mark {
    /// `warp 3, lane 0 of CTA (1, 0, 0)`
    pub(crate) fn who(self, launch: &LaunchInfo) -> String {
        who(launch, self.cta, self.warp, self.lanes)
    }
}

/// `CTA (1, 0, 0)`
pub(crate) fn cta_name(launch: &LaunchInfo, linear: u32) -> String {
    let [x, y, z] = launch.cta_index(linear);
    format!("CTA ({x}, {y}, {z})")
}

/// `warp 3, lanes 0-7 of CTA (1, 0, 0)`
pub(crate) fn who(launch: &LaunchInfo, cta: u32, warp: u32, lanes: u32) -> String {
    let cta = cta_name(launch, cta);
    if lanes == u32::MAX {
        format!("warp {warp} of {cta}")
    } else {
        format!("warp {warp}, {} of {cta}", lane_list(lanes))
    }
}

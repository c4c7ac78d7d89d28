//! The region that is being recorded.

use crate::recorder::{self, RegionId};

/// The region now open: what a variable declared here belongs to.
#[track_caller]
pub fn region() -> RegionId {
    recorder::with(|recorder| recorder.region())
}

/// Whether the code that follows is unreachable.
#[track_caller]
pub fn ended() -> bool {
    recorder::with(|recorder| recorder.ended())
}

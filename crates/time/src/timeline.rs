//! What happens when in the CTAs of a launch, as slices of time.

use crate::stall::Stall;

/// A unit whose slices follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// A warp of a CTA.
    Warp {
        /// The linear index of the CTA.
        cta: u32,
        /// The warp in it.
        warp: u32,
    },
    /// The copies of an SM's tensor memory accelerator, which overlap.
    Copies {
        /// The SM.
        sm: u32,
    },
    /// The tensor core of a partition of an SM.
    TensorCore {
        /// The SM.
        sm: u32,
        /// The partition.
        partition: u32,
    },
}

/// A stretch of time on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The unit.
    pub track: Track,
    /// The first cycle, and the one after the last.
    pub cycles: (u64, u64),
    /// The instruction, by its index in [`Prediction::instructions`](crate::Prediction::instructions).
    pub instruction: u32,
    /// The lanes of a warp that execute it, a bit each.
    pub lanes: u32,
    /// The reason that a warp waited before it issued; of other tracks `Selected`.
    pub stall: Stall,
}

/// The slices of some CTAs, while they are simulated.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// CTAs with linear indices below this are recorded.
    pub(crate) ctas: u32,
    /// Slices, whose instruction is an operation yet.
    pub(crate) slices: Vec<Slice>,
}

impl Timeline {
    /// Adds a slice, which takes a cycle at least.
    pub(crate) fn add(&mut self, slice: Slice) {
        if slice.cycles.0 < slice.cycles.1 {
            self.slices.push(slice);
        }
    }
}

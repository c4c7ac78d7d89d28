//! What a kernel does that is judged when it is complete.

use warpwright_ir::{Kernel, Location, Register};

use super::facts::PipelineId;
use super::region::RegionId;

/// The notes of a kernel, each kind in the order of the kernel.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) demands: Vec<Demand>,
    pub(crate) plans: Vec<PlanIndex>,
    pub(crate) shared_tiles: Vec<SharedTile>,
    pub(crate) collectives: Vec<Collective>,
    pub(crate) departures: Vec<Departure>,
    pub(crate) stage_steps: Vec<StageStep>,
    pub(crate) mbarrier_indices: Vec<MbarrierIndex>,
}

/// The device conditions around an operation, and whether each holds there.
pub(crate) type Conditions = Vec<(Register, bool)>;

/// A mistake that only the whole kernel shows: what is wrong, if something is.
pub(crate) type Demand = (Location, Box<dyn FnOnce(&Kernel) -> Option<String>>);

/// A thread takes its part in a plan.
pub(crate) struct PlanIndex {
    /// The start of a sentence: `the MMA has`.
    pub(crate) plan: &'static str,
    pub(crate) threads: u32,
    pub(crate) index: Register,
    pub(crate) conditions: Conditions,
    pub(crate) location: Location,
}

/// A tile that several CTAs load.
pub(crate) struct SharedTile {
    /// Its coordinates in the matrix, without the slice.
    pub(crate) coordinates: Vec<Register>,
    /// The CTAs that receive a slice: a bit for each rank.
    pub(crate) receivers: Register,
    pub(crate) location: Location,
}

/// Who executes an operation together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The lanes of this mask, in each warp.
    Lanes(u32),
    /// The lanes of a mask that the kernel computes.
    LanesOf(Register),
    /// The threads of the block, if it has as many.
    Block(Option<u32>),
    Cluster,
}

/// An operation that a group executes together.
pub(crate) struct Collective {
    pub(crate) group: Group,
    pub(crate) conditions: Conditions,
    /// How many of the kernel's departures are recorded before it.
    pub(crate) departures: usize,
    pub(crate) location: Location,
}

/// A `return` of the kernel.
pub(crate) struct Departure {
    pub(crate) conditions: Conditions,
    pub(crate) location: Location,
}

/// What a consumer does with a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageUse {
    Wait,
    Release,
}

/// A wait for a stage of a pipeline, or its release.
pub(crate) struct StageStep {
    pub(crate) pipeline: PipelineId,
    pub(crate) used: StageUse,
    /// The regions around it, outermost first, and whether each is a loop.
    pub(crate) around: Vec<(RegionId, bool)>,
    pub(crate) location: Location,
}

/// An index of an mbarrier in an array of them.
pub(crate) struct MbarrierIndex {
    /// The base register of the array.
    pub(crate) array: Register,
    /// The mbarriers of the array.
    pub(crate) count: u32,
    pub(crate) index: Register,
    pub(crate) location: Location,
}

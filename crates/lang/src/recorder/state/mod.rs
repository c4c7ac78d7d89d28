//! What a recorder knows of the kernel so far: plain data, below what fills and checks it.

mod allocation;
mod elements;
mod error;
mod facts;
mod notes;
mod owner;
mod region;
mod tensor_map;
mod views;

pub(crate) use self::allocation::{Accessed, Allocation};
pub(crate) use self::elements::{Elements, TileElement, Transfer};
pub use self::error::StagingError;
pub(crate) use self::facts::{Columns, Facts, PipelineId, Stages};
pub(crate) use self::notes::{
    Collective, Conditions, Departure, Group, MbarrierIndex, Notes, PlanIndex, SharedTile, StageStep,
    StageUse,
};
pub(crate) use self::owner::{NO_REGISTER, Owner, number_in_kernel};
pub use self::region::RegionId;
pub(crate) use self::region::{Choice, IfResult, Region, RegionKind, RegionRecord, Scope};
pub(crate) use self::tensor_map::{CopyAccess, TensorMapOrigin};
pub(crate) use self::views::{View, Views};

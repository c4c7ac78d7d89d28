//! What a recorder knows of the kernel so far: plain data, below what fills and checks it.

mod allocation;
mod elements;
mod error;
mod facts;
mod owner;
mod plan;
mod region;
mod tensor_map;
mod views;

pub(in crate::recorder) use self::allocation::Accessed;
pub(crate) use self::allocation::Allocation;
pub(crate) use self::elements::TileElement;
pub(in crate::recorder) use self::elements::{Elements, Transfer};
pub use self::error::StagingError;
pub(crate) use self::facts::{Columns, PipelineId, Stages};
pub(in crate::recorder) use self::facts::{Demand, Facts};
pub(in crate::recorder) use self::owner::Owner;
pub(crate) use self::owner::{NO_REGISTER, number_in_kernel};
pub(in crate::recorder) use self::plan::PlanIndex;
pub use self::region::RegionId;
pub(crate) use self::region::{Choice, IfResult, Scope};
pub(in crate::recorder) use self::region::{Region, RegionKind, RegionRecord};
pub(crate) use self::tensor_map::{CopyAccess, TensorMapOrigin};
pub(crate) use self::views::View;
pub(in crate::recorder) use self::views::Views;

//! What `#[kernel]` and `#[device]` expand to.
//!
//! The attributes rewrite the syntax that Rust does not let a library overload (`if`, loops,
//! assignment, comparison, ...) into calls of these public items. They are not meant to be called
//! by hand. Their names are chosen for readable compiler messages.

mod assertion;
mod branch;
mod cast;
mod comparison;
mod element;
mod field;
mod function;
mod instruction;
mod logic;
mod place;
mod range;
mod region;
mod repetition;

pub use self::assertion::{Asserted, KnownToHost, panics};
pub use self::branch::{BuildTimeBranch, Condition, DeviceBranch, Never, WhileTest};
pub use self::cast::{BuildTimeNumber, Cast, DeviceCast};
pub use self::comparison::{BesideFloat, Equality, Inequality};
pub use self::element::{
    AssignedElement, AssignedElements, CollectionElements, DeviceMemory, StaysInMemory,
    elements_stay_in_memory,
};
pub use self::field::{Field, FieldShape};
pub use self::function::{Function, KernelFrame, Returned};
pub use self::instruction::{Input, Output, record_instruction};
pub use self::logic::{Both, Either, Truth};
pub use self::place::{
    Assigned, BuildTimeCollection, Carried, Changed, CompoundAssigned, ReadableAs, Reading, Variable,
};
pub use self::range::{Bounds, BuildTimeBound, DeviceRange, InclusiveBounds, RangeElement, Stride};
pub use self::region::{ended, region};
pub use self::repetition::{
    Broken, BuildTimeLoop, Countable, DeviceLoop, Endless, Head, Iterate, LoopValue, Repetition,
};
pub use crate::device_value::{DeviceValue, Sources, Yields, yield_registers};
pub use warpwright_ir::Register;

/// Traits whose methods apply where a wrapper has none of its own; attributed bodies import them
/// unnamed.
pub mod build_time {
    pub use super::assertion::BuildTimeAsserted as _;
    pub use super::cast::BuildTimeCast as _;
    pub use super::element::{ElementsOfCollection as _, ElementsOfMemory as _, PlainElements as _};
    pub use super::field::{BuildTimeField as _, ComparableField as _, OpaqueField as _};
    pub use super::function::{BuildTimeFunction as _, BuildTimeReturned as _};
    pub use super::place::{
        BuildTimeAssigned as _, BuildTimeCarried as _, BuildTimeOperatorAssigned as _, BuildTimeReading as _,
        OperatorAssigned as _, PlainVariable as _, UnjudgedChange as _,
    };
    pub use super::repetition::{BuildTimeBroken as _, IteratedHead as _, Repetition as _};
}

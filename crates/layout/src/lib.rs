//! The layout algebra: functions from the coordinates of a tensor to offsets in memory, as
//! shape:stride.
//!
//! A [`Layout`] is a value: nested shapes and strides. Their leaves ([`Int`]) are static, known
//! when a kernel is built, or dynamic, device values. Operations on dynamic leaves become
//! arithmetic on the device. An operation that needs a static leaf refuses a dynamic one with an
//! error that names the leaf and the reason.
//!
//! | Items | Purpose |
//! |---|---|
//! | shape, stride, coordinates, slices | [`Layout`], [`coordinate_of`], [`index_of`] |
//! | [`coalesce`](Layout::coalesce), [`filter`](Layout::filter), [`flatten`](Layout::flatten), [`group`](Layout::group), [`zip`](Layout::zip) | the same function in another form |
//! | [`compose`](Layout::compose) | a layout read through another |
//! | [`complement`](Layout::complement) | the offsets at which a layout repeats without overlap |
//! | [`logical_divide`](Layout::logical_divide), `zipped_`, `tiled_`, `flat_` | a layout split into tiles |
//! | [`logical_product`](Layout::logical_product), `zipped_`, `tiled_`, `flat_`, [`blocked`](Layout::blocked_product), [`raked`](Layout::raked_product), [`tile_to_shape`](Layout::tile_to_shape) | repetition |
//! | [`right_inverse`](Layout::right_inverse), [`left_inverse`](Layout::left_inverse), [`nullspace`](Layout::nullspace), [`max_common_layout`](Layout::max_common_layout) | inverses |
//! | [`recast`](Layout::recast), [`upcast`](Layout::upcast), [`downcast`](Layout::downcast) | another element width |
//! | [`Swizzle`], [`ComposedLayout`] | functions applied after a layout |
//! | [`local_tile`](ComposedLayout::local_tile), [`local_partition`](ComposedLayout::local_partition), [`TiledCopy`], [`TiledMma`] | tiles, and the part of one thread |
//! | [`atom`] | the instructions that copy and multiply |
//! | [`Access`], [`choose_swizzle`] | bank conflicts, sectors, and the swizzle that avoids conflicts |
//! | [`expression`], [`picture`] | layouts as text and as pictures |
//!
//! The documentation of each operation states its post-condition; `tests/postconditions.rs` checks
//! it by enumeration.

pub mod atom;
mod banks;
mod coalesce;
mod complement;
mod composed;
mod composition;
mod coordinate;
mod divide;
mod error;
pub mod expression;
mod int;
mod inverse;
mod layout;
pub mod picture;
mod product;
mod recast;
mod stride;
mod swizzle;
mod swizzle_choice;
mod tiled_copy;
mod tiled_mma;
mod tiler;
mod tiling;
mod tuple;

pub use banks::{Access, BANK_BYTES, BANKS, Conflicts, SECTOR_BYTES, Sectors};
pub use composed::{ComposedLayout, Stage};
pub use coordinate::{All, Coordinate, Index, check_coordinate, coordinate_of, index_of};
pub use error::{Error, Illustration, Marked};
pub use int::{Expression, Int, Operator, Variable};
pub use layout::Layout;
pub use stride::{Offset, Stride, StrideTuple};
pub use swizzle::Swizzle;
pub use swizzle_choice::{SwizzleChoice, SwizzleUse, choose_swizzle};
pub use tiled_copy::TiledCopy;
pub use tiled_mma::TiledMma;
pub use tiler::Tiler;
pub use tuple::{IntTuple, Tuple};

//! Running paths, warps, CTAs, clusters and grids.

pub(crate) mod cluster;
pub(crate) mod cta;
pub(crate) mod deadlock;
mod diagnosis;
pub(crate) mod grid;
pub(crate) mod path;
mod scheduled;
pub(crate) mod step;
pub(crate) mod stillness;
pub(crate) mod warp;
